"""Studies at a broker: ``join`` is a device's process, ``serve`` the server's. The command line has one of each."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.study import Study
from codedfl.crypto.sealed import fingerprint
from codedfl.device.membership import Membership
from codedfl.engines import mqtt_device
from codedfl.engines.mqtt_server import MqttEngine
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import SERVER_NAME
from codedfl.mqtt.link import BrokerLink
from codedfl.mqtt.topics import level_of
from codedfl.private_files import make_private_folder, sole_user
from codedfl.report.run_watch import RunWatch
from codedfl.run.serving import Serving, serve_study

log = logging.getLogger("codedfl.device")

_FAREWELL_SECONDS = 5.0


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


def serve(study: Study, address: BrokerAddress, serving: Serving, *, watch: RunWatch | None = None) -> StudyFindings:
    """All analyses of a study on its devices; goes on from the output folder if it holds replies.

    Examples
    --------
    See ``codedfl serve``.
    """
    watch = watch or RunWatch(serving.output)
    serving.check(study)
    with sole_user(make_private_folder(serving.output), "output-dir"):
        pass  # before anything else: a second server that connects takes the connection of the one at work
    digest = study.digest()
    link = BrokerLink(address, f"{SERVER_NAME}-{level_of(digest)}", MqttEngine.will(digest))
    engine = MqttEngine(link, digest, serving.roster.keys, watcher=watch)
    link.open()
    over = False
    try:
        findings = serve_study(engine, study, serving, watch)
        over = True
    finally:
        engine.leave(over=over)
        link.flush(_FAREWELL_SECONDS)
        link.close()
    return findings
