"""Formulas, derived columns and missing values: against patsy and statsmodels, refused in one line, judged as rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import patsy
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from clinics import AGE, CRP, DAYS, KEY, SEX, STUDY, agreed, identity

from codedfl.analyses.glm import GlmFinding
from codedfl.authoring.check import check_table
from codedfl.authoring.formula import Response, draft_with_formula, expand, formula_objection, parse_formula
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.study_text import study_text
from codedfl.contract.approval import Deciding, approve
from codedfl.contract.design_columns import check_design
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.merging import merged_study
from codedfl.contract.models.poisson import PoissonModel
from codedfl.contract.models.robust import RobustModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study, factors_of
from codedfl.contract.toml_file import parse_study
from codedfl.contract.words import explain
from codedfl.data.columns import CategoryColumn, DerivedColumn, NumberColumn, NumberTarget
from codedfl.data.derived import Factor, product
from codedfl.data.model import TrainedModel
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from rehearsals import parts_of, rehearsed
from totals import census_of
from wording import exactly

COST = NumberColumn("cost", (1.0, 1000.0), 1.0)
WARD = CategoryColumn("ward", ("a", "b", "c"))
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


# How R and formulaic write it, and what patsy makes of it, with pandas or numpy where it has no such word.
SPELLINGS = [
    ("I(age > 50)", "I((age > 50) * 1.0)"),
    ("I(50 <= age)", "I((age >= 50) * 1.0)"),
    ("I(age == 40)", "I((age == 40) * 1.0)"),
    ("I((age > 30) & (age <= 50))", "I(((age > 30) & (age <= 50)) * 1.0)"),
    ("I(30 < age < 50)", "I(((age > 30) & (age < 50)) * 1.0)"),
    ("I(dose > 0.3) + I(dose <= 0.7)", "I((dose > 0.3) * 1.0) + I((dose <= 0.7) * 1.0)"),
    ("I(age / 10)", "I(age / 10)"),
    ("I((age - 50) / 10)", "I((age - 50) / 10)"),
    ("I(-2 * age + 5)", "I(-2 * age + 5)"),
    ("I(100 - age)", "I(100 - age)"),
    ("I((age - 50)^2)", "I((age - 50) ** 2)"),
    ("I((age / 10)**3)", "I((age / 10) ** 3)"),
    ("log(age / 10 + 1)", "np.log(age / 10 + 1)"),
    ("np.sqrt(age + 1)", "np.sqrt(age + 1)"),
    ("I(age / (365.25 / 12))", "I(age / (365.25 / 12))"),
    ("I(ward == 'b')", "I((ward == 'b') * 1.0)"),
    ("poly(age, 3, raw=TRUE)", "age + I(age**2) + I(age**3)"),
    ("poly(age, degree=2, raw=True)", "age + I(age**2)"),
    ("C(ward, Treatment('b'))", "C(ward, Treatment('b'))"),
    ("C(ward, contr.treatment(base = 'c'))", "C(ward, Treatment('c'))"),
    ("relevel(ward, ref = 'b') * age", "C(ward, Treatment('b')) * age"),
    ("as.factor(ward) * I(age / 10)", "C(ward) * I(age / 10)"),
    ("cut(age, c(-Inf, 30, 50, 70, Inf))", "C(pd.cut(age, [-9, 30, 50, 70, 999]).astype(str), Treatment('(-9, 30]'))"),
    ("cut(age, breaks=c(0, 45, Inf), right=FALSE) * sex", "C(pd.cut(age, [0, 45, 99], right=False).astype(str)) * sex"),
    ("cut(age, [0, 45, 110], include.lowest=TRUE)", "C(pd.cut(age, [-1, 45, 110]).astype(str))"),
]  # fmt: skip


@pytest.mark.parametrize(("ours", "theirs"), SPELLINGS)
def test_what_r_users_type_is_what_patsy_makes(ours: str, theirs: str):
    """Column by column, within half the step of the grid; whole numbers, marks and levels to the bit."""
    frame = people()
    dose = NumberColumn("dose", (0.0, 1.0), 0.1)
    frame["dose"] = np.round(np.random.default_rng(1).integers(0, 11, len(frame)) / 10, 1)
    study = Study("stay", expand(f"days ~ {ours}", (*COLUMNS, dose), "days"), DAYS, 10_000, 2000, 3, held_out=0.0)
    codes, clipped = study.codes(as_raw_table(frame))
    oracle = patsy.dmatrix(theirs, frame, return_type="dataframe").to_numpy()[:, 1:]
    values = study.matrix(codes)
    assert not clipped.any() and values.shape == oracle.shape
    made = [factors_of(one) for one in study.columns for _ in one.design_names]
    for place, (step, factors) in enumerate(zip(study.units.step, made, strict=True)):
        distance = np.abs(oracle - values[:, [place]]).max(axis=0).min()
        marks = all(factor.marks for factor in factors)
        assert distance <= (0 if marks else step / 2 * (1 + 1e-6)), study.design_names[place]
    # What a model file computes of a raw table has no grid: patsy's own numbers.
    derived = [one for one in study.columns if factors_of(one)]
    raw = {one: frame[one].to_numpy() for one in frame}
    for one in derived:
        found = product(factors_of(one), {k: v.astype(str) if v.dtype == object else v for k, v in raw.items()})
        assert np.abs(oracle - found[:, None]).max(axis=0).min() <= 1e-12 * max(1.0, np.abs(found).max())


def test_natural_splines_are_those_of_r_and_span_those_of_patsy():
    """R's own example, lm(weight ~ ns(height, df = 5), women), whose knots are quantiles: here they are named."""
    weight = np.array([115, 117, 120, 123, 126, 129, 132, 135, 139, 142, 146, 150, 154, 159, 164.0])
    height = NumberColumn("height", (58.0, 72.0), 0.1)
    columns = expand("weight ~ ns(height, knots=c(60.8, 63.6, 66.4, 69.2))", (height,), "weight")
    rows = {"height": np.arange(58.0, 73.0)}
    basis = np.column_stack([np.ones(15), *(product(factors_of(one), rows) for one in columns if factors_of(one))])
    found = np.linalg.lstsq(basis, weight, rcond=None)[0]
    assert found == pytest.approx([114.7447, 15.9474, 25.1695, 33.2582, 50.7894, 45.0363], abs=5e-5)
    text = "cr(height, knots=[60.8, 63.6, 66.4, 69.2], lower_bound=58, upper_bound=72)"
    theirs = patsy.dmatrix(text, rows)
    left = theirs - basis @ np.linalg.lstsq(basis, theirs, rcond=None)[0]
    assert basis.shape[1] == theirs.shape[1] == 6 or np.linalg.matrix_rank(theirs) == 6
    assert np.abs(left).max() < 1e-12
    for one in (one for one in columns if factors_of(one)):
        assert one.range is not None and one.range[0] <= product(factors_of(one), rows).min()
        assert product(factors_of(one), rows).max() <= one.range[1]


