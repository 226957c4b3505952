"""The server's half of the scales: what it sends is rounded, and decoded totals become reals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from codedfl.errors import RangeExceeded
from codedfl.exact.scales import Scales, floor_log2
from codedfl.typing import Floats, Wholes


def round_update(scales: Scales, update: Floats) -> tuple[Floats, int]:
    """e as integers and the number of fraction bits they carry: the most that keep X'X e below M/8.

    A zero update has 0 fraction bits. Refused when not even whole numbers fit, or nothing but zeros: the training
    diverged, or the bounds leave no digits.

    >>> from codedfl.exact.scales import Bounds
    >>> scales = Scales.on(1 << 48, Bounds(1.0, 1.0, samples=1000, samples_per_device=300), n_features=2, n_devices=5)
    >>> round_update(scales, np.array([[0.5], [0.25]]))[0].ravel().tolist()
    [65536.0, 32768.0]
    """
    if not np.all(np.isfinite(update)):
        raise RangeExceeded("the update must be finite, got NaN or infinity: the training diverged")
    norm = _column_norm(update)
    if norm == 0.0:
        return np.zeros_like(update), 0
    room = scales.limit // scales.gram_limit
    # Rounding may lengthen the norm, so start from the estimate and step down until the proof holds.
    for bits in range(floor_log2(Fraction(room) / Fraction(norm)), -1, -1):
        integers = np.rint(np.ldexp(update, bits))
        if int(_column_norm(integers)) <= room:
            if not integers.any():
                raise RangeExceeded(
                    f"the update must not be rounded to zero, got one of norm {norm:g} with {bits} fraction bits:"
                    " the public bounds are too wide for this precision"
                )
            return integers, bits
    raise RangeExceeded(f"the update must have a column 1-norm of at most {room}, got {norm:g}: it cannot be sent")


def product_to_reals(scales: Scales, sums: Wholes, update_integers: Floats, update_bits: int) -> Floats:
    """sum_i X_i'X_i e as reals, refused where an entry is larger than this e can make it.

    Examples
    --------
    See ``codedfl.solve.training``, whose sums come so.
    """
    # Invariant: each column has its own proven limit, so that a wrong small column cannot hide behind a large one.
    norms = np.abs(update_integers).sum(axis=0)
    limits = [scales.gram_limit * int(norm) for norm in norms]
    return _to_reals(sums, limits, scales.gram_bits + update_bits, "X'X e")


def gram_to_reals(scales: Scales, triangle: Wholes) -> Floats:
    """sum_i X_i'X_i (its upper triangle) as reals, refused outside its bound.

    Examples
    --------
    See ``codedfl.solve.training``, whose sums come so.
    """
    return _to_reals(triangle[:, None], [scales.gram_limit], scales.gram_bits, "X'X")[:, 0]


def constant_to_reals(scales: Scales, sums: Wholes) -> Floats:
    """sum_i G_i^(1) as reals, refused outside its bound.

    Examples
    --------
    See ``codedfl.solve.training``, whose sums come so.
    """
    return _to_reals(sums, [scales.cross_limit] * sums.shape[-1], scales.constant_bits, "G^(1)")


def _to_reals(sums: Wholes, limits: list[int], bits: int, what: str) -> Floats:
    # Invariant: an honest total never leaves its limit (with noise, but for a probability below 2^-102), and limits
    # are at most M/8. So a total beyond it is wrong, and it is refused before anything is computed from it.
    for column, limit in zip(sums.T, limits, strict=True):
        largest = max(abs(int(column.max(initial=0))), abs(int(column.min(initial=0))))
        if largest > limit:
            raise RangeExceeded(
                f"decoded {what} must stay within +-{limit} units, got {largest}:"
                " an overflow or a wrong reply, not used"
            )
    reals: Floats = np.ldexp(sums.astype(np.float64), -bits)
    return reals


def _column_norm(matrix: Floats) -> float:
    """The largest column 1-norm. It is exact for integers whose absolute values sum up to less than 2^53."""
    return float(np.abs(matrix).sum(axis=0).max(initial=0.0))
