"""``codedfl study report``: page, figures, tables and methods paragraph of a result, made of result.json alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from codedfl.cli import options
from codedfl.cli.screen import Screen
from codedfl.errors import InvalidInput
from codedfl.report.study_files import FIGURES, METHODS_FILE, RESULT_FILE, TABLES, write_report

_RULE = "FOLDER must hold the result.json that codedfl server run or study rehearse wrote"


def report_study(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where server run or rehearse wrote its results.")],
    json: options.Json = None,
) -> None:
    """Make the page of a result again, with figures as SVG, PDF and PNG and tables as CSV, HTML and LaTeX.

    Nothing but result.json is read. server run and rehearse do the same, but for figures where matplotlib is missing.

    Example: `codedfl study report results`
    """
    from codedfl.report import canvas  # noqa: F401 - whoever cannot draw learns it before anything is written

    screen = Screen(json)
    result: Any = options.read_json(folder / RESULT_FILE, _RULE)
    try:
        with screen.busy("drawing"):
            page = write_report(folder, result)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(f"{_RULE}, of this version, got {str(folder)!r}: {error!r:.60}") from None
    written: dict[str, Any] = {"page": str(page), "methods": str(folder / METHODS_FILE)}
    for name in (FIGURES, TABLES):
        written[name] = sorted(str(one) for one in (folder / name).glob("*"))
    screen.facts(
        [("page", str(page)), *((name, f"{len(written[name])} files in {folder / name}") for name in (FIGURES, TABLES))]
    )
    screen.write_json({"command": "study report", **written})
