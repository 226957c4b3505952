"""The row rule against its attackers: totals that are exact can be combined, and what is left must be none or many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from clinics import AGE, CRP, DAYS, KEY, SEX, STUDY, Columns, K, joined, patients, some, table
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.contract.row_rule import fewest_alike, history_classes, row_objection
from codedfl.contract.snapshot import RowTags, row_tags, take_snapshot
from codedfl.contract.study import Study
from codedfl.contract.study_columns import StudyColumn
from codedfl.data.columns import NumberColumn
from codedfl.statistics.statistic import Ask
from totals import total_of

BASE = patients(100)
BY_ID = replace(STUDY, id="nr")
BOTH = pytest.mark.parametrize("study", [STUDY, BY_ID], ids=["without an id", "with an id"])


def tags(study: Study, columns: Columns) -> RowTags:
    return row_tags(study, table(columns), KEY)


def judged(*approved: tuple[Study, Columns]) -> list[str]:
    """What is said of each approval after the earlier ones, which are all recorded."""
    rows = [tags(*one) for one in approved]
    return [row_objection(rows[i], rows[:i], approved[i][0].least_alike) for i in range(len(rows))]


def changed(columns: Columns, name: str, row: int, value: object) -> Columns:
    return {**columns, name: [value if i == row else old for i, old in enumerate(columns[name])]}


def passes_pair_by_pair(*approved: tuple[Study, Columns]) -> bool:
    """The old rule, as a mutant: digests of whole rows as a study uses them, compared with each approval by itself."""
    digests = [np.sort(np.concatenate(one.of(one.columns, False))) for one in (tags(*one) for one in approved)]
    changed = [
        sum(rows for history, rows in history_classes([digests[i], digests[j]]).items() if not all(history))
        for i in range(len(digests))
        for j in range(i)
    ]
    return all(count == 0 or count >= approved[0][0].least_alike for count in changed)


def what_is_left(study: Study, *signed: tuple[int, Columns]) -> np.ndarray:
    """Count, sums and the rest of the Gram matrix of a study's columns in a combination of totals."""
    whole = replace(study, held_out=0.0)
    totals = [sign * np.array(gram_of(whole, columns), dtype=object) for sign, columns in signed]
    return np.sum(totals, axis=0)


def gram_of(study: Study, columns: Columns) -> list[int]:
    return total_of(study, Ask("gram"), [take_snapshot(study, table(columns), KEY)])


def sets_of(*sets: Sequence[int]) -> list[np.ndarray]:
    return [np.array(one, dtype=np.uint64) for one in sets]


# -- attackers


@BOTH
def test_one_patient_more_and_the_study_repeated(study: Study):
    said = judged((study, BASE), (study, joined(BASE, patients(1, seed=1))))
    assert said[0] == ""
    assert said[1].startswith(f"rows with the same history must number none or at least {K}, got 1 on 'age', 'crp', ")
    assert "wait until" in said[1] and "noise" in said[1]


@BOTH
def test_four_editions_whose_totals_combine_to_one_row(study: Study):
    a, b, v = patients(K, seed=1), patients(K, seed=2), patients(1, seed=3)
    editions = [BASE, joined(BASE, a, v), joined(BASE, b, v), joined(BASE, a, b, v)]
    rows = [tags(study, one) for one in editions]
    pairs = [
        fewest_alike(*zip(*(rows[i].of(rows[i].columns, False) for i in two), strict=True)) for two in ((0, 1), (1, 3))
    ]
    assert min(pairs) >= K, "no two totals differ by few rows"
    assert "got 1 on" in judged(*((study, one) for one in editions))[2]
    assert passes_pair_by_pair(*((study, one) for one in editions))
    left = what_is_left(study, *zip((-1, 1, 1, -1), editions, strict=True))
    assert left.tolist() == gram_of(replace(study, held_out=0.0), v), "and the four totals are one row"


@BOTH
def test_a_gap_in_a_column_that_only_one_study_uses(study: Study):
    """A study of complete cases, then one without the column: the row with the gap is the difference."""
    gap = changed(BASE, "bmi", 7, None)
    complete = some(gap, np.arange(100) != 7)
    with_bmi = replace(study, columns=(*study.columns, StudyColumn(NumberColumn("bmi"), (10.0, 60.0), 0.1)))
    assert "got 1 on" in judged((with_bmi, complete), (study, gap))[1]
    assert passes_pair_by_pair((with_bmi, complete), (study, gap))  # every row has "changed"
    left = what_is_left(study, (1, gap), (-1, complete))
    assert left.tolist() == gram_of(replace(study, held_out=0.0), some(gap, [7])), "the totals differ by that row"


