"""Every block of the site that says python or sh is run as it stands: page by page, in an empty folder, top to bottom.

Blocks for other machines say nothing (three backticks alone) and are not run. One page and one notebook are in
``make test``; all of them are nightly.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Its blocks are files of tests/doors, which runs them, and its python of a Flower app needs a federation.
ELSEWHERE = {"extend.md", "deploy.md"}
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in ELSEWHERE)
NOTEBOOKS = sorted(path.name for path in (ROOT / "docs" / "notebooks").glob("*.py"))
CHEAP_PAGES, CHEAP_NOTEBOOKS = {"how-it-works.md"}, {"a_real_table.py"}


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def nightly_but(cheap: set[str], names: list[str]) -> list[object]:
    return [name if name in cheap else pytest.param(name, marks=pytest.mark.nightly) for name in names]


def environment(folder: Path) -> dict[str, str]:
    """``codedfl`` is this checkout's, whatever else is installed."""
    command = folder / "codedfl"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m codedfl "$@"\n')
    command.chmod(0o755)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": paths, "MPLBACKEND": "agg", "COLUMNS": "100"}


@pytest.mark.parametrize("page", nightly_but(CHEAP_PAGES, [page for page in PAGES if blocks(page)]))
def test_blocks_run_as_they_stand(page: str, tmp_path: Path):
    tools, folder = tmp_path / "tools", tmp_path / "here"
    tools.mkdir()
    folder.mkdir()
    for kind, text in blocks(page):
        program = [sys.executable, "-W", "error", "-c", text] if kind == "python" else ["sh", "-e", "-c", text]
        done = subprocess.run(program, cwd=folder, env=environment(tools), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("name", nightly_but(CHEAP_NOTEBOOKS, NOTEBOOKS))
def test_notebooks_run_as_scripts(name: str, tmp_path: Path):
    program = [sys.executable, str(ROOT / "docs" / "notebooks" / name)]
    done = subprocess.run(program, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_page_with_commands_has_blocks():
    assert {page for page in PAGES if blocks(page)} >= {"ten-minutes.md", "ten-hospitals.md", "how-it-works.md"}
