"""Nightly: real programs killed at every stage, on both brokers. The model is the rehearsal's, keys are gone."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.cutting_relay import CuttingRelay
from experiments.local_fleet import LocalFleet
from experiments.local_study import agree, digits_study, digits_tables

from codedfl.data.model import TrainedModel
from codedfl.mqtt.broker_folder import MOSQUITTO, SMALL, BrokerFolder
from codedfl.run.serving import REPLIES_FILE

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("mqtt")]

DEVICES = 4


@pytest.fixture(params=[SMALL, MOSQUITTO])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == MOSQUITTO and BrokerFolder.create(tmp_path / "probe", ["h"]).program() != MOSQUITTO:
        pytest.skip("mosquitto is not installed")
    return str(request.param)


def survives(
    tmp_path: Path,
    program: str,
    trouble: Callable[[LocalFleet], None] = lambda _: None,
    fleet_type: type[LocalFleet] = LocalFleet,
    delays: dict[int, list[str]] | None = None,
    **changes: Any,
) -> LocalFleet:
    """A study that ends with the model of its rehearsal, whatever the trouble, and leaves no keys."""
    settings = {"epochs": 10, "features": 300} | changes
    made = agree(tmp_path / "fleet", digits_study(2048, **settings), digits_tables(DEVICES))
    slow = {index: ["--delay", "0.1"] for index in range(DEVICES)}
    with fleet_type(made, program=program, delays=delays or slow) as fleet:
        fleet.start_server()
        trouble(fleet)
        assert fleet.wait_for_server(120.0) == 0, fleet.log_of("server")
        fleet.wait_for(lambda: all(fleet.ended(name) == 0 for name in fleet.names), 15.0)
        assert fleet.secrets_left() == []
    model = TrainedModel.load(fleet.output / "model.safetensors")
    assert np.array_equal(model.theta, made.rehearsed().findings.model.theta)
    return fleet


def restart_broker(fleet: LocalFleet) -> None:
    fleet.kill("broker")
    fleet.start_broker()


def seen(fleet: LocalFleet, event: str, count: int = 1, **fields: str) -> Callable[[], bool]:
    """So many events of a kind since the training began."""

    def found() -> bool:
        events = fleet.events()
        stages = [one.get("stage") for one in events]
        after = events[stages.index("products") :] if "products" in stages else []
        return sum(one["event"] == event and fields.items() <= one.items() for one in after) >= count

    return found


def test_the_broker_is_killed_while_devices_upload(tmp_path: Path, program: str):
    """d = 1000: uploads of 3 MB in 31 pieces. Those that are not through go on."""

    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for(seen(fleet, "uploaded"), 60.0)
        restart_broker(fleet)

    survives(tmp_path, program, trouble, features=1000, epochs=4)


def test_the_broker_is_killed_twice_while_training(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        for epoch in (2, 5):
            fleet.wait_for_epoch(epoch)
            restart_broker(fleet)

    survives(tmp_path, program, trouble)


def test_the_server_is_killed_in_both_phases(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for(seen(fleet, "uploaded"), 60.0)
        fleet.kill("server")
        fleet.start_server()
        fleet.wait_for_epoch(4)
        fleet.kill("server")
        fleet.start_server()

    survives(tmp_path, program, trouble)


def test_the_server_is_killed_and_its_cache_is_deleted(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for_epoch(4)
        fleet.kill("server")
        for path in fleet.output.glob(f"{REPLIES_FILE}*"):
            path.unlink()
        fleet.start_server()

    survives(tmp_path, program, trouble)


@pytest.mark.parametrize("seed", range(3))
def test_anybody_is_killed_at_random_moments(tmp_path: Path, program: str, seed: int):
    rng, killed = random.Random(seed), 0

    def trouble(fleet: LocalFleet) -> None:
        nonlocal killed
        while fleet.ended("server") is None and killed < 30:
            time.sleep(rng.uniform(0.0, 1.0))
            index = rng.randrange(DEVICES + 1)
            if index == DEVICES and fleet.ended("server") is None:
                fleet.kill("server")
                fleet.start_server()
            elif index < DEVICES and fleet.ended(fleet.names[index]) is None:
                fleet.kill(fleet.names[index])
                fleet.start_device(index)
            killed += 1

    survives(tmp_path, program, trouble)
    assert killed > 3


def test_devices_are_killed_in_both_phases(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for(seen(fleet, "uploaded"), 60.0)
        fleet.kill("device-2")
        fleet.start_device(2)
        fleet.wait_for_epoch(3)
        for index in (0, 1):
            fleet.kill(fleet.names[index])
            fleet.start_device(index)

    survives(tmp_path, program, trouble)


def test_everybody_is_killed_while_rows_are_counted(tmp_path: Path, program: str):
    """Before the training: the first total of the study is under way."""

    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for(lambda: any(one["event"] == "state" for one in fleet.events()), 60.0)
        for index, name in enumerate(fleet.names):
            fleet.kill(name)
            fleet.start_device(index)
        fleet.kill("server")
        fleet.start_server()

    survives(tmp_path, program, trouble, epochs=4)


def test_a_connection_that_is_cut_in_the_middle_of_an_upload_goes_on(tmp_path: Path, program: str):
    """d = 1000: 3 MB. Cut after half of it, and again after as much of the rest: it would never end from the start."""

    class BehindARelay(LocalFleet):
        def start_broker(self) -> None:
            super().start_broker()
            self.relay = CuttingRelay(self.broker.port, cuts=[1_500_000, 1_500_000])
            self.via = {2: self.relay.port}

        def stop(self) -> None:
            super().stop()
            self.relay.close()

    fleet = survives(tmp_path, program, fleet_type=BehindARelay, features=1000, epochs=4)
    assert isinstance(fleet, BehindARelay)
    assert fleet.relay.made == 2
    assert fleet.log_of("device-2").count("the connection to the broker") == 2


def test_a_device_that_moves_to_another_address_goes_on(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        with CuttingRelay(fleet.broker.port) as relay:
            fleet.wait_for(seen(fleet, "uploaded"), 60.0)
            for index, epoch in ((1, 3), (2, 5)):
                fleet.kill(fleet.names[index])
                fleet.via[index] = relay.port
                fleet.start_device(index)
                fleet.wait_for_epoch(epoch)
            fleet.wait_for(lambda: all(fleet.ended(name) == 0 for name in fleet.names), 120.0)

    survives(tmp_path, program, trouble)


def test_deliveries_that_come_twice_or_late_change_nothing(tmp_path: Path):
    class Unsteady(LocalFleet):
        def broker_command(self) -> list[str]:
            return [sys.executable, "-m", "experiments.unsteady_broker", str(self.broker.path)]

    fleet = survives(tmp_path, SMALL, fleet_type=Unsteady, features=1000)
    twice, late = re.findall(r"(\d+) twice, (\d+) late", fleet.log_of("broker"))[-1]
    assert int(twice) > 20
    assert int(late) > 20


def test_a_device_whose_clock_is_wrong_changes_nothing(tmp_path: Path, program: str):
    wrong = {1: ["--clock", "-10000000"], 2: ["--clock", "10000000"]}
    survives(tmp_path, program, delays=wrong, epochs=4, features=60)


def test_a_stranger_with_anothers_kit_ends_with_one_line(tmp_path: Path, program: str):
    """device-1's certificate does not let anybody in as device-0; the run is not disturbed."""
    lines: list[str] = []

    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for_epoch(2)
        command = fleet.device_command(0)
        text = fleet.made.kit_file("device-0").read_text()
        own, others = (fleet.address(f"device-{i}").certificate.read_text() for i in range(2))
        stolen = tmp_path / "stolen.kit"
        stolen.write_text(text.replace(own, others))
        command[command.index(str(fleet.made.kit_file("device-0")))] = str(stolen)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        lines.extend(line for line in done.stderr.splitlines() if line.startswith("error: "))

    survives(tmp_path, program, trouble, epochs=30, solver="gd")
    assert lines == ["error: the certificate of the kit must name 'device-0', got 'device-1'"]
