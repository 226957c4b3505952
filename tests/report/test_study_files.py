"""What a study leaves behind for a paper: JSON, tables for R, a summary and a page, without small counts."""

from __future__ import annotations

import csv
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_reader import Page

from codedfl.analyses.analysis import NotFound
from codedfl.analyses.least_squares import LeastSquaresFit
from codedfl.analyses.left_out import terms_left_out
from codedfl.analyses.residuals import ResidualsFinding
from codedfl.analyses.scoring import ClassScore
from codedfl.analyses.study_analysis import StudyFindings
from codedfl.analyses.survival import SurvivalCurve, SurvivalFinding
from codedfl.analyses.table_one import DescribedLevels, DescribedNumber, TableOneFinding
from codedfl.authoring.formula import expand
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.robust import RobustModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study, SubModel
from codedfl.contract.words import explain
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.model import TrainedModel
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from codedfl.report.methods import methods_text
from codedfl.report.result_tables import flow
from codedfl.report.study_files import (
    cautions,
    coefficients_csv,
    covariance_csv,
    merged_words,
    result_json,
    write_report,
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
        NumberColumn("age", (0.0, 120.0), 1.0),
        CategoryColumn("ward", ("burns", "ear", "=surgery", "<b>eye")),
    )
    made = Study("stays", columns, target, 5000, 1000, 3, **changes)
    return made, conducted(made, dealt(made, raw))


@pytest.fixture(scope="module")
def found() -> tuple[Study, StudyFindings]:
    models = (SubModel("age alone", ("age",), inference=True),)
    return stays(NumberTarget("days", (0.0, 60.0), 1.0), inference=True, most_clipped=0.1, models=models)


def test_rows_left_out_are_told_unless_they_are_few(tmp_path: Path):
    age = NumberColumn("age", (0.0, 120.0), 1.0)
    study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, complete_cases=True)
    said = []
    for gaps in (0, 4, 40):
        days = np.where(np.arange(900) < gaps, np.nan, np.arange(900) % 31)
        raw = as_raw_table({"age": np.arange(900.0) % 70 + 20, "days": days}, "t.csv")
        findings = conducted(study, dealt(study, raw))
        folder = tmp_path / str(gaps)
        folder.mkdir()
        page = write_results(folder, study, findings, OWNERS).read_text()
        line = f"rows left out for missing values: {findings.left_out}"
        told = json.loads((folder / "result.json").read_text())
        said.append((told["left_out"], line in page, line in (folder / "summary.txt").read_text()))
    assert said == [(0, False, False), ("few", True, True), (40, True, True)]


