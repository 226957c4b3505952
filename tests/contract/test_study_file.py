"""The study file: read, refused in one line, hashed by its meaning; its grid; a draft; a table tried on it."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.authoring.check import check_table
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.ranges import fitting_range, unit_of_record
from codedfl.authoring.study_text import study_text
from codedfl.contract.merging import merged_study, recoded
from codedfl.contract.models import SubModel
from codedfl.contract.study import Study
from codedfl.contract.toml_file import load_study, parse_study
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from wording import exactly

TEXT = """
format = "codedfl-study-2"
name = "stay"
[[column]]
name = "age"
kind = "number"
range = [0, 110]
step = 1
[[column]]
name = "crp"
kind = "number"
range = [0, 500]
step = 0.1
missing = 5
[[column]]
name = "ward"
kind = "category"
levels = ["a", "b"]
other = "a"
[target]
name = "days"
range = [0, 60.0]
step = 1
[protection]
least_participants = 4
max_rows = 1000
max_rows_per_device = 300
"""
TABLE = as_raw_table(
    {
        "ward": ["a", "b", "z", "b"],
        "days": [1, 2, 3, 99],
        "age": [-5, 50.5, 110, 200],
        "crp": [1.0, None, 3.0, None],
        "more": [0, 0, 0, 0],
    },
    "t.csv",
)


def test_what_a_file_says():
    study = parse_study(TEXT)
    assert study.columns == (
        NumberColumn("age", (0.0, 110.0), 1.0, scale="moments"),
        NumberColumn("crp", (0.0, 500.0), 0.1, missing=5.0),
        CategoryColumn("ward", ("a", "b"), None, "a"),
    )
    assert study.target == NumberTarget("days", (0.0, 60.0), 1.0)
    assert (study.least_participants, study.max_rows, study.max_rows_per_device) == (4, 1000, 300)
    assert (study.features, study.colluders, study.edition, study.smallest_cell, study.most_points) == (
        "linear",
        1,
        1,
        5,
        1,
    )
    assert study.design_names == ("age", "crp", "crp missing", "ward = b")
    assert study.least_alike == 10
    assert study.statistics == ("census", "cells", "gram", "score")
    assert repr(study) == f"<Study 'stay': 3 columns to 'days', {study.digest().hex()[:16]}>"


def test_the_digest_is_that_of_the_meaning():
    study = parse_study(TEXT)
    respelt = TEXT.replace("[0, 110]", "[0.0, 1.1e2]  # years")
    respelt = respelt.replace("missing = 5", "indicator = true\nmissing = 5.0")
    assert parse_study(respelt).digest() == study.digest()
    key = "ab" * 32
    changes = [
        ("110", "111"),
        ("step = 1", "step = 2"),
        ("missing = 5", "missing = 6"),
        ("60.0", "61.0"),
        ('["a", "b"]', '["a", "b", "c"]'),
        ("least_participants = 4", "least_participants = 5"),
        ("max_rows = 1000", "max_rows = 1001"),
        ('"stay"', '"gone"'),
        ('name = "stay"', 'name = "stay"\nedition = 2'),
        ('name = "stay"', 'name = "stay"\nid = "nr"'),
        ('name = "stay"', 'name = "stay"\npurpose = "beds"'),
        *((("[protection]", f"[protection]\n{said}")) for said in (
            "smallest_cell = 6", "points = 2", "least_rows = 11", "colluders = 2", "holders = 4",
            f'roster = "{key}"', f'server_key = "{key}"',
        )),
        ("[protection]", "[training]\nepochs = 49\n[protection]"),
        ("[protection]", '[features]\nkind = "rbf"\n[protection]'),
        ("[protection]", "[result]\ninference = true\n[protection]"),
        ("[protection]", "[result]\nheld_out = 0.3\n[protection]"),
        ("[protection]", '[[model]]\nname = "m"\ncolumns = ["age"]\n[protection]'),
    ]  # fmt: skip
    digests = {parse_study(TEXT.replace(old, new, 1)).digest() for old, new in changes}
    assert len(digests | {study.digest()}) == len(changes) + 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"codedfl-study-2"', '"x"', "format must be 'codedfl-study-2', got 'x'"),
        ('"codedfl-study-2"', '"codedfl-study-1"', "format must be 'codedfl-study-2', got 'codedfl-study-1': draft it"
         " again with codedfl study new, which gives every number a range and a step, and have it approved again"),
        ("[0, 110]", "[110, 0]", "range of column 'age' must be [low, high] with low < high, got [110.0, 0.0]"),
        ("[0, 110]", "[0]", "range of column 'age' must be [low, high], got [0]"),
        ("[0, 110]", "[0, true]", "range of column 'age' must be [low, high], got [0, True]"),
        ("[0, 110]", "[-1e308, 1e308]",
         "range of column 'age' must be [low, high] with low < high, got [-1e+308, 1e+308]"),
        ("step = 1", "step = 1e-9", "range of column 'age' must have at most 16777216 steps, got 1.1e+11: take a"
         " coarser step or a narrower range"),
        ("step = 1", "step = 0", "range of column 'age' must be at least one step wide, got [0.0, 110.0] and step 0"),
        ("range = [0, 110]\n", "", "range of column 'age' must be said, got nothing: what is possible, [low, high]"),
        ("range = [0, 110]\nstep = 1", "range = [0, 110]", "step of column 'age' must be said, got nothing: the unit"
         " that every site records, such as step = 1 for whole numbers or step = 0.1 for one decimal"),
        ("range = [0, 60.0]\nstep = 1", "range = [0, 60.0]", "step of the target 'days' must be said, got nothing: the"
         " unit that every site records, such as step = 1 for whole numbers or step = 0.1 for one decimal"),
        ("range = [0, 110]", "rnge = [0, 110]",
         "column 'age' must hold only in_model, indicator, kind, missing, missing_codes, name, range, scale, step, got"
         " 'rnge'"),
        ('kind = "number"', 'kind = "date"', "kind of column 'age' must be number or category or derived, got 'date'"),
        ('["a", "b"]', '["a"]', "levels of column 'ward' must be at least two different names, got ['a']"),
        ("least_participants = 4", "", "least_participants must be said, got nothing"),
        ("least_participants = 4", "least_participants = 2", "least_participants must be at least 3 and colluders + 2,"
         " or a device learns another's sums from the total, got 2"),
        ("max_rows_per_device = 300", "max_rows_per_device = 3000",
         "max_rows_per_device must be at most max_rows (1000), got 3000"),
        ("max_rows = 1000", "max_rows = 1000\nleast_rows = 9", "least_rows must be at least 10, got 9"),
        ("max_rows = 1000", "max_rows = 1000\nedition = 2", "[protection] must hold only colluders, holders,"
         " least_participants, least_rows, max_rows, max_rows_per_device, number_bits, points, roster, row_blocks,"
         " server_key, smallest_cell, spare_replies, got 'edition'"),
        ("max_rows = 1000", 'max_rows = 1000\nroster = "ab"', "roster must be 64 hexadecimal digits, got 'ab'"),
        ("max_rows = 1000", 'max_rows = 1000\nscheme = "role-keys"', "[protection] must hold only colluders, holders,"
         " least_participants, least_rows, max_rows, max_rows_per_device, number_bits, points, roster, row_blocks,"
         " server_key, smallest_cell, spare_replies, got 'scheme'"),
        ("step = 1", "step = 1e-5\n", "steps of column 'age' must leave room for 9000000000000 rows, got 11000000: take"
         " a coarser step, a narrower range, or fewer max_rows"),
        ('name = "days"', 'name = "age"', "the target must not be a column too, got 'age'"),
        ('name = "stay"', 'name = "stay"\nid = "age"', "id must be a column that the study does not use, got 'age'"),
        ('name = "stay"', 'name = ""', "name of the study must have 1 to 64 bytes, got ''"),
        ('name = "stay"', 'name = "time: Table 1"', "name of the study must be printable, without spaces, / \\ + # and"
         " a dot in front, got 'time: Table 1': write 'time:-Table-1'"),
        ("range = [0, 60.0]\nstep = 1", "", "the target 'days' must have either a range and a step, or classes"),
        ("[protection]", "[matrix]\ncolumns = 2\n[protection]",
         "columns must be listed as [[column]], or counted in [matrix], one of the two"),
        ("[protection]", "[noise]\nepsilon = 1.0\n[protection]", "noise.honest must be said, got nothing"),
        ("[protection]", "[noise]\nepsilon = 1.0\nhonest = 2.5\n[protection]",
         "noise.honest must be a whole number, got 2.5"),
        ("[protection]", "[noise]\nepsilon = 0\nhonest = 3\n[protection]",
         "epsilon must be a positive finite number, got 0.0"),
        ("[protection]", "[noise]\nepsilon = 1\nhonest = 3\nsigma = 3\n[protection]",
         "[noise] must hold only clip_norm, delta, epsilon, honest, got 'sigma'"),
        ("[protection]", "[noise]\nepsilon = 1\nhonest = 3\n[protection]",
         "held_out must be 0 with noise: a score is an exact sum over rows, got 0.2"),
        ("[protection]", "[training]\nepochs = 1.5\n[protection]",
         "training.epochs must be a whole number, got 1.5"),
        ("[protection]", "[extra]\n[protection]", "the file must hold only column, complete_cases, constant_by,"
         " edition, features, format, formula, id, matrix, model, name, noise, protection, purpose, result,"
         " site_effects, target, training, got 'extra'"),
        ("[protection]", '[features]\nkind = "cubic"\n[protection]', "features must be linear or onnx or pca-rbf"
         " or rbf or scattering or none, got 'cubic'"),
        ("[protection]", '[features]\nkind = "pca-rbf"\ncomponents = 9\n[protection]',
         "components must be between 1 and the number of columns (4) for pca-rbf, got 9"),
        ("[protection]", "[features]\ncomponents = 2\n[protection]",
         "components must be left out with linear features, got 2"),
        ("[protection]", '[features]\nkind = "rbf"\n[result]\ninference = true\n[protection]',
         "inference must go with linear features, got 'rbf'"),
        ("range = [0, 60.0]\nstep = 1", "classes = [1, 2]\n[result]\ninference = true",
         "inference must go with a number to predict, got classes: give the target a range"),
        ("[protection]", '[[model]]\nname = "m"\ncolumns = ["size"]\n[protection]',
         "columns of the model 'm' must be different columns of the study, got ['size']"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_in_one_line(old: str, new: str, message: str):
    assert old in TEXT
    text = TEXT.replace(old, new, 1)
    if "9000000000000" in message:
        text = text.replace("max_rows = 1000", "max_rows = 9000000000000")
    with pytest.raises(InvalidInput, match=f"^s: {re.escape(message)}$"):
        parse_study(text, "s")


def test_no_toml_and_no_file(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"^the study must be TOML, got an error: "):
        parse_study("= 1")
    with pytest.raises(InvalidInput, match=r"^the study file must exist, got "):
        load_study(str(tmp_path / "none.toml"))


def test_a_matrix_is_so_many_number_columns():
    head, _, rest = TEXT.partition("[[column]]")
    text = head + "[matrix]\ncolumns = 3\nrange = [0, 1]\nstep = 0.00392156862745098\n" + rest[rest.index("[target]") :]
    study = parse_study(text)
    assert [one.name for one in study.columns] == ["x0", "x1", "x2"]
    assert study.columns[2] == NumberColumn("x2", (0.0, 1.0), 0.00392156862745098, scale="range")
    assert study.columns[2].grid.n_steps == 255
    table = as_raw_table({**{f"x{i}": [0.0, 1.0, 7 / 255] for i in range(3)}, "days": [1, 2, 3]})
    assert study.codes(table)[0][:, 0].tolist() == [0, 255, 7]


# -- whole numbers

VALUES = st.floats(-1e3, 1e3, allow_nan=False)


@settings(max_examples=50)
@given(st.lists(VALUES, min_size=1), st.sampled_from([1.0, 0.1, 0.25, 3.0, 150 / 2**16]))
def test_codes_are_the_nearest_places_of_the_grid(values: list[float], step: float):
    column = NumberColumn("x", (-50.0, 100.0), step)
    codes, report = column.codes(np.array(values), "t")
    assert report.n_clipped == sum(not -50 <= one <= 100 for one in values)
    assert codes.min() >= 0 and codes.max() <= column.grid.n_steps
    near = np.abs(column.values(codes) - np.clip(values, -50, 100))
    assert near.max() <= column.grid.step / 2 * (1 + 1e-9)
    assert np.array_equal(column.codes(column.values(codes), "t")[0], codes), "what is on the grid stays"


def test_design_columns_and_their_units():
    study = parse_study(TEXT)
    table = as_raw_table({"age": [61, 0], "crp": [None, 500.0], "ward": ["b", "a"], "days": [7, 60]})
    codes, _ = study.codes(table)
    assert codes.tolist() == [[61, -1, 1], [0, 5000, 0]]
    design = study.design(codes)
    assert design.tolist() == [[6, 50 - 2500, 1, 1], [-55, 2500, 0, 0]]
    assert (np.abs(design) <= study.units.limit).all()
    step, zero = study.units.step, study.units.zero
    assert np.array_equal(study.matrix(codes), zero + step * design)
    assert study.matrix(codes)[0] == pytest.approx([61, 5, 1, 1], abs=0.01)
    target, report = study.target.codes(table.column("days"), "t.csv")
    assert (study.target.design(target).tolist(), report.n_clipped) == ([[-23], [30]], 0)
    classes = replace(study, target=ClassTarget("days", ("60", "7")))
    assert classes.target.design(classes.target.codes(table.column(classes.target.name), "t.csv")[0]).tolist() == [
        [0, 1],
        [1, 0],
    ]


def test_rows_moved_between_devices_change_no_bit_of_a_total():
    study = parse_study(TEXT)
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 111, 90), rng.integers(-1, 65537, 90), rng.integers(0, 2, 90)], axis=1)
    grams = []
    for _ in range(3):
        parts = np.array_split(rng.permutation(90), rng.integers(1, 9))
        designs = [study.design(codes[part]).astype(object) for part in parts]
        grams.append(sum(one.T @ one for one in designs))
    assert all(np.array_equal(one, grams[0]) for one in grams)


# -- rare levels


@pytest.mark.parametrize(
    ("column", "gone", "levels", "codes"),
    [
        (CategoryColumn("w", ("a", "b", "c", "d")), (1, 3), ("a", "c", "other"), [0, 2, 1, 2]),
        (CategoryColumn("w", ("a", "b", "c", "d"), other="a"), (1, 3), ("a", "c"), [0, 0, 1, 0]),
        (CategoryColumn("w", ("a", "b", "c", "d"), other="d"), (0, 3), ("b", "c", "d"), [2, 0, 1, 2]),
        (CategoryColumn("w", ("a", "b", "c"), missing="b"), (0, 1), ("c", "other"), [1, 1, 0]),
        (CategoryColumn("w", ("a", "b", "c")), (), ("a", "b", "c"), [0, 1, 2]),
    ],
)
def test_rare_levels_count_as_other(
    column: CategoryColumn, gone: tuple[int, ...], levels: tuple[str], codes: list[int]
):
    study = replace(parse_study(TEXT), columns=(column,))
    merged = merged_study(study, (gone, (), ()))
    kept = merged.columns[0]
    assert isinstance(kept, CategoryColumn) and kept.levels == levels
    assert recoded(study, np.arange(len(column.levels))[:, None], (gone, (), ()))[:, 0].tolist() == codes
    if gone:
        found = merged.columns[0].codes(np.array([*column.levels, "never seen"]), "t")[0]
        unknown = levels.index(column.other) if column.other else -1  # refused unless the study says otherwise
        assert found.tolist() == [*codes, unknown], "raw tables map there too"
        assert column.missing is None or kept.missing == "other"


def test_marks_of_gaps_and_whole_columns_go():
    study = replace(parse_study(TEXT), models=(SubModel("m", ("ward",)), SubModel("n", ("age", "ward"))))
    codes = np.array([[61, -1, 1]])
    assert (merged_study(study, ()), recoded(study, codes, ()).tolist()) == (study, codes.tolist())
    merged = merged_study(study, ((), (0,), (0, 1), (), ()))
    assert merged.design_names == ("age", "crp")
    assert merged.models == (SubModel("n", ("age",)),)
    assert merged_study(study, ((1,), (), (), (), ())).design_names == ("crp", "crp missing", "ward = b")
    assert recoded(study, codes, ((1,), (), (), (), ())).tolist() == [[-1, 1]]
    assert recoded(study, codes, ((), (0,), (0, 1), (), ())).tolist() == [[61, -1]]
    for wrong in (((),), ((), (), ()), ((2,), (), (), (), ()), ((), (), (2,), (), ()), ((), (), (1, 0), (), ())):
        with pytest.raises(InvalidInput, match=r"^merged "):
            merged_study(study, wrong)


# -- the recipe


def test_a_model_is_scaled_by_public_ranges_alone():
    """Means and deviations would show counts: the mean of a level with one patient among 6770 rows is 1/6770."""
    study = parse_study(TEXT)
    scaling = study.recipe().preprocessing
    assert scaling.shift.tolist() == [0, 0, 0, 0]
    assert scaling.scale.tolist() == [110, 500, 1, 1]


def test_the_penalty_may_be_chosen_by_the_server():
    text = TEXT + '[training]\nregularisation = "gcv"\n'
    assert parse_study(text).regularisation == "gcv"
    message = "the study: regularisation must be a number but for linear features without noise, got 'gcv'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        parse_study(text.replace("[protection]", '[features]\nkind = "rbf"\ncount = 20\n[protection]'))
    message = "the study: regularisation must be 'gcv' or a number of at least 0, got 'aic'"
    with pytest.raises(InvalidInput, match=exactly(message)):
        parse_study(text.replace("gcv", "aic"))


def test_kernel_columns_stay_in_their_ranges():
    text = TEXT.replace("step = 1\n", 'step = 1\nscale = "range"\n', 1).replace(
        "missing = 5", 'missing = 5\nscale = "range"'
    )
    study = parse_study(text.replace("[protection]", '[features]\nkind = "rbf"\ncount = 20\n[protection]'))
    assert not study.needs_moments and study.statistics == ("census", "cells", "products", "score")
    recipe = study.recipe()
    assert recipe.preprocessing.shift.tolist() == [0, 0, 0, 0]
    assert recipe.preprocessing.scale.tolist() == [110, 500, 1, 1]
    bounds = study.bounds(recipe)
    assert (bounds.samples, bounds.samples_per_device, recipe.n_features) == (1000, 300, 20)


# -- a table alone


def test_what_a_table_would_lose():
    found = check_table(parse_study(TEXT), TABLE)
    assert [(o.name, o.n_clipped, o.n_rounded, o.n_missing, o.n_unknown, o.seen) for o in found.columns] == [
        ("age", 2, 1, 0, 0, "-5 to 200"),
        ("crp", 0, 0, 2, 0, "1 to 3"),
        ("ward", 0, 0, 0, 1, "z"),
        ("days", 1, 0, 0, 0, "1 to 99"),
    ]
    assert found.usable and found.objections == (), "four rows are for the census to judge, over all tables"
    assert [(one.name, one.differs) for one in found.design][2:] == [("crp missing", 2), ("ward = b", 2)]


def test_what_speaks_against_a_table():
    text = TEXT.replace('other = "a"', "").replace("missing = 5", "").replace("= 300", "= 3")
    found = check_table(parse_study(text), TABLE.without(["days"]))
    assert not found.usable
    assert found.objections == ("t.csv must have between 1 and 3 rows, got 4",)
    assert [one.objection for one in found.columns] == [
        None,
        "column 'crp' of t.csv must have no missing values, got 2: say what a missing value becomes, or leave those"
        " rows out",
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
    study = parse_study(TEXT.replace("range = [0, 60.0]\nstep = 1", f"classes = {classes}"))
    codes, _ = study.target.codes(np.array(values), "t.csv")
    assert study.target.values(codes).tolist() == expected


def test_the_order_of_classes_is_that_of_the_file_and_in_the_digest():
    said = 'classes = ["control", "case"]'
    study = parse_study(TEXT.replace("range = [0, 60.0]\nstep = 1", said))
    other = parse_study(TEXT.replace("range = [0, 60.0]\nstep = 1", 'classes = ["case", "control"]'))
    assert study.target == ClassTarget("days", ("control", "case"))
    assert isinstance(other.target, ClassTarget) and study.target.modelled == "case"
    assert study.target.codes(np.array(["case", "control"]), "t.csv")[0].tolist() == [1, 0]
    assert study.digest() != other.digest() and other.target.modelled == "control"


@pytest.mark.parametrize(("classes", "value", "got"), [('["no", "yes"]', "maybe", "'maybe'"), ("[0, 1]", 0.5, "0.5")])
def test_a_class_that_the_study_does_not_have_is_refused(classes: str, value: object, got: str):
    study = parse_study(TEXT.replace("range = [0, 60.0]\nstep = 1", f"classes = {classes}"))
    message = (
        f"the target 'days' of t.csv must hold its classes only, got {got} (2 such rows): add the class, or leave those"
        " rows out"
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        study.target.codes(np.array([value, value]), "t.csv")


def test_codes_of_gaps_and_doubled_ids_are_pointed_out():
    study = replace(parse_study(TEXT), id="nr")
    rows = {"age": [*range(30, 57), -9, 999, 999], "crp": 1.0, "ward": "a", "days": [*range(1, 30), 999]}
    table = as_raw_table(
        {**{k: v if isinstance(v, list) else [v] * 30 for k, v in rows.items()}, "nr": [*range(28), 7, 9]}
    )
    assert check_table(study, table).remarks == (
        "age: -9, 999 far from all others, as codes of missing values are: list such in missing_codes of the study",
        "days: 999 far from all others, as codes of missing values are: list such in missing_codes of the study",
        "id 'nr': 2 stand in several rows, and each counts as one person (smallest_cell)",
    )
    said = parse_study(TEXT.replace("range = [0, 110]", "range = [0, 110]\nmissing_codes = [-9, 999]"))
    assert [one[:4] for one in check_table(said, table).remarks] == ["days"]


def test_labels_and_units_are_read_and_in_no_digest():
    text = TEXT.replace('name = "age"\n', 'name = "age"\nlabel = "Age at entry"\nunit = "years"\n')
    assert text != TEXT
    study = parse_study(text)
    assert ("age", "Age at entry", "years") in study.labels and study.digest() == parse_study(TEXT).digest()
    for wrong in ("label = 3", f'label = "{"x" * 81}"', 'unit = "a\\nb"'):
        with pytest.raises(InvalidInput, match=r"label( and unit)? of 'age'"):
            parse_study(TEXT.replace('name = "age"\n', f'name = "age"\n{wrong}\n'))


# -- a draft


def test_a_draft_reads_as_a_study_that_takes_its_sample():
    table = as_raw_table(
        {
            "id": range(40),
            "age": np.linspace(18, 97, 40),
            "crp": [None, *np.linspace(-1, 2, 39).round(2)],
            "ward": ["a", 'b "x"'] * 20,
            "sick": [0, 1] * 20,
        },
        "t.csv",
    )
    text = study_text(draft_of_table(table, "sick", "sample"))
    study = parse_study(text)
    assert (study.table_columns.names, study.id) == (("age", "crp", "ward"), "id")
    assert study.columns[0].range == (0.0, 120.0), "of an age"
    assert study.complete_cases and study.columns[1].missing is None
    assert study.columns[1].step == 0.01
    assert study.task == "classification"
    assert not any(one.objection for one in check_table(study, table).columns)
    assert sum("#" in line for line in text.splitlines()) > 20
    assert "97" not in text, "a person's value must not stand in the file"
    stay = parse_study(study_text(draft_of_table(table, "age", "sample", drop=("ward",))))
    assert stay.target == NumberTarget("age", (0.0, 120.0), 0.001), "at most 2**19 steps of the sample"


@pytest.mark.parametrize("name", ["Patienten-Nr", "case no", "Fallnummer", "id", "PatientID"])
def test_an_id_is_found_by_its_name(name: str):
    table = as_raw_table({name: list(range(7, 47)), "age": [40, 50] * 20, "days": list(range(40))}, "t.csv")
    draft = draft_of_table(table, "days", "t")
    assert draft.id == name and [one.name for one in draft.columns] == ["age"]
    assert draft_of_table(table, "age", "t").id == name
    repeated = as_raw_table({name: [1, 2] * 20, "days": list(range(40))}, "t.csv")
    assert draft_of_table(repeated, "days", "t").id is None, "a number that many have is a column"


def test_words_in_a_number_column_are_drafted_as_codes_where_enough_rows_have_them():
    """A hospital's "k.A." needs no second look; a text of one row is nobody else's to read."""
    crp = [*(["<5"] * 5), *(["n/a"] * 6), "call Dr. X", *(str(one) for one in range(20))]
    (column,) = draft_of_table(as_raw_table({"crp": crp, "days": list(range(32))}), "days", "t").columns
    assert column.missing_codes == ("n/a", "<5") and column.missing is None
    assert column.noticed == (
        '12 cells of the sample are no numbers: missing_codes takes ["n/a", "<5"] as missing.'
        " '<5' is a number's bound: better a number in every table, and no code."
    )


def test_a_draft_does_not_tell_the_texts_that_few_people_have():
    blood = ["A"] * 20 + ["B"] * 14 + ["Bombay", "0", "0", "=HYPERLINK(1)", "", "AB"]
    table = as_raw_table({"blood": blood, "days": np.arange(40.0)}, "t.csv")
    draft = draft_of_table(table, "days", "t")
    (one,) = draft.columns
    assert (one.levels, one.other, one.rare) == (("A", "B", "other"), "other", 4) and draft.complete_cases
    assert draft.describing().columns[0].levels == ("A", "B", "other", "missing")
    for text in (study_text(draft), study_text(draft.describing())):
        assert "Bombay" not in text and "HYPERLINK" not in text
        assert not any(found.objection for found in check_table(parse_study(text), table).columns)
    rule = "column 'blood' of t.csv must have a text that at least 5 rows have, got none: drop the column, or take a"
    with pytest.raises(InvalidInput, match=exactly(f"{rule} larger sample")):
        draft_of_table(table.rows(np.arange(34, 40)), "days", "t")


def test_a_draft_says_that_it_has_guessed_classes():
    table = as_raw_table({"x": [1.0, 2.5, 3.0, 4.0], "score": [0, 2, 2, 0]}, "t.csv")
    guessed = study_text(draft_of_table(table, "score", "t"))
    assert parse_study(guessed).target == ClassTarget("score", (0, 2))
    assert (
        "# Noticed: Guessed from two whole numbers. If it is a quantity: codedfl study new --task regression" in guessed
    )
    assert isinstance(
        parse_study(study_text(draft_of_table(table, "score", "t", task="regression"))).target, NumberTarget
    )


def test_a_count_is_a_number_and_takes_a_nine():
    table = as_raw_table({"x": np.arange(90.0), "visits": [*range(8), 8] * 10}, "t.csv")
    text = study_text(draft_of_table(table, "visits", "t"))
    assert "# Noticed: Taken for a quantity, such as a count. If it is classes: codedfl study new --task class" in text
    target = parse_study(text).target
    assert isinstance(target, NumberTarget)
    assert target.codes(np.array([9.0]), "other.csv")[1].n_clipped == 0, "not clipped"
    assert isinstance(
        parse_study(study_text(draft_of_table(table, "visits", "t", task="classification"))).target, ClassTarget
    )


def test_many_codes_are_levels_and_ids_are_left_out_and_said():
    rng = np.random.default_rng(1)
    icd = [f"{'ABCDEFGHIJ'[one % 10]}{one:02d}.{one % 7}" for one in rng.zipf(1.3, 6000) % 172]
    table = as_raw_table(
        {
            "patient_id": [f"P{one:05d}" for one in range(6000)],
            "name": [f"person {one}" for one in range(6000)],
            "born": ["1970-01-31"] * 6000,
            "icd": icd,
            "days": rng.normal(size=6000).round(2),
        },
        "t.csv",
    )
    text = study_text(draft_of_table(table, "days", "t"))
    study = parse_study(text)
    (one,) = study.columns
    assert isinstance(one, CategoryColumn) and one.other == "other" == one.levels[-1]
    assert 60 < len(one.levels) < 172, "those with fewer than five rows count as other"
    assert study.id == "patient_id"
    assert [line for line in text.splitlines() if line.startswith("# Noticed")] == [
        "# Noticed: column 'patient_id' of t.csv only numbers the rows: left out",
        "# Noticed: column 'name' of t.csv is different in every row, as an id is: left out",
        "# Noticed: column 'born' of t.csv has dates, not numbers such as days since a fixed day: left out",
    ]
    assert check_table(study, table).usable


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0, 1], (0.0, 1.0)),
        ([18, 97], (0.0, 180.0)),
        ([1990, 2020], (1960.0, 2050.0)),
        ([3, 3], (0.0, 6.0)),
        ([-20, 700], (-800.0, 1600.0)),
        ([-7, -2], (-12.0, 0.0)),
        ([0.0], (0.0, 1.0)),
        ([1e-9, 3e-9], (0.0, 5e-9)),
    ],
)
def test_ranges_have_room_and_are_rounded_outwards(values: list[float], expected: tuple[float, float]):
    assert fitting_range(np.array(values)) == expected


@pytest.mark.parametrize(
    ("values", "step"),
    [([61.0, 18.0], 1.0), ([61.5], 0.1), ([0.125], 0.001), ([0, 1 / 3], 1e-6), ([1, 12345678.0], 100.0)],
)
def test_the_unit_of_record(values: list[float], step: float):
    assert unit_of_record(np.array(values)) == step


# -- texts from anywhere

PIECES = (
    *("[", "]", "=", '"', "\n", "0", "-1", "1e999", "nan", "99999999999999999999", "true", "\x00", "\u202e", "{}", "#"),
    *("[[column]]", "range = [0, 1]", "step = 0", "levels = []", ",", "id", "é" * 50),
)


def test_any_text_is_a_study_or_is_refused_in_one_line():
    rng = random.Random(0)
    extra = '\n[[model]]\nname = "m"\ncolumns = ["age"]\n[features]\nkind = "rbf"\n[noise]\nepsilon = 1\nhonest = 3\n'
    taken = 0
    for _ in range(600):
        lines = (TEXT + (extra if rng.random() < 0.3 else "")).splitlines()
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(lines))
            kind = rng.randrange(4)
            if kind == 0:
                del lines[place]
            elif kind == 1:
                lines.insert(place, rng.choice((*lines, *PIECES)))
            elif kind == 2:
                at = rng.randrange(len(lines[place]) + 1)
                lines[place] = lines[place][:at] + rng.choice(PIECES) + lines[place][at + rng.randrange(3) :]
            else:
                key, _, _ = lines[place].partition("=")
                lines[place] = (
                    f"{key}= {rng.choice(('0', '-1', '2.5', '1e400', '[1, 2]', 'true', '2000-01-01', '9' * 30))}"
                )
        try:
            study = parse_study("\n".join(lines))
            taken += 1
            assert isinstance(study, Study) and len(study.digest()) == 32
        except InvalidInput as error:
            if not str(error).isprintable():
                raise AssertionError(f"an error must be one printable line, got {error!r}") from error
    assert taken > 5


def test_ids_and_codes_of_gaps_are_noticed_in_a_draft():
    """As tables have them: patient numbers under any name, and -9 or 999 where nothing was measured."""
    rng = np.random.default_rng(0)
    columns = {
        "patient": rng.permutation(10**6)[:40],
        "case": rng.permutation(10**6)[:40],
        "bmi": np.where(np.arange(40) < 2, -9, 20 + np.arange(40) % 15),
        "crp": np.where(np.arange(40) < 2, 999, np.arange(40) % 15),
        "age": np.where(np.arange(40) < 2, 99, 60 + np.arange(40) % 38),
        "days": np.arange(40) % 9,
    }
    draft = draft_of_table(as_raw_table(columns, "t.csv"), "days", "t")
    assert draft.id == "patient" and draft.noticed == ("column 'patient' of t.csv only numbers the rows: left out",)
    noticed = {one.name: " ".join(one.remarks).partition(":")[0] for one in draft.columns}
    assert noticed == {
        "case": "another whole number in every row, as ids have",
        "bmi": "-9 far from all others, taken for codes of missing values",
        "crp": "999 far from all others, taken for codes of missing values",
        "age": "",
    }
    assert {one.name: one.missing_codes for one in draft.columns if one.missing_codes} == {"bmi": (-9,), "crp": (999,)}
    assert "leaves out 2 of 40 rows of the sample, for missing values (bmi 2, crp 2); instead drop" in draft.said[0]
    table = as_raw_table(columns, "t.csv")
    study = parse_study(study_text(draft))
    assert check_table(study, table).usable and study.columns[1].range == (5.0, 100.0), "as of the 38 others"
