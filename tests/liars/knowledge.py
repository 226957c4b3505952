"""What a set of parties can compute about the others' rows from everything that crossed the stage.

First the bytes, as Dolev and Yao have it: the parties read the whole wire and all that they drew themselves; a sealed
text opens to them when the 32 bytes behind the receiver's key occur in what they can read, a bulk when its content key
does; and so on until nothing more opens. A stream is known when its seed occurs in what they can read, and a packed
number when the bytes that ``pack`` made of it do. So no kind of message and no scheme is known here.

Then linear algebra, for each prime: the numbers read are forms in known and hidden unknowns. A combination of them says
something about the data exactly when the hidden streams drop out of it; any other is uniform whatever the data are,
since streams are uniform and independent. What is left is the space of *known functionals* of the honest devices' rows.

It does not know seeds that are computed from others (HKDF): a machine that derives one must draw it from its source of
secrets, or send it, to be seen here. Nor does it count what small plaintexts add (lattice reduction).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import flint
from library import Library
from stage import Stage
from symbolic_ring import ONE, Form, Unknown

Coordinate = tuple[str, str, int]  # owner, kind of sum, index
Functional = Mapping[Coordinate, int]
_BETWEEN = b"|between two texts|"


@dataclass(frozen=True)
class Leak:
    """A functional of the honest devices' rows that is known and should not be."""

    prime: int
    devices: tuple[str, ...]
    functional: Functional

    def __str__(self) -> str:
        terms = " + ".join(f"{value} {kind}[{i}] of {owner}" for (owner, kind, i), value in self.functional.items())
        return f"modulo {self.prime} it knows of {', '.join(self.devices)}: {terms}"


class Knowledge:
    """Of the actors in ``parties`` together (the server is one of them), after all that happened on the stage so far.

    stolen: further bytes they have got hold of.
    public: devices whose rows everybody knows.
    library: of the stage, when many collusions are asked about; nothing can be stolen then.
    """

    def __init__(
        self,
        stage: Stage,
        parties: Collection[str],
        stolen: Iterable[bytes] = (),
        public: Collection[str] = (),
        library: Library | None = None,
    ) -> None:
        self._stage = stage
        self._parties = set(parties)
        self._open_rows = {rows for rows, actor in stage.owners.items() if actor in {*public, *self._parties}}
        self._library = library
        self._readable = b""
        self._texts_read: frozenset[int] = frozenset()
        if library is not None:
            self._texts_read = library.readable(self._parties)
        else:
            texts = [*stage.wire, *stolen]
            for actor in self._parties:
                texts += stage.drawn.get(actor, [])
            self._readable = _BETWEEN.join(self._opened(texts))
        self._known: dict[bytes, bool] = {}  # seeds
        self._functionals: dict[int, list[list[int]]] = {}
        self.coordinates = sorted(name for name in stage.unknowns.data if name[0] not in self._open_rows)
        self._numbers = self._read_numbers()

    # -- bytes

    def can_read(self, secret: bytes) -> bool:
        if self._library is not None:
            return not self._texts_read.isdisjoint(self._library.places(secret))
        return secret in self._readable

    def _opened(self, texts: list[bytes]) -> list[bytes]:
        """All that opens to whoever has these texts, and the texts."""
        texts = texts + [one.plaintext for one in self._stage.seals if one.actor in self._parties]
        closed = [
            (one.ciphertext, self._stage.secret_of(one.receiver), one.plaintext)
            for one in self._stage.seals
            if one.actor not in self._parties
        ]
        closed += [(one.ciphertext, one.content_key, one.plaintext) for one in self._stage.bulks]
        while True:
            readable = _BETWEEN.join(texts)
            opens = [one for one in closed if one[0] in readable and one[1] in readable]
            if not opens:
                return texts
            texts += [plaintext for _, _, plaintext in opens]
            closed = [one for one in closed if one not in opens]

    def _read_numbers(self) -> dict[int, list[dict[Unknown | Coordinate, int]]]:
        """By prime, the numbers read as rows over hidden streams and honest data; what is known is taken off."""
        rows: dict[int, dict[frozenset[tuple[object, int]], dict[Unknown | Coordinate, int]]] = {}
        for packed, forms in self._stage.unknowns.packed.items():
            if packed and self.can_read(packed):
                for form in forms:
                    row = self._unknown_part(form)
                    if row:
                        rows.setdefault(form.prime, {})[frozenset(row.items())] = row
        return {prime: list(found.values()) for prime, found in rows.items()}

    def _unknown_part(self, form: Form) -> dict[Unknown | Coordinate, int]:
        row: dict[Unknown | Coordinate, int] = {}
        for unknown, coefficient in form.terms.items():
            if unknown.data is not None:
                if unknown.data[0] not in self._open_rows:
                    row[unknown.data] = (row.get(unknown.data, 0) + coefficient) % form.prime
            elif unknown is not ONE and not self._knows(unknown):
                row[unknown] = coefficient
        return {key: value for key, value in row.items() if value}

    def _knows(self, unknown: Unknown) -> bool:
        assert unknown.stream is not None
        seed = unknown.stream[0]
        if seed not in self._known:
            self._known[seed] = self.can_read(seed)
        return self._known[seed]

    # -- linear algebra

    @property
    def primes(self) -> list[int]:
        return sorted(self._numbers)

    def functionals(self, prime: int) -> list[list[int]]:
        """Reduced basis, along ``coordinates``, of all functionals of the honest devices' rows that are known."""
        if prime not in self._functionals:
            self._functionals[prime] = self._functionals_known(prime)
        return self._functionals[prime]

    def _functionals_known(self, prime: int) -> list[list[int]]:
        rows = _without_private_streams(self._numbers.get(prime, []))
        streams = {key: i for i, key in enumerate({key for row in rows for key in row if isinstance(key, Unknown)})}
        place: dict[Unknown | Coordinate, int] = {key: i for key, i in streams.items()}  # noqa: C416 (a wider type)
        place |= {name: len(streams) + i for i, name in enumerate(self.coordinates)}
        dense = [[0] * len(place) for _ in rows]
        for numbers, row in zip(dense, rows, strict=True):
            for key, value in row.items():
                numbers[place[key]] = value
        return combinations_without(dense, range(len(streams)), range(len(streams), len(place)), prime)

    def leak(self, entitled: Mapping[int, Sequence[Functional]]) -> Leak | None:
        """The leak with the fewest devices in it, of what is known beyond the span of ``entitled`` (by prime)."""
        for prime in self.primes:
            known = self.functionals(prime)
            granted = [self._along_coordinates(one) for one in entitled.get(prime, [])]
            extent = _rank(granted, prime)
            if _rank([*granted, *known], prime) > extent:
                for devices, vector in self._by_fewest_devices(known, prime):
                    if _rank([*granted, vector], prime) > extent:
                        functional = {
                            name: value for name, value in zip(self.coordinates, vector, strict=True) if value
                        }
                        return Leak(prime, devices, functional)
        return None

    def fewest_devices(self) -> tuple[str, ...]:
        """The smallest set of honest devices of whose rows something is known by itself; empty if nothing is."""
        found = [next(self._by_fewest_devices(self.functionals(prime), prime), ((), [])) for prime in self.primes]
        return min((devices for devices, _ in found if devices), key=len, default=())

    def fewest_rows(self) -> tuple[str, ...]:
        """The same of single rows, where the stage tells them apart; of up to three, since all sets are looked at."""
        for size in range(1, 4):
            for chosen in itertools.combinations(sorted({rows for rows, _, _ in self.coordinates}), size):
                if self.speaks_of(chosen):
                    return chosen
        return ()

    def speaks_of(self, rows: Collection[str]) -> bool:
        """Whether something is known of these rows alone."""
        others = [i for i, (name, _, _) in enumerate(self.coordinates) if name not in rows]
        inside = [i for i, (name, _, _) in enumerate(self.coordinates) if name in rows]
        return any(combinations_without(self.functionals(prime), others, inside, prime) for prime in self.primes)

    def rank_within(self, prime: int, kind: str) -> int:
        """How many independent functionals of one kind of sum alone are known ("gram": directions of X'X)."""
        known = self.functionals(prime)
        outside = [i for i, name in enumerate(self.coordinates) if name[1] != kind]
        return len(known) - _rank([[row[i] for i in outside] for row in known], prime)

    def _along_coordinates(self, functional: Functional) -> list[int]:
        # A device that never summed its rows up has no coordinates: no functional of them can be known.
        if not functional.keys() <= set(self.coordinates):
            return [0] * len(self.coordinates)
        return [functional.get(name, 0) for name in self.coordinates]

    def _by_fewest_devices(self, known: list[list[int]], prime: int) -> Iterator[tuple[tuple[str, ...], list[int]]]:
        """All sets of devices with the known functionals of their rows alone, small sets first."""
        device_of = [self._stage.owners[owner] for owner, _, _ in self.coordinates]
        for size in range(1, len(set(device_of)) + 1):
            for chosen in itertools.combinations(sorted(set(device_of)), size):
                others = [i for i, device in enumerate(device_of) if device not in chosen]
                inside = [i for i, device in enumerate(device_of) if device in chosen]
                for row in combinations_without(known, others, inside, prime):
                    vector = [0] * len(self.coordinates)
                    for place, value in zip(inside, row, strict=True):
                        vector[place] = value
                    yield chosen, vector


