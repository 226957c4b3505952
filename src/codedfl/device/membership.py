"""Who a device is and what it has: the same for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.kit import Kit
from codedfl.contract.names import SERVER_NAME
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.device.approved import approved_device
from codedfl.errors import InvalidInput
from codedfl.sum.device import Device

TLS_FOLDER = "tls"  # in the folder of a party: the keys of its certificates, and public parts of its kits


@dataclass(frozen=True)
class Membership:
    """A device on this machine; nobody else can change it.

    name: the device's name, as on the rosters.
    state: the folder for keys, the ledger and snapshots.
    rosters: of all devices; a study has the digest of one of them.

    Examples
    --------
    ``Membership("clinic-1", Path("state"), (roster,)).device(study).reply(request)``: see ``codedfl site join``.
    """

    name: str
    state: Path
    rosters: tuple[Roster, ...]

    @classmethod
    def by_kits(cls, kits: Sequence[Kit], state: Path) -> Membership:
        """The device that the kits are for; refused unless it enrolled on this machine."""
        name = checked_owner(kits[0], state)
        if other := [kit.name for kit in kits if kit.name != name]:
            raise InvalidInput(f"all kits must be of one device, got one of {name!r} and one of {other[0]!r}")
        return cls(name, state, tuple(kit.roster for kit in kits))

    @property
    def folder(self) -> Path:
        """The folder of this device: a machine may have several."""
        return self.state / self.name

    def roster(self, study: Study) -> Roster:
        """The one that the study has the digest of; refused where there is none."""
        bound = [one for one in self.rosters if one.digest().hex() == study.roster]
        roster = (bound or self.rosters)[0]
        roster.check_bound(study)
        return roster

    def device(self, study: Study) -> Device:
        """What answers requests about the study; refused here already if it is not approved."""
        identity, folder = load_identity(self.folder / DEVICE_KEY), DeviceFolder.of(self.state, self.name)
        return approved_device(self.name, study, self.roster(study), identity, folder)


def checked_owner(kit: Kit, state: Path) -> str:
    """The device that a kit is for; refused where it has no key, since a new one would be none of the roster's.

    Examples
    --------
    ``checked_owner(load_kit(path), state)``: see ``codedfl site approve``.
    """
    if kit.name == SERVER_NAME:
        raise InvalidInput("the kit must be a device's, got the server's: codedfl server run takes it")
    if not (state / kit.name / DEVICE_KEY).is_file():
        here = ", ".join(sorted(path.parent.name for path in state.glob(f"*/{DEVICE_KEY}"))) or "none"
        raise InvalidInput(
            f"the kit must be of a device that enrolled on this machine ({here}), got one of {kit.name!r}: --state"
            " names the folder"
        )
    return kit.name
