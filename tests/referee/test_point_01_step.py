"""`compare` took the paper's step of 12 on any table: final R^2 of -1e63, an empty scheme column, rivals that "never
get there"; `plan` gave descent up where `train` reaches 0.9."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from rich.console import Console

from codedfl.solve.descent import EIGENVALUE_MARGIN, POWER_ITERATIONS, derived_step
from codedfl_lab import CodedKeys, Conditions, Conventional, Entry, Fleet, Settings, compare, datasets
from codedfl_lab.baselines.coded_fedl import CodedFedL
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.cli.inputs import Inputs
from codedfl_lab.cli.options import DataOptions, ModelOptions
from codedfl_lab.comparing.results import Gain
from codedfl_lab.costs.times import Descent, TrainingTimes
from codedfl_lab.costs.times import models as models_of
from codedfl_lab.report.tables import comparison_table
from made_up_results import entry
from small_problems import digits, totals

Run = Callable[..., Result]
QUICK = ("--seeds", "1", "--draws", "5", "--n-features", "60")
PAPER = Fleet.load("paper")


def outcome(run: Run, *arguments: object) -> dict[str, Any]:
    result = run("lab", "compare", *arguments, *QUICK, "--json", "-")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_the_referee_s_table(run: Run, prices: Path) -> None:
    found = outcome(run, prices, "--label", "price", "--device-column", "shop", "--reach", "0.5,0.8")
    rows = [row for row in found["schemes"] if row["target_accuracy"] == 0.8]
    assert {row["step"] for row in rows} == {"derived"}
    assert all(row["seeds_reached"] == 1 and row["final_accuracy"]["median"] > 0.8 for row in rows)


def test_plan_says_of_descent_what_train_does(run: Run, prices: Path) -> None:
    of_table = (prices, "--label", "price", "--device-column", "shop", "--n-features", "60")
    made = json.loads(run("lab", "plan", *of_table, "--reach", "0.8", "--draws", "5", "--json", "-").stdout)
    assert made["unreached"] == []
    epochs = {plan["solver"]: plan["epochs"] for plan in made["plans"] if plan["scheme"] == "role-keys"}
    trained = json.loads(run("lab", "train", *of_table, "--solver", "gd", "--reach", "0.8", "--json", "-").stdout)
    assert trained["epochs"] == epochs["gd"]


@pytest.mark.parametrize("devices", [2, 7, 200])
def test_fleets_of_any_size(run: Run, devices: int) -> None:
    found = outcome(run, "digits", "--devices", devices, "--reach", "0.7", "--set", "epochs=150")
    for row in found["schemes"]:
        assert not row["diverged"]
        if row["scheme"] in ("conventional", "conventional-full-batch", "coded-padded", "coded-keys", "role-keys"):
            assert row["seeds_reached"] == 1, row["label"]


def odd(kind: str, rng: np.random.Generator) -> tuple[str, list[Any]]:
    """Columns, the last of which is the label, and rows."""
    if kind == "huge values":
        return "x y z label", [
            (1e12 * x, 1e-9 * y, 3e5 * z, 1e15 * (x + y * y)) for x, y, z in rng.normal(size=(400, 3))
        ]
    if kind == "twenty rows":
        return "x y label", [(x, y, "a" if x > 0 else "b") for x, y in rng.normal(size=(20, 2))]
    if kind == "one column":
        return "t label", [(t, 3 * t + rng.normal()) for t in rng.uniform(0, 9, 300)]
    if kind == "a constant column":
        return "x k label", [(x, 5, 2 * x) for x in rng.normal(size=200)]
    return "colour weight label", [
        (rng.choice(["red", "blue"]), w, "heavy" if w > 1 else "light" if w < 0 else "mid")
        for w in rng.normal(size=500)
    ]


@pytest.mark.parametrize("features", ["rbf", "linear"])
@pytest.mark.parametrize("kind", ["huge values", "twenty rows", "one column", "a constant column", "text"])
def test_tables_nobody_prepared(run: Run, table: Callable[..., Path], kind: str, features: str) -> None:
    path = table("odd.csv", *odd(kind, np.random.default_rng(2)))
    wanted = ("--features", features, "--devices", "3", "--reach", "0.3", "--seeds", "1", "--draws", "3")
    result = run("lab", "compare", path, *wanted, "--set", "epochs=120", "--json", "-")
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)["schemes"]
    assert [row["label"] for row in rows if row["diverged"]] == []
    assert [row["label"] for row in rows if row["reason"] is None and row["final_accuracy"]["median"] < -1] == []


def test_one_device_a_thousand_times_slower() -> None:
    usual = PAPER.classes[0]
    slow = replace(usual, count=1, mac_rate=usual.mac_rate / 1000, name="slow")
    fleet = replace(PAPER, classes=(replace(usual, count=9), slow))
    entries = [Entry(Conventional()), Entry(DropSlowest(1)), Entry(CodedFedL(0.1)), Entry(CodedKeys(2))]
    settings = Settings(Conditions(fleet), (0.7,), draws=5, max_epochs=150)
    rows = {row.scheme: row for row in compare("digits", [(0, digits())], entries, settings).schemes}
    assert all(row.reason is None for row in rows.values())
    assert rows["coded-keys"].speedup_over_conventional.median > 5


def test_every_baseline_follows_one_rule_at_one_price() -> None:
    """1 / (1.25 times the largest eigenvalue, plus lambda), known after the epochs that the solver takes to find it."""
    central = totals()
    largest = max(np.linalg.eigvalsh(matrix.astype(float))[-1] for matrix in central.batch_matrices())
    step = derived_step(central.batch_matrices(), 1e-3)
    assert step(POWER_ITERATIONS) == 0
    assert step(POWER_ITERATIONS + 1) == pytest.approx(1 / (EIGENVALUE_MARGIN * largest + 1e-3), rel=0.02)
    at, descent = Conditions(PAPER.scaled_to(10)), Descent(None, 1e-3)
    for scheme in (Conventional(), DropSlowest(2), CodedFedL(0.1), CodedFedL(0.8)):
        models = models_of(scheme, TrainingTimes(central, None, descent, at, np.random.default_rng(0)))
        moved = [bool(np.any(next(models))) for _ in range(POWER_ITERATIONS + 1)]
        assert moved == [False] * POWER_ITERATIONS + [True]


def test_divergence_is_named_and_not_scored(run: Run, prices: Path) -> None:
    of_table = (
        prices,
        "--label",
        "price",
        "--device-column",
        "shop",
        "--reach",
        "0.5,0.8",
        "--seeds",
        "1",
        "--draws",
        "5",
    )
    result = run("lab", "compare", *of_table, "--set", "step=paper")
    said = " ".join(result.stdout.split())
    assert "diverge: the paper's step is too large for these data, the derived one is not." in said
    assert "diverges – – –" in said and "e+" not in said
    rows = json.loads(Path("results/compare-reg.csv/results.json").read_text())["schemes"]
    lost = [row for row in rows if row["diverged"]]
    assert {row["solver"] for row in lost} == {"gd"} and len(lost) > 10
    assert all(row["final_accuracy"]["median"] is None and row["reason"] for row in lost)
    one = run("lab", "compare", *of_table, "--set", "step=paper", "--scheme", "drop-slowest", "--solver", "gd")
    assert (one.exit_code, one.stderr.count("\n")) == (2, 1)
    assert one.stderr.startswith("error: no scheme can be compared on reg: the paper's step is too large")


def test_the_paper_s_own_experiment_keeps_its_step() -> None:
    pictures = replace(datasets.load("digits"), name="mnist")
    many = replace(pictures, X_train=np.zeros((60_000, 64)), y_train=np.arange(60_000) % 10)
    for data, model, devices, expected in (
        (many, ModelOptions(), 25, True),
        (many, ModelOptions(n_features=2000), 25, True),
        (many, ModelOptions(n_features=500), 25, False),
        (many, ModelOptions(gamma=1.0), 25, False),
        (many, ModelOptions(), 10, False),
        (replace(many, name="digits"), ModelOptions(), 25, False),
    ):
        assert Inputs(data, PAPER.scaled_to(devices), DataOptions(), model).is_the_paper_s is expected


def test_columns_hold_whatever_number_comes() -> None:
    """No empty column of schemes, no word broken, at 80 characters."""
    rows = [
        entry(0.95, value, alpha=23, final=-value * 1e60, speedups=(value,) * 3) for value in (1e-7, 4e4, 3e9, 1e30)
    ]
    rows = [replace(row, gain=Gain(1e-6, 1e12), sharing_s=1e20, epoch_s_mean=1e-8) for row in rows]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(comparison_table(rows, 0.95, score_name="R^2"))
    text = console.export_text()
    assert "…" not in text and max(map(len, text.splitlines())) <= 80
    assert text.count("coded-padded") == len(rows)
    assert "-1.00e90" in text and "1.00e-7" in text
