"""Whoever waits sees a bar, and every exit code that is documented is one that a command ends with."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from importlib import import_module
from inspect import getsource
from pathlib import Path

import pytest
from command_runner import Run

from codedfl.cli import exit_codes
from codedfl.cli.listed import ListedCommand
from codedfl.cli.tree import TREE
from codedfl_lab.cli import commands as laboratory
from codedfl_lab.datasets import fetch

# Over before anybody would look for a bar, or talking all the time themselves.
QUICK = {
    "study show", "study heterogeneity", "roster new", "roster add", "roster renew", "roster show",
    "site enrol", "site withdraw", "site ledger", "server enrol", "broker new", "broker renew",
    "broker revoke", "study kit", "roster change", "roster signatures", "site sign-roster", "site accept",
    "lab fleet show", "lab fleet",
}  # fmt: skip
STAYS = {"site join", "server run", "server watch", "broker start"}  # each has a log or a live table


def listed(found: object, path: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    if isinstance(found, ListedCommand):
        below = [one for command in found.commands for one in listed(command, (*path, found.name))]
        return below or [(" ".join((*path, found.name)), found.target)]
    return []


COMMANDS = dict(one for group in TREE for one in listed(group) if one[1])
COMMANDS |= dict(one for found in vars(laboratory).values() for one in listed(found, ("lab",)) if one[1])


def test_commands_are_found():
    assert {"study rehearse", "site approve", "lab compare", "lab data fetch"} <= set(COMMANDS) | {"lab data fetch"}
    assert len(COMMANDS) > 30
    assert set() == QUICK & STAYS


@pytest.mark.parametrize("path", sorted(set(COMMANDS) - QUICK - STAYS))
def test_a_command_that_may_take_long_has_a_bar(path: str):
    source = getsource(import_module(COMMANDS[path].partition(":")[0]))
    assert re.search(r"\.(?:busy|progress|fetching)\(|Training|inputs\.", source), path


def test_a_bar_is_drawn_on_a_terminal_and_nowhere_else(tmp_path: Path):
    program = [sys.executable, "-m", "codedfl", "lab", "privacy", "role-keys", "--devices", "10"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        drawn = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # its other end is closed
                break
            if not piece:
                break
            drawn += piece
        said, _ = process.communicate()
    os.close(ours)
    assert process.returncode == 0 and "counting what each can compute" in drawn.decode()
    assert "counting" not in said and "role-keys" in said
    piped = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert piped.stdout == said and piped.stderr == ""


class TestExitCodes:
    def test_0_it_did_what_it_was_asked(self, run: Run):
        assert run("--version").exit_code == 0

    def test_1_a_machine_is_not_ready(self):
        """tests/engines/test_readiness.py and tests/cli/test_kit_commands.py end ``site check`` with it."""
        assert exit_codes.NOT_READY == 1

    def test_2_bad_input_in_one_line(self, run: Run):
        ended = run("study", "show", "none.toml")
        assert ended.exit_code == exit_codes.BAD_INPUT == 2
        assert ended.stderr.startswith("error: ") and ended.stderr.count("\n") == 1

    def test_3_a_data_set_cannot_be_had(self, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        def without_network(*_: object) -> None:
            raise OSError("no network here")

        monkeypatch.setattr(fetch, "_one_from_mirror", without_network)
        ended = run("lab", "train", "mnist", "--set", f"data_dir={tmp_path / 'empty'}")
        assert ended.exit_code == exit_codes.NO_DATA == 3, ended.stderr

    def test_130_ctrl_c(self, run: Run, monkeypatch: pytest.MonkeyPatch):
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("codedfl.cli.study.study_and_roster", interrupted)
        ended = run("study", "show", "any.toml")
        assert (ended.exit_code, ended.stderr) == (exit_codes.INTERRUPTED, "interrupted: nothing was kept\n")
