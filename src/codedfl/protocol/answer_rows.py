"""Which numbers belong to a block of rows: in what is uploaded, in what a holder sums up, and in what it answers.

The numbers of a run are the triangle of X'X, pair by pair of blocks (``exact.row_blocks``), and the constant part, row
by row; the number of samples, where it is summed, goes with the last row. An answer is made of the blocks of whoever
gives it, one after the other: of each block its rows of the product or of the constant part, and behind them, where the
first answer brings X'X itself, its rows of the triangle. With one block that is everything in its usual order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codedfl.exact.ring import Ring
from codedfl.exact.row_blocks import Pair, RowBlocks
from codedfl.typing import Planes


@dataclass(frozen=True)
class AnswerRows:
    """The blocks of a run's rows.

    blocks: which rows; K = 1 where nothing is dealt out.
    n_outputs: numbers per row of a product.
    beside: numbers behind the last row of the constant part.
    whole: the first answer brings the triangle.
    """

    blocks: RowBlocks
    n_outputs: int
    beside: int = 0
    whole: bool = False

    def constant_pieces(self, kept: Sequence[int]) -> dict[Pair, slice]:
        """Where the constant part of each of these blocks stands when they stand one after the other."""
        found, start = {}, 0
        for block in kept:
            found[block, block] = slice(start, start + self._constants[block])
            start += self._constants[block]
        return found

    def gram_pieces(self, kept: Sequence[int]) -> dict[Pair, slice]:
        """Where each pair of blocks stands that a holder of these sums up."""
        blocks = self.blocks
        return blocks.pieces(blocks.pairs_from(kept) if self.whole else blocks.pairs_with(kept))

    @cached_property
    def all(self) -> tuple[int, ...]:
        """All blocks."""
        return tuple(range(self.blocks.count))

    @cached_property
    def _constants(self) -> list[int]:
        heights = [self.blocks.height(block) * self.n_outputs for block in self.all]
        return [*heights[:-1], heights[-1] + self.beside]

    @cached_property
    def _triangles(self) -> list[int]:
        """Numbers of each block's rows of the triangle, where an answer brings them."""
        rows = [self.blocks.pieces(self.blocks.pairs_from([block])) for block in self.all]
        return [list(pieces.values())[-1].stop if self.whole else 0 for pieces in rows]

    def lengths(self, *, constant: bool) -> list[int]:
        """Numbers per block in an answer: to the first update, or to one with an e."""
        if not constant:
            return [self.blocks.height(block) * self.n_outputs for block in self.all]
        return [rows + triangle for rows, triangle in zip(self._constants, self._triangles, strict=True)]

    def answer_length(self, kept: Sequence[int], *, constant: bool) -> int:
        """Numbers in the answer of whoever keeps these blocks."""
        lengths = self.lengths(constant=constant)
        return sum(lengths[block] for block in kept)

    def split(self, answer: Planes, kept: Sequence[int], *, constant: bool) -> dict[int, Planes]:
        """An answer by block, as views."""
        lengths, start, found = self.lengths(constant=constant), 0, {}
        for block in kept:
            found[block] = answer[:, start : start + lengths[block]]
            start += lengths[block]
        return found

    def first_answer(self, constant: Planes, triangle: Planes, kept: Sequence[int]) -> Planes:
        """What answers the first update, from the two sums of whoever keeps these blocks."""
        if not self.whole:
            return constant
        parts, start = [], 0
        for (block, _), where in self.constant_pieces(kept).items():
            stop = start + self._triangles[block]
            parts += [constant[:, where], triangle[:, start:stop]]
            start = stop
        return np.concatenate(parts, axis=1)

    def joined(self, totals: Sequence[Planes], *, constant: bool) -> Planes:
        """From the totals of all blocks to that of the run: the constant part and the triangle, or a product."""
        if len(totals) == 1:
            return totals[0]
        if not constant or not self.whole:
            return np.concatenate(totals, axis=1)
        rows = [total[:, :length] for total, length in zip(totals, self._constants, strict=True)]
        triangles = [total[:, length:] for total, length in zip(totals, self._constants, strict=True)]
        return np.concatenate(rows + triangles, axis=1)

    def matrix(self, ring: Ring, triangle: Planes, kept: Sequence[int]) -> Planes:
        """The rows that these blocks are multiplied with; none where X'X itself was answered."""
        return ring.zeros(0, 0) if self.whole else self.blocks.matrix(ring, triangle, kept)
