"""Columns of a table to columns of X: levels, missing values, unknown names; what is guessed, left out or refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from codedfl.authoring.guessed_columns import guess_columns
from codedfl.data.columns import CategoryColumn, Columns, NumberColumn
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from wording import exactly

NAN = float("nan")
COLUMNS = Columns(
    (
        NumberColumn("age"),
        NumberColumn("bmi", missing=25.0),
        CategoryColumn("ward", ("a", "b", "c"), missing="c", other="b"),
        CategoryColumn("smoker", ("false", "true")),
    )
)
TABLE = as_raw_table(
    {
        "smoker": [True, False, True],
        "ward": ["b", None, "z"],
        "note": ["x", "y", "z"],
        "bmi": [NAN, 20, 30],
        "age": [1, 2, 3],
    },
    "t.csv",
)


def test_columns_are_found_by_name_and_encoded():
    assert COLUMNS.design_names == ("age", "bmi", "bmi missing", "ward = b", "ward = c", "smoker = true")
    X, reports = COLUMNS.encode(TABLE)
    assert X.tolist() == [[1, 25, 1, 1, 0, 1], [2, 20, 0, 0, 1, 0], [3, 30, 0, 1, 0, 1]]
    assert [(one.name, one.n_missing, one.n_unknown, one.unknown) for one in reports] == [
        ("age", 0, 0, ()),
        ("bmi", 1, 0, ()),
        ("ward", 1, 1, ("z",)),
        ("smoker", 0, 0, ()),
    ]
    assert np.array_equal(COLUMNS.matrix(TABLE), X)


def test_truth_values_may_be_numbers():
    column = CategoryColumn("smoker", ("false", "true"))
    X, report = column.encode(np.array([0.0, 1.0, 2.0, NAN]), "t")
    assert X[:2].tolist() == [[0], [1]]
    assert (report.unknown, report.n_unknown, report.n_missing) == (("2",), 1, 1)


def test_a_truth_value_that_nobody_has_here_is_a_level():
    (found,) = guess_columns(as_raw_table({"smoker": [True, None, True]}, "t.csv")).columns.columns
    assert found == CategoryColumn("smoker", ("false", "true", "missing"), missing="missing")


def test_json_brings_them_back():
    assert Columns.from_list(json.loads(json.dumps(COLUMNS.to_list()))) == COLUMNS
    assert Columns.from_list(["a", "b"]) == Columns.of_numbers(["a", "b"])


def test_whole_numbers_can_be_levels():
    column = CategoryColumn("grade", ("1", "2", "2.5"))
    X, report = column.encode(np.array([1.0, 2.0, 2.5, NAN]), "t")
    assert np.array_equal(X[:3], [[0, 0], [1, 0], [0, 1]])
    assert np.isnan(X[3]).all()
    assert report.n_missing == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"age": ["1", "x", "2"]},
            "column 'age' of t.csv must hold numbers, got 'x' in row 2: write a number, or leave the cell empty, or"
            " list it in missing_codes",
        ),
        ({"age": [1, np.inf, 2]}, "column 'age' of t.csv must hold finite numbers, got inf in row 2"),
        (
            {"age": [1, NAN, 2]},
            "column 'age' of t.csv must have no missing values, got 1: say what a missing value becomes, or leave those"
            " rows out",
        ),
        (
            {"smoker": ["true", "perhaps", "true"]},
            "column 'smoker' of t.csv must hold its levels only, got 'perhaps' (1 such rows): add the level, or say"
            " which one others count as",
        ),
        (
            {"smoker": ["true", "", "true"]},
            "column 'smoker' of t.csv must have no missing values, got 1: say what a missing value becomes, or leave"
            " those rows out",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(change: dict[str, list[object]], message: str):
    table = as_raw_table({**TABLE.columns, **change}, "t.csv")
    with pytest.raises(InvalidInput, match=exactly(message)):
        COLUMNS.matrix(table)


def test_a_missing_column_is_named():
    with pytest.raises(InvalidInput, match=r"^t\.csv must have the column 'bmi', got 'smoker', 'ward', 'note', 'age'$"):
        COLUMNS.matrix(TABLE.without(["bmi"]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Columns(()), "columns must be at least one, got none"),
        (lambda: Columns.of_numbers("aba"), "columns must have different names, got 'a' twice"),
        (lambda: NumberColumn("a", missing=NAN), "missing of column 'a' must be a finite number, got nan"),
        (lambda: CategoryColumn("a", ("x",)), "levels of column 'a' must be at least two different names, got ['x']"),
        (lambda: CategoryColumn("a", ("x", "y"), "z"), "missing of column 'a' must be one of its levels, got 'z'"),
        (lambda: Columns.from_list("ab"), "saved columns must be a list, got 'ab'"),
        (
            lambda: Columns.from_list([{"name": "a"}]),
            "kind of column 'a' must be number or category or derived, got None",
        ),
        (
            lambda: Columns.from_list([{"name": "a", "kind": "date", "missing": None}]),
            "kind of column 'a' must be number or category or derived, got 'date'",
        ),
    ],
)
def test_bad_columns_are_refused(make, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        make()


# -- guessing


def table(**columns: Any) -> RawTable:
    return as_raw_table(columns, "t.csv")


def test_what_a_table_suggests():
    guess = guess_columns(table(id=[0, 1, 2, 3], x=[1.0, NAN, 3, 4], who=["b", "a", "", "b"], b=[True] * 3 + [False]))
    assert guess.columns.columns == (
        NumberColumn("x", missing=3.0),
        CategoryColumn("who", ("a", "b", "missing"), "missing"),
        CategoryColumn("b", ("false", "true")),
    )
    assert guess.notes == (
        "column 'id' of t.csv only numbers the rows: left out",
        "column 'x' has 1 missing, which become its median 3 and are marked",
        "column 'who' has 1 missing, which become a level 'missing'",
    )


def test_a_column_that_is_asked_for_stays():
    assert guess_columns(table(id=[0, 1, 2], x=[1, 2, 4]), keep=["id"]).columns.names == ("id",)
    assert guess_columns(table(id=[0, 2, 2], nr=[5, 2, 1], x=[1, 2, 4])).columns.names == ("id", "nr", "x")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": ["x", "x"]}, "t.csv must have at least one column to learn from, got 'a'"),
        ({"id": [1, 2, 3]}, "t.csv must have at least one column to learn from, got 'id'"),
    ],
)
def test_a_table_must_have_something_to_learn_from(columns: dict[str, list[object]], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        guess_columns(table(**columns))


def test_ids_and_texts_that_are_everywhere_the_same_are_left_out_and_named():
    found = guess_columns(table(patient_id=[1007, 1003, 1009], ward=["x", "x", "x"], age=[30, 40, 50], paid=[3, 1, 2]))
    assert found.columns.design_names == ("age", "paid")
    assert found.notes == (
        "column 'patient_id' of t.csv only numbers the rows: left out",
        "column 'ward' of t.csv is 'x' everywhere: left out",
    )
    with pytest.raises(InvalidInput, match=exactly("column 'ward' of t.csv is 'x' everywhere: leave it out")):
        guess_columns(table(ward=["x", "x"]), keep=["ward"])


def test_merged_levels_are_known_by_name_and_others_are_refused():
    """A level merged into *other* is *other*; one that no study knows is refused with its name."""
    for other, kept in ((None, ("surgery", "other")), ("else", ("surgery", "else"))):
        column = CategoryColumn("ward", kept, None, other, merged=("eye", "burns"))
        assert Columns.from_list(Columns((column,)).to_list()).columns == (column,)
        texts, report = column.named(np.array(["eye", "surgery", "burns", "psychiatry"]))
        assert texts.tolist() == [kept[1], "surgery", kept[1], other or ""]
        refused = report.objection("t.csv")
        expected = "column 'ward' of t.csv must hold its levels only, got 'psychiatry' (1 such rows): "
        assert (refused is None) if other else refused.startswith(expected)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (["1970-01-31", "", "1999-12-01"], "has dates, not numbers such as days since a fixed day"),
        ([f"person {i}" for i in range(20)], "is different in every row, as an id is"),
        ([f"note {i // 2}" for i in range(40)], "has 20 different texts in 40 rows, nearly all of them rare"),
        ([NAN, NAN], "has missing values only"),
        (["", ""], "has missing values only"),
    ],
)
def test_what_cannot_be_learned_from_is_left_out_and_named_or_refused(values: list[object], why: str):
    given = {"a": values, "x": np.arange(len(values))}
    assert guess_columns(table(**given)).left_out == (f"column 'a' of t.csv {why}: left out",)
    with pytest.raises(InvalidInput, match=exactly(f"column 'a' of t.csv {why}: leave it out")):
        guess_columns(table(**given), keep=["a"])


def test_a_column_of_numbers_in_which_a_cell_is_none_is_a_number():
    crp = np.array(["2.13", "4", "", "<5", "-9.0"])
    (found,) = guess_columns(table(crp=crp)).columns.columns
    assert isinstance(found, NumberColumn)
    with pytest.raises(InvalidInput, match=r"^column 'crp' of t\.csv must hold numbers, got '<5' in row 4: "):
        NumberColumn("crp").encode(crp, "t.csv")
    numbers, report = NumberColumn("crp", missing=0.0, missing_codes=("<5", -9.0)).encode(crp, "t.csv")
    assert (numbers.tolist(), report.n_missing) == ([[2.13, 0], [4, 0], [0, 1], [0, 1], [0, 1]], 3)
