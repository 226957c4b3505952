"""Options that several commands share, so that they read and behave alike."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from codedfl.errors import InvalidInput

# An option under a heading of the help.
in_data = partial(typer.Option, rich_help_panel="Data")
in_output = partial(typer.Option, rich_help_panel="Output")

# What DATA may be stands in the text of each command: typer 0.20 with click 8.5 does not show the help of arguments.
Data = Annotated[str, typer.Argument()]
Label = Annotated[
    str | None,
    in_data(help="Label column of a file.", show_default="label; y in an .npz with a matrix X"),
]
DataDir = Annotated[
    Path | None,
    in_data(metavar="DIR", help="Where the files of mnist and fashion-mnist may be; CODEDFL_DATA does the same."),
]
StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file (TOML).")]
StudyOrKit = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file (TOML), or a kit.")]
KitFile = Annotated[Path, typer.Argument(metavar="KIT", help="The kit that the coordinator sent (codedfl study kit).")]
Json = Annotated[
    str | None,
    in_output("--json", metavar="FILE", help="Also write the outcome as JSON; - is stdout."),
]


def listed(names: str) -> tuple[str, ...]:
    """Names with commas between."""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def read_json(path: Path, rule: str) -> object:
    """What a file holds that codedfl wrote; ``rule`` begins the error where it is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{rule}, got {str(path)!r} ({error})") from None


def refuse_unread(option: str, value: object, where: str) -> None:
    """An option that would change nothing is a misunderstanding."""
    if value is not None:
        raise InvalidInput(f"{option} must be left out with {where}, got {value}")
