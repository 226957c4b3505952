"""Runs commands in this process, as the console script does."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import Result
from typer.testing import CliRunner

from codedfl.cli.app import app

Run = Callable[..., Result]

# Small enough to take a second, large enough to learn something.
SMALL = ("--n-features", "60", "--devices", "5", "--scheme", "coded-keys", "--epochs", "6")


def invoke(*arguments: object) -> Result:
    """Bugs are raised here, not hidden in the result."""
    return CliRunner(env={"COLUMNS": "100"}).invoke(app, [str(one) for one in arguments], catch_exceptions=False)
