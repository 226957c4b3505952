"""Groups that come later add their sum to a kept total, and leave whole: nobody else is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codedfl.analyses.cells import Clipping
from codedfl.analyses.driving import read_total, total_json
from codedfl.analyses.kept import KeptPart, KeptSum, meaning_of
from codedfl.analyses.study_analysis import StudyFindings, refit
from codedfl.contract.models import SubModel
from codedfl.contract.models.heads import HeadsModel
from codedfl.contract.models.robust import RobustModel
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from rehearsals import rehearsed
from wording import exactly

COLUMNS = tuple(NumberColumn(name, (0.0, 10.0), 0.5) for name in ("a", "b"))
STUDY = Study("first", COLUMNS, NumberTarget("y", (0.0, 50.0), 0.5), 5000, 1000, 3, held_out=0.0, inference=True)
LATER = replace(STUDY, name="later", edition=2)
NAMES = tuple("abcdefghi")


def tables(names: str, seed: int = 0) -> dict[str, RawTable]:
    found = {}
    for name in names:
        rng = np.random.default_rng([seed, ord(name)])
        X = rng.uniform(0, 10, size=(40, 2))
        y = X @ [2.0, 1.0] + rng.normal(size=40)
        if name == "e":
            y[0] = 99.0  # beyond the range
        found[name] = as_raw_table({"a": X[:, 0], "b": X[:, 1], "y": y}, name)
    return found


def kept_of(study: Study, found: StudyFindings, names: str) -> KeptSum:
    return read_total(study, json.loads(json.dumps(total_json(study, found, list(names)))))


def test_a_later_group_adds_its_sum_and_the_model_is_that_of_all():
    first = rehearsed(STUDY, tables("abc")).findings
    kept = kept_of(STUDY, first, "abc")
    later = rehearsed(LATER, tables("def"), before=kept).findings
    allowed = replace(LATER, most_clipped=0.5)
    whole = rehearsed(replace(allowed, name="whole"), tables("abcdef")).findings
    assert later.total == whole.total and later.rows == whole.rows == 240
    assert later.model.theta.tobytes() == whole.model.theta.tobytes()
    assert later.clipped == whole.clipped == Clipping(240, {"y": 1})
    assert later.inference is None and "clipped values of 'y' must be at most 0" in later.no_inference
    later = rehearsed(allowed, tables("def"), before=kept).findings
    assert later.inference.p.tobytes() == whole.inference.p.tobytes()


def test_parts_stay_apart_and_leave_whole_in_any_order():
    kept = KeptSum()
    for number, names in enumerate(("abc", "def", "ghi")):
        study = replace(STUDY, edition=1 + number)
        kept = kept_of(study, rehearsed(study, tables(names), before=kept).findings, names)
    assert kept.owners == NAMES and [one.owners for one in kept.parts] == [tuple("abc"), tuple("def"), tuple("ghi")]
    for gone, stayed in (("def", "abcghi"), ("abcghi", "def"), ("ghi", "abcdef")):
        left = kept.without(gone)
        alone = rehearsed(STUDY, tables(stayed)).findings
        assert (left.total, left.clipped) == (alone.total, alone.clipped)
        assert refit(study, left.total).model is not None


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        (
            "a",
            "who leaves must be all owners of a part, for its sum cannot be taken apart: 'a' is in one with b, c",
        ),
        (
            "abcd",
            "who leaves must be all owners of a part, for its sum cannot be taken apart: 'd' is in one with e, f",
        ),
        ("xa", "who leaves must be in the total, got x"),
        ("abcdef", "some part must stay, got all owners of the total"),
    ],
)
def test_less_than_a_part_does_not_leave(gone: str, message: str):
    parts = tuple(KeptPart("0a" * 32, tuple(names), (1, 2), Clipping()) for names in ("abc", "def"))
    with pytest.raises(InvalidInput, match=exactly(message)):
        KeptSum("", (), parts).without(gone)


def test_fewer_than_a_group_do_not_come():
    with pytest.raises(InvalidInput, match=exactly("owners must be at least colluders + 2 (3), got 2")):
        rehearsed(LATER, tables("de"), before=kept_of(STUDY, rehearsed(STUDY, tables("abc")).findings, "abc"))
    keys = {name: name.encode() * 32 for name in "de"}
    with pytest.raises(InvalidInput, match=exactly("owners must be at least colluders + 2 (3), got 2")):
        Roster.draft({"a": b"a" * 32, "b": b"b" * 32, "c": b"c" * 32}, 1).with_newcomers(keys, 1)


def refused(study: Study, names: str, message: str) -> None:
    kept = kept_of(STUDY, rehearsed(STUDY, tables("abc")).findings, "abc")
    with pytest.raises(InvalidInput, match=exactly(message)):
        kept.check(study, names)


def test_nobody_is_counted_twice():
    refused(
        LATER,
        "bcd",
        "owners must be in a total once, got b, c again: who has new rows leaves with the part that has the old ones,"
        " or waits for a new total",
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"columns": (COLUMNS[0], replace(COLUMNS[1], step=1.0))},
        {"columns": COLUMNS[::-1]},
        {"target": NumberTarget("y", (0.0, 60.0), 0.5)},
        {"held_out": 0.2},
        {"embedded_by": "0a" * 32},
        {"site_effects": True},
    ],
)
def test_numbers_that_mean_something_else_are_not_added(changed: dict[str, Any]):
    refused(
        replace(LATER, **changed),
        "def",
        "a later study must have the columns, ranges, steps, classes, encoder and held_out of the total that it is"
        " added to, got others",
    )


def test_what_is_made_of_a_total_may_change():
    model = SubModel("m", ("a",))
    changed = replace(STUDY, name="n", edition=9, regularisation=0.5, models=(model,), colluders=0)
    assert meaning_of(changed) == meaning_of(STUDY)


def test_a_model_that_asks_all_owners_again_is_refused():
    study = replace(LATER, models=(RobustModel("r", ("a",)),))
    refused(study, "def", "models of a later study must follow from X'X, got 'r', which asks all owners again")


def test_levels_are_judged_over_those_who_come():
    """A ward that is common in the total, and has two rows among the newcomers, is merged in their sum."""
    ward = CategoryColumn("ward", ("x", "y", "z"))
    study = replace(STUDY, columns=(*COLUMNS, ward), smallest_cell=5)

    def with_wards(names: str, rare: int) -> dict[str, RawTable]:
        found = {}
        for name, table in tables(names).items():
            wards = np.array(["x"] * 20 + ["y"] * (20 - rare) + ["z"] * rare)
            found[name] = as_raw_table({**table.columns, "ward": wards}, name)
        return found

    kept = kept_of(study, rehearsed(study, with_wards("abc", 10)).findings, "abc")
    assert kept.merged == ()
    same = rehearsed(study, with_wards("def", 10), before=kept).findings
    assert same.rows == 240
    message = (
        "the same levels must be merged in every part, got others among those who come later: they need levels that are"
        " common on both sides"
    )
    with pytest.raises(InvalidInput, match=exactly(message)):
        rehearsed(study, with_wards("def", 0) | with_wards("d", 2), before=kept)


def test_heads_of_all_are_chosen_by_rows_of_those_who_come():
    target = ClassTarget("y", ("low", "high"))
    study = replace(STUDY, target=target, inference=False, held_out=0.25, models=(HeadsModel("best", ("a", "b")),))

    def classes(names: str) -> dict[str, RawTable]:
        return {
            name: as_raw_table({**one.columns, "y": np.where(one.column("y") > 15, "high", "low")}, name)
            for name, one in tables(names).items()
        }

    first = rehearsed(study, classes("abc")).findings
    later = rehearsed(study, classes("def"), before=kept_of(study, first, "abc")).findings
    assert later.rows > first.rows and later.score.rows < 120 - 60
    score = later.models[0].score
    assert score.rows == later.score.rows and np.trace(score.confusion) > 0.9 * score.rows
