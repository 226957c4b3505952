"""The compiled loops behind ``codedfl.exact.kernels``, which checks what it hands to them; they check nothing.

All arithmetic is on integers in float64, exact by three bounds. Let p < 2^24 be the prime, an odd one, and
h = (p - 1)/2 <= 2^23 - 2 the largest centred residue.

1. A product of two centred residues is at most h^2, so 128 of them and one residue up to h + 2 sum to less than
   2^53 - 2^31: a float64 holds the sum and all partial sums exactly, fused or not.
2. For such a sum s, the computed s * (1/p) is off by less than 2/p. With q that number rounded to an integer,
   s - p q is therefore at most p/2 + 2, that is h + 2, in size; p q stays below 2^53, so both steps are exact.
3. For |s| <= 2^50 the quotient is off by less than 1/(2p), the distance of s/p from the nearest half-integer: it
   is rounded to the right integer, and s - p q is *centred*.

Two loops are not left to numba's vectoriser but written as numba intrinsics, that is in LLVM's vector instructions,
which LLVM fits to whatever vectors the processor has. In `_tile_sums` each *lane* sums 128 products between
reductions, so eight lanes take 1024 columns; from a loop in Python, LLVM adds up the lanes before every reduction
and pays for both every 128 columns. `_unpack_whole` is one byte shuffle, which LLVM does not find in a loop over
bytes or words.

Packed numbers and the candidates of a stream have `width` bytes, 3 or 2 (`kernels.residue_bytes`).

Everything compiled is in this one file because numba's cache looks for changes only in the file of the function
that was called.
"""

# numba's code generation helpers are not typed:
# mypy: disable-error-code="no-untyped-call"

import functools
from typing import Any, TypeVar

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

Plane = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint16]
_Item = TypeVar("_Item")
Four = tuple[_Item, _Item, _Item, _Item]

_CENTRED_LIMIT = 2.0**50  # bound 3
_SPAN = 1024  # numbers unpacked at a time: four terms of them fit the L1 cache
_SIDE = 32  # of the squares in which a matrix is transposed
_UNPACKED = 32  # packed numbers at a time: of 24 bits 96 bytes, the fewest that shuffle well with AVX-512
_LANE_PRODUCTS = 128  # bound 1

# A tile is _ROWS * COLUMNS vectors of _LANES sums, all in registers: AVX-512 has 32 of eight lanes, other x86
# processors 16 of four. Five columns, because ten classes are the common case.
_ROWS, _LANES = (4, 8) if llvmlite.binding.get_host_cpu_features().get("avx512f") else (2, 4)
COLUMNS = 5


def _define_tile_sums(_: Any, matrix: Any, update: Any, i: Any, j: Any, prime: Any) -> Any:
    """Rows i, i + 1.. of matrix times rows j, j + 1.. of update: _ROWS * COLUMNS sums, row after row.

    matrix is float32 (rows, d) and update float64 (c, d), both of centred residues; j + COLUMNS <= c. Rows beyond
    the last stand for the last. Only whole vectors of columns are summed: the last d mod _LANES products are
    left to the caller. A sum is congruent to the true one and at most _LANES * ((prime - 1)/2 + 2) in size.
    """
    sums = types.UniTuple(types.float64, _ROWS * COLUMNS)
    return sums(matrix, update, i, j, prime), _generate_tile_sums


