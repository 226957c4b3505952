"""A device's vector as two samples whose X'Y the training protocol sums over the devices, exactly.

Every entry becomes a whole number of 2^-114 and is written in six signed digits of 38 bits, an output each. The first
sample has x = 1 and the leading half of each digit, the second x = 2^-19 and the other half: X'Y puts a digit together
again on the device, and the ring adds digits up without rounding. So the total is that of the vectors to the last bit
of a float, the devices need no common scale, and nothing about one of them becomes public.

It says nothing of who sums (``run.secure_sum`` on one machine, ``engine.stages`` on many).
"""

from __future__ import annotations

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import GRID_BITS, Bounds
from codedfl.typing import Floats

_HALF_BITS = GRID_BITS - 1  # fraction bits of a label within +-1
_DIGIT_BITS = 2 * _HALF_BITS
_DIGITS = 6
_FRACTION_BITS = _DIGITS * _DIGIT_BITS // 2
LARGEST = 2.0**_FRACTION_BITS  # about 2e34: an entry must be smaller
# One bit above those of a digit: the proof that totals do not wrap leaves the constant part half of the room.
SUM_PRECISION = _DIGIT_BITS + 1
SAMPLES = 2  # of each device


def n_sum_outputs(length: int) -> int:
    """Outputs of the run that sums vectors of this length."""
    return _DIGITS * length


def sum_bounds(n_devices: int) -> Bounds:
    """The public bounds of such a run; they leave out nothing."""
    return Bounds(features=1.0, labels=1.0, samples=SAMPLES * n_devices, samples_per_device=SAMPLES)


def sum_rows(vector: Floats) -> tuple[Floats, Floats]:
    """X and Y of the device that has this vector."""
    if not (np.abs(vector) < LARGEST).all():  # nan is not
        raise InvalidInput(f"numbers to sum must be finite and below {LARGEST:.0e}, got {np.abs(vector).max():g}")
    halves = np.array([_halves(value) for value in vector.tolist()], dtype=np.float64)
    return np.array([[1.0], [2.0**-_HALF_BITS]]), np.ldexp(halves.transpose(1, 0, 2).reshape(2, -1), -_HALF_BITS)


def read_sum(total: Floats) -> Floats:
    """The sum of the vectors from the total of X'Y, rounded once to a float."""
    digits = np.rint(np.ldexp(total.reshape(-1, _DIGITS), _DIGIT_BITS)).astype(np.int64)
    return np.array(
        [sum(one << (_DIGIT_BITS * k) for k, one in enumerate(row)) / 2**_FRACTION_BITS for row in digits.tolist()]
    )


def _halves(value: float) -> tuple[list[int], list[int]]:
    """Leading and following half of each digit, the smallest digit first, with the sign of the value."""
    numerator, denominator = abs(value).as_integer_ratio()
    whole = (numerator << _FRACTION_BITS) // denominator
    sign = -1 if value < 0 else 1
    mask = (1 << _HALF_BITS) - 1
    places = [_DIGIT_BITS * k for k in range(_DIGITS)]
    return [sign * ((whole >> (place + _HALF_BITS)) & mask) for place in places], [
        sign * ((whole >> place) & mask) for place in places
    ]
