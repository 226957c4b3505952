"""CodedFedL as a fair rival: it runs on any fleet and any table, and its parity upload is timed as all else is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codedfl.run.sums_in_process import secure_moments_in_process
from codedfl.solve.descent import StepSchedule
from codedfl.typing import Floats
from codedfl_lab.baselines.coded_fedl import CodedFedL, semidefinite_factor
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.comparing.simulator import trajectory
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions, Descent, TrainingTimes, WorkShape
from codedfl_lab.costs.times import models as models_of
from codedfl_lab.costs.times import sharing as sharing_of
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import SharingConvention
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.problem import make_problem
from small_problems import totals

PAPER = Fleet.load("paper")
SHAPE = WorkShape(2000, 10, np.full(25, 2400))


def trained(scheme, of: CentralTotals, fleet: Fleet, step: float = 6.0):
    descent = Descent(StepSchedule(step), 1e-4)
    rng = np.random.default_rng(0)
    return trajectory(
        models_of(scheme, TrainingTimes(of, None, descent, Conditions(fleet), rng)), of, max_epochs=40, target=2.0
    )


@pytest.mark.parametrize("n_devices", [2, 3, 5, 7, 10, 15, 20])
@pytest.mark.parametrize("delta", [0.1, 0.8])
def test_it_runs_on_fleets_of_any_size(n_devices: int, delta: float):
    fleet = PAPER.scaled_to(n_devices)
    ours, rival = (trained(scheme, totals(n_devices), fleet) for scheme in (CodedFedL(delta), Conventional()))
    assert abs(ours.scores[-5:].mean() - rival.scores[-5:].mean()) < 0.1


def test_it_runs_with_one_device_a_thousand_times_slower():
    fast = replace(PAPER.classes[0], count=9)
    fleet = replace(PAPER, classes=(fast, replace(fast, name="slow", count=1, mac_rate=fast.mac_rate / 1000)))
    assert trained(CodedFedL(0.1), totals(), fleet).scores[-1] > 0.7


def awkward_table(rows: int = 300) -> Dataset:
    """A constant column, a column twice, a sum of two others, and one of nearly zeros."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, rows))
    X = np.column_stack([a, b, np.ones(rows), a, a + b, 1e-9 * b])
    y = (a - b > 0).astype(np.int64)
    half = rows // 2
    return Dataset("awkward", X[:half], y[:half], X[half:], y[half:], "classification")


@pytest.mark.parametrize("features", ["linear", "rbf"])
@pytest.mark.parametrize("n_devices", [3, 10])
def test_it_runs_on_a_table_with_constant_and_dependent_columns(features: str, n_devices: int):
    """Twelve columns of random features on some rows a device: far fewer rows than d + c, too."""
    problem = make_problem(
        awkward_table(),
        n_devices=n_devices,
        features=features,
        n_features=200,
        partition_name="random",
        secure_moments=secure_moments_in_process,
    )
    run = trained(CodedFedL(0.3), CentralTotals(problem), PAPER.scaled_to(n_devices), step=0.1)
    assert run.scores[-1] > 0.8


@pytest.mark.parametrize("rank", [0, 1, 5, 12])
def test_the_factor_of_a_semi_definite_matrix(rank: int):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(rank, 12))
    gram = rows.T @ rows
    spoilt = gram + 1e-7 * np.max(gram, initial=0) * rng.normal(size=(12, 12))  # as sums of float32 products would
    factor = semidefinite_factor((spoilt + spoilt.T) / 2)
    assert factor.shape == (12, rank)
    np.testing.assert_allclose(factor @ factor.T, gram, atol=1e-5 * max(1.0, np.max(gram, initial=0)))


@pytest.mark.parametrize(("delta", "drawn", "mean"), [(0.1, 185, 94.4), (0.8, 1479, 755)])
def test_the_parity_upload_goes_by_the_convention_of_all_schemes(delta: float, drawn: float, mean: float):
    """Mean times where all are means; else one geometric number of transmissions a device: E[max of 25] = 2.18 of them.

    The authors' program draws, and takes means for its own scheme. Crypto is free there.
    """
    free = replace(PAPER, seal_macs_per_number=0.0)

    def start(sharing: SharingConvention) -> Floats:
        return sharing_of(CodedFedL(delta), SHAPE, Conditions(free, sharing), 4000, np.random.default_rng(0)).start

    assert start("authors").mean() == pytest.approx(mean, rel=0.01)
    assert start("authors").std() == pytest.approx(0)
    assert start("per-message").mean() == pytest.approx(drawn, rel=0.02)
    np.testing.assert_array_equal(start("per-message"), start("multicast"))
