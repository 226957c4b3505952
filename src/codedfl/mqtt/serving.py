"""Conduct a study's run at a broker. ``codedfl serve`` is its command."""

from __future__ import annotations

from pathlib import Path

from codedfl.engine.run_watch import RunWatch
from codedfl.engine.study_config import Study
from codedfl.engine.training import Score, train
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink
from codedfl.mqtt.post import MqttPost

_FAREWELL_SECONDS = 5.0


def serve(
    study: Study, address: BrokerAddress, output: Path, *, score: Score | None = None, watch: RunWatch | None = None
) -> Path:
    """One run on the devices of a study; returns the model file. Goes on from ``output`` if it holds a checkpoint."""
    topics.checked_name(study.name, "study")
    config = study.run_config(output)
    watch = watch or RunWatch(config.epochs)
    link = BrokerLink(address, f"codedfl-server-{study.name}", MqttPost.will(study.name))
    watch.measure(lambda: (link.bytes_in, link.bytes_out))
    link.open()
    try:
        return train(MqttPost(link, study.name, study.digest, on_progress=watch.progress), config, score, watch)
    finally:
        link.publish(topics.server_presence(study.name), b"", retain=True)
        link.flush(_FAREWELL_SECONDS)
        link.close()