@BOTH
def test_one_column_more_and_one_patient_more(study: Study):
    wider = replace(study, columns=(*study.columns, StudyColumn(NumberColumn("bmi"), (10.0, 60.0), 0.1)))
    one_more = joined(BASE, patients(1, seed=1))
    assert "got 1 on" in judged((study, BASE), (wider, one_more))[1]
    assert passes_pair_by_pair((study, BASE), (wider, one_more))
    left = what_is_left(study, (1, one_more), (-1, BASE))
    assert left.tolist() == gram_of(replace(study, held_out=0.0), patients(1, seed=1))


@BOTH
def test_a_corrected_cell(study: Study):
    assert "got 1 on" in judged((study, BASE), (study, changed(BASE, "crp", 3, 118.5)))[1]


@BOTH
def test_a_corrected_column_does_not_hide_one_patient(study: Study):
    """All rows changed, but not in the other columns, whose part of the Gram matrix differs by one row."""
    respelt = {**BASE, "crp": [value + 0.3 for value in BASE["crp"]]}
    assert "got 1 on" in judged((study, BASE), (study, joined(respelt, patients(1, seed=1))))[1]


def test_rows_corrected_in_one_column_do_not_hide_one_corrected_in_another():
    corrected = {**BASE, "crp": [value + (0.3 if i < 2 * K else 0) for i, value in enumerate(BASE["crp"])]}
    for study in (STUDY, BY_ID):
        assert "got 1 on" in judged((study, BASE), (study, changed(corrected, "age", 2 * K + 1, 99)))[1]


def seen_as(study: Study, column: StudyColumn) -> Study:
    return replace(
        study, columns=tuple(column if one.column.name == column.column.name else one for one in study.columns)
    )


@BOTH
def test_another_range_grid_or_filling(study: Study):
    """The same rows, but one of them lies beyond the new range, between the steps of the other grid, or is a gap."""
    base = changed(changed(BASE, "age", 5, 97), "crp", 6, 58.14)
    for other in (StudyColumn(AGE.column, (0.0, 96.0), 1.0), StudyColumn(CRP.column, (0.0, 500.0), 0.01)):
        said = judged((study, base), (seen_as(study, other), base))[1]
        assert said.startswith(
            f"column {other.column.name!r} must be seen as in the studies approved before, got 1 value(s)"
        )
    gap = changed(BASE, "crp", 6, None)
    filled = (NumberColumn("crp", fill, indicator=False) for fill in (5.0, 6.0))
    ours, theirs = (seen_as(study, StudyColumn(one, (0.0, 500.0), 0.1)) for one in filled)
    assert "got 1 value(s)" in judged((ours, gap), (theirs, gap))[1]


@BOTH
def test_two_ranges_that_begin_at_different_people(study: Study):
    """Many are above 80 and above 81; the difference of the two totals is the one person of 80."""
    ages = [80 if i == 0 else 50 + i % 30 if i < 70 else 85 for i in range(100)]
    base = {**BASE, "age": ages}
    above = [seen_as(study, StudyColumn(AGE.column, (low, low + 1.0), 1.0)) for low in (79.0, 80.0)]
    codes = [one.codes(table(base))[0][:, 0] for one in above]
    assert [int(one.sum()) for one in codes] == [31, 30] and int((codes[0] != codes[1]).sum()) == 1
    assert "column 'age' must be seen as in the studies" in judged(*((one, base) for one in above))[1]


@BOTH
def test_a_grid_does_not_hide_one_patient(study: Study):
    coarser = seen_as(study, StudyColumn(AGE.column, (0.0, 110.0), 7.0))
    assert judged((study, BASE), (coarser, joined(BASE, patients(1, seed=1))))[1]


@BOTH
def test_a_respelt_table_does_not_hide_one_patient(study: Study):
    """Every age is written with a fraction that the grid does not see."""
    respelt = {**BASE, "age": [one + 0.001 for one in BASE["age"]]}
    assert "got 1 on" in judged((study, BASE), (study, joined(respelt, patients(1, seed=1))))[1]


@BOTH
def test_a_wider_range_or_finer_grid_that_no_value_feels(study: Study):
    wider = seen_as(study, StudyColumn(AGE.column, (0.0, 120.0), 0.5))
    assert judged((study, BASE), (wider, BASE)) == ["", ""]