def test_what_a_reference_was_merged_with_is_said():
    ward = CategoryColumn("ward", ("other", "a", "b"), other="other")
    study = Study("stays", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    findings = StudyFindings(None, None, "", None, "", 100, (), [], ((2,), (), ()))
    assert merged_words(study, findings) == [
        "ward: b counted with other as 'other', at every device: too few people have one of these",
        "ward: the reference level is now other",
    ]


def test_a_term_that_vanished_is_named_with_the_reason_everywhere(tmp_path: Path):
    """Two of each device's patients are old emergencies, too few in all; nobody is a transfer."""
    kinds = np.tile(np.array(["elective"] * 30 + ["urgent"] * 20 + ["emergency"] * 10), 4)
    old = np.tile(np.array([0.0, 1.0] * 25 + [0.0] * 8 + [1.0] * 2), 4)
    table = {"type": kinds, "old": old, "days": np.arange(240.0) % 31}
    levels = ("elective", "urgent", "emergency", "transfer")
    kind, age = CategoryColumn("type", levels), NumberColumn("old", (0.0, 1.0), 1.0)
    columns = expand("days ~ C(type) * old", (kind, age), "days")
    target = NumberTarget("days", (0.0, 60.0), 1.0)
    model = RobustModel("robust", tuple(one.name for one in columns))
    study = Study("stays", columns, target, 5000, 1000, 3, held_out=0.0, inference=True, models=(model,))
    parts = [as_raw_table({name: one[i : i + 60] for name, one in table.items()}) for i in range(0, 240, 60)]
    rows = [take_snapshot(study, part, bytes([place] * 16)) for place, part in enumerate(parts)]
    findings = conducted(study, rows)
    gone = {
        "type = transfer": "no row has it",
        "type = emergency:old": "it varies in too few people, or a level in it does",
        "type = transfer:old": "it is the same in all rows",
    }
    page = write_results(tmp_path, study, findings, OWNERS).read_text()
    told = json.loads((tmp_path / "result.json").read_text())
    assert {one["term"]: one["why"] for one in told["terms_left_out"]} == gone
    summary = " ".join((tmp_path / "summary.txt").read_text().split())
    for term, reason in gone.items():
        assert f"left out: {term}, since {reason}" in summary
        assert f'<p class="caution">left out: {term}, since {reason}</p>' in page
    assert findings.inference is not None
    asked = {"constant", *study.design_names}
    assert asked - set(findings.inference.names) == set(gone), (
        "nothing else vanishes, and nothing is named that is there"
    )
    assert terms_left_out(study, findings.merged, findings.total, ("old",)) == ()


def test_a_reference_level_that_nobody_has_is_replaced_aloud():
    ward = CategoryColumn("ward", ("none", "a", "b"))
    study = Study("stays", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, inference=True, held_out=0.0)
    values = np.arange(90)
    raw = as_raw_table({"ward": np.where(values % 2 == 0, "a", "b"), "days": values % 31 * 1.0})
    findings = conducted(study, dealt(study, raw, 3))
    first, second = (one.line for one in terms_left_out(study, findings.merged, findings.total))
    assert first == "left out: ward = none, since no row has it"
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
    # The level that all others were to be compared with was rare: another one is, and it is said. The rare one cannot
    # be counted alone; bits tell no difference between the others, so the last of them joins it.
    assert told["inference"]["references"] == {"ward": "ear"} and findings.merged[1] == (0, 3)
    assert "ward: the reference level is now ear" in told["merged_words"]
    summary = (tmp_path / "summary.txt").read_text()
    assert max(map(len, summary.splitlines())) <= 79
    assert "Reference levels: ward = ear" in summary and "model age alone" in summary
    assert page.name == "result.html"
    assert told["cautions"] == [] and "recoded" not in told, "nothing is recoded on a device"
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
        "ratio",
        "ratio_low",
        "ratio_high",
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
        '"\'@m","\'=1+1",-1.5,,,,,,,,,""',
        '"\'@m","say ""a"", b",-1.5,,,,,,,,,""',
    ]


def test_the_page_stands_alone(found: tuple[Study, StudyFindings], tmp_path: Path):
    """Its figures are in it, and every link leads to its own folder."""
    study, findings = found
    text = write_results(tmp_path, study, findings, OWNERS).read_text()
    page = Page(text)
    assert page.tags.count("table") == 3 and page.tags.count("figure") == 2
    assert "<script" not in text and "xmlns" not in text
    links = [
        value for name, value in page.attributes if name in ("src", "href") and not value.startswith(("data:", "#"))
    ]
    assert len(links) == 3 * (3 + 2) and all((tmp_path / one).stat().st_size > 50 for one in links)
    assert "<b>eye" not in text and "&lt;b&gt;eye" in text and "Who sees what?" in text
    order = [text.index(f">{name}</h2>") for name in ("Answer", "Figures", "Tables", "Methods", "Rows and columns")]
    assert order == sorted(order) and order[-1] < text.index("<details")
    methods = " ".join(page.texts[page.texts.index("Methods") :])
    assert "(age 9, days &lt;5 of 900 rows)".replace("&lt;", "<") in methods


def test_a_report_is_made_of_result_json_alone(found: tuple[Study, StudyFindings], tmp_path: Path):
    """A server without matplotlib leaves no figures; whoever has it makes them, and the same page, of the file."""
    study, findings = found
    first = write_results(tmp_path, study, findings, OWNERS)
    again = tmp_path / "again"
    again.mkdir()
    assert write_report(again, json.loads((tmp_path / "result.json").read_text())).read_bytes() == first.read_bytes()
    written = {one.relative_to(again) for one in again.rglob("*") if one.is_file()}
    assert {Path("methods.txt"), Path("figures/forest.pdf"), Path("tables/rows.tex")} <= written
    for one in written:
        assert (again / one).read_bytes() == (tmp_path / one).read_bytes(), one


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
    assert "calibration and ROC curve on" in text and '<th scope="col">as yes</th>' in text
    assert "Predictions on held-out rows" in text
    assert isinstance(findings.score, ClassScore)
    counts = [cell for row in findings.score.shown_confusion() or () for cell in row]
    assert counts and all(f">{cell}</td>" in text for cell in counts)
    few = replace(findings, score=ClassScore.of([40, 3, 0, 57, *[4] * 20], 2, smallest_cell=5))
    page = Page(write_results(tmp_path, study, few, OWNERS).read_text())
    said = " ".join(page.texts)
    assert "withheld for small cells" in said and "ROC curve are withheld" in said
    assert "figure" not in page.tags and "as yes" not in said