def _generate_tile_sums(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    index = ir.IntType(64)
    lane_index = ir.IntType(32)
    double = ir.DoubleType()
    doubles = ir.VectorType(double, _LANES)
    singles = ir.VectorType(ir.FloatType(), _LANES)

    def vector_function(name: str, arity: int) -> Any:
        kind = ir.FunctionType(doubles, [doubles] * arity)
        return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{_LANES}f64")

    def smaller(a: Any, b: Any) -> Any:
        return builder.select(builder.icmp_signed("<", a, b), a, b)

    def load(row: Any, k: Any, kind: Any, alignment: int) -> Any:
        return builder.load(builder.bitcast(builder.gep(row, [k]), kind.as_pointer()), align=alignment)

    matrix, update = (
        context.make_array(kind)(context, builder, value)
        for kind, value in zip(signature.args[:2], args[:2], strict=True)
    )
    i, j, prime = args[2:]
    rows, d = cgutils.unpack_tuple(builder, matrix.shape)
    last = builder.sub(rows, index(1))
    left = [builder.gep(matrix.data, [builder.mul(smaller(builder.add(i, index(r)), last), d)]) for r in range(_ROWS)]
    right = [builder.gep(update.data, [builder.mul(builder.add(j, index(q)), d)]) for q in range(COLUMNS)]

    fma, rint = vector_function("fma", 3), vector_function("rint", 1)
    inverse = _in_all_lanes(builder, doubles, builder.fdiv(double(1.0), prime))
    minus_prime = _in_all_lanes(builder, doubles, builder.fsub(double(0.0), prime))
    # Stack variables in this text, registers in the machine code.
    zeros = ir.Constant(doubles, [0.0] * _LANES)
    tile = {(r, q): cgutils.alloca_once_value(builder, zeros) for r in range(_ROWS) for q in range(COLUMNS)}

    whole = builder.and_(d, index(-_LANES))
    step = index(_LANE_PRODUCTS * _LANES)
    with cgutils.for_range_slice(builder, index(0), whole, step, index) as (start, _):
        stop = smaller(builder.add(start, step), whole)
        with cgutils.for_range_slice(builder, start, stop, index(_LANES), index) as (k, _):
            x = [builder.fpext(load(row, k, singles, 4), doubles) for row in left]
            for q, column in enumerate(right):
                y = load(column, k, doubles, 8)
                for r in range(_ROWS):
                    s = tile[r, q]
                    builder.store(builder.call(fma, [x[r], y, builder.load(s)]), s)
        # Bound 2. What remains is the one residue that the next 128 products are added to.
        for s in tile.values():
            value = builder.load(s)
            quotient = builder.call(rint, [builder.fmul(value, inverse)])
            builder.store(builder.call(fma, [minus_prime, quotient, value]), s)

    sums = []
    for s in tile.values():
        value = builder.load(s)
        lanes = (builder.extract_element(value, lane_index(lane)) for lane in range(_LANES))
        sums.append(functools.reduce(builder.fadd, lanes))
    return context.make_tuple(builder, signature.return_type, sums)


def _define_unpack_whole(_: Any, packed: Any, prime: Any, out: Any) -> Any:
    """Centred residues of 24-bit little-endian numbers; returns whether all of them were below the prime.

    packed is uint8 (3 n) at any address, prime int32 and out float32 (n). Only whole vectors are written: the last
    n mod _UNPACKED numbers are left to the caller. A number that is not below the prime has the prime subtracted.
    """
    return types.boolean(packed, prime, out), functools.partial(_generate_unpack_whole, 3)


def _define_unpack_short(_: Any, packed: Any, prime: Any, out: Any) -> Any:
    """The same of 16-bit numbers; packed has 2 n bytes."""
    return types.boolean(packed, prime, out), functools.partial(_generate_unpack_whole, 2)


def _define_add_whole(_: Any, packed: Any, prime: Any, out: Any, sign: Any) -> Any:
    """out += sign times what ``_unpack_whole`` would write, centred; sign is float32, 1 or -1.

    It ends before the first vector with a number that is not below the prime, and returns how many were added. Two
    centred residues sum to less than 2^24: exact in float32, and at most one prime too large or too small.
    """
    return types.int64(packed, prime, out, sign), functools.partial(_generate_add_whole, 3)


def _define_add_short(_: Any, packed: Any, prime: Any, out: Any, sign: Any) -> Any:
    """The same of 16-bit numbers."""
    return types.int64(packed, prime, out, sign), functools.partial(_generate_add_whole, 2)


def _generate_add_whole(width: int, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    index, singles = ir.IntType(64), ir.VectorType(ir.FloatType(), _UNPACKED)
    packed, out, whole = _packed_and_out(context, builder, signature, args)
    sign = _in_all_lanes(builder, singles, args[3])
    prime = _in_all_lanes(builder, singles, builder.sitofp(args[1], ir.FloatType()))
    half = _in_all_lanes(builder, singles, builder.sitofp(builder.lshr(args[1], ir.IntType(32)(1)), ir.FloatType()))
    least = builder.fsub(ir.Constant(singles, [0.0] * _UNPACKED), half)
    added = cgutils.alloca_once_value(builder, index(0))
    with cgutils.for_range(builder, builder.udiv(whole, index(_UNPACKED)), intp=index) as loop:
        i = builder.mul(loop.index, index(_UNPACKED))
        term, below = _unpacked_vector(width, builder, packed, args[1], i)
        with builder.if_then(builder.not_(below), likely=False):
            loop.do_break()
        target = builder.bitcast(builder.gep(out.data, [i]), singles.as_pointer())
        total = builder.fadd(builder.load(target, align=4), builder.fmul(sign, term))
        total = builder.select(builder.fcmp_ordered(">", total, half), builder.fsub(total, prime), total)
        total = builder.select(builder.fcmp_ordered("<", total, least), builder.fadd(total, prime), total)
        builder.store(total, target, align=4)
        builder.store(builder.add(i, index(_UNPACKED)), added)
    return builder.load(added)


def _generate_unpack_whole(width: int, context: Any, builder: Any, signature: Any, args: Any) -> Any:
    index, singles = ir.IntType(64), ir.VectorType(ir.FloatType(), _UNPACKED)
    packed, out, whole = _packed_and_out(context, builder, signature, args)
    valid = cgutils.alloca_once_value(builder, ir.IntType(1)(1))
    with cgutils.for_range_slice(builder, index(0), whole, index(_UNPACKED), index) as (i, _):
        numbers, below = _unpacked_vector(width, builder, packed, args[1], i)
        builder.store(builder.and_(builder.load(valid), below), valid)
        target = builder.bitcast(builder.gep(out.data, [i]), singles.as_pointer())
        builder.store(numbers, target, align=4)
    return builder.load(valid)


def _packed_and_out(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Both arrays, and how many numbers of the second are in whole vectors."""
    packed, out = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 2))
    (size,) = cgutils.unpack_tuple(builder, out.shape)
    return packed, out, builder.and_(size, ir.IntType(64)(-_UNPACKED))


def _unpacked_vector(width: int, builder: Any, packed: Any, prime: Any, i: Any) -> Any:
    """The centred residues of the numbers from i on, as floats, and whether all of them are below the prime."""
    index, word, lane_bits = ir.IntType(64), ir.IntType(32), ir.IntType(_UNPACKED)
    narrow, wide = ir.VectorType(ir.IntType(8), width * _UNPACKED), ir.VectorType(word, _UNPACKED)
    zero = width * _UNPACKED  # the first byte of the shuffle's second operand
    order = [width * n + k if k < width else zero for n in range(_UNPACKED) for k in range(4)]
    shuffle = ir.Constant(ir.VectorType(word, len(order)), order)
    primes = _in_all_lanes(builder, wide, prime)
    half = _in_all_lanes(builder, wide, builder.lshr(prime, word(1)))
    source = builder.gep(packed.data, [builder.mul(i, index(width))])
    loaded = builder.load(builder.bitcast(source, narrow.as_pointer()), align=1)
    numbers = builder.bitcast(builder.shuffle_vector(loaded, ir.Constant(narrow, [0] * zero), shuffle), wide)
    above = builder.icmp_signed(">", numbers, half)
    centred = builder.select(above, builder.sub(numbers, primes), numbers)
    invalid = builder.bitcast(builder.icmp_signed(">=", numbers, primes), lane_bits)
    below = builder.icmp_unsigned("==", invalid, lane_bits(0))
    return builder.sitofp(centred, ir.VectorType(ir.FloatType(), _UNPACKED)), below


def _in_all_lanes(builder: Any, kind: Any, value: Any) -> Any:
    lane_index = ir.IntType(32)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, lane_index(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(lane_index, kind.count), None))


_tile_sums: Any = intrinsic(_define_tile_sums)
_unpack_whole: Any = intrinsic(_define_unpack_whole)
_unpack_short: Any = intrinsic(_define_unpack_short)
_add_whole: Any = intrinsic(_define_add_whole)
_add_short: Any = intrinsic(_define_add_short)


# -- products ---------------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _near(s: float, prime: float, inverse: float) -> float:
    """s minus the multiple of prime nearest to it (bounds 2 and 3)."""
    return s - prime * float(np.rint(s * inverse))


@njit(cache=True, nogil=True)
def product(matrix: Plane, update: Doubles, prime: float, out: Plane) -> None:
    inverse = 1.0 / prime
    d = matrix.shape[1]
    rows, columns = out.shape
    for i in range(0, rows, _ROWS):
        for j in range(0, columns, COLUMNS):
            sums = _tile_sums(matrix, update, i, j, prime)
            for r in range(min(_ROWS, rows - i)):
                for q in range(min(COLUMNS, columns - j)):
                    # Eight lanes of at most h + 2 and seven products: within bound 3.
                    s = sums[r * COLUMNS + q]
                    for k in range(d - d % _LANES, d):
                        s += np.float64(matrix[i + r, k]) * update[j + q, k]
                    out[i + r, j + q] = _near(s, prime, inverse)


@njit(cache=True, nogil=True)
def reduce(values: Doubles, prime: float, out: Plane) -> None:
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
def add_four(acc: Plane, c: Four[float], terms: Four[Plane], prime: float) -> None:
    # Four products of centred residues and one residue: below 2^49, within bound 3.
    inverse = 1.0 / prime
    t0, t1, t2, t3 = terms
    for i in range(acc.size):
        s = np.float64(acc[i]) + c[0] * t0[i] + c[1] * t1[i] + c[2] * t2[i] + c[3] * t3[i]
        acc[i] = _near(s, prime, inverse)


@njit(cache=True, nogil=True)
def add_four_packed(acc: Plane, c: Four[float], packed: Four[Bytes], prime: np.int32, width: int) -> None:
    terms = np.zeros((4, _SPAN), np.float32)
    for start in range(0, acc.size, _SPAN):
        part = acc[start : start + _SPAN]
        for q in range(4):
            if c[q] != 0.0:
                unpack(packed[q][width * start :], prime, terms[q, : part.size], width)
        add_four(part, c, (terms[0], terms[1], terms[2], terms[3]), float(prime))


# -- packed numbers ---------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _number(packed: Bytes, i: int, width: int) -> np.int32:
    low = np.int32(packed[width * i]) | np.int32(packed[width * i + 1]) << 8
    return low if width == 2 else low | np.int32(packed[width * i + 2]) << 16


@njit(cache=True, nogil=True)
def _centred(number: np.int32, prime: np.int32) -> np.int32:
    return number - prime if number > prime >> 1 else number


@njit(cache=True, nogil=True)
def unpack(packed: Bytes, prime: np.int32, out: Plane, width: int) -> bool:
    """out = centred residues of the numbers of packed; whether all these were below the prime."""
    valid: bool = _unpack_short(packed, prime, out) if width == 2 else _unpack_whole(packed, prime, out)
    for i in range(out.size - out.size % _UNPACKED, out.size):
        number = _number(packed, i, width)
        if number >= prime:
            valid = False
        out[i] = _centred(number, prime)
    return valid


@njit(cache=True, nogil=True)
def pack(plane: Plane, prime: np.int32, packed: Bytes) -> None:
    for i in range(plane.size):
        v = np.int32(plane[i])
        if v < 0:
            v += prime
        packed[3 * i] = v & 255
        packed[3 * i + 1] = (v >> 8) & 255
        packed[3 * i + 2] = v >> 16


@njit(cache=True, nogil=True)
def pack_short(plane: Plane, prime: np.int32, packed: Words) -> None:
    for i in range(plane.size):
        v = np.int32(plane[i])
        packed[i] = v + prime if v < 0 else v


@njit(cache=True, nogil=True)
def residues_from_stream(stream: Bytes, prime: np.int32, out: Plane, start: int, width: int) -> int:
    out[start:] = 0
    return int(add_residues_from_stream(stream, prime, np.float32(1), out, start, width))


@njit(cache=True, nogil=True)
def add_residues_from_stream(
    stream: Bytes, prime: np.int32, sign: np.float32, total: Plane, start: int, width: int
) -> int:
    candidates, half = stream.size // width, np.float32(prime >> 1)
    first, fill = 0, start
    while first < candidates and fill < total.size:
        rest = stream[width * first :]
        part = total[fill : fill + candidates - first]
        added = _add_short(rest, prime, part, sign) if width == 2 else _add_whole(rest, prime, part, sign)
        # The primes of the ring reject a few candidates in 10^5 or 10^4. A vector that has one of them, and what is
        # left at the end, is taken number by number.
        for i in range(added, min(added + _UNPACKED, candidates - first)):
            number = _number(rest, i, width)
            if number < prime and fill + added < total.size:
                s = total[fill + added] + sign * np.float32(_centred(number, prime))
                s = s - np.float32(prime) if s > half else s
                total[fill + added] = s + np.float32(prime) if s < -half else s
                fill += 1
        first, fill = first + added + _UNPACKED, fill + added
    return fill


# -- symmetric matrices -----------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def square_from_triangle(triangle: Plane, out: Plane) -> None:
    d = out.shape[0]
    position = 0
    for i in range(d):
        out[i, i:] = triangle[position : position + d - i]
        position += d - i
    for top in range(0, d, _SIDE):
        for left in range(0, top + 1, _SIDE):
            for i in range(top, min(top + _SIDE, d)):
                for j in range(left, min(left + _SIDE, i)):
                    out[i, j] = out[j, i]
