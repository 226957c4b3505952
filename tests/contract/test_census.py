"""The census: whoever invents, a cell that passes has enough honest people or nobody who relies on it; rounds end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from clinics import STUDY
from hypothesis import given, settings
from hypothesis import strategies as st

from codedfl.analyses.cells import CellCounts
from codedfl.contract.cells import StudyCells, size_marks
from codedfl.contract.census import (
    MOST_ROUNDS,
    Census,
    GroupCount,
    Round,
    bit_marks,
    census_numbers,
    decode_rounds,
    encode_rounds,
    parts_of,
)
from codedfl.contract.merging import merged_study, recoded
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import GAP, CategoryColumn, Column, NumberColumn, NumberTarget
from codedfl.data.tables import as_raw_table
from codedfl.device.approved import ApprovedStudy
from codedfl.device.study_sums import StudySums
from codedfl.errors import CodedFLError, InvalidInput
from codedfl.run.rehearsal import Rehearsed, alike_devices, made_up_roster
from codedfl.statistics.statistic import Ask, contribution
from codedfl.sum.certified import CertifiedTotal
from codedfl.sum.keys import digest
from rehearsals import snapshots_of
from totals import census_of, total_of

# -- a cell that passes, whatever some owners invent


@dataclass(frozen=True)
class World:
    """One cell: how many people each honest owner has, part by part, and what the others upload in each part."""

    k: int
    colluders: int
    honest: tuple[tuple[int, ...], ...]
    invented: tuple[tuple[tuple[int, ...], ...], ...]

    @property
    def people(self) -> int:
        return sum(map(sum, self.honest))

    @property
    def numbers(self) -> Iterator[tuple[list[int], int]]:
        """The three numbers of each part, and how many owners it has."""
        for honest, invented in zip(self.honest, self.invented, strict=True):
            bits = [[int(count >= mark) for mark in bit_marks(self.k)] for count in honest]
            yield np.sum([*bits, *invented, (0, 0, 0)], axis=0).tolist(), len(honest) + len(invented)


Judge = Callable[[World], tuple[bool, bool]]  # whether the cell passes, and whether an honest owner ends it


def study_with(k: int, z: int) -> Study:
    return replace(STUDY, smallest_cell=k, colluders=z, least_participants=z + 2)


_study_with = cache(study_with)


def counted(world: World, kind: type[Round] = Round, group: Callable[..., GroupCount] = GroupCount.of) -> Round:
    parts = [group(numbers, 1, owners) for numbers, owners in world.numbers]
    return kind(_study_with(world.k, world.colluders), parts, world.colluders)


def judged(world: World, kind: type[Round] = Round) -> tuple[bool, bool]:
    try:
        found = counted(world, kind)
    except InvalidInput:  # every device refuses it
        return False, True
    owners = {count for part in world.honest for count in part}
    return bool(found.passes()[0]), any(found.betrays(np.array([count])) for count in owners)


def hides(world: World, judge: Judge = judged) -> bool:
    """Nobody honest is exposed: the cell fails, or an honest owner refuses, or it has enough people or none."""
    passes, refused = judge(world)
    return not passes or refused or world.people == 0 or world.people >= world.k


class Undiscounted(Round):
    """A mutant: what inventors say counts as what others do."""

    def bound(self) -> np.ndarray:
        return np.asarray(sum(one.people(self.study.smallest_cell) for one in self.parts))


class Trusting(Round):
    """A mutant: no device looks at its own people."""

    def betrays(self, people: np.ndarray) -> bool:
        del people
        return False


class Sole(Round):
    """A mutant: one owner that has anybody is enough."""

    def passes(self) -> np.ndarray:
        enough = self.bound() >= self.study.smallest_cell
        few = np.all([one.some == one.enough for one in self.parts], axis=0)
        return np.asarray((self.owners() == 0) | enough | few)


def small_worlds(k: int = 3) -> Iterator[World]:
    """Two disclosure groups, of which one owner invents: all that three honest ones can have, and it can say."""
    for honest in itertools.product(range(k + 1), repeat=3):
        for said in itertools.product((-1, 0, 1, 2, 5), repeat=3):
            yield World(k, 1, (honest[:1], honest[1:]), ((said,), ()))


def single_groups(k: int = 3) -> Iterator[World]:
    """One disclosure group of three, of which one says any bits."""
    for honest in itertools.product(range(k + 1), repeat=2):
        for bits in itertools.product((0, 1), repeat=3):
            yield World(k, 1, (honest,), ((bits,),))


def test_a_cell_that_passes_hides_whoever_is_in_it_in_all_small_worlds():
    for worlds in (small_worlds(), single_groups()):
        every = list(worlds)
        assert all(map(hides, every))
        assert any(judged(one) == (True, False) and one.people >= one.k for one in every), "some pass"


@pytest.mark.parametrize("mutant", [Undiscounted, Trusting])
def test_without_a_part_of_the_rule_somebody_is_exposed(mutant: type[Round]):
    exposed = next(one for one in small_worlds() if not hides(one, lambda world: judged(world, mutant)))
    assert 0 < exposed.people < exposed.k and hides(exposed)


def owned(world: World, kind: type[Round] = Round) -> bool:
    """Where nobody invents, a cell that passes is not one owner's alone."""
    passes, _ = judged(world, kind)
    return not passes or sum(count > 0 for part in world.honest for count in part) != 1


