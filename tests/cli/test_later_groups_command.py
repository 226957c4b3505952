"""``--add-to`` and ``study leave``: a second group's run is added to the first one's total, and taken away again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_runner import Run

from codedfl import TrainedModel

NAMES = ("alder", "birch", "cedar", "dogwood", "elm", "fir")


@pytest.fixture
def folders(run: Run) -> None:
    rng = np.random.default_rng(0)
    for place, name in enumerate(NAMES):
        folder = Path("first" if place < 3 else "later")
        for one in (folder, Path("whole")):
            one.mkdir(exist_ok=True)
            lines = ["age,days"]
            for age in rng.integers(20, 90, 40) if one == folder else ():
                lines.append(f"{age},{2 + age / 10 + rng.normal():.1f}")
            if one == folder:
                text = "\n".join(lines) + "\n"
            (one / f"{name}.csv").write_text(text)
    assert run("study", "new", "whole", "--target", "days", "--participants", "3").exit_code == 0
    text = Path("study.toml").read_text()
    text = text.replace("held_out = 0.2", "held_out = 0.0").replace("most_clipped = 0.0", "most_clipped = 1.0")
    Path("study.toml").write_text(text)


def thetas(*folders: str) -> list[bytes]:
    return [TrainedModel.load(Path(one, "model.safetensors")).theta.tobytes() for one in folders]


def test_a_group_is_added_and_leaves(run: Run, folders: None):
    for tables, out, *more in (
        ("first", "r1"),
        ("whole", "r2"),
        ("later", "r3", "--add-to", "r1"),
    ):
        done = run("study", "rehearse", "study.toml", "--tables", tables, "--out", out, *more)
        assert done.exit_code == 0, done.stderr
    said = " ".join((done.stdout + done.stderr).split())
    assert "added to a kept sum of 3 devices, which were not asked" in said
    added, whole = thetas("r3", "r2")
    assert added == whole
    result = json.loads(Path("r3/result.json").read_text())
    assert result["owners"]["gram"] == list(NAMES[3:]) and result["added_to"][0]["owners"] == list(NAMES[:3])
    left = run("study", "leave", "study.toml", "r3", "--owners", ",".join(NAMES[3:]), "--out", "r4")
    assert left.exit_code == 0, left.stderr
    first, again = thetas("r1", "r4")
    assert first == again
    refitted = run("study", "refit", "study.toml", "r4", "--json", "-")
    assert refitted.exit_code == 0, refitted.stderr


def test_one_owner_of_a_part_is_refused(run: Run, folders: None):
    assert run("study", "rehearse", "study.toml", "--tables", "first", "--out", "r1").exit_code == 0
    refused = run("study", "leave", "study.toml", "r1", "--owners", "birch", "--out", "r2")
    assert refused.exit_code == 2
    assert " ".join(refused.stderr.split()).endswith(
        "for its sum cannot be taken apart: 'birch' is in one with alder, cedar"
    )
    assert not Path("r2").exists()
    again = run("study", "rehearse", "study.toml", "--tables", "first", "--out", "r3", "--add-to", "r1")
    assert again.exit_code == 2 and "owners must be in a total once, got alder, birch, cedar again" in " ".join(
        again.stderr.split()
    )
