"""Take part in studies: this machine's snapshots, this device's keys, one broker. ``codedfl join`` is its command."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from codedfl.contract.study import Study
from codedfl.crypto.sealed import fingerprint
from codedfl.device.membership import Membership
from codedfl.engines import mqtt_device
from codedfl.mqtt.address import BrokerAddress
from codedfl.private_files import make_private_folder, sole_user
from codedfl.sum.device import Device

log = logging.getLogger("codedfl.device")

_EXPIRY_SECONDS = 3600.0


def join(studies: Sequence[Study], address: BrokerAddress, membership: Membership, *, once: bool = False) -> None:
    """Take part in approved studies until ended, or until all are over (``once``).

    Examples
    --------
    ``join([load_study(path)], BrokerAddress.parse("mqtts://broker.example"), membership)``: see ``codedfl join``.
    """
    with sole_user(make_private_folder(membership.folder), "the state folder"):
        devices = {study.digest(): membership.device(study) for study in studies}
        for study, device in zip(studies, devices.values(), strict=True):
            key = fingerprint(membership.roster(study).keys[device.name])
            log.info("%s takes part in %r at %s, key %s", device.name, study.name, address, key)
        replies = {digest: device.reply for digest, device in devices.items()}
        ends = _until(list(devices.values()), once)
        mqtt_device.serve(replies, address, membership.name, until=ends)


def _until(devices: Sequence[Device], once: bool) -> Callable[[mqtt_device.MqttDevice], bool]:
    """Whether to leave; and keys whose time is over are deleted at the start and once an hour, also if nobody asks."""
    looked = float("-inf")

    def ends(at: mqtt_device.MqttDevice) -> bool:
        nonlocal looked
        if time.monotonic() - looked > _EXPIRY_SECONDS:
            looked = time.monotonic()
            for device in devices:
                device.expire()
        return once and at.all_over

    return ends
