"""Conduct a study's run at a broker. ``codedfl serve`` is its command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codedfl.data.studies import Study
from codedfl.engine.private_files import make_private_folder, sole_user
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.study_config import RunFile
from codedfl.engine.study_training import Serving, StudyResult, train_study
from codedfl.engine.training import Score, train
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink
from codedfl.mqtt.post import MqttPost

_FAREWELL_SECONDS = 5.0


def serve(
    run: RunFile, address: BrokerAddress, output: Path, *, score: Score | None = None, watch: RunWatch | None = None
) -> Path:
    """One run by a run file; returns the model file. Goes on from ``output`` if it holds a checkpoint."""
    config = run.run_config(output)
    watch = watch or RunWatch.in_folder(config.output, config.epochs, run.name)
    _check_unused(config.output)
    with _at_broker(run, address, watch) as post:
        return train(post, config, score, watch)


def serve_study(
    study: Study, address: BrokerAddress, serving: Serving, *, watch: RunWatch | None = None
) -> StudyResult:
    """All stages of a study on its devices; goes on from the output folder if it holds a state."""
    watch = watch or RunWatch.in_folder(serving.output, study.epochs, study.name)
    _check_unused(serving.output)
    with _at_broker(study, address, watch) as post:
        return train_study(post, study, serving, watch)


def _check_unused(output: Path) -> None:
    """Before anything else: a second server that connects takes the connection of the one at work."""
    with sole_user(make_private_folder(output), "output-dir"):
        pass


@contextmanager
def _at_broker(agreed: Study | RunFile, address: BrokerAddress, watch: RunWatch) -> Iterator[MqttPost]:
    topics.checked_name(agreed.name, "study")
    link = BrokerLink(address, f"codedfl-server-{agreed.name}", MqttPost.will(agreed.name))
    watch.measure(lambda: (link.bytes_in, link.bytes_out))
    link.open()
    try:
        yield MqttPost(link, agreed.name, agreed.digest(), on_progress=watch.progress)
    finally:
        link.publish(topics.server_presence(agreed.name), b"", retain=True)
        link.flush(_FAREWELL_SECONDS)
        link.close()
