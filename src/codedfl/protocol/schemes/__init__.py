"""What the coded schemes do differently: the device's and the server's machine of each, by the scheme's name.

Neither fleets nor times nor planning: this is what a device process loads (``codedfl.schemes`` has the rest).
"""

from __future__ import annotations

from dataclasses import dataclass

from codedfl.errors import InvalidInput
from codedfl.protocol.device import Device
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from codedfl.protocol.schemes.one_shot import OneShotDevice, OneShotServer
from codedfl.protocol.server import Server

__all__ = ["MACHINES", "Machines", "machines_of"]


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
    )
}


def machines_of(scheme: str) -> Machines:
    """The machines of a coded scheme, by its name."""
    if scheme not in MACHINES:
        raise InvalidInput(f"scheme must be one of {', '.join(MACHINES)}, got {scheme!r}")
    return MACHINES[scheme]
