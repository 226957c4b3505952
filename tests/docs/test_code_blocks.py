"""Every block of the site is run as it stands: page by page, in an empty folder, top to bottom.

What cannot be run here (root, other machines, a SuperLink) says so in the page, block by block; its commands are held
against the command line, its TOML is read. One page and one notebook are in ``make test``; all of them are nightly.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from experiments.docs_blocks import (
    OF_ONE_RUN,
    PAGES,
    ROOT,
    a_reader,
    blocks,
    comparable,
    environment,
    page_text,
    shortened,
    with_outputs,
)
from experiments.docs_outputs import STEP_BY_STEP, run_page

from command_line import parsed

NOTEBOOKS = sorted(path.name for path in (ROOT / "docs" / "notebooks").glob("*.py"))
CHEAP_PAGES, CHEAP_NOTEBOOKS = {"how-it-works.md"}, {"a_real_table.py"}


def nightly_but(cheap: set[str], names: list[str]) -> list[object]:
    return [name if name in cheap else pytest.param(name, marks=pytest.mark.nightly) for name in names]


@pytest.mark.parametrize("page", nightly_but(CHEAP_PAGES, [page for page in PAGES if blocks(page_text(page))]))
def test_blocks_run_as_they_stand_and_give_their_outputs(page: str, tmp_path: Path):
    with a_reader(tmp_path) as reader:
        for block, below in with_outputs(page_text(page)):
            said = shortened(reader.type(block))
            if below is not None:
                digits = below.title != OF_ONE_RUN
                assert comparable(said, digits=digits) == comparable(below.text, digits=digits)
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
    assert shortened("a\n" * 61).splitlines()[-1] == "... and 16 more lines"


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
