"""The total of X'X over devices by one run of a scheme that shows it, and nothing of a single device.

For inference and for principal components. Whoever sums learns the whole matrix: devices have to allow that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from codedfl.exact.fixed_point import Bounds, FixedPoint
from codedfl.exact.ring import Ring
from codedfl.protocol import Parameters, Policy
from codedfl.run.in_process import run_in_process
from codedfl.schemes import CodedScheme, OneShot
from codedfl.state import PLAIN, Kept, Resumable
from codedfl.typing import Floats


class TakesGram(Resumable):
    """A solver that keeps the total of X'X, and over how many rows it is, and is done."""

    epochs = 1
    _kept: ClassVar[Mapping[str, Kept]] = {"model": PLAIN, "triangle": PLAIN, "samples": PLAIN}

    def __init__(self) -> None:
        self.model: Floats | None = None
        self.triangle: Floats | None = None
        self.samples = 0

    def total(self, width: int) -> Floats:
        """The total as a symmetric matrix of so many columns."""
        assert self.triangle is not None
        total = np.zeros((width, width))
        total[np.triu_indices(width)] = self.triangle
        return np.asarray(total + np.triu(total, 1).T)

    def take_gram(self, triangle: Floats) -> None:
        """See ``GramSolver``."""
        self.triangle = triangle

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        """See ``Solver``."""
        del constant
        self.model, self.samples = initial, samples

    def request(self) -> Floats | None:
        """Nothing more is wanted."""
        return None

    def receive(self, sent: Floats, product: Floats) -> None:
        """Never called."""
        raise AssertionError(f"nothing was requested, got a product of shape {product.shape} for {sent.shape}")


def gram_parameters(scheme: CodedScheme, width: int, bounds: Bounds, n_devices: int, digest: bytes) -> Parameters:
    """Of the run that sums X'X of so many columns; ``digest`` is what is agreed on."""
    # All fraction bits that three primes give: these totals are all there is.
    precision = FixedPoint.natural_bits(Ring.for_group_sizes((n_devices,), 3), bounds, width)
    return Parameters(
        scheme.name,
        n_features=width,
        n_outputs=1,
        bounds=bounds,
        precision=precision,
        **scheme.agreed,
        reveals_gram=scheme.reveals_gram,
        recipe=digest,
    )


def run_for_gram(
    scheme: CodedScheme, parameters: Parameters, names: Sequence[str], parts: Sequence[Floats]
) -> TakesGram:
    """The run in this process, with one part of the rows a device; returns the solver that has got the total."""
    solver = TakesGram()
    server = scheme.server_type(parameters, names, solver, **scheme.server_options(names))
    policy = Policy(allow_gram=True, allow_unpinned=True, colluders=0)  # the caller has asked for it
    devices = [
        scheme.device_type(name, rows, np.zeros((len(rows), 1)), policy=policy, recipe=parameters.recipe)
        for name, rows in zip(names, parts, strict=True)
    ]
    run_in_process(server, devices)
    return solver


def secure_gram_in_process(parts: list[Floats], bounds: Bounds) -> Floats:
    """X'X over all devices, ``parts`` holding the rows of each."""
    n_devices, width = len(parts), parts[0].shape[1]
    scheme = OneShot(alpha=max(1, n_devices - 2))
    parameters = gram_parameters(scheme, width, bounds, n_devices, b"")
    names = [f"device-{i}" for i in range(n_devices)]
    return run_for_gram(scheme, parameters, names, parts).total(width)