def test_a_cell_of_one_owner_does_not_pass_where_nobody_invents():
    truthful = [
        World(3, 1, (one[:3], one[3:]), ((), ())) for one in itertools.product(range(5), repeat=6) if sum(one) < 9
    ]
    assert all(map(owned, truthful))
    assert not all(owned(one, Sole) for one in truthful)


anything = st.tuples(*[st.integers(-40, 40)] * 3)


@st.composite
def worlds_of_many_groups(draw: st.DrawFn) -> World:
    z, k = draw(st.integers(1, 3)), draw(st.integers(2, 9))
    n_parts = draw(st.integers(z + 1, z + 4))
    honest = [tuple(draw(st.lists(st.integers(0, 2 * k), max_size=4))) for _ in range(n_parts)]
    invented: list[list[tuple[int, int, int]]] = [[] for _ in range(n_parts)]
    for _ in range(z):
        invented[draw(st.integers(0, n_parts - 1))].append(draw(anything))
    return World(k, z, tuple(honest), tuple(map(tuple, invented)))


@st.composite
def worlds_of_few_groups(draw: st.DrawFn) -> World:
    """No more groups than inventors, who say bits."""
    z, k = draw(st.integers(1, 3)), draw(st.integers(2, 9))
    n_parts = draw(st.integers(1, z))
    honest = [tuple(draw(st.lists(st.integers(0, 2 * k), max_size=5))) for _ in range(n_parts)]
    invented: list[list[tuple[int, ...]]] = [[] for _ in range(n_parts)]
    for _ in range(z):
        bits = draw(st.tuples(*[st.integers(0, 1)] * 3))
        invented[draw(st.integers(0, n_parts - 1))].append(bits)
    return World(k, z, tuple(honest), tuple(map(tuple, invented)))


@settings(max_examples=1000)
@given(worlds_of_many_groups())
def test_with_more_groups_than_inventors_any_numbers_expose_nobody(world: World):
    assert hides(world)


@settings(max_examples=1000)
@given(worlds_of_few_groups())
def test_with_no_more_groups_than_inventors_any_bits_expose_nobody(world: World):
    assert hides(world)


def test_with_no_more_groups_than_inventors_other_numbers_can():
    """What THREAT_MODEL says: one that uploads numbers and no bits could make a cell pass; more groups mend it."""
    alone = World(5, 1, ((1, 0),), (((2, 3, 3),),))
    assert not hides(alone)
    assert hides(replace(alone, honest=((1, 0), (0, 0, 0)), invented=(((2, 3, 3),), ())))


@pytest.mark.parametrize("numbers", [[4, 0, 0], [-1, -1, -1], [1, 2, 0], [1, 1, 2]])
def test_a_group_cannot_say_more_than_its_owners(numbers: list[int]):
    with pytest.raises(InvalidInput, match=r"^counts of a disclosure group must be of its 3 owners, got others$"):
        GroupCount.of(numbers, cells=1, owners=3)
    with pytest.raises(InvalidInput, match=r"^counts of a disclosure group"):
        GroupCount.of([1, 1, 1, 4], cells=1, owners=3)


