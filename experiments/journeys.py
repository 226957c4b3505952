"""Three journeys through the house: which of our functions, in which files, a reader passes through to follow each.

A command that compares, a command that rehearses a study, and one epoch between a server and its devices over MQTT.
Functions are counted once however often they are called; importing a module is no part of a journey.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

from codedfl.errors import CodedFLError
from experiments.code_lines import DISTRIBUTIONS, ROOT

_OURS = tuple(str(ROOT / folder) + os.sep for folder in DISTRIBUTIONS)
_COMPARE = ("lab", "compare", "digits-shifted", "--seeds", "1", "--draws", "2")
_FOLLOWED = 2  # the epoch whose journey is told: the first one differs, as it asks for the constants


@dataclass
class Journey:
    """The functions of ours that were called, by their code."""

    passed: set[CodeType] = field(default_factory=set)

    @property
    def functions(self) -> int:
        """How many they are; comprehensions and lambdas are not counted."""
        return sum(not code.co_name.startswith("<") for code in self.passed)

    @property
    def files(self) -> int:
        """In how many files they are."""
        return len({code.co_filename for code in self.passed if not code.co_name.startswith("<")})

    def note(self, code: CodeType) -> None:
        if code.co_filename.startswith(_OURS):
            self.passed.add(code)


@contextmanager
def followed(note: Callable[[CodeType], None]) -> Iterator[None]:
    """Whatever is called inside, in this thread, is told to ``note``; C functions and what imports call are not."""
    importing = 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal importing
        del argument
        if frame.f_code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing:
            note(frame.f_code)

    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)


def of_command(*arguments: str) -> Journey:
    """What ``codedfl`` with these arguments passes through."""
    from codedfl.cli import main

    journey = Journey()
    silent = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with patch.object(sys, "argv", ["codedfl", *arguments]), silent[0], silent[1], followed(journey.note):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise CodedFLError(f"codedfl {arguments[0]} must succeed, got {end.code}") from end
    return journey


def of_compare() -> Journey:
    """A small comparison, with its report."""
    with tempfile.TemporaryDirectory() as folder:
        return of_command(*_COMPARE, "--out", folder)


def of_rehearsal() -> Journey:
    """A study of one table's rows, dealt out to five devices."""
    from experiments.house import small_table, small_text

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = small_table()
        rows = zip(*(table.columns[column] for column in table.columns), strict=True)
        lines = [",".join(table.columns), *(",".join(map(str, row)) for row in rows)]
        (folder / "table.csv").write_text("\n".join(lines) + "\n")
        (folder / "study.toml").write_text(small_text(table))
        given = ("--tables", f"{folder}/table.csv", "--devices", "5", "--out", f"{folder}/out")
        return of_command("study", "rehearse", f"{folder}/study.toml", *given)


def of_mqtt_epoch() -> Journey:
    """From one product to the next: server and devices, at the broker in virtual time that tests have."""
    from codedfl.sum.session import Session

    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "engines")]
    from faulty_broker import FaultyBroker
    from test_studies_at_a_broker import Fleet

    from approved_studies import federation

    journey, asked = Journey(), 0

    def note(code: CodeType) -> None:
        nonlocal asked
        asked += code is Session.product.__code__
        if asked == _FOLLOWED:
            journey.note(code)

    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(federation("rbf", Path(folder) / "fleet"), FaultyBroker())
        with followed(note):
            fleet.serve()
    return journey


JOURNEYS: dict[str, Callable[[], Journey]] = {
    "compare": of_compare,
    "a study's rehearsal": of_rehearsal,
    "one epoch over MQTT": of_mqtt_epoch,
}
