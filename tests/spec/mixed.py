"""One study for parties of the specification and of the package: the same roster, layouts, rows and roots."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np
from spec.study import Study

from codedfl.crypto.sealed import Identity
from codedfl.sum import device as of_package
from codedfl.sum.in_memory import InMemory
from codedfl.sum.layout import Layout, Words
from codedfl.sum.terms import Participant, Terms
from codedfl.sum.wire import Refused
from spec import device as of_spec
from spec import numbers

NOW = 1_800_000_000.0
Rows = tuple[list[int], list[list[int]]]


def secret(label: str) -> bytes:
    """Of a party, or anything else that is drawn once."""
    return hashlib.sha256(label.encode()).digest()


SERVER = Identity(secret("server"))


@dataclass
class Federation:
    """Who takes part, and what is asked for."""

    groups: Mapping[int, Collection[str]]
    z: int
    layouts: dict[bytes, Layout]
    key_only: Collection[str] = ()
    holders: int | None = None
    fixed: dict[bytes, set[int]] = field(default_factory=dict)
    needed: dict[bytes, set[bytes]] = field(default_factory=dict)
    most: int | None = None  # of arguments, and of directions
    drawn: dict[tuple[str, bytes], Rows] = field(default_factory=dict)

    @property
    def terms(self) -> Terms:
        people = [(name, number) for number, names in self.groups.items() for name in names]
        everybody = [*people, *((name, None) for name in self.key_only)]
        roster = tuple(Participant(name, Identity(secret(name)).public, group) for name, group in everybody)
        return Terms(secret("study"), SERVER.public, roster, self.z, holders=self.holders)

    @property
    def study(self) -> Study:
        keys = {one.name: one.key for one in self.terms.participants}
        groups = {number: sorted(names) for number, names in self.groups.items()}
        layouts = {ask: spec_layout(layout) for ask, layout in self.layouts.items()}
        return Study(
            secret("study"), SERVER.public, keys, groups, self.z, 2, self.holders, layouts, self.fixed, self.needed
        )

    def rows(self, name: str, ask: bytes) -> Rows:
        """A vector and a symmetric matrix."""
        if (name, ask) not in self.drawn:
            self.drawn[name, ask] = self._rows(name, ask)
        return self.drawn[name, ask]

    def _rows(self, name: str, ask: bytes) -> Rows:
        layout, drawn = self.layouts[ask], random.Random(f"{name} {ask.hex()}")
        most = max(1, layout.limit // 20)
        matrix = [[0] * layout.size for _ in range(layout.size)]
        for i in range(layout.size):
            for j in range(i, layout.size):
                matrix[i][j] = matrix[j][i] = drawn.randint(-most, most)
        return [drawn.randint(-most, most) for _ in range(layout.length)], matrix

    def expected(self, ask: bytes, owners: Collection[str]) -> list[int]:
        """The sum in plain integers."""
        return [sum(column) for column in zip(*(self.rows(name, ask)[0] for name in owners), strict=True)]

    def package_device(self, name: str, clock: Callable[[], float] = lambda: NOW) -> of_package.Device:
        memory = InMemory(arguments=self.most, directions=self.most)
        roots = roots_of(name)
        return of_package.Device(
            name, Identity(secret(name)), OfPackage(self, name), memory, now=clock, random_bytes=roots
        )

    def spec_device(self, name: str, clock: Callable[[], float] = lambda: NOW) -> of_spec.Device:
        words = {}
        if any(name in names for names in self.groups.values()):
            words = {
                ask: numbers.words_of(spec_layout(self.layouts[ask]), *self.rows(name, ask)) for ask in self.layouts
            }
        memory = of_spec.Memory(self.most, self.most)
        return of_spec.Device(name, secret(name), self.study, words, memory, clock, roots_of(name))


def roots_of(name: str) -> Callable[[int], bytes]:
    """The same roots for both kinds of device."""
    return random.Random(f"roots of {name}").randbytes


def spec_layout(layout: Layout) -> numbers.Layout:
    return numbers.Layout(
        *(layout.bits, layout.words, layout.length, layout.limit, layout.size, layout.columns, layout.room),
        certified=layout.certified,
    )


@dataclass
class OfPackage:
    """The contract of a device of the package; for the server without a name."""

    federation: Federation
    name: str = ""

    @property
    def terms(self) -> Terms:
        return self.federation.terms

    def layout(self, ask: bytes) -> Layout:
        if ask not in self.federation.layouts:
            raise Refused("request", "no such statistic")
        return self.federation.layouts[ask]

    def groups(self, ask: bytes) -> Collection[int]:
        return self.federation.fixed.get(ask, ())

    def needs(self, ask: bytes) -> Collection[bytes]:
        return self.federation.needed.get(ask, ())

    def words(self, ask: bytes) -> Words:
        vector, matrix = self.federation.rows(self.name, ask)
        triangle = [matrix[i][j] for i in range(len(matrix)) for j in range(i, len(matrix))]
        return self.layout(ask).words_of(np.array(vector, dtype=object), np.array(triangle, dtype=object))
