"""What a study leaves behind for a paper: JSON, tables for R, a summary and a page, without small counts."""

from __future__ import annotations

import csv
import html
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_reader import Page

from codedfl.analyses.analysis import NotFound
from codedfl.analyses.inference import LeastSquaresFit
from codedfl.analyses.left_out import terms_left_out
from codedfl.analyses.residuals import ResidualsFinding
from codedfl.analyses.scoring import ClassScore
from codedfl.analyses.study_analysis import StudyFindings
from codedfl.analyses.survival import Curve, SurvivalFinding
from codedfl.analyses.table_one import DescribedLevels, DescribedNumber, TableOneFinding
from codedfl.contract.formula import expand
from codedfl.contract.models import LogisticModel, RobustModel
from codedfl.contract.small_cells import own_rows
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import ClassTarget, NumberTarget, Study, StudyColumn, SubModel
from codedfl.contract.words import few_words
from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.data.model import TrainedModel
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from codedfl.report.drawings import Chart
from codedfl.report.study_files import (
    cautions,
    coefficients_csv,
    covariance_csv,
    merged_words,
    result_json,
    write_results,
)
from codedfl.report.study_page import study_page
from totals import conducted, dealt

pytestmark = pytest.mark.hospitals

OWNERS = {"cells": ["a", "b", "c"], "gram": ["a", "b"]}


def stays(target: NumberTarget | ClassTarget, **changes: Any) -> tuple[Study, StudyFindings]:
    rng = np.random.default_rng(0)
    age = np.round(rng.uniform(20, 90, 900))
    ward = rng.choice(["burns", "ear", "=surgery", "<b>eye"], 900, p=[0.002, 0.1, 0.5, 0.398])
    age[:9] = 130
    days = np.clip(np.round(2 + 0.1 * age + rng.normal(0, 2, 900)), 0, 60)
    days[20] = 61
    raw = as_raw_table({"age": age, "ward": ward, "days": days, "long": np.where(days > 7, "yes", "no")}, "t.csv")
    columns = (
        StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0),
        StudyColumn(CategoryColumn("ward", ("burns", "ear", "=surgery", "<b>eye"))),
    )
    made = Study("stays", columns, target, 5000, 1000, 3, **changes)
    return made, conducted(made, dealt(made, raw))


@pytest.fixture(scope="module")
def found() -> tuple[Study, StudyFindings]:
    models = (SubModel("age alone", ("age",), inference=True),)
    return stays(NumberTarget("days", (0.0, 60.0), 1.0), inference=True, most_clipped=0.1, models=models)


def test_rows_left_out_are_told_unless_they_are_few(tmp_path: Path):
    age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, complete_cases=True)
    said = []
    for gaps in (0, 4, 40):
        days = np.where(np.arange(900) < gaps, np.nan, np.arange(900) % 31)
        raw = as_raw_table({"age": np.arange(900.0) % 70 + 20, "days": days}, "t.csv")
        findings = conducted(study, dealt(study, raw))
        folder = tmp_path / str(gaps)
        folder.mkdir()
        page = write_results(folder, study, findings, OWNERS).read_text()
        line = f"rows left out for gaps: {findings.left_out}"
        told = json.loads((folder / "result.json").read_text())
        said.append((told["left_out"], line in page, line in (folder / "summary.txt").read_text()))
    assert said == [(0, False, False), ("few", True, True), (40, True, True)]


