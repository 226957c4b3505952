"""One shot: X'X and X'Y summed securely once, the server solves in closed form. The honest floor of every comparison.

Coded keys with the answer S_i itself instead of S_i e: for linear regression these sums are sufficient, so one
answer is enough. The price is that the server learns the whole total Gram matrix; conjugate gradient on coded keys
takes about as long and shows it a few directions. A device takes part only if its operator chose this scheme.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes import ONE_SHOT
from codedfl.solve.registry import CLOSED_FORM
from codedfl.solve.solver import Solver
from codedfl.typing import Floats
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.coded import CodedScheme
from codedfl_lab.costs.coded_keys import CodedKeys
from codedfl_lab.costs.scheme import Conditions, Descent, EpochLoad, WorkShape
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import crypto_macs


class SolvedAtOnce(CodedScheme):
    """What schemes share whose only epoch brings the total of X'X itself; the scheme's keys come from another base."""

    reveals_gram: ClassVar[bool] = True
    server_sees: ClassVar[str] = "the total Gram matrix"

    @property
    def default_solver(self) -> str:
        return CLOSED_FORM

    @property
    def models_key(self) -> Hashable:
        return "closed form"

    def epoch_load(self, shape: WorkShape, fleet: Fleet) -> EpochLoad:
        """Nothing to compute but masks, the bulk to send; an almost empty request comes down."""
        bits = shape.bulk_bits
        masks = self._mask_macs(shape, fleet) * shape.bulk_numbers / shape.model_numbers
        return EpochLoad(crypto_macs(fleet, sealed_bits=bits) + masks, 0, bits, self.quorum(fleet.n_devices))

    def models(
        self, totals: CentralTotals, solver: Solver | None, descent: Descent, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        del solver, at, rng
        return iter([totals.ridge(descent.regularisation)])


@dataclass(frozen=True)
class OneShot(SolvedAtOnce, CodedKeys):
    """One epoch whose answer is the whole coded key."""

    name: ClassVar[str] = ONE_SHOT.name
    sharing_scheme: ClassVar[SharingScheme] = ONE_SHOT
