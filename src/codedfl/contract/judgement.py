"""One joint judgement at approval, over everything ever approved on the same rows: what could be learnt of few of them.

Sums are exact, so they can be subtracted. A *finding* is a set of few of this device's rows that a combination of its
sums shows: rows that are in one study and not in another, rows on which two columns disagree, rows between the knots of
two studies. Who decides is the operator: a policy says for each kind whether it is refused, asked about or allowed, and
what was accepted is recorded with who and why.

Whether a *cell of one study* has few people is not looked at here: the census asks all devices (``contract.cells``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.seen import SeenRows, same_columns
from codedfl.contract.snapshot import Tags
from codedfl.data.columns import GAP
from codedfl.typing import Integers

KINDS = {
    "rows": "few rows are in one study and not in another",
    "columns": "two columns differ in few rows",
    "marks": "few rows lie between the knots, cuts or times of two studies",
    "groups": "the disclosure group is another than before",
    "former": "few rows were recoded by 0.3",
    "points": "the server chooses many points over the same rows",
    "features": "the server learns more directions than the study has rows for",
    "combinations": "few rows have a combination of columns that a model iterates over",
}
_ALIKE = 0.8  # beyond chance: two columns that agree as much are the same, recorded twice
_FEW_SHARE = 0.1  # of the rows, at most: two quantities that differ in more are two
_MOST_LEVELS = 256  # of a study's categories that are compared one by one


@dataclass(frozen=True)
class DisclosureFinding:
    """One set of few rows, and by what it could be distinguished.

    kind: one of ``KINDS``. words: what the operator reads, in one line.

    >>> DisclosureFinding("rows", "3 rows are in 'table 1' and not in this study").kind
    'rows'
    """

    kind: str
    words: str


@dataclass(frozen=True)
class Past:
    """An approved study whose sums are exact: its name and the rows as its sums see them."""

    name: str
    rows: SeenRows


def judged(new: SeenRows, earlier: Sequence[Past], k: int) -> tuple[DisclosureFinding, ...]:
    """What few rows the sums of all these studies together could tell of.

    new: with the numbers of ``recognised``. k: how many rows are enough.

    >>> tags = np.arange(40, dtype=np.uint64).reshape(20, 2)
    >>> rows = SeenRows(("age", "days"), (False, False), tags, tags.astype(int), tags[:0, 0], np.zeros(20, dtype=bool),
    ...     rows=np.arange(20), marks=((), ()))
    >>> judged(rows, [Past("before", rows)], k=5)
    ()
    """
    family = [one for one in earlier if same_columns(new, one.rows) and not new.same_as(one.rows)]
    found = [*_of_rows(new, family, k), *_of_levels(new, family, k), *_of_columns(new, family, k)]
    return tuple(dict.fromkeys([*found, *_of_marks(new, family)]))


# -- rows in one study and not in another


def _of_rows(new: SeenRows, family: Sequence[Past], k: int) -> Iterator[DisclosureFinding]:
    studies = [*((one.name, one.rows) for one in family), ("this study", new)]
    sums, names, held_out = _memberships(studies)
    if len(family) == 0:
        return
    classes, of_row = np.unique(sums, axis=0, return_inverse=True)
    # Invariant: people are counted, not rows: one patient with many visits is one.
    pairs = np.unique(np.stack([of_row.reshape(-1).astype(np.uint64), _people(studies, len(sums))]), axis=1)
    counts = np.bincount(pairs[0].astype(np.int64), minlength=len(classes))
    inside = classes.any(axis=1)
    classes, counts = classes[inside], counts[inside]
    many = classes[counts >= k]
    for place in np.flatnonzero(counts < k).tolist():
        # A sum of training rows that has nobody else of this device is that sum itself, counted by its census; what is
        # left of the others must not tell of it either.
        itself = (classes.sum(axis=0) == 1) & classes[place].astype(np.bool_) & ~np.array(held_out)
        left = classes[place] * ~itself
        alone = not left.any() or (itself.any() and _in_span(left, many * ~itself))
        if not alone and not _in_span(classes[place], many):
            in_these = ", ".join(name for name, there in zip(names, classes[place], strict=True) if there)
            yield DisclosureFinding(
                "rows",
                f"{counts[place]} row(s) of this table are in the sums of {in_these} and of no other: sums could be"
                f" subtracted until they alone are left (fewer than {k})",
            )


def _people(studies: Sequence[tuple[str, SeenRows]], size: int) -> Tags:
    """Of each row ever seen whose it is: its id, or a number of its own."""
    found = np.arange(size, dtype=np.uint64)
    for _, rows in studies:
        if len(rows.ids):
            found[rows.rows] = rows.ids
    return found


def _indicators(rows: SeenRows) -> list[tuple[int, str, NDArray[np.bool_]]]:
    """All that a sum has as 0 and 1, with its column: levels, missing values, numbers of two values."""
    found = []
    for place, title in enumerate(rows.columns):
        codes = rows.codes[:, place]
        if rows.categories[place]:
            levels = np.unique(rows.values[:, place])[:_MOST_LEVELS]
            found += [(place, title, rows.values[:, place] == level) for level in levels]
            continue
        gap = codes == GAP
        found.append((place, f"missing {title}", gap))
        if len(there := np.unique(codes[~gap])) == 2:
            found.append((place, title, codes == there[1]))
    return found


def _of_levels(new: SeenRows, family: Sequence[Past], k: int) -> Iterator[DisclosureFinding]:
    """Levels that few of those have who came or left since: the difference of two sums has them."""
    for past in family:
        train = new.rows[~new.held_out]
        before = past.rows.rows[~past.rows.held_out]
        parts = (
            ("came since", new, ~new.held_out & ~np.isin(new.rows, before)),
            ("left since", past.rows, ~past.rows.held_out & ~np.isin(past.rows.rows, train)),
        )
        pairs = same_columns(new, past.rows)
        for what, rows, chosen in parts:
            shared = {place if rows is new else other for place, other in pairs}
            for place, title, there in _indicators(rows):
                few = int((there & chosen).sum())
                if place in shared and 0 < few < k <= int(chosen.sum()):  # fewer in all are a finding as rows
                    yield DisclosureFinding(
                        "rows",
                        f"{few} row(s) of those that {what} {past.name} have {title!r} alike: the difference of the"
                        f" sums is about these (fewer than {k})",
                    )


def _memberships(studies: Sequence[tuple[str, SeenRows]]) -> tuple[NDArray[np.int64], list[str], list[bool]]:
    """For each row ever seen in which sums it is: of training rows, and of those held out, which sums are said."""
    size = 1 + max(int(rows.rows.max(initial=-1)) for _, rows in studies)
    columns, names, kinds = [], [], []
    for name, rows in studies:
        for held_out in (False, True):
            here = rows.rows[rows.held_out == held_out]
            if held_out and (not rows.summed or not len(here)):
                continue
            kinds.append(held_out)
            member = np.zeros(size, dtype=np.int64)
            member[here] = 1
            columns.append(member)
            names.append(f"{name}'s held-out rows" if held_out else name)
    return np.stack(columns, axis=1), names, kinds


def _in_span(pattern: Integers, many: NDArray[np.int64]) -> bool:
    """Whether every combination of sums that leaves out the large classes leaves out this one."""
    if not len(many):
        return False
    rank = np.linalg.matrix_rank(many.astype(np.float64))
    return bool(np.linalg.matrix_rank(np.vstack((many, pattern)).astype(np.float64)) == rank)


# -- columns that differ in few rows


def _of_columns(new: SeenRows, family: Sequence[Past], k: int) -> Iterator[DisclosureFinding]:
    """Columns of this study beside each other, and beside those of earlier ones on the rows that are the same."""
    every = np.arange(len(new))
    for first, second in _pairs_within(new):
        if few := _differ(_Pair.of(new, first, new, second, None), k):
            yield _differing(few, repr(new.columns[first]), repr(new.columns[second]), k)
    mine = _indicators(new) if len(new.columns) <= _MOST_LEVELS else []
    for few, first, second in _marks_differ(mine, mine, (every, every), k):
        if mine[first][0] < mine[second][0]:
            yield _differing(few, repr(mine[first][1]), repr(mine[second][1]), k)
    for past in family:
        places, others = _common(new, past.rows)
        if len(places) < 2 * k:
            continue
        theirs = _indicators(past.rows) if len(past.rows.columns) <= _MOST_LEVELS else []
        for few, first, second in _marks_differ(mine, theirs, (places, others), k):
            yield _differing(few, repr(mine[first][1]), f"{theirs[second][1]!r} of {past.name}", k)
        for first in range(len(new.columns)):
            for second in range(len(past.rows.columns)):
                if new.categories[first] or past.rows.categories[second]:
                    continue
                if few := _differ(_Pair.of(new, first, past.rows, second, (places, others)), k):
                    yield _differing(few, repr(new.columns[first]), f"{past.rows.columns[second]!r} of {past.name}", k)


def _marks_differ(
    mine: Sequence[tuple[int, str, NDArray[np.bool_]]],
    theirs: Sequence[tuple[int, str, NDArray[np.bool_]]],
    rows: tuple[Integers, Integers],
    k: int,
) -> Iterator[tuple[int, int, int]]:
    """In how many rows two of these differ that are the same otherwise, or the same but for what is 0 and what 1."""
    n = len(rows[0])
    if n < 2 * k or not mine or not theirs:
        return
    a, b = (
        np.stack([one[place] for _, _, one in side]).astype(np.int64)
        for side, place in ((mine, rows[0]), (theirs, rows[1]))
    )
    both, of_a, of_b = a @ b.T, a.sum(axis=1)[:, None], b.sum(axis=1)[None, :]
    differ = of_a + of_b - 2 * both
    chance = (of_a * of_b + (n - of_a) * (n - of_b)) / n**2
    # What few people have by themselves is merged by the census, or passed by it: a difference from it is no more.
    enough = (np.minimum(of_a, n - of_a) >= k) & (np.minimum(of_b, n - of_b) >= k)
    for same, wrong in ((1 - differ / n, differ), (differ / n, n - differ)):
        expected = chance if wrong is differ else 1 - chance
        alike = same - expected >= _ALIKE * (1 - expected)
        for first, second in np.argwhere(enough & alike & (wrong > 0) & (wrong < k)).tolist():
            yield int(wrong[first, second]), first, second


def _pairs_within(new: SeenRows) -> Iterator[tuple[int, int]]:
    count = len(new.columns)
    if count > _MOST_LEVELS:  # of a matrix: its columns are counted by the census
        return
    yield from (
        (first, second)
        for first in range(count)
        for second in range(first + 1, count)
        if not new.categories[first] and not new.categories[second]
    )


def _common(new: SeenRows, past: SeenRows) -> tuple[Integers, Integers]:
    """Places in both of the rows that are the same."""
    _, mine, theirs = np.intersect1d(new.rows, past.rows, return_indices=True)
    return mine, theirs


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two columns on the same rows: hashes of values, and the numbers of each."""

    values: tuple[Tags, Tags]
    codes: tuple[Integers, Integers]
    category: bool

    @classmethod
    def of(
        cls, new: SeenRows, first: int, past: SeenRows, second: int, places: tuple[Integers, Integers] | None
    ) -> _Pair:
        mine, theirs = places if places is not None else (np.arange(len(new)), np.arange(len(past)))
        values = (new.values[mine, first], past.values[theirs, second])
        codes = (new.codes[mine, first], past.codes[theirs, second])
        return cls(values, codes, new.categories[first])


