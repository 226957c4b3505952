"""What several studies of the same rows could tell together: each pair would show few people, and is a finding now.

The old rule, kept as a mutant, compares rows and columns by their names and one study at a time: it finds none of them.
``catalogue`` is a list of pairs of honest studies; whatever differs between both, differs in few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.contract.approval import Deciding, approve
from codedfl.contract.cells import StudyCells
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.ledger import Approval
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.contract.models.robust import RobustModel
from codedfl.contract.models.survival import SurvivalModel
from codedfl.contract.policy import Policy
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.data.columns import CategoryColumn, ClassTarget, Column, DerivedColumn, NumberColumn, NumberTarget
from codedfl.data.derived import Factor
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput

NAMES = [f"hospital-{i}" for i in range(9)]
IDENTITIES = {name: Identity(bytes([i + 1] * 32)) for i, name in enumerate(NAMES)}
KEYS = {name: one.public for name, one in IDENTITIES.items()}
ROSTER = Roster.draft(KEYS, colluders=1)
N = 80
Columns = dict[str, list[Any]]


def rows(seed: int = 0, count: int = N) -> Columns:
    rng = np.random.default_rng(seed)
    return {
        "id": [f"p{seed}-{i}" for i in range(count)],
        "age": rng.integers(20, 96, count).tolist(),
        "weight": rng.normal(70, 12, count).round().tolist(),
        "ward": rng.choice(["eye", "heart", "skin"], count).tolist(),
        "crp": rng.integers(0, 200, count).tolist(),
        "days": rng.integers(1, 60, count).tolist(),
        "died": rng.integers(0, 2, count).tolist(),
    }


def number(name: str, high: float = 200.0, **said: Any) -> Column:
    return NumberColumn(name, (0.0, high), 1.0, **said)


WARD = CategoryColumn("ward", ("eye", "heart", "skin"))
DAYS = NumberTarget("days", (0.0, 60.0), 1.0)


def study(name: str, *columns: Column, target: Any = DAYS, roster: Roster = ROSTER, **said: Any) -> Study:
    options = {"held_out": 0.0, "id": "id", "roster": roster.digest().hex(), "server_key": "ab" * 32, **said}
    return Study(name, columns, target, 5000, 1000, 3, **options)


BASE = study("first", number("age"), number("weight"), WARD)


class Device:
    """One hospital that approves one study after the other."""

    def __init__(self, folder: Path, name: str = NAMES[0]) -> None:
        self.folder, self.name = DeviceFolder(folder / name, bytes(32)), name
        self.asked: list[DisclosureFinding] = []

    def approves(self, one: Study, columns: Columns, roster: Roster = ROSTER, policy: Policy = Policy()) -> Approval:  # noqa: B008
        def ask(finding: DisclosureFinding) -> str:
            self.asked.append(finding)
            return "for a test"

        key = roster.keys[self.name]
        table = as_raw_table(columns)
        return approve(one, roster, self.name, key, table, self.folder, Deciding("Ada", "today", policy, ask=ask))

    def kinds(self) -> set[str]:
        return {one.kind for one in self.asked}


@dataclass(frozen=True)
class Pair:
    """Two studies with their tables. kind: of the finding that the second is."""

    name: str
    kind: str
    first: Study
    before: Columns
    second: Study
    after: Columns


def but(columns: Columns, name: str, place: int, value: Any) -> Columns:
    """With one value changed."""
    return {**columns, name: [value if i == place else one for i, one in enumerate(columns[name])]}


def without(columns: Columns, *places: int) -> Columns:
    return {name: [one for i, one in enumerate(values) if i not in places] for name, values in columns.items()}


def renamed(columns: Columns, old: str, new: str) -> Columns:
    return {new if name == old else name: values for name, values in columns.items()}


def _of_rows() -> Iterator[Pair]:
    again = replace(BASE, name="second")
    for few in (1, 2, 4):
        fewer = without(rows(), *range(few))
        yield Pair(f"{few} left", "rows", BASE, rows(), again, fewer)
        yield Pair(f"{few} came", "rows", BASE, fewer, again, rows())
        yield Pair(f"{few} left, a new version", "rows", BASE, rows(), replace(BASE, edition=2), fewer)
        redrawn = {**fewer, "id": [f"q{i}" for i in range(N - few)]}
        yield Pair(f"{few} left, ids redrawn (S4)", "rows", BASE, rows(), again, redrawn)
        yield Pair(f"{few} left, without ids", "rows", replace(BASE, id=None), rows(), replace(again, id=None), fewer)
        yield Pair(
            f"{few} left, columns in another order",
            "rows",
            BASE,
            rows(),
            study("second", WARD, number("weight"), number("age")),
            fewer,
        )
        yield Pair(
            f"{few} left, fewer columns", "rows", BASE, rows(), study("second", number("age"), number("weight")), fewer
        )
        yield Pair(
            f"{few} left, another target",
            "rows",
            BASE,
            rows(),
            study("second", number("age"), number("weight"), target=NumberTarget("crp", (0.0, 200.0), 1.0)),
            fewer,
        )
    gaps = {**rows(), "crp": ["" if i < 3 else one for i, one in enumerate(rows()["crp"])]}
    described = study("first", number("age"), number("crp", missing=0.0))
    yield Pair(
        "complete cases after a description", "rows", described, gaps,
        study("second", number("age"), number("crp"), complete_cases=True), gaps,
    )  # fmt: skip
    yield Pair(
        "another share held out", "rows", replace(BASE, held_out=0.2), rows(), replace(again, held_out=0.25), rows()
    )
    yield Pair("one held out by nobody", "rows", replace(BASE, held_out=0.03), rows(), again, rows())
    many, new = rows(), rows(5, 30)
    new["ward"] = ["heart"] * 29 + ["eye"]
    grown = {name: [*values, *new[name]] for name, values in many.items()}
    yield Pair("one of a level among many new ones", "rows", BASE, many, again, grown)
    left = list(range(40, 60))  # one patient's six visits among them, the only ones in ward eye
    visits = {**many, "id": ["often" if 40 <= i < 46 else one for i, one in enumerate(many["id"])]}
    visits["ward"] = ["eye" if i < 20 or 40 <= i < 46 else ("heart", "skin")[i % 2] for i in range(N)]
    yield Pair("many visits of one patient of a level left", "rows", BASE, visits, again, without(visits, *left))


def _of_columns() -> Iterator[Pair]:
    table = rows()
    changes = {"age": 61, "weight": 99.0, "crp": 3, "days": 7}
    for name, value in changes.items():
        moved = but(table, name, 5, value + (table[name][5] == value))
        used = {"age": (), "weight": (), "crp": (number("crp"),), "days": ()}[name]
        first = study("first", number("age"), number("weight"), *used)
        yield Pair(f"{name} corrected", "columns", first, table, replace(first, name="second"), moved)
        if name != "days":
            header = renamed(moved, name, f"{name} again")
            columns = [number(f"{name} again") if one.name == name else one for one in first.columns]
            yield Pair(
                f"{name} corrected under another header (S10)", "columns", first, table,
                replace(first, name="second", columns=tuple(columns)), header,
            )  # fmt: skip
            fresh = {**moved, "id": [f"q{i}" for i in range(N)]}
            yield Pair(f"{name} corrected, ids redrawn", "columns", first, table, replace(first, name="second"), fresh)
            in_other_units = {**moved, name: [10 * one + 3 for one in moved[name]]}
            scaled = tuple(NumberColumn(name, (0.0, 3000.0), 1.0) if one.name == name else one for one in first.columns)
            yield Pair(
                f"{name} corrected, in another unit", "columns", first, table,
                replace(first, name="second", columns=scaled), in_other_units,
            )  # fmt: skip
    fills = [
        study(name, number("age"), number("crp", missing=fill)) for name, fill in (("first", 7.0), ("second", 9.0))
    ]
    gap = but(table, "crp", 5, None)
    yield Pair("another fill of one missing value", "columns", fills[0], gap, fills[1], gap)
    twice = {**table, "ward then": list(table["ward"])}
    place = twice["ward"].index("eye")
    twice["ward then"][place] = "heart"
    then = CategoryColumn("ward then", ("eye", "heart", "skin"))
    yield Pair("wards at two times, two studies (S2)", "columns", study("first", number("age"), WARD), twice,
               study("second", number("age"), then), twice)  # fmt: skip
    yield Pair("wards at two times, one study (S2)", "columns", study("other", number("crp")), rows(9),
               study("second", number("age"), WARD, then), twice)  # fmt: skip
    grouped = CategoryColumn("ward", ("eye", "heart", "other"), other="other")
    one_skin = {**table, "ward": ["skin" if i == 3 else ("eye", "heart", "plastic")[i % 3] for i in range(N)]}
    apart = CategoryColumn("ward", ("eye", "heart", "plastic", "other"), other="other")
    yield Pair("levels joined otherwise", "columns", study("first", number("age"), grouped), one_skin,
               study("second", number("age"), apart), one_skin)  # fmt: skip
    kinds: dict[str, Callable[[str], PoissonModel]] = {
        "weights": lambda column: PoissonModel("m", ("age",), weights=column),
        "offset": lambda column: PoissonModel("m", ("age",), offset=column),
    }
    for kind, of_kind in kinds.items():
        beside = {**table, "w": [1 + i % 7 for i in range(N)]}
        beside["v"] = [one + (i == 5) for i, one in enumerate(beside["w"])]
        counts = NumberTarget("crp", (0.0, 200.0), 1.0)
        studies = [
            study(name, number("age"), number(column, 9.0, in_model=False), target=counts,
                  models=(of_kind(column),))
            for name, column in (("first", "w"), ("second", "v"))
        ]  # fmt: skip
        yield Pair(f"two columns of {kind} (S2)", "columns", studies[0], beside, studies[1], beside)
    labels = {**table, "ill": ["yes" if one > 90 else "no" for one in table["crp"]]}
    labels["ill then"] = ["yes" if i == 7 else one for i, one in enumerate(labels["ill"])]
    labels["ill"][7] = "no"
    sick = [ClassTarget(name, ("no", "yes")) for name in ("ill", "ill then")]
    models = (LogisticModel("m", ("age",)),)
    yield Pair("two targets (S2)", "columns", study("first", number("age"), target=sick[0], models=models), labels,
               study("second", number("age"), target=sick[1], models=models), labels)  # fmt: skip
    for bits in (100, 150):
        clipped = NumberColumn("crp", (0.0, float(bits)), 1.0)
        few = {**table, "crp": [min(one, bits) for one in table["crp"]]}
        few["crp"][2] = bits + 40
        yield Pair(f"clipped at {bits}", "columns", study("first", number("age"), number("crp")), few,
                   study("second", number("age"), clipped), few)  # fmt: skip


def _of_marks() -> Iterator[Pair]:
    def divided(name: str, *factors: Factor, model: bool = True) -> Study:
        made = tuple(DerivedColumn(f"f{i}", (0.0, 200.0), 1.0, factors=(one,)) for i, one in enumerate(factors))
        return study(name, number("age", in_model=model), *made)

    table = rows()
    for first, second in ((97, 98), (50, 51), (60, 61), (30, 31), (70, 72)):
        yield Pair(f"cuts at {first} and {second}", "marks", divided("first", Factor("age", above=float(first))), table,
                   divided("second", Factor("age", above=float(second))), table)  # fmt: skip
        knots = [tuple(map(float, (one - 20, one, one + 20))) for one in (first, second)]
        studies = [
            divided(name, Factor("age", knots=one)) for name, one in zip(("first", "second"), knots, strict=True)
        ]
        yield Pair(f"knots at {first} and {second} (S2)", "marks", studies[0], table, studies[1], table)
    died = number("died", 1.0, in_model=False)
    for times in ((10.0, 31.0, 50.0), (11.0, 30.0, 50.0), (10.0, 20.0, 30.0, 50.0)):
        studies = [
            study(name, WARD, died, models=(SurvivalModel("s", ("ward",), "died", grid),))
            for name, grid in (("first", (10.0, 30.0, 50.0)), ("second", times))
        ]
        yield Pair(f"times {times}", "marks", studies[0], table, studies[1], table)


CATALOGUE = [*_of_rows(), *_of_columns(), *_of_marks()]


def test_the_catalogue_is_large():
    assert len(CATALOGUE) >= 60 and len({one.name for one in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("pair", CATALOGUE, ids=lambda one: one.name)
def test_a_pair_of_studies_that_differ_in_few_rows_is_a_finding(tmp_path: Path, pair: Pair):
    device = Device(tmp_path)
    device.approves(pair.first, pair.before)
    device.asked.clear()
    approved = device.approves(pair.second, pair.after)
    assert pair.kind in device.kinds(), device.asked
    assert {one[0] for one in approved.accepted} >= {pair.kind} and approved.accepted[0][2:] == ("Ada", "for a test")
    refusing = Device(tmp_path / "again")
    refusing.approves(pair.first, pair.before)
    table, key = as_raw_table(pair.after), KEYS[NAMES[0]]
    with pytest.raises(InvalidInput, match=r"^a finding must be accepted by who approves"):
        approve(pair.second, ROSTER, NAMES[0], key, table, refusing.folder, Deciding("Ada", "today"))


def by_name(first: Study, before: Columns, second: Study, after: Columns) -> bool:
    """The old rule, as a mutant: rows by their id, columns by their names, one at a time, few of each that differ."""
    if first.id is None or second.id is None:
        return False
    common = [one for one in before if one != "id" and one in after]
    known = {one: place for place, one in enumerate(before["id"])}
    new = {one: place for place, one in enumerate(after["id"])}
    both = [one for one in known if one in new]
    if not both:
        return False
    if 0 < len(known) - len(both) < 5 or 0 < len(new) - len(both) < 5:
        return True
    return any(0 < sum(before[c][known[one]] != after[c][new[one]] for one in both) < 5 for c in common)


def test_the_old_rule_misses_most_of_them():
    missed = [one.name for one in CATALOGUE if not by_name(one.first, one.before, one.second, one.after)]
    assert len(missed) > len(CATALOGUE) / 2
    assert {"wards at two times, two studies (S2)", "knots at 97 and 98 (S2)", "1 left, ids redrawn (S4)"} <= set(
        missed
    )


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(lambda: (replace(BASE, name="second"), rows()), id="the same rows again"),
        pytest.param(lambda: (study("second", number("age"), number("crp"), WARD), rows()), id="one column more"),
        pytest.param(lambda: (replace(BASE, name="second"), rows(7)), id="other people"),
        pytest.param(lambda: (replace(BASE, name="second"), without(rows(), *range(30))), id="thirty left"),
        pytest.param(lambda: (study("second", number("crp")), rows()), id="other columns"),
    ],
)
def test_honest_studies_are_no_finding(tmp_path: Path, second: Callable[[], tuple[Study, Columns]]):
    device = Device(tmp_path)
    device.approves(BASE, rows())
    device.approves(*second())
    assert device.asked == []


# -- S3: three versions, none of which differs from another in few rows


def test_the_returning_patient_of_two_years(tmp_path: Path):
    """T1 + T2 - T3 is who was there in both: in every sum, and told apart all the same."""
    first, second = rows(1, 40), rows(2, 40)
    back = {name: [values[0], *second[name][1:]] for name, values in first.items()}
    both = {name: [*values, *back[name][1:]] for name, values in first.items()}
    device = Device(tmp_path)
    device.approves(replace(BASE, name="2023"), first)
    device.approves(replace(BASE, name="2024"), back)
    device.asked.clear()
    device.approves(replace(BASE, name="both"), both)
    assert any(one.kind == "rows" and one.words.startswith("1 row(s)") for one in device.asked), device.asked


# -- S1: groups that change, approved before anything is run


def regrouped() -> Roster:
    """The same hospitals in other groups."""
    members = [replace(one, pod=(i % 3)) for i, one in enumerate(ROSTER.members)]
    return Roster(tuple(members))


def test_another_group_is_refused_at_approval_though_nothing_was_run(tmp_path: Path):
    device, other = Device(tmp_path), regrouped()
    device.approves(BASE, rows())
    with pytest.raises(InvalidInput, match=r"our disclosure group has other owners than in first.*\(on-groups\)"):
        device.approves(study("second", *BASE.columns, roster=other), rows(), other)


def test_a_group_is_its_keys_and_not_its_names(tmp_path: Path):
    """A roster that gives another hospital's name to a key of the author's own."""
    made_up = ROSTER.renewed(NAMES[1], Identity(bytes([99] * 32)).public)
    device = Device(tmp_path)
    device.approves(BASE, rows())
    with pytest.raises(InvalidInput, match=r"our disclosure group has other owners"):
        device.approves(study("second", *BASE.columns, roster=made_up), rows(), made_up)


# -- S9: points are counted over rows


def test_points_are_counted_over_rows_and_not_over_versions(tmp_path: Path):
    sick = ClassTarget("died", (0, 1))
    made = [
        study("m", number("age"), target=sick, edition=i, models=(LogisticModel("m", ("age",)),)) for i in range(1, 7)
    ]
    device = Device(tmp_path)
    for one in made:
        device.approves(one, rows())
    assert device.kinds() == {"points"}
    with pytest.raises(InvalidInput, match="servers may choose"):
        device.approves(replace(made[0], edition=9), rows(), policy=Policy(on_points="refuse"))


def test_robust_errors_by_clusters_beside_others_are_counted(tmp_path: Path):
    """S5: the census counts rows of clusters that have several."""
    clinic = number("clinic", 99.0, in_model=False)
    one = study("s", number("age"), clinic, models=(RobustModel("m", ("age",), "cluster", "clinic"),))

    assert [family.of for family in StudyCells(one).families if family.kind == "cluster"] == ["m"]
    table = {**rows(), "clinic": [*range(N - 1), 0]}
    snapshot = Device(tmp_path).folder
    approve(one, ROSTER, NAMES[0], KEYS[NAMES[0]], as_raw_table(table), snapshot, Deciding("Ada", "today"))
    cells = StudyCells(one)
    people = cells.people(snapshot.frozen(one.digest()))
    assert {family.kind: values.tolist() for family, values in cells.split(people)}["cluster"] == [2]


def test_a_lost_key_of_rows_is_noticed(tmp_path: Path):
    """S14: hashes under another key would recognise no row."""
    folder = DeviceFolder(tmp_path / "state")
    table, key = as_raw_table(rows()), KEYS[NAMES[0]]
    approve(BASE, ROSTER, NAMES[0], key, table, folder, Deciding("Ada", "today"))
    (tmp_path / "state" / "rows.key").unlink()
    with pytest.raises(InvalidInput, match=r"^rows.key must be the one that this ledger began with"):
        approve(replace(BASE, edition=2), ROSTER, NAMES[0], key, table, folder, Deciding("Ada", "today"))
