"""A ring whose numbers remember what they are made of: the machines compute with it as they do with residues.

Every number on the ring of a run is linear in what nobody but its owner knows: the entries of X'X and X'Y of each
device, and the numbers of each pad and mask stream. A ``Form`` is such a number modulo one prime,

    sum_u f_u u      over named unknowns u, one of them the number 1,

and ``SymbolicRing`` does with arrays of forms (dtype object, one plane a prime) what ``Ring`` does with residues. The
product of two forms that both have unknowns is refused, so nothing that is not linear can hide. On the wire a form is
a number of 24 bits like any residue: its place in a table of all forms, scattered so that no two look alike by chance.

Unknowns also have the values that the real ring would have (real data, real ChaCha20 streams), so a form can be
evaluated. A server machine that decodes forms gets the true model, bit for bit; ``test_symbolic_ring`` shows it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto import pads
from codedfl.errors import MessageRefused
from codedfl.exact.fixed_point import FixedPoint
from codedfl.exact.ring import Ring

_RESIDUE_BYTES = 3  # runs in symbols take primes just under 2^24
Forms = NDArray[Any]  # of Form, one plane a prime in front

_real_add_pieces = pads.add_pieces
_real_gram, _real_cross = FixedPoint.gram, FixedPoint.cross


class Unknown:
    """One number that nobody but its owner knows.

    data: (whose, kind, index) for an entry of a device's own sums, else None.
    stream: (seed, label, plane, index) for a number of a pad or mask, else None.
    """

    __slots__ = ("_value", "data", "stream")

    def __init__(
        self,
        value: Callable[[], int] | int,
        data: tuple[str, str, int] | None = None,
        stream: tuple[bytes, str, int, int] | None = None,
    ) -> None:
        self._value, self.data, self.stream = value, data, stream

    @property
    def value(self) -> int:
        if not isinstance(self._value, int):
            self._value = self._value()
        return self._value

    def __repr__(self) -> str:
        if self.stream:
            seed, label, _plane, index = self.stream
            return f"{label}[{index}] of {seed.hex()[:6]}"
        if self.data:
            owner, kind, index = self.data
            return f"{kind}[{index}] of {owner}"
        return "1"


ONE = Unknown(1)


class Form:
    """sum of coefficients times unknowns, modulo a prime; immutable."""

    __slots__ = ("prime", "terms")

    def __init__(self, prime: int, terms: dict[Unknown, int]) -> None:
        self.prime, self.terms = prime, terms

    @classmethod
    def sum_of(cls, prime: int, parts: Iterable[tuple[int, Form]]) -> Form:
        total: dict[Unknown, int] = {}
        for factor, form in parts:
            if factor % prime:
                for unknown, coefficient in form.terms.items():
                    total[unknown] = total.get(unknown, 0) + factor * coefficient
        return cls(prime, {unknown: rest for unknown, value in total.items() if (rest := value % prime)})

    @property
    def constant(self) -> int:
        """The number itself when it has no unknowns."""
        if self.terms.keys() - {ONE}:
            raise TypeError(f"a number without unknowns is wanted here, got {self!r}")
        return self.terms.get(ONE, 0)

    def __neg__(self) -> Form:
        return Form(self.prime, {unknown: self.prime - value for unknown, value in self.terms.items()})

    def __float__(self) -> float:
        """The centred residue that the real ring would have here."""
        residue = sum(coefficient * unknown.value for unknown, coefficient in self.terms.items()) % self.prime
        return float(residue - self.prime if residue > self.prime // 2 else residue)

    def __int__(self) -> int:
        return int(float(self))

    def __deepcopy__(self, memo: object) -> Form:
        return self

    def __repr__(self) -> str:
        return " + ".join(f"{value} {unknown!r}" for unknown, value in self.terms.items()) or "0"


class Unknowns:
    """All unknowns and all forms that were ever on a wire.

    A device's sums are one set of unknowns as long as they are of the same rows on the same grid with the same noise,
    whatever the run. The first such set is called like the device, the second "device-1@2", and so on. By rows, each
    row has unknowns of its own ("device-1/3"), and the sums are forms in them: what two totals differ by can then be
    told apart although they share most rows.

    rename: what a stream's label counts as; mutants of the rules for masks are made with it.
    by_rows: whether rows are told apart.
    """

    def __init__(self, rename: Callable[[str], str] = lambda label: label, by_rows: bool = False) -> None:
        self._rename, self._by_rows = rename, by_rows
        self._found: dict[tuple[Any, ...], Unknown] = {}
        self._form_of: list[Form] = []
        self._id_of: dict[tuple[int, frozenset[tuple[Unknown, int]]], int] = {}
        self._index_of: dict[int, int] = {}
        self.packed: dict[bytes, list[Form]] = {}  # what pack has made of which numbers
        self.data: set[tuple[str, str, int]] = set()
        self.device_of: dict[str, str] = {}  # whose rows, or which row -> the device
        self._known_as: dict[str, list[bytes]] = {}  # what a device has summed up so far, in the order of its names
        self._summing: list[str] = []  # names of what the machine that is running sums up
        self._summing_of = b""
        self.contributed: dict[tuple[str, int], tuple[tuple[str, str, int], ...]] = {}  # by kind and index, its entries

    # -- what a device sums up

    def new_call(self) -> None:
        """Another machine is running, or the same for another message."""
        self._summing, self._summing_of, self.contributed = [], b"", {}

    def sums_up(self, owner: str, rows: NDArray[np.float64], grid: object) -> None:
        """The device puts the sums of these rows on the ring, on this grid."""
        self._summing_of = hashlib.sha256(rows.tobytes() + repr(grid).encode()).digest()
        if self._by_rows:
            one_each = [hashlib.sha256(row.tobytes() + repr(grid).encode()).digest() for row in rows]
            self._summing = [f"{owner}/{self._number(owner, one)}" for one in one_each]
        else:
            number = self._number(owner, self._summing_of)
            self._summing = [owner if number == 1 else f"{owner}@{number}"]
        self.device_of |= dict.fromkeys(self._summing, owner)

    def _number(self, owner: str, what: bytes) -> int:
        known = self._known_as.setdefault(owner, [])
        if what not in known:
            known.append(what)
        return known.index(what) + 1

    def with_noise(self, owner: str, seed: bytes, *sums: Forms) -> None:
        """The sums, in place, are now others, which nobody knows by knowing those without noise."""
        before = dict(enumerate(self._summing))
        number = self._number(owner, hashlib.sha256(b"noise" + seed + self._summing_of).digest())
        self._summing = [f"{name} with noise {number}" for name in before.values()]
        self.device_of |= dict.fromkeys(self._summing, owner)
        names = dict(zip(before.values(), self._summing, strict=True))
        for planes in sums:
            for place in np.ndindex(planes.shape):
                form = planes[place]
                terms = {self._renamed(unknown, form.prime, names): value for unknown, value in form.terms.items()}
                planes[place] = Form(form.prime, terms)
        self.contributed = {
            entry: tuple((names[name], *rest) for name, *rest in found)  # type: ignore[misc]
            for entry, found in self.contributed.items()
        }

    def _renamed(self, unknown: Unknown, prime: int, names: Mapping[str, str]) -> Unknown:
        assert unknown.data is not None
        name, kind, index = unknown.data
        return self._of_data(prime, (names[name], kind, index), unknown.value)

    def _of_data(self, prime: int, name: tuple[str, str, int], value: int) -> Unknown:
        self.data.add(name)
        key = (prime, name, value)  # of several rows together only the last one has the value
        if key not in self._found:
            self._found[key] = Unknown(value, data=name)
        return self._found[key]

    def of_data(
        self, owner: str, kind: str, planes: NDArray[np.float32], primes: tuple[int, ...], first: int = 0
    ) -> Forms:
        """One unknown for each number of an array of a device's own, which are their values; by rows, one for each.

        first: the index of the first of them.
        """
        if not self._summing:  # whole numbers: there are no rows behind them
            kind = "numbers"
            self.sums_up(owner, planes.astype(np.float64).reshape(1, -1), kind)
        forms = np.empty(planes.shape, dtype=object)
        for k, prime in enumerate(primes):
            for index, residue in enumerate(planes[k].reshape(-1), start=first):
                counted: dict[Unknown, int] = {}
                for place, name in enumerate(self._summing):
                    value = int(residue) % prime if place == len(self._summing) - 1 else 0
                    one = self._of_data(prime, (name, kind, index), value)
                    counted[one] = counted.get(one, 0) + 1
                forms[k].flat[index - first] = Form(prime, counted)
                self.contributed[kind, index] = tuple((name, kind, index) for name in self._summing)
        return forms

    # -- streams, and the wire

    def stream(self, primes: tuple[int, ...], seed: bytes, label: str, plane: int, index: int) -> Unknown:
        """``label`` is that of the stream, with the pair of row blocks behind it where it is not the first."""
        label = self._rename(label)
        name = (seed, label, plane, index)
        if (primes[plane], name) not in self._found:

            def value() -> int:
                ring, (plain, *pair) = Ring(primes), label.split("@")
                total = ring.zeros(index + 1)
                a, b = map(int, pair or (0, 0))
                _real_add_pieces(ring, total, {(a, b): slice(0, index + 1)}, [(1, seed)], plain)
                return int(total[plane, index]) % primes[plane]

            self._found[primes[plane], name] = Unknown(value, stream=name)
        return self._found[primes[plane], name]

    def id_of(self, form: Form) -> bytes:
        """24 bits for the wire; the same form always has the same."""
        key = (form.prime, frozenset(form.terms.items()))
        if key not in self._id_of:
            # An odd factor makes it a permutation of all numbers of 24 bits.
            scattered = (len(self._form_of) * 0x9E3779 + 0x5BD1E9) % 2**24
            self._id_of[key], self._index_of[scattered] = scattered, len(self._form_of)
            self._form_of.append(form)
        return self._id_of[key].to_bytes(_RESIDUE_BYTES, "little")

    def form_of(self, wire: bytes, prime: int) -> Form:
        index = self._index_of.get(int.from_bytes(wire, "little"))
        if index is None or self._form_of[index].prime != prime:
            raise MessageRefused(f"ring numbers must be residues below {prime}, got a larger one")
        return self._form_of[index]


@dataclass(frozen=True, repr=False)
class SymbolicRing(Ring):
    """``Ring`` on forms: the same primes, shapes, lengths on the wire and refusals.

    owner: names the device whose machine is running; what it puts on the ring as int64 is its number of rows.
    """

    unknowns: Unknowns = field(compare=False, kw_only=True)
    owner: Callable[[], str | None] = field(compare=False, kw_only=True)

    def zeros(self, *shape: int) -> Forms:
        planes = np.empty((len(self.primes), *shape), dtype=object)
        for k, prime in enumerate(self.primes):
            planes[k].fill(Form(prime, {}))
        return planes

    def from_integers(self, values: NDArray[Any]) -> Forms:
        residues = Ring(self.primes).from_integers(values)
        owner = self.owner()
        if owner is not None and np.asarray(values).dtype == np.int64:
            return self.unknowns.of_data(owner, "rows", residues, self.primes)
        planes = self.zeros(*residues.shape[1:])
        for k, prime in enumerate(self.primes):
            for index, residue in enumerate(residues[k].reshape(-1)):
                if residue:
                    planes[k].flat[index] = Form(prime, {ONE: int(residue) % prime})
        return planes

    def to_integers(self, planes: Forms) -> NDArray[Any]:
        """Of the values, as the real ring has it: for servers that decode."""
        return Ring(self.primes).to_integers(planes.astype(np.float64).astype(np.float32))

    def add(self, left: Forms, right: Forms, sign: int = 1) -> Forms:
        total = left.copy()
        self.add_scaled(total, [[sign]] * len(self.primes), [right])
        return total

    def add_scaled(self, total: Forms, coefficients: Sequence[Sequence[int]], terms: Sequence[Forms]) -> None:
        for k, prime in enumerate(self.primes):
            flat = [term[k].reshape(-1) for term in terms]
            factors = [int(x) for x in coefficients[k]]
            for index in range(total[k].size):
                parts = zip(factors, (term[index] for term in flat), strict=True)
                total[k].flat[index] = Form.sum_of(prime, [(1, total[k].flat[index]), *parts])

    def add_scaled_packed(
        self, total: Forms, coefficients: Sequence[Sequence[int]], packed: Sequence[bytes | memoryview]
    ) -> None:
        self.add_scaled(total, coefficients, [self.unpack(data, *total.shape[1:]) for data in packed])

    def product(self, matrix: Forms, update: Forms) -> Forms:
        result = self.zeros(matrix.shape[1], update.shape[2])
        for k, prime in enumerate(self.primes):
            for row in range(matrix.shape[1]):
                for column in range(update.shape[2]):
                    factors = [number.constant for number in update[k, :, column]]
                    result[k, row, column] = Form.sum_of(prime, zip(factors, matrix[k, row], strict=True))
        return result

    def symmetric(self, triangle: Forms, size: int) -> Forms:
        square = self.zeros(size, size)
        rows, columns = np.triu_indices(size)
        square[:, rows, columns] = triangle
        square[:, columns, rows] = triangle
        return square

    def pack(self, planes: Forms) -> bytes:
        numbers = list(planes.reshape(-1))
        data = b"".join(map(self.unknowns.id_of, numbers))
        self.unknowns.packed[data] = numbers
        return data

    def pack_into(self, packed: bytearray, planes: Forms, start: int, count: int) -> None:
        """What is read is the whole, once it is there: three bytes of one number turn up anywhere by chance."""
        for k, plane in enumerate(planes):
            data, at = b"".join(map(self.unknowns.id_of, plane.reshape(-1))), _RESIDUE_BYTES * (k * count + start)
            packed[at : at + len(data)] = data
        whole = bytes(packed[: _RESIDUE_BYTES * count * len(self.primes)])
        with suppress(MessageRefused):
            self.unknowns.packed[whole] = list(self.unpack(whole, count).reshape(-1))

    def add_packed(self, planes: Forms, packed: bytearray, start: int, count: int) -> None:
        there = self.unpack(bytes(packed), count)[:, start : start + planes.shape[1]]
        self.add_scaled(planes, [[1]] * len(self.primes), [there])

    def unpack(self, data: bytes | memoryview, *shape: int) -> Forms:
        count = math.prod(shape)
        self.check_packed_length(data, count)
        planes = self.zeros(*shape)
        raw = bytes(data)
        for k, prime in enumerate(self.primes):
            for index in range(count):
                start = _RESIDUE_BYTES * (k * count + index)
                planes[k].flat[index] = self.unknowns.form_of(raw[start : start + _RESIDUE_BYTES], prime)
        return planes

    # -- what ``crypto.pads`` does, with a new unknown for each number of a stream

    def expand(self, seed: bytes, label: str, count: int) -> Forms:
        pads.stream_key(seed, label)  # refuses what the real one refuses
        planes = self.zeros(count)
        for k, prime in enumerate(self.primes):
            for index in range(count):
                unknown = self.unknowns.stream(self.primes, seed, label, k, index)
                planes[k, index] = Form(prime, {unknown: 1})
        return planes


@dataclass(frozen=True, repr=False)
class SymbolicFixedPoint(FixedPoint):
    """``FixedPoint`` whose ring is symbolic: a device's sums are unknowns, everything public is as it was."""

    ring: SymbolicRing

    @classmethod
    def of(cls, real: FixedPoint, ring: SymbolicRing) -> SymbolicFixedPoint:
        return cls(**{one.name: getattr(real, one.name) for one in fields(real)} | {"ring": ring})

    @property
    def _real(self) -> FixedPoint:
        values = {one.name: getattr(self, one.name) for one in fields(FixedPoint)}
        return FixedPoint(**values | {"ring": Ring(self.ring.primes)})

    def gram(self, X: NDArray[np.float64], rows: slice | None = None) -> Forms:
        first = 0 if rows is None else rows.start * self.n_features - rows.start * (rows.start - 1) // 2
        return self._unknown(X, "gram", _real_gram(self._real, X, rows), first)

    def cross(self, X: NDArray[np.float64], Y: NDArray[np.float64]) -> Forms:
        return self._unknown(X, "cross", _real_cross(self._real, X, Y))

    def _unknown(self, X: NDArray[np.float64], kind: str, planes: NDArray[np.float32], first: int = 0) -> Forms:
        owner, unknowns = self.ring.owner(), self.ring.unknowns
        if owner is None:
            raise RuntimeError("only a device's machine sums up rows")
        unknowns.sums_up(owner, X, (self.feature_bits, self.label_bits, self.gram_bits, self.constant_bits))
        return unknowns.of_data(owner, kind, planes, self.ring.primes, first)
