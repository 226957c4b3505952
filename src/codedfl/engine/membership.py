"""Who a device is and what it has: the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.roster import load_roster
from codedfl.contract.study import Study
from codedfl.engine.approved_party import ApprovedParty
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.keys import DEVICE_KEY, load_identity

_Host = TypeVar("_Host", bound=DeviceHost)


@dataclass(frozen=True)
class Membership:
    """A device on this machine; nobody else can change it.

    name: the device's name, as on the roster.
    state: the folder for keys, the ledger, snapshots, and what must survive a restart.
    roster: the file of all devices; the study has its digest.
    """

    name: str
    state: Path
    roster: Path

    @property
    def folder(self) -> Path:
        """The folder of this device: a machine may have several."""
        return self.state / self.name

    def host(self, study: Study, kind: type[_Host]) -> _Host:
        """The device, as it was left on the disk or new; refused here already if the study is not approved."""
        identity = load_identity(self.folder / DEVICE_KEY)
        party = ApprovedParty(
            self.name, study, load_roster(self.roster), identity, DeviceFolder.of(self.state, self.name)
        )
        party.check_approved()
        return kind(self.name, identity, self.folder / "runs", bytes.fromhex(study.server_key), party)
