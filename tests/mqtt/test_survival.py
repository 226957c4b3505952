"""Nightly: real programs killed at every stage, on both brokers. The model is the in-process one, secrets are wiped."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from experiments.cutting_relay import CuttingRelay
from experiments.federation import app_config, local_parts
from experiments.local_fleet import LocalFleet

from codedfl.data.model import TrainedModel
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.run_config import RunConfig
from codedfl.mqtt.broker_folder import MOSQUITTO, SMALL, BrokerFolder

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("mqtt")]

DEVICES = 4


@pytest.fixture(params=[SMALL, MOSQUITTO])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == MOSQUITTO and BrokerFolder.create(tmp_path / "probe", ["h"], []).program() != MOSQUITTO:
        pytest.skip("mosquitto is not installed")
    return str(request.param)


def survives(
    tmp_path: Path,
    program: str,
    trouble: Callable[[LocalFleet], None] = lambda _: None,
    fleet_type: type[LocalFleet] = LocalFleet,
    **changes: object,
) -> LocalFleet:
    """A run that ends with the model of the in-process one, whatever the trouble, and leaves no secrets."""
    settings = {"devices": DEVICES, "scheme": "coded-keys", "alpha": 1, "epochs": 10, "n_features": 300} | changes
    config = app_config(**settings, output_dir=str(tmp_path / "none"))
    parts = local_parts(config, DEVICES)
    slow = {3: ["--delay", "0.15"]}
    with fleet_type(tmp_path / "fleet", config, parts, program=program, delays=slow) as fleet:
        fleet.start_server()
        trouble(fleet)
        assert fleet.wait_for_server(120.0) == 0, fleet.log_of("server")
        fleet.wait_for(lambda: all(fleet.ended(name) == 0 for name in fleet.names), 15.0)
        assert fleet.secrets_left() == []
    model = TrainedModel.load(fleet.output / "model.safetensors")
    assert np.array_equal(model.theta, rehearse(RunConfig.from_config(config), parts))
    return fleet


def restart_broker(fleet: LocalFleet) -> None:
    fleet.kill("broker")
    fleet.start_broker()


def seen(fleet: LocalFleet, event: str, count: int = 1) -> Callable[[], bool]:
    return lambda: sum(one["event"] == event for one in fleet.events()) >= count


def test_the_broker_is_killed_while_devices_upload(tmp_path: Path, program: str):
    """d = 1000: uploads of 3 MB in 12 pieces. Those that are not through go on."""

    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for(seen(fleet, "uploaded"), 60.0)
        restart_broker(fleet)

    survives(tmp_path, program, trouble, n_features=1000, epochs=4)


def test_the_broker_is_killed_twice_while_training(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        for epoch in (2, 5):
            fleet.wait_for_epoch(epoch)
            restart_broker(fleet)

    survives(tmp_path, program, trouble)


def test_the_server_is_killed_in_both_phases(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for(seen(fleet, "phase", 2), 60.0)  # the participants are fixed
        fleet.kill("server")
        fleet.start_server()
        fleet.wait_for_epoch(4)
        fleet.kill("server")
        fleet.start_server()

    fleet = survives(tmp_path, program, trouble)
    assert fleet.log_of("server").count("goes on from its checkpoint") == 2


def test_devices_are_killed_in_both_phases(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for(seen(fleet, "phase", 2), 60.0)
        fleet.kill("device-2")
        fleet.start_device(2)
        fleet.wait_for_epoch(3)
        for index in (0, 1):
            fleet.kill(fleet.names[index])
            fleet.start_device(index)

    survives(tmp_path, program, trouble)


def test_the_padded_scheme_survives_a_broker_that_is_killed_in_phase_1(tmp_path: Path, program: str):
    """Bulk goes down as well: from device to device, relayed."""

    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for(seen(fleet, "uploaded", 2), 60.0)
        restart_broker(fleet)

    survives(tmp_path, program, trouble, scheme="coded-padded", alpha=2, n_features=800, epochs=4)


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

    fleet = survives(tmp_path, program, fleet_type=BehindARelay, n_features=1000, epochs=4)
    assert isinstance(fleet, BehindARelay)
    assert fleet.relay.made == 2
    assert fleet.log_of("device-2").count("the connection to the broker") == 2


def test_a_device_that_moves_to_another_address_goes_on(tmp_path: Path, program: str):
    def trouble(fleet: LocalFleet) -> None:
        with CuttingRelay(fleet.broker.port) as relay:
            fleet.wait_for(seen(fleet, "phase", 2), 60.0)
            for index, epoch in ((1, 3), (2, 5)):
                fleet.kill(fleet.names[index])
                fleet.via[index] = relay.port
                fleet.start_device(index)
                fleet.wait_for_epoch(epoch)
            fleet.wait_for(lambda: fleet.ended("server") is not None, 120.0)

    survives(tmp_path, program, trouble)


def test_deliveries_that_come_twice_or_late_change_nothing(tmp_path: Path):
    class Unsteady(LocalFleet):
        def broker_command(self) -> list[str]:
            return [sys.executable, "-m", "experiments.unsteady_broker", str(self.broker.path)]

    fleet = survives(tmp_path, SMALL, fleet_type=Unsteady, n_features=1000)
    twice, late = re.findall(r"(\d+) twice, (\d+) late", fleet.log_of("broker"))[-1]
    assert int(twice) > 20
    assert int(late) > 20


def test_a_device_whose_clock_is_wrong_changes_nothing(tmp_path: Path, program: str):
    config = app_config(
        devices=DEVICES, scheme="coded-keys", alpha=1, epochs=4, n_features=60, output_dir=str(tmp_path / "none")
    )
    parts = local_parts(config, DEVICES)
    wrong = {1: ["--clock", "-10000000"], 2: ["--clock", "10000000"]}
    with LocalFleet(tmp_path / "fleet", config, parts, program=program, delays=wrong) as fleet:
        fleet.start_server()
        assert fleet.wait_for_server(60.0) == 0, fleet.log_of("server")
    model = TrainedModel.load(fleet.output / "model.safetensors")
    assert np.array_equal(model.theta, rehearse(RunConfig.from_config(config), parts))


def test_a_stranger_with_anothers_certificate_ends_with_one_line(tmp_path: Path, program: str):
    """device-1's certificate does not let anybody in as device-0, at either broker; the run is not disturbed."""
    lines: list[str] = []

    def trouble(fleet: LocalFleet) -> None:
        fleet.wait_for_epoch(2)
        command = fleet.device_command(0, party="device-1")
        command[command.index("--state") + 1] = str(tmp_path / "stranger")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        lines.extend(line for line in done.stderr.splitlines() if line.startswith("error: "))

    survives(tmp_path, program, trouble, epochs=30, solver="gd")
    (line,) = lines
    assert "must let this party" in line