@given(st.sets(st.integers(0, 400), min_size=1, max_size=200), st.integers(0, 4))
def test_parts_are_all_groups_once_and_more_than_inventors_where_they_can_be(groups: set[int], z: int):
    parts = parts_of(tuple(groups), z)
    assert sorted(one for part in parts for one in part) == sorted(groups) and all(parts)
    assert len(parts) > z or len(parts) == len(groups)


# -- rounds end, and what is merged is merged alike in the sums


LEVELS = ("a", "b", "c", "d", "e")


def clinics(sizes: Sequence[int], seed: int, skew: float) -> list[dict[str, list[object]]]:
    rng = np.random.default_rng(seed)
    weights = np.array([skew**place for place in range(len(LEVELS))])
    found = []
    for n in sizes:
        found.append(
            {
                "ward": rng.choice(LEVELS, n, p=weights / weights.sum()).tolist(),
                "age": rng.integers(20, 90, n).tolist(),
                "crp": [None if rng.random() < 0.04 * skew else int(one) for one in rng.integers(0, 50, n)],
                "smokes": (rng.random(n) < 0.2 * skew).astype(int).tolist(),
                "days": rng.integers(1, 40, n).tolist(),
            }
        )
    return found


def number(name: str, high: float, missing: float | None = None) -> Column:
    return NumberColumn(name, (0.0, high), 1.0, missing=missing)


MERGING = Study(
    "stay",
    (
        CategoryColumn("ward", LEVELS),
        number("age", 110.0),
        number("crp", 50.0, 7.0),
        number("smokes", 1.0),
    ),
    NumberTarget("days", (0.0, 60.0), 1.0),
    10_000,
    2000,
    3,
    held_out=0.0,
)


def by_hand(tables: Sequence[dict[str, list[object]]], merged: tuple[tuple[int, ...], ...]) -> list[int]:
    """The products of the pooled rows, in Python integers, under the mergings as they are named."""
    gone = merged or ((),) * 6
    others = {LEVELS[place] for place in gone[0]}
    levels = [one for one in LEVELS if one not in others] + (["other"] if others else [])
    rows = []
    for one in tables:
        for ward, age, crp, smokes, days in zip(*(one[name] for name in one), strict=True):
            ward = "other" if ward in others else ward
            row = [1, *(int(ward == level) for level in levels[1:])]
            row += [] if gone[1] == (1,) else [age - 55]  # numbers count from the middle of their ranges
            if gone[2] != (1,):
                row += [(7 if crp is None else crp) - 25] + ([int(crp is None)] if gone[2] == () else [])
            row += [] if gone[3] == (1,) else [smokes]
            rows.append([*row, days - 30])
    width = len(rows[0])
    return [sum(row[i] * row[j] for row in rows) for i in range(width) for j in range(i, width)]


@settings(max_examples=60)
@given(
    st.lists(st.integers(1, 40), min_size=3, max_size=9),
    st.integers(0, 1000),
    st.floats(0.15, 1.0),
    st.integers(2, 9),
)
def test_sums_are_those_of_the_pooled_rows_under_the_mergings_that_are_named(
    sizes: list[int], seed: int, skew: float, k: int
):
    study, tables = replace(MERGING, smallest_cell=k), clinics(sizes, seed, skew)
    snapshots = [take_snapshot(study, as_raw_table(one), bytes(16)) for one in tables]
    decision = census_of(study, snapshots)
    merged = decision.merged
    if decision.refused:
        return
    assert total_of(study, Ask("gram", merged), snapshots) == by_hand(tables, merged)
    left = merged_study(study, merged)
    rows = [replace(one, codes=recoded(study, one.codes, merged)) for one in snapshots]
    every = sum(StudyCells(left).people(one) for one in rows)
    for family, people in StudyCells(left).split(np.asarray(every)):
        marked = family.kind == "missing" and merged[2:3] != ((0,),)  # without a mark nothing shows who has none
        if family.kind in ("level", "number") or marked:
            assert ((people == 0) | (people >= k)).all(), family


