"""A rehearsal judges with devices' own ledgers where it gets copies of them, and leaves the copies alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from approved_studies import NAMES, studies, tables
from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.policy import Policy
from codedfl.contract.roster import Roster
from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput
from codedfl.run.rehearsal import Rehearsed, copied_ledgers, made_up_roster

OWNER = NAMES[0]
IDENTITIES = {name: Identity(bytes([60 + place] * 32)) for place, name in enumerate(NAMES)}
ROSTER = Roster.draft({name: one.public for name, one in IDENTITIES.items()}, colluders=1)
STUDY = replace(studies()["linear"], held_out=0.0)  # which rows are held out is drawn by a random key


@pytest.fixture
def states(tmp_path: Path) -> Path:
    """One device has approved the same study on two rows fewer."""
    study = replace(STUDY, roster=ROSTER.digest().hex(), server_key="ab" * 32, name="before")
    table = tables()[OWNER]
    fewer = table.rows(np.arange(2, len(table)))
    folder = DeviceFolder.of(tmp_path / "copies", OWNER)
    approve(study, ROSTER, OWNER, IDENTITIES[OWNER].public, fewer, folder, Deciding("Ada", "today"))
    folder.base.close()  # as the process of an approval ends
    return tmp_path / "copies"


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("known", [True, False], ids=["its roster", "a made-up roster"])
def test_what_an_operator_would_be_asked(states: Path, known: bool):
    before, roster = content(states), ROSTER if known else made_up_roster(STUDY, NAMES)
    rehearsed = Rehearsed(STUDY, roster)
    assert rehearsed.approve(tables(), Policy(), copied_ledgers(states, NAMES)) == {}
    asked = rehearsed.findings.pop(OWNER)
    assert {one.kind for one in asked} == {"rows"} and rehearsed.findings == {}
    assert any("row(s) of this table are in the sums of this study and of no other" in one.words for one in asked)
    assert content(states) == before, "a copy is judged with, and not written"
    assert Rehearsed(STUDY, roster).approve(tables(), Policy()) == {}, "without ledgers there is nothing to find"


def test_who_would_refuse(states: Path):
    rehearsed = Rehearsed(STUDY, ROSTER)
    refusals = rehearsed.approve(tables(), Policy(on_rows="refuse"), copied_ledgers(states, NAMES))
    assert list(refusals) == [OWNER] and "the policy refuses it (on-rows)" in refusals[OWNER]
    assert OWNER not in rehearsed.snapshots


def test_another_disclosure_group_is_found_before_anybody_is_asked(states: Path):
    other = ROSTER.renewed(NAMES[1], Identity(bytes([99] * 32)).public)
    refusals = Rehearsed(STUDY, other).approve(tables(), Policy(), copied_ledgers(states, NAMES))
    assert "our disclosure group has other owners than in before" in refusals[OWNER]


def test_the_rows_held_out_are_those_of_the_device(states: Path):
    study = replace(STUDY, held_out=0.3)
    own, alone = (Rehearsed(study, ROSTER) for _ in range(2))
    own.approve(tables(), Policy(), copied_ledgers(states, NAMES))
    alone.approve(tables(), Policy())
    assert own.snapshots[OWNER].held_out.tolist() != alone.snapshots[OWNER].held_out.tolist()


def test_a_folder_without_a_ledger_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"^ledgers must be a folder with a copy of the state folder of a device"):
        copied_ledgers(tmp_path, NAMES)
