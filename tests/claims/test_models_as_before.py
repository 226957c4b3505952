"""Models stay what they were: a digest for each scheme and solver, taken with version 0.1.

The data are small integers and the solvers add and multiply entry by entry, so the bits do not depend on the machine's
BLAS; only the closed form goes through LAPACK and is compared to nine digits. A digest that changes means that users'
models change: say so in the changelog, or mend it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.run.in_process import run_in_process
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, Nesterov, StepSchedule
from codedfl.solve.krylov import ConjugateGradient
from codedfl.solve.solver import Solver
from scenario import Scenario

STEP = StepSchedule(0.3, 0.5, (6,))
SCHEMES: dict[str, SharingScheme] = {
    "coded-padded": CODED_PADDED,
    "coded-keys": CODED_KEYS,
    "one-shot": ONE_SHOT,
}
SOLVERS: dict[str, Callable[[], Solver]] = {
    "gd": lambda: GradientDescent(9, 1e-3, STEP),
    "nesterov": lambda: Nesterov(9, 1e-3, STEP),
    "cg": lambda: ConjugateGradient(9, 1e-3, restart=4),
    "closed-form": lambda: ClosedForm(1e-3),
}
BEFORE = {
    ("coded-padded", "gd"): "af52dedfd834581a",
    ("coded-padded", "nesterov"): "9496563e9bcb56e5",
    ("coded-padded", "cg"): "3cb43c7410e58bd4",
    ("coded-keys", "gd"): "af52dedfd834581a",
    ("coded-keys", "nesterov"): "9496563e9bcb56e5",
    ("coded-keys", "cg"): "3cb43c7410e58bd4",
    ("one-shot", "closed-form"): "e76545881c8037d8",
}


def trained(scheme: str, solver: str) -> np.ndarray:
    scenario = Scenario(sizes=(4, 9, 2, 6, 3), alpha=3, d=7, c=3, seed=11, scheme=SCHEMES[scheme])
    return run_in_process(scenario.server(SOLVERS[solver]()), scenario.devices())


def digest(model: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f8").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(("scheme", "solver"), BEFORE)
def test_the_model_is_the_one_of_version_0_1(scheme: str, solver: str):
    model = trained(scheme, solver)
    assert digest(np.round(model, 9) if solver == "closed-form" else model) == BEFORE[scheme, solver]
