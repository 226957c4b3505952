"""Every block of the site is run as it stands: page by page, in an empty folder, top to bottom.

What cannot be run here (root, other machines, a SuperLink) says so in the page, block by block; its commands are held
against the command line, its TOML is read. One page and one notebook are in ``make test``; all of them are nightly.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pages_of_blocks import PAGES, ROOT, Block, blocks

from command_line import parsed

NOTEBOOKS = sorted(path.name for path in (ROOT / "docs" / "notebooks").glob("*.py"))
CHEAP_PAGES, CHEAP_NOTEBOOKS = {"how-it-works.md"}, {"a_real_table.py"}


def nightly_but(cheap: set[str], names: list[str]) -> list[object]:
    return [name if name in cheap else pytest.param(name, marks=pytest.mark.nightly) for name in names]


def environment(folder: Path) -> dict[str, str]:
    """``codedfl`` is this checkout's, whatever else is installed."""
    command = folder / "codedfl"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m codedfl "$@"\n')
    command.chmod(0o755)
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT / "lab" / "src", ROOT)))
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": paths, "MPLBACKEND": "agg", "COLUMNS": "100"}


class Reader:
    """Somebody who types a page's blocks in one folder."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self._folder, self._environment = folder, environment(tools)
        self._groups: list[int] = []

    def type(self, block: Block) -> None:
        if block.is_file:
            path = self._folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            if block.language == "python":
                self._run([sys.executable, "-W", "error", block.title], block.text)
        elif block.is_run:
            program = [sys.executable, "-W", "error"] if block.language == "python" else ["sh", "-e"]
            self._run([*program, "-c", block.text], block.text)

    def _run(self, program: list[str], text: str) -> None:
        """Of what it leaves in the background nothing may hold the pipe, or it is waited for."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            program,
            cwd=self._folder,
            env=self._environment,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        ) as process:
            self._groups.append(process.pid)
            try:
                said = process.communicate(timeout=300)
            except subprocess.TimeoutExpired:
                self.leave()
                raise
        assert process.returncode == 0, "\n".join([text, *said])

    def leave(self) -> None:
        """End what the blocks have left in the background."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)


@contextmanager
def a_reader(tmp_path: Path) -> Iterator[Reader]:
    tools, folder = tmp_path / "tools", tmp_path / "here"
    tools.mkdir()
    folder.mkdir()
    reader = Reader(folder, tools)
    try:
        yield reader
    finally:
        reader.leave()


@pytest.mark.parametrize("page", nightly_but(CHEAP_PAGES, [page for page in PAGES if blocks(page)]))
def test_blocks_run_as_they_stand(page: str, tmp_path: Path):
    with a_reader(tmp_path) as reader:
        for block in blocks(page):
            reader.type(block)


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_says_why_and_is_held_against_the_command_line(page: str):
    for block in blocks(page):
        assert block.fault == ""
        if block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "python":
            compile(block.text, page, "exec")
        elif block.language == "sh" and block.title != "installs a package":  # whose names are known only then
            for command in commands(block.text):
                parsed(command)


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of every ``codedfl`` in a shell block."""
    without_comments = re.sub(r"(?m)(^|\s)#.*$", "", text.replace("\\\n", " "))
    ends = ";<>|&()\n"
    words = shlex.shlex(without_comments, posix=True, punctuation_chars=ends)
    words.whitespace_split, words.whitespace = True, " \t"
    arguments: list[str] | None = None
    before = "\n"
    for word in [*words, "\n"]:
        begins, before = before == "do" or set(before) <= set(ends), word
        if set(word) <= set(ends):
            if arguments is not None:
                yield arguments
            arguments = None
        elif arguments is not None:
            arguments.append(word)
        elif (begins and word == "codedfl") or word.endswith("/bin/codedfl"):
            arguments = []


def test_commands_are_found():
    text = (
        "for i in 0 1; do codedfl site key h-$i --state s; done > roster.toml\n"
        "sudo -u x /bin/codedfl server watch a \\\n  --open &  # codedfl\n"
    )
    assert list(commands(text)) == [["site", "key", "h-$i", "--state", "s"], ["server", "watch", "a", "--open"]]


@pytest.mark.parametrize("name", nightly_but(CHEAP_NOTEBOOKS, NOTEBOOKS))
def test_notebooks_run_as_scripts(name: str, tmp_path: Path):
    program = [sys.executable, str(ROOT / "docs" / "notebooks" / name)]
    done = subprocess.run(program, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
