"""Role sums in time: role keys solved in closed form, as one-shot is coded keys solved in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.protocol.device import Device
from codedfl.protocol.schemes.role_sums import SumsDevice, SumsServer
from codedfl.protocol.server import Server
from codedfl_lab.costs.one_shot import SolvedAtOnce
from codedfl_lab.costs.role_keys import RoleKeys


@dataclass(frozen=True)
class RoleSums(SolvedAtOnce, RoleKeys):
    """One epoch: the first answer of each role is its whole sum of pads."""

    name: ClassVar[str] = SumsServer.scheme
    device_type: ClassVar[type[Device]] = SumsDevice
    server_type: ClassVar[type[Server]] = SumsServer
