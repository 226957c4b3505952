"""States on disk: private, whole at any moment, memory-mapped, and gone when told."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from codedfl.engine.state_folder import StateFolder
from codedfl.errors import InvalidInput
from wording import exactly


def some_state(seed: int = 0) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    return {
        "text": "naïve",
        "number": -7,
        "flag": True,
        "nothing": None,
        "secret": rng.bytes(32),
        "bulk": rng.bytes(100_000),
        "small": rng.uniform(size=(2, 3)),
        "empty": np.zeros((2, 0), dtype=np.float32),
        "linear": rng.uniform(size=(2, 100, 100)).astype(np.float32),
        "pairs": [[1, rng.bytes(32)], [2, rng.uniform(size=(5000,))]],
    }


def same(left: object, right: object) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return set(left) == set(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return type(left) is type(right) and left == right


def test_a_state_comes_back_as_it_was(tmp_path: Path):
    folder = StateFolder(tmp_path / "state")
    assert folder.load() is None
    folder.save(some_state())
    assert same(StateFolder(tmp_path / "state").load(), some_state())


def test_everything_is_closed_to_other_users(tmp_path: Path):
    old = os.umask(0)
    try:
        folder = StateFolder(tmp_path / "outer" / "state")
        with folder.locked():
            folder.save(some_state())
    finally:
        os.umask(old)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    files = [path for path in (tmp_path / "outer").rglob("*") if path.is_file()]
    assert len(files) > 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_folder_that_others_can_look_into_is_refused(tmp_path: Path):
    (tmp_path / "state").mkdir(mode=0o755)
    (tmp_path / "state").chmod(0o755)
    message = f"the private folder must be closed to other users (chmod go= {tmp_path / 'state'}), got mode 0755"
    with pytest.raises(InvalidInput, match=exactly(message)):
        StateFolder(tmp_path / "state").save(some_state())


def test_large_arrays_are_mapped_and_never_written_through(tmp_path: Path):
    folder = StateFolder(tmp_path / "state")
    folder.save(some_state())
    state = folder.load()
    assert state is not None
    base = state["linear"]
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    state["linear"] += 1  # a sum that goes on growing in memory
    assert same(folder.load(), some_state())


def test_what_has_not_changed_is_not_written_again(tmp_path: Path):
    folder = StateFolder(tmp_path / "state")
    folder.save(some_state())
    before = {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()}
    state = folder.load()
    assert state is not None
    state["number"] = 8
    folder.save(state)
    after = {path.name: path.stat().st_mtime_ns for path in folder.path.iterdir()}
    assert {name for name in after if after[name] != before.get(name)} == {"index.msgpack"}


def cut_after(power: pytest.MonkeyPatch, writes: int) -> None:
    """The process ends at the first write to the disk behind so many."""
    real, count = os.fsync, 0

    def fsync(handle: int) -> None:
        nonlocal count
        count += 1
        if count > writes:
            raise KeyboardInterrupt
        real(handle)

    power.setattr(os, "fsync", fsync)


def test_a_crash_at_any_write_leaves_the_old_state_or_the_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for crash_at in range(12):
        folder = StateFolder(tmp_path / f"state-{crash_at}")
        folder.save(some_state(0))
        try:
            with monkeypatch.context() as power:
                cut_after(power, crash_at)
                folder.save(some_state(1))
            saved = True
        except KeyboardInterrupt:
            saved = False
        found = StateFolder(folder.path).load()
        assert same(found, some_state(1)) or (not saved and same(found, some_state(0)))
        folder.save(some_state(2))  # and what the crash left lying about is cleared away
        assert same(folder.load(), some_state(2))
        assert len(list(folder.path.iterdir())) == 4


def test_a_wiped_folder_is_gone_and_its_files_were_overwritten(tmp_path: Path):
    folder = StateFolder(tmp_path / "state")
    with folder.locked():
        folder.save(some_state())
        still_open = [path.open("rb") for path in folder.path.iterdir()]
        folder.wipe()
    assert list(tmp_path.iterdir()) == []
    for stream in still_open:
        with stream:
            assert not any(stream.read())
    folder.wipe()  # once more changes nothing
    assert folder.load() is None


def test_what_a_save_replaces_is_overwritten(tmp_path: Path):
    folder = StateFolder(tmp_path / "state")
    folder.save(some_state(0))
    still_open = [path.open("rb") for path in folder.path.iterdir()]
    folder.save(some_state(1))
    for stream in still_open:
        with stream:
            assert not any(stream.read())
    assert same(folder.load(), some_state(1))


def test_an_array_in_use_does_not_change_when_its_file_is_overwritten(tmp_path: Path):
    folder = StateFolder(tmp_path / "state")
    folder.save(some_state())
    in_use = folder.load()
    folder.save(some_state(1))
    assert same(in_use, some_state())
    in_use = folder.load()
    folder.wipe()
    assert same(in_use, some_state(1))


def test_a_wipe_cut_short_leaves_no_state_and_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = 4
    for crash_at in range(1, files + 1):  # the first is that of the folder, which has lost its index
        folder = StateFolder(tmp_path / f"state-{crash_at}")
        folder.save(some_state())
        with monkeypatch.context() as power:
            cut_after(power, crash_at)
            with pytest.raises(KeyboardInterrupt):
                folder.wipe()
        assert folder.path.exists()
        assert StateFolder(folder.path).load() is None
        folder.wipe()
        assert not folder.path.exists()


@pytest.mark.parametrize("damage", [b"", b"not msgpack", b"\x80"])
def test_a_damaged_state_is_refused(tmp_path: Path, damage: bytes):
    folder = StateFolder(tmp_path / "state")
    folder.save(some_state())
    (folder.path / "index.msgpack").write_bytes(damage)
    message = f"a saved state must be whole, got a damaged one in {str(folder.path)!r}"
    with pytest.raises(InvalidInput, match=exactly(message)):
        folder.load()


@pytest.mark.parametrize("which", ["the index", "a large value"])
def test_a_flipped_bit_is_refused(tmp_path: Path, which: str):
    folder = StateFolder(tmp_path / "run")
    folder.save({"epoch": 3, "linear": np.ones((80, 80))})
    index = folder.path / "index.msgpack"
    file = index if which == "the index" else next(path for path in folder.path.iterdir() if path != index)
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)
    with pytest.raises(InvalidInput, match=r"^a saved state must be whole, got a damaged one in "):
        folder.load()


def test_a_cut_file_is_refused(tmp_path: Path):
    folder = StateFolder(tmp_path / "state")
    folder.save(some_state())
    largest = max(folder.path.iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1])
    with pytest.raises(InvalidInput, match=r"^a saved state must be whole"):
        folder.load()


def test_a_second_process_waits(tmp_path: Path):
    folder, order = StateFolder(tmp_path / "state"), []
    entered = threading.Event()

    def second() -> None:
        entered.set()
        with StateFolder(tmp_path / "state").locked():
            order.append("second")

    with folder.locked():
        other = threading.Thread(target=second)
        other.start()
        entered.wait()
        folder.save(some_state())
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_a_lock_without_a_state_goes_too(tmp_path: Path):
    """Of a run that was refused: a server that invites for ever must not fill the disk with locks."""
    folder = StateFolder(tmp_path / "state")
    with folder.locked():
        folder.wipe()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InvalidInput), folder.locked():
        raise InvalidInput("refused before anything was kept")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path: Path):
    """Of those who wait for it, the second must not work beside who finds no lock and makes one."""
    at_work, most = [0], [0]

    def work() -> None:
        for _ in range(50):
            with StateFolder(tmp_path / "state").locked():
                at_work[0] += 1
                most[0] = max(most[0], at_work[0])
                time.sleep(0.0002)
                at_work[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
