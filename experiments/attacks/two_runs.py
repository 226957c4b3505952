"""Two runs that differ by one device: their totals are exact, so their difference is that device.

A run ends early, and the operator starts again without the device that was missing. No coding, padding or masking
helps, nor would any other exact secure aggregation. What helps is that owners are in totals in whole pods
(``protocol.terms``), or noise; the devices here have no terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from codedfl.exact.fixed_point import FixedPoint
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.server import Server
from codedfl.run.in_process import run_in_process
from codedfl.solve.descent import GradientDescent

Floats = NDArray[np.float64]
Data = tuple[Floats, Floats]


class _Listening(GradientDescent):
    """Keeps the total of G^(1) that the server hands to its solver."""

    constant: Floats

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        self.constant = constant
        super().start(initial, constant, samples)


def total_constant(scheme: CodedScheme, parameters: Parameters, rows: Sequence[Data]) -> Floats:
    """What the server learns in the first epoch of a run with these devices: -X'Y in all, since Theta^(1) = 0."""
    names = [f"device-{i}" for i in range(len(rows))]
    solver = _Listening(2, 1e-3)
    plan = RunPlan(scheme.sharing_scheme, parameters, tuple(names))
    devices = [Device(plan, name, Rows(*part)) for name, part in zip(names, rows, strict=True)]
    run_in_process(Server(plan, solver), devices)
    return solver.constant


def difference_of_runs(scheme: CodedScheme, parameters: Parameters, rows: Sequence[Data]) -> Floats:
    """The last device's X'Y, from a run with it and one without."""
    without = replace(parameters, samples=None)
    return total_constant(scheme, without, rows[:-1]) - total_constant(scheme, without, rows)


def true_cross(parameters: Parameters, n_devices: int, rows: Data) -> Floats:
    """X'Y of one device as it is rounded to the ring; for checking only."""
    format_ = FixedPoint.derive(parameters.bounds, parameters.n_features, n_devices)
    return np.ldexp(format_.ring.to_integers(format_.cross_planes(*rows)).astype(np.float64), -format_.constant_bits)
