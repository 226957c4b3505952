"""The real processes: both ways to start, help, and Ctrl-C as a terminal sends it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import click
import pytest
from command_runner import Run, invoke

from codedfl.data.model import TrainedModel
from codedfl.version import __version__
from command_line import all_commands

STARTS = {
    "console script": [str(Path(sys.executable).with_name("codedfl"))],
    "module": [sys.executable, "-m", "codedfl"],
}


@pytest.mark.parametrize("start", STARTS)
def test_both_ways_to_start(start: str):
    done = subprocess.run([*STARTS[start], "--version"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"codedfl {__version__}\n", "")


def test_bad_input_of_a_real_process():
    done = subprocess.run([*STARTS["module"], "lab", "train", "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert (
        done.stderr
        == "error: data set must be one of digits, digits-shifted, mnist, fashion-mnist, cifar-10 or a file,"
        " got 'nonsense'\n"
    )


def test_ctrl_c_at_a_terminal_keeps_the_model(tmp_path: Path):
    ours, theirs = pty.openpty()
    command = [
        "lab",
        "train",
        "digits",
        "--n-features",
        "40",
        "--devices",
        "4",
        "--solver",
        "gd",
        "--epochs",
        "1000000",
    ]
    process = subprocess.Popen(
        [*STARTS["module"], *command, "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        # Where the tests themselves run in the background, SIGINT is ignored, and a child would inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    os.close(theirs)
    seen = b""
    try:
        while b"epoch 1" not in seen:  # the bar of the training: at least one epoch is finished
            seen += _read(ours, deadline)
        process.send_signal(signal.SIGINT)
        while chunk := _read(ours, deadline):
            seen += chunk
        code = process.wait(timeout=60)
    finally:
        process.kill()
        os.close(ours)
    assert code == 130
    last = seen.decode().strip().splitlines()[-1]
    model = TrainedModel.load(tmp_path / "model.safetensors")
    kept = f"interrupted: kept {tmp_path}/model.safetensors, the model after epoch {model.provenance['kept_epoch']}"
    assert last.endswith(kept)


def _read(terminal: int, deadline: float) -> bytes:
    """Empty at the end, where Linux has an error instead; never waits beyond the deadline."""
    ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
    assert ready, "the command must come to an end in time"
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


COMMANDS = dict(all_commands())


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help(path: tuple[str, ...]):
    result = invoke(*path, "--help")
    assert result.exit_code == 0
    assert f"Usage: codedfl {' '.join(path)}" in result.stdout


GROUPS = sorted({path[:depth] for path in COMMANDS for depth in range(len(path))})


@pytest.mark.parametrize("group", GROUPS, ids=lambda words: " ".join(words) or "codedfl")
def test_the_list_of_commands_says_what_each_does(run: Run, group: tuple[str, ...]):
    said = " ".join(run(*group, "--help").stdout.replace("│", " ").split())
    for path, command in COMMANDS.items():
        if path[:-1] == group:
            assert f" {path[-1]} {first_sentence(command)}" in said
        elif path[: len(group)] == group:
            assert f" {path[len(group)]} " in said


def first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").partition("\n\n")[0].split())


def test_the_list_of_commands_loads_none_of_them():
    code = "from codedfl.cli.app import app\nimport sys\ntry: app(['--help'])\nexcept SystemExit: pass\n"
    listing = f"{code}print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True)
    assert "research" in done.stdout
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not {"numpy", "numba", "matplotlib", "sklearn", "scipy", "cryptography"} & loaded
    ours = {name for name in loaded if name.split(".")[0] in ("codedfl", "codedfl_lab")}
    assert "codedfl.cli.tree" in ours and len(ours) < 20


def test_commands_of_the_lab_are_named_where_it_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("codedfl.cli.app.additions", lambda _group: {})
    result = run("lab", "compare", "digits")
    message = "codedfl lab compare is in the package codedfl-lab: pip install codedfl-lab"
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
