"""Role sums in time: role keys solved in closed form, as one-shot is coded keys solved in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes import ROLE_SUMS
from codedfl_lab.costs.one_shot import SolvedAtOnce
from codedfl_lab.costs.role_keys import RoleKeys


@dataclass(frozen=True)
class RoleSums(SolvedAtOnce, RoleKeys):
    """One epoch: the first answer of each role is its whole sum of pads."""

    name: ClassVar[str] = ROLE_SUMS.name
    sharing_scheme: ClassVar[SharingScheme] = ROLE_SUMS
