"""What few rows of a device have is not told of them: judged and made so on the device, before its rows are frozen.

A level of one patient is a column of the Gram matrix that shows all values of that patient. Whether it is rare over all
devices only a server could say, and a server may lie; so each device looks at its own rows. In every class of rows with
the same history (those of this table, or those that came, left or stayed together since earlier approvals) a level
has none or at least ``smallest_cell`` rows, and a number that most of them have in common is had by all, or not had by
as many.
Any total, any difference of totals and any merging of levels by the server then has sums over that many rows of each
device. Where it is not so, rare levels count as the column's ``other``, or as the commonest level of their class; rare
gaps of a number are told as the device's mean, without a mark; rare products of levels are 0. What cannot be told
otherwise (a number, the target) is refused.

A row keeps for good what it was counted as: told differently in two totals, it would be their difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.row_rule import stayed
from codedfl.contract.snapshot import RowTags, Snapshot, Tags, row_tags, tags_of, take_snapshot
from codedfl.contract.study import ClassTarget, Study, StudyColumn, factors_of
from codedfl.contract.study_columns import GAP
from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.data.derived import product
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput
from codedfl.typing import Integers, Rows

Mask = NDArray[np.bool_]
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_NO_SUMS = {"cells", "histogram", "crosstable", "products", "score"}
_NOT_YET = np.uint64(0)  # stands for the tag of what was never told of a row


class OwnRows(NamedTuple):
    """A device's rows as they are frozen, and their tags."""

    snapshot: Snapshot
    tags: RowTags


def own_rows(study: Study, table: RawTable, key: bytes, earlier: Sequence[RowTags] = ()) -> OwnRows:
    """The rows of a table for a study, with what is rare on this device counted as something common.

    key: as for ``take_snapshot``. earlier: the rows of all exact studies that were approved before.

    >>> from codedfl.contract.study_columns import NumberTarget
    >>> from codedfl.data.tables import as_raw_table
    >>> ward = StudyColumn(CategoryColumn("ward", ("a", "b", "rest"), other="rest"))
    >>> study = Study("stay", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4, held_out=0.0)
    >>> table = as_raw_table({"ward": [*"aaaaaaa", *"b", *["rest"] * 5], "days": range(13)})
    >>> own_rows(study, table, bytes(16)).snapshot.codes[:, 0].tolist()
    [0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2]
    """
    rows, tags = take_snapshot(study, table, key), row_tags(study, table, key)
    if study.noise is not None:  # hides single rows by itself
        return OwnRows(rows, tags)
    history, known = _history(tags, earlier)
    codes, told, seen = rows.codes.copy(), tags.told.copy(), dict[str, Rows]()
    for place, one in enumerate(study.columns):
        name, factors = one.column.name, factors_of(one)
        if factors:  # of levels and gaps as they are told
            codes[:, place] = one.codes(product(factors, seen), table.name)[0]
        rare = _Rare(one, name, key, study.smallest_cell)
        gap = tags.used[:, place] == tags_of(name, np.array([GAP]), one.used, key)
        if isinstance(one.column, NumberColumn) and not factors:
            codes[:, place] = rare.gaps_told(codes[:, place], gap, history, known[name])
        else:
            codes[:, place] = rare.told(codes[:, place], history, known[name])
        told[:, place] = tags_of(name, codes[:, place], one.used, key)
        if name in study.inputs:
            seen[name] = one.values(codes[:, place])
    return OwnRows(replace(rows, codes=codes), replace(tags, told=told))


def _history(new: RowTags, earlier: Iterable[RowTags]) -> tuple[Integers, dict[str, Tags]]:
    """The class of each row, and the tag of what was told of it before by column, as far as it was."""
    parts = [new.held_out.astype(np.int64)]
    known = {name: np.full(len(new.held_out), _NOT_YET) for name in new.columns}
    for past in earlier:
        common = tuple(name for name in new.columns if name in past.columns)
        if not common or not len(past.held_out):
            continue
        by_id = bool(new.id) and new.id == past.id
        found_by = () if by_id else tuple(name for name in common if stayed(new, past, name)) or common
        mine, theirs = new.keys(found_by, by_id), past.keys(found_by, by_id)
        order = np.argsort(theirs)
        place = order[np.searchsorted(theirs, mine, sorter=order) % len(order)]
        there = theirs[place] == mine
        parts.append(np.where(there, 1 + past.held_out[place], 0))
        for name in common:
            used, told = (one[place, past.columns.index(name)] for one in (past.used, past.told))
            same = there & (used == new.used[:, new.columns.index(name)]) & (known[name] == _NOT_YET)
            known[name] = np.where(same, told, known[name])
    return np.unique(np.stack(parts, axis=1), axis=0, return_inverse=True)[1].reshape(-1), known


