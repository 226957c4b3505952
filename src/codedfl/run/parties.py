"""Server and devices of a coded scheme on one problem."""

from __future__ import annotations

import secrets as system_random
from collections.abc import Callable, Sequence

from codedfl.data.problem import Problem
from codedfl.errors import InvalidInput
from codedfl.exact.row_noise import RowNoise
from codedfl.protocol import Device, Parameters, Policy, Server
from codedfl.schemes import CodedScheme
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
    """
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
    scheme.check(problem.n_devices)
    if parameters.least_owners > problem.n_devices:
        most = problem.n_devices - parameters.colluders
        raise InvalidInput(
            f"honest must be at most the number of devices less the colluders ({most}), got"
            f" {parameters.least_owners - parameters.colluders}"
        )
    # One process holds everything here: what is asked for is allowed.
    policy = Policy(allow_gram=True, allow_unmasked=not masks, allow_unpinned=True, colluders=0)
    names = problem.device_names if order is None else tuple(problem.device_names[i] for i in order)
    server = scheme.server_type(
        parameters,
        names,
        solver,
        stop_when=stop_when,
        spare=scheme.spare,
        random_bytes=random_bytes,
        **scheme.server_options(names),
    )
    devices = [
        scheme.device_type(
            name,
            problem.X[problem.rows_of(i)],
            problem.Y[problem.rows_of(i)],
            policy=policy,
            recipe=parameters.recipe,
            random_bytes=random_bytes,
        )
        for i, name in enumerate(problem.device_names)
    ]
    return server, devices
