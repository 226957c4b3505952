"""Sums of one vector per device that show nobody a single one, by the training protocol itself.

With one sample x = 1 and labels y = v, a device's G^(1) = X'X 0 - X'Y is -v: one epoch of coded keys with alpha = 1
decodes the total of the vectors and nothing else. Used for the mean and variance of columns without public ranges.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.fixed_point import Bounds
from codedfl.in_process import run_in_process
from codedfl.protocol import Parameters
from codedfl.schemes.coded_keys import KeysDevice, KeysServer

Floats = NDArray[np.float64]


class _ReadTotal:
    """A solver that takes the first total and is done."""

    def __init__(self) -> None:
        self.model: Floats | None = None

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        del initial, samples
        self.model = -constant

    def request(self) -> Floats | None:
        return None

    def receive(self, sent: Floats, product: Floats) -> None:
        raise AssertionError(f"nothing was requested, got a product of shape {product.shape} for {sent.shape}")


def secure_sum_in_process(vectors: Sequence[Floats]) -> Floats:
    """The sum of at least two vectors of one length, to about six digits of each entry's largest value.

    The power of two above each entry's largest value becomes public: the devices need a common scale.
    """
    if len(vectors) < 2:
        raise InvalidInput(f"a secure sum must have at least two devices, got {len(vectors)}")
    stacked = np.stack([np.asarray(vector, dtype=np.float64) for vector in vectors])
    _, exponents = np.frexp(np.abs(stacked).max(axis=0))
    scaled = np.ldexp(stacked, -exponents)
    names = [f"device-{i}" for i in range(len(vectors))]
    bounds = Bounds(features=1.0, labels=1.0, samples=len(vectors), samples_per_device=1)
    parameters = Parameters("coded-keys", 1, 1, stacked.shape[1], bounds, samples=len(vectors))
    devices = [KeysDevice(name, np.ones((1, 1)), row[None, :]) for name, row in zip(names, scaled, strict=True)]
    total = run_in_process(KeysServer(parameters, names, _ReadTotal()), devices)
    return np.asarray(np.ldexp(total[0], exponents))
