"""The source of the kernels, which ``codedfl_lab.primes.kernels`` checks all arguments for; they check nothing.

Only the compiler imports this file. A kernel takes addresses and sizes (``machine_code.SIGNATURES``) and has the inner
loops, on arrays, inlined; ``error_model`` says that no division raises, since primes and widths are never zero.

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
"""

# numba's code generation helpers are not typed:
# mypy: disable-error-code="no-untyped-call"

import functools
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from codedfl_lab.primes.kernels import COLUMNS, SPAN, Bytes, Doubles, Plane

_CENTRED_LIMIT = 2.0**50  # bound 3
_SIDE = 32  # of the squares in which a matrix is transposed
_UNPACKED = 32  # packed numbers at a time: of 24 bits 96 bytes, the fewest that shuffle well with AVX-512
_LANE_PRODUCTS = 128  # bound 1

# A tile is _ROWS * COLUMNS vectors of _LANES sums, all in registers: AVX-512 has 32 of eight lanes, other x86
# processors 16 of four.
_ROWS, _LANES = (4, 8) if llvmlite.binding.get_host_cpu_features().get("avx512f") else (2, 4)


def _define_tile_sums(_: Any, matrix: Any, update: Any, i: Any, j: Any, prime: Any) -> Any:
    """Rows i, i + 1.. of matrix times rows j, j + 1.. of update: _ROWS * COLUMNS sums, row after row, on the stack.

    matrix is float32 (rows, d) and update float64 (c, d), both of centred residues; j + COLUMNS <= c. Rows beyond
    the last stand for the last. Only whole vectors of columns are summed: the last d mod _LANES products are
    left to the caller. A sum is congruent to the true one and at most _LANES * ((prime - 1)/2 + 2) in size.
    """
    return types.CPointer(types.float64)(matrix, update, i, j, prime), _generate_tile_sums


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

    sums = cgutils.alloca_once(builder, double, size=_ROWS * COLUMNS)
    for place, s in enumerate(tile.values()):
        value = builder.load(s)
        lanes = (builder.extract_element(value, lane_index(lane)) for lane in range(_LANES))
        builder.store(functools.reduce(builder.fadd, lanes), builder.gep(sums, [index(place)]))
    return sums


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


@njit(error_model="numpy")
def _near(s: float, prime: float, inverse: float) -> float:
    """s minus the multiple of prime nearest to it (bounds 2 and 3)."""
    return s - prime * float(np.rint(s * inverse))


