"""Take part in studies: this machine's snapshots, this device's keys, one broker; ``codedfl site join`` runs it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from importlib import import_module

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.study import Study
from codedfl.crypto.sealed import fingerprint
from codedfl.device.approved import newer_edition
from codedfl.device.membership import Membership
from codedfl.engines import mqtt_device
from codedfl.mqtt.address import BrokerAddress
from codedfl.private_files import make_private_folder, sole_user
from codedfl.sum.device import Device

log = logging.getLogger("codedfl.device")

_EXPIRY_SECONDS = 3600.0
_FORMER_RUNS = "runs"  # where 0.3 kept the secrets of a run


def join(studies: Sequence[Study], address: BrokerAddress, membership: Membership, *, once: bool = False) -> None:
    """Take part in approved studies until ended, or until all are over (``once``).

    Examples
    --------
    ``join([load_study(path)], BrokerAddress.parse("mqtts://broker.example"), membership)``: see ``codedfl site join``.
    """
    with sole_user(make_private_folder(membership.folder), "the state folder"):
        devices = {study: membership.device(study) for study in studies}
        replies = {study.digest(): device.reply for study, device in devices.items()}
        housekeeping = _Housekeeping(devices, address, membership, once)
        mqtt_device.serve(replies, address, membership.name, until=housekeeping.ends)


class _Housekeeping:
    """Says what the device takes part in, and deletes keys whose time is over, also if nobody asks."""

    def __init__(
        self, devices: Mapping[Study, Device], address: BrokerAddress, membership: Membership, once: bool
    ) -> None:
        self._devices, self._address, self._membership, self._once = devices, address, membership, once
        self._looked: float | None = None

    def ends(self, at: mqtt_device.MqttDevice) -> bool:
        """Whether to leave."""
        if self._looked is None:
            self._say()
        if self._looked is None or time.monotonic() - self._looked > _EXPIRY_SECONDS:
            self._looked = time.monotonic()
            for device in self._devices.values():
                device.expire()
        return self._once and at.all_over

    def _say(self) -> None:
        # Not before it is there, and not with the first request either, for which everybody waits.
        import_module("cryptography.hazmat.backends.openssl.backend")
        from codedfl.statistics.statistic import STATISTICS

        for study, device in self._devices.items():
            for name in study.statistics:
                STATISTICS[name]
            key = fingerprint(self._membership.roster(study).keys[device.name])
            log.info("%s takes part in %r at %s, key %s", device.name, study.name, self._address, key)
        self._say_older()
        former = self._membership.folder / _FORMER_RUNS
        if any(former.glob("*/*")):
            log.warning(
                "runs that were begun by codedfl 0.3 do not continue: finish them with it, or delete %s", former
            )

    def _say_older(self) -> None:
        """A run of an older version may still be under way; whoever joins it alone by mistake waits for ever."""
        joined = {(study.name, study.edition) for study in self._devices}
        with DeviceFolder.of(self._membership.state, self._membership.name).ledger() as ledger:
            pass
        for study in self._devices:
            newest = max(one.edition for one in ledger.approvals if one.name == study.name)
            if (study.name, newest) not in joined:
                log.warning("%s", newer_edition(study, ledger))
