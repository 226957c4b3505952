"""One scheme with one solver on one fleet: how long it takes to a target, what it costs a device, whom it exposes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from codedfl.solve.registry import solver_kind
from codedfl.solve.solver import Solver
from codedfl.typing import Seconds
from codedfl_lab.costs.times import (
    Conditions,
    WorkShape,
    device_costs,
    failures_survived,
    stragglers,
)
from codedfl_lab.schemes.descriptor import Scheme


@dataclass(frozen=True)
class TimedScheme:
    """One way to train, its time to the target and its price.

    scheme: its name.
    label: scheme and parameters in words, for people.
    solver: its name.
    epochs: to the target.
    seconds_mean: simulated seconds to the target.
    seconds_p5: in one of twenty runs it takes less.
    seconds_p95: in one of twenty runs it takes more.
    sharing_seconds: of them, before the first epoch.
    epoch_seconds: mean simulated seconds of one epoch.
    upload_bytes: sent by the busiest device in the whole training.
    download_bytes: received by it.
    macs: multiply-adds of it.
    memory_bytes: what it holds.
    stragglers: how many devices need not be waited for in an epoch.
    server_sees: in words.
    gram_directions: of how many directions of the total Gram matrix the server learns the image.
    n_features: d, of all directions.
    exposed_to_server: how many honest devices' data the server learns alone.
    exposed_by_one: the same with the worst one device.
    exposed_by_two: the same with the worst two.
    colluders: how many devices may collude with the server without exposing another one; -1 if the server needs none.
    parameters: the scheme's own.
    failures_survived: how many devices, whichever they are, may fail for good once training has begun.
    """

    scheme: str
    label: str
    solver: str
    epochs: int
    seconds_mean: float
    seconds_p5: float
    seconds_p95: float
    sharing_seconds: float
    epoch_seconds: float
    upload_bytes: float
    download_bytes: float
    macs: float
    memory_bytes: float
    stragglers: int
    server_sees: str
    gram_directions: int
    n_features: int
    exposed_to_server: int
    exposed_by_one: int
    exposed_by_two: int
    colluders: int
    parameters: Mapping[str, float] = field(default_factory=dict)
    failures_survived: int = 0

    @classmethod
    def of(cls, scheme: Scheme, solver: str | Solver, work: Workload, start: Seconds, ends: Seconds) -> TimedScheme:
        """By the ends of the sharing phase, (draws,), and of the epochs, (draws, epochs)."""
        shape, at = work.shape, work.at
        total, epochs = ends[:, -1], ends.shape[1]
        exposure = scheme.exposure(at.fleet.n_devices)
        return cls(
            scheme=scheme.name,
            label=scheme.label,
            solver=solver_kind(solver).name,
            epochs=epochs,
            seconds_mean=float(total.mean()),
            seconds_p5=float(np.quantile(total, 0.05)),
            seconds_p95=float(np.quantile(total, 0.95)),
            sharing_seconds=float(start.mean()),
            epoch_seconds=float((total - start).mean() / epochs),
            stragglers=stragglers(scheme, shape, at.fleet),
            server_sees=scheme.server_sees,
            gram_directions=gram_directions(shape, epochs, reveals_gram=scheme.reveals_gram),
            n_features=shape.n_features,
            exposed_to_server=exposure.server_alone,
            exposed_by_one=exposure.one_colluder,
            exposed_by_two=exposure.two_colluders,
            colluders=exposure.colluders,
            parameters=scheme.parameters,
            failures_survived=failures_survived(scheme, shape, at.fleet),
            **vars(device_costs(scheme, shape, at, epochs)),
        )

    @property
    def alpha(self) -> int | None:
        """None where the scheme has no code."""
        found = self.parameters.get("alpha")
        return None if found is None else int(found)

    @property
    def groups(self) -> int:
        return int(self.parameters.get("groups", 1))

    @property
    def is_private(self) -> bool:
        """The server by itself sees no single device."""
        return self.exposed_to_server == 0

    @property
    def reveals_gram(self) -> bool:
        return self.gram_directions >= self.n_features


@dataclass(frozen=True, eq=False)
class Workload:
    """What a scheme is timed on: the sizes of the problem, the fleet with its conventions, and how many draws."""

    shape: WorkShape
    at: Conditions
    draws: int


def gram_directions(shape: WorkShape, epochs: int, *, reveals_gram: bool) -> int:
    """How many directions of the total Gram matrix the server learns the image of: c per epoch, never more than d."""
    return shape.n_features if reveals_gram else min(shape.n_features, shape.n_outputs * epochs)
