"""Formulas, derived columns and missing values: against patsy and statsmodels, refused in one line, judged as rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.formula.api as smf
from clinics import AGE, CRP, DAYS, KEY, SEX, STUDY, agreed, identity

from codedfl.analyses.cells import merge_rare
from codedfl.contract.approval import approve
from codedfl.contract.check import check_design, check_table
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.draft import draft_of_table, study_text
from codedfl.contract.formula import draft_with_formula, expand, formula_objection
from codedfl.contract.merging import merged_study
from codedfl.contract.models import PoissonModel, RobustModel
from codedfl.contract.small_cells import own_rows
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study
from codedfl.contract.study_columns import NumberTarget, StudyColumn
from codedfl.contract.toml_file import parse_study
from codedfl.contract.words import explain
from codedfl.data.columns import CategoryColumn, DerivedColumn, NumberColumn
from codedfl.data.derived import Factor
from codedfl.data.model import TrainedModel
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.statistics.cells import Cells
from rehearsals import parts_of, rehearsed
from wording import exactly

COST = StudyColumn(NumberColumn("cost"), (1.0, 1000.0), 1.0)
WARD = StudyColumn(CategoryColumn("ward", ("a", "b", "c")))
COLUMNS = (AGE, COST, WARD, SEX)
FORMULA = "days ~ C(ward) * log(cost) + sex + bs(age, 5) + I(cost**2)"


def people(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, cost = rng.integers(20, 90, rows).astype(float), np.round(np.exp(rng.normal(4, 1, rows))).clip(1, 999)
    ward, sex = rng.choice(list("abc"), rows), rng.choice(["f", "m"], rows)
    days = 5 + age / 10 + np.log(cost) * (1 + (ward == "b")) + 2 * (sex == "m") + rng.normal(0, 2, rows)
    return pd.DataFrame({"age": age, "cost": cost, "ward": ward, "sex": sex, "days": np.round(days.clip(0, 60))})


def study_of(formula: str, **more) -> Study:
    return Study("stay", expand(formula, COLUMNS, "days"), DAYS, 10_000, 2000, 3, held_out=0.0, formula=formula, **more)


def test_the_columns_are_those_that_patsy_makes():
    study, frame = study_of(FORMULA), people()
    codes, clipped = study.codes(as_raw_table(frame))
    # The same knots for both: patsy would take quantiles of the rows.
    formula = (
        FORMULA.partition("~")[2]
        .replace("log", "np.log")
        .replace("bs(age, 5)", "bs(age, knots=[110 / 3, 220 / 3], degree=3, lower_bound=0, upper_bound=110)")
    )
    oracle = patsy.dmatrix(formula, frame, return_type="dataframe")
    ours = study.matrix(codes)
    assert not clipped.any()
    assert ours.shape[1] == oracle.shape[1] - 1
    steps = study.units.step
    for place in range(ours.shape[1]):
        distance = np.abs(oracle.to_numpy() - ours[:, [place]]).max(axis=0).min()
        assert distance <= steps[place] / 2 + 1e-9, study.design_names[place]


def test_a_regression_by_formula_is_that_of_statsmodels(tmp_path: Path):
    frame = people(900)
    study = replace(study_of("days ~ C(ward) * log(cost) + age + I(age**2)"), inference=True, regularisation=0.0)
    done = rehearsed(study, parts_of(as_raw_table(frame), 5))
    found = done.findings.inference
    oracle = smf.ols("days ~ C(ward) * np.log(cost) + age + I(age**2)", frame).fit()
    names = {
        "constant": "Intercept", "ward = b": "C(ward)[T.b]", "ward = c": "C(ward)[T.c]", "log(cost)": "np.log(cost)",
        "age": "age", "age^2": "I(age ** 2)", "ward = b:log(cost)": "C(ward)[T.b]:np.log(cost)",
        "ward = c:log(cost)": "C(ward)[T.c]:np.log(cost)",
    }  # fmt: skip
    assert sorted(found.names) == sorted(names)
    for name, b, error in zip(found.names, found.coefficients, found.standard_errors, strict=True):
        assert abs(b - oracle.params[names[name]]) < 1e-3 * error  # log(cost) is rounded to its step
        assert error == pytest.approx(oracle.bse[names[name]], rel=1e-4)
    # The model predicts from raw tables, also after it was a file.
    path = tmp_path / "m.safetensors"
    done.findings.model.save(path)
    assert TrainedModel.load(path).predict(frame) == pytest.approx(oracle.predict(frame).clip(0, 60), abs=1e-3)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("days ~ scale(age)", "the formula must learn nothing from rows, got scale(age)"),
        ("days ~ poly(age, 2)", "the formula must learn nothing from rows, got poly(age, 2)"),
        (
            "days ~ {__import__('os').system('x')}",
            "a term of the formula must be a column or a call, got \"__import__('os').system('x')\"",
        ),
        (
            "days ~ evil(age)",
            "the formula must call log, log2, log10, log1p, exp, sqrt, C, I(x**2), bs of one column only, got"
            " 'evil(age)'",
        ),
        ("days ~ 0 + age", "the formula must keep its constant, got one without: leave out '0 +' and '- 1'"),
        ("log(days) ~ age", "the formula must begin with the target, 'days ~', got 'log(days)'"),
        (
            "days ~ log(age)",
            "range of column 'age' must begin where log(age) is defined, got 0: take log1p, or begin above 0",
        ),
        ("days ~ C(age)", "column 'age' must be a category in the study for 'C(age)', got another kind"),
        ("days ~ bmi", "the formula must name columns of the study (age, cost, ward, sex), got 'bmi'"),
        (
            "days ~ C(ward):age",
            "a product of the formula must have its parts beside it, got ward:age without age: write a * b",
        ),
        (
            "days ~ bs(age, knots=[50, 40])",
            "knots of bs must be a list of ascending numbers within [0.0, 110.0], got 'bs(age, knots=[50, 40])'",
        ),
        ("days ~ 1", "the formula must have a column beside its constant, got 'days ~ 1'"),
        (
            "days ~ (age + sex)**9",
            "the formula must have at most 1000 letters, 8 products, one (a + b)**2 or **3 and no ^, got"
            " 'days ~ (age + sex)**9'",
        ),
    ],
)
def test_other_formulas_are_refused(formula: str, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        expand(formula, COLUMNS, "days")


def test_a_drafted_file_lists_what_the_formula_makes():
    table = as_raw_table(people(), "t.csv")
    formula = "days ~ C(ward) * log(cost) + bs(age, 4)"

    def drafted(table: RawTable | None, keep: tuple[str, ...]) -> str:
        assert table is not None
        return study_text(draft_of_table(table, "days", "t", task="regression", keep=keep))

    wide = r"^a spline must reach at least 500 of its steps in the sample, got 275 of 'bs\(age, 4\)\["
    with pytest.raises(InvalidInput, match=wide):
        draft_with_formula(table, formula, drafted)
    text = draft_with_formula(table, formula, lambda *given: drafted(*given).replace("[0.0, 800.0]", "[0.0, 100.0]"))
    study = parse_study(text)
    assert study.formula == formula and formula_objection(study) == ""
    assert [one.column.name for one in study.columns if not one.column.in_model] == ["cost", "age"]
    assert study.design_names == (
        *("ward = b", "ward = c", "log(cost)", "ward = b:log(cost)", "ward = c:log(cost)"),
        *(f"bs(age, 4)[{i}]" for i in (1, 2, 3, 4)),
    )
    assert check_table(study, table).usable
    other = replace(study, columns=study.columns[:-1])
    assert formula_objection(other) == "columns must be the 10 of the formula, got 9"


def test_what_only_a_further_model_uses_may_stand_beside_a_formula():
    """A cluster, an offset, an event: rehearsals took them, and study check refused the file."""
    formula = "days ~ age * C(ward)"
    made = expand(formula, (AGE, WARD), "days")
    names = tuple(one.column.name for one in made)
    models = (RobustModel("r", names, "cluster", "sex"), PoissonModel("p", names, offset="cost"))
    study = replace(STUDY, columns=(SEX.beside(), COST.beside(), *made), formula=formula, models=models, held_out=0.0)
    assert formula_objection(study) == ""
    assert check_table(study, as_raw_table(people(80))).usable
    message = "column 'cost' must have in_model = false, since the formula does not name it"
    assert formula_objection(replace(study, columns=(COST, *made), models=())) == message


def test_a_derived_column_cannot_clip_and_is_made_of_listed_columns():
    made = DerivedColumn("age:cost", factors=(Factor("age"), Factor("cost")))
    with pytest.raises(
        InvalidInput, match=r"^range of column 'age:cost' must hold what its factors give, \[0, 110000\]"
    ):
        replace(STUDY, columns=(AGE, COST, StudyColumn(made, (0.0, 90.0), 1.0)))
    with pytest.raises(InvalidInput, match=r"listed before it, got 'cost'$"):
        replace(STUDY, columns=(AGE, StudyColumn(made, (0.0, 110_000.0), 1.0), COST))


def test_a_rare_product_is_left_out_and_a_level_that_is_merged_takes_its_products():
    ward = StudyColumn(CategoryColumn("ward", ("a", "b", "c", "d")))
    study = replace(STUDY, columns=expand("days ~ age * C(ward)", (AGE, ward), "days"))
    frame, counts = people(), np.zeros(Cells(study).length, dtype=np.int64)
    frame["ward"] = ["cd"[i // 4] if i < 8 else "ab"[i // 4 % 2] for i in range(len(frame))]  # c and d: 4 rows each
    for device in range(4):
        rows = take_snapshot(study, as_raw_table(frame[device::4]), bytes([device] * 16))
        counts += Cells(study).vector(rows)
    merged = merge_rare(study, counts.tolist())
    left = merged_study(study, merged)
    assert left.design_names == ("age", "ward = b", "ward = other", "age:ward = b")


def test_what_a_derived_column_does_to_rows_is_shown():
    study = study_of("days ~ age * C(ward)")
    own = own_rows(study, as_raw_table(people(80)), KEY)
    shown = check_design(study, own.snapshot)
    by_name = {one.name: one.differs for one in shown}
    assert by_name["age:ward = b"] == int((people(80).ward == "b").sum())
    answers = [answer for section in explain(study, own=own) for answer in section.answers]
    assert "age:ward = b: made of these on this machine, age x ward = b, from 0 to 110, to 1" in answers
    assert "the author's formula, of which the columns above are made: days ~ age * C(ward)" in answers


# -- missing values


def test_codes_are_gaps_and_complete_cases_leave_them_out():
    age = replace(AGE, column=NumberColumn("age", missing_codes=(-9.0, 999.0)))
    sex = replace(SEX, column=CategoryColumn("sex", ("f", "m"), missing_codes=("9", "unknown")))
    target = NumberTarget("days", (0.0, 60.0), 1.0, (-1.0,))
    study = replace(STUDY, columns=(age, CRP, sex), target=target, complete_cases=True)
    table = as_raw_table(
        {
            "age": [50, -9, 60, 70, 80, 30],
            "crp": [1.0, 1.0, None, 2.0, 3.0, 4.0],
            "sex": ["f", "m", "m", "unknown", "f", "m"],
            "days": [3, 4, 5, 6, -1, 7],
        },
        "t.csv",
    )
    rows = take_snapshot(study, table, KEY)
    # A gap of crp has its value, and one gap of age takes the mean of the rows that are left: both stay.
    assert rows.target.tolist() == [3, 4, 5, 7] and rows.codes[1, 0] == round((50 + 60 + 30) / 3)
    assert type(rows).decode(rows.encode()).left_out == rows.left_out == 2
    strict = replace(study, smallest_cell=1)
    assert take_snapshot(strict, table, KEY).target.tolist() == [3, 5, 7]
    found = check_table(strict, table)
    assert (found.rows, found.left_out) == (3, 3)
    used = explain(strict)[1].answers
    assert "rows with a gap are left out" in used[0] and not any("gaps are refused" in line for line in used)
    with pytest.raises(InvalidInput, match=r"^the target 'days' of t.csv must have no gaps, got 1"):
        take_snapshot(replace(study, complete_cases=False), table.rows(np.array([0, 4])), KEY)


def test_a_code_must_not_be_a_value():
    with pytest.raises(
        InvalidInput, match=r"^missing_codes of column 'age' must lie outside its range, got 99: narrow the range$"
    ):
        replace(AGE, column=NumberColumn("age", missing_codes=(99.0,)))
    with pytest.raises(InvalidInput, match=exactly("missing_codes of column 'sex' must be no levels, got 'm'")):
        CategoryColumn("sex", ("f", "m"), missing_codes=("m",))


def test_complete_cases_are_judged_by_the_row_rule(tmp_path: Path):
    """Two studies of which one leaves out few patients for gaps: their difference would be these."""
    from clinics import ROSTER

    rng = np.random.default_rng(1)
    columns = {
        "age": rng.integers(20, 90, 60).tolist(),
        "bmi": [*[None] * 5, *np.round(rng.normal(26, 4, 55), 1).tolist()],
        "days": rng.integers(1, 40, 60).tolist(),
    }
    table, folder = as_raw_table(columns, "t.csv"), DeviceFolder(tmp_path / "clinic-1")
    bmi = StudyColumn(NumberColumn("bmi"), (10.0, 60.0), 0.1)
    first = agreed(replace(STUDY, columns=(AGE,)))
    second = agreed(replace(STUDY, name="second", columns=(AGE, bmi), complete_cases=True))
    key = identity("clinic-1").public
    approve(first, ROSTER, "clinic-1", key, table, folder, who="Ada", when="today")
    with pytest.raises(InvalidInput, match=r"^rows with the same history must number none or at least \d+, got 5 on"):
        approve(second, ROSTER, "clinic-1", key, table, folder, who="Ada", when="today")