def _differ(pair: _Pair, k: int) -> int:
    """In how many rows two columns differ that are the same otherwise; 0 where they are the same, or are not alike."""
    few = _few_of(*pair.values, k)
    if few or bool((pair.values[0] == pair.values[1]).all()):
        return few
    return _in_other_units(*pair.codes, k)


def _in_other_units(mine: Integers, theirs: Integers, k: int) -> int:
    """In how many rows two columns differ that are one quantity in two units; anchors are pairs of rows.

    Invariant: a few changed rows spoil a few anchors only, so some pair of rows tells the right unit and zero.
    """
    order = np.argsort(mine, kind="stable")
    order = order[(mine[order] != GAP) & (theirs[order] != GAP)]
    if len(mine) < 2 * k or len(np.unique(mine)) < 3 or len(np.unique(theirs)) < 3:
        return 0
    found = []
    for tried in range(2 * k):
        low, high = (int(order[(len(order) * (4 * part + 1) // 16 + tried) % len(order)]) for part in (0, 3))
        run, rise = int(mine[high] - mine[low]), int(theirs[high] - theirs[low])
        if run and rise:
            # In whole numbers: (y - y0) run = (x - x0) rise.
            differ = int(((theirs - theirs[low]) * run != (mine - mine[low]) * rise).sum())
            found.append(differ)
    few = min(found, default=0)
    return few if 0 < few < k and few <= _FEW_SHARE * len(mine) else 0


def _few_of(mine: Tags, theirs: Tags, k: int) -> int:
    differ = int((mine != theirs).sum())
    if not 0 < differ < k or len(mine) < 2 * k:
        return 0
    return differ if _kappa(mine, theirs) >= _ALIKE else 0


def _kappa(mine: Tags, theirs: Tags) -> float:
    """Cohen's kappa: how much more two columns agree than by chance."""
    tags, places = np.unique(np.concatenate((mine, theirs)), return_inverse=True)
    shares = [np.bincount(part, minlength=len(tags)) / len(mine) for part in np.split(places, 2)]
    chance = float(shares[0] @ shares[1])
    observed = float((mine == theirs).mean())
    return 1.0 if chance == 1.0 else (observed - chance) / (1.0 - chance)


def _differing(few: int, first: str, second: str, k: int) -> DisclosureFinding:
    return DisclosureFinding(
        "columns",
        f"{first} and {second} are the same but in {few} row(s) of this table: the difference of their sums is about"
        f" these (fewer than {k})",
    )


# -- rows between the knots of two studies


def _of_marks(new: SeenRows, family: Sequence[Past]) -> Iterator[DisclosureFinding]:
    """Where two studies divide the values of one column at different numbers."""
    for past in family:
        if not np.isin(new.rows, past.rows.rows).any():  # of other people nothing can be subtracted
            continue
        for place, other in same_columns(new, past.rows):
            mine, theirs = new.marks[place], past.rows.marks[other]
            if mine and theirs and mine != theirs:
                yield DisclosureFinding(
                    "marks",
                    f"{new.columns[place]!r} is divided at other numbers than by {past.name}: differences of their sums"
                    f" are about the rows between {_shown(mine)} and {_shown(theirs)}",
                )


def _shown(marks: Sequence[float]) -> str:
    text = ", ".join(f"{one:g}" for one in marks[:6])
    return f"({text}{', ...' if len(marks) > 6 else ''})"
