"""A state that changes often: small changes are appended, safe before ``save`` returns, and gone when told."""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.engine import state_journal
from codedfl.engine.state_folder import StateFolder
from codedfl.engine.state_journal import StateJournal


def some_state(epoch: int, matrix: np.ndarray | None = None) -> dict[str, Any]:
    rng = np.random.default_rng(epoch)
    return {
        "device": {
            "linear": np.ones((2, 1100, 700), np.float32) if matrix is None else matrix,
            "answered": [epoch, rng.bytes(32), rng.bytes(30_000)],
            "small": rng.uniform(size=(2, 3)),
        },
        "line": {"first": epoch, "waiting": [[b"head", b"bulk"]]},
        "names": ["a", "b"],
    }


def same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return set(left) == set(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return type(left) is type(right) and left == right


def journal_of(folder: Path) -> Path:
    (found,) = folder.glob("journal-*")
    return found


def test_only_what_changes_is_written(tmp_path: Path):
    home, matrix = StateJournal(tmp_path / "run"), np.ones((2, 1100, 700), np.float32)
    home.save(some_state(1, matrix))
    before = {path.name: path.stat().st_mtime_ns for path in home.path.iterdir()}
    for epoch in range(2, 12):
        home.save(some_state(epoch, matrix))
        assert same(StateJournal(home.path).load(), some_state(epoch, matrix))
    after = {path.name: path.stat().st_mtime_ns for path in home.path.iterdir()}
    assert {name for name in after if after[name] != before[name]} == {journal_of(home.path).name}
    assert 10 * 30_000 < journal_of(home.path).stat().st_size < 10 * 31_000
    assert stat.S_IMODE(journal_of(home.path).stat().st_mode) == 0o600


def test_a_matrix_that_cannot_change_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home, matrix = StateJournal(tmp_path / "run"), np.ones((2, 1100, 700), np.float32)
    home.save(some_state(1, matrix), [matrix])
    real, hashed = hashlib.sha256, list[int]()

    def counting(data: bytes = b"") -> Any:
        hashed.append(len(data))
        return real(data)

    monkeypatch.setattr(hashlib, "sha256", counting)
    home.save(some_state(2, matrix), [matrix])
    assert 0 < max(hashed) < 40_000
    other = matrix + 1  # another object: it is read, whatever was promised of the first
    home.save(some_state(3, other), [other])
    monkeypatch.undo()
    assert same(StateJournal(home.path).load(), some_state(3, other))


def test_a_large_value_that_changes_begins_a_new_journal_and_overwrites_the_old_one(tmp_path: Path):
    home, matrix = StateJournal(tmp_path / "run"), np.ones((2, 1100, 700), np.float32)
    home.save(some_state(1, matrix))
    home.save(some_state(2, matrix))
    files = [path.open("rb") for path in home.path.iterdir()]
    matrix += 1  # a sum that goes on growing: nobody promised that it would not
    home.save(some_state(3, matrix))
    for stream in files:
        with stream:
            assert not any(stream.read())
    assert journal_of(home.path).stat().st_size == 0
    assert same(StateJournal(home.path).load(), some_state(3, matrix))


def test_a_long_journal_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(state_journal, "MOST_BYTES", 100_000)
    home = StateJournal(tmp_path / "run")
    for epoch in range(1, 20):
        home.save(some_state(epoch))
        assert journal_of(home.path).stat().st_size < 140_000
        assert same(StateJournal(home.path).load(), some_state(epoch))


@pytest.mark.parametrize("cut", [1, 20, 10_000])
def test_a_record_cut_short_is_dropped_and_the_one_before_counts(tmp_path: Path, cut: int):
    home = StateJournal(tmp_path / "run")
    for epoch in (1, 2, 3):
        home.save(some_state(epoch))
    journal = journal_of(home.path)
    journal.write_bytes(journal.read_bytes()[:-cut])
    again = StateJournal(home.path)
    assert same(again.load(), some_state(2))
    again.save(some_state(4))
    assert same(StateJournal(home.path).load(), some_state(4))


def test_a_record_of_another_place_is_not_taken(tmp_path: Path):
    home = StateJournal(tmp_path / "run")
    home.save(some_state(1))
    home.save(some_state(2))
    journal = journal_of(home.path)
    first = journal.read_bytes()
    home.save(some_state(3))
    journal.write_bytes(first + first)  # the same change once more, where another stood
    assert same(StateJournal(home.path).load(), some_state(2))


@pytest.mark.parametrize("crash_at", range(14))
def test_a_crash_at_any_write_leaves_the_old_state_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_at: int
):
    home = StateJournal(tmp_path / "run")
    home.save(some_state(1))
    home.save(some_state(2))
    syncs = {"fsync": os.fsync, "fdatasync": os.fdatasync}
    count, done = 0, 2

    def cut(name: str, handle: int) -> None:
        nonlocal count
        count += 1
        if count > crash_at:
            raise KeyboardInterrupt
        syncs[name](handle)

    with monkeypatch.context() as power, suppress(KeyboardInterrupt):
        for name in syncs:
            power.setattr(os, name, partial(cut, name))
        for epoch in (3, 4):
            home.save(some_state(epoch))
            done = epoch
        home.save(some_state(5, np.zeros((2, 1100, 700), np.float32)))
        done = 5
    found = StateJournal(home.path).load()
    ahead = some_state(5, np.zeros((2, 1100, 700), np.float32)) if done >= 4 else some_state(done + 1)
    assert same(found, ahead) or (done < 5 and same(found, some_state(done)))


def test_a_wiped_journal_was_overwritten(tmp_path: Path):
    home = StateJournal(tmp_path / "run")
    home.save(some_state(1))
    home.save(some_state(2))
    files = [path.open("rb") for path in home.path.iterdir()]
    assert len(files) == 3
    home.wipe()
    assert list(tmp_path.iterdir()) == []
    for stream in files:
        with stream:
            assert not any(stream.read())
    home.save(some_state(3))
    assert same(StateJournal(home.path).load(), some_state(3))


def test_a_full_disk_is_an_error_and_the_state_before_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = StateJournal(tmp_path / "run")
    home.save(some_state(1))
    with monkeypatch.context() as disk:
        real = os.write
        disk.setattr(os, "write", lambda handle, data: real(handle, data[:100]))
        with pytest.raises(OSError, match=r"must have room for the journal, got a full disk$"):
            home.save(some_state(2))
    assert same(StateJournal(home.path).load(), some_state(1))
    home.save(some_state(3))
    assert same(StateJournal(home.path).load(), some_state(3))


def test_a_folder_without_a_journal_is_read_as_it_is(tmp_path: Path):
    """Killed between the index and its journal, or written by a process of the other kind."""
    StateFolder(tmp_path / "run").save(some_state(1))
    assert same(StateJournal(tmp_path / "run").load(), some_state(1))
