"""The race was put together of cached trainings: the one command that prints it ended in a KeyError."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.reproduce import beyond
from codedfl_lab.reproduce.beyond import AIMS, COLUMNS, reproduce_beyond
from codedfl_lab.reproduce.scope import ClaimScope

ROOT = Path(__file__).parents[2]


@pytest.mark.mnist
def test_one_run_has_the_whole_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """On few rows and features, with a target that they reach: every table of the report has its rows."""
    easy = {name: replace(one, targets=(0.5,), max_epochs=60) for name, one in EXPERIMENTS.items()}
    monkeypatch.setattr(beyond, "EXPERIMENTS", easy)
    monkeypatch.setattr("codedfl_lab.reproduce.sizes.FLEET_SIZES", (25,))
    smaller = [replace(aim, course=aim.course._replace(devices=min(aim.course.devices, 60))) for aim in AIMS]
    monkeypatch.setattr(beyond, "AIMS", smaller)
    made = reproduce_beyond(ClaimScope(seeds=[0], draws=3, n_features=100, rows=1000))
    assert {row.dataset for row in made.schemes} == {"mnist", "fashion-mnist"}
    assert len(made.goals) == len(AIMS)
    assert all([one.column for one in goal.columns] == list(COLUMNS) for goal in made.goals)
    assert all(one.time_s and one.over_strongest for goal in made.goals for one in goal.columns)
    assert {one.devices for one in made.preparations} == {25}
    assert made.scaling and made.peers
    assert [claim.verdict for claim in made.claims] == ["holds", "holds"], "32 bits, same epochs"


def test_each_number_of_the_race_is_named_on_the_methods_page() -> None:
    """No command beside README's figures or the race itself that the methods page does not explain."""
    readme, methods = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/methods.md"))
    speeds = readme.split("## How fast")[1].split("\n## Security")[0]
    race = methods.split("## The race")[1].split("\n## ")[0]
    named = methods.split("## Each number of the race")[1].split("\n## ")[0]
    commands = set(re.findall(r"`(codedfl lab reproduce \w+)`", speeds + race))
    assert {"codedfl lab reproduce beyond", "codedfl lab reproduce arithmetic"} <= commands
    assert commands <= set(re.findall(r"`(codedfl lab reproduce \w+)`", named))
