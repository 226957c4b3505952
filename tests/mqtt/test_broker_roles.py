"""Role keys at a broker that loses, repeats and reorders: who may be gone when, and restarts of every party."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_broker import FakeBroker, Fleet

from codedfl.engine.conductor import Patience
from codedfl.errors import NotEnoughDevices
from codedfl.protocol.schemes.role_keys import ROLE_KEYS
from scenario import Scenario, descent


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda handle: None)


@pytest.fixture
def scenario() -> Scenario:
    types: Any = {"scheme": ROLE_KEYS}
    return Scenario((3, 5, 2, 4, 3, 2), 1, d=30, colluders=1, public_samples=False, **types)


def exact(scenario: Scenario, epochs: int = 4, without: str = "") -> np.ndarray:
    owners = [name for name in scenario.names if name != without]
    return scenario.only(owners).expected_models(descent(epochs))[-1]


@pytest.mark.parametrize("seed", range(2))
def test_lost_repeated_and_reordered_deliveries_change_nothing(scenario: Scenario, tmp_path: Path, seed: int):
    rng = random.Random(seed)
    broker = FakeBroker(
        fault=lambda *_: rng.choice(["", "", "", "", "", "lose", "twice", "late"]),
        work=lambda device: rng.uniform(0.01, 0.4),
    )
    fleet = Fleet(scenario, tmp_path, broker, patience=Patience(6, 6, 600.0, 600.0, 600.0))
    assert np.array_equal(fleet.conductor(descent).run(), exact(scenario))
    assert fleet.leftovers() == []


@pytest.mark.parametrize("when", [0.15, 0.25, 0.35, 0.6, 1.2])
def test_a_device_that_is_killed_at_any_stage_and_restarted_goes_on(scenario: Scenario, tmp_path: Path, when: float):
    """And with it the only other holder of its role: without them the run cannot end."""
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    for name in ("device-1", "device-3", "device-5"):
        broker.at(when, partial(fleet.kill, name))
        broker.at(when + 5.0, partial(fleet.start, name))
    assert np.array_equal(fleet.conductor(lambda: descent(20)).run(), exact(scenario, 20))
    assert broker.now > when + 5.0
    assert fleet.leftovers() == []


def test_a_server_killed_anywhere_goes_on_from_its_checkpoint(scenario: Scenario, tmp_path: Path):
    class Killed(Exception):
        pass

    broker, rng, budget, starts = FakeBroker(), random.Random(5), 0, 0
    fleet = Fleet(scenario, tmp_path, broker)

    def tick() -> None:
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise Killed

    broker.tick = tick
    while True:
        budget, starts = rng.randrange(4, 40), starts + 1
        try:
            model = fleet.conductor(lambda: descent(8)).run()
            break
        except Killed:
            pass
    assert starts > 4
    assert np.array_equal(model, exact(scenario, 8))


def test_a_device_that_is_gone_before_it_uploads_is_left_out(scenario: Scenario, tmp_path: Path):
    broker = FakeBroker(work=lambda device: 2.0 if device == "device-4" else 0.05)
    fleet = Fleet(scenario, tmp_path, broker, patience=Patience(6, 6, 600.0, 10.0, 10.0))
    conductor = fleet.conductor(descent)

    def tick() -> None:
        server = conductor.server
        if server is not None and server.agreement is not None and "device-4" in server.unshared:
            fleet.kill("device-4")

    broker.tick = tick
    assert np.array_equal(conductor.run(), exact(scenario, without="device-4"))


def test_a_device_that_uploads_late_is_left_out_at_the_deadline(scenario: Scenario, tmp_path: Path):
    """It is connected all the time."""
    broker = FakeBroker(work=lambda device: 6.0 if device == "device-2" else 0.05)
    patience = Patience(6, 6, 600.0, 300.0, 60.0, upload_seconds=3.0)
    fleet = Fleet(scenario, tmp_path, broker, patience=patience)
    assert np.array_equal(fleet.conductor(descent).run(), exact(scenario, without="device-2"))
    assert fleet.leftovers() == []


def test_a_dead_role_ends_the_run_by_name_with_the_model_so_far(scenario: Scenario, tmp_path: Path):
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    conductor = fleet.conductor(lambda: descent(6))
    role = ["device-1", "device-3", "device-5"]

    def tick() -> None:
        if conductor.server is not None and conductor.server.epoch == 3:
            for name in role:
                if fleet.devices[name] in broker.links:
                    fleet.kill(name)

    broker.tick = tick
    with pytest.raises(NotEnoughDevices, match=r"^epoch 3 needs 2 answers \(one of each role\)") as caught:
        conductor.run()
    assert sorted(caught.value.missing) == role
    assert np.array_equal(caught.value.model, scenario.expected_models(descent(6))[1])
    broker.tick = lambda: None
    for name in role:
        fleet.start(name)
    assert np.array_equal(fleet.conductor(lambda: descent(6)).run(), exact(scenario, 6))
