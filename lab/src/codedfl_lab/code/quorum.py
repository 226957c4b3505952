"""Which answers end an epoch: one statement for the server, which counts them, and for the clock, which times them.

A quorum has parts, each with its members and how many of them must answer. A gradient code has one part per group,
which needs size - alpha + 1 answers (paper IV-C: the first D - alpha + 1); conventional federated learning has one part
that needs everybody; a scheme of roles has one part per cell, which needs a single answer. Who keeps all rows of a
role is a member of each of its cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Seconds


@dataclass(frozen=True)
class QuorumPart:
    """``needed`` answers of these ``members``, which are positions in the run's order.

    needed = len(members) waits for all of them, 1 for the first.
    """

    members: tuple[int, ...]
    needed: int

    def __post_init__(self) -> None:
        if not 1 <= self.needed <= len(self.members):
            raise InvalidInput(f"needed must be between 1 and the members ({len(self.members)}), got {self.needed}")


@dataclass(frozen=True)
class Quorum:
    """A quorum is complete when every part has its answers. Positions in no part are never waited for."""

    parts: tuple[QuorumPart, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise InvalidInput("parts must be at least one, got none")

    @classmethod
    def all_but(cls, n_devices: int, tolerated: int = 0) -> Quorum:
        """One part with everybody; ``tolerated`` of them need not answer."""
        return cls((QuorumPart(tuple(range(n_devices)), n_devices - tolerated),))

    @property
    def answers_needed(self) -> int:
        """How many answers are enough, where nobody counts in two parts."""
        return sum(part.needed for part in self.parts)

    @property
    def failures_survived(self) -> int:
        """How many positions may be gone for good, whichever they are, and the others can still complete it."""
        return min(len(part.members) - part.needed for part in self.parts)

    def with_spare(self, spare: int, distrusted: Collection[int] = ()) -> Quorum:
        """A quorum that waits for ``spare`` more answers in each part, as far as there are trusted members.

        The spare answers check the others. A part never needs fewer answers than before: without enough trusted members
        it stays incomplete for ever.
        """
        if not spare:
            return self
        doubted = set(distrusted)
        parts = []
        for part in self.parts:
            trusted = sum(member not in doubted for member in part.members)
            parts.append(QuorumPart(part.members, max(part.needed, min(part.needed + spare, trusted))))
        return Quorum(tuple(parts))

    def missing(self, answered: Iterable[int]) -> int:
        """How many more answers are needed beside these; repeated ones count once."""
        there = set(answered)
        return sum(max(0, part.needed - len(there.intersection(part.members))) for part in self.parts)

    def complete(self, answered: Iterable[int]) -> bool:
        """Whether these positions are enough."""
        return self.missing(answered) == 0

    def time(self, arrivals: Seconds) -> Seconds:
        """When the quorum is complete, (...,), for arrival times by position, (..., D): the slowest part counts."""
        ends = []
        for members, needed in self._alike:
            found = arrivals[..., members]
            part_ends = found.min(axis=-1) if needed == 1 else np.partition(found, needed - 1, axis=-1)[..., needed - 1]
            ends.append(part_ends.max(axis=-1))
        return np.asarray(np.max(ends, axis=0))

    @cached_property
    def _alike(self) -> list[tuple[NDArray[np.intp], int]]:
        """Parts that have as many members and need as many answers, (parts, members): a clock takes them at once."""
        found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for part in self.parts:
            found.setdefault((len(part.members), part.needed), []).append(part.members)
        return [(np.array(members), needed) for (_, needed), members in found.items()]
