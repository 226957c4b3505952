"""Kernels of the exact ring that replaces the fixed-point product of the paper (II-A, IV-A).

A ring number is held as its residues modulo two or three primes p < 2^24. A matrix of ring numbers is that
many float32 *planes* of centred residues, |r| <= (p - 1)/2, which a float32 holds exactly. Every kernel works
on one plane and one prime in one thread, without the interpreter's lock. Which primes they are, and the way
back to integers, is the business of ``codedfl.ring``.

All arithmetic is on integers in float64, exact by three bounds. Let h = (p - 1)/2 <= 2^23 - 2.

1. A product of two centred residues is at most h^2, so 128 of them and one more residue sum to at most
   128 h^2 + h + 2 < 2^53 - 2^31: a float64 holds the sum and all partial sums, fused or not.
2. For such a sum s, the computed s * (1/p) is off by less than 2/p. With q that number rounded to an integer,
   s - p q is therefore at most p/2 + 2, that is h + 2, in size; p q stays below 2^53, so both steps are exact.
3. For |s| <= 2^50 the quotient is off by less than 1/(2p), the distance of s/p from the nearest half-integer
   (p is odd): it is rounded to the right integer, and s - p q is *centred*.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from numba import njit

from codedfl.errors import InvalidInput
from codedfl.simd import COLUMNS, LANES, ROWS, UNPACKED, tile_sums, unpack_whole

__all__ = [
    "add_packed_product",
    "add_product",
    "aligned_zeros",
    "pack",
    "product",
    "reduce",
    "residues_from_stream",
    "square_from_triangle",
    "triangle_from_square",
    "unpack",
]

Plane = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Coefficients = Sequence[int] | npt.NDArray[np.int64]
_Scalar = TypeVar("_Scalar", bound=np.generic)
_Array = TypeVar("_Array", bound=npt.NDArray[Any])
_Item = TypeVar("_Item")
_Four = tuple[_Item, _Item, _Item, _Item]

_ALIGNMENT = 64  # bytes: a cache line, and the widest vector
_CENTRED_LIMIT = 2.0**50  # bound 3
_SPAN = 1024  # numbers unpacked at a time: four terms of them fit the L1 cache
_TILE = 32  # side of the squares in which a matrix is transposed


# -- what callers use -------------------------------------------------------------------------------------------


@overload
def aligned_zeros(shape: int | tuple[int, ...]) -> Plane: ...
@overload
def aligned_zeros(shape: int | tuple[int, ...], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]: ...
def aligned_zeros(shape: int | tuple[int, ...], dtype: type[np.generic] = np.float32) -> npt.NDArray[Any]:
    """Zeros that start on a 64-byte boundary; planes that do not can halve the speed of the product."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.zeros(size + _ALIGNMENT, dtype=np.uint8)
    offset = -raw.ctypes.data % _ALIGNMENT
    return raw[offset : offset + size].view(kind).reshape(shape)


