"""What the counts of ``cells`` decide: which rare levels are merged, and whether the study can be done at all.

A level of few rows, or of few devices, is a column of the Gram matrix that shows the sums of those rows, or of that
device. A count of devices is enough when all colluders know their own part of it and two others are left.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.contract.merging import Merged
from codedfl.contract.study import NO_FEATURES, Study, StudyColumn, factors_of
from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.errors import InvalidInput
from codedfl.statistics.cells import Cells, cell_sizes
from codedfl.typing import Integers, JsonObject

FEW = "few"


@dataclass(frozen=True)
class Count:
    """Rows of a cell and the devices that have any, among training rows and among held-out rows.

    Examples
    --------
    >>> from codedfl.analyses.cells import Count
    >>> Count(40, 3, 9, 2) + Count(2, 1, 0, 0)
    Count(rows=42, devices=3, held_out_rows=9, held_out_devices=2)
    """

    rows: int
    devices: int
    held_out_rows: int
    held_out_devices: int

    def __add__(self, other: Count) -> Count:
        """Both cells together; on how many devices they are is not known, only on how many at least."""
        return Count(
            self.rows + other.rows,
            max(self.devices, other.devices),
            self.held_out_rows + other.held_out_rows,
            max(self.held_out_devices, other.held_out_devices),
        )


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
        taken = [one for one in study.columns if columns is None or one.column.name in columns]
        used = {study.target.name}.union(*({one.column.name, *(f.column for f in factors_of(one))} for one in taken))
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

    Examples
    --------
    >>> from codedfl.analyses.cells import CellCounts
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> found = CellCounts(study, [80, 0, 79, 3, 0, 3, 20, 0, 20, 3, 0, 3, 3, 3, 6, 0, 0])
    >>> found.rows, found.varies, found.clipped
    (Count(rows=80, devices=3, held_out_rows=20, held_out_devices=3), [3, 3], Clipping(rows=100, values={'age': 6}))
    """

    def __init__(self, study: Study, total: Sequence[int]) -> None:
        expected = Cells(study).length
        if len(total) != expected or min(total) < 0:
            raise InvalidInput(f"a total of cells must be {expected} counts, got {len(total)}")
        sizes = cell_sizes(study)
        counts = np.array(total[: 4 * sum(sizes)], dtype=np.int64).reshape(4, -1).T.tolist()
        ends = np.cumsum(sizes).tolist()
        cells = [[Count(*one) for one in counts[end - size : end]] for size, end in zip(sizes, ends, strict=True)]
        n_columns = len(study.columns)
        self.rows = cells[0][0]
        self.columns = cells[1 : 1 + n_columns]
        self.classes = [one for part in cells[1 + n_columns :] for one in part]
        varies, clipped = np.array(total[4 * sum(sizes) : -1]).reshape(2, -1).tolist()
        self.varies: list[int] = varies
        names = (*(one.column.name for one in study.columns), study.target.name)
        values = {name: count for name, count in zip(names, clipped, strict=True) if count}
        self.clipped = Clipping(self.rows.rows + self.rows.held_out_rows, values)
        self.left_out = told(study, total[-1], study.colluders + 2)

    def unmarked(self, study: Study, merged: Merged) -> tuple[str, ...]:
        """Columns of which devices told gaps, but so few that their mark was dropped."""
        columns = zip(study.columns, self.columns, merged, strict=False)
        return tuple(
            one.column.name
            for one, cells, gone in columns
            if gone == (0,) and isinstance(one.column, NumberColumn) and (cells[0].rows or cells[0].held_out_rows)
        )


def merge_rare(study: Study, total: Sequence[int]) -> Merged:
    """The levels and marks of gaps that have too few rows or devices; refuses a study that merging cannot mend.

    Rare levels become one. Where they are too few together as well, the next rarest joins them. The mark of gaps that
    are rare is dropped, so that a gap is only what the study fills it with. A number in which few rows differ
    from all others is dropped.

    Examples
    --------
    >>> from codedfl.analyses.cells import merge_rare
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import CategoryColumn
    >>> ward = StudyColumn(CategoryColumn("ward", ("a", "b", "c", "d")))
    >>> study = Study("stays", (ward,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    >>> counts, devices, none = [90, 50, 30, 6, 4], [3, 3, 3, 3, 2], [0] * 5
    >>> merge_rare(study, [*counts, *devices, *none, *none, 3, 3, 0, 0, 0])
    ((2, 3),)
    """
    counts = CellCounts(study, total)
    _check_rows(study, counts)
    if study.features != NO_FEATURES:  # a description counts rare classes with others
        _check_classes(study, counts)
    found: dict[str, tuple[int, ...]] = {}
    for one, cells in zip(study.columns, counts.columns, strict=True):
        if not one.width and not isinstance(one.column, CategoryColumn):
            found[one.column.name] = ()  # nothing is summed of it
        elif isinstance(one.column, CategoryColumn):
            found[one.column.name] = rare_levels(study, one.column, cells)
        elif _made_of_rare(study, one, found):
            found[one.column.name] = (1,)
        else:
            found[one.column.name] = _rare_numbers(study, one, cells, counts.rows)
    merged = tuple(found.values())
    if "gram" in study.statistics:
        _check_varying(study, counts, merged)
    return merged if any(merged) else ()


def enough(counts: Integers, smallest: int) -> bool:
    """Whether counts may be told: each is 0, or at least ``smallest``.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.cells import enough
    >>> enough(np.array([0, 5]), 5), enough(np.array([0, 4]), 5)
    (True, False)
    """
    return bool(((counts == 0) | (counts >= smallest)).all())


