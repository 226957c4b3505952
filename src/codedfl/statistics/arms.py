"""Histograms and counts of levels within each level of one category: Table 1 by arm."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.contract.models import TableOne
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn
from codedfl.statistics.histogram import Histogram
from codedfl.statistics.statistic import register_statistic
from codedfl.typing import Wholes


@register_statistic
class Arms(Histogram):
    """For each level of the category: rows, what ``histogram`` has of them, and rows of each level of each category.

    Examples
    --------
    >>> from codedfl.contract.models import TableOne
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import CategoryColumn, NumberColumn, NumberTarget
    >>> from codedfl.statistics.arms import Arms
    >>> names = ("arm", "ward")
    >>> of_two = tuple(CategoryColumn(one, ("a", "b")) for one in names)
    >>> days, table = NumberTarget("days", (0.0, 60.0), 1.0), TableOne("table 1", ("ward",), by="arm")
    >>> study = Study("stays", of_two, days, 5000, 1000, 3, features="none", held_out=0.0, models=(table,))
    >>> Arms(study, model=table).length
    134
    """

    name: ClassVar[str] = "arms"
    tells: ClassVar[frozenset[str] | None] = frozenset({"columns"})
    shows: ClassVar[str] = (
        "As histogram, within each level of one category; so it shows what that column has in common with each other"
        " one, not with two. The census counts the levels, not their combinations: the server sees that few have one,"
        " and an honest one tells none of such a column by arm."
    )

    @classmethod
    def leaves(cls, study: Study) -> str:
        """Once."""
        models = ", ".join(f"{one.name}, by {one.by}" for one in study.models if isinstance(one, TableOne) and one.by)
        return f"the same for each level of one category, with rows of the levels of all categories (once: {models})"

    @property
    def arms(self) -> tuple[str, ...]:
        """The levels by which rows are distinguished."""
        assert isinstance(self.model, TableOne)
        return self.category(self.model.by).levels

    @property
    def categories(self) -> tuple[str, ...]:
        """Those of the model."""
        known = (one for one in self.study.columns if isinstance(one, CategoryColumn))
        return tuple(one.name for one in known if one.name in self.model.columns)

    @property
    def each(self) -> int:
        """Numbers of one arm."""
        return 1 + super().length + sum(len(self.category(one).levels) for one in self.categories)

    @property
    def length(self) -> int:
        """Of all arms."""
        return len(self.arms) * self.each

    def vector(self, rows: Snapshot) -> Wholes:
        """Arm by arm."""
        assert isinstance(self.model, TableOne)
        places = {one.name: place for place, one in enumerate(self.study.columns)}
        arm = rows.codes[:, places[self.model.by]]
        parts = []
        for place in range(len(self.arms)):
            chosen = rows.those(arm == place)
            codes = chosen.part(held_out=False).codes
            counts = [
                np.bincount(codes[:, places[one]], minlength=len(self.category(one).levels)) for one in self.categories
            ]
            parts += [np.array([len(codes)]), super().vector(chosen), *counts]
        return np.concatenate(parts)

    def category(self, name: str) -> CategoryColumn:
        """The column of this name."""
        column = next(one for one in self.study.columns if one.name == name)
        assert isinstance(column, CategoryColumn)
        return column
