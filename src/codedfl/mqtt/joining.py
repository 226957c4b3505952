"""Take part in a study: this machine's rows, this device's keys, one broker. ``codedfl join`` is its command."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from codedfl.crypto.sealed import fingerprint
from codedfl.data.studies import Study
from codedfl.data.studies.check import check_table
from codedfl.data.tables import read_file
from codedfl.engine.calls import Step
from codedfl.engine.device_stages import DeviceStages
from codedfl.engine.keys import DEVICE_KEY, load_identity, load_roster, parse_public
from codedfl.engine.local_rows import device_rows
from codedfl.engine.private_files import make_private_folder, sole_user
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.study_config import RunFile
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
    approvals: the file of studies that were approved on this device; run files need none.
    """

    name: str
    table: Path
    state: Path
    server_key: str = ""
    roster: Path | None = None
    policy: Policy = field(default_factory=Policy)
    approvals: Path = Path("approvals.toml")

    def host(self, agreed: Study | RunFile) -> ResidentHost:
        """The device, as it was left on the disk or new."""
        if not self.table.is_file():
            raise InvalidInput(f"the table must be a readable file, got {str(self.table)!r}")
        return self._of_study(agreed) if isinstance(agreed, Study) else self._of_run(agreed)

    @property
    def _folder(self) -> Path:
        return self.state / self.name

    @property
    def _server_public(self) -> bytes | None:
        return parse_public(self.server_key, "server-key") if self.server_key else None

    @property
    def _pinned(self) -> dict[str, bytes] | None:
        return load_roster(self.roster) if self.roster else None

    def _of_study(self, study: Study) -> ResidentHost:
        """Refused here already, for the operator to read, if the study is not approved or the table does not fit."""
        identity = load_identity(self._folder / DEVICE_KEY)
        stages = DeviceStages(
            self.name,
            study,
            lambda: read_file(self.table),
            identity,
            self._folder,
            self.approvals,
            self.policy,
            self._pinned,
        )
        stages.check_approved()
        found = check_table(study, read_file(self.table))
        objections = [*found.objections, *(one.objection for one in found.columns if one.objection)]
        if objections:
            raise InvalidInput(objections[0])
        runs = self._folder / "runs"
        return ResidentHost(
            self.name, identity, runs, _by_stages_only, server_public=self._server_public, stages=stages
        )

    def _of_run(self, run: RunFile) -> ResidentHost:
        learning = run.learning

        def load_rows() -> LocalRows:
            return device_rows(self.name, learning, lambda: run.table(self.table))

        return ResidentHost(
            self.name,
            load_identity(self._folder / DEVICE_KEY),
            self._folder / "runs",
            load_rows,
            server_public=self._server_public,
            roster=self._pinned,
            policy=self.policy,
            recipe=learning.recipe.digest,
        )


def _by_stages_only() -> LocalRows:
    raise AssertionError("the stages of a study bring their rows themselves")


def join(
    study: Study | RunFile,
    address: BrokerAddress,
    membership: Membership,
    *,
    once: bool = False,
    before_step: Callable[[Step], None] = lambda _: None,
) -> None:
    """Take part in a study, or in runs by a run file, until ended, or until one is over (``once``)."""
    topics.checked_name(study.name, "study")
    name = topics.checked_name(membership.name, "name")
    host = membership.host(study)
    with sole_user(make_private_folder(membership.state / name), "the state folder"):
        link = BrokerLink(address, f"{name}-{study.name}", DeviceDaemon.will(study.name, name))
        link.open()
        try:
            log.info("%s has joined %r at %s, key %s", name, study.name, address, fingerprint(host.identity.public))
            daemon = DeviceDaemon(link, host, study.name, study.digest(), before_step=before_step)
            daemon.run(lambda: once and host.runs_ended > 0)
        finally:
            link.flush(_FAREWELL_SECONDS)
            link.close()
