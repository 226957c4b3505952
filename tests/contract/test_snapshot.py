"""Frozen rows: the same rows are held out whatever the study uses, and files come back as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clinics import AGE, KEY, SEX, STUDY, patients, some, table

from codedfl.contract.snapshot import RowTags, Snapshot, row_tags, take_snapshot
from codedfl.contract.study_columns import StudyColumn
from codedfl.data.columns import CategoryColumn
from codedfl.errors import InvalidInput

MANY = patients(400)
HOLDING = replace(STUDY, held_out=0.25)


@pytest.mark.parametrize("study", [HOLDING, replace(HOLDING, id="nr")], ids=["without an id", "with an id"])
def test_held_out_rows_depend_on_the_row_and_the_key_alone(study):
    mask = take_snapshot(study, table(MANY), KEY).held_out
    assert 60 < mask.sum() < 140
    assert np.array_equal(take_snapshot(replace(study, columns=(AGE, SEX)), table(MANY), KEY).held_out, mask)
    order = np.random.default_rng(0).permutation(400)
    assert np.array_equal(take_snapshot(study, table(some(MANY, order)), KEY).held_out, mask[order])
    more = take_snapshot(replace(study, held_out=0.5), table(MANY), KEY).held_out
    assert (mask <= more).all(), "a larger share keeps those that were out"
    assert (take_snapshot(study, table(MANY), KEY[::-1]).held_out != mask).any()
    columns = dict(reversed(MANY.items()))
    assert np.array_equal(take_snapshot(study, table(columns), KEY).held_out, mask), "the order of columns"


def test_with_an_id_nothing_else_decides():
    study = replace(HOLDING, id="nr")
    corrected = {**MANY, "crp": [one + 1 for one in MANY["crp"]]}
    masks = [take_snapshot(study, table(one), KEY).held_out for one in (MANY, corrected)]
    assert np.array_equal(masks[0], masks[1])


def test_few_rows_hold_out_none():
    assert not take_snapshot(HOLDING, table(patients(9)), KEY).held_out.any()


@pytest.mark.hospitals
def test_no_column_decides_which_rows_train():
    """A wider study trained on the rows that a narrower one held out: they were too few for its Gram matrix."""
    rows = table(patients(60))
    levels = StudyColumn(CategoryColumn("sex", ("f", "m", *(f"other {i}" for i in range(20)))))
    narrow, wide = replace(HOLDING, columns=(AGE,)), replace(HOLDING, columns=(AGE, levels))
    held = take_snapshot(narrow, rows, KEY)
    assert narrow.least_alike <= held.held_out.sum() < wide.least_alike
    taken = take_snapshot(wide, rows, KEY)
    assert not taken.held_out.any() and len(taken) == (~held.held_out).sum()
    assert np.array_equal(taken.codes[:, 0], held.part(held_out=False).codes[:, 0])
    assert len(row_tags(wide, rows, KEY).held_out) == len(taken)


def test_clipped_values_are_counted_and_files_come_back():
    odd = {**MANY, "age": [200, *MANY["age"][1:]], "days": [99, *MANY["days"][1:]]}
    rows = take_snapshot(HOLDING, table(odd), KEY)
    assert rows.clipped.words(HOLDING.table_columns.names) == "1 of 'age' and 1 target"
    back = Snapshot.decode(rows.encode())
    assert back.study == HOLDING.digest()
    for name in ("codes", "target", "held_out"):
        assert np.array_equal(getattr(back, name), getattr(rows, name))
    assert back.clipped.words() == rows.clipped.words()
    assert len(rows.part(held_out=True)) + len(rows.part(held_out=False)) == len(rows)
    tags = row_tags(HOLDING, table(odd), KEY)
    assert RowTags.decode(tags.encode()).same_as(tags)
    for decode in (Snapshot.decode, RowTags.decode):
        with pytest.raises(InvalidInput, match=r"as (it was|they were) saved"):
            decode(rows.encode()[:-1])


def test_a_table_that_does_not_fit_is_refused():
    for wrong, message in (
        ({**MANY, "sex": ["x"] * 400}, "column 'sex' of t.csv must hold its levels only, got 'x' (400 such rows)"),
        ({**MANY, "days": [None, *MANY["days"][1:]]}, "the target 'days' of t.csv must have no gaps, got 1"),
        (
            {**MANY, "days": ["x"] * 400},
            "the target 'days' of t.csv must hold numbers, got 'x' in row 1 and in 399 more: write a number, or leave"
            " the cell empty, or list it in missing_codes",
        ),
        ({**MANY, "days": [float("inf"), *MANY["days"][1:]]}, "the target 'days' of t.csv must hold finite numbers"),
    ):
        with pytest.raises(InvalidInput) as raised:
            take_snapshot(HOLDING, table(wrong), KEY)
        assert str(raised.value).startswith(message)
    with pytest.raises(InvalidInput, match=r"^key must have 16 to 64 bytes, got 3$"):
        take_snapshot(HOLDING, table(MANY), b"abc")
    with pytest.raises(InvalidInput, match=r"^t.csv must have between 1 and 2000 rows, got 2001$"):
        take_snapshot(HOLDING, table(patients(2001)), KEY)