def product(matrix: Plane, update_t: Plane, prime: int, out: Plane) -> None:
    """out = matrix @ update_t.T modulo prime: the coded gradient's product of IV-C, the work of every epoch.

    The shapes are (rows, d), (c, d) and (rows, c). d = 0 gives zeros; rows = 0 or c = 0 leaves nothing to do.
    """
    rows, d = matrix.shape
    columns = update_t.shape[0]
    if update_t.shape != (columns, d) or out.shape != (rows, columns):
        raise InvalidInput(
            f"update_t and out must have shapes (c, {d}) and ({rows}, c), got {update_t.shape} and {out.shape}"
        )
    # Converted once, not once per tile; columns of zeros fill the last tile.
    update = aligned_zeros((-(-columns // COLUMNS) * COLUMNS, d), np.float64)
    update[:columns] = update_t
    _product(_frozen(matrix), update, float(prime), out)


def reduce(values: Doubles, prime: int, out: Plane) -> None:
    """Centred residues of integer-valued float64 numbers of any finite size, below 2^50 the fastest."""
    _require_size("out", out, values.size)
    _reduce(_frozen(values), float(prime), out)


def add_product(acc: Plane, coefficients: Coefficients, terms: Sequence[Plane] | Plane, prime: int) -> None:
    """acc += sum of coefficients[j] * terms[j] modulo prime: the encoding of equations C and C-bar (IV-B).

    acc and the terms are one-dimensional planes of one length; coefficients are any integers. No terms, no
    change.
    """
    for term in terms:
        _require_size("each term", term, acc.size)
    for four, their_terms in _fours(coefficients, terms, prime):
        _add_four(acc, four, their_terms, float(prime))


def add_packed_product(acc: Plane, coefficients: Coefficients, packed: Sequence[Bytes], prime: int) -> None:
    """The same as `add_product` for terms in the form of `pack`, unpacked on the fly.

    A 24-bit number that is not below the prime counts as its residue; `unpack` is the one that refuses it.
    """
    for term in packed:
        _require_size("each packed term", term, 3 * acc.size)
    for four, their_terms in _fours(coefficients, packed, prime):
        _add_four_packed(acc, four, their_terms, np.int32(prime))


def pack(plane: Plane, prime: int) -> Bytes:
    """The wire form of a one-dimensional plane: residues in [0, prime), three bytes each, little endian."""
    packed = np.empty(3 * plane.size, dtype=np.uint8)
    _pack(_frozen(plane), np.int32(prime), packed)
    return packed


def unpack(packed: Bytes, prime: int, out: Plane) -> bool:
    """Undo `pack`. False, and anything in out, when a 24-bit number is not below the prime."""
    _require_size("packed", packed, 3 * out.size)
    return bool(_unpack(_frozen(packed), np.int32(prime), out))


def residues_from_stream(stream: Bytes, prime: int, out: Plane, start: int) -> int:
    """Rejection sampling: uniform residues into out[start:] from uniform bytes (the keys of IV-A).

    Every three bytes are a little-endian candidate; those not below the prime are skipped. Returns the index
    after the last residue: out.size when out is full, less when the stream ran out. The residues depend on the
    sequence of candidates alone, not on its division into calls. Beyond the index returned out is scratch.
    """
    _require_size("stream", stream, stream.size // 3 * 3)
    return int(_residues_from_stream(_frozen(stream), np.int32(prime), out, start))


def square_from_triangle(triangle: Plane, out: Plane) -> None:
    """The symmetric matrix out (d, d) from its upper triangle, row after row."""
    _require_size("triangle", triangle, out.shape[0] * (out.shape[0] + 1) // 2)
    _square_from_triangle(_frozen(triangle), out)


def triangle_from_square(square: Plane, out: Plane) -> None:
    """The upper triangle of a square matrix, row after row; what lies below the diagonal is not read."""
    _require_size("out", out, square.shape[0] * (square.shape[0] + 1) // 2)
    _triangle_from_square(_frozen(square), out)


def _require_size(name: str, array: npt.NDArray[Any], size: int) -> None:
    # The kernels do not check their indices: a short array would mean reading or writing foreign memory.
    if array.size != size:
        raise InvalidInput(f"{name} must hold {size} elements, got {array.size}")


def _frozen(array: _Array) -> _Array:
    """A read-only view. Received bytes are read-only, other arrays not, and numba compiles for each kind."""
    view = array.view()
    view.flags.writeable = False
    return view


def _fours(
    coefficients: Coefficients, terms: Sequence[_Array] | _Array, prime: int
) -> Iterator[tuple[_Four[float], _Four[_Array]]]:
    """Four centred coefficients and their terms at a time: acc is read and written a quarter as often.

    The last group is filled up with zero times its last term, which by then is in the cache.
    """
    residues = [int(c) % prime for c in coefficients]
    pairs = [
        (float(c - prime if c > prime // 2 else c), _frozen(term)) for c, term in zip(residues, terms, strict=True)
    ]
    for first in range(0, len(pairs), 4):
        group = pairs[first : first + 4]
        group += [(0.0, group[-1][1])] * (4 - len(group))
        (c0, t0), (c1, t1), (c2, t2), (c3, t3) = group
        yield (c0, c1, c2, c3), (t0, t1, t2, t3)


# -- products ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _near(s: float, prime: float, inverse: float) -> float:
    """s minus the multiple of prime nearest to it (bounds 2 and 3)."""
    return s - prime * float(np.rint(s * inverse))


@njit(cache=True, nogil=True)
def _product(matrix: Plane, update: Doubles, prime: float, out: Plane) -> None:
    inverse = 1.0 / prime
    d = matrix.shape[1]
    rows, columns = out.shape
    for i in range(0, rows, ROWS):
        for j in range(0, columns, COLUMNS):
            sums = tile_sums(matrix, update, i, j, prime)
            for r in range(min(ROWS, rows - i)):
                for q in range(min(COLUMNS, columns - j)):
                    # Eight lanes of at most h + 2 and seven products: within bound 3.
                    s = sums[r * COLUMNS + q]
                    for k in range(d - d % LANES, d):
                        s += np.float64(matrix[i + r, k]) * update[j + q, k]
                    out[i + r, j + q] = _near(s, prime, inverse)


@njit(cache=True, nogil=True)
def _reduce(values: Doubles, prime: float, out: Plane) -> None:
    inverse = 1.0 / prime
    largest = 0.0
    for i in range(values.size):
        largest = max(largest, abs(values[i]))
    if largest <= _CENTRED_LIMIT:
        for i in range(values.size):
            out[i] = _near(values[i], prime, inverse)
    else:
        for i in range(values.size):
            out[i] = _near(np.fmod(values[i], prime), prime, inverse)  # fmod is exact


@njit(cache=True, nogil=True)
def _add_four(acc: Plane, c: _Four[float], terms: _Four[Plane], prime: float) -> None:
    # Four products of centred residues and one residue: below 2^49, within bound 3.
    inverse = 1.0 / prime
    t0, t1, t2, t3 = terms
    for i in range(acc.size):
        s = np.float64(acc[i]) + c[0] * t0[i] + c[1] * t1[i] + c[2] * t2[i] + c[3] * t3[i]
        acc[i] = _near(s, prime, inverse)


@njit(cache=True, nogil=True)
def _add_four_packed(acc: Plane, c: _Four[float], packed: _Four[Bytes], prime: np.int32) -> None:
    terms = np.zeros((4, _SPAN), np.float32)
    for start in range(0, acc.size, _SPAN):
        part = acc[start : start + _SPAN]
        for q in range(4):
            if c[q] != 0.0:
                _unpack(packed[q][3 * start :], prime, terms[q, : part.size])
        _add_four(part, c, (terms[0], terms[1], terms[2], terms[3]), float(prime))


# -- 24-bit numbers ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _number(packed: Bytes, i: int) -> np.int32:
    return np.int32(packed[3 * i]) | np.int32(packed[3 * i + 1]) << 8 | np.int32(packed[3 * i + 2]) << 16


@njit(cache=True, nogil=True)
def _centred(number: np.int32, prime: np.int32) -> np.int32:
    return number - prime if number > prime >> 1 else number


@njit(cache=True, nogil=True)
def _unpack(packed: Bytes, prime: np.int32, out: Plane) -> bool:
    """out = centred residues of the numbers of packed; whether all these were below the prime."""
    valid: bool = unpack_whole(packed, prime, out)
    for i in range(out.size - out.size % UNPACKED, out.size):
        number = _number(packed, i)
        if number >= prime:
            valid = False
        out[i] = _centred(number, prime)
    return valid


@njit(cache=True, nogil=True)
def _pack(plane: Plane, prime: np.int32, packed: Bytes) -> None:
    for i in range(plane.size):
        v = np.int32(plane[i])
        if v < 0:
            v += prime
        packed[3 * i] = v & 255
        packed[3 * i + 1] = (v >> 8) & 255
        packed[3 * i + 2] = v >> 16


@njit(cache=True, nogil=True)
def _residues_from_stream(stream: Bytes, prime: np.int32, out: Plane, start: int) -> int:
    candidates = stream.size // 3
    fill = start
    for first in range(0, candidates, _SPAN):
        span = stream[3 * first : 3 * (first + _SPAN)]
        count = span.size // 3
        # The primes of the ring reject one candidate in 10^5, so nearly every span is taken whole. Where one is
        # not, what _unpack has written is written again, candidate by candidate.
        if count <= out.size - fill and _unpack(span, prime, out[fill : fill + count]):
            fill += count
        else:
            for i in range(count):
                number = _number(span, i)
                if number < prime and fill < out.size:
                    out[fill] = _centred(number, prime)
                    fill += 1
    return fill


# -- symmetric matrices -----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _square_from_triangle(triangle: Plane, out: Plane) -> None:
    d = out.shape[0]
    position = 0
    for i in range(d):
        out[i, i:] = triangle[position : position + d - i]
        position += d - i
    for top in range(0, d, _TILE):
        for left in range(0, top + 1, _TILE):
            for i in range(top, min(top + _TILE, d)):
                for j in range(left, min(left + _TILE, i)):
                    out[i, j] = out[j, i]


@njit(cache=True, nogil=True)
def _triangle_from_square(square: Plane, out: Plane) -> None:
    d = square.shape[0]
    position = 0
    for i in range(d):
        out[position : position + d - i] = square[i, i:]
        position += d - i
