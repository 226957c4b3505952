"""Going on without devices that never share, with the user's leave.

Training starts when every device of the frozen set has shared. One that never does holds up the start until the
driver's deadline. Going on without it needs a *fresh* set with fresh seeds and fresh uploads: using what was already
shared once with and once without a device would expose that device. The outcome says whose data are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.in_process import ArrivalOrder, everyone_in_order, run_in_process
from codedfl.problem import Problem
from codedfl.protocol import Phase
from codedfl.schemes import CodedScheme
from codedfl.simulator import make_parties
from codedfl.solvers import Solver


@dataclass(frozen=True, eq=False)
class Outcome:
    """The model, and whose data it was trained without."""

    model: NDArray[np.float64]
    missing: tuple[str, ...]


def train_allowing_missing(
    scheme: CodedScheme,
    problem: Problem,
    make_solver: Callable[[], Solver],
    *,
    allow_missing: int = 0,
    silent: Collection[str] = (),
    arrivals: ArrivalOrder = everyone_in_order,
) -> Outcome:
    """Train; when up to ``allow_missing`` devices (``silent``) never share, start afresh without them.

    allow_missing = 0 gives no leave: ``NotEnoughDevices`` names the missing. alpha must still fit what is left.
    """
    if allow_missing < 0:
        raise InvalidInput(f"allow_missing must be at least 0, got {allow_missing}")
    server, devices = make_parties(scheme, problem, make_solver())
    try:
        return Outcome(run_in_process(server, devices, arrivals, silent=silent), ())
    except NotEnoughDevices as error:
        missing = error.missing
        if server.phase is not Phase.SHARING or not 0 < len(missing) <= allow_missing:
            raise
    rest = problem.without(missing)
    server, devices = make_parties(scheme, rest, make_solver())
    return Outcome(run_in_process(server, devices, arrivals, silent=silent), missing)
