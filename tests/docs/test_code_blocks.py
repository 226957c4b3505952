"""Every block of the site is run as it stands: page by page, in an empty folder, top to bottom.

What cannot be run here (root, other machines, a SuperLink) says so in the page, block by block; its commands are held
against the command line, its TOML is read. One page and one notebook are in ``make test``; all of them are nightly.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pages_of_blocks import PAGES, ROOT, blocks, commands
from reader import a_reader, environment

from command_line import parsed

NOTEBOOKS = sorted(path.name for path in (ROOT / "docs" / "notebooks").glob("*.py"))
ELSEWHERE = {"ten-hospitals.md"}  # followed and counted by test_ten_hospitals
WITH_BLOCKS = [page for page in PAGES if blocks(page) and page not in ELSEWHERE]
CHEAP_PAGES, CHEAP_NOTEBOOKS = {"how-it-works.md"}, {"a_real_table.py"}


def nightly_but(cheap: set[str], names: list[str]) -> list[object]:
    return [name if name in cheap else pytest.param(name, marks=pytest.mark.nightly) for name in names]


@pytest.mark.parametrize(
    "page", nightly_but(CHEAP_PAGES, [page for page in PAGES if blocks(page) and page not in ELSEWHERE])
)
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


def test_commands_are_found():
    text = (
        "for i in 0 1; do codedfl site enrol h-$i --state s; done > roster.toml\n"
        "sudo -u x /bin/codedfl server watch a \\\n  --open &  # codedfl\n"
    )
    assert list(commands(text)) == [["site", "enrol", "h-$i", "--state", "s"], ["server", "watch", "a", "--open"]]


@pytest.mark.parametrize("name", nightly_but(CHEAP_NOTEBOOKS, NOTEBOOKS))
def test_notebooks_run_as_scripts(name: str, tmp_path: Path):
    program = [sys.executable, str(ROOT / "docs" / "notebooks" / name)]
    done = subprocess.run(program, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
