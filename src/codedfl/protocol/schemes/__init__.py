"""What the coded schemes do differently: the device's and the server's machine of each, by the scheme's name.

Neither fleets nor times nor planning: this is what a device process loads (``codedfl_lab.costs`` has the rest).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import entry_points

from codedfl.errors import InvalidInput
from codedfl.protocol.device import Device
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from codedfl.protocol.schemes.one_shot import OneShotDevice, OneShotServer
from codedfl.protocol.schemes.role_device import RoleDevice
from codedfl.protocol.schemes.role_server import RoleServer
from codedfl.protocol.schemes.role_sums import SumsDevice, SumsServer
from codedfl.protocol.server import Server

__all__ = ["MACHINES", "PLUG_INS", "Machines", "machines_of"]

PLUG_INS = "codedfl.schemes"  # entry points that name a ``CodedScheme``


@dataclass(frozen=True)
class Machines:
    """The two parties of one coded scheme."""

    device_type: type[Device]
    server_type: type[Server]


MACHINES: dict[str, Machines] = {
    pair.server_type.scheme: pair
    for pair in (
        Machines(PaddedDevice, PaddedServer),
        Machines(KeysDevice, KeysServer),
        Machines(OneShotDevice, OneShotServer),
        Machines(RoleDevice, RoleServer),
        Machines(SumsDevice, SumsServer),
    )
}


def machines_of(scheme: str) -> Machines:
    """The machines of a coded scheme, by its name; those of other packages by the entry points of ``PLUG_INS``."""
    for entry in () if scheme in MACHINES else entry_points(group=PLUG_INS, name=scheme):
        try:
            kind = entry.load()
            MACHINES[scheme] = Machines(kind.device_type, kind.server_type)
        except Exception as error:  # a stranger's import may raise anything
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise InvalidInput(f"the scheme {scheme} ({entry.value}) could not be loaded: {why}") from None
    if scheme not in MACHINES:
        raise InvalidInput(f"scheme must be one of {', '.join(MACHINES)}, got {scheme!r}")
    return MACHINES[scheme]
