"""What a study leaves behind for a paper: result.json, tables that R reads, a summary, a page with figures and tables.

Nothing here knows more than the findings say. Counts below the study's smallest cell are hidden in all of it.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from codedfl.analyses.driving import TOTAL_FILE, findings_json, total_json
from codedfl.analyses.inference import WIDTH
from codedfl.analyses.left_out import terms_left_out
from codedfl.analyses.nested import nested
from codedfl.analyses.study_analysis import CLIPPED, StudyFindings
from codedfl.analyses.table_one import TableOneFinding
from codedfl.contract.crude import crude_models
from codedfl.contract.merging import times_place
from codedfl.contract.study import Study, factors_of
from codedfl.contract.words import explain
from codedfl.data.columns import OTHER, CategoryColumn, NumberColumn, NumberTarget
from codedfl.private_files import write_private
from codedfl.report.labels import labelled
from codedfl.report.methods import methods_text
from codedfl.report.result_tables import all_tables
from codedfl.report.study_page import Shown, study_page
from codedfl.report.tables import csv_text
from codedfl.statistics.statistic import words_of
from codedfl.typing import Unchecked
from codedfl.version import __version__

MODEL_FILE, RESULT_FILE, SUMMARY_FILE, RESULT_PAGE = "model.safetensors", "result.json", "summary.txt", "result.html"
COEFFICIENTS_FILE, COVARIANCE_FILE, TABLE_FILE = "coefficients.csv", "covariance.csv", "table-1.csv"
METHODS_FILE, FIGURES, TABLES = "methods.txt", "figures", "tables"
OWN_MODEL = "study"  # what tables call the study's own model
_SHOWN = ("What leaves this machine?", "Who sees what?", "What is not protected?")
_KEYS = ("coefficient", "standard_error", "statistic", "p", "low", "high", "ratio", "ratio_low", "ratio_high")
_MODELLED = "class_modelled"


MARK_FILE = "NOT-FOR-PUBLICATION.txt"
_MARK = (
    "This folder is the server's own. It has exact sums, and numbers in all digits, from which counts of few people can"
    "\nbe worked out. What may be published is made by: codedfl study release\n"
)


def write_numbers(
    folder: Path,
    study: Study,
    findings: StudyFindings,
    owners: Mapping[str, Sequence[str]],
    invited: Iterable[str] = (),
    *,
    rehearsal: bool = False,
) -> Unchecked:
    """Write what was found into a folder, readable for its owner alone; returns what result.json has.

    owners: whose rows are in which total. invited: the owners on the roster, of whom some may be in none.
    rehearsal: whether all devices were in this process, so that no sentence says otherwise.
    """
    if findings.model is not None:
        findings.model.save(folder / MODEL_FILE)
    for place, one in enumerate(findings.models, start=1):
        if (model := getattr(one, "model", None)) is not None:
            model.save(folder / f"model-{place}.safetensors")
    result = result_json(study, findings, owners, invited, rehearsal=rehearsal)
    files = {
        MARK_FILE: _MARK,
        RESULT_FILE: json.dumps(result, indent=1, allow_nan=False) + "\n",
        SUMMARY_FILE: summary_text(study, findings),
        COEFFICIENTS_FILE: coefficients_csv(result),
        COVARIANCE_FILE: covariance_csv(result),
    }
    for one in findings.models:
        if isinstance(one, TableOneFinding):
            files[TABLE_FILE] = one.csv()
    if findings.total:
        files[TOTAL_FILE] = json.dumps(total_json(study, findings, owners.get("gram", ()))) + "\n"
    for name, text in files.items():
        write_private(folder / name, [text.encode()])
    return result


def write_results(
    folder: Path,
    study: Study,
    findings: StudyFindings,
    owners: Mapping[str, Sequence[str]],
    invited: Iterable[str] = (),
    *,
    rehearsal: bool = False,
) -> Path:
    """``write_numbers`` and ``write_report``: all of it; returns the page."""
    return write_report(folder, write_numbers(folder, study, findings, owners, invited, rehearsal=rehearsal))


def write_report(folder: Path, result: Unchecked) -> Path:
    """What follows from result.json alone: the page, its figures and tables each in files, and the methods paragraph.

    Without matplotlib there are no figures, and the page says how to get them.
    """
    result, drawn = labelled(result), None
    if find_spec("matplotlib") is not None:
        from codedfl.report.figures import figures_of

        drawn = figures_of(result)
    found = {METHODS_FILE: f"{methods_text(result)}\n".encode()}
    for table in all_tables(result):
        found |= {f"{TABLES}/{name}": text.encode() for name, text in table.files().items()}
    for one in drawn or ():
        found |= {f"{FIGURES}/{name}": data for name, data in one.pictures.files(one.name).items()}
    shown = None if drawn is None else [Shown(one.name, one.caption, one.inline) for one in drawn]
    for name, data in {**found, RESULT_PAGE: study_page(result, shown).encode()}.items():
        (folder / name).parent.mkdir(mode=0o700, exist_ok=True)
        write_private(folder / name, [data])
    return folder / RESULT_PAGE


def result_json(
    study: Study,
    findings: StudyFindings,
    owners: Mapping[str, Sequence[str]],
    invited: Iterable[str] = (),
    *,
    rehearsal: bool = False,
) -> Unchecked:
    """All that a paper needs, as plain values."""
    said = {one.question: list(one.answers) for one in explain(study, words=words_of(study))}
    return {
        "codedfl": __version__,
        "rehearsal": rehearsal,
        **findings_json(study, findings),
        "crude": crude_models(study),
        "purpose": study.purpose,
        "formula": study.formula,
        "labels": {name: {"label": label, "unit": unit} for name, label, unit in study.labels if label or unit},
        "target": study.target.title,
        "classes": list(getattr(study.target, "classes", ())),
        _MODELLED: getattr(study.target, "modelled", ""),
        "held_out": study.held_out,
        "smallest_cell": study.smallest_cell,
        "colluders": study.colluders,
        "least_group": study.colluders + study.honest,
        "noise": "" if study.noise is None else f"epsilon {study.noise.epsilon:g}, delta {study.noise.delta:g}",
        "owners": {name: list(who) for name, who in owners.items()},
        "added_to": [{"digest": one.study, "owners": list(one.owners)} for one in findings.before.parts],
        "without": sorted(set(invited).difference(*owners.values())),
        "filled": filled_values(study),
        "steps": {one.name: one.step for one in study.columns if one.step is not None and not factors_of(one)},
        "cautions": cautions(study),
        "merged_words": merged_words(study, findings),
        "revealed": {question: said[question] for question in _SHOWN},
    }


def filled_values(study: Study) -> dict[str, float | str]:
    """What a missing value of each column counts as, where the study says so and the column is in a model.

    A table that describes counts it as missing.

    >>> age = NumberColumn("age", (0.0, 110.0), 1.0, missing=50.0)
    >>> filled_values(Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4))
    {'age': 50.0}
    """
    said = ((one.name, one.missing) for one in study.columns if one.width and not study.only_describes)
    return {name: value for name, value in said if value is not None}


def summary_text(study: Study, findings: StudyFindings) -> str:
    """The tables as statistics programs print them, at most 79 columns wide."""
    lines = [
        study.name,
        f"version {study.edition}, study",
        study.digest().hex(),
        *cautions(study),
        *merged_words(study, findings),
        "",
    ]
    if findings.inference is not None:
        clipped = findings.clipped.words(study.smallest_cell)
        lines += [*findings.inference.summary().splitlines(), f"{CLIPPED}: {clipped}" if clipped else "", ""]
    for one in findings.models:
        lines += [f"model {one.name}", *one.lines(), ""]
    if compared := nested(findings.models):
        lines += ["nested models", *(one.line() for one in compared), ""]
    return "\n".join(narrow(lines))


def cautions(study: Study) -> list[str]:
    """What is to be thought of before the tables are believed."""
    found = []
    asked = study.inference or any(getattr(one, "inference", False) for one in study.models)
    if asked and isinstance(study.target, NumberTarget) and study.target.grid.n_steps == 1:
        found.append(
            f"{study.target.name} has two values, for which classical standard errors of least squares are wrong: give"
            ' it classes and a [[model]] of kind "logistic", or take kind "robust"'
        )
    return found


def narrow(lines: Iterable[str]) -> list[str]:
    """Lines of at most 79 columns: longer ones are broken between words."""
    return [part for line in lines for part in (textwrap.wrap(line, WIDTH) if len(line) > WIDTH else [line])]


def coefficients_csv(result: Unchecked) -> str:
    """One line per coefficient of every model that has any."""
    rows = [
        (
            model,
            one["name"],
            *(one.get(key, one.get("t", one.get("z")) if key == "statistic" else None) for key in _KEYS),
            found.get("fit", found).get("modelled", ""),
        )
        for model, found in tables_of(result)
        for one in found["coefficients"]
    ]
    return csv_text(("model", "name", *_KEYS, _MODELLED), rows)


def covariance_csv(result: Unchecked) -> str:
    """One line per coefficient, with a column for each of the same model; empty where models have others."""
    found = [(model, one) for model, one in tables_of(result) if one.get("covariance") is not None]
    names = list(dict.fromkeys(row["name"] for _, one in found for row in one["coefficients"]))
    rows = []
    for model, one in found:
        mine = [row["name"] for row in one["coefficients"]]
        for name, numbers in zip(mine, one["covariance"], strict=True):
            known = dict(zip(mine, numbers, strict=True))
            rows.append((model, name, *(known.get(other) for other in names)))
    return csv_text(("model", "name", *names), rows)


def tables_of(result: Unchecked) -> Iterator[tuple[str, Unchecked]]:
    """Each model's name with what has its coefficients; the study's own model first."""
    for one in ({"name": OWN_MODEL, **result}, *result["models"]):
        found = one.get("inference") or one
        if found.get("coefficients"):
            yield one["name"], found


def merged_words(study: Study, findings: StudyFindings) -> list[str]:
    """Rows left out as incomplete; levels too rare to be counted alone; what others are compared with; lost terms."""
    lines = [f"rows left out for missing values: {findings.left_out}"] if findings.left_out else []
    if earlier := findings.before.owners:
        lines.append(
            f"added to a kept sum of {len(earlier)} devices, which were not asked: rows and coefficients are of all,"
            " counts and scores by held-out rows of those who came later"
        )
    for column, gone in zip(study.columns, findings.merged, strict=False):
        left, _ = column.coarser(gone)
        if gone and isinstance(column, CategoryColumn):
            names, other = ", ".join(column.levels[index] for index in gone), column.other or OTHER
            with_it = f" with {other}" if column.other is not None and column.other not in names.split(", ") else ""
            why = "at every device: too few people have one of these"
            lines.append(f"{column.name}: {names} counted{with_it} as {other!r}, {why}")
            first = left.levels[0] if left is not None and isinstance(left, CategoryColumn) else ""
            if first and (first == other or first != column.levels[0]):
                lines.append(f"{column.name}: the reference level is now {first}")
        elif column.name in findings.unmarked and isinstance(column, NumberColumn):
            few = f"{column.name}: missing in too few rows to be"
            filled = f"distinguished, these count as {column.missing:g}, unmarked"
            lines.append(f"{few} {'counted' if study.only_describes else filled}")
    if findings.merged and (gone := findings.merged[times_place(study)]):
        times = ", ".join(f"{study.time_grid[place]:g}" for place in gone)
        lines.append(
            f"times joined with the next, since too few people have their event or are censored there: {times}"
        )
    return [*lines, *(one.line for one in terms_left_out(study, findings.merged, findings.total))]
