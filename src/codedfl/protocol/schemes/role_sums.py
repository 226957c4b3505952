"""Role sums: role keys whose holders say S_r itself, so that the server gets the total of X'X once and solves at once.

For linear regression X'X and X'Y are all there is to know, so one answer of each role is enough. The price is that the
server learns the whole total Gram matrix, as in one-shot; single devices stay as well hidden as with role keys.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

import numpy as np

from codedfl.protocol.schemes.role_device import RoleDevice
from codedfl.protocol.schemes.role_server import RoleServer


class SumsDevice(RoleDevice):
    """Device of the scheme ``role-sums``: its constant part carries the triangle of X'X behind."""

    scheme: ClassVar[str] = "role-sums"
    reveals_gram: ClassVar[bool] = True

    def _finish_sums(self) -> None:
        assert self._gram_sum is not None and self._constant_sum is not None
        self.constant = np.concatenate([self._constant_sum, self._gram_sum], axis=1)
        self.linear = self._ring.zeros(0, 0)  # no update follows the first
        self._gram_sum = self._constant_sum = None


class SumsServer(RoleServer):
    """Server of the scheme ``role-sums``."""

    scheme: ClassVar[str] = "role-sums"

    def _sum_uploads(self, covered: Collection[int]) -> None:
        triangle, constant = self._summed(covered)
        self.pad_constant = np.concatenate([constant, triangle], axis=1)
        self.pad_linear = self._ring.zeros(0, 0)
