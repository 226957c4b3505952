"""The study file: read, refused in one line, hashed by its meaning, drafted from a sample, tried on a table."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.data.preprocessing import Moments
from codedfl.data.studies import ClassTarget, NumberTarget, StudyColumn, load_study, parse_study
from codedfl.data.studies.check import check_table
from codedfl.data.studies.draft import draft_study, outer_range
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput

TEXT = """
format = "codedfl-study-1"
name = "stay"
[[column]]
name = "age"
kind = "number"
range = [0, 110]
[[column]]
name = "crp"
kind = "number"
missing = 5
[[column]]
name = "ward"
kind = "category"
levels = ["a", "b"]
other = "a"
[target]
name = "days"
range = [0, 60.0]
[protection]
least_participants = 4
max_rows = 1000
max_rows_per_device = 300
"""
TABLE = as_raw_table(
    {
        "ward": ["a", "b", "z", "b"],
        "days": [1, 2, 3, 99],
        "age": [-5, 50, 110, 200],
        "crp": [1.0, None, 3.0, None],
        "more": [0, 0, 0, 0],
    },
    "t.csv",
)


def test_what_a_file_says():
    study = parse_study(TEXT)
    assert study.columns == (
        StudyColumn(NumberColumn("age"), (0.0, 110.0), "range"),
        StudyColumn(NumberColumn("crp", 5.0), None, "moments"),
        StudyColumn(CategoryColumn("ward", ("a", "b"), None, "a")),
    )
    assert study.target == NumberTarget("days", (0.0, 60.0))
    assert (study.least_participants, study.max_rows, study.max_rows_per_device) == (4, 1000, 300)
    assert (study.features, study.scheme, study.solver, study.epochs) == ("linear", "role-keys", "block-krylov", 50)
    assert study.table_columns.design_names == ("age", "crp", "crp missing", "ward = b")
    assert repr(study) == f"<Study 'stay': 3 columns to 'days', {study.digest().hex()[:16]}>"


def test_the_digest_is_that_of_the_meaning():
    study = parse_study(TEXT)
    respelt = TEXT.replace("[0, 110]", "[0.0, 1.1e2]  # years")
    respelt = respelt.replace("missing = 5", "indicator = true\nmissing = 5.0")
    assert parse_study(respelt).digest() == study.digest()
    changes = [
        ("110", "111"),
        ("missing = 5", "missing = 6"),
        ("60.0", "61.0"),
        ('["a", "b"]', '["a", "b", "c"]'),
        ("least_participants = 4", "least_participants = 5"),
        ("max_rows = 1000", "max_rows = 1001"),
        ('"stay"', '"gone"'),
        ("[protection]", "[training]\nepochs = 49\n[protection]"),
        ("[protection]", '[features]\nkind = "rbf"\n[protection]'),
        ("[protection]", "[result]\ninference = true\n[protection]"),
    ]
    digests = {parse_study(TEXT.replace(old, new, 1)).digest() for old, new in changes}
    assert len(digests | {study.digest()}) == len(changes) + 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"codedfl-study-1"', '"x"', "format must be 'codedfl-study-1', got 'x'"),
        ("[0, 110]", "[110, 0]", "range of column 'age' must be [low, high] with low < high, got [110.0, 0.0]"),
        ("[0, 110]", "[0]", "range of column 'age' must be [low, high], got [0]"),
        ("[0, 110]", "[0, true]", "range of column 'age' must be a number, got True"),
        ("range = [0, 110]", 'scale = "range"', "column 'age' must have a range, or scale = \"moments\", got neither"),
        ("range = [0, 110]", "rnge = [0, 110]",
         "column 'age' must hold only indicator, kind, missing, name, range, scale, got 'rnge'"),
        ('kind = "number"', 'kind = "date"', "kind of column 'age' must be number or category, got 'date'"),
        ('["a", "b"]', '["a"]', "levels of column 'ward' must be at least two different names, got ['a']"),
        ("least_participants = 4", "", "least_participants must be said, got nothing"),
        ("least_participants = 4", "least_participants = 2",
         "least_participants must be at least 3, or a device learns another's sums from the total, got 2"),
        ("max_rows_per_device = 300", "max_rows_per_device = 3000",
         "max_rows_per_device must be at most max_rows (1000), got 3000"),
        ('name = "days"', 'name = "age"', "the target must not be a column too, got 'age'"),
        ("range = [0, 60.0]", "", "the target 'days' must have either a range or classes"),
        ("[protection]", "[noise]\nepsilon = 1.0\n[protection]", "noise.honest must be said, got nothing"),
        ("[protection]", "[noise]\nepsilon = 1.0\nhonest = 2.5\n[protection]",
         "noise.honest must be a whole number, got 2.5"),
        ("[protection]", "[noise]\nepsilon = 0\nhonest = 3\n[protection]",
         "epsilon must be a positive finite number, got 0.0"),
        ("[protection]", "[noise]\nepsilon = 1\nhonest = 3\nsigma = 3\n[protection]",
         "[noise] must hold only clip_norm, delta, epsilon, honest, got 'sigma'"),
        ("[protection]", "[noise]\nepsilon = 1\nhonest = 3\n[protection]",
         "scale of column 'crp' must be range with noise: a mean is a sum over rows, got moments"),
        ("[protection]", "[training]\nepochs = 1.5\n[protection]",
         "training.epochs must be a whole number, got 1.5"),
        ("[protection]", "[extra]\n[protection]", "the file must hold only column, features, format, name, noise,"
         " protection, purpose, result, target, training, got 'extra'"),
        ("[protection]", '[features]\nkind = "cubic"\n[protection]', "features must be linear or rbf or scattering"
         " or pca-rbf or onnx, got 'cubic'"),
        ("[protection]", '[features]\nkind = "pca-rbf"\ncomponents = 9\n[protection]',
         "components must be between 1 and the number of columns (4) for pca-rbf, got 9"),
        ("[protection]", "[features]\ncomponents = 2\n[protection]",
         "components must be left out with linear features, got 2"),
        ("[protection]", '[features]\nkind = "rbf"\n[result]\ninference = true\n[protection]',
         "inference must go with linear features, got 'rbf'"),
        ("range = [0, 60.0]", "classes = [1, 2]\n[result]\ninference = true",
         "inference must go with a number to predict, got classes: give the target a range"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_one_line(old: str, new: str, message: str):
    assert old in TEXT
    with pytest.raises(InvalidInput, match=f"^s: {re.escape(message)}$"):
        parse_study(TEXT.replace(old, new, 1), "s")


def test_no_toml_and_no_file(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"^the study must be TOML, got an error: "):
        parse_study("= 1")
    with pytest.raises(InvalidInput, match=r"^the study file must exist, got "):
        load_study(tmp_path / "none.toml")


# -- the recipe


def test_linear_columns_are_centred_whatever_scales_them():
    study = parse_study(TEXT)
    moments = Moments(100, np.array([55.0, 3.0, 0.25, 0.5]), np.array([100.0, 4.0, 0.1, 0.25]))
    scaling = study.recipe(moments).preprocessing
    assert scaling.shift.tolist() == [55, 3, 0.25, 0.5]
    assert scaling.scale.tolist() == [110, 2, 1, 1]
    assert np.asarray(scaling.low).tolist() == [-0.5, -8, -0.25, -0.5]
    assert np.asarray(scaling.high).tolist() == [0.5, 8, 0.75, 0.5]
    with pytest.raises(InvalidInput, match=r"^moments must be given for this study, got None$"):
        study.recipe()


def test_kernel_columns_stay_in_their_ranges():
    text = TEXT.replace("missing = 5", "missing = 5\nrange = [0, 10]").replace(
        "[protection]", '[features]\nkind = "rbf"\ncount = 20\n[protection]'
    )
    study = parse_study(text)
    assert not study.needs_moments
    recipe = study.recipe()
    assert recipe.preprocessing.shift.tolist() == [0, 0, 0, 0]
    assert recipe.preprocessing.scale.tolist() == [110, 10, 1, 1]
    bounds = study.bounds(recipe)
    assert (bounds.samples, bounds.samples_per_device, recipe.n_features) == (1000, 300, 20)


# -- a table alone


def test_what_a_table_would_lose():
    found = check_table(parse_study(TEXT), TABLE)
    assert [(one.name, one.n_clipped, one.n_missing, one.n_unknown, one.seen) for one in found.columns] == [
        ("age", 2, 0, 0, "-5 to 200"),
        ("crp", 0, 2, 0, "1 to 3"),
        ("ward", 0, 0, 1, "z"),
        ("days", 1, 0, 0, "1 to 99"),
    ]
    assert found.usable


def test_what_speaks_against_a_table():
    text = TEXT.replace('other = "a"', "").replace("missing = 5", "").replace("= 300", "= 3")
    found = check_table(parse_study(text), TABLE.without(["days"]))
    assert not found.usable
    assert found.objections == ("t.csv must have between 1 and 3 rows, got 4",)
    assert [one.objection for one in found.columns] == [
        None,
        "column 'crp' of t.csv must have no gaps, got 2: say what a missing value becomes, or leave those rows out",
        "column 'ward' of t.csv must hold its levels only, got 'z' (1 such rows): add the level, or say which one"
        " others count as",
        "the target must be a column of t.csv ('ward', 'age', 'crp', 'more'), got 'days'",
    ]


@pytest.mark.parametrize(
    ("classes", "values", "expected"),
    [
        ('["no", "yes"]', ["yes", "no"], ["yes", "no"]),
        ('["1", "2.5"]', [2.5, 1.0], ["2.5", "1"]),
        ('["false", "true"]', [1.0, 0.0], ["true", "false"]),
        ("[0, 1]", [1.0, 0.0], [1, 0]),
    ],
)
def test_classes_are_found_however_a_table_writes_them(classes: str, values: list[object], expected: list[object]):
    study = parse_study(TEXT.replace("range = [0, 60.0]", f"classes = {classes}"))
    assert study.target_values(as_raw_table({"days": values}, "t.csv")).tolist() == expected


@pytest.mark.parametrize(("classes", "value", "got"), [('["no", "yes"]', "maybe", "'maybe'"), ("[0, 1]", 0.5, "0.5")])
def test_a_class_that_the_study_does_not_have_is_refused(classes: str, value: object, got: str):
    study = parse_study(TEXT.replace("range = [0, 60.0]", f"classes = {classes}"))
    message = (
        f"the target 'days' of t.csv must hold its classes only, got {got} (2 such rows): add the class, or leave those"
        " rows out"
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        study.target_values(as_raw_table({"days": [value, value]}, "t.csv"))


# -- a draft


def test_a_draft_reads_as_a_study_that_takes_its_sample():
    table = as_raw_table(
        {
            "id": range(40),
            "age": np.linspace(18, 97, 40),
            "crp": [None, *np.linspace(-1, 2, 39)],
            "ward": ["a", 'b "x"'] * 20,
            "sick": [0, 1] * 20,
        },
        "t.csv",
    )
    text = draft_study(table, "sick", "sample")
    study = parse_study(text)
    assert study.table_columns.names == ("age", "crp", "ward")
    assert study.columns[0].range == (10.0, 105.0)
    assert study.task == "classification"
    assert check_table(study, table).usable
    assert sum("#" in line for line in text.splitlines()) > 20
    assert "97" not in text, "a person's value must not stand in the file"
    stay = parse_study(draft_study(table, "age", "sample", drop=("ward",)))
    assert stay.target == NumberTarget("age", (10.0, 105.0))


def test_a_draft_says_that_it_has_guessed_classes():
    table = as_raw_table({"x": [1.0, 2.5, 3.0, 4.0], "score": [0, 2, 2, 0]}, "t.csv")
    guessed = draft_study(table, "score", "t")
    assert isinstance(parse_study(guessed).target, ClassTarget)
    assert "# Guessed from few whole numbers. If it is a quantity: codedfl study new --task regression" in guessed
    assert isinstance(parse_study(draft_study(table, "score", "t", task="regression")).target, NumberTarget)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1], (0.0, 1.5)),
        ([18, 97], (10.0, 105.0)),
        ([3, 3], (2.5, 3.5)),
        ([-20, 700], (-100.0, 800.0)),
        ([0.0], (0.0, 0.5)),
        ([1e-9, 3e-9], (5e-10, 3.5e-9)),
    ],
)
def test_ranges_are_rounded_outwards(values: list[float], expected: tuple[float, float]):
    assert outer_range(np.array(values)) == expected
