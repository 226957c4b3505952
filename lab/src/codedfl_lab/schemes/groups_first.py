"""Role keys that begin before the last owners have uploaded: with the first whole groups to be complete.

A sum is over whole disclosure groups, so a server may begin with those that are there and add the others later: what
it then knows is a function of sums over whole groups, as with role keys (THREAT_MODEL.md). Its first model lacks the
rows of the late groups; the model of all rows comes when role keys have it. A study does so by its patience
(``run/serving``) and adds groups that come later to a kept total; here it is a scheme to be timed, without a protocol
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Seconds
from codedfl_lab.schemes.descriptor import Scheme
from codedfl_lab.schemes.role_keys import RoleKeyed


@dataclass(frozen=True)
class GroupsFirst(RoleKeyed, Scheme):
    """Role keys whose training begins when all but ``late`` of ``count`` groups have uploaded.

    count: of groups, of at least z + 2 devices each. Positions are dealt in turn, so that every group has its share of
    slow devices; late = 0 is role keys.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab.schemes.groups_first import GroupsFirst
    >>> scheme = GroupsFirst(count=2, late=1)
    >>> uploaded = np.array([[1.0, 5.0, 2.0, 1.0, 3.0, 1.0]])  # groups of positions 0, 2, 4 and 1, 3, 5
    >>> scheme.begins(uploaded).tolist(), scheme.late_positions(uploaded[0]).tolist()
    ([3.0], [1, 3, 5])
    """

    count: int = 5
    late: int = 1
    name: ClassVar[str] = "groups-first"
    exact: ClassVar[bool] = True

    @classmethod
    def default_for(cls, n_devices: int) -> Self:
        """The smallest groups that one colluder allows, an eighth of them late."""
        count = max(1, n_devices // 3)
        return cls(count=count, late=count // 8)

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[Self]:
        """None: which rows its first model lacks depends on who is late, which a plan cannot know."""
        del n_devices
        return iter(())

    @property
    def label(self) -> str:
        return f"{super().label}, {self.count - self.late} of {self.count} groups first"

    @property
    def parameters(self) -> dict[str, float]:
        return {**super().parameters, "count": self.count, "late": self.late}

    @property
    def part_left_out(self) -> float:
        return self.late / self.count

    def check(self, n_devices: int) -> None:
        super().check(n_devices)
        least = self.colluders + 2
        if not 1 <= self.count <= n_devices // least:
            raise InvalidInput(
                f"count must be between 1 and {n_devices // least}, in groups of {least} of {n_devices} devices, got"
                f" {self.count}"
            )
        if not 0 <= self.late < self.count:
            raise InvalidInput(f"late must be between 0 and count - 1 ({self.count - 1}), got {self.late}")

    def begins(self, uploaded: Seconds) -> Seconds:
        """(draws,) when enough groups are complete, of uploads (draws, D) by position."""
        return np.sort(self._completed(uploaded), axis=-1)[..., self.count - self.late - 1]

    def late_positions(self, uploaded: Seconds) -> NDArray[np.intp]:
        """Who is not in the first model, of uploads (D,)."""
        last = np.argsort(self._completed(uploaded), kind="stable")[self.count - self.late :]
        return np.flatnonzero(np.isin(np.arange(len(uploaded)) % self.count, last))

    def _completed(self, uploaded: Seconds) -> Seconds:
        """(..., count): when the last upload of each group is there."""
        return np.stack([uploaded[..., group :: self.count].max(axis=-1) for group in range(self.count)], axis=-1)