def _without_private_streams(
    rows: list[dict[Unknown | Coordinate, int]],
) -> list[dict[Unknown | Coordinate, int]]:
    """Without rows that hold a stream's number that no other row holds: nothing can cancel it."""
    while True:
        count = Counter(key for row in rows for key in row if isinstance(key, Unknown))
        kept = [row for row in rows if all(not isinstance(key, Unknown) or count[key] > 1 for key in row)]
        if len(kept) == len(rows):
            return rows
        rows = kept


def combinations_without(
    rows: Sequence[Sequence[int]], unwanted: Sequence[int], wanted: Sequence[int], prime: int
) -> list[list[int]]:
    """A basis of the combinations of ``rows`` that vanish in the columns ``unwanted``, along the columns ``wanted``."""
    moved = [[row[i] for i in [*unwanted, *wanted]] for row in rows]
    skip = _rank([row[: len(unwanted)] for row in moved], prime)
    # In reduced form the rows that begin in an unwanted column come first, as many as those columns' rank.
    return [row[len(unwanted) :] for row in reduced_rows(moved, prime, skip)]


def reduced_rows(rows: Sequence[Sequence[int]], prime: int, skip: int = 0) -> list[list[int]]:
    """The reduced row echelon form modulo a prime without its zero rows and without the first ``skip`` rows."""
    if not rows or not rows[0]:
        return []
    form, rank = flint.nmod_mat([list(row) for row in rows], prime).rref()
    return [[int(form[i, j]) for j in range(form.ncols())] for i in range(skip, rank)]


def _rank(rows: Sequence[Sequence[int]], prime: int) -> int:
    if not rows or not rows[0]:
        return 0
    return int(flint.nmod_mat([list(row) for row in rows], prime).rank())
