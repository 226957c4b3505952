"""Take part in a study: this machine's snapshot, this device's keys, one broker. ``codedfl join`` is its command."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from codedfl.contract.names import checked_name
from codedfl.contract.study import Study
from codedfl.crypto.sealed import fingerprint
from codedfl.device.membership import Membership
from codedfl.engine.calls import Step
from codedfl.engine.device_host import EXPIRY_SECONDS
from codedfl.engine.resident_host import ResidentHost
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.daemon import DeviceDaemon
from codedfl.mqtt.link import BrokerLink
from codedfl.private_files import make_private_folder, sole_user

log = logging.getLogger("codedfl.engine.device")

_FAREWELL_SECONDS = 5.0


def join(
    study: Study,
    address: BrokerAddress,
    membership: Membership,
    *,
    once: bool = False,
    before_step: Callable[[Step], None] = lambda _: None,
) -> None:
    """Take part in a study until ended, or until it is over (``once``)."""
    name = checked_name(membership.name, "name")
    with sole_user(make_private_folder(membership.folder), "the state folder"):
        host = membership.host(study, ResidentHost)
        link = BrokerLink(address, f"{name}-{study.name}", DeviceDaemon.will(study.name, name))
        link.open()
        try:
            log.info("%s has joined %r at %s, key %s", name, study.name, address, fingerprint(host.identity.public))
            daemon = DeviceDaemon(link, host, study.name, study.digest(), before_step=before_step)
            daemon.run(_until(host, lambda: once and daemon.study_over))
        finally:
            link.flush(_FAREWELL_SECONDS)
            link.close()


def _until(host: ResidentHost, leaves: Callable[[], bool]) -> Callable[[], bool]:
    """Whether to leave; and runs that were never heard of again are wiped at the start and once a day."""
    looked = float("-inf")

    def done() -> bool:
        nonlocal looked
        if time.monotonic() - looked > EXPIRY_SECONDS:
            looked = time.monotonic()
            host.expire()
        return leaves()

    return done
