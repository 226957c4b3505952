"""The rows of a symmetric matrix in blocks, and its upper triangle laid out by pairs of blocks.

Whoever keeps one block of rows needs d/K rows of d numbers, and by symmetry each of them stands in the triangle: the
pairs (a, b), a <= b, in which the block is a or b. So the triangle is laid out pair after pair, (0, 0), (0, 1), ..,
(1, 1), .., each row by row (of a pair (a, a) from the diagonal on): what one needs of it are whole pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.exact.ring import Ring
from codedfl.typing import Planes

Pair = tuple[int, int]
Numbers = NDArray[Any]


@dataclass(frozen=True)
class RowBlocks:
    """``size`` rows in ``count`` blocks that differ by one row at most; 1 is the matrix as a whole.

    >>> blocks = RowBlocks(size=5, count=2)
    >>> blocks.rows(0), blocks.rows(1)
    (slice(0, 2, None), slice(2, 5, None))
    >>> blocks.pairs
    {(0, 0): slice(0, 3, None), (0, 1): slice(3, 9, None), (1, 1): slice(9, 15, None)}
    """

    size: int
    count: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.count <= self.size:
            raise InvalidInput(f"blocks must be between 1 and the number of rows ({self.size}), got {self.count}")

    def rows(self, block: int) -> slice:
        """Which rows, or columns, a block has."""
        return slice(block * self.size // self.count, (block + 1) * self.size // self.count)

    def height(self, block: int) -> int:
        """How many rows a block has."""
        return (block + 1) * self.size // self.count - block * self.size // self.count

    @cached_property
    def pairs(self) -> dict[Pair, slice]:
        """All pairs in their order, and where each stands in the triangle."""
        return self.pieces((a, b) for a in range(self.count) for b in range(a, self.count))

    def pieces(self, pairs: Iterator[Pair] | Sequence[Pair]) -> dict[Pair, slice]:
        """Where each of these pairs stands when they stand one after the other."""
        found, start = {}, 0
        for a, b in pairs:
            height, width = self.height(a), self.height(b)
            stop = start + (height * width if a != b else height * (height + 1) // 2)
            found[a, b] = slice(start, stop)
            start = stop
        return found

    def strip(self, block: int) -> slice:
        """Where the rows of a block from the diagonal on stand in the triangle: the same in both layouts."""
        return slice(self.pairs[block, block].start, self.pairs[block, self.count - 1].stop)

    def by_pairs(self, strip: Numbers, block: int) -> Numbers:
        """The rows of a block from the diagonal on, (.., n), pair by pair; given row by row."""
        if self.count == 1:
            return strip
        moved = np.empty_like(strip)
        for in_rows, in_pairs in self._spans(block):
            moved[..., in_pairs] = strip[..., in_rows]
        return moved

    def row_by_row(self, triangle: Numbers) -> Numbers:
        """The triangle (.., d(d+1)/2) row by row, from the one pair by pair."""
        if self.count == 1:
            return triangle
        moved = np.empty_like(triangle)
        for block in range(self.count):
            here = self.strip(block)
            for in_rows, in_pairs in self._spans(block):
                moved[..., here][..., in_rows] = triangle[..., here][..., in_pairs]
        return moved

    def _spans(self, block: int) -> Iterator[tuple[slice, slice]]:
        """What stands together in both layouts of a strip: where it is row by row, and where pair by pair."""
        rows, first = self.rows(block), self.strip(block).start
        columns = [(b, self.rows(b)) for b in range(block, self.count)]
        done = {b: self.pairs[block, b].start - first for b, _ in columns}
        start = 0
        for i in range(rows.start, rows.stop):
            for b, across in columns:
                length = across.stop - max(i, across.start)
                yield slice(start, start + length), slice(done[b], done[b] + length)
                start, done[b] = start + length, done[b] + length

    def matrix(self, ring: Ring, kept: Planes, blocks: Sequence[int]) -> Planes:
        """The rows (P, rows, d) of these blocks, one or all, from the pairs that they are in, one after the other."""
        if self.count == 1:
            return ring.symmetric(kept, self.size)
        first, last = self.rows(blocks[0]).start, self.rows(blocks[-1]).stop
        out = ring.zeros(last - first, self.size)
        for (a, b), where in self.pieces(self.pairs_with(blocks)).items():
            height, width = self.height(a), self.height(b)
            piece = kept[:, where]
            square = ring.symmetric(piece, height) if a == b else piece.reshape(-1, height, width)
            above, below = self.rows(a), self.rows(b)
            if a in blocks:
                out[:, above.start - first : above.stop - first, below] = square
            if b in blocks and a != b:
                out[:, below.start - first : below.stop - first, above] = square.transpose(0, 2, 1)
        return out

    def pairs_with(self, blocks: Sequence[int]) -> list[Pair]:
        """All pairs in which one of these blocks is: what its rows are made of."""
        return [(a, b) for a, b in self.pairs if a in blocks or b in blocks]

    def pairs_from(self, blocks: Sequence[int]) -> list[Pair]:
        """The pairs of which one of these blocks is the first: its rows from the diagonal on."""
        return [(a, b) for a, b in self.pairs if a in blocks]
