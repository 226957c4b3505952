"""Real programs: a SuperLink with TLS and SuperNode authentication, four SuperNodes, and things that go wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.federation import APP, app_config, local_parts
from experiments.local_federation import LocalFederation

from codedfl.data.model import TrainedModel
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.run_config import RunConfig

pytestmark = [pytest.mark.deployment, pytest.mark.xdist_group("flower")]

DEVICES = 4
SLOW, KILLED = 3, 2  # of different roles


def test_a_deployment_survives_and_gives_the_model_of_the_in_process_run(tmp_path: Path):
    """One node is slow, one is killed for good, and the server app is killed and started again."""
    config = app_config(
        devices=DEVICES,
        epochs=4,
        n_features=60,
        output_dir=str(tmp_path / "server"),
        farewell_seconds=25.0,  # on a slow machine a call takes ten; the killed node makes this the time waited
    )
    nodes = [
        {"partition-id": i, "num-partitions": DEVICES, "state-dir": str(tmp_path / f"state-{i}")}
        for i in range(DEVICES)
    ]
    nodes[SLOW]["delay-seconds"] = 6.0
    changes = {key: value for key, value in config.items() if app_config()[key] != value}
    with LocalFederation(tmp_path / "federation", nodes) as federation:
        first: list[str] = []
        run = federation.flwr.start_run(APP, changes)
        for line in federation.flwr.follow(run):
            first.append(line)
            if line.startswith("epoch 1 "):
                federation.kill_server_app()
                break
        assert not (tmp_path / "server" / "model.safetensors").exists()
        second: list[str] = []
        run = federation.flwr.start_run(APP, changes)
        for line in federation.flwr.follow(run):
            second.append(line)
            if line.startswith("epoch 3 "):
                federation.kill_node(KILLED)
        status = federation.flwr.status(run)
        node_log = federation.log_of("node-0")
    assert status == "finished:completed", second
    assert any("goes on from its checkpoint, training" in line for line in second)
    assert not any(line.startswith("waiting for") for line in second)  # no second sharing phase
    model = TrainedModel.load(tmp_path / "server" / "model.safetensors")
    assert np.array_equal(model.theta, rehearse(RunConfig.from_config(config), local_parts(config, DEVICES)))

    assert "device-0: the run is over, its secrets are wiped" in node_log
    assert not list(tmp_path.glob("state-0/device-0/runs/*/*"))
    assert not (tmp_path / "server" / "checkpoint").exists()
    for path in [tmp_path / "server", tmp_path / "state-0" / "device-0"]:
        assert path.stat().st_mode & 0o777 == 0o700
    server_key = tmp_path / "federation" / "state" / "codedfl" / "server.key"
    for path in [server_key, tmp_path / "state-0" / "device-0" / "device.key"]:
        assert path.stat().st_mode & 0o777 == 0o600
