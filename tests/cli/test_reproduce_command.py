from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_runner import Run

from codedfl_lab import datasets
from codedfl_lab.cli import reproduce as reproduce_module
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.results import AtSize, Claim, PaperValue, Preparation, Racer, Results, Timed
from codedfl_lab.reproduce.beyond import AIMS, COLUMNS
from codedfl_lab.reproduce.reproduce import reproduce
from made_up_results import entry, made_up_results, made_up_timed

CLAIMS = (
    Claim("coding helps [much]", "mnist", 0.95, "holds", "2 s", sharing="authors", charged=False),
    Claim("pigs fly", "mnist", None, "fails", "none does", sharing="authors", charged=False),
    Claim("coding helps [much]", "mnist", 0.95, "tie", "5 s", sharing="multicast", charged=True),
    Claim("pigs fly", "mnist", None, "fails", "not one", sharing="multicast", charged=True),
    Claim("birds do", "mnist", None, "not judged", "missing: birds"),
)


def results(name: str) -> Results:
    experiment = EXPERIMENTS[name]
    target = experiment.headline_target
    coded = entry(target, 10.0, dataset=name, speedups=(6.0, 6.5, 7.0), alpha=experiment.alpha)
    return made_up_results(
        [entry(target, 65.0, dataset=name, speedups=(1.0, 1.0, 1.0)), coded],
        name=name,
        title=experiment.title,
        paper=PaperValue(experiment.speedup, experiment.alpha),
        claims=CLAIMS,
    )


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replaces the experiment, which takes minutes; its calls are kept, checked against the real signature."""
    seen: list[dict[str, Any]] = []

    def quickly(*arguments: Any, **options: Any) -> Results:
        bound = inspect.signature(reproduce).bind(*arguments, **options).arguments
        seen.append(bound)
        bound["progress"]("halfway", 0.5)
        return results(bound["name"])

    def write(folder: Path, _results: Results) -> None:
        folder.mkdir(parents=True, exist_ok=True)  # the command has made and locked it
        (folder / "report.html").write_text("")

    monkeypatch.setattr(reproduce_module, "reproduce", quickly)
    monkeypatch.setattr(reproduce_module, "write_report", write)
    monkeypatch.setattr(datasets, "fetch_dataset", lambda *_: {})
    return seen


def test_beyond_shows_goals_in_every_column(run: Run, calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch):
    """Every figure is there."""
    columns = tuple(
        Timed(column, "role-keys, z = 1", 20.0, 450.0 / (1 + place), 340.0, 576.0, 21.7, 500.0, "missed")
        for place, column in enumerate(COLUMNS)
    )
    goals = tuple(
        Racer(aim.course.dataset, aim.scheme, aim.solver, aim.z, aim.course.devices, columns=columns) for aim in AIMS
    )
    steps = (Preparation("role-keys, z = 1", 25, "enrol", "slowest", 2.34),)
    both = [row for name in EXPERIMENTS for row in results(name).schemes]
    size = AtSize("mnist", 120, "multicast", True, made_up_timed(), 160.0, True)
    made = replace(
        results("mnist"), name="beyond", schemes=tuple(both), goals=goals, preparations=steps, claims=CLAIMS[-1:]
    )
    made = replace(made, scaling=(size,), peers=(size,))
    monkeypatch.setattr(reproduce_module, "reproduce_beyond", lambda *_: made)
    monkeypatch.setattr(reproduce_module, "write_beyond_report", reproduce_module.write_report)
    said = run("lab", "reproduce", "beyond", "--out", "here").stdout
    assert "from" in said and "the call" in said and "own work" in said, "no heading is cut"
    assert "MNIST, 1000 devices" in said and said.count("21.7") == len(COLUMNS) * len(AIMS)
    assert said.count("goal 500") == len(COLUMNS) * len(AIMS)
    assert "slowest" in said and "2.34" in said
    assert {"missed", "450", "225", "150"} <= set(said.split())
    assert f"Of {len(COLUMNS) * len(AIMS)} goals: {len(COLUMNS) * len(AIMS)} missed." in said
    assert "coded-keys, CG    ◉ 160" in said and "120      coded-keys, α = 24, 5 groups, CG" in said


def test_table_headline_claims_and_files(run: Run, calls: list[dict[str, Any]]):
    result = run("lab", "reproduce", "mnist", "--out", "here", "--data-dir", "mine")
    assert result.exit_code == 0
    said = " ".join(result.stdout.replace("\u202f", " ").split())
    assert "MNIST, Figure 1a: time to 95 % accuracy" in said
    assert "Coded-padded with α = 23" in said and "6.6" in said
    assert "holds coding helps [much] 2 s. Tie by: multicast, charged fails pigs fly none does" in said
    assert "not judged birds do missing: birds" in said
    assert "Of 3 claims: 1 holds, 1 fails, 1 not judged. Sharing authors, pads and sealing free; other" in said
    assert "Wrote, after 200 s, 150 s of it linear algebra: here/mnist/report.html" in said
    (call,) = calls
    scope = call["scope"]
    assert (list(scope.seeds), scope.draws, scope.n_features, scope.rows) == ([0, 1, 2, 3, 4], 100, 2000, None)
    assert scope.data_dir == Path("mine")
    assert scope.command == "codedfl lab reproduce mnist --out here --data-dir mine"


def test_all_is_both(run: Run, calls: list[dict[str, Any]]):
    outcome = json.loads(run("lab", "reproduce", "all", "--seeds", "2", "--draws", "7", "--json", "-").stdout)
    assert [call["name"] for call in calls] == ["mnist", "fashion-mnist"]
    assert [(list(call["scope"].seeds), call["scope"].draws) for call in calls] == [([0, 1], 7)] * 2
    assert outcome == {"command": "lab reproduce", "experiments": [results(name).to_json() for name in EXPERIMENTS]}


def test_a_quick_look_says_so(run: Run, calls: list[dict[str, Any]]):
    result = run("lab", "reproduce", "fashion-mnist", "--quick")
    assert [(list(one.seeds), one.n_features, one.rows) for one in (call["scope"] for call in calls)] == [
        ([0], 500, 10_000)
    ]
    assert result.stderr.startswith("note: a quick look on fewer features and rows")


def test_ctrl_c_says_what_was_finished(run: Run, calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch):
    quickly = reproduce_module.reproduce

    def interrupted_at_fashion(name: str, *options: Any) -> Any:
        if name == "fashion-mnist":
            raise KeyboardInterrupt
        return quickly(name, *options)

    monkeypatch.setattr(reproduce_module, "reproduce", interrupted_at_fashion)
    result = run("lab", "reproduce", "all", "--out", "here")
    assert (result.exit_code, result.stderr) == (130, "interrupted at fashion-mnist: kept here/mnist\n")
    result = run("lab", "reproduce", "fashion-mnist", "--out", "here")
    assert (result.exit_code, result.stderr) == (130, "interrupted at fashion-mnist: nothing was finished\n")
    assert len(calls) == 1