def test_such_tables_are_merged_and_not_refused():
    """The test above would be empty if all its tables were refused, or none had anything to merge."""
    seen = set()
    for seed in range(30):
        tables = clinics([30, 12, 40, 25, 18, 33], seed, 0.45)
        snapshots = [take_snapshot(MERGING, as_raw_table(one), bytes(16)) for one in tables]
        decision = census_of(MERGING, snapshots)
        assert not decision.refused
        seen.add(decision.merged)
    assert len(seen) > 3 and any(one and len(one[0]) > 1 for one in seen)


def test_where_no_column_is_left_the_study_is_refused_in_words():
    snapshots = [take_snapshot(MERGING, as_raw_table(one), bytes(16)) for one in clinics([1, 1, 1], 0, 1.0)]
    wards = replace(MERGING, columns=MERGING.columns[:1], least_rows=10)
    of_wards = [take_snapshot(wards, as_raw_table(one), bytes(16)) for one in clinics([4, 4, 4, 4], 0, 1.0)]
    assert census_of(MERGING, snapshots).objection().startswith("training rows must be at least 18 in this study")
    assert census_of(wards, of_wards).objection() == (
        "a column must be left in which at least 5 people have each value that is distinguished, got none: ask more"
        " devices to join, or join levels"
    )


def test_clipped_values_stay_with_their_columns_where_one_before_them_is_gone():
    tables = clinics([40, 40, 40, 40], 0, 1.0)
    for one in tables:
        one["ward"] = ["b", *["a"] * 39]  # too few differ: the column goes
    tables[0]["age"][0] = tables[1]["age"][3] = 200
    tables[2]["days"][5] = 99
    snapshots = [take_snapshot(MERGING, as_raw_table(one), bytes(16)) for one in tables]
    merged = census_of(MERGING, snapshots).merged
    left = merged_study(MERGING, merged)
    assert [one.name for one in left.columns] == ["age", "crp", "smokes"]
    counts = CellCounts(left, total_of(MERGING, Ask("cells", merged), snapshots))
    assert counts.clipped.values == {"age": 2, "days": 1} and counts.rows.rows == 160


@settings(max_examples=60)
@given(st.integers(0, 1000), st.integers(0, 3))
def test_rounds_end_whatever_is_counted(seed: int, z: int):
    """Each round that is not the last makes columns coarser: no numbers keep a census going."""
    rng, study, counts = np.random.default_rng(seed), replace(MERGING, colluders=z, least_participants=z + 3), []
    merged: tuple[tuple[int, ...], ...] = ()
    for _ in range(MOST_ROUNDS):
        cells = StudyCells(merged_study(study, merged)).count
        bits = -np.sort(-rng.integers(0, 4, (2, 3, cells)), axis=1)
        sizes = np.full((2, len(size_marks(study))), 3)
        counts.append([[*of_part.ravel().tolist(), *more.tolist()] for of_part, more in zip(bits, sizes, strict=True)])
        census = Census(study, (3, 3), counts)
        if census.is_over:
            return
        assert sum(map(len, census.merged)) > sum(map(len, merged)) or census.merged[2] != merged[2]
        merged = census.merged
    raise AssertionError("a census must end")


def test_a_census_of_noise_or_of_cells_of_one_is_none():
    assert not replace(MERGING, smallest_cell=1).needs_census and MERGING.needs_census


def test_persons_count_once_in_a_cell():
    study = replace(MERGING, id="nr")
    table = {**clinics([8], 0, 1.0)[0], "nr": [1, 1, 1, 1, 2, 2, 2, 2], "ward": ["a"] * 7 + ["b"]}
    snapshot = take_snapshot(study, as_raw_table(table), bytes(16))
    people = StudyCells(study).people(snapshot)
    found = {(one.kind, one.of): values.tolist() for one, values in StudyCells(study).split(people)}
    assert found["rows", "stay"] == [2] and found["level", "ward"] == [2, 1, 0, 0, 0]
    said = census_numbers(study, people, (8, 0))
    assert said[:2].tolist() == [1, 1] and said[2 * len(people) :][:2].tolist() == [0, 0]


# -- what a device refuses


