"""Names that are somebody else's: no spreadsheet runs them, no terminal obeys them, no page has them as tags."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from codedfl.analyses.table_one import DescribedLevels, DescribedNumber, TableOneFinding
from codedfl.cli.predict import _write_predictions
from codedfl.cli.screen import Screen
from codedfl.report.tables import Table, TableRow, csv_text

FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1")
EVIL = (*FORMULAS, "x\x1b[2J", "\u202ey", "a\x00b")


def table_one(name: str) -> str:
    number = DescribedNumber(name, 40, 0, 1.0, 1.0, (1, 1, 1, 1, 1), (0.0, 9.0), 1.0, None)
    levels = DescribedLevels(name, (name, "b"), ((name, 20), ("b", 20)))
    return TableOneFinding("t", 40, 0, (number, levels), name, "", {}).csv()


def predictions(name: str) -> str:
    stream = io.StringIO()
    _write_predictions(stream, np.array([name, "b"], dtype=object))
    return stream.getvalue()


def a_table(name: str) -> str:
    return Table("t", "T", (name, "n"), (TableRow((name, "-1.5")),)).csv()


WRITERS = {
    "table 1": table_one,
    "predictions": predictions,
    "tables": a_table,
    "coefficients": lambda name: csv_text((name, "n"), [(name, 1.0)]),
}


@pytest.mark.parametrize("name", EVIL)
@pytest.mark.parametrize("writer", WRITERS)
def test_no_cell_is_a_formula_or_obeyed(writer: str, name: str):
    cells = [one for row in csv.reader(io.StringIO(WRITERS[writer](name))) for one in row]
    texts = [one for one in cells if not one.replace("-", "", 1).replace(".", "", 1).isdigit()]
    assert texts and all(one.isprintable() for one in texts)
    assert not [one for one in texts if one.startswith(("=", "+", "-", "@"))]
    if name in FORMULAS:
        assert any(one.startswith("'") for one in texts), "it is there all the same, as a text"


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "<img src=x>", '"><b>'])
def test_no_name_is_a_tag(name: str):
    assert name not in Table("t", name, (name, "n"), (TableRow((name, name)),), (name,)).html()


@pytest.mark.parametrize("show", ["say", "sentence", "item", "remark"])
def test_no_text_writes_on_the_terminal(capsys: pytest.CaptureFixture[str], show: str):
    getattr(Screen(), show)("ward\x1b[2J\u202e of patients")
    said = "".join(capsys.readouterr())
    assert "\x1b" not in said and "\u202e" not in said and "ward" in said
