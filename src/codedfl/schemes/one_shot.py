"""One shot: X'X and X'Y summed securely once, the server solves in closed form. The honest floor of every comparison.

Coded keys with the answer S_i itself instead of S_i e: for linear regression these sums are sufficient, so one
answer is enough. The price is that the server learns the whole total Gram matrix; conjugate gradient on coded keys
takes about as long and shows it a few directions. A device takes part only if its operator chose this scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl import pads
from codedfl.central import CentralTotals
from codedfl.fleet import Fleet
from codedfl.latency import crypto_macs
from codedfl.protocol.device import Device
from codedfl.protocol.server import Server
from codedfl.schemes.coded_keys import CodedKeys, KeysDevice, KeysServer
from codedfl.schemes.coded_padded import CONSTANT, GRAM
from codedfl.schemes.scheme import RING_BITS, Conditions, Descent, EpochLoad, Floats, WorkShape
from codedfl.solvers import Solver


class OneShotDevice(KeysDevice):
    """Device of the scheme ``one-shot``: its coded constant part carries the triangle of X'X behind."""

    scheme: ClassVar[str] = "one-shot"
    reveals_gram: ClassVar[bool] = True

    def _finish_sharing(self) -> None:
        ring, code, p = self._ring, self._agreed.code, self._agreed.parameters
        seeds = [self._pad_seeds[j] for j in code.row_support(self._position)]
        coefficients = code.coefficients(self._position)
        self.constant = ring.zeros(p.answer_length(1))
        pads.add_expanded(ring, self.constant[:, : p.constant_length], coefficients, seeds, self._run, CONSTANT)
        pads.add_expanded(ring, self.constant[:, p.constant_length :], coefficients, seeds, self._run, GRAM)
        self.linear = ring.zeros(0, 0)  # no update follows the first
        self._pad_seeds = {}


class OneShotServer(KeysServer):
    """Server of the scheme ``one-shot``."""

    scheme: ClassVar[str] = "one-shot"

    def _can_start(self) -> bool:
        if len(self._shared) < self._agreed.n_devices or self._upload_sum is None or self.pad_constant is None:
            return False
        self.pad_constant = np.concatenate([self.pad_constant, self._upload_sum], axis=1)
        self.pad_linear = self._ring.zeros(0, 0)
        self._upload_sum = None
        return True


@dataclass(frozen=True)
class OneShot(CodedKeys):
    """One epoch whose answer is the whole coded key."""

    name: ClassVar[str] = OneShotServer.scheme
    device_type: ClassVar[type[Device]] = OneShotDevice
    server_type: ClassVar[type[Server]] = OneShotServer
    reveals_gram: ClassVar[bool] = True

    def epoch_load(self, shape: WorkShape, fleet: Fleet) -> EpochLoad:
        """Nothing to compute, the bulk to send; an almost empty request comes down."""
        bits = shape.bulk_numbers * RING_BITS
        return EpochLoad(crypto_macs(fleet, sealed_bits=bits), 0, bits, self.quorum)

    def models(
        self, totals: CentralTotals, solver: Solver | None, descent: Descent, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        del solver, at, rng
        return iter([totals.ridge(descent.regularisation)])
