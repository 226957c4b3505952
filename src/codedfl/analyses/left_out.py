"""Terms that were asked for and are in no model: what became of them, in words, so that none vanishes in silence."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from codedfl.analyses.analysis import Totals
from codedfl.contract.merging import Merged, merged_study
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import CategoryColumn, Column
from codedfl.typing import JsonObject

_FEW = "it varies in too few people"


class LeftOut(NamedTuple):
    """A column of the table, or one coefficient of it, that no model has, and why.

    Examples
    --------
    >>> from codedfl.analyses.left_out import LeftOut
    >>> LeftOut("ward = eye:age", "it is 0 in all rows").line
    'left out: ward = eye:age, since it is 0 in all rows'
    """

    term: str
    why: str

    @property
    def line(self) -> str:
        """For people."""
        return f"left out: {self.term}, since {self.why}"

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return self._asdict()


def terms_left_out(
    study: Study, merged: Merged, total: Sequence[int], columns: Collection[str] | None = None
) -> tuple[LeftOut, ...]:
    """Of the study as it was approved, in its order; what was merged into another level is no term by itself.

    total: of ``gram``; without it only what merging left out is known. columns: those of one model; None are all.

    Examples
    --------
    >>> from codedfl.analyses.left_out import terms_left_out
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> columns = tuple(NumberColumn(name, (0.0, 9.0), 1.0) for name in ("age", "rare"))
    >>> study = Study("stays", columns, NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    >>> [one.term for one in terms_left_out(study, ((), (1,), (), ()), [])]
    ['rare']
    """
    after = {one.name: one for one in merged_study(study, merged).columns}
    there = after
    if total and study.features == "linear":
        part = Totals(study, (), merged, total).linear().without_empty()
        there = {one.name: one for one in part.study.columns}
    wanted = (one for one in study.columns if one.width and (columns is None or one.name in columns))
    return tuple(found for one in wanted for found in _of_column(one, after.get(one.name), there.get(one.name)))


def _of_column(asked: Column, after: Column | None, there: Column | None) -> Iterator[LeftOut]:
    """``after``: merging; ``there``: what is left in the total."""
    name = asked.name
    if isinstance(asked, CategoryColumn):
        if after is None or not after.width:
            yield LeftOut(name, "fewer than two of its levels have enough people")
        elif there is None or not there.width:
            yield LeftOut(name, "all rows have one level")
        else:
            yield from _levels(after, there)
    elif after is None or not after.width:
        made = factors_of(asked)
        yield LeftOut(name, f"{_FEW}{', or a level in it does' * any(one.level for one in made)}")
    elif there is None or not there.width:
        yield LeftOut(name, "it is the same in all rows")


def _levels(after: Column, there: Column) -> Iterator[LeftOut]:
    assert isinstance(after, CategoryColumn) and isinstance(there, CategoryColumn)
    name, first = after.name, there.levels[0]
    for level in after.levels:
        if level not in (*there.levels, after.other, after.missing):  # nobody asked for these
            yield LeftOut(f"{name} = {level}", "no row has it")
    if first != after.levels[0]:
        yield LeftOut(f"{name} = {first}", "the others are compared with it now")
