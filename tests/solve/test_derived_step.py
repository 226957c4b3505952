"""Descent without a step: power iterations first, then a step that converges on every table there is."""

from __future__ import annotations

import numpy as np
import pytest
from bundled_tables import TABLES, table_totals
from small_ridge import LAMBDA, Ridge, run

from codedfl.solve.descent import EIGENVALUE_MARGIN, POWER_ITERATIONS, GradientDescent, Nesterov
from codedfl.solve.registry import make_solver


@pytest.mark.parametrize("features", ["linear", "rbf"])
@pytest.mark.parametrize("table", TABLES)
def test_both_descents_converge_on_every_bundled_table(table: str, features: str):
    """By the objective, from what zero has (1) to what the exact solution has (0), in 500 epochs."""
    totals = table_totals(table, features)
    problem = totals.problem
    weight = 1e-3 if problem.task == "regression" else 9e-6
    X = problem.X.astype(np.float64)

    def objective(theta: np.ndarray) -> float:
        return float(((X @ theta - problem.Y) ** 2).sum() / len(X) + weight * (theta**2).sum()) / 2

    best, worst = objective(totals.ridge(weight)), objective(np.zeros((X.shape[1], problem.n_outputs)))
    for solver, close in (("gd", 0.1), ("nesterov", 3e-3)):
        losses = [objective(theta) for theta in totals.train(make_solver(solver, regularisation=weight))]
        assert len(losses) == 500
        assert losses[-1] - best < close * (worst - best)
        if solver == "gd":
            assert np.all(np.diff(losses) < 1e-9 * worst)


@pytest.mark.parametrize("kind", [GradientDescent, Nesterov])
def test_power_iterations_are_epochs_and_the_first_step_costs_no_other(kind: type):
    problem = Ridge(d=20)
    initial = np.full(problem.shape, 0.5)
    solver = kind(8, LAMBDA)
    solver.start(initial, problem.gram @ initial - problem.cross, problem.m)
    largest = np.linalg.eigvalsh(problem.gram / problem.m)[-1]
    for _ in range(POWER_ITERATIONS):
        assert np.array_equal(solver.model, initial)
        update = solver.request()
        np.testing.assert_allclose(update.T @ update, np.eye(3), atol=1e-12)
        solver.receive(update, problem.gram @ update)
    step = (solver.model - initial) @ np.linalg.pinv(problem.b - problem.A @ initial)
    mu = np.trace(step) / np.trace((problem.b - problem.A @ initial) @ np.linalg.pinv(problem.b - problem.A @ initial))
    assert 1 / (EIGENVALUE_MARGIN * largest + LAMBDA) <= mu < 1.1 / (EIGENVALUE_MARGIN * largest)
    assert np.array_equal(solver.request(), solver._point - initial)
    solver.receive(solver.request(), problem.gram @ solver.request())
    solver.receive(solver.request(), problem.gram @ solver.request())
    assert solver.request() is None, "5 power iterations and 2 steps after the constant's epoch make 8"


@pytest.mark.parametrize(("epochs", "products"), [(1, 0), (2, 1), (3, 2)])
def test_few_epochs_make_one_step_at_their_end(epochs: int, products: int):
    problem = Ridge()
    solver = GradientDescent(epochs, LAMBDA)
    assert len(run(solver, problem)) == products
    assert np.any(solver.model) == (epochs > 1)


@pytest.mark.parametrize("kind", [GradientDescent, Nesterov])
def test_an_eigenvalue_that_was_missed_is_seen_on_the_way(kind: type):
    """The largest eigenvalue is a thousand times what the power iteration is made to see; no product is refused."""
    problem = Ridge(d=6, c=1)
    values = np.array([1000.0, 1.0, 0.9, 0.5, 0.3, 0.1])
    problem.gram, problem.m = np.diag(values), 1
    problem.A = problem.gram + LAMBDA * np.eye(6)
    problem.cross = problem.A @ np.ones((6, 1))
    problem.cross[0] = 1e-9 * problem.A[0, 0]
    problem.solution = np.linalg.solve(problem.A, problem.cross)
    solver = kind(400, LAMBDA)
    solver.start(np.zeros((6, 1)), -problem.cross, 1)
    largest = 0.0
    while (update := solver.request()) is not None:
        if solver._probe is not None:
            update = update * (np.arange(6) > 0)[:, None]
        solver.receive(update, problem.gram @ update)
        largest = max(largest, float(np.abs(solver.model).max()))
    assert solver._largest > 500
    assert largest < 1e3
    assert np.abs(solver.model[0] - problem.solution[0]).item() < 1e-3


def test_without_data_nothing_moves():
    solver = GradientDescent(8)
    solver.start(np.zeros((3, 2)), np.zeros((3, 2)), 1)
    while (update := solver.request()) is not None:
        solver.receive(update, np.zeros_like(update))
    assert np.array_equal(solver.model, np.zeros((3, 2)))


def test_more_outputs_than_features():
    problem = Ridge(d=2, c=5)
    solver = GradientDescent(200, LAMBDA)
    run(solver, problem)
    assert problem.error(solver.model) < 1e-6


def test_whether_it_has_converged_is_known_where_it_was_asked_to():
    problem = Ridge()
    for tolerance, epochs, expected in ((0.0, 50, None), (1e-3, 500, True), (1e-9, 10, False)):
        solver = GradientDescent(epochs, LAMBDA, tolerance=tolerance)
        run(solver, problem)
        assert solver.converged is expected
