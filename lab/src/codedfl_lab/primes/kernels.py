"""Kernels of the exact ring that replaces the fixed-point product of the paper (II-A, IV-A).

A ring number is held as its residues modulo two or three primes p < 2^24. A matrix of ring numbers is that many
float32 *planes* of centred residues, |r| <= (p - 1)/2, which a float32 holds exactly. In bytes, packed or drawn from a
stream, a residue has as many as its prime needs (`residue_bytes`). Every kernel works on one
plane and one prime in one thread, without the interpreter's lock, and is exact: ``codedfl_lab.primes.loops`` says why.
Which primes they are, and the way back to integers, is the business of ``codedfl_lab.primes.ring``.

Arrays must be contiguous and of the type named, and those written to are written in place.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from codedfl.errors import InvalidInput
from codedfl_lab.primes.machine_code import call

Plane = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Coefficients = Sequence[int] | npt.NDArray[np.int64]
_Scalar = TypeVar("_Scalar", bound=np.generic)
_Array = TypeVar("_Array", bound=npt.NDArray[Any])

COLUMNS = 5  # of an update that a product takes at a time: ten classes are the common case
SPAN = 1024  # packed numbers that are unpacked at a time: four terms of them fit the L1 cache
_ALIGNMENT = 64  # bytes: a cache line, and the widest vector


def residue_bytes(prime: int) -> int:
    """Bytes of a residue in its wire form, and of a candidate in a stream: two below 2^16, otherwise three.

    >>> residue_bytes(65521), residue_bytes(16777213)
    (2, 3)
    """
    return 2 if prime < 2**16 else 3


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
    columns = len(update_t)
    _require("matrix", matrix, np.float32, (rows, d))
    _require("update_t", update_t, np.float32, (columns, d))
    _require_target("out", out, (rows, columns))
    # Converted once, not once per tile; columns of zeros fill the last tile.
    update = aligned_zeros((-(-columns // COLUMNS) * COLUMNS, d), np.float64)
    update[:columns] = update_t
    call("product", matrix, update, prime, out, rows, d, columns)


def reduce(values: Doubles, prime: int, out: Plane) -> None:
    """Centred residues of integer-valued float64 numbers of any finite size; those below 2^50 are the fastest."""
    _require("values", values, np.float64, (values.size,))
    _require_target("out", out, values.shape)
    call("reduce", values, prime, out, out.size)


def add_product(acc: Plane, coefficients: Coefficients, terms: Sequence[Plane] | Plane, prime: int) -> None:
    """acc += sum of coefficients[j] * terms[j] modulo prime: the encoding of equations C and C-bar (IV-B).

    acc and the terms are one-dimensional planes of one length; coefficients are any integers. Without terms acc
    stays as it is.
    """
    _require_target("acc", acc, (acc.size,))
    for term in terms:
        _require("each term", term, np.float32, acc.shape)
    for four, their_terms in _fours(coefficients, terms, prime):
        call("add_four", acc, four, *their_terms, prime, acc.size)


def add_packed_product(acc: Plane, coefficients: Coefficients, packed: Sequence[Bytes], prime: int) -> None:
    """`add_product` for terms in the form of `pack`, which are unpacked on the fly.

    A number that is not below the prime counts as its residue; `unpack` is the one that refuses it.
    """
    _require_target("acc", acc, (acc.size,))
    for term in packed:
        _require("each packed term", term, np.uint8, (residue_bytes(prime) * acc.size,))
    scratch = aligned_zeros((4, SPAN))
    for four, their_terms in _fours(coefficients, packed, prime):
        call("add_four_packed", acc, four, *their_terms, prime, residue_bytes(prime), scratch, acc.size)


def pack(plane: Plane, prime: int) -> Bytes:
    """The wire form of a one-dimensional plane: residues in [0, prime), two or three bytes each, little endian."""
    _require("plane", plane, np.float32, (plane.size,))
    width = residue_bytes(prime)
    packed = np.empty(width * plane.size, dtype=np.uint8)
    call("pack_short" if width == 2 else "pack", plane, prime, packed, plane.size)
    return packed


def unpack(packed: Bytes, prime: int, out: Plane) -> bool:
    """Undo `pack`. Returns False when a number is not below the prime; out then holds anything."""
    _require_target("out", out, (out.size,))
    _require("packed", packed, np.uint8, (residue_bytes(prime) * out.size,))
    return bool(call("unpack", packed, prime, out, residue_bytes(prime), out.size))


def add_residues_from_stream(stream: Bytes, prime: int, sign: int, total: Plane, start: int) -> int:
    """total[start:] += sign (1 or -1) times uniform residues from uniform bytes, by rejection (the keys of IV-B).

    Every `residue_bytes` are a little-endian candidate; those not below the prime are skipped. Returns the index
    after the last residue: total.size when total is full, less when the stream ran out. The residues depend on the
    sequence of candidates alone, not on its division into calls.
    """
    width = residue_bytes(prime)
    _require("stream", stream, np.uint8, (stream.size // width * width,))
    _require_target("total", total, (total.size,))
    if sign not in (1, -1):
        raise InvalidInput(f"sign must be 1 or -1, got {sign}")
    if not 0 <= start <= total.size:
        raise InvalidInput(f"start must be between 0 and {total.size}, got {start}")
    return int(call("add_residues_from_stream", stream, stream.size, prime, sign, total, total.size, start, width))


def square_from_triangle(triangle: Plane, out: Plane) -> None:
    """The symmetric matrix out (d, d) from its upper triangle, row after row."""
    d = len(out)
    _require_target("out", out, (d, d))
    _require("triangle", triangle, np.float32, (d * (d + 1) // 2,))
    call("square_from_triangle", triangle, out, d)


def _require(name: str, array: npt.NDArray[Any], dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    # The loops check nothing and use addresses: any other array would have them read or write foreign memory.
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        kind = f"{'' if array.flags.c_contiguous else 'non-'}contiguous {array.dtype}"
        raise InvalidInput(
            f"{name} must be a contiguous {np.dtype(dtype)} array of shape {shape}, got a {kind} one of {array.shape}"
        )


def _require_target(name: str, array: Plane, shape: tuple[int, ...]) -> None:
    _require(name, array, np.float32, shape)
    if not array.flags.writeable:
        raise InvalidInput(f"{name} must be writable, got a read-only array")


def _fours(
    coefficients: Coefficients, terms: Sequence[_Array] | _Array, prime: int
) -> Iterator[tuple[Doubles, list[_Array]]]:
    """Four centred coefficients and their terms at a time: acc is read and written a quarter as often.

    The last group is filled up with zero times its last term, which by then is in the cache.
    """
    residues = [int(c) % prime for c in coefficients]
    pairs = [(c - prime if c > prime // 2 else c, term) for c, term in zip(residues, terms, strict=True)]
    for first in range(0, len(pairs), 4):
        group = pairs[first : first + 4]
        group += [(0, group[-1][1])] * (4 - len(group))
        yield np.array([c for c, _ in group], dtype=np.float64), [term for _, term in group]
