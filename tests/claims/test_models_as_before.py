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

from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, Nesterov, StepSchedule
from codedfl.solve.krylov import ConjugateGradient
from codedfl.solve.solver import Solver
from codedfl_lab import CodedKeys, CodedPadded, CodedScheme, OneShot, RoleKeys, RoleSums
from trainings import Small

STEP = StepSchedule(0.3, 0.5, (6,))
SCHEMES: dict[str, CodedScheme] = {
    "coded-padded": CodedPadded(3),
    "coded-keys": CodedKeys(3),
    "one-shot": OneShot(3),
    "role-keys": RoleKeys(1),
    "role-sums": RoleSums(1),
}
SOLVERS: dict[str, Callable[[], Solver]] = {
    "gd": lambda: GradientDescent(9, 1e-3, STEP),
    "nesterov": lambda: Nesterov(9, 1e-3, STEP),
    "cg": lambda: ConjugateGradient(9, 1e-3, restart=4),
    "closed-form": lambda: ClosedForm(1e-3),
}
DESCENT, ACCELERATED, CONJUGATE = "af52dedfd834581a", "9496563e9bcb56e5", "3cb43c7410e58bd4"
BEFORE = {
    **{(scheme, "gd"): DESCENT for scheme in ("coded-padded", "coded-keys", "role-keys")},
    **{(scheme, "nesterov"): ACCELERATED for scheme in ("coded-padded", "coded-keys", "role-keys")},
    **{(scheme, "cg"): CONJUGATE for scheme in ("coded-padded", "coded-keys", "role-keys")},
    **{(scheme, "closed-form"): "e76545881c8037d8" for scheme in ("one-shot", "role-sums")},
}


def digest(model: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f8").tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(("scheme", "solver"), BEFORE)
def test_the_model_is_the_one_of_version_0_1(scheme: str, solver: str):
    small = Small(sizes=(4, 9, 2, 6, 3), d=7, c=3, seed=11)
    model = small.models(SCHEMES[scheme], SOLVERS[solver]())[-1]
    assert digest(np.round(model, 9) if solver == "closed-form" else model) == BEFORE[scheme, solver]
