"""``codedfl key``: a line for the roster, the same every time."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runner import Run

from codedfl.engine.keys import DEVICE_KEY, load_identity, load_roster


def test_the_lines_of_all_devices_are_a_roster(run: Run, tmp_path: Path):
    state, roster = tmp_path / "state", tmp_path / "roster.toml"
    names = ("clinic-1", "Klinik Süd")
    roster.write_text("".join(run("key", name, "--state", state).stdout for name in names), encoding="utf-8")
    assert load_roster(roster) == {name: load_identity(state / name / DEVICE_KEY).public for name in names}
    assert run("key", "clinic-1", "--state", state).stdout == roster.read_text(encoding="utf-8").splitlines(True)[0]


@pytest.mark.parametrize("name", ["a/b", "..", ""])
def test_a_name_that_is_no_folder_is_refused(run: Run, tmp_path: Path, name: str):
    result = run("key", name, "--state", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f"error: the device's name must do as the name of a folder, got {name!r}\n"
