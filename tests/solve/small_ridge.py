"""A small ridge problem with its solution, and a loop that feeds a solver as the server does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codedfl.solve.solver import Solver

LAMBDA = 1e-3


class Ridge:
    """1/(2m) |X Theta - Y|^2 + lambda/2 |Theta|^2 for random data of a given condition."""

    def __init__(self, d: int = 8, c: int = 3, m: int = 200, spread: float = 1.0, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((m, d)) * np.geomspace(1, spread, d)
        self.Y = X @ rng.standard_normal((d, c)) + 0.1 * rng.standard_normal((m, c))
        self.gram, self.cross, self.m, self.shape = X.T @ X, X.T @ self.Y, m, (d, c)
        self.A, self.b = self.gram / m + LAMBDA * np.eye(d), self.cross / m
        self.solution = np.linalg.solve(self.A, self.b)
        self.largest = float(np.linalg.eigvalsh(self.A).max())

    def error(self, theta: np.ndarray) -> float:
        return float(np.linalg.norm(theta - self.solution) / np.linalg.norm(self.solution))


Rounding = Callable[[np.ndarray], np.ndarray]


def run(
    solver: Solver, problem: Ridge, initial: np.ndarray | None = None, rounding: Rounding = lambda update: update
) -> list[np.ndarray]:
    """What is sent, epoch after epoch, until the solver has enough."""
    initial = np.zeros(problem.shape) if initial is None else initial
    solver.start(initial, problem.gram @ initial - problem.cross, problem.m)
    sent = []
    while (request := solver.request()) is not None:
        update = rounding(request)
        sent.append(update)
        solver.receive(update, problem.gram @ update)
    return sent


def grid(significant: int) -> Rounding:
    """As the server sends: all columns with the same fraction bits, the largest number with so many significant."""

    def rounding(update: np.ndarray) -> np.ndarray:
        bits = significant - np.frexp(np.abs(update).max())[1]
        return np.ldexp(np.rint(np.ldexp(update, bits)), -bits)

    return rounding
