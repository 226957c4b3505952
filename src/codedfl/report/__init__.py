"""Results for people and machines: a folder of files, a terminal table, the claims' verdicts on one page.

Every number shown comes from the results; nothing is computed here but medians over seeds for the curves.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codedfl.errors import InvalidInput
from codedfl.report.figures import Pictures, accuracy_figure
from codedfl.report.html import headline, report_page
from codedfl.report.rows import targets_of
from codedfl.report.tables import comparison_table

__all__ = ["Pictures", "accuracy_figure", "comparison_table", "headline", "report_page", "write_report"]

TRACE_COLUMNS = ("dataset", "label", "scheme", "solver", "step", "seed", "epoch", "seconds", "accuracy")


def write_report(folder: Path, results: dict[str, Any], traces: Sequence[Mapping[str, Any]]) -> dict[str, Path]:
    """Write results.json, traces.csv, accuracy.png, accuracy.svg and report.html; return them by these names.

    Everything is made before anything is written, and each file appears whole or not at all.
    """
    if results["headline_target"] not in targets_of(results["schemes"]):
        targets = ", ".join(f"{target:g}" for target in targets_of(results["schemes"]))
        raise InvalidInput(
            f"headline_target must be a target of the results ({targets}), got {results['headline_target']}"
        )
    pictures = accuracy_figure(results, traces)
    contents = {
        "results.json": _json(results),
        "traces.csv": _csv(traces),
        "accuracy.png": pictures.png,
        "accuracy.svg": pictures.svg.encode(),
        "report.html": report_page(results, pictures.svg).encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _write(folder / name, content) for name, content in contents.items()}


def _json(results: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise InvalidInput(f"results must hold finite numbers and None only, got one that is not ({error})") from None
    return (text + "\n").encode()


def _csv(traces: Sequence[Mapping[str, Any]]) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, TRACE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(traces)
    return buffer.getvalue().encode()


def _write(path: Path, content: bytes) -> Path:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path
