"""The drill of docs/deploy.md: a device's folder comes back from its backup, and what is missing or old is noticed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from approved_studies import NAMES, studies, tables
from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput

NAME, KEYS = NAMES[0], {name: Identity(bytes([60 + place] * 32)) for place, name in enumerate(NAMES)}
ROSTER = Roster.draft({name: one.public for name, one in KEYS.items()}, colluders=1)
STUDY = replace(studies()["linear"], roster=ROSTER.digest().hex(), server_key="ab" * 32)


def approves(state: Path, study: Study = STUDY) -> DeviceFolder:
    folder = DeviceFolder.of(state, NAME)
    approve(study, ROSTER, NAME, KEYS[NAME].public, tables()[NAME], folder, Deciding("Ada", "today"))
    folder.base.close()
    return folder


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A state with an approval, and its backup."""
    state, backup = tmp_path / "state", tmp_path / "backup"
    approves(state)
    shutil.copytree(state / NAME, backup / NAME)
    return state, backup


def restore(state: Path, backup: Path) -> None:
    shutil.rmtree(state / NAME)
    shutil.copytree(backup / NAME, state / NAME)


def test_the_page_has_the_drill():
    text = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
    drill = text[text.index("**A drill**") :]
    assert "rows.key must be the one that this ledger began with" in drill and "cp -a" in drill


def test_what_was_backed_up_comes_back(places: tuple[Path, Path]):
    state, backup = places
    restore(state, backup)
    folder = DeviceFolder.of(state, NAME)
    with folder.ledger(with_rows=True) as ledger:
        assert [one.digest for one in ledger.approvals] == [STUDY.digest()]
        assert list(ledger.rows) == [STUDY.digest()]
    assert len(folder.frozen(STUDY.digest())) == len(tables()[NAME])
    approves(state, replace(STUDY, edition=2))


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "of another backup"])
def test_another_key_of_rows_is_noticed(places: tuple[Path, Path], lost: bool):
    state, backup = places
    restore(state, backup)
    key = state / NAME / "contract" / "rows.key"
    key.unlink()
    if not lost:
        key.touch(mode=0o600)
        key.write_bytes(bytes(32))
    with pytest.raises(InvalidInput, match=r"^rows.key must be the one that this ledger began with"):
        approves(state, replace(STUDY, edition=2))


def test_a_ledger_without_its_rows_is_noticed(places: tuple[Path, Path]):
    state, backup = places
    restore(state, backup)
    (state / NAME / "contract" / "rows" / STUDY.digest().hex()).unlink()
    with pytest.raises(InvalidInput, match=r"^the hashes of the rows of every approval must be there"):
        approves(state, replace(STUDY, edition=2))


def test_a_ledger_that_is_older_has_not_what_came_since(places: tuple[Path, Path]):
    """This nobody but the operator can notice: the drill says to compare with what the server has."""
    state, backup = places
    approves(state, replace(STUDY, edition=2))
    restore(state, backup)
    with DeviceFolder.of(state, NAME).ledger() as ledger:
        assert [one.edition for one in ledger.approvals] == [1]
