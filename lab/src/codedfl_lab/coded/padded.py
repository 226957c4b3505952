"""The paper's scheme (IV-B, IV-C): devices hold each other's data under pads that the server knows.

Psi_i and Phi_i (eqs. 6 and 7) are one row of numbers under one pad, whose seed device and server derive from their
exchange: the paper's keys Delta_i and Xi_i, of which it says that a seed is enough (footnote 1). They go to those who
answer for the device, encrypted under a key that only these can open, so that the server relays what it cannot read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from codedfl.sum.keys import GenerationKeys, derive
from codedfl.sum.wire import Refused
from codedfl_lab.coded.form import NUMBERS, CodedForm, Term
from codedfl_lab.primes.pads import add_expanded
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import Ring


class Padded(CodedForm):
    """See the module."""

    name: ClassVar[str] = "coded-padded"
    holds_uploads: ClassVar[bool] = True
    sign: ClassVar[int] = 1

    def secret(self, keys: GenerationKeys, bound: bytes) -> bytes:
        """What the upload is encrypted with."""
        return derive(keys.root, "codedfl lab content", bound)

    def upload(self, keys: GenerationKeys, server: bytes, bound: bytes, ring: Ring, numbers: Planes) -> bytes:
        """Equations 6 and 7.

        Paper: IV-B, eq. 6, eq. 7. Shown by ``make fleet SCHEME=coded-padded``.
        """
        padded = numbers.copy()
        self.known(ring, padded, keys.own.with_public(server), b"", bound)
        # Invariant: the key is of this upload alone, as ``bound`` has its nonce: the constant nonce is used once.
        return ChaCha20Poly1305(self.secret(keys, bound)).encrypt(bytes(12), ring.pack(padded), bound)

    def add(self, ring: Ring, total: Planes, terms: Sequence[Term]) -> None:
        """Equations 8 and 9, one device after the other: never more than one upload is in memory.

        Paper: IV-B, eq. 8, eq. 9. Shown by ``pytest tests/coded/test_coded_sums.py -k plain_integers``.
        """
        for term in terms:
            try:
                packed = ChaCha20Poly1305(term.secret).decrypt(bytes(12), term.body, term.bound)
            except InvalidTag:
                raise Refused("data", "an upload must open with the secret that came with it") from None
            ring.check_packed_length(packed, total.shape[1])
            ring.add_scaled_packed(total, [[one] for one in term.coefficients], [packed])

    def known(self, ring: Ring, total: Planes, shared: bytes, body: bytes, bound: bytes) -> None:
        """The pad: the server subtracts it from what it decodes (before equation 11)."""
        del body
        add_expanded(ring, total, [[1]] * len(ring.primes), [derive(shared, "codedfl lab pad", bound)], NUMBERS)
