"""The sum of the pads of one role, as its holders make it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from codedfl.sum.layout import Layout, Words, product
from codedfl.sum.pads import add_pads


class PadSum:
    """The sum of one pad per listed owner; parts of it are made when they are asked for, and kept."""

    def __init__(self, layout: Layout, keys: list[bytes]) -> None:
        self._layout, self._keys = layout, keys
        self._vector: Words | None = None
        self._tiles: dict[tuple[int, int, int], Words] = {}

    def vector(self) -> Words:
        if self._vector is None:
            self._vector = self._made(0, self._layout.vector_words)
        return self._vector

    def product(self, e: NDArray[np.int64], first: int, last: int) -> list[Words]:
        """These tile rows of each word plane of the matrix, times e."""
        layout, found = self._layout, []
        # Invariant: only sums over the whole list are ever made or kept; the pad of one owner exists for a moment only.
        for plane in range(layout.words):
            before = layout.vector_words + plane * layout.triangle
            for a, b, start, stop in layout.needed_tiles(first, last):
                # A tile serves every later direction; what is kept is as large as an upload, and may be dropped at any
                # time.
                if (plane, a, b) not in self._tiles:
                    self._tiles[plane, a, b] = self._made(before + start, stop - start)
            tiles = {(a, b): words for (p, a, b), words in self._tiles.items() if p == plane}
            # A tile row at a time: the whole square takes twice the memory of the tiles.
            rows = [product(layout.dense(tiles, one, one + 1), e) for one in range(first, last)]
            found.append(np.concatenate(rows))
        return found

    def _made(self, first: int, count: int) -> Words:
        # Invariant: ``first`` is the place in the upload, so a part has the very words that the owners have added
        # there.
        total = np.zeros(count, dtype=np.uint64)
        add_pads(total, self._keys, self._layout.bits // 8, first)
        return total