def test_a_regression_on_what_r_users_type_is_that_of_statsmodels():
    frame = people(900)
    study = study_of("days ~ C(ward, Treatment('b')) * I(age > 50) + I(cost / 100) + ns(age, df=3)")
    study = replace(study, inference=True, regularisation=0.0)
    assert formula_objection(study) == "" and dict(study.table_columns.columns[0].to_dict())["name"] == "age"
    found = rehearsed(study, parts_of(as_raw_table(frame), 5)).findings.inference
    ours = pd.DataFrame({f"n{i}": product(factors_of(one), {"age": frame["age"].to_numpy()})
                         for i, one in enumerate(study.columns) if one.name.startswith("ns(")})  # fmt: skip
    names = " + ".join(ours.columns)
    text = f"days ~ C(ward, Treatment('b')) * I((age > 50) * 1.0) + I(cost / 100) + {names}"
    oracle = smf.ols(text, pd.concat([frame, ours], axis=1)).fit()
    assert dict(found.references)["ward"] == "b"
    for ours_name, theirs in (
        ("ward = a", "C(ward, Treatment('b'))[T.a]"),
        ("age > 50", "I((age > 50) * 1.0)"),
        ("ward = c:age > 50", "C(ward, Treatment('b'))[T.c]:I((age > 50) * 1.0)"),
        ("cost / 100", "I(cost / 100)"),
    ):
        place = found.names.index(ours_name)
        assert abs(found.coefficients[place] - oracle.params[theirs]) < 1e-3 * oracle.bse[theirs]
        assert found.standard_errors[place] == pytest.approx(oracle.bse[theirs], rel=1e-4)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (
            "days ~ scale(age)",
            "the formula must learn nothing from rows, got scale(age): write I((age - 50) / 10) with numbers of your"
            " own",
        ),
        (
            "days ~ poly(age, 2)",
            "the formula must learn nothing from rows, got poly(age, 2): write poly(age, 2, raw=True), whose fit is the"
            " same",
        ),
        (
            "days ~ cut(age, 4)",
            "cut must have 3 to 20 ascending breaks, and right and include_lowest as True or False, got 'cut(age, 4)':"
            " breaks that are counted would be learnt from rows: cut(age, [-Inf, 50, Inf])",
        ),
        (
            "days ~ cut(age, c(0, 50, 110))",
            "breaks of cut must cover the range [0.0, 110.0], with all but the first and the last inside it, got"
            " 'cut(age, c(0, 50, 110))': begin with -Inf and end with Inf, [-Inf, 50, Inf]",
        ),
        (
            "days ~ C(ward, Sum)",
            "C must have treatment coding, got 'C(ward, Sum)': write C(ward, Treatment('level')): other codings are"
            " contrasts of it (codedfl study refit --contrast)",
        ),
        ("days ~ C(ward, Treatment('z'))", "Treatment of 'ward' must name one of its levels, got 'z'"),
        (
            "days ~ I(age * cost)",
            "the formula must call log, log2, log10, log1p, exp, sqrt, C, I(x**2), bs, ns, poly, cut, relevel of one"
            " column only, got 'I(age * cost)'",
        ),
        (
            "days ~ I(age != 3)",
            "a comparison must be one of > >= < <= ==, got 'I(age != 3)': its opposite has the opposite coefficient",
        ),
        ("days ~ ns(age, df=99)", "df of ns must be between 1 and 12, got 'ns(age, df=99)'"),
        (
            "days ~ I(age / 0)",
            "arguments must be plain numbers, other than 0 where one multiplies or divides, got 'I(age / 0)'",
        ),
        (
            "days ~ {__import__('os').system('x')}",
            "a term of the formula must be a column or a call, got \"__import__('os').system('x')\"",
        ),
        (
            "days ~ evil(age)",
            "the formula must call log, log2, log10, log1p, exp, sqrt, C, I(x**2), bs, ns, poly, cut, relevel of one"
            " column only, got 'evil(age)'",
        ),
        (
            "days ~ 0 + age",
            "the formula must keep its constant unless a category has one for each level, got one without: leave out"
            " '0 +' and '- 1'",
        ),
        ("stay ~ age", "the formula must begin with the target, 'days ~', got 'stay' before '~'"),
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

    def drafted(table: RawTable | None, keep: tuple[str, ...], beside: tuple[str, ...]) -> str:
        assert table is not None and not beside
        return study_text(draft_of_table(table, "days", "t", task="regression", keep=keep))

    wide = r"^a spline must reach at least 500 of its steps in the sample, got 275 of 'bs\(age, 4\)\["
    with pytest.raises(InvalidInput, match=wide):
        draft_with_formula(table, formula, lambda *given: drafted(*given).replace("[0.0, 120.0]", "[0.0, 800.0]"))
    text = draft_with_formula(table, formula, drafted)
    study = parse_study(text)
    assert study.formula == formula and formula_objection(study) == ""
    assert [one.name for one in study.columns if not one.in_model] == ["cost", "age"]
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
    names = tuple(one.name for one in made)
    models = (RobustModel("r", names, "cluster", "sex"), PoissonModel("p", names, offset="cost"))
    study = replace(STUDY, columns=(SEX.beside(), COST.beside(), *made), formula=formula, models=models, held_out=0.0)
    assert formula_objection(study) == ""
    assert check_table(study, as_raw_table(people(80))).usable
    message = "column 'cost' must have in_model = false, since the formula does not name it"
    assert formula_objection(replace(study, columns=(COST, *made), models=())) == message


