"""A study at a broker, the server's side. ``codedfl server run`` is its command."""

from __future__ import annotations

from codedfl.analyses.analysis import analysis_of
from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.names import SERVER_NAME
from codedfl.contract.study import Study
from codedfl.engines.mqtt_server import MqttEngine
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink
from codedfl.mqtt.topics import level_of
from codedfl.private_files import make_private_folder, sole_user
from codedfl.report.run_watch import RunWatch
from codedfl.run.serving import Serving, check_former, serve_study
from codedfl.statistics.statistic import STATISTICS

_FAREWELL_SECONDS = 5.0


def serve(study: Study, address: BrokerAddress, serving: Serving, *, watch: RunWatch | None = None) -> StudyFindings:
    """All analyses of a study on its devices; continues from the output folder if it holds replies.

    Examples
    --------
    See ``codedfl server run``.
    """
    watch = watch or RunWatch(serving.output)
    serving.check(study)
    check_former(serving.output)
    with sole_user(make_private_folder(serving.output), "output-dir"):
        pass  # before anything else: a second server that connects takes the connection of the one at work
    # Before devices are there: they wait for a server that has the code it needs.
    for one in study.models:
        analysis_of(one)
    for name in study.statistics:
        STATISTICS[name]
    digest = study.digest()
    link = BrokerLink(address, f"{SERVER_NAME}-{level_of(digest)}", MqttEngine.will(digest))
    engine = MqttEngine(link, digest, serving.roster.keys, tell=watch.take)
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
