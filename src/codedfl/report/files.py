"""The folder of a report: everything is made before anything is written, and each file appears whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from codedfl.errors import InvalidInput
from codedfl.report.beyond_page import beyond_page, of_convention
from codedfl.report.canvas import Pictures
from codedfl.report.figures import accuracy_figure, looks_by_scheme
from codedfl.report.html import report_page
from codedfl.report.rows import best_variants, dataset_name, kinds, targets_of
from codedfl.report.scaling_picture import scaling_figure

TRACE_COLUMNS = ("dataset", "label", "scheme", "solver", "step", "seed", "epoch", "seconds", "accuracy")


def write_report(folder: Path, results: dict[str, Any], traces: Sequence[Mapping[str, Any]]) -> dict[str, Path]:
    """Write results.json, traces.csv, accuracy.png, accuracy.svg and report.html; return them by these names."""
    if results["headline_target"] not in targets_of(results["schemes"]):
        targets = ", ".join(f"{target:g}" for target in targets_of(results["schemes"]))
        raise InvalidInput(
            f"headline_target must be a target of the results ({targets}), got {results['headline_target']}"
        )
    pictures = accuracy_figure(results, traces)
    page = report_page(results, pictures.svg)
    return _write_all(folder, _data(results, traces) | _pictures("accuracy", pictures) | {"report.html": page.encode()})


def write_beyond_report(folder: Path, results: dict[str, Any], traces: Sequence[Mapping[str, Any]]) -> dict[str, Path]:
    """Write results.json, traces.csv, report.html and as .png and .svg accuracy-DATASET for each data set and, where
    there are results for other sizes of the fleet, scaling; return them by these names."""
    accuracy = {
        name: _beyond_accuracy(results, traces, name)
        for name in dict.fromkeys(e["dataset"] for e in results["schemes"])
    }
    if not accuracy:
        raise InvalidInput("results must hold at least one scheme, got none")
    contents = _data(results, traces)
    for name, pictures in accuracy.items():
        contents |= _pictures(f"accuracy-{name}", pictures)
    scaling_svg = None
    if results["scaling"]:
        scaling = scaling_figure(results["scaling"])
        scaling_svg = scaling.svg
        contents |= _pictures("scaling", scaling)
    page = beyond_page(results, {name: pictures.svg for name, pictures in accuracy.items()}, scaling_svg)
    return _write_all(folder, contents | {"report.html": page.encode()})


def _beyond_accuracy(results: Mapping[str, Any], traces: Sequence[Mapping[str, Any]], dataset: str) -> Pictures:
    """The fastest variant of each scheme and solver; the traces are of the first convention, messages in one lump."""
    sharing, _ = kinds(results["schemes"])[0]
    shown = best_variants(of_convention(results["schemes"], sharing, chunked=False, dataset=dataset))
    view = {
        "title": dataset_name(dataset),
        "schemes": shown,
        "headline_target": shown[0]["target_accuracy"],
        "score_name": results["score_name"],
    }
    return accuracy_figure(view, traces, looks_by_scheme)


def _pictures(name: str, pictures: Pictures) -> dict[str, bytes]:
    return {f"{name}.png": pictures.png, f"{name}.svg": pictures.svg.encode()}


def _data(results: Mapping[str, Any], traces: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    return {"results.json": _json(results), "traces.csv": _csv(traces)}


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


def _write_all(folder: Path, contents: Mapping[str, bytes]) -> dict[str, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _write(folder / name, content) for name, content in contents.items()}


def _write(path: Path, content: bytes) -> Path:
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path
