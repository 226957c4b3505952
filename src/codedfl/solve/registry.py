"""Solvers by name."""

from __future__ import annotations

from collections.abc import Sequence

from codedfl.solve.descent import GradientDescent, Nesterov
from codedfl.solve.krylov import ConjugateGradient

SOLVERS: dict[str, type[GradientDescent] | type[Nesterov] | type[ConjugateGradient]] = {
    "gd": GradientDescent,
    "nesterov": Nesterov,
    "cg": ConjugateGradient,
}


def solver_names() -> Sequence[str]:
    return tuple(SOLVERS)
