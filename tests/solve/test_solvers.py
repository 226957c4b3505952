"""Solvers against closed forms, fed with exact products as the server feeds them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from small_ridge import LAMBDA, Ridge, grid, run

from codedfl.errors import InvalidInput
from codedfl.solve.descent import STEP_LITERAL, STEP_PAPER, GradientDescent, Nesterov, StepSchedule
from codedfl.solve.krylov import ConjugateGradient


def step_for(problem: Ridge) -> StepSchedule:
    return StepSchedule(1 / problem.largest)


# -- gradient descent


@pytest.mark.parametrize("epochs", [1, 2, 7, 40])
@pytest.mark.parametrize("start", ["zero", "elsewhere"])
def test_descent_is_the_closed_form_of_its_iterates(epochs: int, start: str):
    """Theta_T - Theta* = (1 - mu A)^T (Theta_1 - Theta*)."""
    problem = Ridge()
    initial = np.zeros(problem.shape) if start == "zero" else np.full(problem.shape, 2.0)
    solver = GradientDescent(epochs, LAMBDA, step_for(problem))
    sent = run(solver, problem, initial)
    contraction = np.linalg.matrix_power(np.eye(8) - problem.A / problem.largest, epochs)
    expected = problem.solution + contraction @ (initial - problem.solution)
    np.testing.assert_allclose(solver.model, expected, rtol=1e-11, atol=1e-12)
    assert len(sent) == epochs - 1  # the first step needs G^(1) only


def test_descent_sends_its_distance_from_the_start():
    problem = Ridge()
    initial = np.full(problem.shape, 2.0)
    solver = GradientDescent(3, LAMBDA, step_for(problem))
    solver.start(initial, problem.gram @ initial - problem.cross, problem.m)
    assert np.array_equal(solver.request(), solver.model - initial)


def test_the_step_follows_its_schedule():
    """With an identity as X'X/m and no regularisation, one can read mu off each step."""
    solver = GradientDescent(4, 0.0, StepSchedule(0.5, 0.1, (2, 4)))
    solver.start(np.zeros((1, 1)), np.full((1, 1), -1.0), 1)
    steps, previous = [solver.model.item()], solver.model.item()
    while (update := solver.request()) is not None:
        solver.receive(update, update)
        steps.append((solver.model.item() - previous) / (1 - previous))
        previous = solver.model.item()
    np.testing.assert_allclose(steps, [0.5, 0.05, 0.05, 0.005], rtol=1e-12)


def test_the_papers_schedules():
    """mu = 6 as stated, 12 as its figures show; both times 0.8 at epochs 200 and 350."""
    for schedule, first in ((STEP_LITERAL, 6.0), (STEP_PAPER, 12.0)):
        assert [schedule(e) for e in (1, 199)] == [first, first]
        np.testing.assert_allclose([schedule(e) for e in (200, 349)], [0.8 * first] * 2)
        np.testing.assert_allclose([schedule(e) for e in (350, 1000)], [0.64 * first] * 2)


# -- Nesterov


def test_nesterov_is_the_textbook_recursion():
    problem, mu, epochs = Ridge(), 0.2, 12
    solver = Nesterov(epochs, LAMBDA, StepSchedule(mu))
    run(solver, problem)
    theta = point = np.zeros(problem.shape)
    for t in range(1, epochs + 1):
        previous, theta = theta, point - mu * (problem.A @ point - problem.b)
        point = theta + (t - 1) / (t + 2) * (theta - previous)
    np.testing.assert_allclose(solver.model, theta, rtol=1e-11)


def test_nesterov_is_faster_than_descent_where_it_is_hard():
    """Condition 10^4: descent has hardly begun with the smallest directions."""
    problem = Ridge(spread=1e-2)
    errors = {}
    for kind in (GradientDescent, Nesterov):
        solver = kind(300, LAMBDA, step_for(problem))
        run(solver, problem)
        errors[kind] = problem.error(solver.model)
    assert errors[Nesterov] < errors[GradientDescent] / 5


# -- conjugate gradient


@pytest.mark.parametrize("start", ["zero", "elsewhere"])
@pytest.mark.parametrize("spread", [1.0, 1e-2])
def test_conjugate_gradient_reaches_the_ridge_solution_in_d_steps(spread: float, start: str):
    problem = Ridge(spread=spread)
    initial = np.zeros(problem.shape) if start == "zero" else np.full(problem.shape, 2.0)
    solver = ConjugateGradient(1 + 8, LAMBDA, tolerance=0.0)
    sent = run(solver, problem, initial)
    assert len(sent) == 8
    assert problem.error(solver.model) < 1e-8


def test_conjugate_gradient_needs_far_fewer_epochs_than_descent():
    problem = Ridge(d=30, m=500, spread=3e-2)
    conjugate = ConjugateGradient(25, LAMBDA)
    run(conjugate, problem)
    descent = GradientDescent(250, LAMBDA, step_for(problem))
    run(descent, problem)
    assert problem.error(conjugate.model) < problem.error(descent.model)


def test_conjugate_gradient_converges_though_directions_are_rounded():
    """The server sends directions with 16 significant bits; the solver gets what was sent, and its product.

    The model is the best on the span of all directions sent, so d of them end far below the rounding, with or without
    a restart from the true residual.
    """
    problem = Ridge(spread=3e-2)

    errors = {}
    for restart in (0, 50):
        solver = ConjugateGradient(1 + 8 + 1 + 8, LAMBDA, tolerance=0.0, restart=restart)
        assert len(run(solver, problem, rounding=grid(16))) == 17
        errors[restart] = problem.error(solver.model)
    assert errors[0] < 1e-12
    assert errors[50] < 1e-12


