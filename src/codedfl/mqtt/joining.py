"""Take part in a study: this machine's rows, this device's keys, one broker. ``codedfl join`` is its command."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from codedfl.crypto.sealed import fingerprint
from codedfl.engine.calls import Step
from codedfl.engine.keys import load_identity, load_roster, parse_public
from codedfl.engine.local_rows import device_rows
from codedfl.engine.private_files import make_private_folder, sole_user
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.study_config import Study
from codedfl.errors import InvalidInput
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.daemon import DeviceDaemon
from codedfl.mqtt.link import BrokerLink
from codedfl.protocol import Policy
from codedfl.protocol.local_data import LocalRows

log = logging.getLogger("codedfl.engine.device")

_FAREWELL_SECONDS = 5.0


@dataclass(frozen=True)
class Membership:
    """Who this device is and whom it trusts; nobody else can change it.

    Attributes
    ----------
    state: the folder for keys and for what must survive a restart.
    server_key: the server's public key in hex; empty trusts the first invitation.
    roster: a file of pinned public keys; None trusts the server's word.
    policy: what this device's operator allows.
    """

    name: str
    table: Path
    state: Path
    server_key: str = ""
    roster: Path | None = None
    policy: Policy = field(default_factory=Policy)

    def host(self, study: Study) -> ResidentHost:
        """The device, as it was left on the disk or new."""
        if not self.table.is_file():
            raise InvalidInput(f"the table must be a readable file, got {str(self.table)!r}")
        learning = study.learning

        def load_rows() -> LocalRows:
            return device_rows(self.name, learning, lambda: study.table(self.table))

        folder = self.state / self.name
        return ResidentHost(
            self.name,
            load_identity(folder / "device.key"),
            folder / "runs",
            load_rows,
            server_public=parse_public(self.server_key, "server-key") if self.server_key else None,
            roster=load_roster(self.roster) if self.roster else None,
            policy=self.policy,
            recipe=learning.recipe.digest,
        )


def join(
    study: Study,
    address: BrokerAddress,
    membership: Membership,
    *,
    once: bool = False,
    before_step: Callable[[Step], None] = lambda _: None,
) -> None:
    """Serve a study until ended, or until one run of it is over (``once``)."""
    topics.checked_name(study.name, "study")
    name = topics.checked_name(membership.name, "name")
    host = membership.host(study)
    with sole_user(make_private_folder(membership.state / name), "the state folder"):
        link = BrokerLink(address, name, DeviceDaemon.will(study.name, name))
        link.open()
        try:
            log.info("%s has joined %r at %s, key %s", name, study.name, address, fingerprint(host.identity.public))
            daemon = DeviceDaemon(link, host, study.name, study.digest, before_step=before_step)
            daemon.run(lambda: once and host.runs_ended > 0)
        finally:
            link.flush(_FAREWELL_SECONDS)
            link.close()