@dataclass(frozen=True, eq=False)
class Certified:
    """A federation of two disclosure groups whose census merges in two rounds, as its server has it."""

    sums: StudySums
    ready: Rehearsed
    rounds: list[list[bytes]]
    rows: str

    def ask(self, statistic: str = "cells", rounds: list[list[bytes]] | None = None, **but: object) -> Ask:
        content = encode_rounds(self.rounds)
        groups, census = self.sums.census(content)
        named = content if rounds is None else encode_rounds(rounds)
        said = {"merged": census.merged, "groups": groups, "census": digest(named), **but}
        return Ask(statistic, **said)  # type: ignore[arg-type]

    def device(self, *rounds: list[list[bytes]], name: str = "") -> ApprovedStudy:
        """To which these censuses were put, beside the right one."""
        contents = {digest(one): one for one in map(encode_rounds, (self.rounds, *rounds))}
        rows = self.ready.snapshots[name or self.rows]
        return ApprovedStudy(self.sums, lambda: rows, b"", contents.get)

    def refusal(self, ask: Ask, *rounds: list[list[bytes]], name: str = "") -> str:
        with pytest.raises(CodedFLError) as raised:
            self.device(*rounds, name=name).words(ask.encode())
        return str(raised.value)


@pytest.fixture(scope="module")
def certified() -> Certified:
    tables = {f"clinic-{i}": one for i, one in enumerate(clinics([30, 32, 34, 31, 33, 35], 3, 0.45))}
    for one in tables.values():  # c, d and e are rare; nobody has e
        one["ward"] = ["ab"[i % 2] for i in range(len(one["ward"]))]
        one["crp"] = [7 if value is None else value for value in one["crp"]]
    tables["clinic-0"]["ward"][:4] = ["c", "c", "d", "d"]
    tables["clinic-3"]["ward"][:4] = ["c", "c", "d", "d"]
    study = replace(MERGING, columns=MERGING.columns[:3])
    ready = Rehearsed(study, made_up_roster(study, tables))
    ready.snapshots.update(snapshots_of(ready.study, {name: as_raw_table(one) for name, one in tables.items()}))
    ready.snapshots.update({n: replace(one, study=ready.study.digest()) for n, one in ready.snapshots.items()})
    contents: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        believed = StudySums.census

        def recorded(sums: StudySums, content: bytes) -> tuple[tuple[int, ...], Census]:
            contents.append(content)
            return believed(sums, content)

        patch.setattr(StudySums, "census", recorded)
        found = ready.run(alike_devices(StudySums(ready.study, ready.roster), np.random.default_rng(0))).findings
    assert found.rows == sum(map(len, (one.target for one in ready.snapshots.values())))
    return Certified(StudySums(ready.study, ready.roster), ready, decode_rounds(max(contents, key=len)), "clinic-1")


def test_a_device_gives_what_its_census_decides(certified: Certified):
    ask = certified.ask()
    assert len(certified.rounds) > 1 and len(certified.rounds[0]) == 2
    assert ask.merged and ask.groups == (0, 1)
    for name, rows in certified.ready.snapshots.items():
        layout = certified.sums.layout(ask.encode())
        expected = layout.words_of(contribution(certified.sums.study, ask, rows))
        assert all(map(np.array_equal, certified.device(name=name).words(ask.encode()), expected))


def test_a_device_refuses_what_does_not_follow_from_a_census(certified: Certified):
    merged = certified.ask().merged
    follow = "a request must merge what its census decides, over the groups of it, got another"
    assert certified.refusal(certified.ask(census=b"")) == "a request for cells must name a census, got none"
    assert certified.refusal(certified.ask(merged=())) == follow
    assert certified.refusal(certified.ask(merged=(merged[0][:-1], *merged[1:]))) == follow
    assert certified.refusal(certified.ask(groups=(0,))) == follow
    with pytest.raises(CodedFLError, match=r"^a request for gram must say over which groups, got none$"):
        certified.sums.groups(certified.ask("gram", groups=()).encode())
    with pytest.raises(CodedFLError, match=r"^groups must be on the roster, got others$"):
        certified.sums.groups(certified.ask("gram", groups=(0, 7)).encode())
    assert certified.refusal(certified.ask(census=bytes(32))) == "a census must be put here first"


