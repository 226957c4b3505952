"""The code blocks of the site's pages, and what each of them asks for.

A block without a title is run (``sh``, ``python``) or must be readable (``toml``). One whose title is the name of a
file is written to it, and a Python file is run. One whose title is a reason of ``REASONS`` needs what a test does not
have, or is run by another test, and its commands must be ones that the command line takes. ``text`` is output. Comments
``<!-- sh`` and ``<!-- python`` are run too: what a page needs and a reader does not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
REASONS = frozenset(
    {
        "needs root",
        "needs other machines",
        "needs a SuperLink",
        "needs a checkout and a network",
        "installs a package",
        "takes hours",
        "runs until Ctrl-C",
        "from the specification",
    }
)
RUN = ("sh", "python")
_BLOCK = re.compile(
    r"^```(?P<language>\w*)(?P<options>[^\n]*)\n(?P<text>.*?)^```$|^<!-- (?P<hidden>sh|python)\n(?P<setup>.*?)^-->$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r' title="([^"]+)"')
_FILE = re.compile(r"[\w-]+(?:/[\w-]+)*\.\w+")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    title: str

    @property
    def is_file(self) -> bool:
        return _FILE.fullmatch(self.title) is not None

    @property
    def is_run(self) -> bool:
        return self.language in RUN and not self.title

    @property
    def fault(self) -> str:
        """What is wrong with how it is marked; empty otherwise."""
        if self.language not in (*RUN, "toml", "text"):
            return f"a block must be sh, python, toml or text, got {self.language!r}"
        if self.title and not self.is_file and self.title not in REASONS:
            return f"a title must be the name of a file or one of {', '.join(sorted(REASONS))}, got {self.title!r}"
        return ""


def blocks(page: str) -> list[Block]:
    """In the order of the page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = []
    for one in _BLOCK.finditer(text):
        if one["hidden"]:
            found.append(Block(one["hidden"], one["setup"], ""))
            continue
        title = _TITLE.fullmatch(one["options"])
        found.append(Block(one["language"], one["text"], title[1] if title else one["options"].strip()))
    return found


PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


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
