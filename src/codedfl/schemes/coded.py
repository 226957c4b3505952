"""What the coded schemes share beyond the protocol: the epoch's load, and models that do not depend on stragglers.

A coded scheme is one file with its device, its server and a subclass of ``CodedScheme`` that names both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.central import CentralTotals
from codedfl.fleet import Fleet
from codedfl.gradient_code import check_alpha
from codedfl.latency import crypto_macs
from codedfl.protocol.device import Device
from codedfl.protocol.server import Server
from codedfl.schemes.scheme import (
    RING_BITS,
    Conditions,
    Descent,
    EpochLoad,
    Floats,
    Scheme,
    WorkShape,
)
from codedfl.solvers import Solver


@dataclass(frozen=True)
class CodedScheme(Scheme):
    """alpha: how many devices' data each device can answer for. 1 is uncoded, D is replication."""

    alpha: int
    exact: ClassVar[bool] = True
    device_type: ClassVar[type[Device]]
    server_type: ClassVar[type[Server]]

    @property
    def label(self) -> str:
        return f"{self.name}, α = {self.alpha}"

    @property
    def parameters(self) -> dict[str, float]:
        return {"alpha": self.alpha}

    def check(self, n_devices: int) -> None:
        check_alpha(self.alpha, n_devices)

    def epoch_load(self, shape: WorkShape, fleet: Fleet) -> EpochLoad:
        """d^2 c MACs and d c numbers each way; the answer is sealed. Masks are expanded ahead and cost no waiting."""
        numbers = shape.model_numbers
        macs = shape.n_features * numbers + crypto_macs(fleet, sealed_bits=numbers * RING_BITS)
        bits = numbers * RING_BITS
        return EpochLoad(macs, bits, bits, fleet.n_devices - self.alpha + 1)

    def models(
        self, totals: CentralTotals, solver: Solver | None, descent: Descent, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        del descent, at, rng
        assert solver is not None
        return totals.train(solver)
