"""Values beyond their public ranges: clipped, counted, and named."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codedfl.typing import Integers

MOST_NAMED = 10  # columns that a message names


class ClippedWarning(UserWarning):
    """Values lay beyond their public ranges and were clipped; the text counts them by column."""


@dataclass(frozen=True, eq=False)
class Clipped:
    """How many values lay beyond their public ranges: of each column, and of the target."""

    columns: Integers
    targets: int = 0

    @property
    def total(self) -> int:
        return int(self.columns.sum()) + self.targets

    def __bool__(self) -> bool:
        return self.total > 0

    def __add__(self, other: Clipped) -> Clipped:
        return Clipped(self.columns + other.columns, self.targets + other.targets)

    def words(self, names: tuple[str, ...] | None = None) -> str:
        """Such as ``3 of 'age', 1 of 'weight' and 2 targets``; columns without names go by their number, from 0."""
        places = np.flatnonzero(self.columns)
        counted = [
            f"{self.columns[j]} of {repr(names[j]) if names else f'column {j}'}" for j in places[:MOST_NAMED].tolist()
        ]
        if len(places) > MOST_NAMED:
            counted.append(f"{self.columns[places[MOST_NAMED:]].sum()} of {len(places) - MOST_NAMED} more")
        if self.targets or not counted:
            counted.append(f"{self.targets} target" + "s" * (self.targets != 1))
        return " and ".join([", ".join(counted[:-1]), counted[-1]] if counted[1:] else counted)
