"""The study of fleets judges by whole intervals, says where coded schemes do not win, and writes a page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codedfl_lab.costs.times import WorkShape
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.report.fleets_page import fleet_cells, losses, write_fleets_report
from codedfl_lab.reproduce.fleets import DEALT, EARLY, FLEETS, RACERS, FleetRow, FleetsResults, _rows, _verdict

BASELINE, OURS = RACERS[2], RACERS[6]


def row(words: str, verdict: str, seconds: float | None = 20.0, **changes: object) -> FleetRow:
    made = FleetRow("heavy-tailed", 25, "paper's", words, words, True, 6.0, seconds, 16.2, 0.26, 0.2, 0.3, verdict)  # type: ignore[arg-type]
    return replace(made, **changes)  # type: ignore[arg-type]


def results(*rows: FleetRow) -> FleetsResults:
    models = {"paper": [], "heavy-tailed": ["pareto:shape=1.5"]}
    return FleetsResults(rows, 0.95, (0, 1, 2), 10, models, False, "codedfl lab reproduce fleets", 1.0, {})


@pytest.mark.parametrize(
    ("low", "high", "seconds", "verdict"),
    [
        (1.1, 2.0, 5.0, "wins"),
        (0.9, 2.0, 5.0, "tie"),
        (0.2, 0.9, 5.0, "loses"),
        (None, None, 5.0, "tie"),
        (0.0, 0.0, math.inf, "never"),
    ],
)
def test_a_verdict_is_of_the_whole_interval(low: float | None, high: float | None, seconds: float, verdict: str):
    assert _verdict(OURS, seconds, low, high) == verdict
    assert _verdict(BASELINE, seconds, low, high) == "baseline"


def test_where_coded_schemes_do_not_win_is_said():
    found = results(row("role-keys", "loses"), row(DEALT, "wins"), row(EARLY, "never", None), row("x", "baseline"))
    assert losses(found) == [
        "heavy-tailed, 25 devices: role-keys loses; sharing takes 16.2\u202fs, of 20.0\u202fs to the target.",
        f"heavy-tailed, 25 devices: {EARLY} never gets there; sharing takes 16.2\u202fs.",
    ]


def test_the_folder_has_page_picture_and_results(tmp_path: Path):
    rows = [row("conventional FL", "baseline", private=False), row(DEALT, "wins"), row(EARLY, "tie")]
    found = results(*rows, *(replace(one, devices=300) for one in rows))
    written = write_fleets_report(tmp_path, found)
    assert set(written) == {"results.json", "report.html", "fleets.png", "fleets.svg"}
    assert json.loads(written["results.json"].read_text())["rows"][1]["verdict"] == "wins"
    page = written["report.html"].read_text(encoding="utf-8")
    assert "pareto:shape=1.5" in page and f"{EARLY} ties" in page
    assert fleet_cells(rows)[1][-2:] == ("0.200–0.300", "wins")


def test_every_fleet_has_every_racer_and_the_strongest_baseline_of_its_features():
    shapes = {features: WorkShape(200, 10, np.full(25, 400)) for features in {racer.features for racer in RACERS}}
    epochs = [{(racer, name): 6 if racer.solver != "gd" else 200 for racer in RACERS for name in FLEETS}] * 3
    for size in (25, 300):
        rows = _rows("congested", Fleet.load("congested").scaled_to(size), epochs, shapes, 6)
        assert len(rows) == sum(size in racer.sizes for racer in RACERS)
        for features in shapes:
            baselines = [one for one in rows if one.features == features and one.verdict == "baseline"]
            best = min(baselines, key=lambda one: one.seconds or math.inf)
            assert best.faster == 1.0 and best.words == "conventional FL, full batch"
        early, dealt = (next(one for one in rows if one.words == words) for words in (EARLY, DEALT))
        assert early.seconds is not None and dealt.seconds is not None and early.seconds <= dealt.seconds
    without = [{**epochs[0], **{(racer, "paper"): None for racer in RACERS if racer.words == EARLY}}] * 3
    early, dealt = (
        next(one for one in _rows("paper", Fleet.load("paper"), without, shapes, 6) if one.words == words)
        for words in (EARLY, DEALT)
    )
    assert early.epochs is None and early.seconds == dealt.seconds, "the late are added later"
