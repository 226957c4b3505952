"""Take part in studies: this machine's snapshots, this device's keys, one broker. ``codedfl join`` is its command."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from codedfl.contract.study import Study
from codedfl.crypto.sealed import fingerprint
from codedfl.device.membership import Membership
from codedfl.engines import mqtt_device
from codedfl.mqtt.address import BrokerAddress
from codedfl.private_files import make_private_folder, sole_user

log = logging.getLogger("codedfl.device")


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
        mqtt_device.serve(replies, address, membership.name, until=lambda at: once and at.all_over)
