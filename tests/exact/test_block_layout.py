"""Row blocks of a symmetric matrix against plain lists of entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.exact.ring import NARROW, Ring
from codedfl.exact.row_blocks import RowBlocks
from wording import exactly

SHAPES = [(1, 1), (5, 1), (5, 2), (7, 3), (7, 7), (200, 3)]
RING = Ring.for_group_sizes([5])


def by_pairs(blocks: RowBlocks, triangle: NDArray[Any]) -> NDArray[Any]:
    """Strip by strip."""
    strips = [blocks.by_pairs(triangle[..., blocks.strip(k)], k) for k in range(blocks.count)]
    return np.concatenate(strips, axis=-1)


def entries(d: int, count: int) -> list[tuple[int, int]]:
    """(row, column) from the diagonal on, in the order of the pairs of blocks, written down without slices."""
    block_of = [next(k for k in range(count) if (k + 1) * d // count > i) for i in range(d)]
    places = [(i, j) for i in range(d) for j in range(i, d)]
    return sorted(places, key=lambda place: (block_of[place[0]], block_of[place[1]], place))


@pytest.mark.parametrize(("d", "count"), SHAPES)
def test_a_triangle_travels_by_pairs_and_comes_back(d: int, count: int):
    rows, columns = np.triu_indices(d)
    blocks = RowBlocks(d, count)
    laid_out = by_pairs(blocks, np.stack([rows, columns]))
    assert [(int(i), int(j)) for i, j in laid_out.T] == entries(d, count)
    assert np.array_equal(blocks.row_by_row(laid_out), np.stack([rows, columns]))
    heights = [blocks.height(k) for k in range(count)]
    assert sum(heights) == d and max(heights) - min(heights) <= 1


@pytest.mark.parametrize("ring", [RING, NARROW], ids=["48 bits", "32 bits"])
@pytest.mark.parametrize(("d", "count"), SHAPES[1:5])
def test_the_rows_of_a_block_come_from_its_pairs_alone(ring: Ring, d: int, count: int):
    half = np.random.default_rng(d).integers(-1000, 1000, (d, d))
    matrix = half + half.T
    blocks = RowBlocks(d, count)
    triangle = by_pairs(blocks, ring.from_integers(matrix[np.triu_indices(d)]))
    for kept in [(k,) for k in range(count)] + [tuple(range(count))]:
        pairs = blocks.pairs_with(kept)
        mine = np.concatenate([triangle[:, blocks.pairs[pair]] for pair in pairs], axis=1)
        assert {slot.stop for slot in blocks.pieces(pairs).values()} >= {mine.shape[1]}
        rows = [i for k in kept for i in range(d)[blocks.rows(k)]]
        assert np.array_equal(ring.to_integers(blocks.matrix(ring, mine, kept)), matrix[rows])


@pytest.mark.parametrize("count", [0, 6, -1])
def test_a_block_has_a_row_at_least(count: int):
    with pytest.raises(
        InvalidInput, match=exactly(f"blocks must be between 1 and the number of rows (5), got {count}")
    ):
        RowBlocks(5, count)
