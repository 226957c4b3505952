"""The folder of a report: everything is made before anything is written, and each file appears whole or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from codedfl.errors import InvalidInput
from codedfl.report.canvas import Pictures
from codedfl_lab.comparing.names import full_name
from codedfl_lab.comparing.results import Results, summary_bytes
from codedfl_lab.report.beyond_page import beyond_page, of_convention, scaling_figure
from codedfl_lab.report.figures import accuracy_figure
from codedfl_lab.report.html import drawn_of, report_page
from codedfl_lab.report.page import write_all
from codedfl_lab.report.rows import best_variants, dataset_name, kinds, targets_of
from codedfl_lab.report.sweep import sweep_figure


def write_report(folder: Path, results: Results) -> dict[str, Path]:
    """Write results.json, the CSV files, report.html and accuracy as .png, .svg and .pdf; return them by name."""
    targets, target = targets_of(results.schemes), results.headline_target
    if target is None or target not in targets:
        listed = ", ".join(f"{one:g}" for one in targets)
        raise InvalidInput(f"headline_target must be a target of the results ({listed}), got {target}")
    drawn = {full_name(one) for one in drawn_of(results)}
    shown = [one for one in results.schemes if full_name(one) in drawn]
    pictures = accuracy_figure(results.title, shown, results.traces, target, results.score_name)
    page = report_page(results, pictures.svg)
    made = {"summary.csv": summary_bytes([results]), "report.html": page.encode()}
    return write_all(folder, results.files() | pictures.files("accuracy") | made)


def write_sweep(folder: Path, parameter: str, found: Sequence[Results]) -> dict[str, Path]:
    """Write sweep.png, sweep.svg, and summary.csv with the rows of all values; return them by name."""
    made = {"summary.csv": summary_bytes(found)} | sweep_figure(parameter, found).files("sweep")
    return write_all(folder, made)


def write_beyond_report(folder: Path, results: Results) -> dict[str, Path]:
    """Write results.json, traces.csv, report.html and the figures; return them by name.

    The figures, each as .png, .svg and .pdf, are accuracy-DATASET for each data set and, where there are results for
    other sizes of the fleet, scaling.
    """
    accuracy = {name: _beyond_accuracy(results, name) for name in dict.fromkeys(row.dataset for row in results.schemes)}
    if not accuracy:
        raise InvalidInput("results must hold at least one scheme, got none")
    contents = results.files()
    for name, pictures in accuracy.items():
        contents |= pictures.files(f"accuracy-{name}")
    scaling_svg = None
    if results.scaling:
        scaling = scaling_figure(results.scaling)
        scaling_svg = scaling.svg
        contents |= scaling.files("scaling")
    page = beyond_page(results, {name: pictures.svg for name, pictures in accuracy.items()}, scaling_svg)
    return write_all(folder, contents | {"report.html": page.encode()})


def _beyond_accuracy(results: Results, dataset: str) -> Pictures:
    """The fastest variant of each scheme and solver; the traces are of the first convention, messages in one lump."""
    sharing, _ = kinds(results.schemes)[0]
    shown = best_variants(of_convention(results.schemes, sharing, chunked=False, dataset=dataset))
    target = shown[0].target_accuracy
    return accuracy_figure(dataset_name(dataset), shown, results.traces, target, results.score_name)