def test_who_is_not_in_it_and_how_numbers_were_rounded_is_on_the_page(found: tuple[Study, StudyFindings]):
    study, findings = found
    page = Page(study_page(result_json(study, findings, OWNERS, ["a", "b", "c", "d", "e"])))
    assert "without the rows of" in page.texts and "d, e" in page.texts
    assert "Numbers were recorded in steps of age 1." in " ".join(page.texts)
    assert "without the rows of" not in study_page(result_json(study, findings, OWNERS, ["a", "b", "c"]))


def test_a_model_with_one_constant_says_nothing_of_site_effects(found: tuple[Study, StudyFindings]):
    """The page of six hospitals said "sites 1": it was the number of constants."""
    study, findings = found
    assert findings.inference is not None and isinstance(findings.inference.fit, LeastSquaresFit)
    within = replace(findings.inference, fit=replace(findings.inference.fit, constants=6))
    plain, sites = (
        study_page(result_json(study, one, OWNERS)) for one in (findings, replace(findings, inference=within))
    )
    assert "1 site effects" not in plain and "constant for each site" not in plain
    assert "6 site effects" in sites and "with a constant for each site" in sites


@pytest.mark.parametrize(("held_out", "rows"), [(0.0, "the rows of the fit, which flatters"), (0.4, "held-out rows")])
def test_a_score_says_whether_its_rows_were_held_out(held_out: float, rows: str):
    """A logistic model without held-out rows is scored on those it was fitted to, and nobody may take it for better."""
    classes, model = ClassTarget("long", ("no", "yes")), LogisticModel("odds", ("ward",))
    study, findings = stays(classes, held_out=held_out, models=(model,))
    (odds,) = findings.models
    text = study_page(result_json(study, findings, OWNERS))
    assert f"odds, predictions on {rows}" in text
    assert ("held-out rows." if held_out else "900 rows of the fit.") in text
    assert any(("held-out rows" if held_out else "900 rows of the fit") in line for line in odds.lines())


