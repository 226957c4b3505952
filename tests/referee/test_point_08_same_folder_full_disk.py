"""Two `train --out same` at once both died after training; a full disk was a traceback and left a `.part`."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from codedfl.data.model import TrainedModel
from codedfl.files import sole_user, write_bytes
from codedfl.report.event_log import EVENTS_FILE, EventLog

Run = Callable[..., Result]
TRAIN = ("lab", "train", "digits", "--n-features", "40", "--devices", "4", "--epochs", "4")


# The command, which stops itself (as Ctrl-Z would) when it begins its event log, with the folder in its hands.
STOPS = """
import os, signal
from codedfl.cli import main
from codedfl.report.event_log import EventLog

begin = EventLog.__init__

def stopped(*given, **named):
    os.kill(os.getpid(), signal.SIGSTOP)
    begin(*given, **named)

EventLog.__init__ = stopped
main()
"""


def begin(folder: Path, *program: str, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, *(program or ("-m", "codedfl")), *TRAIN, "--out", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_of_two_at_once_one_is_refused_and_the_other_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "same"
    first = begin(folder, "-c", STOPS)
    try:
        seen = os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert seen is not None and seen.si_code == os.CLD_STOPPED
        second = begin(folder)
        _, said = second.communicate(timeout=120)
        assert second.returncode == 2
        assert said == f"error: --out must not be in use by another process, got {str(folder)!r}\n"
    finally:
        first.send_signal(signal.SIGCONT)
        _, said = first.communicate(timeout=120)
    assert (first.returncode, said) == (0, "")
    TrainedModel.load(folder / "model.safetensors")
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("command", [TRAIN, ("lab", "compare", "digits"), ("lab", "reproduce", "mnist")])
def test_every_command_that_writes_a_folder_keeps_it_to_itself(run: Run, command: tuple[str, ...]) -> None:
    folder = Path("same")
    used = folder / "mnist" if command[1] == "reproduce" else folder
    used.mkdir(parents=True)
    with sole_user(used, "the folder"):
        result = run(*command, "--out", folder)
    assert result.exit_code == 2
    assert result.stderr == f"error: --out must not be in use by another process, got {str(used)!r}\n"
    assert list(used.iterdir()) == []


def test_a_folder_is_free_again_when_its_command_ends(run: Run) -> None:
    assert [run(*TRAIN, "--out", "same").exit_code for _ in range(2)] == [0, 0]


def limit_files() -> None:
    """A process under it can write a kilobyte to any file: what a disk of that size would do, without one."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_full_disk_is_one_line_and_leaves_what_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"an older model")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    one = begin(folder, preexec_fn=limit_files, env=environment)
    _, said = one.communicate(timeout=120)
    assert one.returncode == 2
    assert said.startswith("error: the disk must be writable and have room, got ") and said.count("\n") == 1
    assert (folder / "model.safetensors").read_bytes() == b"an older model"
    assert not list(tmp_path.rglob("*.part"))


def no_room(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_model_that_has_no_room_is_kept_elsewhere(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    usual = Path.write_bytes

    def write(path: Path, content: bytes) -> int:
        if "full" in path.parts:
            no_room()
        return usual(path, content)

    monkeypatch.setattr(Path, "write_bytes", write)
    result = run(*TRAIN, "--out", "full")
    assert result.exit_code == 2
    (kept,) = tmp_path.glob("codedfl-*")
    assert result.stderr == (
        f"error: --out must be on a disk with room, got [Errno 28] No space left on device; the model is in {kept}\n"
    )
    TrainedModel.load(kept / "model.safetensors")


def test_a_journal_that_has_no_room_costs_neither_run_nor_model(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = EventLog.note

    def note(journal: EventLog, time: float, event: Any) -> None:
        usual(journal, time, event) if event.event != "epoch" else no_room()

    monkeypatch.setattr(EventLog, "note", note)
    result = run(*TRAIN, "--out", "here")
    assert result.exit_code == 0, result.stderr
    assert "the event log ends early: [Errno 28] No space left on device" in result.stderr
    TrainedModel.load(Path("here/model.safetensors"))
    assert Path("here", EVENTS_FILE).exists()


def test_half_a_file_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    write_bytes(path, b"old")
    usual = Path.write_bytes

    def half(partial: Path, content: bytes) -> int:
        usual(partial, content[:1])
        no_room()
        return 0

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["results.json"]
    assert path.read_bytes() == b"old"
