from __future__ import annotations

import json
from pathlib import Path

from command_runner import Run

SMALL = ("--devices", 8, "--n-features", 60, "--target", 0.8, "--draws", 5)


def test_it_recommends_writes_and_train_follows(run: Run):
    result = run("plan", "digits", *SMALL, "--out", "here", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    outcome = json.loads(Path("plan.json").read_text())
    best = outcome["best"]
    assert "takes" in outcome["why"]
    assert best["exposed_to_server"] == 0
    assert next(plan for plan in outcome["plans"] if plan["exposed_to_server"] == 0) == best
    assert {path.name for path in Path("here").iterdir()} == {
        "plan.toml",
        "time_against_alpha.png",
        "time_against_alpha.svg",
    }
    trained = run("train", "digits", "--devices", 8, "--n-features", 60, "--plan", "here/plan.toml", "--json", "-")
    followed = json.loads(trained.stdout)
    assert (followed["scheme"], followed["alpha"], followed["solver"]) == (
        best["scheme"],
        best["alpha"],
        best["solver"],
    )


def test_limits_are_options(run: Run):
    result = run("plan", "digits", *SMALL, "--max-exposure", 2, "--allow-gram", "--json", "-")
    outcome = json.loads(result.stdout)
    assert all(plan["exposed_by_one"] <= 2 for plan in outcome["plans"])
    assert any("exposure" in reason for plan in outcome["left_out"] for reason in plan["reasons"])


def test_impossible_limits_are_one_line(run: Run):
    result = run("plan", "digits", *SMALL, "--max-upload", 1)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: at least one plan must keep to the limits, got none (")
    assert result.stderr.count("\n") == 1


def test_bad_target(run: Run):
    result = run("plan", "digits", "--devices", 8, "--n-features", 20, "--target", 2)
    assert (result.exit_code, result.stderr) == (2, "error: target must be between 0 and 1, got 2.0\n")
