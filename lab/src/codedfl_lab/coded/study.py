"""What every party of a coded sum knows by itself: who takes part in which place of the code, ring, sizes, scheme.

Places in the code are the order of ``names``. It is fixed before anybody is asked for anything, and is in the digest
that every key is bound to: nobody can seat a device beside whom it likes in the middle of a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from codedfl.sum.keys import pack
from codedfl.sum.layout import Layout
from codedfl.sum.terms import Participant, Terms
from codedfl.sum.wire import Refused
from codedfl_lab.code.gradient_code import Code, make_code
from codedfl_lab.code.masks import mask_receivers, mask_senders
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.coded.form import CodedForm
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import Ring


@dataclass(frozen=True)
class Sizes:
    """Of one statistic: numbers of its vector, d of its matrix, c of every e, the largest column 1-norm of an e.

    Examples
    --------
    >>> from codedfl_lab.coded.study import Sizes
    >>> Sizes(length=4, size=3, columns=1, room=1000).numbers  # four of the vector, six of the triangle
    10
    """

    length: int
    size: int = 0
    columns: int = 0
    room: int = 0

    @property
    def numbers(self) -> int:
        return self.length + self.size * (self.size + 1) // 2


@dataclass(frozen=True)
class CodedStudy:
    """One statistic, summed by one coded scheme over these devices.

    form: the scheme. alpha, n_groups: its code. names: the devices in the code's order, with their long-term keys.
    masks: zero-sum masks on the answers; off only to show what they prevent.
    about: whatever else the parties agree on, as a digest.

    Examples
    --------
    See ``codedfl_lab.coded.session``, whose example sums over three devices.
    """

    form: CodedForm
    alpha: int
    n_groups: int
    server: bytes
    keys: Mapping[str, bytes]
    ring: Ring
    sizes: Sizes
    masks: bool = True
    about: bytes = b""

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.keys)

    @cached_property
    def digest(self) -> bytes:
        shape = (self.sizes.length, self.sizes.size, self.sizes.columns, self.sizes.room, int(self.masks))
        places = [part for item in self.keys.items() for part in item]
        whole = pack("codedfl lab study", self.form.name, self.alpha, self.n_groups, self.server, *self.ring.primes)
        return hashlib.sha256(whole + pack(*shape, self.about, *places)).digest()

    @cached_property
    def terms(self) -> Terms:
        people = tuple(Participant(name, key, 0) for name, key in self.keys.items())
        return Terms(self.digest, self.server, people, colluders=0)

    @cached_property
    def code(self) -> Code:
        return make_code(len(self.keys), self.alpha, self.ring.primes, self.n_groups)

    @cached_property
    def quorum(self) -> Quorum:
        return self.code.quorum

    def position(self, name: str) -> int:
        """In the code."""
        return self._positions[name]

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def receivers(self, position: int) -> list[int]:
        """Who needs secrets of this device, itself among them: who answers for it, and its neighbours' holders."""
        masks = mask_receivers(self.code, position) if self.masks else []
        return sorted({*self.code.column_support(position), *masks})

    def senders(self, position: int) -> list[int]:
        """Whose secrets this device needs."""
        masks = mask_senders(self.code, position) if self.masks else []
        return sorted({*self.code.row_support(position), *masks})

    # -- what ``codedfl.sum`` asks of a study: the sums of these studies have requests of their own

    def layout(self, ask: bytes) -> Layout:
        """Always refused."""
        del ask
        raise Refused("request", "a coded study must be asked by its own requests")

    def groups(self, ask: bytes) -> Collection[int]:
        """All devices are in every sum."""
        del ask
        return ()


class CodedContract(Protocol):
    """What a device knows of a study by itself, and its numbers."""

    @property
    def study(self) -> CodedStudy:
        """Who takes part, and how."""

    def numbers(self, ask: bytes) -> Planes:
        """(P, n) on the ring: the vector, then the triangle of the matrix. The same ask always has the same ones."""


class GivenNumbers:
    """A contract whose numbers are at hand.

    Examples
    --------
    See ``codedfl_lab.coded.session``.
    """

    def __init__(self, study: CodedStudy, vector: ArrayLike, triangle: ArrayLike = ()) -> None:
        self.study = study
        self._numbers = np.concatenate([np.asarray(vector), np.asarray(triangle)]).astype(np.float64)

    def numbers(self, ask: bytes) -> Planes:
        """See ``CodedContract``."""
        del ask
        return self.study.ring.from_integers(self._numbers)