@BOTH
def test_another_share_held_out(study: Study):
    many = patients(300)
    shares = [replace(study, held_out=share) for share in (0.2, 0.22)]
    moved = int((tags(shares[0], many).held_out != tags(shares[1], many).held_out).sum())
    assert 0 < moved < K
    assert f"got {moved} on" in judged(*((one, many) for one in shares))[1]


def test_what_is_left_of_a_total_and_its_parts():
    p, q, none = range(5), range(10, 40), ()
    assert fewest_alike(sets_of([*p, *q], p, q), sets_of(none, none, none)) == 5


# -- what honest people do


@BOTH
def test_the_same_table_again_in_any_order(study: Study):
    order = np.random.default_rng(1).permutation(100)
    again = replace(study, name="again", held_out=0.0)
    assert judged((study, BASE), (again, BASE), (again, some(BASE, order))) == ["", "", ""]


@BOTH
def test_a_new_edition_with_many_new_rows(study: Study):
    second = joined(BASE, patients(K, seed=1))
    third = joined(some(second, np.arange(100 + K) >= K), patients(K, seed=2))
    assert judged(*((replace(study, edition=i), one) for i, one in enumerate((BASE, second, third), 1))) == ["", "", ""]


@BOTH
def test_another_study_on_some_of_the_columns_with_all_rows(study: Study):
    fewer = replace(study, columns=(AGE,))
    other = replace(study, columns=(SEX, CRP), target=replace(DAYS, name="bmi", range=(10.0, 60.0)))
    assert judged((study, BASE), (fewer, BASE), (other, BASE)) == ["", "", ""]


@BOTH
def test_held_out_rows_stay_where_they_are(study: Study):
    many = patients(300)
    holding = replace(study, held_out=0.3)
    assert judged((holding, many), (replace(holding, columns=(AGE, SEX)), many)) == ["", ""]


@pytest.mark.hospitals
def test_twins_of_which_one_is_held_out_need_not_be_told_apart():
    """Equal in all that the studies use, drawn apart by what they do not use; the second study holds out none."""
    many = patients(300)
    twice = joined(many, {**some(many, range(8)), "bmi": [10.0] * 8, "nr": list(range(900, 908))})
    holding = replace(STUDY, held_out=0.3)
    held_out = tags(holding, twice).held_out
    assert 0 < (held_out[:8] != held_out[300:]).sum() < K, "a few pairs are torn apart"
    assert judged((holding, twice), (replace(STUDY, name="all-rows"), twice)) == ["", ""]


def test_a_device_with_few_rows_may_approve_them_twice():
    few = patients(K - 2)
    assert judged((STUDY, few), (replace(STUDY, columns=(AGE,)), few)) == ["", ""]


def test_studies_without_a_common_column_do_not_meet():
    other = replace(STUDY, columns=(SEX,), target=replace(DAYS, name="bmi", range=(10.0, 60.0)))
    first = replace(STUDY, columns=(AGE,))
    assert judged((first, BASE), (other, joined(BASE, patients(1, seed=1)))) == ["", ""]


# -- the classes themselves

SETS = st.lists(st.lists(st.integers(0, 6), max_size=12), min_size=1, max_size=4)


@given(SETS)
def test_classes_count_every_row_once_per_set(sets: list[list[int]]):
    classes = history_classes(sets_of(*sets))
    for place, one in enumerate(sets):
        assert sum(rows for history, rows in classes.items() if history[place]) == len(one)
    most: Counter[int] = Counter()
    for one in sets:
        most |= Counter(one)
    assert sum(classes.values()) == most.total()


@settings(max_examples=60)
@given(st.lists(st.frozensets(st.integers(0, 8)), min_size=2, max_size=4))
def test_no_combination_leaves_fewer_rows_than_the_smallest_class(sets: list[frozenset[int]]):
    """Of all combinations whose coefficients cancel the other devices' rows, by brute force."""
    fewest = fewest_alike(sets_of(*map(sorted, sets)), sets_of(*[()] * len(sets)))
    for factors in product((-2, -1, 0, 1, 2), repeat=len(sets)):
        if sum(factors) == 0:
            left = sum(sum(f for f, one in zip(factors, sets, strict=True) if row in one) != 0 for row in range(9))
            assert left == 0 or left >= fewest > 0


def test_many_rows_and_columns_take_no_minutes():
    benchmark_rows = 5000
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**63, (benchmark_rows, 40)).astype(np.uint64)
    names = tuple(f"x{i}" for i in range(40))
    none = np.zeros(benchmark_rows, dtype=bool)
    rows = RowTags(names, values, values, values, "", np.zeros(benchmark_rows, dtype=np.uint64), none)
    assert row_objection(rows, [rows] * 3, 100) == ""
