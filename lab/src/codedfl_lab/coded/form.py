"""What tells one coded scheme from another: four functions and two facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol

from codedfl.sum.keys import GenerationKeys
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import Ring

NUMBERS = "numbers"  # the purpose of the stream of a pad


class Term(NamedTuple):
    """One device's part in another's sum: its coefficient modulo each prime, its secret, its body where it was put."""

    coefficients: Sequence[int]
    secret: bytes
    body: bytes
    bound: bytes


class CodedForm(Protocol):
    """A scheme with a gradient code.

    Every key it uses is bound to ``bound``: study, ask, members, device, and the nonce that follows from the very
    numbers that are padded. So one key pads one upload, with no memory.
    """

    name: ClassVar[str]
    holds_uploads: ClassVar[bool]  # whether devices need each other's uploads: the server puts them there
    sign: ClassVar[int]  # total = sign (decoded answers - what ``known`` adds up)

    def secret(self, keys: GenerationKeys, bound: bytes) -> bytes:
        """Of an owner, for those who answer for it."""

    def upload(self, keys: GenerationKeys, server: bytes, bound: bytes, ring: Ring, numbers: Planes) -> bytes:
        """At an owner: its numbers as they leave."""

    def add(self, ring: Ring, total: Planes, terms: Sequence[Term]) -> None:
        """At a device that answers: what of these devices goes into its sum."""

    def known(self, ring: Ring, total: Planes, shared: bytes, body: bytes, bound: bytes) -> None:
        """At the server: what of a device it knows. ``shared``: the secret of its own key and the device's."""