class _Rare(NamedTuple):
    """What is rare in one column, and what it counts as."""

    one: StudyColumn
    name: str
    key: bytes
    smallest: int

    def told(self, codes: Integers, history: Integers, known: Tags) -> Integers:
        """The codes as they are frozen; ``known`` is what was told before."""
        companies = self._companies()
        if not len(companies):
            return codes
        codes = codes.copy()
        for company, tag in zip(companies, tags_of(self.name, companies, self.one.used, self.key), strict=True):
            codes[known == tag] = company
        new = known == _NOT_YET
        for one in np.unique(history[new]):
            chosen = new & (history == one)
            codes[chosen] = self._of_class(codes[chosen])
        return codes

    def gaps_told(self, codes: Integers, gap: Mask, history: Integers, known: Tags) -> Integers:
        """The codes of a number as they are frozen: few gaps are the device's mean, or what they were told as."""
        column = self.one.column
        assert isinstance(column, NumberColumn)
        if not gap.any() or not (column.missing is None or column.indicator):  # what a study fills alike tells no gap
            return codes
        codes = np.where(gap, GAP, codes)
        mean = self.one.mean_code(codes)
        for tag in np.unique(known[gap & (known != _NOT_YET)]):
            codes[gap & (known == tag)] = self._code_of(tag, mean)
        for one in np.unique(history[gap]):
            new = gap & (history == one) & (known == _NOT_YET)
            if column.missing is None or new.sum() < self.smallest:
                codes[new] = mean
        return codes

    def _code_of(self, tag: np.uint64, mean: int) -> int:
        """The code that has a tag, which is a gap's or that of an earlier mean: sought from this mean outwards."""
        marked = [] if self.one.column.missing is None else [GAP]
        last, reach = self.one.grid.n_steps, 64
        while True:
            tried = np.array([*marked, *range(max(0, mean - reach), min(last, mean + reach) + 1)])
            found = np.flatnonzero(tags_of(self.name, tried, self.one.used, self.key) == tag)
            if len(found):
                return int(tried[found[0]])
            if reach > last:
                raise InvalidInput(
                    f"the gaps of column {self.name!r} must be told as in the studies approved before, got a study that"
                    " cannot: take the same range, step and missing, or ask for a study with noise"
                )
            reach *= 8

    def _companies(self) -> Integers:
        """The codes that rare ones may count as; none of a column in which nothing can be told otherwise."""
        if isinstance(self.one.column, CategoryColumn):
            return np.arange(len(self.one.column.levels))
        if any(factor.marks for factor in factors_of(self.one)):
            return np.array([self.one.base])
        return np.zeros(0, dtype=np.int64)

    def _of_class(self, codes: Integers) -> Integers:
        """Rows with one history, of which nothing was told before."""
        if not isinstance(self.one.column, CategoryColumn):
            (company,) = self._companies()
            rare = codes != company
            return np.where(rare, company, codes) if 0 < rare.sum() < self.smallest else codes
        levels, other = self.one.column.levels, self.one.column.other
        counts = np.bincount(codes, minlength=len(levels))
        few = (counts > 0) & (counts < self.smallest)
        company = int(counts.argmax())
        if other is not None:
            place = levels.index(other)
            together = counts[few].sum() + (0 if few[place] else counts[place])
            company = place if together >= self.smallest else company
        return np.where(few[codes], company, codes)


def cell_objection(study: Study, new: RowTags, earlier: Sequence[RowTags] = ()) -> str:
    """Which column picks out fewer than ``smallest_cell`` people of a class of rows; empty when none does.

    new: as ``own_rows`` made it. Counts, and random features, which mix all columns, have no sums of a column.

    >>> from codedfl.contract.study_columns import NumberTarget
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.data.tables import as_raw_table
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4, held_out=0.0)
    >>> table = as_raw_table({"age": [61] * 9 + [58], "days": range(10)})
    >>> cell_objection(study, own_rows(study, table, bytes(16)).tags).partition(":")[0]
    "column 'age' must be the same in all rows of this table or differ in at least 5 (smallest_cell), got 1"
    """
    if set(study.statistics) <= _NO_SUMS:
        return ""
    judged = set()
    for columns, by_id in [(new.columns, bool(new.id)), *(found for past in earlier for found in _shared(new, past))]:
        wanted = set(columns)
        family = [one for one in earlier if wanted <= set(one.columns) and (not by_id or one.id == new.id)]
        if (columns, by_id) not in judged:
            judged.add((columns, by_id))
            if objection := _of_family(study, [*family, new], columns, by_id):
                return objection
    return ""


