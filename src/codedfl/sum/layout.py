"""Integers modulo 2^k, and the order in which the numbers of one statistic are uploaded.

An upload is a row of *words* of k bits (32, 48 or 64): first a vector, of which holders reply with sums, then the
upper triangle of a symmetric matrix X'X, of which they reply with products. A number too large for one word takes two:
v = low + 2^40 high with 0 <= low < 2^40. Words are added modulo 2^k, and nothing is ever truncated: a sum that is
within its limit is read back exactly.

The triangle stands in tiles of 256 rows and columns, tile by tile, so that some rows of the matrix can be padded,
summed and multiplied without the rest of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput, MessageRefused, RangeExceeded

Words = NDArray[np.uint64]
"""Integers modulo 2^k, each in 64 bits. The bits above k are undefined until ``Layout.to_bytes`` drops them."""

TILE = 256
LOW_BITS = 40
HEADROOM = 8  # true sums stay at or below 2^k / HEADROOM: what is beyond was an overflow or a wrong reply
WIDTHS = (32, 48, 64)
# The largest matrix and vector that a request can make anybody allocate.
MOST_SIZE = 1 << 15
MOST_LENGTH = 1 << 26


@dataclass(frozen=True)
class Layout:
    """How the numbers of a statistic are laid out, as it follows from study and request.

    bits: k, of one word. words: 1 or 2 per number.
    length: how many numbers the vector has. limit: no entry of its total is larger in size.
    size: d, of the matrix; 0 if there is none. columns: c, of every e that it may be multiplied by.
    room: the largest column 1-norm of an e; beyond it a product could wrap.
    certified: whether owners sign uploads and holders their sums, so that devices can believe a total.

    Examples
    --------
    >>> from codedfl.sum.layout import Layout
    >>> layout = Layout.of_vector(3, limit=1000)
    >>> layout
    <Layout of 3 numbers of 32 bits>
    >>> words = layout.words_of([1, -2, 3])
    >>> layout.numbers_of(words + words)
    [2, -4, 6]
    """

    bits: int
    words: int = 1
    length: int = 0
    limit: int = 0
    size: int = 0
    columns: int = 0
    room: int = 0
    certified: bool = False

    def __post_init__(self) -> None:
        if self.bits not in WIDTHS or self.words not in (1, 2):
            raise InvalidInput(f"words must have 32, 48 or 64 bits and numbers 1 or 2 of them, got {self}")
        if not 0 <= self.size <= MOST_SIZE or not 0 <= self.length <= MOST_LENGTH:
            raise InvalidInput(f"a statistic must have at most {MOST_SIZE} features and {MOST_LENGTH} numbers")

    def __repr__(self) -> str:
        matrix = f" and X'X of {self.size} features" if self.size else ""
        return f"<Layout of {self.length} numbers{matrix} of {self.words * self.bits} bits>"

    @classmethod
    def of_vector(cls, length: int, limit: int, *, certified: bool = False) -> Layout:
        """The narrowest that holds sums of this limit."""
        # Invariant: a true sum stays at or below 2^k / 8, so no sum wraps, and a wrong one is out of bounds most of the
        # time.
        for bits in WIDTHS:
            if HEADROOM * limit <= 1 << bits:
                return cls(bits, 1, length, limit, certified=certified)
        return cls(64, 2, length, limit, certified=certified)

    @classmethod
    def of_uniform_words(cls, length: int) -> Layout:
        """Certified sums of words of 64 bits that may be anything, such as random ones: modulo 2^64, none refused.

        >>> from codedfl.sum.layout import Layout
        >>> layout = Layout.of_uniform_words(1)
        >>> words = layout.words_of([(1 << 64) - 1])
        >>> layout.numbers_of(words), layout.numbers_of(words + words)
        ([-1], [-2])
        """
        # Invariant: the limit is the largest size of a number of 64 bits, so no sum is ever beyond it.
        return cls(64, 1, length, 1 << 63, certified=True)

    # -- how many words, and where

    @property
    def vector_words(self) -> int:
        return self.length * self.words

    @property
    def triangle(self) -> int:
        """Numbers of the matrix."""
        return self.size * (self.size + 1) // 2

    @property
    def total_words(self) -> int:
        return self.words * (self.length + self.triangle)

    @property
    def total_bytes(self) -> int:
        return self.total_words * self.bits // 8

    @property
    def tile_rows(self) -> int:
        """How many tiles stand below each other."""
        return -(-self.size // TILE)

    def tiles(self) -> Iterator[tuple[int, int, int, int]]:
        """Row and column of each tile, and where its words of the first plane begin and end, within the matrix part."""
        start = 0
        for a in range(self.tile_rows):
            height = len(self._rows_of(a))
            for b in range(a, self.tile_rows):
                count = height * (height + 1) // 2 if a == b else height * len(self._rows_of(b))
                yield a, b, start, start + count
                start += count

    def _rows_of(self, tile: int) -> range:
        return range(tile * TILE, min(self.size, (tile + 1) * TILE))

    # -- numbers to words and back

    def words_of(self, vector: Any, triangle: Any = ()) -> Words:
        """The words of one upload: the vector, and the packed upper triangle (row by row from the diagonal on)."""
        vector, triangle = np.asarray(vector), np.asarray(triangle)
        if vector.shape != (self.length,) or triangle.size != self.triangle:
            raise InvalidInput(
                f"an upload must have {self.length} numbers and {self.triangle} of a matrix, got {vector.shape} and"
                f" {triangle.shape}"
            )
        matrix = self._in_tiles(triangle) if self.size else triangle
        return np.concatenate((*self._planes(vector), *self._planes(matrix)))

    def _planes(self, numbers: NDArray[Any]) -> list[Words]:
        """One array of words for each plane, as two's complement."""
        if not numbers.size:
            return []
        # Invariant: v = low + 2^40 high with 0 <= low, also of a negative v, since >> rounds down.
        if self.words == 1:
            return [_as_words(numbers)]
        wholes = np.array([int(one) for one in numbers.tolist()], dtype=object)
        return [_as_words(wholes & ((1 << LOW_BITS) - 1)), _as_words(wholes >> LOW_BITS)]

    def numbers_of(self, words: Words) -> list[int]:
        """The entries of a total of vectors; refused where one is beyond the limit."""
        signed = self.signed(words[: self.vector_words])
        if self.words == 1:
            numbers = [int(one) for one in signed.tolist()]
        else:
            low, high = signed[: self.length].tolist(), signed[self.length :].tolist()
            numbers = [int(a) + (int(b) << LOW_BITS) for a, b in zip(low, high, strict=True)]
        # Invariant: no number is used that the study's bounds rule out: it was an overflow, or some reply is wrong.
        largest = max(map(abs, numbers), default=0)
        if largest > self.limit:
            raise RangeExceeded(
                f"a total must stay within +-{self.limit}, got {largest}: an overflow or a wrong reply, not used"
            )
        return numbers

    def signed(self, words: Words) -> NDArray[np.int64]:
        """As two's complement of k bits."""
        shift = np.uint64(64 - self.bits)
        return (words << shift).view(np.int64) >> np.int64(64 - self.bits)

    # -- the matrix

    def _in_tiles(self, triangle: NDArray[Any]) -> NDArray[Any]:
        """A packed triangle, row by row, in the order of tiles."""
        if self.tile_rows == 1:
            return triangle
        d = self.size
        starts = [i * d - i * (i - 1) // 2 for i in range(d)]
        found = np.empty(self.triangle, dtype=triangle.dtype)
        for a, b, begin, end in self.tiles():
            place = begin
            for i in self._rows_of(a):
                columns = range(max(i, b * TILE), min(d, (b + 1) * TILE))
                first = starts[i] + columns.start - i
                found[place : place + len(columns)] = triangle[first : first + len(columns)]
                place += len(columns)
            assert place == end
        return found

    def dense(self, matrix: dict[tuple[int, int], Words], first: int, last: int) -> Words:
        """Rows of the symmetric matrix: those of tile rows ``first`` to ``last`` - 1, from the tiles they need."""
        rows = range(first * TILE, min(self.size, last * TILE))
        found = np.empty((len(rows), self.size), dtype=np.uint64)
        for a in range(first, last):
            at = slice((a - first) * TILE, (a - first) * TILE + len(self._rows_of(a)))
            for b in range(self.tile_rows):
                columns = slice(b * TILE, b * TILE + len(self._rows_of(b)))
                found[at, columns] = self._tile(matrix, a, b)
        return found

    def _tile(self, matrix: dict[tuple[int, int], Words], a: int, b: int) -> Words:
        if a > b:
            return self._tile(matrix, b, a).T
        height = len(self._rows_of(a))
        packed = matrix[a, b]
        if a != b:
            return packed.reshape(height, -1)
        square = np.zeros((height, height), dtype=np.uint64)
        upper = np.triu_indices(height)
        square[upper] = packed
        square.T[upper] = packed
        return square

    def needed_tiles(self, first: int, last: int) -> list[tuple[int, int, int, int]]:
        """The tiles that rows ``first`` to ``last`` - 1 of tiles are made of, as ``tiles`` has them."""
        wanted = range(first, last)
        return [tile for tile in self.tiles() if tile[0] in wanted or tile[1] in wanted]

    def rows_in(self, first: int, last: int) -> int:
        """How many rows of the matrix these tile rows have."""
        return min(self.size, last * TILE) - first * TILE

    def check_e(self, e: NDArray[np.int64]) -> None:
        """Refuse an e of another shape, or so large that a product could wrap, or read several columns at once."""
        if e.shape != (self.size, self.columns):
            raise MessageRefused(f"e must have shape {(self.size, self.columns)}, got {e.shape}")
        # Invariant: in Python's integers, or in int64 where no sum can wrap: abs of the smallest int64 does.
        if e.size and (int(e.max()) > self.room or int(e.min()) < -self.room):
            raise MessageRefused(f"e must have entries of at most {self.room} in size, got larger ones")
        # Invariant: |X'X e| <= max |X'X| |e|_1, so a product within room never wraps; and e = (1, 2^14, 2^28) cannot
        # read three columns in one counted question.
        norms = [sum(abs(one) for one in column) for column in e.T.tolist()]
        if max(norms, default=0) > self.room:
            raise MessageRefused(f"e must have a column 1-norm of at most {self.room}, got {max(norms)}")

    # -- as bytes

    def to_bytes(self, words: Words) -> bytes:
        """k bits each, little-endian."""
        if self.bits == 64:
            return words.astype("<u8", copy=False).tobytes()
        return words.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)[:, : self.bits // 8].tobytes()

    def from_bytes(self, data: bytes, count: int) -> Words:
        """What ``to_bytes`` made of ``count`` words; refused where the length is another."""
        width = self.bits // 8
        if len(data) != count * width:
            raise MessageRefused(f"{count} words of {self.bits} bits must take {count * width} bytes, got {len(data)}")
        return words_from(data, width)


def words_from(data: bytes | memoryview, width: int) -> Words:
    """Little-endian words of ``width`` bytes (4, 6 or 8).

    >>> words_from(bytes([1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]), 6).tolist()
    [1, 2]
    """
    if width == 8:
        return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False)
    # Upper bits are zero here, and undefined after the first addition: only k of them ever leave.
    if width == 4:
        return np.frombuffer(data, dtype="<u4").astype(np.uint64)
    halves = np.frombuffer(data, dtype="<u2").reshape(-1, 3)
    found = halves[:, 2].astype(np.uint64)
    found <<= np.uint64(16)
    found |= halves[:, 1]
    found <<= np.uint64(16)
    found |= halves[:, 0]
    return found


def product(rows: Words, e: NDArray[np.int64]) -> Words:
    """Rows times e modulo 2^64, whatever k: its low bits are the product modulo 2^k."""
    found: Words = rows @ e.astype(np.uint64)
    return found


def _as_words(numbers: NDArray[Any]) -> Words:
    """Integers of any kind as two's complement of 64 bits."""
    if numbers.dtype == object:
        return np.array([int(one) & 0xFFFFFFFFFFFFFFFF for one in numbers.tolist()], dtype=np.uint64)
    if numbers.dtype.kind == "f":
        numbers = numbers.astype(np.int64)
    return numbers.astype(np.int64, copy=False).view(np.uint64) if numbers.dtype != np.uint64 else numbers
