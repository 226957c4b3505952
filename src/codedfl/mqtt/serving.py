"""Conduct a study at a broker. ``codedfl serve`` is its command."""

from __future__ import annotations

from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.study import Study
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.study_run import Serving, serve_study
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink
from codedfl.mqtt.post import MqttPost
from codedfl.private_files import make_private_folder, sole_user

_FAREWELL_SECONDS = 5.0


def serve(study: Study, address: BrokerAddress, serving: Serving, *, watch: RunWatch | None = None) -> StudyFindings:
    """All analyses of a study on its devices; goes on from the output folder if it holds a state."""
    watch = watch or RunWatch.in_folder(serving.output, study.epochs, study.name)
    with sole_user(make_private_folder(serving.output), "output-dir"):
        pass  # before anything else: a second server that connects takes the connection of the one at work
    serving.identity_for(study)
    link = BrokerLink(address, f"codedfl-server-{study.name}", MqttPost.will(study.name))
    watch.measure(lambda: (link.bytes_in, link.bytes_out))
    link.open()
    post, over = MqttPost(link, study.name, study.digest(), on_progress=watch.progress), False
    try:
        findings = serve_study(post, study, serving, watch)
        over = True
        return findings
    finally:
        post.leave(over)
        link.flush(_FAREWELL_SECONDS)
        link.close()