def _shared(new: RowTags, past: RowTags) -> Iterable[tuple[tuple[str, ...], bool]]:
    """The columns on which rows are found again: each by itself where an id tells rows apart, else what stayed."""
    common = tuple(name for name in new.columns if name in past.columns)
    by_id = bool(new.id) and new.id == past.id
    same = tuple(name for name in common if not by_id and stayed(new, past, name))
    alone = ((name,) for name in common if by_id)
    return ((columns, by_id) for columns in (common, same, *alone) if columns)


def _of_family(study: Study, family: Sequence[RowTags], columns: tuple[str, ...], by_id: bool) -> str:
    """Classes by the totals of the family that a row is in: nothing that is combined of them is finer."""
    keys, places = np.unique(np.concatenate([one.keys(columns, by_id) for one in family]), return_inverse=True)
    ends = np.cumsum([0, *(len(one.held_out) for one in family)])
    spans = [places[begin:end] for begin, end in pairwise(ends.tolist())]
    parts = np.zeros((len(keys), len(family)), dtype=np.int64)
    for number, (one, span) in enumerate(zip(family, spans, strict=True)):
        parts[span, number] = np.where(one.held_out, 2 if one.sums_held_out else 0, 1)
    times = np.max([np.bincount(span, minlength=len(keys)) for span in spans], axis=0)
    summed = parts.any(axis=1)
    history = np.unique(parts, axis=0, return_inverse=True)[1].reshape(-1)[summed]
    which = "of this table" if len(family) == 1 else "with the same history"
    # What is summed over each combination of some columns tells as much as a category of all of them would.
    tables = [one.columns for one in study.models if "contingency" in one.totals and set(one.columns) <= set(columns)]
    for names in (*((name,) for name in columns), *tables):
        told = np.zeros((len(family), len(keys)), dtype=np.uint64)
        for number, (one, span) in enumerate(zip(family, spans, strict=True)):
            here = [one.columns.index(name) for name in names]
            told[number, span] = one.told[:, here].sum(axis=1, dtype=np.uint64) * _MIXER ** np.uint64(number)
        # A row that two totals tell differently is told by both.
        objection = _of_columns(study, names, _Cells.of(history, told.sum(axis=0)[summed], times[summed]), which)
        if objection:
            return objection
    return ""


class _Cells(NamedTuple):
    """How many rows of each class have each value of a column."""

    history: Integers
    rows: Integers

    @classmethod
    def of(cls, history: Integers, told: Tags, times: Integers) -> _Cells:
        """``times``: how many rows each entry stands for."""
        _, values = np.unique(told, return_inverse=True)
        pairs, places = np.unique(history * (values.max(initial=0) + 1) + values, return_inverse=True)
        rows = np.bincount(places, weights=times).astype(np.int64)
        return cls(pairs // (values.max(initial=0) + 1), rows)

    def fewest(self) -> int:
        """Rows of the smallest cell."""
        return int(self.rows.min(initial=np.iinfo(np.int64).max))

    def least_differing(self, smallest: int) -> int:
        """Rows beside a value that most have, in the class with fewest of them but some; in a small class, any."""
        found = [np.iinfo(np.int64).max]
        for one in np.unique(self.history):
            rows = self.rows[self.history == one]
            commonest, whole = int(rows.max()), int(rows.sum())
            if whole > commonest and (whole < smallest or 2 * commonest >= whole):
                found.append(whole - commonest)
        return min(found)


def _of_columns(study: Study, names: tuple[str, ...], cells: _Cells, which: str) -> str:
    smallest, kinds = study.smallest_cell, {one.column.name: type(one.column) for one in study.columns}
    what = " and ".join(f"column {name!r}" if name in kinds else f"the target {name!r}" for name in names)
    kind = kinds.get(names[0], CategoryColumn if isinstance(study.target, ClassTarget) else NumberColumn)
    if len(names) > 1 or kind is CategoryColumn:
        found, rule = cells.fewest(), f"have each of its values in none or at least {smallest} rows {which}"
    else:
        found = cells.least_differing(smallest)
        rule = f"be the same in all rows {which} or differ in at least {smallest}"
    if found >= smallest:
        return ""
    apart = " with held_out = 0 (rows held out are counted apart)," if study.held_out else ""
    return (
        f"{what} must {rule} (smallest_cell), got {found}: it picks out people; wait for more rows, leave those rows"
        f" out, or ask for a study without the column,{apart} with a wider range, or with noise"
    )