def told(study: Study, rows: int, devices: int) -> int | str:
    """A count for people: none and enough are told, anything between is "few".

    Examples
    --------
    >>> from codedfl.analyses.cells import told
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> told(study, 0, 0), told(study, 4, 3), told(study, 5, 3)
    (0, 'few', 5)
    """
    return rows if not rows or is_enough(study, Count(rows, devices, 0, 0)) else FEW


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


def _made_of_rare(study: Study, one: StudyColumn, found: dict[str, tuple[int, ...]]) -> bool:
    """Whether a derived column has a factor of a level that is merged."""
    categories = (other.column for other in study.columns if isinstance(other.column, CategoryColumn))
    levels = {column.name: column.levels for column in categories}
    return any(
        factor.level and levels[factor.column].index(factor.level) in found[factor.column] for factor in factors_of(one)
    )


def is_enough(study: Study, cell: Count) -> bool:
    """Whether a cell has enough rows and devices to train on.

    Of held-out rows a device tells no cell with few (``contract.small_cells``), so that often only some devices tell
    one; a column that has enough to train on is not left out for that.

    Examples
    --------
    See ``merge_rare``, which asks it of every cell.
    """
    return cell.rows >= study.smallest_cell and cell.devices >= study.colluders + 2


def _rare_numbers(study: Study, one: StudyColumn, cells: Sequence[Count], rows: Count) -> tuple[int, ...]:
    """(1,) where few rows differ from what all others have: they would be picked out.

    Such are few rows above the lowest value of the range, few rows that are no gaps, and of a number with two values
    few rows of the lower one. (0,) where there is a mark of gaps for too few; a mark that nobody needs goes too.
    """
    gaps, above = cells
    present = rows.rows - gaps.rows
    lowest = present - above.rows if one.grid.n_steps == 1 else 0
    few = any(0 < count < study.smallest_cell for count in (present, lowest))
    if few or ((above.rows or above.held_out_rows) and not is_enough(study, above)):
        return (1,)
    return (0,) if one.width > 1 and not is_enough(study, gaps) else ()


def rare_levels(study: Study, column: CategoryColumn, cells: Sequence[Count]) -> tuple[int, ...]:
    """The levels to merge, all of them where nothing else is enough; levels that nobody has join rare ones only.

    Examples
    --------
    See ``merge_rare``, which merges them.
    """
    if all(is_enough(study, one) or not (one.rows or one.held_out_rows) for one in cells):
        return ()
    order = sorted(range(len(cells)), key=lambda place: (is_enough(study, cells[place]), cells[place].rows))
    other = {column.levels.index(column.other)} if column.other is not None else set()
    gone = [place for place in order if not is_enough(study, cells[place])]
    for place in order[len(gone) :]:
        if is_enough(study, sum((cells[one] for one in other | set(gone)), Count(0, 0, 0, 0))):
            break
        gone.append(place)
    return tuple(sorted(set(gone) - other))


def _check_rows(study: Study, counts: CellCounts) -> None:
    least = study.least_pod_rows
    if counts.rows.rows < least:
        raise InvalidInput(f"training rows must be at least {least} in this study, got fewer: ask more devices to join")
    if study.holds_out_gram and (counts.rows.held_out_rows or counts.rows.held_out_devices):
        objection = no_score(study, counts, least)
        if objection:
            raise InvalidInput(f"{objection}: give held_out another share, or 0")


def no_score(study: Study, counts: CellCounts, least: int = 0) -> str:
    """Why the held-out rows must not be counted, in one line; "" if they may be.

    least: how many rows there must be, beside the study's smallest cell.

    Examples
    --------
    >>> from codedfl.analyses.cells import CellCounts, no_score
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> no_score(study, CellCounts(study, [80, 0, 79, 3, 0, 3, 20, 0, 20, 2, 0, 2, 3, 3, 0, 0, 0]))
    'held-out rows must be at least 5 on at least 3 devices, got fewer'
    """
    least, devices = max(least, study.smallest_cell), study.colluders + 2
    if counts.rows.held_out_rows >= least and counts.rows.held_out_devices >= devices:
        return ""
    return f"held-out rows must be at least {least} on at least {devices} devices, got fewer"


def _check_classes(study: Study, counts: CellCounts) -> None:
    for name, cell in zip(getattr(study.target, "classes", ()), counts.classes, strict=True):
        if not is_enough(study, cell):
            raise InvalidInput(
                f"class {name!r} must have at least {study.smallest_cell} training rows on {study.colluders + 2}"
                " devices, got fewer: leave it out of the classes, or join it with another"
            )


def _check_varying(study: Study, counts: CellCounts, merged: Merged) -> None:
    """A column with values enough that differ between devices and not within them only tells devices apart."""
    for one, cells, gone, varies in zip(study.columns, counts.columns, merged, counts.varies[:-1], strict=True):
        if isinstance(one.column, CategoryColumn):
            differs = sum(cell.rows >= study.smallest_cell for cell in cells) > 1
        else:
            differs = one.width > 0 and gone != (1,) and cells[1].rows > 0
        if differs:
            _check_one(study, f"column {one.column.name!r}", varies)
    _check_one(study, f"the target {study.target.name!r}", counts.varies[-1])


def _check_one(study: Study, what: str, varies: int) -> None:
    if varies < study.colluders + 2:
        raise InvalidInput(
            f"{what} must vary on at least {study.colluders + 2} devices, got fewer, so it tells devices apart:"
            " leave it out, or for effects of sites say site_effects = true, and each device subtracts its means"
        )
