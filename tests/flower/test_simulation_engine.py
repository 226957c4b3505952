"""The same app in Flower's simulation engine: virtual nodes in Ray's processes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.federation import APP, app_config, local_parts
from experiments.local_federation import LocalFederation

from codedfl.data.model import TrainedModel
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.run_config import RunConfig
from codedfl.report.run_state import RunState

pytestmark = [pytest.mark.deployment, pytest.mark.xdist_group("flower")]

DEVICES = 6


def test_the_simulation_engine_gives_the_model_of_the_in_process_run(tmp_path: Path):
    config = app_config(
        devices=DEVICES, scheme="coded-padded", alpha=3, epochs=4, n_features=60, output_dir=str(tmp_path / "server")
    )
    changes = {key: value for key, value in config.items() if app_config()[key] != value}
    engine = {"num-supernodes": DEVICES, "client-resources-num-cpus": 1, "init-args-num-cpus": 2}
    with LocalFederation(tmp_path / "federation", []) as federation:
        run = federation.flwr.start_run(APP, changes, engine)
        lines = list(federation.flwr.follow(run))
        status = federation.flwr.status(run)
    assert status == "finished:completed", lines
    model = TrainedModel.load(tmp_path / "server" / "model.safetensors")
    assert np.array_equal(model.theta, rehearse(RunConfig.from_config(config), local_parts(config, DEVICES)))
    assert sum(line.startswith("epoch ") for line in lines) == 4
    view = RunState(tmp_path / "server").look()
    assert (view.outcome, view.epoch, len(view.devices), view.received > 0) == ("complete", 4, DEVICES, True)
    state = tmp_path / "federation" / "state" / "codedfl"  # virtual nodes have no configuration of their own
    assert sorted(path.name for path in state.iterdir()) == [*(f"device-{i}" for i in range(DEVICES)), "server.key"]
    assert not [path for path in state.glob("*/runs/*") if path.suffix != ".lock"]
