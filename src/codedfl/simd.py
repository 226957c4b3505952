"""The two inner loops of ``codedfl.ring_kernels`` that numba is not left to vectorise by itself.

`tile_sums`, of the matrix product (IV-C of the paper): each lane of a vector may sum 128 products of centred
residues before it must be reduced (bound 1 of ``codedfl.ring_kernels``), so eight lanes take 1024 columns of the
matrix between reductions. From a loop in Python, LLVM adds up the lanes before every reduction, and so pays for
both every 128 columns.

`unpack_whole`, of everything that reads 24-bit numbers: one byte shuffle, which LLVM does not find in a loop over
bytes or words.

Both are numba intrinsics: functions for use in compiled code that are written as LLVM vector instructions, which
LLVM then fits to the processor, whatever its vectors are.
"""

# numba's code generation helpers are not typed:
# mypy: disable-error-code="no-untyped-call"

import functools
from typing import Any

import llvmlite.binding  # type: ignore[import-untyped]
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["COLUMNS", "LANES", "ROWS", "UNPACKED", "tile_sums", "unpack_whole"]

UNPACKED = 8  # 24-bit numbers at a time
_LANE_PRODUCTS = 128  # bound 1

# A tile is ROWS * COLUMNS vectors of LANES sums, all in registers: AVX-512 has 32 of eight lanes, other x86
# processors 16 of four. Five columns, because ten classes are the common case.
ROWS, LANES = (4, 8) if llvmlite.binding.get_host_cpu_features().get("avx512f") else (2, 4)
COLUMNS = 5


def _tile_sums(_: Any, matrix: Any, update: Any, i: Any, j: Any, prime: Any) -> Any:
    """Rows i, i + 1.. of matrix times rows j, j + 1.. of update: ROWS * COLUMNS sums, row after row.

    matrix is float32 (rows, d) and update float64 (c, d), both of centred residues; j + COLUMNS <= c. Rows beyond
    the last stand for the last. Of the columns only whole vectors are summed: the last d mod LANES products are
    left to the caller. A sum is congruent to the true one and at most LANES * ((prime - 1)/2 + 2) in size.
    """
    sums = types.UniTuple(types.float64, ROWS * COLUMNS)
    return sums(matrix, update, i, j, prime), _generate_tile_sums


def _generate_tile_sums(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    index = ir.IntType(64)
    lane_index = ir.IntType(32)
    double = ir.DoubleType()
    doubles = ir.VectorType(double, LANES)
    singles = ir.VectorType(ir.FloatType(), LANES)

    def vector_function(name: str, arity: int) -> Any:
        kind = ir.FunctionType(doubles, [doubles] * arity)
        return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64")

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
    left = [builder.gep(matrix.data, [builder.mul(smaller(builder.add(i, index(r)), last), d)]) for r in range(ROWS)]
    right = [builder.gep(update.data, [builder.mul(builder.add(j, index(q)), d)]) for q in range(COLUMNS)]

    fma, rint = vector_function("fma", 3), vector_function("rint", 1)
    inverse = _in_all_lanes(builder, doubles, builder.fdiv(double(1.0), prime))
    minus_prime = _in_all_lanes(builder, doubles, builder.fsub(double(0.0), prime))
    # Stack variables in this text, registers in the machine code.
    zeros = ir.Constant(doubles, [0.0] * LANES)
    tile = {(r, q): cgutils.alloca_once_value(builder, zeros) for r in range(ROWS) for q in range(COLUMNS)}

    whole = builder.and_(d, index(-LANES))
    step = index(_LANE_PRODUCTS * LANES)
    with cgutils.for_range_slice(builder, index(0), whole, step, index) as (start, _):
        stop = smaller(builder.add(start, step), whole)
        with cgutils.for_range_slice(builder, start, stop, index(LANES), index) as (k, _):
            x = [builder.fpext(load(row, k, singles, 4), doubles) for row in left]
            for q, column in enumerate(right):
                y = load(column, k, doubles, 8)
                for r in range(ROWS):
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
        lanes = (builder.extract_element(value, lane_index(lane)) for lane in range(LANES))
        sums.append(functools.reduce(builder.fadd, lanes))
    return context.make_tuple(builder, signature.return_type, sums)


def _unpack_whole(_: Any, packed: Any, prime: Any, out: Any) -> Any:
    """Centred residues of 24-bit little-endian numbers; returns whether all of them were below the prime.

    packed is uint8 (3 n) at any address, prime int32 and out float32 (n). Only whole vectors are written: the last
    n mod UNPACKED numbers are left to the caller. A number that is not below the prime has the prime subtracted.
    """
    return types.boolean(packed, prime, out), _generate_unpack_whole


def _generate_unpack_whole(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    index, word, byte = ir.IntType(64), ir.IntType(32), ir.IntType(8)
    narrow, wide = ir.VectorType(byte, 3 * UNPACKED), ir.VectorType(word, UNPACKED)
    singles = ir.VectorType(ir.FloatType(), UNPACKED)

    packed, out = (context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 2))
    prime = _in_all_lanes(builder, wide, args[1])
    half = _in_all_lanes(builder, wide, builder.lshr(args[1], word(1)))
    zero = 3 * UNPACKED  # the first byte of the shuffle's second operand
    order = [k for n in range(UNPACKED) for k in (3 * n, 3 * n + 1, 3 * n + 2, zero)]
    shuffle = ir.Constant(ir.VectorType(word, len(order)), order)
    largest = cgutils.alloca_once_value(builder, ir.Constant(wide, [0] * UNPACKED))

    (size,) = cgutils.unpack_tuple(builder, out.shape)
    whole = builder.and_(size, index(-UNPACKED))
    with cgutils.for_range_slice(builder, index(0), whole, index(UNPACKED), index) as (i, _):
        source = builder.gep(packed.data, [builder.mul(i, index(3))])
        loaded = builder.load(builder.bitcast(source, narrow.as_pointer()), align=1)
        numbers = builder.shuffle_vector(loaded, ir.Constant(narrow, [0] * zero), shuffle)
        numbers = builder.bitcast(numbers, wide)
        before = builder.load(largest)
        builder.store(builder.select(builder.icmp_signed(">", numbers, before), numbers, before), largest)
        above = builder.icmp_signed(">", numbers, half)
        centred = builder.select(above, builder.sub(numbers, prime), numbers)
        target = builder.bitcast(builder.gep(out.data, [i]), singles.as_pointer())
        builder.store(builder.sitofp(centred, singles), target, align=4)

    valid = builder.icmp_signed("<", builder.load(largest), prime)
    lanes = (builder.extract_element(valid, word(lane)) for lane in range(UNPACKED))
    return functools.reduce(builder.and_, lanes)


def _in_all_lanes(builder: Any, kind: Any, value: Any) -> Any:
    lane_index = ir.IntType(32)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, lane_index(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(lane_index, kind.count), None))


tile_sums: Any = intrinsic(_tile_sums)
unpack_whole: Any = intrinsic(_unpack_whole)
