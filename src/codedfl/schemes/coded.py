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
from codedfl.exact.ring import BYTES_PER_RESIDUE
from codedfl.fleet.fleet import Fleet
from codedfl.fleet.latency import crypto_macs, ring_macs
from codedfl.privacy.exposure import Exposure, coded_exposure
from codedfl.protocol.device import Device
from codedfl.protocol.server import Server
from codedfl.schemes.central import CentralTotals
from codedfl.schemes.scheme import Conditions, Descent, DeviceCosts, EpochLoad, Scheme, WorkShape
from codedfl.solve.solver import Solver
from codedfl.typing import Floats

_ONE_GROUP = 50  # up to so many devices one code serves all
_GROUP_SIZE = 25
_ALPHAS_TRIED = 14


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

    @classmethod
    def default_for(cls, n_devices: int) -> CodedScheme:
        """alpha = D - 2, the paper's best; of many devices groups of about 25: a device's work must not grow with D."""
        groups = 1 if n_devices <= _ONE_GROUP else round(n_devices / _GROUP_SIZE)
        return cls(max(1, n_devices // groups - 2), groups)

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[CodedScheme]:
        """alpha from 1 to a group's size; one group for all if a device can bear D pads, else of about 25 and 50."""
        counts = {1} if n_devices <= _ONE_GROUP else {round(n_devices / size) for size in (_GROUP_SIZE, _ONE_GROUP)}
        for groups in sorted(counts):
            size = n_devices // groups
            for alpha in sorted({round(x) for x in np.linspace(1, size, min(_ALPHAS_TRIED, size))}):
                yield cls(alpha, groups)

    def exposure(self, n_devices: int) -> Exposure:
        return coded_exposure(n_devices, self.alpha, self.groups)

    def device_costs(self, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
        """A float32 plane of d x d for each prime, the shared bulk once on its way up, and what the scheme adds."""
        planes = shape.number_bits // (8 * BYTES_PER_RESIDUE)
        bulk = shape.bulk_bits / 8
        memory = 4.0 * planes * shape.n_features**2 + bulk
        return self._epoch_costs(shape, at, epochs, memory).plus(upload_bytes=bulk)

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
