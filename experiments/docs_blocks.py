"""The code blocks of the site's pages: what each of them asks for, what it puts out, and a reader who types them.

A block without a title is run (``sh``, ``python``) or must be readable (``toml``). One whose title is the name of a
file is written to it, and a Python file is run. One whose title is a reason of ``REASONS`` needs what a test does not
have, or is run by another test, and its commands must be ones that the command line takes. ``text`` is output. Comments
``<!-- sh`` and ``<!-- python`` are run too: what a page needs and a reader does not.

What a block puts out stands below it, as ``text`` with the title "output". ``experiments.docs_outputs`` writes it
there, and a test runs the page again and compares, but for what differs from run to run (``comparable``). The title
"output of one run" is for numbers that depend on keys: words and shape are compared then, and digits are not.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
REASONS = frozenset(
    {
        "needs root",
        "needs a pretrained network",
        "needs other machines",
        "needs a SuperLink",
        "needs a checkout",
        "needs a checkout and a network",
        "in a checkout",
        "installs a package",
        "takes hours",
        "runs until Ctrl-C",
        "from the specification",
        "in R",
    }
)
OUTPUT, OF_ONE_RUN = "output", "output of one run"
RUN = ("sh", "python")
MOST_LINES, KEPT_LINES = 68, 45  # of an output on a page
MOST_SECONDS = 300.0  # for one block
# One thread: how many there are decides the last bits of baselines in floats, and so when one of them ends.
_THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_TERMINAL = {"PYTHONUNBUFFERED": "1", "MPLBACKEND": "agg", "COLUMNS": "80", **_THREADS}
_BLOCK = re.compile(
    r"^```(?P<language>\w*)(?P<options>[^\n]*)\n(?P<text>.*?)^```$|^<!-- (?P<hidden>sh|python)\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r' title="([^"]+)"')
_FILE = re.compile(r"[\w-]+(?:/[\w-]+)*\.\w+")
_VARIES = (
    (re.compile(r"\b[0-9a-f]{8,}\b"), "<hex>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?(?: ?UTC|Z)?"), "<date>"),
    (re.compile(r"\b\d\d?:\d\d(?::\d\d)?(?: UTC)?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h|seconds|minutes)\b"), "<time>"),
    (re.compile(r"\b\d+ MB are free"), "<room>"),
    (re.compile(r"\((?:mosquitto|small)\)"), "<broker>"),  # whichever is installed
    (re.compile(r"\b\d+\.\d+\.\d+(?:\.?(?:dev|rc|a|b)\d+)?\b"), "<version>"),
    (re.compile(r"\s+"), " "),  # columns are as wide as what stands in them
)

_ALL_DIGITS = re.compile(r"-?\b\d+\.\d{9,}(?:e[-+]?\d+)?")  # whose last ones are the processor's


@dataclass(frozen=True)
class Block:
    """One of a page.

    language: "sh", "python", "toml" or "text".
    title: the name of a file, a reason, or what an output is of.
    shown: whether a reader sees it.
    start, end: where in the page it stands.
    """

    language: str
    text: str
    title: str = ""
    shown: bool = True
    start: int = 0
    end: int = 0

    @property
    def is_file(self) -> bool:
        return _FILE.fullmatch(self.title) is not None

    @property
    def is_run(self) -> bool:
        return self.language in RUN and not self.title

    @property
    def is_output(self) -> bool:
        return self.language == "text" and self.title in (OUTPUT, OF_ONE_RUN)

    def comparable(self, text: str) -> str:
        """Of an output: a text as it is compared with this one's."""
        return comparable(text, digits=self.title != OF_ONE_RUN)

    @property
    def fault(self) -> str:
        """What is wrong with how it is marked; empty otherwise."""
        if self.language not in (*RUN, "toml", "text"):
            return f"a block must be sh, python, toml or text, got {self.language!r}"
        if self.title and not self.is_file and not self.is_output and self.title not in REASONS:
            return f"a title must be the name of a file or one of {', '.join(sorted(REASONS))}, got {self.title!r}"
        return ""


PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def page_text(page: str) -> str:
    """A page of docs/ as it is kept."""
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def blocks(text: str) -> list[Block]:
    r"""Those of a page's text, in its order.

    >>> [(one.language, one.title) for one in blocks('```sh\nls\n```\n```text title="output"\na\n```\n')]
    [('sh', ''), ('text', 'output')]
    """
    found = []
    for one in _BLOCK.finditer(text):
        if one["hidden"]:
            found.append(Block(one["hidden"], one["setup"], shown=False, start=one.start(), end=one.end()))
            continue
        title = _TITLE.fullmatch(one["options"])
        name = title[1] if title else one["options"].strip()
        found.append(Block(one["language"], one["text"], name, start=one.start(), end=one.end()))
    return found


def with_outputs(text: str) -> list[tuple[Block, Block | None]]:
    """Each block that is no output, with the output that stands below it."""
    every = blocks(text)
    found: list[tuple[Block, Block | None]] = []
    for block, below in zip(every, [*every[1:], None], strict=True):
        if not block.is_output:
            found.append((block, below if below is not None and below.is_output else None))
    return found


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


def comparable(text: str, *, digits: bool = True) -> str:
    """An output without what differs from run to run: digests, dates, times, widths; without ``digits`` any number.

    >>> comparable("key 0123456789abcdef,  took 1.5 s")
    'key <hex>, took <time>'
    >>> comparable("rows 12, score 0.873", digits=False)
    'rows #, score #'
    """
    for pattern, place in _VARIES:
        text = pattern.sub(place, text)
    text = _ALL_DIGITS.sub(lambda found: f"{float(found[0]):.6g}", text)
    return (text if digits else re.sub(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", "#", text)).strip()


def shortened(text: str) -> str:
    """What a page shows of an output: all of it, or its beginning and how much follows."""
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    if len(lines) > MOST_LINES:
        lines = [*lines[:KEPT_LINES], f"... and {len(lines) - KEPT_LINES} more lines"]
    return "\n".join(lines).lstrip("\n") + "\n" if lines else ""


class Reader:
    """Somebody who types a page's blocks in one folder."""

    def __init__(self, folder: Path, tools: Path, python: Path | None) -> None:
        self.folder = folder
        self._python = str(python or sys.executable)
        self._environment = environment(tools) if python is None else installed_environment(python)
        self._groups: list[int] = []

    def type(self, block: Block) -> str:
        """What a terminal shows after it."""
        if block.is_file:
            path = self.folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            if block.language == "python":
                return self._run([self._python, "-W", "error", block.title], block.text)
        elif block.is_run:
            program = [self._python, "-W", "error"] if block.language == "python" else ["sh", "-e"]
            return self._run([*program, "-c", block.text], block.text)
        return ""

    def _run(self, program: list[str], text: str) -> str:
        """Of what it leaves in the background nothing may hold the pipe, or it is waited for."""
        with subprocess.Popen(
            program,
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            self._groups.append(process.pid)
            try:
                said, _ = process.communicate(timeout=MOST_SECONDS)
            except subprocess.TimeoutExpired:
                self.leave()
                raise
        assert process.returncode == 0, f"{text}\n{said}"
        return said.replace(str(self.folder), "~")

    def leave(self) -> None:
        """End what the blocks have left in the background."""
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)


def environment(folder: Path) -> dict[str, str]:
    """``codedfl`` is this checkout's, whatever else is installed."""
    command = folder / "codedfl"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m codedfl "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    paths = os.pathsep.join(map(str, (ROOT / "src", ROOT / "lab" / "src", ROOT)))
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, **_TERMINAL, "PATH": path, "PYTHONPATH": paths}


def installed_environment(python: Path) -> dict[str, str]:
    """``codedfl`` is the one beside this interpreter, and no checkout is on the path."""
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**others, **_TERMINAL, "PATH": os.pathsep.join([str(python.parent), os.environ["PATH"]])}


@contextmanager
def a_reader(place: Path, python: Path | None = None) -> Iterator[Reader]:
    """One in a new folder below ``place``; with ``python`` what is installed beside it, else this checkout."""
    tools, folder = place / "tools", place / "here"
    for one in (tools, folder):
        shutil.rmtree(one, ignore_errors=True)
        one.mkdir(parents=True)
    reader = Reader(folder, tools, python)
    try:
        yield reader
    finally:
        reader.leave()