def test_few_gaps_are_said_only_where_there_are_some():
    columns = tuple(NumberColumn(name, (0.0, 120.0), 1.0, missing=0.0) for name in ("age", "bmi"))
    study = Study("stays", columns, NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    values = np.arange(90.0) % 41
    rows = {"age": values, "bmi": np.where(np.arange(90) < 6, np.nan, values[::-1]), "days": np.arange(90) % 53}
    parts = [as_raw_table({name: one[i : i + 30] for name, one in rows.items()}, "t.csv") for i in (0, 30, 60)]
    findings = conducted(study, [take_snapshot(study, part, bytes(16)) for part in parts])
    assert findings.merged == ((), (0,), (), ()), "six are of one device alone; nobody's age is missing"
    assert merged_words(study, findings) == [
        "bmi: missing in too few rows to be distinguished, these count as 0, unmarked"
    ]


def test_least_squares_of_a_yes_or_no_is_not_advised(found: tuple[Study, StudyFindings]):
    study, findings = found
    line = (
        "days has two values, for which classical standard errors of least squares are wrong: give it classes and a"
        ' [[model]] of kind "logistic", or take kind "robust"'
    )
    two = replace(study, target=NumberTarget("days", (0.0, 1.0), 1.0))
    assert (cautions(study), cautions(two), cautions(replace(two, inference=False, models=()))) == ([], [line], [])
    assert html.escape(line) in study_page(result_json(two, findings, OWNERS))


def plain(page: Page) -> str:
    """All texts, whatever keeps their words together."""
    return " ".join(page.texts).replace("\N{NO-BREAK SPACE}", " ")


def test_labels_and_units_stand_wherever_people_read(found: tuple[Study, StudyFindings], tmp_path: Path):
    """They are in no digest: a word is corrected without a new approval, and programs read the same names."""
    study, findings = found
    labels = (("age", "Age <at> entry", "years"), ("ward", "Ward", ""), ("days", "", "days"))
    called = replace(study, labels=labels)
    assert called.digest() == study.digest()
    page = plain(Page(write_results(tmp_path, called, findings, OWNERS).read_text()))
    assert "Age <at> entry, years" in page and "days, days" in page
    tables = "".join(one.read_text() for one in (tmp_path / "tables").glob("*.csv"))
    assert '"Age <at> entry, years"' in tables and '"age"' not in tables
    assert "Age <at> entry 1 years" in (tmp_path / "methods.txt").read_text()
    assert "Age" not in (tmp_path / "coefficients.csv").read_text()
    before = json.loads((tmp_path / "result.json").read_text())
    assert before["labels"]["age"] == {"label": "Age <at> entry", "unit": "years"}
    assert any(
        "every site records age in years, days in days" in one for part in explain(called) for one in part.answers
    )


def test_curves_of_survival_are_drawn_and_named(found: tuple[Study, StudyFindings], tmp_path: Path):
    study, findings = found
    curve = np.array([30.0, 60.0]), np.array([40, 30]), np.array([6, 9])
    curves = (SurvivalCurve("a", *curve), SurvivalCurve("<b>", *curve[:2], np.array([6, 20])))
    finding = SurvivalFinding("after surgery", curves, 2.5, 1, 0.11, (20.0, 45.0))
    models = (finding, NotFound("ill", "logistic", "got 3 classes"))
    page = Page(write_results(tmp_path, study, replace(findings, models=models), OWNERS).read_text())
    assert "95\N{NO-BREAK SPACE}% interval" in " ".join(page.texts), "no line ends within it"
    said = plain(page)
    assert "Log-rank test: chi² 2.50 on 1 df, p = 0.11." in said
    assert "Times merged into the next one, since too few rows end there: 20, 45." in said
    assert "after surgery: median of days: a not reached, <b> 60; log-rank p = 0.11." in said
    assert "ill: none, got 3 classes." in said
    head, *rows = csv.reader((tmp_path / "tables" / "survival-after-surgery.csv").read_text().splitlines())
    assert head == ["", "n", "Events", "Censored", "Median (95 % interval)", "Share at 60 (95 % interval)"]
    assert [row[:5] for row in rows] == [
        ["a", "40", "15", "25", "not reached (60 to not reached)"],
        ["<b>", "40", "26", "14", "60 (60 to 60)"],
    ]
    assert (tmp_path / "figures" / "survival-after-surgery.pdf").read_bytes().startswith(b"%PDF")


def test_residuals_and_table_1_are_on_the_page(found: tuple[Study, StudyFindings], tmp_path: Path):
    study, findings = found
    residuals = ResidualsFinding("check", 2.0, np.array([-1.0, 0.0, 1.0]), np.array([16, 34, 34, 16]))
    age = DescribedNumber("age", 480, "few", 61.5, 17.1, (31, 50, 63, None, 86), (0.0, 200.0), 1.0, None)
    ward = DescribedLevels("ward", ("a", "b"), (("a", 470), ("b", None)))
    table = TableOneFinding("table 1", 480, 0, (age, ward), "days", "", {})
    text = write_results(tmp_path, study, replace(findings, models=(residuals, table)), OWNERS).read_text()
    assert "histogram and normal QQ plot" in text and (tmp_path / "figures" / "residuals-check.svg").exists()
    rows = list(csv.reader((tmp_path / "tables" / "table-1.csv").read_text().splitlines()))
    assert rows == [
        ["", "All, n = 480"],
        ["age"],
        ["mean (SD)", "61.5 (17.1)"],
        ["median [IQR]", "63 [50 to —]"],
        ["missing, n (%)", "few"],
        ["ward, n (%)"],
        ["a", "470 (97.9 %)"],
        ["b", "few"],
    ]
    assert text.index("table 1, characteristics") < text.index("Ordinary least squares: days"), "Table 1 is the first"


def test_odds_ratios_are_printed_everywhere(tmp_path: Path):
    """The page, summary, tables for R and the methods paragraph, with the class and the reference levels."""
    model = LogisticModel("odds", ("ward",))
    study, findings = stays(ClassTarget("long", ("no", "yes")), held_out=0.0, most_clipped=0.1, models=(model,))
    (odds,) = findings.models
    page = Page(write_results(tmp_path, study, findings, OWNERS, rehearsal=True).read_text())
    inference = odds.inference
    ratios = np.exp(np.column_stack((inference.coefficients, inference.low, inference.high))[1:])
    assert inference.effects == inference.names[1:] and np.array_equal(inference.ratios(), ratios)
    rows = [
        one
        for one in csv.DictReader((tmp_path / "coefficients.csv").read_text().splitlines())
        if one["model"] == "odds"
    ]
    assert rows[0]["ratio"] == "" and [float(one["ratio"]) for one in rows[1:]] == ratios[:, 0].tolist()
    summary = (tmp_path / "summary.txt").read_text()
    assert re.search(r"^ +odds ratio +\[0\.025 +0\.975\]$", summary, re.MULTILINE)
    first = " +".join((re.escape(inference.names[1]), *(f"{one:.4g}" for one in ratios[0])))
    assert re.search(f"^{first}$", summary, re.MULTILINE)
    said, methods = plain(page), (tmp_path / "methods.txt").read_text()
    assert f"odds: odds ratio of long = yes per unit, with 95 % interval: {inference.names[1]} against ear " in said
    assert "The odds of long = yes were modelled by logistic regression, fitted by Newton's method" in methods
    assert "Reference levels: ward = ear. Estimates are odds ratios with 95 % intervals." in methods
    assert "analysed in a rehearsal on one machine" in methods and "approved at each site" not in methods
    latex = (tmp_path / "tables" / "effects-odds.tex").read_text()
    assert "Odds ratio (95 \\% interval) & p" in latex and "\\quad =surgery & " in latex


def test_methods_are_true_of_a_run_on_machines(found: tuple[Study, StudyFindings]):
    study, findings = found
    result = result_json(study, findings, OWNERS, ["a", "b", "c", "d"])
    text = methods_text(result)
    for sentence in (
        "Data of 3 sites (n = 900 rows) were analysed without leaving the sites.",
        f"SHA-256 {study.digest().hex()}) was approved at each site before any data were used.",
        "The rows of 1 invited site are not included: d.",
        "Levels of which it could not be shown that 5 people over all sites had them were joined with others, the same"
        " at every site.",
        "The outcome days was modelled by ordinary least squares; standard errors are classical.",
        "each of at least 3 sites",
        "also together with 1 site that would help it",
    ):
        assert sentence in text, sentence
    few = methods_text({**result, "left_out": "few", "without": [], "colluders": 0})
    assert "Few rows with missing values were left out." in few and "help it" not in few and "invited" not in few


def test_rows_left_out_at_each_step_add_up(tmp_path: Path):
    age = NumberColumn("age", (0.0, 120.0), 1.0)
    target = NumberTarget("days", (0.0, 60.0), 1.0)
    study = Study("stays", (age,), target, 5000, 1000, 3, complete_cases=True, held_out=0.3, inference=True)
    days = np.where(np.arange(900) < 40, np.nan, np.arange(900) % 31)
    raw = as_raw_table({"age": np.arange(900.0) % 70 + 20, "days": days}, "t.csv")
    findings = conducted(study, dealt(study, raw))
    result = result_json(study, findings, OWNERS)
    whole, left, held_out, kept = (row.cells[1] for row in flow(result).rows)
    assert (whole, left) == ("900", "40") and int(held_out) + int(kept) == 860 and int(kept) == findings.rows
    few = [row.cells[1] for row in flow({**result, "left_out": "few"}).rows]
    assert few[:2] == ["not given exactly", "few"], "the whole less what is left would tell the few"


def test_without_a_total_there_is_nothing_to_refit(found: tuple[Study, StudyFindings], tmp_path: Path):
    study, findings = found
    write_results(tmp_path, study, replace(findings, total=[]), OWNERS)
    assert not (tmp_path / "total.json").exists()
