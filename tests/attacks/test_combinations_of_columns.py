"""Combinations of three and more columns: what X'X then tells of one patient, and that approval finds them.

Each attack reads the patient's whole row off the exact sums of three hospitals. The old rule, kept as a mutant,
compared columns two by two and was silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.contract import approval, judgement
from codedfl.contract.approval import Deciding, approve
from codedfl.contract.cells import StudyCells
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.models.cox import CoxModel
from codedfl.contract.relations import Relation, _light, broken_relations
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, Column, DerivedColumn, NumberColumn, NumberTarget
from codedfl.data.derived import Factor
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from codedfl.typing import Integers

KEYS = {f"hospital-{i}": bytes([i + 1] * 32) for i in range(3)}
ROSTER = Roster.draft(KEYS, colluders=1)
Columns = dict[str, list[Any]]


def number(name: str, high: float = 400.0) -> Column:
    return NumberColumn(name, (0.0, high), 1.0)


def study(name: str, *columns: Column, **said: Any) -> Study:
    options = {"held_out": 0.0, "roster": ROSTER.digest().hex(), "server_key": "ab" * 32, **said}
    return Study(name, columns, NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, **options)


def table(seed: int, n: int = 60) -> dict[str, Integers]:
    rng = np.random.default_rng(seed)
    highs = {"age": 96, "crp": 200, "dose": 50, "other": 80, "days": 60, "stage": 3}
    return {name: rng.integers(1 if name != "stage" else 0, high, n) for name, high in highs.items()}


@dataclass(frozen=True)
class Attack:
    """Columns that honest hospitals sum, wrong in one row of the first; weights: of the combination that is its row."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[dict[str, Integers], ...]
    weights: tuple[float, ...]  # of the constant and the design columns


def _attacks() -> Iterator[Attack]:
    total = [one | {"total": one["dose"] + one["other"]} for one in map(table, range(3))]
    total[0]["total"] = total[0]["total"] + (np.arange(60) == 7)
    yield Attack("two parts and their total", tuple(map(number, ("dose", "other", "total"))), tuple(total),
                 (0, -1, -1, 1))  # fmt: skip
    four = [one | {"total": one["dose"] + one["other"] + 2 * one["crp"]} for one in map(table, range(3))]
    four[0]["total"] = four[0]["total"] - 9 * (np.arange(60) == 7)
    yield Attack("three parts, weighted", tuple(number(one, 900.0) for one in ("dose", "other", "crp", "total")),
                 tuple(four), (0, 1, 1, 2, -1))  # fmt: skip
    few = [one | {"stage": np.where((np.arange(60) == 7) & (place == 0), 3, one["stage"])}
           for place, one in enumerate(map(table, range(3)))]  # fmt: skip
    powers = [DerivedColumn(f"stage^{i}", (0.0, 27.0), 1.0, factors=(Factor("stage", power=i),))
              for i in (2, 3)]  # fmt: skip
    # x (x - 1) (x - 2) = 2 x - 3 x^2 + x^3
    yield Attack("powers of a number that has few values", (number("stage", 3.0), *powers), tuple(few), (0, 2, -3, 1))
    clipped = []
    for place, one in enumerate(map(table, range(3))):
        age = np.where(one["age"] == 61, 70, one["age"])
        age[7] = 61 if place == 0 else 70
        clipped.append({**one, "to 60": age, "to 61": age, "to 62": age})
    # 2 min(x, 61) - min(x, 60) - min(x, 62) is 1 at 61, and nowhere else
    ends = tuple(number(f"to {end}", float(end)) for end in (60, 61, 62))
    yield Attack("one number in three ranges", ends, tuple(clipped), (0, -1, 2, -1))


ATTACKS = list(_attacks())


def of_hospital(attack: Attack, place: int) -> Columns:
    return {name: values.tolist() for name, values in attack.rows[place].items()}


