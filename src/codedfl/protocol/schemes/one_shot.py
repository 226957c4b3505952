"""One shot: coded keys whose first answer carries the triangle of X'X behind the constant; no update follows."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.crypto import pads
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import CONSTANT, GRAM


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
