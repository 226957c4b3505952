"""`compare` had a fixed list of schemes, no table for a spreadsheet and no sweeps."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

import codedfl_lab
from codedfl_lab.cli.scheme_choice import RaceOptions
from codedfl_lab.schemes.registry import SCHEMES

Run = Callable[..., Result]
QUICK = ("--reach", "0.7", "--seeds", "1", "--draws", "3", "--set", "epochs=60")


class Strangers(codedfl_lab.CodedKeys):
    name = "strangers"


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCHEMES, "_known", dict(SCHEMES._known))
    codedfl_lab.register_scheme(Strangers)


def summary(folder: str) -> list[dict[str, str]]:
    with Path(folder, "summary.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.usefixtures("strangers")
def test_schemes_solvers_and_alpha_are_options_for_strangers_too(run: Run) -> None:
    chosen = ("--scheme", "strangers", "--scheme", "one-shot", "--alpha", "4", "--solver", "cg", "--solver", "gd")
    result = run("lab", "compare", "digits", *QUICK, "--n-features", "60", "--devices", "6", *chosen, "--out", "here")
    assert result.exit_code == 0, result.stderr
    assert "strangers" in result.stdout
    rows = {(row["scheme"], row["solver"], row["alpha"]) for row in summary("here")}
    assert rows == {
        ("conventional", "gd", ""),
        *(("conventional-full-batch", solver, "") for solver in ("cg", "gd")),
        *(("strangers", solver, "4") for solver in ("cg", "gd")),
        ("one-shot", "closed-form", "4"),
    }


def test_the_summary_has_the_numbers_of_the_screen_a_row_a_scheme(run: Run) -> None:
    run("lab", "compare", "digits", *QUICK, "--n-features", "60", "--devices", "5", "--out", "here")
    rows = summary("here")
    found = json.loads(Path("here/results.json").read_text())["schemes"]
    assert len(rows) == len(found) == len({(row["label"], row["solver"]) for row in rows})
    for row, one in zip(rows, found, strict=True):
        median = one["time_to_target_s"]["median"]
        assert row["time_to_target_s.median"] == ("" if median is None else str(median))
        assert (row["n_devices"], row["n_features"], row["reason"]) == ("5", "60", one["reason"] or "")


@pytest.mark.parametrize(
    ("sweep", "column", "values"),
    [
        ("alpha=1,3,6", "alpha", ["", "1", "3", "6"]),
        ("z=0,1,2", "z", ["", "0", "1", "2"]),
        ("D=3,6", "n_devices", ["3", "6"]),
        ("d=20,40", "n_features", ["20", "40"]),
    ],
)
def test_a_sweep_is_one_command_with_a_figure(run: Run, sweep: str, column: str, values: list[str]) -> None:
    size = () if sweep.startswith("D") else ("--devices", "6")
    features = () if sweep.startswith("d") else ("--n-features", "40")
    result = run("lab", "compare", "digits", *QUICK, *size, *features, "--sweep", sweep, "--out", "here")
    assert result.exit_code == 0, result.stderr
    assert sorted({row[column] for row in summary("here")}) == values
    assert Path("here/sweep.png").read_bytes().startswith(b"\x89PNG")
    name = sweep.split("=")[0]
    assert all(f"{name} = {value}" in result.stdout for value in sweep.split("=")[1].split(","))
    assert max(map(len, result.stdout.splitlines())) <= 80
    if name in "Dd":
        assert Path(f"here/{sweep.split(',')[0]}/report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--scheme", "nobody"), "scheme must be one of coded-padded, "),
        (("--alpha", "9"), "alpha must be between 1 and the number of devices (6), got 9"),
        (("--scheme", "role-keys", "--alpha", "2"), "alpha must be a parameter of one of the schemes, got role-keys"),
        (("--sweep", "alpha=1,2", "--alpha", "2"), "--alpha must be left out with --sweep alpha, got 2"),
        (("--sweep", "D=3,4"), "--devices must be left out with --sweep D, got 6"),
        (("--sweep", "beta=3"), "--sweep must be alpha=, z=, D= or d= with values behind it, got 'beta=3'"),
        (("--sweep", "alpha=3,2"), "--sweep must have values that ascend from 1 (z: from 0), got 'alpha=3,2'"),
        (("--sweep", "alpha=a"), "--sweep must have whole numbers with commas between, got 'alpha=a'"),
        (("--solver", "closed"), "solver must be one of gd, "),
    ],
)
def test_what_cannot_be_is_one_line(run: Run, arguments: tuple[str, ...], message: str) -> None:
    result = run("lab", "compare", "digits", *QUICK, "--devices", "6", *arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"error: {message}")


def test_every_scheme_that_is_known_has_its_entry() -> None:
    for name in SCHEMES:
        assert any(one.scheme.name == name for one in RaceOptions(schemes=[name]).entries(60)), name
