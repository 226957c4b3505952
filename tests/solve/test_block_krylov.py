"""Block Krylov against the ridge solution, against conjugate gradient, on the ring and across an interruption."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_ridge import LAMBDA, Ridge, grid, run

from codedfl.errors import InvalidInput
from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
from small_problems import totals
from wording import exactly


def energy(problem: Ridge, theta: np.ndarray) -> np.ndarray:
    """The error of each column in the norm that both solvers minimise."""
    error = theta - problem.solution
    return np.sqrt(np.sum(error * (problem.A @ error), axis=0))


@pytest.mark.parametrize("bits", [10, 16, 40])
@pytest.mark.parametrize("start", ["zero", "elsewhere"])
@pytest.mark.parametrize("spread", [1.0, 1e-2])
def test_it_reaches_the_ridge_solution_when_its_blocks_fill_the_space(spread: float, start: str, bits: int):
    """Eight dimensions are three blocks of three, however few bits a direction has."""
    problem = Ridge(spread=spread)
    initial = np.zeros(problem.shape) if start == "zero" else np.full(problem.shape, 2.0)
    solver = BlockKrylov(100, LAMBDA)
    sent = run(solver, problem, initial, grid(bits))
    assert len(sent) == 3
    assert problem.error(solver.model) < 1e-11
    assert solver.converged and solver.directions == 8


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 30),
    c=st.integers(1, 6),
    spread=st.sampled_from([1.0, 0.1, 0.01]),
    epochs=st.integers(1, 12),
)
def test_it_is_never_behind_conjugate_gradient(seed: int, d: int, c: int, spread: float, epochs: int):
    problem = Ridge(d, c, m=60, spread=spread, seed=seed)
    block, conjugate = BlockKrylov(epochs, LAMBDA, tolerance=0.0), ConjugateGradient(epochs, LAMBDA, tolerance=0.0)
    blocks, singles = run(block, problem), run(conjugate, problem)
    slack = 1e-9 * energy(problem, np.zeros(problem.shape))
    assert np.all(energy(problem, block.model) <= (1 + 1e-6) * energy(problem, conjugate.model) + slack)
    assert block.directions <= conjugate.directions <= min(d, c * len(singles))
    assert block.directions == np.linalg.matrix_rank(np.hstack([np.zeros((d, 1)), *blocks]), tol=1e-3)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(4, 30), c=st.integers(1, 6), epochs=st.integers(2, 8))
def test_nor_when_directions_are_rounded(seed: int, d: int, c: int, epochs: int):
    problem = Ridge(d, c, m=60, spread=0.1, seed=seed)
    block, conjugate = BlockKrylov(epochs, LAMBDA, tolerance=0.0), ConjugateGradient(epochs, LAMBDA, tolerance=0.0)
    for solver in (block, conjugate):
        run(solver, problem, rounding=grid(15))
    slack = 1e-3 * energy(problem, np.zeros(problem.shape))
    assert np.all(energy(problem, block.model) <= energy(problem, conjugate.model) + slack)


def test_on_the_ring_it_needs_fewer_epochs_and_directions():
    """Digits with 200 random features; the constant's epoch is counted. MNIST: ``experiments.block_krylov``."""
    everything = totals(n_features=200)
    needed = {}
    for kind in (ConjugateGradient, BlockKrylov):
        solver = kind(30, 1e-5)
        models = everything.train(solver)
        needed[kind] = next(epoch for epoch, theta in enumerate(models, 1) if everything.problem.score(theta) >= 0.95)
        assert solver.directions <= 10 * (needed[kind] - 1)
    assert needed[BlockKrylov] <= 4
    assert needed[BlockKrylov] + 2 <= needed[ConjugateGradient]


def test_on_the_ring_it_reaches_the_ridge_solution_of_the_totals():
    everything, regularisation = totals(), 1e-4
    solver = BlockKrylov(50, regularisation, tolerance=1e-11)
    *_, theta = everything.train(solver)
    exact = everything.ridge(regularisation)
    assert solver.converged
    assert np.linalg.norm(theta - exact) < 1e-9 * np.linalg.norm(exact)


def test_all_lambdas_follow_from_the_same_products():
    everything = totals()
    solver = BlockKrylov(50, 1e-6, tolerance=1e-9)
    list(everything.train(solver))
    lambdas = np.geomspace(1e-6, 1.0, 16).tolist()
    path = solver.path(lambdas)
    assert list(path) == lambdas
    assert np.array_equal(path[lambdas[0]], solver.model)
    for value, theta in path.items():
        exact = everything.ridge(value)
        assert np.linalg.norm(theta - exact) < 1e-6 * np.linalg.norm(exact)


