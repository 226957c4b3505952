"""The census: what comes before every other sum of a study, and what follows from it for all of them.

Of every cell (``contract.cells``) each owner says three bits: whether it has anybody in it, about half of k people, and
k people (``smallest_cell``). They are summed by disclosure group, and nobody sees one owner's. What follows is a
function of these sums that every party computes for itself:

* S, the groups that take part. It is in every later request, so no sum over fewer groups exists to be subtracted.
* Which levels are merged, which marks of missing values, columns and times are left out, in *rounds*: a census of the
  merged cells comes after each merging, until all cells pass.

**When a cell passes.** Owners that invent can say anything, but only about their own group, and no more than all of its
owners could. So the people in groups without such an owner are at least what their bits add up to, over all groups less
the z with most. Where this is k or more, the cell has k honest people whatever z owners invent, whatever numbers they
upload in the place of bits; and z + 1 owners must have anybody, or it would be a site's own.

Where there are no more groups than z, every group could have such an owner. There bits are taken for bits, and z owners
may invent k people each; one that uploads other numbers could make a cell pass, and THREAT_MODEL says so. More groups
mend it. Where a role has fewer than z + 1 holders (three hospitals at z = 1), nobody can sign what a server says of
others, and nothing is believed: a cell passes only where nobody has a few. A key-only participant mends that. In any
case an owner that has people in a cell that is said to have none refuses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from codedfl.contract.cell_families import CellFamily
from codedfl.contract.cells import StudyCells, size_marks
from codedfl.contract.merging import Merged, held_out_place, merged_study, places_left, times_place
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import CategoryColumn, Column
from codedfl.errors import InvalidInput
from codedfl.typing import Integers

MOST_ROUNDS = 64
_PARTS, _PARTS_PER_INVENTOR = 12, 4


@dataclass(frozen=True, eq=False)
class GroupCount:
    """What one disclosure group of some owners says.

    bits: how many owners have anybody, half of k, and k people of every cell. sizes: how many have how many rows.

    >>> GroupCount.of([2, 1, 1, 0, 1, 0, 3, 3], cells=2, owners=3).people(5).tolist()
    [6, 1]
    """

    bits: Integers
    sizes: Integers

    @classmethod
    def of(cls, numbers: Sequence[int], cells: int, owners: int) -> GroupCount:
        """Of the numbers of a total; refused where they cannot be those of its owners."""
        found = np.array(numbers, dtype=np.int64)
        bits, sizes = found[: 3 * cells].reshape(3, -1), found[3 * cells :]
        # Invariant: whatever an owner invents, its group cannot say more than its owners could.
        ordered = (bits >= 0).all() and (bits <= owners).all() and (np.diff(bits, axis=0) <= 0).all()
        if not ordered or sizes.min(initial=0) < 0 or sizes.max(initial=0) > owners:
            raise InvalidInput(f"counts of a disclosure group must be of its {owners} owners, got others")
        return cls(bits, sizes)

    @property
    def some(self) -> Integers:
        """Owners that have anybody."""
        return np.asarray(self.bits[0])

    @property
    def enough(self) -> Integers:
        """Owners that have k people."""
        return np.asarray(self.bits[2])

    def people(self, k: int) -> Integers:
        """A lower bound, if nobody in the group invents."""
        return np.asarray(np.diff(bit_marks(k), prepend=0) @ self.bits)


def bit_marks(k: int) -> tuple[int, int, int]:
    """Of how many people an owner says whether it has them.

    >>> bit_marks(5), bit_marks(1)
    ((1, 3, 5), (1, 1, 1))
    """
    return 1, (k + 1) // 2, k


def census_numbers(study: Study, people: Integers, rows: tuple[int, int]) -> Integers:
    """What an owner says: of each cell three bits, and which numbers of rows it has, to train on and held out.

    >>> from codedfl.data.columns import NumberTarget
    >>> ward = CategoryColumn("ward", ("a", "b"))
    >>> study = Study("stay", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4, held_out=0.0)
    >>> census_numbers(study, np.array([9, 8, 1]), (9, 0)).tolist()
    [1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1]
    """
    marks = np.array(size_marks(study))
    sizes = [count >= marks for count in (rows if study.held_out else rows[:1])]
    return np.concatenate((*(people >= mark for mark in bit_marks(study.smallest_cell)), *sizes)).astype(np.int64)


def census_length(study: Study) -> int:
    """How many numbers these are."""
    return 3 * StudyCells(study).count + (2 if study.held_out else 1) * len(size_marks(study))


def parts_of(groups: Sequence[int], colluders: int) -> tuple[tuple[int, ...], ...]:
    """Unions of disclosure groups over which a census is summed: enough that the z with most can be left aside.

    >>> parts_of([0, 1, 2], colluders=1)
    ((0,), (1,), (2,))
    >>> len(parts_of(range(333), colluders=1))
    12
    """
    ordered = sorted(groups)
    count = min(len(ordered), max(_PARTS, _PARTS_PER_INVENTOR * colluders))
    return tuple(tuple(ordered[place::count]) for place in range(count))


@dataclass(frozen=True, eq=False)
class Round:
    """One round of a census: what every part says of the cells of the study with the mergings so far.

    colluders: z. certified: whether z + 1 devices have signed it; else its numbers are the server's word.
    """

    study: Study
    parts: Sequence[GroupCount]
    colluders: int
    certified: bool = True

    @property
    def believed(self) -> bool:
        """Whether there are more parts than owners who may invent."""
        return len(self.parts) > self.colluders

    def bound(self) -> Integers:
        """A lower bound of the honest people of each cell, whatever z owners invent."""
        k = self.study.smallest_cell
        counts = np.stack([one.people(k) for one in self.parts])
        # Invariant: where nobody can sign, nobody relies on what a server says of others.
        if not self.certified:
            return np.zeros(counts.shape[1], dtype=np.int64)
        if self.believed:
            return np.asarray(np.sort(counts, axis=0)[: len(counts) - self.colluders].sum(axis=0))
        return np.asarray(counts.sum(axis=0) - self.colluders * k)

    def owners(self) -> Integers:
        """How many owners have anybody in each cell."""
        return np.asarray(sum(one.some for one in self.parts))

    def passes(self) -> NDArray[np.bool_]:
        """Which cells have nobody, or enough people."""
        nobody_has_few = np.all([one.some == one.enough for one in self.parts], axis=0)
        enough = (self.bound() >= self.study.smallest_cell) | nobody_has_few
        owners = self.owners()
        passing: NDArray[np.bool_] = (owners == 0) | (enough & (owners > self.colluders))
        return passing

    def rows(self, held_out: bool = False) -> int:
        """A lower bound of the rows: of honest owners, or where there are too few parts to tell, of all."""
        marks, place = np.array(size_marks(self.study)), int(held_out)
        counts = []
        for one in self.parts:
            sizes = one.sizes[place * len(marks) : (place + 1) * len(marks)]
            counts.append(int((np.diff(marks, prepend=0) * sizes).sum()))
        counts.sort()
        return sum(counts[: len(counts) - self.colluders] if self.believed else counts)

    def betrays(self, people: Integers) -> bool:
        """Whether a device with these people in each cell must stop: it has few of a cell that passes.

        Invariant: an owner with few people relies on others only where honest ones among them have enough.
        """
        few = (people > 0) & (people < self.study.smallest_cell)
        relied = self.bound() >= self.study.smallest_cell
        gone = (people > 0) & (self.owners() == 0)
        return bool((self.passes() & (few & ~relied | gone)).any())


@dataclass(frozen=True)
class Decision:
    """What follows from a census.

    groups: S. merged: what is merged and left out of all later sums. digest: of what was certified, by which every
    later request names it; b"" of a study that needs no census.
    refused: for each model that cannot be made, why; "" is the study itself.

    >>> Decision(refused={"m": "too few"}).objection("m")
    'too few'
    """

    groups: tuple[int, ...] = ()
    merged: Merged = ()
    digest: bytes = b""
    refused: Mapping[str, str] = field(default_factory=dict)

    def objection(self, model: str = "") -> str:
        """Why a model, or the study itself, cannot be made; "" if it can."""
        return self.refused.get(model, "")


class Census:
    """The rounds of a census so far.

    sizes: how many owners each part has (``parts_of``). counts: for each round the numbers of each part.
    certified: whether they are signed (``Round``).

    >>> from codedfl.data.columns import NumberTarget
    >>> ward = CategoryColumn("ward", ("a", "b", "c", "d"))
    >>> study = Study("stay", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4, held_out=0, least_rows=8)
    >>> some, enough, sizes = [3, 3, 3, 1, 1, 3, 3, 3], [3, 3, 3, 0, 0, 3, 3, 3], [3, 3, 3, 3]
    >>> census = Census(study, (3, 3), [[some + enough + enough + sizes] * 2])
    >>> census.merged, census.is_over
    (((2, 3), (), ()), False)
    """

    def __init__(
        self,
        study: Study,
        sizes: Sequence[int],
        counts: Sequence[Sequence[Sequence[int]]],
        *,
        certified: bool = True,
    ) -> None:
        if not 1 <= len(counts) <= MOST_ROUNDS:
            raise InvalidInput(f"a census must have 1 to {MOST_ROUNDS} rounds, got {len(counts)}")
        self.study = study
        self.merged: Merged = ()
        self.is_over = False
        for one in counts:
            # Invariant: a round is of the cells that the rounds before it decided; there is none after the last.
            if self.is_over:
                raise InvalidInput("a census must end where all of its cells pass, got a round more")
            merged = merged_study(study, self.merged)
            cells = StudyCells(merged).count
            parts = [GroupCount.of(numbers, cells, size) for numbers, size in zip(one, sizes, strict=True)]
            self.last = Round(merged, parts, study.colluders, certified)
            following = _merging(study, self.merged, self.last)
            self._nothing_left = not places_left(study, following)
            self.is_over = self._nothing_left or following == self.merged
            self.merged = self.merged if self._nothing_left else following

    def refused(self) -> dict[str, str]:
        """Of a census that is over: for each model that cannot be made, why; "" is the study itself."""
        found = _refused(self.study, self.last)
        if self._nothing_left:
            found.setdefault(
                "",
                f"a column must be left in which at least {self.study.smallest_cell} people have each value that is"
                " distinguished, got none: ask more devices to join, or join levels",
            )
        return found


# -- what is merged


def _merging(study: Study, merged: Merged, last: Round) -> Merged:
    """What is merged after a round; the same where all is well."""
    found = [list(one) for one in merged] or [[] for _ in range(held_out_place(study) + 1)]
    passing, owners = last.passes(), last.owners()
    cells = StudyCells(last.study)
    columns = {one.name: place for place, one in enumerate(study.columns)}
    times: list[tuple[NDArray[np.bool_], Integers]] = []
    people = sum(one.people(study.smallest_cell) for one in last.parts)
    for (family, passes), (_, having), (_, counts) in zip(
        cells.split(passing), cells.split(owners), cells.split(np.asarray(people)), strict=True
    ):
        if passes.all() or family.kind == "varies":
            continue
        if family.held_out:
            # Without the products of held-out rows a score is left; without enough people in them, none.
            found[held_out_place(study)] = [max(2 if family.kind == "rows" else 1, *found[held_out_place(study)], 0)]
        elif family.kind == "level":
            place = columns[family.of]
            found[place] = _levels(study.columns[place], found[place], last.study, passes, counts)
        elif family.kind in ("missing", "number", "common"):
            found[columns[family.of]] = _number(last.study, family, found[columns[family.of]], passes)
        elif family.kind in ("time", "begin"):
            times.append((passes, having))
    if last.study.holds_out_gram and last.rows(held_out=True) < study.least_pod_rows and not found[-1]:
        found[held_out_place(study)] = [1]
    found[times_place(study)] = sorted({*found[times_place(study)], *_times(study, last.study, times)})
    for place, one in enumerate(study.columns):  # a product with a level that is gone goes, too
        if _made_of_merged(study, one, found):
            found[place] = [1]
    following = tuple(map(tuple, found))
    return following if any(following) else ()


def _levels(column: Column, gone: list[int], merged: Study, passes: NDArray[np.bool_], counts: Integers) -> list[int]:
    """Levels with few become *other*; where that has few, the rarest level joins it, of equal ones the last.

    counts: people of each level, as far as the bits tell.
    """
    assert isinstance(column, CategoryColumn)
    kept = next(it for it in merged.columns if it.name == column.name)
    assert isinstance(kept, CategoryColumn)
    other = next((level for level in kept.levels if level not in column.levels or level == column.other), None)
    failing = [level for level, well in zip(kept.levels, passes, strict=True) if not well and level != other]
    if failing:
        # Those that nobody has go along: nothing is lost, and no coefficient is left without rows.
        failing += [level for level, n in zip(kept.levels, counts, strict=True) if not n and level != other]
    else:
        order = sorted((n, -place) for place, n in enumerate(counts) if kept.levels[place] != other)
        failing = [kept.levels[-order[0][1]]] if order else []
    return sorted({*gone, *(column.levels.index(level) for level in failing)})


def _number(merged: Study, family: CellFamily, gone: list[int], passes: NDArray[np.bool_]) -> list[int]:
    """(0,) drops the mark of few missing values, (1,) the column: all of it where few rows differ from the others."""
    one = next(it for it in merged.columns if it.name == family.of)
    if family.kind == "missing" and passes[1] and one.width > 1:
        return gone or [0]
    if family.kind == "missing" and passes[1]:
        return gone  # without a mark a missing value is what it is filled with, and nothing shows it
    return [1]


def _times(study: Study, merged: Study, counted: Sequence[tuple[NDArray[np.bool_], Integers]]) -> set[int]:
    """Places in the grid of times that end an interval with few: it is joined with the next in which anybody is.

    The last is joined with the one before it. counted: of each model which cells pass, and how many owners they have;
    all models have one grid, so intervals are joined for all together, one pair at a time.
    """
    if not counted:
        return set()
    grid, kept = study.time_grid, merged.time_grid
    width = len(kept) + 1
    failing = (~np.vstack([passes.reshape(-1, width) for passes, _ in counted])).sum(axis=0).tolist()
    somebody = np.vstack([having.reshape(-1, width) for _, having in counted]).sum(axis=0).tolist()
    gone: set[int] = set()
    place = 0
    while place < width:
        if not failing[place]:
            place += 1
            continue
        after = next((other for other in range(place + 1, width) if somebody[other]), None)
        before = next((other for other in range(place - 1, -1, -1) if somebody[other]), -1)
        ends = range(place, after) if after is not None else range(max(before, 0), place)
        gone.update(grid.index(kept[end]) for end in ends)
        # What it was joined with has to be counted first.
        place = width if after is None else after + 1
    return gone


def _made_of_merged(study: Study, one: Column, found: Sequence[Sequence[int]]) -> bool:
    """Whether a derived column has a factor of a level that is merged, or of a column that is gone."""
    places = {other.name: place for place, other in enumerate(study.columns)}
    for factor in factors_of(one):
        column = study.columns[places[factor.column]]
        gone = found[places[factor.column]]
        if isinstance(column, CategoryColumn) and factor.level and column.levels.index(factor.level) in gone:
            return True
    return False


# -- what cannot be made


def _refused(study: Study, last: Round) -> dict[str, str]:
    found: dict[str, str] = {}
    k = study.smallest_cell
    if not last.passes()[0] or last.rows() < study.least_pod_rows:
        found[""] = (
            f"training rows must be at least {study.least_pod_rows} in this study (least_rows), got fewer: ask more"
            " devices to join"
        )
    cells = StudyCells(last.study)
    having = {(one.kind, one.of): n for one, n in cells.split(last.owners()) if not one.held_out}
    for family, passes in cells.split(last.passes()):
        if family.kind == "varies":
            if objection := _tells_devices_apart(study, family.of, having):
                found.setdefault("", objection)
            continue
        if passes.all() or family.held_out:
            continue
        if family.kind == "target":
            found.setdefault(
                "",
                f"the target {family.of!r} must be the same in all rows or differ in at least {k} people, whatever"
                f" {study.colluders} owners invent, got fewer: it picks out people",
            )
        if family.kind == "class" and _needs_classes(study):
            names = [
                str(one) for one, well in zip(getattr(study.target, "classes", ()), passes, strict=True) if not well
            ]
            found.setdefault(
                "",
                f"class {names[0]!r} must have at least {k} people, whatever {study.colluders} owners invent, got"
                " fewer: leave it out of the classes, or join it with another",
            )
        if family.kind == "feature":
            found.setdefault(
                "",
                f"outputs of the encoder must be the same in all rows or differ in at least {k} people, got"
                f" {int((~passes).sum())} that pick out fewer: take another encoder",
            )
        if family.kind == "interval":
            found.setdefault(
                "",
                f"intervals between the knots or cuts of {family.of!r} must each have none or at least {k} people, got"
                f" {int((~passes).sum())} with fewer: take fewer of them, or others",
            )
        if family.kind == "table":
            found[family.of] = (
                f"combinations of columns that occur in the model {family.of!r} must each have at least {k} people, got"
                f" {int((~passes).sum())} with fewer: take coarser steps, join levels, leave a column out, or take a"
                " logistic or Poisson model"
            )
        if family.kind == "cluster":
            model = next(one for one in study.models if one.name == family.of)
            found[family.of] = (
                f"sets with several classes must have at least {k} people in the model {family.of!r}, got fewer: its"
                " sums are of them alone; take wider sets, or ask more devices to join"
                if model.discordant
                else f"clusters of several rows must have at least {k} rows in the model {family.of!r}, got fewer:"
                " errors by clusters and by rows would differ by them; take a model with errors = 'HC1'"
            )
    return found


def _tells_devices_apart(study: Study, name: str, having: Mapping[tuple[str, str], Integers]) -> str:
    """Why a column that differs between sites and not within them must be left out; "" where it differs within."""
    least = study.colluders + 2
    if int(having["varies", name][0]) >= least:
        return ""
    if ("level", name) in having:
        differs, what = int((having["level", name] > 0).sum()) > 1, f"column {name!r}"
    elif ("number", name) in having:
        differs, what = bool(having["number", name][0]), f"column {name!r}"
    else:
        differs, what = True, f"the target {name!r}"
    if not differs:
        return ""
    return (
        f"{what} must vary on at least {least} devices, got fewer, so it tells devices apart: leave it out, or for"
        " effects of sites say site_effects = true, and each device subtracts its means"
    )


def _needs_classes(study: Study) -> bool:
    """A description counts rare classes with others."""
    return bool(study.feature_count) or any(one.needs_gram for one in study.models)


# -- as devices get it


def encode_rounds(rounds: Sequence[Sequence[bytes]]) -> bytes:
    """Certified totals, round by round and part by part, as a request names them by their digest.

    >>> decode_rounds(encode_rounds([[b"a total"]]))
    [[b'a total']]
    """
    return msgspec.msgpack.encode([list(one) for one in rounds])


def decode_rounds(content: bytes) -> list[list[bytes]]:
    """What ``encode_rounds`` made."""
    return msgspec.msgpack.decode(content, type=list[list[bytes]])
