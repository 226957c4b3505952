"""Frozen rows: the same rows are held out whatever the study uses, and files come back as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clinics import AGE, KEY, SEX, STUDY, patients, some, table

from codedfl.contract.seen import SeenRows, seen_rows
from codedfl.contract.snapshot import Snapshot, take_snapshot
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


@pytest.mark.hospitals
def test_no_column_decides_which_rows_train():
    """A wider study would train on rows that a narrower one held out; nor does the number of rows decide."""
    for count in (9, 60):
        rows = table(patients(count))
        levels = CategoryColumn("sex", ("f", "m", *(f"other {i}" for i in range(20))))
        narrow, wide = replace(HOLDING, columns=(AGE,)), replace(HOLDING, columns=(AGE, levels))
        held, taken = (take_snapshot(one, rows, KEY) for one in (narrow, wide))
        assert held.held_out.any() and np.array_equal(held.held_out, taken.held_out)
        assert np.array_equal(seen_rows(wide, taken, rows, KEY).held_out, held.held_out)


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
    seen = seen_rows(HOLDING, rows, table(odd), KEY)
    again = SeenRows.decode(seen.encode())
    assert again.same_as(seen) and np.array_equal(again.rows, seen.rows) and np.array_equal(again.codes, seen.codes)
    for decode in (Snapshot.decode, SeenRows.decode):
        with pytest.raises(InvalidInput, match=r"as (it was|they were) saved"):
            decode(rows.encode()[:-1])


def test_a_table_that_does_not_fit_is_refused():
    for wrong, message in (
        ({**MANY, "sex": ["x"] * 400}, "column 'sex' of t.csv must hold its levels only, got 'x' (400 such rows)"),
        ({**MANY, "days": [None, *MANY["days"][1:]]}, "the target 'days' of t.csv must have no missing values, got 1"),
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
