"""Bytes that wait on the server's disk, and a journal that grows by what is new."""

from __future__ import annotations

from pathlib import Path

import pytest

from codedfl.engine.state_folder import SHELVED_BYTES, ShelvedFile, StateFolder
from codedfl.engine.state_journal import StateJournal
from codedfl.state import taken_down

LARGE = bytes(range(256)) * 100


@pytest.mark.parametrize("kind", [StateFolder, StateJournal])
def test_what_is_shelved_is_on_the_disk_until_no_state_holds_it(tmp_path: Path, kind: type[StateFolder]):
    folder = kind(tmp_path / "state")
    kept = folder.shelve(LARGE)
    assert isinstance(kept, ShelvedFile) and kept.path.read_bytes() == LARGE
    folder.save({"uploads": {"0": kept, "1": b"short"}})
    found = kind(tmp_path / "state").load()
    assert found is not None and found["uploads"] == {"0": kept, "1": b"short"}
    assert taken_down(found["uploads"]["0"]) == LARGE and taken_down(found["uploads"]["1"]) == b"short"
    folder.save({"uploads": {}})
    assert not kept.path.exists()


def test_what_is_short_stays_in_memory(tmp_path: Path):
    short = bytes(SHELVED_BYTES)
    assert StateFolder(tmp_path / "state").shelve(short) is short
    assert not (tmp_path / "state").exists()


def test_a_journal_takes_new_entries_and_new_files_and_begins_anew_when_one_is_gone(tmp_path: Path):
    folder = StateJournal(tmp_path / "state")
    folder.save({"uploads": {}, "epoch": 0})
    index = (tmp_path / "state" / "index.msgpack").read_bytes()
    uploads: dict[str, object] = {}
    for place in range(3):
        uploads[str(place)] = folder.shelve(LARGE + bytes([place]))
        folder.save({"uploads": uploads, "epoch": place})
        assert StateJournal(tmp_path / "state").load() == {"uploads": uploads, "epoch": place}
    assert (tmp_path / "state" / "index.msgpack").read_bytes() == index  # all of it is in the journal
    folder.save({"uploads": {}, "epoch": 3})
    assert (tmp_path / "state" / "index.msgpack").read_bytes() != index
    assert StateJournal(tmp_path / "state").load() == {"uploads": {}, "epoch": 3}
    assert len(list((tmp_path / "state").iterdir())) == 2  # index and journal


def test_what_waits_for_many_is_written_once(tmp_path: Path):
    folder = StateJournal(tmp_path / "state", large_bytes=SHELVED_BYTES)
    folder.save({"lines": {str(place): [LARGE] for place in range(50)}})
    assert sum(path.stat().st_size for path in (tmp_path / "state").iterdir()) < 2 * len(LARGE)
    assert StateJournal(tmp_path / "state").load() == {"lines": {str(place): [LARGE] for place in range(50)}}
