"""Sums of one vector per device that show nobody a single one, by the training protocol itself.

With features x and labels Y, a device's G^(1) = X'X 0 - X'Y: one epoch of coded keys with alpha = 1 decodes the total
of the X'Y and nothing else. A number v goes in as two samples, x = 1 with its leading bits and x = 2^-19 with the next
ones, which X'Y puts together again on the device: nobody sees the parts, and v keeps about twice the bits that a label
has. Used for the mean and variance of columns without public ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from codedfl.data.preprocessing import Moments, secure_moments
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import GRID_BITS, Bounds
from codedfl.protocol import Parameters
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.run.in_process import run_in_process
from codedfl.state import PLAIN, Kept, Resumable
from codedfl.typing import Floats

_LABEL_BITS = GRID_BITS - 1  # fraction bits of a label within +-1
_SUM_BITS = 2 * _LABEL_BITS
_SAMPLES = np.array([[1.0], [2.0**-_LABEL_BITS]])


class _ReadTotal(Resumable):
    """A solver that takes the first total and is done."""

    _kept: ClassVar[Mapping[str, Kept]] = {"model": PLAIN}

    def __init__(self) -> None:
        self.epochs = 1
        self.model: Floats | None = None

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        del initial, samples
        self.model = -constant

    def request(self) -> Floats | None:
        return None

    def receive(self, sent: Floats, product: Floats) -> None:
        raise AssertionError(f"nothing was requested, got a product of shape {product.shape} for {sent.shape}")


def secure_sum_in_process(vectors: Sequence[Floats]) -> Floats:
    """The sum of at least two vectors of one length, each entry rounded to 2^-38 of its largest value (11 digits).

    The power of two above each entry's largest value becomes public: the devices need a common scale. An entry that
    is zero everywhere has a total of zero.
    """
    if len(vectors) < 2:
        raise InvalidInput(f"a secure sum must have at least two devices, got {len(vectors)}")
    stacked = np.stack([np.asarray(vector, dtype=np.float64) for vector in vectors])
    _, exponents = np.frexp(np.abs(stacked).max(axis=0))
    scaled = np.ldexp(stacked, -exponents)
    leading = np.ldexp(np.rint(np.ldexp(scaled, _LABEL_BITS)), -_LABEL_BITS)
    following = np.ldexp(scaled - leading, _LABEL_BITS)
    names = [f"device-{i}" for i in range(len(vectors))]
    samples = len(_SAMPLES) * len(vectors)
    bounds = Bounds(features=1.0, labels=1.0, samples=samples, samples_per_device=len(_SAMPLES))
    # One bit above those of a number: the proof that totals do not wrap leaves the constant part half of the room.
    precision = _SUM_BITS + 1
    parameters = Parameters(
        "coded-keys", 1, 1, stacked.shape[1], bounds, precision=precision, samples=samples, epochs=1
    )
    devices = [
        KeysDevice(name, _SAMPLES, np.stack(labels)) for name, *labels in zip(names, leading, following, strict=True)
    ]
    total = run_in_process(KeysServer(parameters, names, _ReadTotal()), devices)
    return np.asarray(np.ldexp(total[0], exponents))


def secure_moments_in_process(parts: list[NDArray[Any]]) -> Moments:
    """Mean and variance of each column over at least two devices, ``parts`` holding the rows of each.

    A deviation that the rounding of the sums alone can make is 0: what it is of a constant column, nobody could tell
    from a real one, and to standardise by it would blow up noise.
    """
    moments = secure_moments(parts, secure_sum_in_process)
    # Each device rounds its part of a constant column's mean by at most 2^-38 of that mean.
    rounding = len(parts) * np.ldexp(np.abs(moments.mean), -_SUM_BITS)
    variance = np.where(np.sqrt(moments.variance) <= rounding, 0.0, moments.variance)
    return Moments(moments.count, moments.mean, variance)
