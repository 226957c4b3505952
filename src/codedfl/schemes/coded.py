"""What the coded schemes share beyond the protocol: the epoch's load, and models that do not depend on stragglers.

A coded scheme is one file with its device, its server and a subclass of ``CodedScheme`` that names both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.code.gradient_code import coded_quorum, group_sizes
from codedfl.code.quorum import Quorum
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.fleet.latency import crypto_macs, ring_macs
from codedfl.protocol.device import Device
from codedfl.protocol.server import Server
from codedfl.schemes.central import CentralTotals
from codedfl.schemes.scheme import Conditions, Descent, EpochLoad, Scheme, WorkShape
from codedfl.solve.solver import Solver
from codedfl.typing import Floats


@dataclass(frozen=True)
class CodedScheme(Scheme):
    """alpha: how many devices' data each device can answer for. 1 is uncoded, D is replication.

    groups: that many groups with a code each; alpha then counts within a group.
    spare: answers beyond D - alpha + 1 that the server waits for, in each group, to find wrong ones.
    """

    alpha: int
    groups: int = 1
    spare: int = 0
    exact: ClassVar[bool] = True
    device_type: ClassVar[type[Device]]
    server_type: ClassVar[type[Server]]
    reveals_gram: ClassVar[bool] = False  # the server learns the whole total of X'X

    @property
    def label(self) -> str:
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{self.name}, α = {self.alpha}" + groups + (f", {self.spare} spare" if self.spare else "")

    @property
    def parameters(self) -> dict[str, float]:
        return {"alpha": self.alpha, "groups": self.groups, "spare": self.spare}

    @property
    def grouped(self) -> bool:
        return self.groups > 1

    def check(self, n_devices: int) -> None:
        group_sizes(n_devices, self.alpha, self.groups)
        if not 0 <= self.spare < self.alpha:
            raise InvalidInput(f"spare must be between 0 and alpha - 1 ({self.alpha - 1}), got {self.spare}")

    def quorum(self, n_devices: int) -> Quorum:
        """Which answers end an epoch: the server's own rule, for alpha - 1 stragglers in each group less the spare."""
        return coded_quorum(n_devices, self.alpha, self.groups).with_spare(self.spare)

    def epoch_load(self, shape: WorkShape, fleet: Fleet) -> EpochLoad:
        """d^2 c MACs and d c numbers each way; the answer is sealed. Masks are expanded ahead and cost no waiting."""
        bits = shape.model_bits
        product = ring_macs(shape.n_features * shape.model_numbers, shape.number_bits)
        return EpochLoad(product + crypto_macs(fleet, sealed_bits=bits), bits, bits, self.quorum(fleet.n_devices))

    def models(
        self, totals: CentralTotals, solver: Solver | None, descent: Descent, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        del descent, at, rng
        assert solver is not None
        return totals.train(solver)
