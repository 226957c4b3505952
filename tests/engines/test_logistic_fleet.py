"""Nightly: real programs fit a logistic model: one holder is killed between two iterations, another one is slow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments.local_fleet import LocalFleet
from experiments.local_study import agree
from experiments.statistics.glm import made_up

from codedfl.analyses.glm import GlmFinding
from codedfl.data.model import TrainedModel
from codedfl.run.rehearsal import dealt_out

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("mqtt")]


def test_a_logistic_study_survives_and_is_the_rehearsal_bit_for_bit(tmp_path: Path):
    """The first two devices hold seeds, one per role: the fit waits for the killed one and for the slow one."""
    case = made_up("logistic")
    content = {
        "name": "ill",
        "column": [
            {"name": "age", "kind": "number", "range": [0, 120], "step": 0.01},
            {"name": "ward", "kind": "category", "levels": ["a", "b", "c"]},
        ],
        "target": {"name": "y", "classes": [0, 1]},
        "protection": {"max_rows": 1024, "max_rows_per_device": 512, "least_participants": 3, "holders": 2},
        "result": {"held_out": 0.0},
        "model": [{"name": "ill", "kind": "logistic", "columns": ["age", "ward"]}],
    }
    parts = dealt_out(case.table, 4, np.random.default_rng(0))
    made = agree(tmp_path / "fleet", content, parts)
    with LocalFleet(made, program="small", delays={1: ["--delay", "0.1"]}) as fleet:
        fleet.start_server()
        fleet.wait_for(lambda: "newton" in [event.get("stage") for event in fleet.events()], 60.0)
        fleet.kill(fleet.names[0])
        assert fleet.ended("server") is None
        fleet.start_device(0)
        assert fleet.wait_for_server(60.0) == 0, fleet.log_of("server")
        fleet.wait_for(lambda: all(fleet.ended(name) == 0 for name in fleet.names), 10.0)
        assert fleet.secrets_left() == []
        stages = [event["stage"] for event in fleet.events() if event.get("stage")]
    (fit,) = made.rehearsed().findings.models
    assert isinstance(fit, GlmFinding) and fit.model is not None and fit.inference is not None
    result = json.loads((fleet.output / "result.json").read_text())
    assert result["models"] == [json.loads(json.dumps(fit.to_dict()))]
    assert np.array_equal(TrainedModel.load(fleet.output / "model-1.safetensors").theta, fit.model.theta)
    assert stages.count("newton") == fit.fit.iterations > 2
