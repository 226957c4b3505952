"""Small cells, by brute force: no combination of totals of levels is a sum over few rows of a device."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from clinics import AGE, KEY, STUDY, table
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.authoring.check import check_table
from codedfl.contract.models.table import TableModel
from codedfl.contract.row_rule import row_objection
from codedfl.contract.small_cells import OwnRows, cell_objection, own_rows
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study
from codedfl.contract.study_columns import ClassTarget, StudyColumn
from codedfl.data.columns import CategoryColumn, DerivedColumn, NumberColumn
from codedfl.data.derived import Factor
from codedfl.errors import InvalidInput

pytestmark = pytest.mark.hospitals

SMALLEST = 5
LEVELS = ("a", "b", "c")
WARD = StudyColumn(CategoryColumn("ward", LEVELS))
PLAIN = replace(STUDY, columns=(WARD,), held_out=0.0, smallest_cell=SMALLEST)
BY_ID = replace(PLAIN, id="nr")
Patients = dict[str, list[Any]]


def patients(numbers: list[int], levels: list[str]) -> Patients:
    """Everybody stays another number of days, so that rows can be told apart without an id too."""
    return {"nr": numbers, "ward": levels, "days": [number % 61 for number in numbers]}


def approved(study: Study, editions: list[Patients]) -> list[tuple[Patients, OwnRows]]:
    """The editions that a device approves, one after the other, and the rows as it freezes them."""
    taken: list[tuple[Patients, OwnRows]] = []
    for rows in editions:
        earlier = [own.tags for _, own in taken]
        own = own_rows(study, table(rows), KEY, earlier)
        if not row_objection(own.tags, earlier, study.least_alike) and not cell_objection(study, own.tags, earlier):
            taken.append((rows, own))
    return taken


def fewest_of_any_combination(editions: list[Patients], codes: list[np.ndarray]) -> int:
    """Rows with a factor other than 0 in the totals of all levels and editions, added up with factors -1, 0 and 1."""
    numbers = sorted({number for rows in editions for number in rows["nr"]})
    totals = []
    for rows, of_edition in zip(editions, codes, strict=True):
        place = {number: i for i, number in enumerate(rows["nr"])}
        told = np.array([of_edition[place[one]] if one in place else -1 for one in numbers])
        totals += [told == level for level in range(len(LEVELS)) if (told == level).any()]
    left = np.array(list(product((-1, 0, 1), repeat=len(totals)))) @ np.array(totals, dtype=np.int64)
    sizes = (left != 0).sum(axis=1)
    return int(sizes[sizes > 0].min())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([PLAIN, BY_ID]))
def test_no_combination_of_totals_is_over_few_rows(seed: int, study: Study):
    rng = np.random.default_rng(seed)
    level_of = rng.choice(LEVELS, 61, p=rng.dirichlet([0.5, 1.0, 0.3])).tolist()
    editions = []
    for _ in range(3):
        here = np.flatnonzero(rng.random(61) < rng.choice([0.5, 0.8, 0.97])).tolist()
        editions.append(patients(here, [level_of[i] for i in here]))
    taken = approved(study, editions)
    codes = [own.snapshot.codes[:, 0] for _, own in taken]
    assert taken and fewest_of_any_combination([rows for rows, _ in taken], codes) >= SMALLEST


def test_rows_as_they_are_show_one_row():
    """The old rule, as a mutant: the same combinations of rows that are frozen as they are read."""
    rows = patients(list(range(30)), ["a"] * 20 + ["b"] * 9 + ["c"])
    codes = take_snapshot(PLAIN, table(rows), KEY).codes[:, 0]
    assert fewest_of_any_combination([rows], [codes]) == 1
    assert fewest_of_any_combination([rows], [own_rows(PLAIN, table(rows), KEY).snapshot.codes[:, 0]]) == 9


@pytest.mark.parametrize("study", [PLAIN, BY_ID], ids=["without an id", "with an id"])
def test_a_column_that_was_written_anew_makes_nobody_told_differently(study: Study):
    """Two had a rare level. With a new unit in another column, three more of it and seven others come."""
    with_age = replace(study, columns=(AGE, WARD))
    levels = ["a"] * 20 + ["b"] * 20 + ["c"] * 2
    before = {**patients(list(range(42)), levels), "age": [20 + i for i in range(42)]}
    numbers = list(range(52))
    after = {**patients(numbers, [*levels, *"ccc", *"a" * 7]), "age": [21 + i for i in numbers]}
    first, *later = (own for _, own in approved(with_age, [before, after]))
    assert np.bincount(first.snapshot.codes[:, 1], minlength=3).tolist()[2] == 0
    for one in later:  # it may be refused; if it is not, the two are what they were
        assert one.snapshot.codes[40:42, 1].tolist() == first.snapshot.codes[40:42, 1].tolist()


def test_rare_gaps_lose_their_mark_and_rare_products_are_nothing():
    crp = StudyColumn(NumberColumn("crp", 5.0), (0.0, 500.0), 0.1)
    both = DerivedColumn("b:x", factors=(Factor("ward", "b"), Factor("sex", "x")))
    study = replace(
        PLAIN,
        columns=(crp, WARD, StudyColumn(CategoryColumn("sex", ("x", "y"))), StudyColumn(both, (0.0, 1.0), 1.0)),
    )
    rows = {
        **patients(list(range(40)), ["a"] * 20 + ["b"] * 20),
        "crp": [None] * 4 + [float(i) for i in range(36)],
        "sex": ["y"] * 10 + ["x"] * 13 + ["y"] * 17,
    }
    codes = own_rows(study, table(rows), KEY).snapshot.codes
    assert codes[:4, 0].tolist() == [175] * 4, "the mean of the others, 17.5, on the grid"
    assert codes[:, 3].tolist() == [0] * 40, "three rows have both"
    rows["crp"][4] = None
    assert own_rows(study, table(rows), KEY).snapshot.codes[:5, 0].tolist() == [-1] * 5


@pytest.mark.parametrize("by_id", [None, "nr"])
def test_few_gaps_are_the_same_mean_in_a_description_and_in_the_study_after_it(by_id: str | None):
    """Neither leaves out the four rows, and a row keeps the mean of its first study for good."""
    filled, plain = (StudyColumn(NumberColumn("crp", fill), (0.0, 500.0), 0.1) for fill in (0.0, None))
    first = replace(PLAIN, columns=(filled, WARD), id=by_id, complete_cases=True)
    second = replace(first, columns=(plain, WARD))
    crp = [float(i % 37) for i in range(56)]
    rows = {**patients(list(range(60)), ["a"] * 30 + ["b"] * 30), "crp": [*[None] * 4, *crp]}
    described = own_rows(first, table(rows), KEY)
    mean = round(10 * np.mean(crp))
    assert described.snapshot.codes[:4, 0].tolist() == [mean] * 4
    real = own_rows(second, table(rows), KEY, [described.tags])
    assert np.array_equal(real.snapshot.codes, described.snapshot.codes) and real.snapshot.left_out == 0
    assert np.array_equal(real.tags.told, described.tags.told)
    assert row_objection(real.tags, [described.tags], second.least_alike) == ""
    assert cell_objection(second, real.tags, [described.tags]) == ""
    new = {**patients(list(range(60, 120)), ["a"] * 30 + ["b"] * 30), "crp": [400.0 + i for i in range(60)]}
    later = own_rows(second, table({name: [*rows[name], *new[name]] for name in rows}), KEY, [described.tags])
    assert later.snapshot.codes[:4, 0].tolist() == [mean] * 4


def test_a_check_names_what_is_told_otherwise():
    study = replace(PLAIN, columns=(StudyColumn(NumberColumn("crp", 0.0), (0.0, 500.0), 0.1), WARD))
    rows = {**patients(list(range(40)), ["a"] * 38 + ["c"] * 2), "crp": [*[None] * 4, *map(float, range(36))]}
    assert check_table(study, table(rows)).few == (
        "crp: a gap, in 4 row(s), fewer than 5 (smallest_cell), is told as the mean of this table",
        "ward: 'c', in 2 row(s), fewer than 5 (smallest_cell), is told as another level",
    )
    rows["crp"][4] = None
    assert len(check_table(study, table(rows)).few) == 1


def test_a_marked_gap_stays_one_with_another_filling_and_tells_nothing_more():
    """A description fills with 0 and the study after it with the mean: the mark of either has what they differ by."""
    columns = [StudyColumn(NumberColumn("crp", fill), (0.0, 500.0), 0.1) for fill in (0.0, 7.0)]
    first, second = (replace(BY_ID, columns=(one,)) for one in columns)
    rows = {**patients(list(range(60)), ["a"] * 60), "crp": [*[None] * 5, *map(float, range(55))]}
    known = own_rows(first, table(rows), KEY)
    assert known.snapshot.codes[:5, 0].tolist() == [-1] * 5
    new = own_rows(second, table(rows), KEY, [known.tags])
    assert np.array_equal(new.snapshot.codes, known.snapshot.codes)
    assert cell_objection(second, new.tags, [known.tags]) == ""
    before, after = (one.design(new.snapshot.codes[:, 0]) for one in columns)
    assert np.array_equal(after, before + np.outer(before[:, 1], [70, 0])), "a multiple of the mark is added"


def test_few_gaps_that_were_told_as_a_mean_are_not_told_as_another():
    columns = [StudyColumn(NumberColumn("crp", 0.0), (0.0, 500.0), step) for step in (0.1, 20.0)]
    first, second = (replace(BY_ID, columns=(one,)) for one in columns)
    rows = {**patients(list(range(60)), ["a"] * 60), "crp": [*[None] * 4, *map(float, range(56))]}
    known = own_rows(first, table(rows), KEY)
    with pytest.raises(InvalidInput, match=r"^the gaps of column 'crp' must be told as in the studies approved before"):
        own_rows(second, table(rows), KEY, [known.tags])


def test_a_rare_level_counts_as_the_one_that_the_study_names():
    named = replace(PLAIN, columns=(StudyColumn(CategoryColumn("ward", LEVELS, other="b")),))
    for count, company in ((4, 1), (1, 0)):  # with too few of "b" the commonest takes both
        rows = patients(list(range(30)), ["a"] * (28 - count) + ["b"] * count + ["c"] * 2)
        codes = own_rows(named, table(rows), KEY).snapshot.codes[:, 0]
        assert codes[-2:].tolist() == [company] * 2


def test_a_number_that_most_have_in_common_and_a_class_of_few():
    rows = {**patients(list(range(30)), ["a"] * 30), "age": [50] * 27 + [60] * 3}
    number = replace(PLAIN, columns=(AGE,))
    rule = "column 'age' must be the same in all rows of this table or differ in at least 5 (smallest_cell), got 3"
    assert cell_objection(number, own_rows(number, table(rows), KEY).tags).partition(":")[0] == rule
    target = replace(PLAIN, target=ClassTarget("ward", LEVELS), columns=(AGE,))
    rows = {**patients(list(range(30)), ["a"] * 27 + ["b"] * 3), "age": list(range(30))}
    rule = "the target 'ward' must have each of its values in none or at least 5 rows of this table (smallest_cell)"
    assert cell_objection(target, own_rows(target, table(rows), KEY).tags).startswith(rule)


def test_a_table_of_combinations_is_judged_as_one_category():
    """Every level is common, and one person is alone in a combination, whose target a lying server would read."""
    sex, ill = StudyColumn(CategoryColumn("sex", ("x", "y"))), ClassTarget("ill", ("no", "yes"))
    plain = replace(PLAIN, columns=(WARD, sex), target=ill)
    rows = {
        **patients(list(range(40)), ["a"] * 20 + ["b"] * 20),
        "sex": ["x"] * 15 + ["y"] * 5 + ["y"] * 19 + ["x"],
        "ill": ["no", "yes"] * 20,
    }
    assert cell_objection(plain, own_rows(plain, table(rows), KEY).tags) == ""
    study = replace(plain, models=(TableModel("table", ("ward", "sex")),))
    assert cell_objection(study, own_rows(study, table(rows), KEY).tags).partition(":")[0] == (
        "column 'ward' and column 'sex' must have each of its values in none or at least 5 rows of this table"
        " (smallest_cell), got 1"
    )


def test_a_rare_class_that_holding_out_divides_is_refused_with_the_way_out():
    """Eight of a class are enough for a table, and too few for its two parts."""
    study = replace(PLAIN, target=ClassTarget("ill", ("no", "yes")), columns=(AGE,), held_out=0.4)
    rows: Patients = {"age": [20 + i % 60 for i in range(90)], "ill": ["yes"] * 8 + ["no"] * 82, "nr": list(range(90))}
    said = [
        cell_objection(one, own_rows(one, table(rows), KEY, []).tags, []) for one in (study, replace(study, held_out=0))
    ]
    assert "without the column, with held_out = 0 (rows held out are counted apart), with a wider" in said[0]
    assert said[1] == ""