def matrix(attack: Attack, place: int) -> Integers:
    """The constant, the columns as they are summed, and the target."""
    one = study("s", *attack.columns)
    codes = one.codes(as_raw_table(of_hospital(attack, place)))[0]
    values = np.rint(one.matrix(codes)).astype(np.int64)
    return np.column_stack((np.ones(len(codes), dtype=np.int64), values, attack.rows[place]["days"]))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.name)
def test_the_sum_tells_the_whole_row(attack: Attack):
    """X'X times the combination is what it is for the one patient, times the patient's row."""
    parts = [matrix(attack, place) for place in range(3)]
    of_all = sum(one.T @ one for one in parts)
    told = of_all @ np.array([*attack.weights, 0], dtype=np.int64)
    assert told[0] != 0 and (told * parts[0][7, 0] == told[0] * parts[0][7]).all()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.name)
def test_approval_asks_and_the_old_rule_was_silent(attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    one, rows = study("s", *attack.columns), as_raw_table(of_hospital(attack, 0))
    with pytest.raises(InvalidInput, match=r"those of 1 people: a combination of the sums is about these"):
        approve(one, ROSTER, "hospital-0", KEYS["hospital-0"], rows, folder(tmp_path), Deciding("Ada", "today"))
    assert asked(tmp_path, one, of_hospital(attack, 1)) == []  # where nothing is wrong

    def pairs(columns: Integers, people: Integers, k: int) -> list[Relation]:
        return [found for found in broken_relations(columns, people, k) if len(found.columns) == 2]

    monkeypatch.setattr(judgement, "broken_relations", pairs)
    approve(one, ROSTER, "hospital-0", KEYS["hospital-0"], rows, folder(tmp_path), Deciding("Ada", "today"))


def folder(path: Path) -> DeviceFolder:
    return DeviceFolder(path / "hospital-0", bytes(32))


def asked(path: Path, one: Study, rows: Columns, state: DeviceFolder | None = None) -> list[str]:
    found: list[str] = []

    def ask(finding: DisclosureFinding) -> str:
        found.append(finding.words)
        return "for a test"

    state = state or DeviceFolder(path / f"{len(list(path.iterdir()))}", bytes(32))
    deciding = Deciding("Ada", "today", ask=ask)
    approve(one, ROSTER, "hospital-0", KEYS["hospital-0"], as_raw_table(rows), state, deciding)
    return found


def test_a_total_in_a_later_study(tmp_path: Path):
    """The parts were approved first, one in each of two studies; the total comes with the third."""
    rows, state = of_hospital(ATTACKS[0], 0), folder(tmp_path)
    for name, column in (("first", "dose"), ("second", "other")):
        assert asked(tmp_path, study(name, number("age"), number(column)), rows, state) == []
    words = asked(tmp_path, study("third", number("age"), number("total")), rows, state)
    assert words == [
        "'total' follows from 'dose' of first, 'other' of second in all rows of this table but those of 1 people: a"
        " combination of the sums is about these (fewer than 5)"
    ]


def test_a_person_of_many_visits_is_one(tmp_path: Path):
    rows = of_hospital(ATTACKS[0], 0)
    wrong = [place for place in range(60) if place % 10 == 7]
    rows["total"] = [a + b + (place in wrong) for place, (a, b) in enumerate(zip(rows["dose"], rows["other"]))]  # noqa: B905
    rows["id"] = ["one" if place in wrong else f"p{place}" for place in range(60)]
    one = study("s", *ATTACKS[0].columns)
    assert asked(tmp_path, one, rows) == []  # six people, as far as anybody knows
    assert "but those of 1 people" in asked(tmp_path, replace(one, id="id"), rows)[0]


@pytest.mark.parametrize("n", [12, 30, 80])
def test_levels_cuts_and_few_rows_are_no_finding(tmp_path: Path, n: int):
    """What is rare in one small hospital is counted by the census, over all of them."""
    rng = np.random.default_rng(n)
    levels = tuple("abcdef")
    cuts = [
        DerivedColumn(f"age over {one}", (0.0, 1.0), 1.0, factors=(Factor("age", above=float(one)),))
        for one in (40, 50, 60, 62)
    ]
    categories = [CategoryColumn(name, levels) for name in ("ward", "stage", "type")]
    for seed in range(5):
        rows = {name: values.tolist() for name, values in table(seed, n).items()}
        shares = rng.dirichlet(np.full(len(levels), 0.5), size=3)
        given = {one.name: rng.choice(levels, n, p=share).tolist() for one, share in zip(categories, shares)}  # noqa: B905
        one = study("s", number("age"), number("crp"), *cuts, *categories)
        assert asked(tmp_path, one, {**rows, **given}) == []


# -- against an oracle in fractions


def rank(rows: list[list[int]]) -> int:
    found, left = 0, [[Fraction(one) for one in row] for row in rows]
    for place in range(len(rows[0])):
        at = next((i for i in range(found, len(left)) if left[i][place]), None)
        if at is None:
            continue
        left[found], left[at] = left[at], left[found]
        for i in range(found + 1, len(left)):
            share = left[i][place] / left[found][place]
            left[i] = [a - share * b for a, b in zip(left[i], left[found], strict=True)]
        found += 1
    return found


@pytest.mark.parametrize("seed", range(20))
def test_every_row_of_leverage_one_is_found(seed: int):
    """Complete for one person: exactly the rows without which the rank is lower."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(12, 30)), int(rng.integers(2, 7))
    columns = rng.integers(0, 3, (n, width)) * rng.integers(1, 10**6, width)
    columns[:, -1] = columns[:, :-1].sum(axis=1)
    columns[rng.choice(n, 2, replace=False), -1] += rng.integers(1, 9, 2)
    rows = np.column_stack((np.ones(n, dtype=np.int64), columns)).tolist()
    whole = rank(rows)
    alone = {place for place in range(n) if rank(rows[:place] + rows[place + 1 :]) < whole}
    found = _light(np.array(rows), np.arange(n), 2)
    assert {int(np.flatnonzero(few)[0]) for _, few in found} == alone


@pytest.mark.parametrize("few", [2, 3, 4])
def test_several_people_are_found_in_every_one_of_many_tables(few: int):
    """Not proved for several: which of sixty made-up tables show them."""
    missed = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(60, 300))
        numbers, marks = rng.integers(0, 6, (n, 5)), rng.integers(0, 2, (n, 7))
        total = numbers[:, :3] @ np.array([1, 2, -1])
        total[rng.choice(n, few, replace=False)] += rng.integers(1, 9, few)
        columns = np.column_stack((numbers, marks, total))
        if (0, 1, 2, 12) not in {one.columns for one in broken_relations(columns, np.arange(n), 5)}:
            missed.append(seed)
    assert missed == []


def test_a_missing_total_of_parts_that_are_zero(tmp_path: Path):
    """0 + 0 is what fills a missing total only where the fill is 0: else X'X times the combination is that row."""
    rows = of_hospital(ATTACKS[0], 0)
    rows["dose"][7] = rows["other"][7] = 0
    rows["total"] = [a + b for a, b in zip(rows["dose"], rows["other"], strict=True)]
    rows["total"][7] = None
    parts = (number("dose"), number("other"))
    one = study("s", *parts, NumberColumn("total", (0.0, 400.0), 1.0, missing=30.0))
    assert "those of 1 people" in asked(tmp_path, one, rows)[0]
    twice = {**rows, "total again": rows["total"]}
    again = NumberColumn("total again", (0.0, 400.0), 1.0, missing=31.0)
    one = study("s", number("age"), *one.columns[2:], again)
    assert asked(tmp_path, one, twice)[0].startswith("'total' follows from 'total again' in all rows of this table but")


def test_held_out_rows_have_relations_and_large_values_of_their_own(tmp_path: Path):
    """They are a sum by themselves: of six rows that break the relation, one is held out."""
    one = study("s", *ATTACKS[0].columns, held_out=0.3, id="id")
    rows = {name: values.tolist() for name, values in table(0, 500).items()} | {"id": [f"p{i}" for i in range(500)]}
    rows["total"] = [a + b for a, b in zip(rows["dose"], rows["other"], strict=True)]
    held_out = take_snapshot(one, as_raw_table(rows), bytes(32)).held_out
    assert one.holds_out_gram and asked(tmp_path, one, rows) == []
    for place in (*np.flatnonzero(~held_out)[:5].tolist(), int(np.flatnonzero(held_out)[0])):
        rows["total"][place] += 1
    (words,) = asked(tmp_path, one, rows)
    assert "those of 1 people" in words
    one = study("s", number("age"), number("cost", 1e6), held_out=0.3, id="id")
    rows["cost"] = [place % 7 if held else 9000 * (place % 100) for place, held in enumerate(held_out.tolist())]
    assert asked(tmp_path, one, rows) == []
    rows["cost"][int(np.flatnonzero(held_out)[0])] = 800_000
    (words,) = asked(tmp_path, one, rows)
    assert "of 'cost'" in words and words.startswith("one person has nearly all")


# -- one value beyond all others


def test_a_sum_that_is_nearly_one_persons_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The p % rule: whoever knows the second largest knows the largest to within a tenth, by the sum and the rest."""
    one = study("s", number("age"), number("cost", 1e6))
    rows = of_hospital(ATTACKS[0], 0)
    rows["cost"] = [100 + place % 7 for place in range(60)]
    assert asked(tmp_path, one, rows) == []
    rows["cost"][3] = 900_000
    rest = sum(rows["cost"]) - 900_000
    assert abs(sum(rows["cost"]) - rest - 900_000) == 0 and rest < 0.1 * 900_000
    words = asked(tmp_path, one, rows)
    assert words == [
        "one person has nearly all of what differs from the middle here, of 'cost': the sum tells that value; clip it"
        " by the range, or take a fill within it"
    ]
    with pytest.raises(InvalidInput, match=r"accept it with --accept dominance='why'"):
        approve(one, ROSTER, "hospital-0", KEYS["hospital-0"], as_raw_table(rows), folder(tmp_path), Deciding("A", "t"))
    filled = study("s", number("age"), NumberColumn("cost", (0.0, 1e6), 1.0, missing=1e6))
    rows["cost"][3] = ""
    assert len(asked(tmp_path, filled, rows)) == 1, "a fill far beyond all others is a value, too"
    # The old rule had no such finding.
    monkeypatch.setattr(approval, "dominated_sums", lambda *_: ())
    assert asked(tmp_path, filled, rows) == []


def test_one_large_value_within_a_level(tmp_path: Path):
    one = study("s", number("cost", 1e6), CategoryColumn("ward", ("a", "b")))
    rows = of_hospital(ATTACKS[0], 0)
    rows["cost"] = [20_000 * (place >= 40) + place for place in range(60)]
    rows["ward"] = ["b" if place < 6 else "a" for place in range(60)]
    rows["cost"][4] = 200_000
    (words,) = asked(tmp_path, one, rows)
    assert "'cost' among 'b'" in words


# -- two divisions of one column in one study


@pytest.mark.parametrize("cut", [30.0, 31.0])
def test_entries_of_a_cox_model_beside_a_cut(cut: float):
    """Who entered between the cut and the next of the times: the old rule counted each division by itself."""
    event, entry = (NumberColumn(name, (0.0, high), 1.0) for name, high in (("died", 1.0), ("entry", 60.0)))
    over = DerivedColumn("late", (0.0, 1.0), 1.0, factors=(Factor("entry", above=cut),))
    model = CoxModel("cox", ("late",), "died", (10.0, 30.0, 60.0), entry="entry")
    cells = StudyCells(study("s", event, entry, over, models=(model,)))
    (found,) = (one for one in cells.families if one.kind == "interval")
    assert found.count == (4 if cut == 30.0 else 5)
    rows = np.array([0, 31, 40, 60])
    snapshot = Snapshot(bytes(32), np.column_stack((rows * 0, rows, rows > cut)), rows, np.zeros(4, dtype=np.bool_))
    people = {one.kind: values.tolist() for one, values in cells.split(cells.people(snapshot))}
    assert people["interval"] == ([1, 0, 3, 0] if cut == 30.0 else [1, 0, 1, 2, 0])
