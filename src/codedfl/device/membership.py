"""Who a device is and what it has: the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.roster import Roster, load_roster
from codedfl.contract.study import Study
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.device.approved import approved_device
from codedfl.sum.device import Device


@dataclass(frozen=True)
class Membership:
    """A device on this machine; nobody else can change it.

    name: the device's name, as on the rosters.
    state: the folder for keys, the ledger and snapshots.
    rosters: files of all devices; a study has the digest of one of them.

    Examples
    --------
    ``Membership("clinic-1", Path("state"), (Path("roster.toml"),)).device(study).reply(request)``: see
    ``codedfl site join``.
    """

    name: str
    state: Path
    rosters: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        """The folder of this device: a machine may have several."""
        return self.state / self.name

    def roster(self, study: Study) -> Roster:
        """The one that the study has the digest of; refused where there is none."""
        found = [load_roster(path) for path in self.rosters]
        bound = [one for one in found if one.digest().hex() == study.roster]
        roster = (bound or found)[0]
        roster.check_bound(study)
        return roster

    def device(self, study: Study) -> Device:
        """What answers requests about the study; refused here already if it is not approved."""
        identity, folder = load_identity(self.folder / DEVICE_KEY), DeviceFolder.of(self.state, self.name)
        return approved_device(self.name, study, self.roster(study), identity, folder)