def test_more_steps_than_dimensions_do_no_harm():
    """With ten bits the ninth direction of eight dimensions is mostly noise; what was reached is kept."""
    problem = Ridge(spread=3e-2)

    errors = {}
    for epochs in (1 + 8, 1 + 9, 1 + 20):
        solver = ConjugateGradient(epochs, LAMBDA, tolerance=1e-10)
        run(solver, problem, rounding=grid(10))
        errors[epochs] = problem.error(solver.model)
    assert errors[9] < 1e-7
    assert errors[10] <= errors[9]
    assert errors[21] <= errors[9]


def test_it_stops_at_its_tolerance_column_by_column():
    problem = Ridge()
    problem.cross[:, 1] = 0.0  # solved by zero from the start
    problem.b = problem.cross / problem.m
    problem.solution = np.linalg.solve(problem.A, problem.b)
    solver = ConjugateGradient(100, LAMBDA, tolerance=1e-3)
    sent = run(solver, problem)
    assert len(sent) < 12
    assert not any(update[:, 1].any() for update in sent)
    assert not solver.model[:, 1].any()
    residual = np.linalg.norm(problem.A @ solver.model - problem.b, axis=0)
    assert np.all(residual <= 1.0001e-3 * np.linalg.norm(problem.b, axis=0))


def test_epoch_one_of_conjugate_gradient_makes_no_step():
    problem = Ridge()
    initial = np.full(problem.shape, 2.0)
    solver = ConjugateGradient(1, LAMBDA)
    assert run(solver, problem, initial) == []
    assert np.array_equal(solver.model, initial)


def test_nothing_to_do_ends_at_once():
    problem = Ridge()
    problem.cross[:] = 0.0
    assert run(ConjugateGradient(10, LAMBDA), problem) == []


def test_a_direction_without_curvature_is_left_alone():
    """X'X = 0 and lambda = 0: any model is as good; no division by zero, no NaN."""
    solver = ConjugateGradient(4, 0.0)
    solver.start(np.zeros((2, 1)), np.ones((2, 1)), 1)
    while (update := solver.request()) is not None:
        solver.receive(update, np.zeros_like(update))
    assert np.array_equal(solver.model, np.zeros((2, 1)))


def test_a_restart_asks_for_the_true_residual():
    problem = Ridge()
    initial = np.full(problem.shape, 0.5)
    solver = ConjugateGradient(12, LAMBDA, tolerance=0.0, restart=3)
    solver.start(initial, problem.gram @ initial - problem.cross, problem.m)
    refreshed = []
    for epoch in range(2, 13):
        update, before = solver.request(), solver.model.copy()
        if np.array_equal(update, before - initial):
            refreshed.append(epoch)
        solver.receive(update, problem.gram @ update)
        if epoch in refreshed:
            np.testing.assert_allclose(solver.model, before, rtol=1e-14)  # such an epoch makes no step
    assert refreshed == [5, 9]  # three steps in epochs 2 to 4, then one for the residual, and again
    assert solver.request() is None
    assert problem.error(solver.model) < 0.1


def test_a_restart_heals_what_went_wrong():
    """One product is off by 1 %: the residual the recursion believes in is wrong ever after, unless it restarts."""
    errors = {}
    for restart in (0, 4):
        problem = Ridge()
        solver = ConjugateGradient(30, LAMBDA, tolerance=1e-12, restart=restart)
        solver.start(np.zeros(problem.shape), -problem.cross, problem.m)
        for epoch in range(2, 31):
            update = solver.request()
            if update is None:
                break
            solver.receive(update, problem.gram @ update * (1.01 if epoch == 3 else 1.0))
        errors[restart] = problem.error(solver.model)
    assert errors[0] > 1e-4
    assert errors[4] < 1e-9


# -- errors and names


@pytest.mark.parametrize("kind", [GradientDescent, Nesterov, ConjugateGradient])
def test_arguments_are_checked(kind: type):
    for arguments, message in (
        ((0,), "epochs must be at least 1, got 0"),
        ((5, -1e-9), "regularisation must be at least 0, got -1e-09"),
        ((5, float("nan")), "regularisation must be at least 0, got nan"),
    ):
        with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
            kind(*arguments)


def test_a_negative_restart_is_refused():
    with pytest.raises(InvalidInput, match=r"^restart must be at least 0 \(never\), got -1$"):
        ConjugateGradient(5, restart=-1)


@pytest.mark.parametrize("step", [0.0, -1.0, float("nan")])
def test_a_step_that_is_not_positive_is_refused(step: float):
    with pytest.raises(InvalidInput, match=f"^{re.escape(f'the step must be positive, got {step}')}$"):
        StepSchedule(step)


@pytest.mark.parametrize("kind", [GradientDescent, Nesterov, ConjugateGradient])
def test_there_is_no_model_before_the_start(kind: type):
    assert kind(3).model is None


@pytest.mark.parametrize("kind", [GradientDescent, Nesterov])
def test_descent_ends_at_its_gradient_norm(kind):
    problem = Ridge()
    solver = kind(5000, LAMBDA, step_for(problem), tolerance=1e-3)
    epochs = len(run(solver, problem))
    assert 1 < epochs < 5000
    first = np.linalg.norm(problem.b)
    assert np.linalg.norm(problem.A @ solver.model - problem.b) < 2e-3 * first


@pytest.mark.parametrize("tolerance", [-0.1, 1.0])
def test_a_bad_tolerance_is_refused(tolerance):
    with pytest.raises(InvalidInput) as caught:
        GradientDescent(3, tolerance=tolerance)
    assert str(caught.value) == f"tolerance must be at least 0 and below 1, got {tolerance}"
