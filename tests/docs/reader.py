"""Somebody who types the blocks of a page, top to bottom, in an empty folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pages_of_blocks import ROOT, Block


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