def test_a_device_refuses_a_census_of_which_something_is_left_out(certified: Certified):
    first, *others = certified.rounds
    follow = "a request must merge what its census decides"
    last_is_missing = [first]
    _, begun = certified.sums.census(encode_rounds(last_is_missing))
    ask = certified.ask(rounds=last_is_missing, merged=begun.merged)
    assert certified.refusal(ask, last_is_missing).startswith(follow)
    wrong = "a census must follow from what devices certified: "
    left_out = "a round of a census must ask for what the rounds before it decide, got another"
    in_part: list[list[list[bytes]]] = [[], [[]], [*others], [first[:1], *others]]
    for rounds in [*in_part, [first[::-1], *others], [first, *others, others[-1]]]:
        refusal = certified.refusal(certified.ask(rounds=rounds), rounds)
        assert refusal.startswith(wrong), refusal
    assert certified.refusal(certified.ask(rounds=[first, first]), [first, first]) == wrong + left_out


def test_a_device_refuses_a_census_that_is_not_certified(certified: Certified):
    def changed(**said: object) -> list[list[bytes]]:
        one = replace(CertifiedTotal.decode(certified.rounds[0][0]), **said)  # type: ignore[arg-type]
        return [[one.encode(), *certified.rounds[0][1:]], *certified.rounds[1:]]

    total = CertifiedTotal.decode(certified.rounds[0][0])
    strangers = tuple(("nobody", signature) for _, signature in total.signatures)
    twice = (total.signatures[0],) * 2
    for rounds, words in (
        (changed(signatures=total.signatures[:1]), "must be signed by 2 devices of the roster"),
        (changed(signatures=twice), "must be signed by 2 devices of the roster"),
        (changed(signatures=strangers), "must be signed by 2 devices of the roster"),
        (changed(signatures=tuple((name, bytes(64)) for name, _ in total.signatures)), "the signature must be by key"),
        (changed(numbers=bytes(len(total.numbers))), "the signature must be by key"),
        (changed(numbers=b""), "the signature must be by key"),
        (changed(entries=CertifiedTotal.decode(certified.rounds[0][1]).entries), "the signature must be by key"),
    ):
        assert words in certified.refusal(certified.ask(rounds=rounds), rounds)


def test_a_device_refuses_a_census_that_does_not_count_its_people(certified: Certified):
    """Two of its people have no crp, and the census says that nobody has none: a server has left this device out."""
    rows = certified.ready.snapshots["clinic-1"]
    codes = rows.codes.copy()
    codes[:2, 2] = GAP
    device = ApprovedStudy(
        certified.sums, lambda: replace(rows, codes=codes), b"", lambda _: encode_rounds(certified.rounds)
    )
    with pytest.raises(CodedFLError) as raised:
        device.words(certified.ask().encode())
    assert str(raised.value) == "a census must count the people of this device, got one in which few stand alone"


def test_few_people_rely_on_honest_others_and_on_nobody_else(certified: Certified):
    _, census = certified.sums.census(encode_rounds(certified.rounds))
    last, relied = census.last, 0
    for cell, owners in enumerate(last.owners()):
        people = np.zeros(len(last.owners()), dtype=np.int64)
        people[cell] = 2
        alone = owners == 0 or last.bound()[cell] < 5
        assert last.betrays(people) == (alone and last.passes()[cell])
        relied += not alone
    assert relied and not last.betrays(np.zeros_like(people))


def test_a_later_round_is_asked_as_the_rounds_before_it_decide(certified: Certified):
    begun = encode_rounds(certified.rounds[:1])
    groups, census = certified.sums.census(begun)
    asks = certified.sums.census_asks(groups, census, digest(begun))
    device = certified.device(certified.rounds[:1])
    device.words(asks[0].encode())
    assert certified.refusal(replace(asks[0], merged=()), certified.rounds[:1]) == (
        "a census must ask for what its rounds decide, got another"
    )
    assert certified.refusal(replace(asks[0], census=certified.ask().census)) == (
        "a census must ask for what its rounds decide, got another"
    )
    assert certified.refusal(Ask("census", census.merged, groups=groups[:1])) == (
        "a census must ask for what its rounds decide, got another"
    )
