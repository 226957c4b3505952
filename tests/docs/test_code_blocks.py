"""Every block of the site is run as it stands: page by page, in an empty folder, top to bottom.

What cannot be run here (root, other machines, a SuperLink) says so in the page, block by block; its commands are held
against the command line, its TOML is read. One page and one notebook are in ``make test``; all of them are nightly.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from experiments.docs_blocks import (
    PAGES,
    ROOT,
    a_reader,
    blocks,
    commands,
    comparable,
    environment,
    page_text,
    shortened,
    with_outputs,
)
from experiments.docs_outputs import STEP_BY_STEP, run_page

from command_line import parsed

NOTEBOOKS = sorted(path.name for path in (ROOT / "docs" / "notebooks").glob("*.py"))
ELSEWHERE = {"ten-hospitals.md"}  # followed and counted by test_ten_hospitals
WITH_BLOCKS = [page for page in PAGES if blocks(page_text(page)) and page not in ELSEWHERE]
CHEAP_PAGES, CHEAP_NOTEBOOKS = {"how-it-works.md"}, {"a_real_table.py"}


def nightly_but(cheap: set[str], names: list[str]) -> list[object]:
    return [name if name in cheap else pytest.param(name, marks=pytest.mark.nightly) for name in names]


@pytest.mark.parametrize("page", nightly_but(CHEAP_PAGES, WITH_BLOCKS))
def test_blocks_run_as_they_stand_and_give_their_outputs(page: str, tmp_path: Path):
    with a_reader(tmp_path) as reader:
        for block, below in with_outputs(page_text(page)):
            said = shortened(reader.type(block))
            if below is not None:
                assert below.comparable(said) == below.comparable(below.text)
            elif block.shown and block.language == "sh" and page in STEP_BY_STEP:
                assert said == "", f"python -m experiments.docs_outputs {page} writes it"


def test_an_output_is_written_once_and_kept_while_it_agrees():
    page = "<!-- sh\nn=$(date +%N); echo deadbeef$n > key\n-->\nA key:\n\n```sh\ncat key\ntrue\n```\n\nand no more.\n"
    first = run_page(page)
    assert re.search(r'```sh\ncat key\ntrue\n```\n\n```text title="output"\ndeadbeef\d+\n```\n\nand no more.', first)
    assert run_page(first) == first
    other = first.replace("cat key", "echo another; cat key")
    assert "\nanother\ndeadbeef" in run_page(other)
    assert "```text" not in run_page(first.replace("cat key\n", ""))


def test_numbers_count_unless_they_depend_on_keys():
    assert comparable("R2 0.87, 12 rows") != comparable("R2 0.88, 12 rows")
    assert comparable("R2 0.87, 12 rows", digits=False) == comparable("R2 -8.8e-05, 3 rows", digits=False)
    assert (
        comparable("read 12 rows in 3.2 s") == comparable("read 12 rows in 14.0 s") != comparable("read 13 rows in 1 s")
    )
    assert shortened("a\n" * 69).splitlines()[-1] == "... and 24 more lines"


@pytest.mark.parametrize("page", PAGES)
def test_what_is_not_run_says_why_and_is_held_against_the_command_line(page: str):
    for block in blocks(page_text(page)):
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