def product(matrix: Any, update: Any, prime: float, out: Any, rows: int, d: int, columns: int) -> None:
    """matrix is (rows, d), update (columns, d) with rows of zeros up to a multiple of COLUMNS, out (rows, columns)."""
    left, target = carray(matrix, (rows, d)), carray(out, (rows, columns))
    right = carray(update, (-(-columns // COLUMNS) * COLUMNS, d))
    inverse = 1.0 / prime
    for i in range(0, rows, _ROWS):
        for j in range(0, columns, COLUMNS):
            sums = carray(_tile_sums(left, right, i, j, prime), _ROWS * COLUMNS)
            for r in range(min(_ROWS, rows - i)):
                for q in range(min(COLUMNS, columns - j)):
                    # Eight lanes of at most h + 2 and seven products: within bound 3.
                    s = sums[r * COLUMNS + q]
                    for k in range(d - d % _LANES, d):
                        s += np.float64(left[i + r, k]) * right[j + q, k]
                    target[i + r, j + q] = _near(s, prime, inverse)


def reduce(values: Any, prime: float, out: Any, size: int) -> None:
    given, target = carray(values, size), carray(out, size)
    inverse = 1.0 / prime
    largest = 0.0
    for i in range(size):
        largest = max(largest, abs(given[i]))
    if largest <= _CENTRED_LIMIT:
        for i in range(size):
            target[i] = _near(given[i], prime, inverse)
    else:
        for i in range(size):
            target[i] = _near(np.fmod(given[i], prime), prime, inverse)  # fmod is exact


@njit(error_model="numpy")
def _add_four(acc: Plane, c: Doubles, terms: tuple[Plane, Plane, Plane, Plane], prime: float) -> None:
    # Four products of centred residues and one residue: below 2^49, within bound 3.
    inverse = 1.0 / prime
    t0, t1, t2, t3 = terms
    c0, c1, c2, c3 = c[0], c[1], c[2], c[3]
    for i in range(acc.size):
        s = np.float64(acc[i]) + c0 * t0[i] + c1 * t1[i] + c2 * t2[i] + c3 * t3[i]
        acc[i] = _near(s, prime, inverse)


def add_four(acc: Any, c: Any, t0: Any, t1: Any, t2: Any, t3: Any, prime: float, size: int) -> None:
    """acc += c[0] t0 + .. + c[3] t3."""
    terms = carray(t0, size), carray(t1, size), carray(t2, size), carray(t3, size)
    _add_four(carray(acc, size), carray(c, 4), terms, prime)


def add_four_packed(
    acc: Any, c: Any, t0: Any, t1: Any, t2: Any, t3: Any, prime: int, width: int, scratch: Any, size: int
) -> None:
    """The same of packed terms; scratch is (4, SPAN), of zeros."""
    coefficients, total, terms = carray(c, 4), carray(acc, size), carray(scratch, (4, SPAN))
    packed = (carray(t0, width * size), carray(t1, width * size), carray(t2, width * size), carray(t3, width * size))
    for start in range(0, size, SPAN):
        part = total[start : start + SPAN]
        for q in range(4):
            if coefficients[q] != 0.0:
                _unpack(packed[q][width * start :], np.int32(prime), terms[q, : part.size], width)
        _add_four(part, coefficients, (terms[0], terms[1], terms[2], terms[3]), float(prime))


# -- packed numbers ---------------------------------------------------------------------------------------------


@njit(error_model="numpy")
def _number(packed: Bytes, i: int, width: int) -> np.int32:
    low = np.int32(packed[width * i]) | np.int32(packed[width * i + 1]) << 8
    return low if width == 2 else low | np.int32(packed[width * i + 2]) << 16


@njit(error_model="numpy")
def _centred(number: np.int32, prime: np.int32) -> np.int32:
    return number - prime if number > prime >> 1 else number


@njit(error_model="numpy")
def _unpack(packed: Bytes, prime: np.int32, out: Plane, width: int) -> bool:
    valid: bool = _unpack_short(packed, prime, out) if width == 2 else _unpack_whole(packed, prime, out)
    for i in range(out.size - out.size % _UNPACKED, out.size):
        number = _number(packed, i, width)
        if number >= prime:
            valid = False
        out[i] = _centred(number, prime)
    return valid


def unpack(packed: Any, prime: int, out: Any, width: int, size: int) -> bool:
    """out = centred residues of the numbers of packed; whether all these were below the prime."""
    return bool(_unpack(carray(packed, width * size), np.int32(prime), carray(out, size), width))


def pack(plane: Any, prime: int, packed: Any, size: int) -> None:
    values, target = carray(plane, size), carray(packed, 3 * size)
    for i in range(size):
        v = np.int32(values[i])
        if v < 0:
            v += np.int32(prime)
        target[3 * i] = v & 255
        target[3 * i + 1] = (v >> 8) & 255
        target[3 * i + 2] = v >> 16


def pack_short(plane: Any, prime: int, packed: Any, size: int) -> None:
    values, target = carray(plane, size), carray(packed, size)
    for i in range(size):
        v = np.int32(values[i])
        target[i] = v + np.int32(prime) if v < 0 else v


def add_residues_from_stream(
    stream: Any, stream_size: int, modulus: int, signed: int, total: Any, size: int, start: int, width: int
) -> int:
    given, target = carray(stream, stream_size), carray(total, size)
    prime, sign = np.int32(modulus), np.float32(signed)
    candidates, half = stream_size // width, np.float32(prime >> 1)
    first, fill = 0, start
    while first < candidates and fill < size:
        rest = given[width * first :]
        part = target[fill : fill + candidates - first]
        added = _add_short(rest, prime, part, sign) if width == 2 else _add_whole(rest, prime, part, sign)
        # The primes of the ring reject a few candidates in 10^5 or 10^4. A vector that has one of them, and what is
        # left at the end, is taken number by number.
        for i in range(added, min(added + _UNPACKED, candidates - first)):
            number = _number(rest, i, width)
            if number < prime and fill + added < size:
                s = target[fill + added] + sign * np.float32(_centred(number, prime))
                s = s - np.float32(prime) if s > half else s
                target[fill + added] = s + np.float32(prime) if s < -half else s
                fill += 1
        first, fill = first + added + _UNPACKED, fill + added
    return fill


# -- symmetric matrices -----------------------------------------------------------------------------------------


def square_from_triangle(triangle: Any, out: Any, d: int) -> None:
    given, square = carray(triangle, d * (d + 1) // 2), carray(out, (d, d))
    position = 0
    for i in range(d):
        row, part = square[i, i:], given[position : position + d - i]
        for j in range(row.size):
            row[j] = part[j]
        position += d - i
    for top in range(0, d, _SIDE):
        for left in range(0, top + 1, _SIDE):
            for i in range(top, min(top + _SIDE, d)):
                for j in range(left, min(left + _SIDE, i)):
                    square[i, j] = square[j, i]
