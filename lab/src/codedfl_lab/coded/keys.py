"""Coded keys: one upload to the server, and the seeds of its pads to those who answer for the device.

The server holds data plus pads, the devices pads alone; a coded answer is one of pads. Seeds travel instead of data, so
nothing bulky comes down to a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from codedfl.sum.keys import GenerationKeys, derive
from codedfl_lab.coded.form import NUMBERS, CodedForm, Term
from codedfl_lab.primes.pads import add_expanded
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import Ring


class Keyed(CodedForm):
    """See the module."""

    name: ClassVar[str] = "coded-keys"
    holds_uploads: ClassVar[bool] = False
    sign: ClassVar[int] = -1

    def secret(self, keys: GenerationKeys, bound: bytes) -> bytes:
        """The seed of its pad."""
        return derive(keys.root, "codedfl lab pad", bound)

    def upload(self, keys: GenerationKeys, server: bytes, bound: bytes, ring: Ring, numbers: Planes) -> bytes:
        """Numbers plus pad."""
        del server
        padded = numbers.copy()
        add_expanded(ring, padded, [[1]] * len(ring.primes), [self.secret(keys, bound)], NUMBERS)
        return ring.pack(padded)

    def add(self, ring: Ring, total: Planes, terms: Sequence[Term]) -> None:
        """All seeds in one pass over the sum."""
        coefficients = [[term.coefficients[k] for term in terms] for k in range(len(ring.primes))]
        add_expanded(ring, total, coefficients, [term.secret for term in terms], NUMBERS)

    def known(self, ring: Ring, total: Planes, shared: bytes, body: bytes, bound: bytes) -> None:
        """Data plus pads."""
        del shared, bound
        ring.check_packed_length(body, total.shape[1])
        ring.add_scaled_packed(total, [[1]] * len(ring.primes), [body])
