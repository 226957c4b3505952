"""Kernels of the exact ring that replaces the fixed-point product of the paper (II-A, IV-A).

A ring number is held as its residues modulo two or three primes p < 2^24. A matrix of ring numbers is that many
float32 *planes* of centred residues, |r| <= (p - 1)/2 < 2^23, which a float32 holds exactly. Every kernel here works
on one plane and one prime in one thread; which primes, and the way back to integers, are `codedfl.ring`'s business.

Exactness rests on three bounds, with h = (p - 1)/2 <= 2^23 - 2:

1. A product of two centred residues is at most h^2 < 2^46, so 128 of them sum to at most 128 h^2 <= 2^53 - 2^32.
   Every partial sum, in any order and with or without fused multiply-add, is then an integer that a float64 holds
   exactly. This is what allows reassociation in the kernels that ask LLVM for it.
2. s - p*rint(s*(1/p)) is exact for |s| <= 2^53 - 2^32: the quotient is below 2^30, its product with p below 2^53.
   Its absolute value is at most h + 2, because the rounded quotient is off by less than 2^-22 before rounding.
3. For |s| <= 2^50 the quotient is off by less than 2^-26, while s/p (p odd) keeps a distance of at least
   1/(2p) > 2^-25 from every half-integer. The rounding is then the right one and the result is centred.
"""

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
from numba import njit

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
Bytes = npt.NDArray[np.uint8]
_Scalar = TypeVar("_Scalar", bound=np.generic)

_ALIGNMENT = 64  # a cache line, and the widest vector register
_BLOCK = 128  # products per exact float64 sum, bound 1
_CHUNK = 1 << 15  # numbers per slice of a combination: its accumulator (128 KiB) stays in the L2 cache
_STREAM_BLOCK = 512  # candidates tried at once before falling back to one by one
_TILE = 64  # rows and columns of a transposed square: 16 KiB


