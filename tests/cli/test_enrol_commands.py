"""``codedfl site enrol`` and ``codedfl roster``: a name and its key, the same every time, in requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_runner import Run
from kit_files import enrol

from codedfl.contract.enrolment import load_enrolment
from codedfl.contract.roster import load_roster
from codedfl.crypto.key_files import DEVICE_KEY, load_identity


@pytest.mark.hospitals
@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (7, "for any one device to be absent, least_participants of the study must be at most 3"),
        (5, "sums are over whole disclosure groups and there is one: nobody may be absent when a study begins"),
    ],
)
def test_a_new_roster_says_what_an_absent_device_costs(run: Run, devices: int, said: str):
    result = run("roster", "new", *enrol(*(f"clinic-{i}" for i in range(devices))))
    assert " ".join(result.stdout.split()).endswith(said)


def test_the_requests_of_all_devices_make_a_roster(run: Run, tmp_path: Path):
    roster = tmp_path / "roster.toml"
    names = ("clinic-1", "clinic=2", "Klinik-Süd")
    requests = enrol(*names)
    assert run("roster", "new", *requests, "--out", roster).exit_code == 0
    keys = {name: load_identity(Path("state") / name / DEVICE_KEY).public for name in sorted(names)}
    assert load_roster(roster).keys == keys
    enrol("clinic-1")
    assert load_enrolment(Path(requests[0])).key == keys["clinic-1"]


@pytest.mark.parametrize("name", ["a/b", "..", "clinic 1"])
def test_a_name_that_is_no_folder_is_refused(run: Run, tmp_path: Path, name: str):
    result = run("site", "enrol", name, "--state", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: the device's name must be printable, without spaces, ")
