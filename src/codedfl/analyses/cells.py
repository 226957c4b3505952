"""The counts of ``cells`` by name, and what of a count people are shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.merging import Merged
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import NumberColumn
from codedfl.errors import InvalidInput
from codedfl.statistics.cells import Cells, cell_sizes
from codedfl.typing import Integers, JsonObject

FEW = "few"


class Count(NamedTuple):
    """Rows to train on, and held-out rows.

    Examples
    --------
    >>> from codedfl.analyses.cells import Count
    >>> Count(40, 9)
    Count(rows=40, held_out_rows=9)
    """

    rows: int
    held_out_rows: int = 0


@dataclass(frozen=True)
class Clipping:
    """How many values of each column, and of the target, lay beyond their ranges, and of how many rows.

    A clipped tail moves coefficients by many standard errors, and one clipped value can hide that columns depend on
    each other, so inference stops where a study does not allow it.

    Examples
    --------
    >>> from codedfl.analyses.cells import Clipping
    >>> Clipping(480, {"crp": 12, "cost": 2}).words(smallest_cell=5)
    'crp 12, cost <5 of 480 rows'
    """

    rows: int = 0
    values: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, saved: Any) -> Clipping:
        """What ``dataclasses.asdict`` made of it."""
        return cls(int(saved["rows"]), {str(name): int(count) for name, count in saved["values"].items()})

    def words(self, smallest_cell: int) -> str:
        """For people; "" if nothing was clipped. Few are not counted out."""
        shown = (f"{name} {count}" for name, count in self._shown(smallest_cell).items())
        return f"{', '.join(shown)} of {self.rows} rows" if self.values else ""

    def to_dict(self, smallest_cell: int) -> JsonObject:
        """For JSON, likewise."""
        return {"rows": self.rows, "values": self._shown(smallest_cell)}

    def _shown(self, smallest_cell: int) -> dict[str, int | str]:
        return {name: count if count >= smallest_cell else f"<{smallest_cell}" for name, count in self.values.items()}

    def objection(self, study: Study, columns: Collection[str] | None = None) -> str:
        """Why these columns with the target allow no inference; "" if they do. None are all columns."""
        taken = [one for one in study.columns if columns is None or one.name in columns]
        used = {study.target.name}.union(*({one.name, *(f.column for f in factors_of(one))} for one in taken))
        for name, count in self.values.items():
            if name in used and count > study.most_clipped * self.rows:
                return (
                    f"clipped values of {name!r} must be at most {study.most_clipped:g} of its rows (most_clipped), got"
                    f" {self.words(study.smallest_cell)}: a clipped tail moves coefficients; give it a wider range, or"
                    " allow it by most_clipped"
                )
        return ""


class CellCounts:
    """The total of ``cells`` by name.

    study: with the mergings of its census. levels, classes: training rows of each.

    Examples
    --------
    >>> from codedfl.analyses.cells import CellCounts
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> found = CellCounts(study, [80, 20, 6, 0, 0])
    >>> found.rows, found.clipped
    (Count(rows=80, held_out_rows=20), Clipping(rows=100, values={'age': 6}))
    """

    def __init__(self, study: Study, total: Sequence[int]) -> None:
        expected = Cells(study).length
        if len(total) != expected or min(total) < 0:
            raise InvalidInput(f"a total of cells must be {expected} counts, got {len(total)}")
        sizes = cell_sizes(study)
        ends = np.cumsum(sizes).tolist()
        cells = [list(total[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
        names = [one.name for one in study.columns]
        self.rows = Count(total[0], total[ends[-1]])
        self.levels = dict(zip(names, cells[1 : 1 + len(names)], strict=True))
        self.classes = [one for part in cells[1 + len(names) :] for one in part]
        clipped = zip((*names, study.target.name), total[ends[-1] + 1 : -1], strict=True)
        values = {name: count for name, count in clipped if count}
        self.clipped = Clipping(self.rows.rows + self.rows.held_out_rows, values)
        self.left_out = reported(study, total[-1])


def unmarked(study: Study, merged: Merged) -> tuple[str, ...]:
    """Columns of which so few values are missing that their mark was dropped.

    Examples
    --------
    >>> from codedfl.analyses.cells import unmarked
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0, missing=60.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> unmarked(study, ((0,), (), ()))
    ('age',)
    """
    columns = zip(study.columns, merged, strict=False)
    return tuple(one.name for one, gone in columns if gone == (0,) and isinstance(one, NumberColumn))


def no_score(study: Study, final: Study) -> str:
    """Why there is no score by held-out rows, in one line; "" if there is one.

    final: with the mergings of the census.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from codedfl.analyses.cells import no_score
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> no_score(study, study), no_score(study, replace(study, held_out=0.0))[:15]
    ('', 'too few people ')
    """
    if study.held_out and study.time_grid:
        return "the target is a time, of which some are censored: a linear model of it tells nothing (held_out = 0)"
    if not study.held_out or final.held_out:
        return ""
    return "too few people are among the held-out rows: these are in no sum"


def enough(counts: Integers, smallest: int) -> bool:
    """Whether counts may be reported: each is 0, or at least ``smallest``.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.cells import enough
    >>> enough(np.array([0, 5]), 5), enough(np.array([0, 4]), 5)
    (True, False)
    """
    return bool(((counts == 0) | (counts >= smallest)).all())


def reported(study: Study, rows: int) -> int | str:
    """A count for people: none and enough are reported, anything between is "few".

    Examples
    --------
    >>> from codedfl.analyses.cells import reported
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> reported(study, 0), reported(study, 4), reported(study, 5)
    (0, 'few', 5)
    """
    return rows if not rows or rows >= study.smallest_cell else FEW


def joined(counts: Integers, smallest: int) -> NDArray[np.bool_]:
    """Which ends of intervals are kept: between two of them every group has no count, or at least ``smallest``.

    counts: groups x intervals; the last interval has no end of its own. Intervals are joined with the next until they
    have enough, and so must all that is left.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.cells import joined
    >>> joined(np.array([[9, 1, 4, 2, 30], [8, 6, 0, 0, 20]]), smallest=5)
    array([ True, False,  True, False])
    """
    width = counts.shape[1]
    kept, begin = np.zeros(width - 1, dtype=np.bool_), 0
    for end in range(1, width):
        inside, left = counts[:, begin:end].sum(axis=1), counts[:, end:].sum(axis=1)
        if inside.any() and enough(inside, smallest) and enough(left, smallest):
            kept[end - 1], begin = True, end
    return kept


def rare_together(counts: Sequence[int], smallest: int) -> set[int]:
    """The places of the counts that are reported as one: the rare ones, and the next rarest until they are enough.

    Examples
    --------
    >>> from codedfl.analyses.cells import rare_together
    >>> sorted(rare_together([40, 2, 0, 9], smallest=5))
    [1, 2, 3]
    """
    order = sorted(range(len(counts)), key=lambda place: counts[place])
    gone = [place for place in order if counts[place] < smallest]
    if not any(counts[place] for place in gone):
        return set()
    for place in order[len(gone) :]:
        if sum(counts[one] for one in gone) >= smallest:
            break
        gone.append(place)
    return set(gone)
