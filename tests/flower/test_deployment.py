"""Real programs: a SuperLink with TLS and SuperNode authentication, four SuperNodes, and things that go wrong.

There is no such test in Flower's simulation engine: its virtual nodes have no configuration of their own, so none of
them can name the study that its operator approved.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.federation import APP, node_configs, server_config
from experiments.local_federation import LocalFederation
from experiments.local_study import agree, digits_study, digits_tables

from codedfl.data.model import TrainedModel

pytestmark = [pytest.mark.deployment, pytest.mark.xdist_group("flower")]

DEVICES = 4
SLOW, KILLED = 3, 2  # of different roles


def test_a_deployment_survives_and_gives_the_model_of_the_rehearsal(tmp_path: Path):
    """One node is slow, one is killed for good, and the server app is killed and started again."""
    made = agree(tmp_path / "study", digits_study(2048, features=60, epochs=4), digits_tables(DEVICES))
    config, nodes = server_config(made, tmp_path / "server", retry=25.0, hedge=5.0), node_configs(made)
    nodes[SLOW]["delay-seconds"] = 3.0
    with LocalFederation(tmp_path / "federation", nodes) as federation:
        run = federation.flwr.start_run(APP, config)
        for line in federation.flwr.follow(run):
            if line == "epoch 1":
                federation.kill_server_app()
                break
        assert not (tmp_path / "server" / "model.safetensors").exists()
        second: list[str] = []
        run = federation.flwr.start_run(APP, config)
        for line in federation.flwr.follow(run):
            second.append(line)
            if line == "epoch 3":
                federation.kill_node(KILLED)
        status = federation.flwr.status(run)
    assert status == "finished:completed", second
    model = TrainedModel.load(tmp_path / "server" / "model.safetensors")
    assert np.array_equal(model.theta, made.rehearsed().findings.model.theta)

    assert made.secrets_left(but=[made.names[KILLED]]) == []
    for path in [tmp_path / "server", made.state("device-0") / "device-0"]:
        assert path.stat().st_mode & 0o777 == 0o700
    for path in [made.server_key, made.state("device-0") / "device-0" / "device.key"]:
        assert path.stat().st_mode & 0o777 == 0o600