def test_a_path_of_few_products_scores_like_the_exact_one():
    everything = totals()
    solver = BlockKrylov(5, 1e-5)
    list(everything.train(solver))
    for value, theta in solver.path([1e-5, 1e-4, 1e-3, 1e-2]).items():
        score, exact = (everything.problem.score(model) for model in (theta, everything.ridge(value)))
        assert abs(score - exact) < 0.02


def test_columns_that_are_done_or_dependent_ask_for_nothing():
    problem = Ridge(c=4)
    problem.cross[:, 1] = 0.0  # solved by zero from the start
    problem.cross[:, 3] = 2 * problem.cross[:, 2]
    problem.b = problem.cross / problem.m
    problem.solution = np.linalg.solve(problem.A, problem.b)
    solver = BlockKrylov(100, LAMBDA)
    sent = run(solver, problem)
    assert [np.count_nonzero(update.any(axis=0)) for update in sent] == [2] * 4
    assert solver.directions == 8
    assert not solver.model[:, 1].any()
    assert problem.error(solver.model) < 1e-11


def test_nothing_to_do_ends_at_once():
    problem = Ridge()
    problem.cross[:] = 0.0
    solver = BlockKrylov(10, LAMBDA)
    assert run(solver, problem) == []
    assert solver.converged and solver.directions == 0 and solver.smallest_curvature == np.inf


def test_the_first_epoch_makes_no_step():
    problem = Ridge()
    initial = np.full(problem.shape, 2.0)
    solver = BlockKrylov(1, LAMBDA)
    assert run(solver, problem, initial) == []
    assert np.array_equal(solver.model, initial)
    assert not solver.converged


def test_without_curvature_the_model_is_left_alone():
    """X'X = 0 and lambda = 0: any model is as good; no division by zero, no NaN, and it does not claim to be done."""
    solver = BlockKrylov(40, 0.0)
    solver.start(np.zeros((2, 1)), np.ones((2, 1)), 1)
    epochs = 1
    while (update := solver.request()) is not None:
        solver.receive(update, np.zeros_like(update))
        epochs += 1
    assert np.array_equal(solver.model, np.zeros((2, 1)))
    assert epochs == 2 and not solver.converged and solver.smallest_curvature == 0.0


def test_least_squares_with_fewer_rows_than_columns_takes_the_shortest():
    problem = Ridge(d=20, c=2, m=6)
    solver = BlockKrylov(50, 0.0, tolerance=1e-9)
    run(solver, problem)
    shortest = np.linalg.pinv(problem.gram, rcond=1e-10) @ problem.cross
    assert np.linalg.norm(solver.model - shortest) < 1e-8 * np.linalg.norm(shortest)
    assert solver.converged


def test_more_outputs_than_features():
    problem = Ridge(d=3, c=7)
    solver = BlockKrylov(10, LAMBDA)
    assert len(run(solver, problem)) == 1
    assert problem.error(solver.model) < 1e-11 and solver.directions == 3


def test_with_little_memory_it_goes_on_from_where_it_was():
    """Narrowing the span costs no epoch and loses nothing of the model: errors go on falling."""
    problem = Ridge(d=40, c=2, m=300, spread=0.1)
    solver = BlockKrylov(40, LAMBDA, tolerance=1e-9, memory=3)
    solver.start(np.zeros(problem.shape), -problem.cross, problem.m)
    errors = [np.linalg.norm(energy(problem, solver.model))]
    while (update := solver.request()) is not None:
        solver.receive(update, problem.gram @ update)
        errors.append(np.linalg.norm(energy(problem, solver.model)))
        assert sum(block.shape[1] for block in solver._span.basis) <= (3 + 1) * 2
    assert np.all(np.diff(errors) < 1e-12)
    assert errors[-1] < 1e-5 * errors[0]
    assert solver.directions == 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": 2}, "memory must be at least 3 blocks, or 0 (all), got 2"),
        ({"memory": -1}, "memory must be at least 3 blocks, or 0 (all), got -1"),
    ],
)
def test_what_is_refused(options: dict[str, int], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        BlockKrylov(5, **options)


def test_a_path_needs_a_start():
    with pytest.raises(InvalidInput, match=r"^path must be asked for after the start, got a solver without a model$"):
        BlockKrylov(5).path([1.0])
