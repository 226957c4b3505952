"""The study of noise: totals bit for bit those of the protocol, an audit that catches planted faults, the report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.noise_level import NoiseLevel
from codedfl_lab import datasets
from codedfl_lab.planning.noisy_totals import NoisyTotals
from codedfl_lab.planning.planner import noisy_scores
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.problem import Problem, make_problem
from codedfl_lab.report.noise_page import noise_figure, write_noise_report
from codedfl_lab.reproduce.noise import NoiseResults, NoiseRow, membership, reproduce_noise
from codedfl_lab.reproduce.noise_audit import FAULTS, audit, shown_epsilon
from codedfl_lab.reproduce.scope import ClaimScope
from codedfl_lab.schemes.role_keys import RoleSums
from codedfl_lab.training.in_process import Simulated
from codedfl_lab.training.noise import noise_of_run
from trainings import repeatable
from wording import exactly

BUDGET = Budget(8.0, honest=4)


def small_data(rows: int = 600) -> Dataset:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (rows, 6)).astype(np.float32)
    y = (X[:, 0] > X[:, 1]).astype(np.int64)
    half = rows // 2
    return Dataset("small", X[:half], y[:half], X[half:], y[half:], "classification", public_range=(0.0, 1.0))


def small_problem() -> Problem:
    return make_problem(small_data(), n_devices=6, n_features=20, gamma=0.5, seed=1)


class Keeps(ClosedForm):
    def take_gram(self, triangle: np.ndarray) -> None:
        super().take_gram(triangle)
        self.gram = triangle

    def start(self, initial: np.ndarray, constant: np.ndarray, samples: int) -> None:
        self.cross = -constant
        super().start(initial, constant, samples)


def test_the_totals_of_the_study_are_those_that_the_protocol_decodes():
    problem, scheme = small_problem(), RoleSums(1)
    noise, _ = noise_of_run(scheme, problem.recipe, problem.bounds, problem.n_devices, BUDGET)
    assert noise is not None
    solver = Keeps(10.0)
    simulated = Simulated.of(scheme, problem, noise=noise, random_bytes=repeatable("a run"))
    simulated.train(solver)
    draw = repeatable("a run")  # the first that is drawn are the seeds
    seeds = [draw(32) for _ in range(6)]
    totals = NoisyTotals(problem, noise)
    sums = totals.of_devices(noise, seeds, simulated.statistic.digest.hex())
    assert np.array_equal(sums.triangle, solver.gram)
    assert np.array_equal(sums.cross, solver.cross)
    assert totals.shortened > 0
    assert not np.array_equal(sums.triangle, totals.exact().triangle)


def test_noise_of_all_at_once_has_the_same_variance():
    problem = small_problem()
    noise = BUDGET.noise(20, problem.feature_map.bound)
    totals = NoisyTotals(problem, noise)
    exact, level = totals.exact(), NoiseLevel.of(totals.scales(noise))
    added = [totals.drawn_at_once(noise, bytes([i]) * 32, 6).gram() - exact.gram() for i in range(40)]
    diagonal = np.array([np.diag(one) for one in added])
    off = np.array([one[np.triu_indices(20, 1)] for one in added])
    assert diagonal.std() == pytest.approx(level.sigma, rel=0.1)
    assert off.std() == pytest.approx(level.sigma / 2**0.5, rel=0.03)


# -- the audit


@pytest.mark.parametrize("fault", FAULTS)
def test_the_audit_passes_what_is_sound_and_catches_planted_faults(fault: str):
    found = audit(Budget(3.0, honest=1), fault, runs=60_000)
    assert found.caught == (fault != "none")
    if fault == "none":
        assert 1.0 < found.shown < 3.0
        assert 0.2 < found.advantage < found.bound


def test_a_bound_is_shown_only_by_many_runs():
    assert shown_epsilon(0.5, 0.5, 1000, 1e-5) == 0.0
    assert shown_epsilon(1.0, 0.0, 10, 1e-5) < 1.0
    assert 6.0 < shown_epsilon(1.0, 0.0, 10_000, 1e-5) < 9.0
    few, many = (shown_epsilon(0.02, 0.001, runs, 1e-5) for runs in (2000, 200_000))
    assert few < many < np.log(20)


# -- accuracy and membership


def test_membership_is_seen_where_a_model_knows_its_rows_by_heart():
    problem = small_problem()
    assert membership(problem, np.zeros((20, 2))) < 0.05
    wide = make_problem(small_data(), n_devices=6, n_features=400, gamma=5.0, seed=1)
    X = wide.X.astype(np.float64)
    by_heart = np.asarray(np.linalg.lstsq(X, wide.Y, rcond=None)[0], dtype=np.float64)
    assert membership(wide, by_heart) > 0.9


def test_the_study_as_a_whole_and_its_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(datasets, "load", lambda *_: small_data())
    said: list[str] = []
    scope = ClaimScope(seeds=[0], command="here")
    results = reproduce_noise(scope, lambda what, _: said.append(what), features=[30], audit_runs=2000)
    assert results.quick and said[-1] == "audit"
    assert [row.epsilon for row in results.rows] == [None, 1.0, 3.0, 8.0] * 2
    assert all(0 <= row.membership <= row.bound for row in results.rows)
    files = write_noise_report(tmp_path / "noise", results)
    assert set(files) == {"results.json", "report.html", "noise.png", "noise.svg"}
    assert json.loads(files["results.json"].read_text())["rows"][1]["epsilon"] == 1.0
    page = files["report.html"].read_text()
    assert "A quick look" in page and "<td>30</td><td>8</td>" in page and "half the noise" in page
    assert len(results.claims) == 3


def test_the_verdict_compares_with_what_was_measured_before():
    row = NoiseRow("mnist", 2000, 1.0, 0.8, 0.914, 0.91, 0.92, 0.01, 0.46, 0.5, 91.4)
    results = NoiseResults((row,), (), 1e-5, 20, 25, (0,), False, "", 1.0, {})
    near = results.claims[0]
    assert near.statement == "accuracy is within one point of what was measured before"
    assert (near.verdict, near.evidence) == ("holds", "0.0 at most")
    far = replace(results, rows=(replace(row, shrunken=0.90),))
    assert (far.claims[0].verdict, far.claims[0].evidence) == ("fails", "1.4 at most")


def test_a_plan_says_what_noise_leaves():
    found = noisy_scores(small_problem(), BUDGET, seed=0)
    assert set(found) == {"role-keys", "role-sums"}
    assert all(0.5 < score <= 1.0 for score in found.values())
    assert noisy_scores(small_problem(), Budget(0.01, honest=4), seed=0)["role-sums"] < found["role-sums"]


def test_a_figure_needs_rows():
    with pytest.raises(InvalidInput, match=exactly("rows must hold at least one data set, got none")):
        noise_figure([])
