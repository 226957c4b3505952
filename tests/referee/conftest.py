"""What an outside referee found: a file a point, which begins with what was seen. Commands run as people type them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from typer.testing import CliRunner

from codedfl.cli.app import app

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder, on a terminal of 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def invoke(*arguments: object) -> Result:
        runner = CliRunner(env={"COLUMNS": "80"})
        return runner.invoke(app, [str(one) for one in arguments], catch_exceptions=False)

    return invoke


@pytest.fixture
def table(tmp_path: Path) -> Callable[[str, str, Iterable[Iterable[object]]], Path]:
    """Write a CSV file: its name, the names of its columns, its rows."""

    def write(name: str, columns: str, rows: Iterable[Iterable[object]]) -> Path:
        path = tmp_path / name
        with path.open("w", newline="") as stream:
            csv.writer(stream).writerows([columns.split(), *rows])
        return path

    return write


@pytest.fixture
def prices(table: Callable[..., Path]) -> Path:
    """The referee's table: prices in thousands, six shops."""
    rng = np.random.default_rng(1)
    size, age, far = rng.normal(50, 20, 600), rng.normal(1, 0.3, 600), rng.exponential(3, 600)
    price = 1000 * (2 * size + 30 * age * far + 5 * rng.normal(size=600))
    shop = rng.choice(["north", "south", "east", "west", "mid", "far"], 600)
    return table("reg.csv", "size age dist shop price", zip(size, age, far, shop, price, strict=True))