@overload
def aligned_zeros(shape: int | tuple[int, ...]) -> Plane: ...
@overload
def aligned_zeros(shape: int | tuple[int, ...], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]: ...
def aligned_zeros(shape: int | tuple[int, ...], dtype: type[np.generic] = np.float32) -> npt.NDArray[Any]:
    """Zeros that start on a 64-byte boundary; planes that do not can halve the speed of the kernels."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    raw = np.zeros(size + _ALIGNMENT, dtype=np.uint8)
    offset = -raw.ctypes.data % _ALIGNMENT
    return raw[offset : offset + size].view(kind).reshape(shape)


def product(matrix: Plane, update_t: Plane, prime: int, out: Plane) -> None:
    """out = matrix @ update_t.T modulo prime, for matrix (rows, d), update_t (c, d) and out (rows, c).

    d = 0 gives zeros; rows = 0 or c = 0 gives nothing.
    """
    _product(matrix, update_t, float(prime), out)


def reduce(values: npt.NDArray[np.float64], prime: int, out: Plane) -> None:
    """Centred residues of integer-valued float64 numbers of any finite magnitude."""
    _reduce(values, float(prime), out)


def add_product(
    acc: Plane,
    coefficients: Sequence[int] | npt.NDArray[np.int64],
    terms: Sequence[Plane] | Plane,
    prime: int,
) -> None:
    """acc += sum of coefficients[j] * terms[j] modulo prime, one-dimensional planes of one length.

    Coefficients are any integers; without terms nothing changes.
    """
    centred = [_centred(int(c), prime) for c in coefficients]
    for c, term in zip(centred, terms, strict=True):
        _add_one(acc, c, term, float(prime))


def add_packed_product(
    acc: Plane, coefficients: Sequence[int] | npt.NDArray[np.int64], packed: Sequence[Bytes], prime: int
) -> None:
    """The same as `add_product` for terms in the form `pack` gives them, unpacked on the fly."""
    centred = [_centred(int(c), prime) for c in coefficients]
    for c, term in zip(centred, packed, strict=True):
        _add_one_packed(acc, c, _frozen(term).reshape(-1, 3), float(prime))


def pack(plane: Plane, prime: int) -> Bytes:
    """The wire form of a one-dimensional plane: residues in [0, prime) as 24-bit little-endian numbers."""
    packed = np.empty(3 * plane.size, dtype=np.uint8)
    _pack(plane, np.int32(prime), packed.reshape(-1, 3))
    return packed


def unpack(packed: Bytes, prime: int, out: Plane) -> bool:
    """Undo `pack` into out; False, with out unspecified, when a 24-bit number is not below the prime."""
    return bool(_unpack(_frozen(packed).reshape(-1, 3), np.int32(prime), out))


def residues_from_stream(stream: Bytes, prime: int, out: Plane, start: int) -> int:
    """Rejection sampling: uniform residues in out[start:] from a stream of uniform bytes.

    Each three bytes are a 24-bit little-endian candidate; those not below the prime are skipped. Returns the index
    after the last residue written: out.size when out is full, less when the stream ran out. What is written depends
    on the sequence of candidates only, not on its division into calls; out beyond the returned index is unspecified.
    """
    return int(_residues_from_stream(_frozen(stream).reshape(-1, 3), np.int32(prime), out, start))


def square_from_triangle(triangle: Plane, out: Plane) -> None:
    """The symmetric matrix out (d, d) whose upper triangle, row after row, is given."""
    _square_from_triangle(triangle, out)


def triangle_from_square(square: Plane, out: Plane) -> None:
    """The upper triangle of a square matrix, row after row; what lies below the diagonal is not read."""
    _triangle_from_square(square, out)


def _centred(coefficient: int, prime: int) -> float:
    residue = coefficient % prime
    return float(residue - prime if residue > prime // 2 else residue)


def _frozen(array: Bytes) -> Bytes:
    """A read-only view: received bytes are read-only, others not, and numba would compile for each combination."""
    view = array.view()
    view.flags.writeable = False
    return view


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot_blocks(row, column, prime):  # type: ignore[no-untyped-def]
    # Bound 1 makes the sum over a block exact in any order, bound 2 its reduction.
    inverse = 1.0 / prime
    total = 0.0
    for start in range(0, row.size, _BLOCK):
        left = row[start : start + _BLOCK]
        right = column[start : start + _BLOCK]
        s = 0.0
        for k in range(left.size):
            s += np.float64(left[k]) * np.float64(right[k])
        total += s - prime * np.rint(s * inverse)
    return total


@njit(cache=True, nogil=True)
def _product(matrix, update_t, prime, out):  # type: ignore[no-untyped-def]
    inverse = 1.0 / prime
    for i in range(matrix.shape[0]):
        for j in range(update_t.shape[0]):
            s = _dot_blocks(matrix[i], update_t[j], prime)
            out[i, j] = s - prime * np.rint(s * inverse)


@njit(cache=True, nogil=True)
def _reduce(values, prime, out):  # type: ignore[no-untyped-def]
    inverse = 1.0 / prime
    half = (prime - 1.0) / 2.0
    for i in range(values.size):
        s = values[i]
        if abs(s) <= 2.0**50:
            out[i] = s - prime * np.rint(s * inverse)
        else:
            r = np.fmod(s, prime)
            if r > half:
                r -= prime
            elif r < -half:
                r += prime
            out[i] = r


@njit(cache=True, nogil=True)
def _add_one(acc, c, term, prime):  # type: ignore[no-untyped-def]
    inverse = 1.0 / prime
    for i in range(acc.size):
        s = np.float64(acc[i]) + c * np.float64(term[i])
        acc[i] = s - prime * np.rint(s * inverse)


@njit(cache=True, nogil=True)
def _add_one_packed(acc, c, packed, prime):  # type: ignore[no-untyped-def]
    inverse = 1.0 / prime
    for i in range(acc.size):
        v = np.int32(packed[i, 0]) | np.int32(packed[i, 1]) << 8 | np.int32(packed[i, 2]) << 16
        s = np.float64(acc[i]) + c * np.float64(v)
        acc[i] = s - prime * np.rint(s * inverse)


@njit(cache=True, nogil=True)
def _pack(plane, prime, packed):  # type: ignore[no-untyped-def]
    for i in range(plane.size):
        v = np.int32(plane[i])
        if v < 0:
            v += prime
        packed[i, 0] = v & 255
        packed[i, 1] = (v >> 8) & 255
        packed[i, 2] = v >> 16


@njit(cache=True, nogil=True)
def _unpack(packed, prime, out):  # type: ignore[no-untyped-def]
    half = prime >> 1
    bad = False
    for i in range(out.size):
        v = np.int32(packed[i, 0]) | np.int32(packed[i, 1]) << 8 | np.int32(packed[i, 2]) << 16
        bad |= v >= prime
        out[i] = v - prime if v > half else v
    return not bad


@njit(cache=True, nogil=True)
def _residues_from_stream(stream, prime, out, start):  # type: ignore[no-untyped-def]
    half = prime >> 1
    fill = start
    for i in range(stream.shape[0]):
        if fill == out.size:
            break
        v = np.int32(stream[i, 0]) | np.int32(stream[i, 1]) << 8 | np.int32(stream[i, 2]) << 16
        if v < prime:
            out[fill] = v - prime if v > half else v
            fill += 1
    return fill


@njit(cache=True, nogil=True)
def _square_from_triangle(triangle, out):  # type: ignore[no-untyped-def]
    d = out.shape[0]
    position = 0
    for i in range(d):
        for j in range(i, d):
            out[i, j] = triangle[position]
            position += 1
    for top in range(0, d, _TILE):
        for left in range(0, top + 1, _TILE):
            for i in range(top, min(top + _TILE, d)):
                for j in range(left, min(left + _TILE, i)):
                    out[i, j] = out[j, i]


@njit(cache=True, nogil=True)
def _triangle_from_square(square, out):  # type: ignore[no-untyped-def]
    d = square.shape[0]
    position = 0
    for i in range(d):
        for j in range(i, d):
            out[position] = square[i, j]
            position += 1
