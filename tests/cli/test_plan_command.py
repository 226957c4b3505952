from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from command_runner import Run
from typer.testing import CliRunner

from codedfl.cli.app import app
from codedfl.report.text import seconds
from codedfl_lab.cli.plan import train_options
from codedfl_lab.comparing.names import solver_name
from codedfl_lab.fleet.fleet import Fleet
from made_up_results import made_up_timed

SMALL = ("--devices", 8, "--n-features", 60, "--reach", 0.8, "--draws", 5)


def test_it_recommends_and_train_follows(run: Run):
    result = run("lab", "plan", "digits", *SMALL, "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    outcome = json.loads(Path("plan.json").read_text())
    best = outcome["best"]
    assert "takes" in outcome["why"]
    assert best["exposed_to_server"] == 0
    assert best in outcome["plans"]
    trained = run("lab", "train", *outcome["train"], "--json", "-")
    followed = json.loads(trained.stdout)
    assert (followed["scheme"], followed["solver"]) == (best["scheme"], best["solver"])
    assert all(followed[name] == best[name] for name in ("alpha", "z", "blocks", "reserve", "narrow") if name in best)
    assert result.stdout.splitlines()[-1] == f"codedfl lab train {' '.join(outcome['train'])}"


@pytest.mark.usefixtures("run")
def test_it_fits_a_screen_and_all_plans_are_an_option(monkeypatch: pytest.MonkeyPatch):
    asked = ("lab", "plan", "digits", "--fleet", "paper", *SMALL, "--colluders", 1, "--json", "plan.json")
    monkeypatch.setenv("COLUMNS", "80")
    narrow = CliRunner()

    def lines(*more: str) -> list[str]:
        return narrow.invoke(app, [*map(str, asked), *more], catch_exceptions=False).stdout.splitlines()

    shown = lines()
    *screen, command = shown
    assert len(shown) <= 40 and max(map(len, screen)) <= 80
    assert command.startswith("codedfl lab train digits ")
    outcome = json.loads(Path("plan.json").read_text())
    best, facts = outcome["best"], [line.split() for line in screen if line.startswith("  ")]
    heads = ["choice", "time", "cost", "leaks", "fails", "beside"]
    assert [fact[0] for fact in facts if fact[0] in heads] == heads
    assert f"{best['scheme']}, z = {best['z']}" in screen[1]
    tried = len(outcome["plans"]) + len(outcome["left_out"])
    assert f"{tried} plans were tried; --all shows them." in " ".join(screen)
    rows = screen[screen.index(next(line for line in screen if set(line) == {"─"})) + 1 :]
    labels = {one["scheme"]: one["label"].split(",")[0] for one in (*outcome["plans"], *outcome["left_out"])}
    for scheme, label in labels.items():
        assert [row for row in rows if row.startswith(label)], scheme
    assert "Left out by a limit: " in " ".join(screen)
    every = lines("--all")
    assert every[-len(shown) :] == shown and len(every) > 60


def test_the_command_of_a_plan_can_be_pasted(run: Run):
    """It ended without label, features and devices: one call failed, another trained on 25 devices instead of 6."""
    rows = "\n".join(f"{i % 17},{(7 * i) % 11},{i % 5},{3 * (i % 17) - (7 * i) % 11 + i % 3}" for i in range(300))
    Path("own table.csv").write_text(f"a,b,c,y\n{rows}\n")
    asked = ["--label", "y", "--set", "drop=c", "--features", "linear", "--devices", "6", "--seed", "3"]
    planned = run("lab", "plan", "own table.csv", *asked, "--reach", 0.5, "--draws", 5)
    assert planned.exit_code == 0, planned.stderr
    program, *words = shlex.split(planned.stdout.splitlines()[-1])
    assert program == "codedfl" and words[:3] == ["lab", "train", "own table.csv"]
    given = set(zip(words[3::2], words[4::2], strict=False))
    assert set(zip(asked[::2], asked[1::2], strict=True)) <= given
    trained = run(*words, "--json", "-")
    assert trained.exit_code == 0, trained.stderr
    assert json.loads(trained.stdout)["devices"] == 6


def test_limits_are_options(run: Run):
    result = run("lab", "plan", "digits", *SMALL, "--set", "max_exposure=2", "--allow-gram", "--json", "-")
    outcome = json.loads(result.stdout)
    assert all(plan["exposed_by_one"] <= 2 for plan in outcome["plans"])
    assert any("exposure" in reason for plan in outcome["left_out"] for reason in plan["reasons"])


def test_impossible_limits_are_one_line(run: Run):
    result = run("lab", "plan", "digits", *SMALL, "--max-upload", 1)
    assert result.exit_code == 2
    said = "error: the limits must leave a plan that shows the server no single device, got none: the fastest is "
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1


def test_bad_target(run: Run):
    result = run("lab", "plan", "digits", "--devices", 8, "--n-features", 20, "--reach", 2)
    assert (result.exit_code, result.stderr) == (2, "error: target must be between 0 and 1, got 2.0\n")


def test_there_is_a_plan_whoever_wins(run: Run):
    """Devices alike and without lost packets: conventional FL needs no sharing phase and is first."""
    paper = Fleet.load("paper").scaled_to(8)
    alike = replace(paper.classes[0], count=8, mac_rate=25e6, setup_factor=0.0, failure_probability=0.0, name="alike")
    Path("alike.toml").write_text(replace(paper, classes=(alike,), name="alike").dumps())
    result = run("lab", "plan", "digits", *SMALL, "--fleet", "alike.toml")
    assert result.exit_code == 0
    assert "Coding does not pay" in " ".join(result.stdout.split())


def test_a_rival_is_named_by_its_own_solver(run: Run):
    outcome = json.loads(run("lab", "plan", "digits", *SMALL, "--json", "-").stdout)
    everything = [*outcome["plans"], *outcome["left_out"]]
    rival = min(
        (one for one in everything if one["scheme"] == "conventional-full-batch"), key=lambda one: one["seconds_mean"]
    )
    assert f" with {solver_name(rival['solver'])} needs {seconds(rival['seconds_mean'])}" in outcome["why"]


def test_compare_and_plan_time_the_sharing_phase_alike(run: Run):
    helps = [" ".join(run("lab", command, "--set", "help").stdout.split()) for command in ("compare", "plan")]
    assert all("relayed" in text and "[default: authors; per-message where" in text for text in helps)


def test_what_makes_train_follow_a_plan():
    coded = replace(made_up_timed(), parameters={"alpha": 4, "groups": 2, "spare": 0}, solver="cg", epochs=9)
    every = replace(coded, gram_directions=coded.n_features)  # an iterative solver may come to all directions too
    said = ["--scheme", coded.scheme, "--alpha", "4", "--set", "groups=2", "--solver", "cg", "--epochs", "9"]
    assert train_options(coded) == train_options(every) == said
    once = replace(coded, scheme="role-sums", parameters={"z": 1}, solver="closed-form", epochs=1)
    assert train_options(once) == ["--scheme", "role-sums", "--colluders", "1"]
