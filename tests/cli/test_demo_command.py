"""``codedfl lab demo`` runs both protocols as processes and says what differs; it can fail, and then says so."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runner import Run
from typer.testing import CliRunner

from codedfl.cli.app import app
from codedfl.sum.session import Session
from codedfl_lab import datasets, make_problem
from codedfl_lab.cli import demo
from codedfl_lab.coded.session import CodedSession

pytestmark = pytest.mark.deployment


def test_it_runs_both_protocols_and_fits_a_screen(tmp_path: Any, run: Run, capfd: pytest.CaptureFixture[str]):
    runner = CliRunner(env={"COLUMNS": "80"})
    result = runner.invoke(
        app, ["lab", "demo", "--out", str(tmp_path), "--json", str(tmp_path / "out.json")], catch_exceptions=False
    )
    assert result.exit_code == 0
    assert "socket.send()" not in capfd.readouterr().err, "a killed device is no news: none of a library's warnings"
    lines = result.stdout.splitlines()
    assert 20 <= len(lines) <= 40
    assert max(map(len, lines)) <= 80 + len(str(tmp_path))  # the last sentence has a path
    said = " ".join(result.stdout.split())
    assert said.count("all 3000 numbers of the model are the centralised fit's, bit for bit") == 2
    assert "an epoch ends with the first 7 of 10 answers" in said
    for who in (
        "Conventional FL takes",
        "The paper's scheme, coded-padded",
        "Ours, role-keys",
        "The strongest baseline",
    ):
        assert who in said
    assert said.endswith("has all of the comparison.")
    found = json.loads((tmp_path / "out.json").read_text())
    for one in found["protocols"]:
        assert one["killed"] == ["device-9"]
        assert one["seconds_per_epoch"] < demo.LATE_SECONDS, "no epoch waits for the slow"
        assert one["accuracy"] > 0.94
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize(("place", "session", "products"), [(0, CodedSession, 119), (1, Session, 7)])
def test_a_number_that_is_off_by_one_in_the_last_epoch_is_reported(
    place: int, session: type, products: int, monkeypatch: pytest.MonkeyPatch, run: Run
):
    """The smallest mistake there is: one unit of the ring, in one number of one product."""
    honest = session.product
    made = []

    def spoilt(self: Any, ask: bytes, e: np.ndarray) -> np.ndarray:
        found = honest(self, ask, e)
        made.append(found)
        found[0, 0] += len(made) == products
        return found

    monkeypatch.setattr(session, "product", spoilt)
    monkeypatch.setattr(demo, "PROTOCOLS", (demo.PROTOCOLS[place],))
    result = run("lab", "demo", "--out", "here", "--json", "here.json")
    assert result.exit_code == 2
    name = demo.PROTOCOLS[0].scheme.name
    assert result.stderr == f"models must equal the centralised fit bit for bit, got others from {name}\n"
    (one,) = json.loads(Path("here.json").read_text())["protocols"]
    assert 0 < one["numbers_that_differ"] <= one["numbers"] == 3000
    assert f"{one['numbers_that_differ']} of 3000 numbers of its model DIFFER" in " ".join(result.stdout.split())
    assert not os.listdir("here"), "no comparison is shown beside models that are wrong"


def test_a_zero_of_another_sign_is_another_bit(monkeypatch: pytest.MonkeyPatch):
    problem = make_problem(datasets.load("digits"), n_devices=10, n_features=20)
    protocol = demo.PROTOCOLS[1]
    *_, model = demo.CentralTotals(problem).train(protocol.solver())
    model[0, 0] = 0.0

    class Pooled:
        def __init__(self, _problem: Any) -> None:
            pass

        def train(self, _solver: Any) -> list[np.ndarray]:
            return [model]

    other = model.copy()
    other[0, 0] = -0.0
    monkeypatch.setattr(demo, "CentralTotals", Pooled)
    monkeypatch.setattr(demo, "train_in_processes", lambda *_: demo.FinishedProcess(other, (0.0,), ()))
    assert demo.run_protocol(protocol, problem).differ == 1
