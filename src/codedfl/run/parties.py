"""Server and devices of a coded scheme on one problem: the laboratory's plan, where one process holds all rows."""

from __future__ import annotations

import secrets as system_random
from collections.abc import Callable, Sequence
from dataclasses import replace

from codedfl.data.problem import Problem
from codedfl.errors import InvalidInput
from codedfl.exact.row_noise import RowNoise
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.server import Server
from codedfl.solve.solver import Solver
from codedfl.typing import Floats, RandomBytes


def make_parties(
    scheme: CodedScheme,
    problem: Problem,
    solver: Solver,
    *,
    precision: int | None = None,
    masks: bool = True,
    order: Sequence[int] | None = None,
    noise: RowNoise | None = None,
    stop_when: Callable[[Floats], bool] | None = None,
    random_bytes: RandomBytes = system_random.token_bytes,
) -> tuple[Server, list[Device]]:
    """Server and devices of a coded scheme on this problem.

    masks: off only to show what they prevent.
    order: which device takes which position of the code; None takes them as the problem lists them.
    noise: what each device adds to X'X and X'Y; None adds nothing.
    random_bytes: replaces the system's randomness.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import BlockKrylov, Dataset, RoleKeys, make_parties, make_problem
    >>> X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    >>> rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 24.0))
    >>> problem = make_problem(rows, n_devices=4, features="linear")
    >>> server, devices = make_parties(RoleKeys(colluders=1), problem, BlockKrylov(epochs=5))
    >>> server.expected, len(devices)
    (('device-0', 'device-1', 'device-2', 'device-3'), 4)
    """
    scheme.check(problem.n_devices)
    parameters = Parameters(
        scheme.name,
        n_features=problem.n_features,
        n_outputs=problem.n_outputs,
        bounds=problem.bounds,
        precision=precision,
        masks=masks,
        **scheme.agreed,
        reveals_gram=scheme.reveals_gram,
        recipe=problem.recipe.digest(),
        noise=noise,
    )
    if parameters.least_owners > problem.n_devices:
        most = problem.n_devices - parameters.colluders
        raise InvalidInput(
            f"honest must be at most the number of devices less the colluders ({most}), got"
            f" {parameters.least_owners - parameters.colluders}"
        )
    names = tuple(problem.device_names[i] for i in (range(problem.n_devices) if order is None else order))
    plan = plan_of(scheme, parameters, names)
    server = Server(plan, solver, stop_when=stop_when, random_bytes=random_bytes)
    places = {name: problem.rows_of(i) for i, name in enumerate(problem.device_names)}
    devices = [
        Device(plan, name, Rows(problem.X[rows], problem.Y[rows]), random_bytes=random_bytes)
        for name, rows in places.items()
    ]
    return server, devices


def plan_of(scheme: CodedScheme, parameters: Parameters, names: Sequence[str]) -> RunPlan:
    """A run of the laboratory: nobody has to agree to it."""
    plan = RunPlan(scheme.sharing_scheme, parameters, tuple(names), scheme.spare, scheme.holders_among(names))
    return replace(plan, blocks=scheme.blocks, reserve=scheme.reserve)
