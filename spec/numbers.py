"""Numbers: integers modulo 2^k, where each of them stands in an upload, and how they are added and multiplied."""

from collections.abc import Sequence
from dataclasses import dataclass

TILE = 256  # rows and columns of a tile of the triangle
LOW = 2**40  # of a number that takes two words: v = low + LOW high, 0 <= low < LOW

Numbers = Sequence[int]
Matrix = Sequence[Numbers]


@dataclass(frozen=True)
class Layout:
    """How the numbers of a statistic are laid out; the same for all devices, as it follows from study and ask.

    First stands a vector, then the upper triangle of a symmetric matrix. Of the vector the sum over owners can be asked
    for, of the matrix products of the sum with an e.
    """

    bits: int  # k of a word: 32, 48 or 64
    words: int  # 1 or 2 for each number
    length: int  # numbers of the vector
    limit: int  # no sum in the vector is larger in size
    size: int = 0  # rows of the matrix; 0 is no matrix
    columns: int = 0  # of every e
    room: int = 0  # the largest sum of sizes in a column of e
    certified: bool = False  # whether devices sign, so that others can believe the total


def spans(layout: Layout) -> tuple[int, int]:
    """Where the words of the vector end, and those of the matrix."""
    return layout.words * layout.length, layout.words * (layout.length + layout.size * (layout.size + 1) // 2)


def places(size: int) -> list[tuple[int, int]]:
    """Row and column of each number of the triangle as it travels: tile after tile, in a tile row after row."""
    tiles = [range(at, min(size, at + TILE)) for at in range(0, size, TILE)]
    return [(i, j) for a, rows in enumerate(tiles) for columns in tiles[a:] for i in rows for j in columns if i <= j]


def planes(layout: Layout, numbers: Numbers) -> list[int]:
    """One word for each number; of two, first the low words of all numbers, then the high ones."""
    if layout.words == 1:
        return [v % 2**layout.bits for v in numbers]
    return [v % LOW for v in numbers] + [v // LOW % 2**layout.bits for v in numbers]


def words_of(layout: Layout, vector: Numbers, matrix: Matrix = ()) -> list[int]:
    """All words of one owner: those of the vector, then those of the matrix."""
    return planes(layout, vector) + planes(layout, [matrix[i][j] for i, j in places(layout.size)])


def signed(bits: int, words: Numbers) -> list[int]:
    """Words read as two's complement."""
    return [(w + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1) for w in words]


def numbers_of(layout: Layout, words: Numbers) -> list[int]:
    """Undo ``planes``, of sums of words: as long as no sum passes its limit nothing is lost."""
    found, count = signed(layout.bits, words), len(words) // layout.words
    return [sum(v * LOW**plane for plane, v in enumerate(found[i::count])) for i in range(count)]


def to_bytes(bits: int, words: Numbers) -> bytes:
    """k/8 bytes for each word, little endian."""
    return b"".join((w % 2**bits).to_bytes(bits // 8, "little") for w in words)


def from_bytes(bits: int, data: bytes) -> list[int]:
    """Undo ``to_bytes``; refused where the last word is not whole."""
    assert len(data) % (bits // 8) == 0, "request"
    return [int.from_bytes(data[at : at + bits // 8], "little") for at in range(0, len(data), bits // 8)]


def add(a: Numbers, b: Numbers, sign: int = 1) -> list[int]:
    """Entry by entry; they are reduced modulo 2^k when they become bytes or numbers."""
    return [x + sign * y for x, y in zip(a, b, strict=True)]


def product(layout: Layout, triangle: Numbers, e: Matrix, first: int, last: int) -> list[int]:
    """Rows of the matrix times e, row by row: those of tile rows ``first`` to ``last`` - 1. Plane after plane."""
    order, found = places(layout.size), []
    for plane in range(layout.words):
        at = dict(zip(order, triangle[plane * len(order) :], strict=False))
        for i in range(first * TILE, min(layout.size, last * TILE)):
            row = [at[min(i, j), max(i, j)] for j in range(layout.size)]
            found += [sum(v * e[j][c] for j, v in enumerate(row)) for c in range(layout.columns)]
    return found
