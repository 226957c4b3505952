"""Real programs: a broker with TLS on the loopback address, ``codedfl serve``, four ``codedfl join``, one is killed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.federation import app_config, local_parts
from experiments.local_fleet import LocalFleet

from codedfl.data.model import TrainedModel
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.run_config import RunConfig
from codedfl.report.run_state import RunState

pytestmark = pytest.mark.xdist_group("mqtt")

DEVICES = 4


def test_a_fleet_survives_and_gives_the_model_of_the_in_process_run(tmp_path: Path):
    """alpha = 1: nobody can be spared, so the run ends only if the killed device comes back with its state."""
    settings = {"devices": DEVICES, "scheme": "coded-keys", "alpha": 1, "epochs": 8, "solver": "cg", "n_features": 60}
    config = app_config(**settings, output_dir=str(tmp_path / "none"))
    parts = local_parts(config, DEVICES)
    slow = {3: ["--delay", "0.1"]}
    with LocalFleet(tmp_path / "fleet", config, parts, program="small", delays=slow) as fleet:
        fleet.start_server()
        fleet.wait_for_epoch(2)
        fleet.kill("device-1")
        fleet.start_device(1)
        assert fleet.wait_for_server(60.0) == 0, fleet.log_of("server")
        fleet.wait_for(lambda: all(fleet.ended(name) == 0 for name in fleet.names), 10.0)
        events = fleet.events()
        assert fleet.secrets_left() == []
        assert "device-1: the run is over, its secrets are wiped" in fleet.log_of("device-1")
    model = TrainedModel.load(fleet.output / "model.safetensors")
    assert np.array_equal(model.theta, rehearse(RunConfig.from_config(config), parts))
    assert not (fleet.output / "checkpoint").exists()
    view = RunState(fleet.output).look()
    assert view.outcome == "complete" and view.sent > 0 and {device.lane for device in view.devices} == {"t" * 8}
    assert [event["epoch"] for event in events if event["event"] == "epoch"] == list(range(1, 9))
    away = [event["event"] for event in events if event.get("device") == "device-1" and "connect" in event["event"]]
    assert away[:3] == ["connected", "disconnected", "connected"]
    assert events[-1]["outcome"] == "complete"
    for path in (fleet.output, fleet.folder / "state-0" / "device-0"):
        assert path.stat().st_mode & 0o777 == 0o700
