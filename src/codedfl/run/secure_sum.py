"""Sums of one vector per device that show nobody a single one, by the protocol's own totals of whole numbers.

Every entry becomes a whole number of 2^-180, written in ten signed digits of 36 bits. The total of the digits is exact,
so that of the vectors is rounded once, to a float; the devices need no common scale, and nothing about one of them
becomes public. Used for the mean and variance of columns without public ranges, and for scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.preprocessing import Moments, secure_moments
from codedfl.errors import InvalidInput
from codedfl.exact.ring import Ring
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import WholeNumbers
from codedfl.protocol.device import Device
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl.protocol.server import Server
from codedfl.run.in_process import run_in_process
from codedfl.solve.whole_total import TakesTotal
from codedfl.typing import Floats, Planes

_DIGITS = 10
_DIGIT_BITS = 36  # two primes hold the total of 500 devices
_FRACTION_BITS = _DIGITS * _DIGIT_BITS // 2
LARGEST = 2.0**_FRACTION_BITS  # about 1.5e54: an entry must be smaller, also a sum of squares of 1e25


def secure_sum_in_process(vectors: Sequence[Floats], colluders: int = 1) -> Floats:
    """The sum of at least two vectors of one length, exact but for the last bit of each float.

    colluders: how many devices, together with the server, learn only the sum of the others; never fewer than one.
    """
    n_devices = len(vectors)
    if n_devices < 2:
        raise InvalidInput(f"a secure sum must have at least two devices, got {n_devices}")
    digits = [_digits(one) for one in vectors]
    borne = min(max(1, colluders), n_devices - 2)
    scheme = next(RoleKeys.tolerating(borne, n_devices), RoleKeys(borne))
    parameters = Parameters(
        scheme.name,
        **scheme.agreed,
        n_features=1,
        n_outputs=digits[0].size,
        bounds=Bounds(1.0, 1.0, n_devices, 1),
        epochs=1,
        total_limit=n_devices << _DIGIT_BITS,
    )
    names = tuple(f"device-{i}" for i in range(n_devices))
    plan = RunPlan(scheme.sharing_scheme, parameters, names, holders=scheme.holders_among(names))
    devices = [
        Device(plan, name, WholeNumbers(one.size, partial(_on_ring, one)))
        for name, one in zip(names, digits, strict=True)
    ]
    solver = TakesTotal()
    run_in_process(Server(plan, solver), devices)
    totals = np.reshape(np.array(solver.numbers, dtype=object), digits[0].shape)
    weights = [2 ** (_DIGIT_BITS * place) for place in range(_DIGITS)]
    return np.array([whole / 2**_FRACTION_BITS for whole in np.array(weights, dtype=object) @ totals])


def _on_ring(digits: Floats, ring: Ring) -> Planes:
    return ring.from_integers(digits.reshape(-1))


def _digits(vector: Floats) -> Floats:
    """(digits, length), the smallest digit first, each with the sign of its entry."""
    values = np.asarray(vector, dtype=np.float64)
    if not (np.abs(values) < LARGEST).all():  # nan is not
        raise InvalidInput(f"numbers to sum must be finite and below {LARGEST:.0e}, got {np.abs(values).max():g}")
    ratios = (abs(value).as_integer_ratio() for value in values.tolist())
    wholes = [(numerator << _FRACTION_BITS) // denominator for numerator, denominator in ratios]
    places = range(0, _DIGITS * _DIGIT_BITS, _DIGIT_BITS)
    found = [[(whole >> place) % 2**_DIGIT_BITS for whole in wholes] for place in places]
    return np.copysign(np.array(found, dtype=np.float64), values)


def secure_moments_in_process(
    parts: list[NDArray[Any]], weights: list[Floats] | None = None, colluders: int = 1
) -> Moments:
    """Mean and variance of each column over at least two devices, ``parts`` holding the rows of each.

    ``weights`` are those of each device's rows, if they do not all count alike.
    """
    return secure_moments(parts, partial(secure_sum_in_process, colluders=colluders), weights)
