"""One shot: X'X and X'Y summed securely once, the server solves in closed form. The honest floor of every comparison.

Coded keys with the answer S_i itself instead of S_i e: for linear regression these sums are sufficient, so one
answer is enough. The price is that the server learns the whole total Gram matrix; conjugate gradient on coded keys
takes about as long and shows it a few directions. A device takes part only if its operator chose this scheme.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.fleet.fleet import Fleet
from codedfl.fleet.latency import crypto_macs
from codedfl.protocol.device import Device
from codedfl.protocol.schemes.one_shot import OneShotDevice, OneShotServer
from codedfl.protocol.server import Server
from codedfl.schemes.central import CentralTotals
from codedfl.schemes.coded_keys import CodedKeys
from codedfl.schemes.scheme import Conditions, Descent, EpochLoad, WorkShape
from codedfl.solve.solver import Solver
from codedfl.typing import Floats

_CLOSED_FORM = "closed-form"


@dataclass(frozen=True)
class OneShot(CodedKeys):
    """One epoch whose answer is the whole coded key."""

    name: ClassVar[str] = OneShotServer.scheme
    device_type: ClassVar[type[Device]] = OneShotDevice
    server_type: ClassVar[type[Server]] = OneShotServer
    reveals_gram: ClassVar[bool] = True
    server_sees: ClassVar[str] = "the total Gram matrix"

    @property
    def default_solver(self) -> str:
        return _CLOSED_FORM

    def solvers(self, names: Sequence[str]) -> Sequence[str]:
        del names
        return (_CLOSED_FORM,)

    @property
    def models_key(self) -> Hashable:
        return self.name

    def epoch_load(self, shape: WorkShape, fleet: Fleet) -> EpochLoad:
        """Nothing to compute, the bulk to send; an almost empty request comes down."""
        bits = shape.bulk_bits
        return EpochLoad(crypto_macs(fleet, sealed_bits=bits), 0, bits, self.quorum(fleet.n_devices))

    def models(
        self, totals: CentralTotals, solver: Solver | None, descent: Descent, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        del solver, at, rng
        return iter([totals.ridge(descent.regularisation)])