def test_what_a_reference_was_merged_with_is_said():
    ward = StudyColumn(CategoryColumn("ward", ("other", "a", "b"), other="other"))
    study = Study("stays", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    findings = StudyFindings(None, None, "", None, "", 100, (), [], ((2,),))
    assert merged_words(study, findings) == [
        "ward: counted as 'other', since some of them are rare: b",
        "ward: the reference level is now other",
    ]


def test_a_term_that_vanished_is_named_with_the_reason_everywhere(tmp_path: Path):
    """Two of each device's patients are old emergencies, whose product is told as 0; nobody is a transfer."""
    kinds = np.tile(np.array(["elective"] * 30 + ["urgent"] * 20 + ["emergency"] * 10), 4)
    old = np.tile(np.array([0.0, 1.0] * 25 + [0.0] * 8 + [1.0] * 2), 4)
    table = {"type": kinds, "old": old, "days": np.arange(240.0) % 31}
    levels = ("elective", "urgent", "emergency", "transfer")
    kind, age = StudyColumn(CategoryColumn("type", levels)), StudyColumn(NumberColumn("old"), (0.0, 1.0), 1.0)
    columns = expand("days ~ C(type) * old", (kind, age), "days")
    target = NumberTarget("days", (0.0, 60.0), 1.0)
    model = RobustModel("robust", tuple(one.column.name for one in columns))
    study = Study("stays", columns, target, 5000, 1000, 3, held_out=0.0, inference=True, models=(model,))
    parts = [as_raw_table({name: one[i : i + 60] for name, one in table.items()}) for i in range(0, 240, 60)]
    rows = [own_rows(study, part, bytes([place] * 16)).snapshot for place, part in enumerate(parts)]
    findings = conducted(study, rows)
    why = (
        "it is 0 in all rows: a product of levels, or an interval, that fewer than 5 rows of a device have is told as 0"
    )
    nobody = "no row has it: a level that fewer than 5 rows of a device have is told as a commoner one"
    gone = {"type = transfer": nobody, "type = emergency:old": why, "type = transfer:old": why}
    page = write_results(tmp_path, study, findings, OWNERS).read_text()
    told = json.loads((tmp_path / "result.json").read_text())
    assert {one["term"]: one["why"] for one in told["terms_left_out"]} == gone
    summary = " ".join((tmp_path / "summary.txt").read_text().split())
    for term, reason in gone.items():
        assert f"left out: {term}, since {reason}" in summary
        assert f"<strong>left out: {term}</strong>, since {reason}" in page
    assert findings.inference is not None
    asked = {"constant", *study.design_names}
    assert asked - set(findings.inference.names) == set(gone), (
        "nothing else vanishes, and nothing is named that is there"
    )
    assert terms_left_out(study, findings.merged, findings.total, ("old",)) == ()


def test_a_reference_level_that_nobody_has_is_replaced_aloud():
    ward = StudyColumn(CategoryColumn("ward", ("none", "a", "b")))
    study = Study("stays", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, inference=True, held_out=0.0)
    values = np.arange(90)
    raw = as_raw_table({"ward": np.where(values % 2 == 0, "a", "b"), "days": values % 31 * 1.0})
    findings = conducted(study, dealt(study, raw, 3))
    first, second = (one.line for one in terms_left_out(study, findings.merged, findings.total))
    assert first.startswith("left out: ward = none, since no row has it: a level that fewer than 5 rows")
    assert second == "left out: ward = a, since the others are compared with it now"


def test_all_that_a_paper_needs(found: tuple[Study, StudyFindings], tmp_path: Path):
    study, findings = found
    page = write_results(tmp_path, study, findings, OWNERS)
    told = json.loads((tmp_path / "result.json").read_text())
    fit = told["inference"]["fit"]
    assert (told["rows"], fit["rows"], fit["freedom"]) == (findings.rows, findings.rows, findings.rows - 4)
    assert told["digest"] == study.digest().hex() and told["owners"] == OWNERS
    assert told["clipped"] == {"rows": 900, "values": {"age": 9, "days": "<5"}}
    assert np.allclose(told["inference"]["covariance"], findings.inference.covariance)
    # The level that all others were to be compared with was rare: another one is, and it is said.
    assert told["inference"]["references"] == {"ward": "=surgery"}
    assert "ward: the reference level is now =surgery" in told["merged_words"]
    summary = (tmp_path / "summary.txt").read_text()
    assert max(map(len, summary.splitlines())) <= 79
    assert "Reference levels: ward = =surgery" in summary and "model age alone" in summary
    assert page.name == "result.html"
    caution = (
        "what fewer than 5 rows of a device have is told as something else: a level as other, or as the"
        " commonest there, which may be the reference; nobody is told how many rows that is,"
        " so a level that is rare at every site is lost without a trace"
    )
    assert told["cautions"] == [caution] and caution in " ".join(summary.split()) and caution in page.read_text()
    for name in ("total.json", "result.json", "coefficients.csv"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0


def test_tables_that_r_reads(found: tuple[Study, StudyFindings]):
    study, findings = found
    result = result_json(study, findings, OWNERS)
    rows = list(csv.reader(coefficients_csv(result).splitlines()))
    assert rows[0] == [
        "model",
        "name",
        "coefficient",
        "standard_error",
        "statistic",
        "p",
        "low",
        "high",
        "class_modelled",
    ]
    assert [row[:2] for row in rows[1:]] == [
        *(["study", name] for name in findings.inference.names),
        *(["age alone", name] for name in ("constant", "age")),
    ]
    assert [float(row[3]) for row in rows[1:5]] == findings.inference.standard_errors.tolist()
    head, *rows = csv.reader(covariance_csv(result).splitlines())
    assert head == ["model", "name", *findings.inference.names]
    assert [[float(one) for one in row[2:]] for row in rows[:4]] == findings.inference.covariance.tolist()
    assert rows[4][4:] == ["", ""]  # R reads NA where a model has no such column


def test_what_a_spreadsheet_would_take_for_a_formula_is_text():
    row = {"name": "=1+1", "coefficient": -1.5}
    text = coefficients_csv({"models": [{"name": "@m", "coefficients": [row, {**row, "name": 'say "a", b'}]}]})
    assert text.splitlines()[1:] == [
        '"\'@m","\'=1+1",-1.5,,,,,,""',
        '"\'@m","say ""a"", b",-1.5,,,,,,""',
    ]


def test_the_page_stands_alone(found: tuple[Study, StudyFindings], tmp_path: Path):
    study, findings = found
    text = write_results(tmp_path, study, findings, OWNERS).read_text()
    page = Page(text)
    assert page.tags.count("table") == 4 and "Ordinary least squares" in page.texts
    assert "<script" not in text and not re.search(r"(src|href)=\"(?!data:,)", text)
    assert "ward = &lt;b&gt;eye" in text and "<b>eye" not in text
    assert text.count('<svg role="img"') == 4  # age and two levels, and age alone
    assert "clipped to its public range, of 900 values" in text and "Who sees what?" in text


def test_a_model_file_shows_no_counts(found: tuple[Study, StudyFindings], tmp_path: Path):
    """Neither the mean of a level nor a deviation: nothing but coefficients and public ranges."""
    study, findings = found
    write_results(tmp_path, study, findings, OWNERS)
    model = TrainedModel.load(tmp_path / "model.safetensors")
    scaling = model.recipe.preprocessing
    assert (scaling.shift.tolist(), scaling.scale.tolist()) == ([0, 0, 0], [120, 1, 1])
    rare, other = model.predict({"age": [50.0, 50.0], "ward": ["burns", "other"]})
    assert rare == other
    with pytest.raises(InvalidInput, match=r"^column 'ward' of .* must hold its levels only, got 'dental'"):
        model.predict({"age": [50.0], "ward": ["dental"]})


def test_classes_are_drawn_without_small_counts(tmp_path: Path):
    study, findings = stays(ClassTarget("long", ("no", "yes")), held_out=0.4)
    text = write_results(tmp_path, study, findings, OWNERS).read_text()
    assert (
        "Calibration" in text
        and "ROC curve" in text
        and '<th scope="col">as yes</th>' in text
        and "<h2>Score on held-out rows</h2>" in text
    )
    assert isinstance(findings.score, ClassScore)
    counts = [cell for row in findings.score.shown_confusion() or () for cell in row]
    assert counts and all(f"<td>{cell}</td>" in text for cell in counts)
    few = replace(findings, score=ClassScore.of([40, 3, 0, 57, *[4] * 20], 2, smallest_cell=5))
    text = write_results(tmp_path, study, few, OWNERS).read_text()
    assert "ROC curve are withheld" in text and "Calibration" not in text and "as yes" not in text


def test_who_is_not_in_it_and_how_numbers_were_rounded_is_on_the_page(found: tuple[Study, StudyFindings]):
    study, findings = found
    page = Page(study_page(result_json(study, findings, OWNERS, ["a", "b", "c", "d", "e"])))
    assert "without the rows of" in page.texts and "d, e" in page.texts
    assert "Numbers are rounded to whole steps: age 1." in page.texts
    assert "without the rows of" not in study_page(result_json(study, findings, OWNERS, ["a", "b", "c"]))


def test_a_model_with_one_constant_says_nothing_of_site_effects(found: tuple[Study, StudyFindings]):
    """The page of six hospitals said "sites 1": it was the number of constants."""
    study, findings = found
    assert findings.inference is not None and isinstance(findings.inference.fit, LeastSquaresFit)
    within = replace(findings.inference, fit=replace(findings.inference.fit, constants=6))
    plain, sites = (
        Page(study_page(result_json(study, one, OWNERS))) for one in (findings, replace(findings, inference=within))
    )
    assert "site effects" not in plain.texts and "constants" not in plain.texts
    place = sites.texts.index("site effects")
    assert sites.texts[place + 1] == "6"


@pytest.mark.parametrize(("held_out", "rows"), [(0.0, "the rows of the fit, which flatters"), (0.4, "held-out rows")])
def test_a_score_says_whether_its_rows_were_held_out(held_out: float, rows: str):
    """A logistic model without held-out rows is scored on those it was fitted to, and nobody may take it for better."""
    classes, model = ClassTarget("long", ("no", "yes")), LogisticModel("odds", ("ward",))
    study, findings = stays(classes, held_out=held_out, models=(model,))
    (odds,) = findings.models
    assert f"<h2>odds: Score on {rows}</h2>" in study_page(result_json(study, findings, OWNERS))
    assert any(("held-out rows" if held_out else "900 rows of the fit") in line for line in odds.lines())


def test_few_gaps_are_said_only_where_there_are_some():
    columns = tuple(StudyColumn(NumberColumn(name, 0.0), (0.0, 120.0), 1.0) for name in ("age", "bmi"))
    study = Study("stays", columns, NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    values = np.arange(90.0) % 41
    rows = {"age": values, "bmi": np.where(np.arange(90) < 6, np.nan, values[::-1]), "days": np.arange(90) % 53}
    parts = [as_raw_table({name: one[i : i + 30] for name, one in rows.items()}, "t.csv") for i in (0, 30, 60)]
    findings = conducted(study, [take_snapshot(study, part, bytes(16)) for part in parts])
    assert findings.merged == ((0,), (0,))
    assert merged_words(study, findings) == ["bmi: its gaps are too few to be marked and count as 0"]


def test_least_squares_of_a_yes_or_no_is_not_advised(found: tuple[Study, StudyFindings]):
    study, findings = found
    line = (
        "days has two values, for which classical standard errors of least squares are wrong: give it classes and a"
        ' [[model]] of kind "logistic", or take kind "robust"'
    )
    two = replace(study, target=NumberTarget("days", (0.0, 1.0), 1.0))
    assert cautions(study) == few_words(study) and cautions(two) == [*few_words(two), line]
    assert cautions(replace(two, inference=False, models=())) == few_words(two)
    assert html.escape(line) in study_page(result_json(two, findings, OWNERS))


def test_curves_of_survival_are_drawn_and_named(found: tuple[Study, StudyFindings]):
    study, findings = found
    curve = np.array([30.0, 60.0]), np.array([40, 30]), np.array([6, 9])
    curves = (Curve("a", *curve), Curve("<b>", *curve))
    finding = SurvivalFinding("after surgery", curves, 2.5, 1, 0.11, (20.0, 45.0))
    models = (finding, NotFound("ill", "logistic", "got 3 classes"))
    text = study_page(result_json(study, replace(findings, models=models), OWNERS))
    assert text.count("<polyline") == 2 and "&lt;b&gt;" in text
    assert "p 0.11. Times merged into the next one, since too few rows end there: 20, 45</p>" in text
    assert "log-rank test: chi² 2.5 on 1, p 0.11" in text and "<p>ill: none, got 3 classes</p>" in text
    Page(text)


def test_residuals_and_table_1_are_on_the_page(found: tuple[Study, StudyFindings]):
    study, findings = found
    residuals = ResidualsFinding("check", 2.0, np.array([-1.0, 0.0, 1.0]), np.array([16, 34, 34, 16]))
    age = DescribedNumber("age", 480, "few", 61.5, 17.1, (31, 50, 63, None, 86), (0.0, 200.0), 1.0, None)
    ward = DescribedLevels("ward", ("a", "b"), (("a", 470), ("b", None)))
    table = TableOneFinding("table 1", 480, 0, (age, ward), "days", "", {})
    text = study_page(result_json(study, replace(findings, models=(residuals, table)), OWNERS))
    page = Page(text)
    assert page.tags.count("rect") == 4 and "Normal QQ plot" in page.texts
    at = page.texts.index("age", page.texts.index("Table 1"))
    assert page.texts[at : at + 8] == ["age", "480", "few", "61.5", "17.1", "63", "50", "-"]
    assert page.texts[at + 8 : at + 12] == ["ward = a", "470", "ward = b", "few"]


def test_a_chart_keeps_to_its_axes():
    chart = Chart("time", "alive", (0.0, 10.0), (0.0, 1.0))
    chart.steps([0.0, 5.0, 10.0], [1.0, 0.5, 0.25])
    numbers = [float(one) for one in re.findall(r"-?\d+\.\d+(?=[, ])", chart.svg().split("points=")[1])]
    assert all(math.isfinite(one) and -1 <= one <= 361 for one in numbers)


def test_without_a_total_there_is_nothing_to_refit(found: tuple[Study, StudyFindings], tmp_path: Path):
    study, findings = found
    write_results(tmp_path, study, replace(findings, total=[]), OWNERS)
    assert not (tmp_path / "total.json").exists()
