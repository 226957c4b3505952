"""What the commands show and where: results on stdout, progress on stderr, JSON where the user asked for it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from codedfl.typing import FileProgress

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

STDOUT = "-"
_WIDTH_WITHOUT_TERMINAL = 120


class Screen:
    """The consoles of one command. ``json``: the value of --json; "-" moves everything but the JSON to stderr."""

    def __init__(self, json: str | None = None) -> None:
        self._json = json
        self.results = _console(stderr=json == STDOUT)
        self.remarks = _console(stderr=True)
        if json is not None and json != STDOUT:
            # Asked for before the work starts: hours of training must not end at a mistyped path.
            from codedfl.cli.output_files import check_writable

            check_writable("--json", Path(json))

    def say(self, text: str = "") -> None:
        """One line of results; never wrapped, so that paths can be copied and lines searched."""
        self.results.print(_plain(text), soft_wrap=True, markup=False)

    def sentence(self, text: str) -> None:
        """Text, wrapped between words; what a space that is never broken joins, such as "22.6 s", stays together."""
        for line in text.splitlines() or [""]:
            wrapped = wrap(line, self.results.width, break_on_hyphens=False, break_long_words=False)
            self.say("\n".join(wrapped))

    def item(self, text: str) -> None:
        """One of several answers: wrapped between words where there is a width, one line where lines are searched."""
        self._wrapped("  - ", text)

    def _wrapped(self, head: str, text: str) -> None:
        narrow = self.results.is_terminal or "COLUMNS" in os.environ
        wide = self.results.width if narrow else len(head) + len(text) + 1
        lines = wrap(
            text,
            wide,
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
            break_long_words=False,
        )
        for line in lines or [head.rstrip()]:
            self.say(line)

    def remark(self, text: str) -> None:
        self.remarks.print(_plain(text), soft_wrap=True, markup=False)

    def show(self, table: Table) -> None:
        self.results.print(table)

    def facts(self, pairs: list[tuple[str, str]]) -> None:
        """Names and values, aligned."""
        width = max(len(name) for name, _ in pairs)
        for name, value in pairs:
            self._wrapped(f"  {name:<{width}}  ", value)

    def files(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self.say(f"  {path}")

    def write_json(self, value: Any) -> None:
        """Does nothing without --json."""
        if self._json is None:
            return
        text = json.dumps(value, indent=2, allow_nan=False)
        if self._json == STDOUT:
            click.echo(text)
        else:
            Path(self._json).write_text(text + "\n", encoding="utf-8")

    def progress(self) -> Progress:
        """A bar with the time passed and the time left; nothing at all where stderr is no terminal."""
        from codedfl.cli.progress_bar import progress_bar

        return progress_bar(self.remarks)

    @contextmanager
    def busy(self, what: str) -> Iterator[Callable[[str], None]]:
        """A moving bar for work that cannot tell how far it is; yields a function that changes what is said."""
        with self.progress() as bar:
            task = bar.add_task(what, total=None)
            yield lambda text: bar.update(task, description=text)

    @contextmanager
    def fetching(self) -> Iterator[FileProgress]:
        """A bar for each file that is downloaded; none if none is."""
        with self.progress() as bars:
            tasks: dict[str, Any] = {}

            def report(name: str, have: int, total: int | None) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(name, total=total)
                size = "" if total is None else f", {have / 1e6:.1f} of {total / 1e6:.1f} MB"
                bars.update(tasks[name], completed=have, total=total, description=name + size)

            yield report


_BLANKS = "\n\t\u00a0\u202f"  # the last two stand before units, and are never broken


def _plain(text: str) -> str:
    """No text of a table, a study or a peer moves the cursor or colours the screen."""
    return "".join(one if one.isprintable() or one in _BLANKS else "\ufffd" for one in text)


def table(*columns: str, left: int = 1, last_wraps: bool = False) -> Table:
    """A plain table; the first ``left`` columns hold text, the others numbers.

    last_wraps: the last column holds long text, which wraps into the next line where the screen is too narrow.
    """
    from rich.table import Table

    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for place, name in enumerate(columns):
        wraps = last_wraps and place == len(columns) - 1
        made.add_column(name, justify="left" if place < left or wraps else "right", no_wrap=not wraps, overflow="fold")
    return made


def score_name(task: str) -> str:
    """What the score of a task is called."""
    return "accuracy" if task == "classification" else "R^2"


def _console(stderr: bool) -> Console:
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        # A pipe has no width; rich would fold tables at 80.
        console.width = _WIDTH_WITHOUT_TERMINAL
    return console
