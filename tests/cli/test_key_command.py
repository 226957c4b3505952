"""``codedfl site key``: a name and its key, the same every time, as ``codedfl roster`` takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runner import Run

from codedfl.contract.roster import load_roster
from codedfl.crypto.key_files import DEVICE_KEY, load_identity


@pytest.mark.hospitals
@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (7, "for any one device to be absent, least_participants of the study must be at most 3"),
        (5, "sums are over whole disclosure groups and there is one: nobody may be absent when a sum is asked for"),
    ],
)
def test_a_new_roster_says_what_an_absent_device_costs(run: Run, tmp_path: Path, devices: int, said: str):
    keys = [run("site", "key", f"clinic-{i}", "--state", tmp_path).stdout.strip() for i in range(devices)]
    result = run("roster", "new", *keys, "--out", tmp_path / "roster.toml")
    assert " ".join(result.stdout.split()).endswith(said)


def test_the_lines_of_all_devices_make_a_roster(run: Run, tmp_path: Path):
    state, roster = tmp_path / "state", tmp_path / "roster.toml"
    names = ("clinic-1", "clinic=2", "Klinik-Süd")
    lines = [run("site", "key", name, "--state", state).stdout.strip() for name in names]
    assert run("roster", "new", *lines, "--out", roster).exit_code == 0
    assert load_roster(roster).keys == {name: load_identity(state / name / DEVICE_KEY).public for name in sorted(names)}
    assert run("site", "key", "clinic-1", "--state", state).stdout.strip() == lines[0]


@pytest.mark.parametrize("name", ["a/b", "..", "clinic 1"])
def test_a_name_that_is_no_folder_is_refused(run: Run, tmp_path: Path, name: str):
    result = run("site", "key", name, "--state", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the device's name must be printable, without spaces, ")