def drafted_by(formula: str, frame: pd.DataFrame, target: str, ranges: dict[str, str]) -> Study:
    """As ``study new --formula`` does; ``ranges`` narrows what one table drafts wide."""

    def draft(table: RawTable | None, keep: tuple[str, ...], beside: tuple[str, ...]) -> str:
        assert table is not None and not beside
        text = study_text(draft_of_table(table, target, "t", task="regression", keep=keep))
        for wide, narrow in ranges.items():
            assert wide in text
            text = text.replace(wide, narrow)
        return text

    return parse_study(draft_with_formula(as_raw_table(frame, "t.csv"), formula, draft))


@pytest.mark.parametrize("formula", ["days ~ I(age^2)", "days ~ poly(age, 2, raw=TRUE)", "log(days) ~ I(age / 10)"])
def test_a_formula_of_derived_columns_alone_is_drafted(formula: str):
    frame = pd.DataFrame({"age": np.arange(20.0, 80.0), "days": np.arange(1.0, 61.0)})
    study = drafted_by(formula, frame, "days", {})
    (plain,) = (one for one in study.columns if not factors_of(one))
    assert not plain.in_model and study.design_names and formula_objection(study) == ""


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("days ~ .", "the formula must name its columns, since '.' would be those of one table, got 'days ~ .'"),
        (
            "days ~ age + (1 | ward)",
            "the formula must have no random terms: give a [[model]] kind = 'random-intercept' and a cluster, got 'days"
            " ~ age + (1 | ward)'",
        ),
    ],
)
def test_what_has_another_place_is_refused_with_it(formula: str, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        parse_formula(formula)


def test_an_offset_of_the_formula_is_that_of_a_drafted_model():
    frame = people(900)
    rate = 0.02 * np.exp(0.01 * frame["age"] + 0.5 * (frame["ward"] == "a"))
    frame["visits"] = np.random.default_rng(3).poisson(rate * frame["cost"]).clip(0, 200).astype(float)
    formula = "visits ~ age + C(ward, Treatment('b')) + offset(log(cost))"
    study = drafted_by(formula, frame, "visits", {})
    (model,) = study.models
    assert model == PoissonModel("visits by formula", ("age", "ward"), offset="log(cost)")
    assert formula_objection(study) == "" and check_table(study, as_raw_table(frame)).usable
    assert [one.name for one in study.columns if not one.in_model] == ["cost", "log(cost)"]
    assert study.columns[-1].to_dict()["in_model"] is False
    study = replace(study, held_out=0.0, models=(replace(model, bound=15.0),))
    (fit,) = rehearsed(study, parts_of(as_raw_table(frame), 5)).findings.models
    theirs = "visits ~ age + C(ward, Treatment('b'))"
    oracle = smf.glm(theirs, frame, family=sm.families.Poisson(), offset=np.log(frame["cost"])).fit()
    assert isinstance(fit, GlmFinding) and fit.names == ("constant", "age", "ward = a", "ward = c")
    named = oracle.params[["Intercept", "age", "C(ward, Treatment('b'))[T.a]", "C(ward, Treatment('b'))[T.c]"]]
    errors = oracle.bse[named.index]
    assert (np.abs(fit.coefficients - named) / errors).max() < 1e-3
    # The model file takes the offset from a raw table, in its own units.
    assert fit.model is not None
    assert fit.model.predict(frame) == pytest.approx(oracle.fittedvalues.to_numpy(), rel=1e-3)


def test_a_function_of_the_target_is_predicted_and_named_everywhere(tmp_path: Path):
    frame = people(900)
    frame["days"] = np.exp(1 + 0.01 * frame["age"] + np.random.default_rng(2).normal(0, 0.4, 900)).round(1)
    study = drafted_by("log(days) ~ age + C(ward)", frame, "days", {})
    assert isinstance(study.target, NumberTarget) and study.target.title == "log(days)"
    assert formula_objection(study) == "" and check_table(study, as_raw_table(frame)).usable
    study = replace(study, inference=True, regularisation=0.0, held_out=0.0)
    done = rehearsed(study, parts_of(as_raw_table(frame), 5))
    found, oracle = done.findings.inference, smf.ols("np.log(days) ~ age + C(ward)", frame).fit()
    names = ["Intercept", "age", "C(ward)[T.b]", "C(ward)[T.c]"]
    assert np.abs(found.coefficients - oracle.params[names].to_numpy()).max() < 1e-5
    assert found.standard_errors == pytest.approx(oracle.bse[names].to_numpy(), rel=1e-4)
    assert "log(days)" in found.summary()
    done.findings.model.save(tmp_path / "m.safetensors")
    model = TrainedModel.load(tmp_path / "m.safetensors")
    assert model.predict(frame) == pytest.approx(oracle.fittedvalues.to_numpy(), abs=1e-4)
    assert model.recipe.labels.measured(np.array([1.0, np.e])).tolist() == [0.0, 1.0]
    said = parse_study(
        'format = "codedfl-study-2"\nname = "s"\n[[column]]\nname = "age"\nkind = "number"\nrange = [0, 9]\nstep = 1\n'
        '[target]\nname = "days"\nfunction = "log"\nrange = [0, 5]\nstep = 0.01\n[protection]\nleast_participants = 3\n'
        "max_rows = 1000\nmax_rows_per_device = 300\n"
    )
    assert said.target == NumberTarget("days", (0.0, 5.0), 0.01, function="log")
    with pytest.raises(InvalidInput, match=r"^log\(days\) of t.csv must be defined in all rows, got 0 in row 2: leave"):
        said.target.codes(np.array([1.0, 0.0]), "t.csv")
    with pytest.raises(InvalidInput, match=r"^models of log\(days\) must be linear or robust or residuals, got 'p'"):
        replace(study, models=(PoissonModel("p", ("age",)),))
    assert isinstance(study.target, NumberTarget)
    plain = replace(study, target=replace(study.target, function=""))
    assert formula_objection(plain) == (
        "function of the target must be 'log', as in the formula: log(days) ~ age + C(ward)"
    )
    assert plain.digest() != study.digest()


def test_without_a_constant_every_level_has_its_own(tmp_path: Path):
    """As R and statsmodels have it: the fit is the same, and so is R^2, since marks of all levels hold a constant."""
    frame, formula = people(900), "days ~ age + C(ward) + sex - 1"
    study = drafted_by(formula, frame, "days", {})
    assert study.constant_by == "ward" and formula_objection(study) == ""
    models = (RobustModel("r", ("age", "ward", "sex"), "HC3"),)
    study = replace(study, inference=True, regularisation=0.0, held_out=0.0, models=models)
    done = rehearsed(study, parts_of(as_raw_table(frame), 5)).findings
    oracle = smf.ols("days ~ C(ward) + age + sex - 1", frame).fit()
    names = ["age", "C(ward)[a]", "C(ward)[b]", "C(ward)[c]", "sex[T.m]"]
    robust = oracle.get_robustcov_results(
        "HC3"
    )  # ours is a total in steps of 2^-bits, as experiments.statistics has it
    for found, theirs, near in ((done.inference, oracle, 1e-8), (done.models[0].inference, robust, 1e-6)):
        ours = [found.names.index(name) for name in ("age", "ward = a", "ward = b", "ward = c", "sex = m")]
        at = [oracle.params.index.get_loc(name) for name in names]
        assert found.coefficients[ours] == pytest.approx(np.asarray(theirs.params)[at], rel=1e-8)
        assert found.standard_errors[ours] == pytest.approx(np.asarray(theirs.bse)[at], rel=near)
    assert done.inference.fit.r_squared == pytest.approx(oracle.rsquared, rel=1e-8)
    assert dict(done.inference.references) == {"sex": "f"} and "constant" not in done.inference.names
    kept = replace(study, constant_by="")
    assert formula_objection(kept) == f"constant_by must be 'ward', as in the formula: {formula}"
    assert kept.digest() != study.digest() and "constant_by" not in kept.to_dict()


def test_numbers_that_the_formula_calls_categories_are_drafted_as_such():
    frame = people(300).assign(ward=lambda rows: rows["age"] % 3 + 1, dose=lambda rows: rows["age"] % 2)
    study = drafted_by("days ~ C(ward, Treatment(2)) + log(dose + 1)", frame, "days", {})
    ward, dose = study.columns[0], study.columns[1]
    assert isinstance(ward, CategoryColumn) and ward.levels == ("2", "1", "3")
    assert dose.range == (0.0, 1.0), "log(dose + 1) is defined from 0 on"
    assert check_table(study, as_raw_table(frame)).usable


def test_a_survival_formula_lists_event_and_groups_beside_the_time():
    frame = people(300)
    frame["died"] = (np.arange(300) % 3 > 0) * 1.0
    study = drafted_by("Surv(days, died) ~ C(ward)", frame, "days", {})
    (model,) = study.models
    said: dict[str, Any] = dict(model.to_dict())
    assert (said["kind"], said["columns"], said["event"]) == ("cox", ("ward",), "died")
    assert isinstance(study.target, NumberTarget) and len(said["times"]) > 5
    assert frame["days"].max() <= said["times"][-1] <= 2 * frame["days"].max(), "not as far as the wide range"
    assert study.target.name == "days" and study.design_names == ("ward = b", "ward = c")
    assert formula_objection(study) == "" and check_table(study, as_raw_table(frame)).usable
    parsed = parse_formula("Surv(start, stop, died) ~ age + strata(ward)")
    assert (parsed.response, parsed.strata) == (Response("stop", event="died", entry="start"), "ward")
    with pytest.raises(InvalidInput, match=r"^the event must be 0 or 1, got 'age' with other numbers: write Surv\("):
        drafted_by("Surv(days, age) ~ C(ward)", frame, "days", {})


def test_a_derived_column_cannot_clip_and_is_made_of_listed_columns():
    made = DerivedColumn("age:cost", factors=(Factor("age"), Factor("cost")))
    with pytest.raises(
        InvalidInput, match=r"^range of column 'age:cost' must hold what its factors give, \[0, 110000\]"
    ):
        replace(STUDY, columns=(AGE, COST, replace(made, range=(0.0, 90.0), step=1.0)))
    with pytest.raises(InvalidInput, match=r"listed before it, got 'cost'$"):
        replace(STUDY, columns=(AGE, replace(made, range=(0.0, 110_000.0), step=1.0), COST))


def test_a_rare_product_is_left_out_and_a_level_that_is_merged_takes_its_products():
    ward = CategoryColumn("ward", ("a", "b", "c", "d"))
    study = replace(STUDY, columns=expand("days ~ age * C(ward)", (AGE, ward), "days"))
    frame = people()
    frame["ward"] = ["cd"[i // 8 % 2] if i < 80 else "ab"[i // 4 % 2] for i in range(len(frame))]
    frame.loc[:79, "ward"] = ["c" if i < 8 else "d" if i < 16 else "a" for i in range(80)]  # c and d: 8 rows each
    rows = [take_snapshot(study, as_raw_table(frame[device::6]), bytes([device] * 16)) for device in range(6)]
    left = merged_study(study, census_of(study, rows).merged)
    # Of c and d each site has one or two; together each of the six has two or three, and as products they are gone.
    assert left.design_names == ("age", "ward = b", "ward = other", "age:ward = b")


def test_an_interval_of_few_people_ends_the_study_and_says_which_knots():
    """Four people above 70 in all: nothing is recoded on a device, and an interval of them is in no sum."""
    study = replace(STUDY, columns=expand("days ~ cut(age, c(-Inf, 50, 70, Inf))", (AGE,), "days"), held_out=0.0)

    def counted(old: int) -> tuple[int, str]:
        ages = [[*range(31, 71), *(range(71, 71 + old) if site == 0 else ())] for site in range(6)]
        tables = [as_raw_table({"age": one, "days": [1 + j % 9 for j in range(len(one))]}) for one in ages]
        rows = [take_snapshot(study, one, KEY) for one in tables]
        return sum(int(one.codes[:, 2].sum()) for one in rows), census_of(study, rows).objection()

    # Six are exactly 70, which is not above 70: they hide nobody who is.
    assert counted(0) == (0, "")
    assert counted(4) == (
        4,
        "intervals between the knots or cuts of 'age' must each have none or at least 5 people, got 1 with fewer: take"
        " fewer of them, or others",
    )


def test_what_a_derived_column_does_to_rows_is_shown():
    study = study_of("days ~ age * C(ward)")
    own = take_snapshot(study, as_raw_table(people(80)), KEY)
    shown = check_design(study, own)
    by_name = {one.name: one.differs for one in shown}
    assert by_name["age:ward = b"] == int((people(80).ward == "b").sum())
    answers = [answer for section in explain(study, own=own) for answer in section.answers]
    assert any("age x ward = b" in one for one in answers)
    assert any("days ~ age * C(ward)" in one for one in answers)


# -- missing values


def test_codes_are_gaps_and_complete_cases_leave_them_out():
    age = replace(AGE, missing_codes=(-9.0, 999.0))
    sex = replace(SEX, missing_codes=("9", "unknown"))
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
    assert rows.target.tolist() == [3, 5, 7], "a missing crp has its value; those that lack others are left out"
    assert type(rows).decode(rows.encode()).left_out == rows.left_out == 3
    found = check_table(study, table)
    assert (found.rows, found.left_out) == (3, 3)
    used = explain(study)[1].answers
    assert any("a missing value anywhere else leaves its row out" in line for line in used), used
    with pytest.raises(InvalidInput, match=r"^the target 'days' of t.csv must have no missing values, got 1"):
        take_snapshot(replace(study, complete_cases=False), table.rows(np.array([0, 4])), KEY)


def test_a_code_must_not_be_a_value():
    with pytest.raises(
        InvalidInput, match=r"^missing_codes of column 'age' must lie outside its range, got 99: narrow the range$"
    ):
        replace(AGE, missing_codes=(99.0,))
    with pytest.raises(InvalidInput, match=exactly("missing_codes of column 'sex' must be no levels, got 'm'")):
        CategoryColumn("sex", ("f", "m"), missing_codes=("m",))


def test_complete_cases_after_a_description_are_a_finding(tmp_path: Path):
    """Two studies of which one leaves out few patients for gaps: their difference is these. Who decides is told so."""
    from clinics import ROSTER

    rng = np.random.default_rng(1)
    columns = {
        "age": rng.integers(20, 90, 60).tolist(),
        "bmi": [*[None] * 4, *np.round(rng.normal(26, 4, 56), 1).tolist()],
        "days": rng.integers(1, 40, 60).tolist(),
    }
    table, folder = as_raw_table(columns, "t.csv"), DeviceFolder(tmp_path / "clinic-1")
    bmi = NumberColumn("bmi", (10.0, 60.0), 0.1)
    first = agreed(replace(STUDY, columns=(AGE,)))
    second = agreed(replace(STUDY, name="second", columns=(AGE, bmi), complete_cases=True))
    key = identity("clinic-1").public
    approve(first, ROSTER, "clinic-1", key, table, folder, Deciding("Ada", "today"))
    with pytest.raises(InvalidInput, match=r"^a finding must be accepted .*: 4 row\(s\) of this table are in the sums"):
        approve(second, ROSTER, "clinic-1", key, table, folder, Deciding("Ada", "today"))
    accept = {"rows": "the board knows"}
    done = approve(second, ROSTER, "clinic-1", key, table, folder, Deciding("Ada", "today", accept=accept))
    assert (done.rows, [one[0] for one in done.accepted]) == (56, ["rows"])
