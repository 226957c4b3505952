"""Real programs: a broker with TLS on the loopback address, a server, four devices, of which one is killed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments.local_fleet import LocalFleet, memory_and_cpu
from experiments.local_study import agree, digits_study, digits_tables

from codedfl.data.model import TrainedModel
from codedfl.report.run_state import RunState

pytestmark = pytest.mark.xdist_group("mqtt")

DEVICES, EPOCHS = 4, 8
MOST_WAITING = 140 << 20  # bytes of a device that has joined and waits for its server


def test_a_fleet_survives_and_gives_the_model_of_the_rehearsal(tmp_path: Path):
    content = digits_study(2048, features=60, epochs=EPOCHS, solver="cg")
    made = agree(tmp_path / "fleet", content, digits_tables(DEVICES))
    with LocalFleet(made, program="small", delays={3: ["--delay", "0.1"]}) as fleet:
        fleet.wait_for(lambda: all("takes part" in fleet.log_of(name) for name in fleet.names), 60.0)
        # device-3 is a program around the command, with what that loads.
        assert max(memory_and_cpu(fleet.programs.pid(name))[0] for name in fleet.names[:3]) <= MOST_WAITING
        fleet.start_server()
        fleet.wait_for_epoch(2)
        fleet.kill("device-1")
        fleet.start_device(1)
        assert fleet.wait_for_server(60.0) == 0, fleet.log_of("server")
        fleet.wait_for(lambda: all(fleet.ended(name) == 0 for name in fleet.names), 10.0)
        events = fleet.events()
        assert fleet.secrets_left() == []
    model = TrainedModel.load(fleet.output / "model.safetensors")
    assert np.array_equal(model.theta, made.rehearsed().findings.model.theta)
    result = json.loads((fleet.output / "result.json").read_text())
    assert result["digest"] == made.study.digest().hex()
    assert list(result["owners"].values()) == [fleet.names] * len(set(made.study.statistics) - {"census", "score"})
    view = RunState(fleet.output).look()
    assert view.outcome == "complete" and view.sent > 0
    assert [event["epoch"] for event in events if event["event"] == "epoch"] == list(range(1, EPOCHS + 1))
    assert events[-1]["outcome"] == "complete"
    for path in (fleet.output, made.state("device-0") / "device-0"):
        assert path.stat().st_mode & 0o777 == 0o700
