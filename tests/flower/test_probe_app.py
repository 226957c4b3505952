"""``codedfl fleet probe`` with a stand-in for Flower's program; the real one is in ``test_deployment``."""

from __future__ import annotations

import json
import os
import signal
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from codedfl.cli.app import app
from codedfl.engine.probe import FLEET_LINE, ProbeConfig
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import DeviceClass, Fleet
from codedfl.flower.flwr_program import FlowerFailed, FlowerProgram, flat
from codedfl.flower.probe_app import probe_fleet, write_probe_app

FLEET = Fleet("mine", (DeviceClass("phone", 1, 1e6, 0.5, 2e6, 3e6, 0.0, 0.0),), 1e9)
MEASURED = "phone: 1e+06 MAC/s, up 2e+06 bit/s, down 3e+06 bit/s; a call takes 2.00 s of its own"
GOOD = ["waiting", MEASURED, "tablet cannot be measured: no", FLEET_LINE + json.dumps(FLEET.dumps())]


class StandIn(FlowerProgram):
    """Says the lines of a log; remembers the app's configuration and whether the run was stopped."""

    def __init__(self, lines: list[str], superlink: str = "") -> None:
        super().__init__(superlink)
        self.lines = lines
        self.config: dict[str, Any] = {}
        self.stopped: list[str] = []

    def start_run(self, app: Path, config: Mapping[str, Any], engine: Mapping[str, Any] | None = None) -> str:
        self.config = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
        return "7"

    def follow(self, run: str) -> Iterator[str]:
        for line in self.lines:
            if line == "^C":
                raise KeyboardInterrupt
            yield line

    def stop(self, run: str) -> None:
        self.stopped.append(run)


def test_the_fleet_comes_back_in_the_log():
    flwr, told = StandIn(GOOD), []
    fleet = probe_fleet(flwr, {"devices": 2, "probe-calls": 1}, lambda line, measured: told.append((line, measured)))
    assert fleet == FLEET
    assert told == [(GOOD[1], 1), (GOOD[2], 1)]
    assert flwr.config == {"mode": "probe", "fleet-file": "", "devices": 2, "probe-calls": 1}
    assert ProbeConfig.from_config(flwr.config).file is None


def test_a_device_called_like_the_line_with_the_fleet_is_not_taken_for_it():
    lines = [f'{FLEET_LINE}"x": 1e+06 MAC/s, up', f"{FLEET_LINE}{{}} cannot be measured: no", *GOOD]
    assert probe_fleet(StandIn(lines), {"devices": 2}) == FLEET


def test_a_probe_that_ends_without_a_fleet_says_what_the_log_said_last():
    with pytest.raises(FlowerFailed, match=r"^the probe must end with a fleet, got one / two / three$"):
        probe_fleet(StandIn(["zero", "one", "two", "three"]), {"devices": 2})
    with pytest.raises(FlowerFailed, match="an empty log"):
        probe_fleet(StandIn([]), {"devices": 2})


def test_an_interrupted_probe_is_stopped_on_the_nodes_too():
    flwr = StandIn(["waiting", "^C"])
    with pytest.raises(KeyboardInterrupt):
        probe_fleet(flwr, {"devices": 2})
    assert flwr.stopped == ["7"]


def test_a_bad_configuration_starts_nothing():
    flwr = StandIn(GOOD)
    with pytest.raises(InvalidInput, match=r"^calls of a probe must be at least 1, got 0$"):
        probe_fleet(flwr, {"devices": 2, "probe-calls": 0})
    assert not flwr.config


def test_the_written_app_is_one_that_flower_builds(tmp_path: Path):
    """Flower's own check of an app's folder."""
    from flwr.cli.config_utils import load_and_validate

    config, warnings = load_and_validate(write_probe_app(tmp_path, {"devices": 2}) / "pyproject.toml")
    assert config["tool"]["flwr"]["app"]["config"]["mode"] == "probe"
    assert warnings == []


def test_the_command_writes_the_fleet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("codedfl.flower.flwr_program.FlowerProgram", lambda superlink: StandIn(GOOD, superlink))
    file = tmp_path / "fleet.toml"
    done = CliRunner().invoke(
        app, ["fleet", "probe", "2", "--superlink", "hospital", "--out", str(file)], catch_exceptions=False
    )
    assert done.exit_code == 0
    assert f"wrote {file}: 1 of 2 nodes" in done.stdout
    assert MEASURED in done.stderr
    assert Fleet.load(file) == FLEET


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path):
    done = CliRunner().invoke(app, ["fleet", "probe", "2", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert done.stderr == f"error: --out must be a file that can be written, got {str(tmp_path)!r}\n"


def test_values_travel_as_toml():
    assert flat({"a": 1, "b": "two words", "c": True, "d": 0.5}) == 'a=1 b="two words" c=true d=0.5'
    with pytest.raises(ValueError, match="Invalid"):
        flat({"a": None})


DEFAULT = '[superlink]\ndefault = "local"\n\n[superlink.local]\naddress = ":local:"\n\n'
REAL = '[superlink.hospital]\naddress = "10.0.0.1:8000"\n'


@pytest.mark.parametrize(
    ("config", "superlink", "simulates"),
    [
        (None, "", True),
        (None, "hospital", False),  # Flower says that it does not know it
        (DEFAULT + REAL, "", True),
        (DEFAULT + REAL, "local", True),
        (DEFAULT + REAL, "hospital", False),
        (REAL, "", True),
        ("no TOML at all [", "hospital", False),
        ('[superlink]\ndefault = "hospital"\n' + REAL, "", False),
    ],
)
def test_flower_s_simulation_is_told_from_a_superlink(
    config: str | None, superlink: str, simulates: bool, tmp_path: Path
):
    if config is not None:
        (tmp_path / "config.toml").write_text(config)
    assert FlowerProgram(superlink, FLWR_HOME=str(tmp_path)).simulates_here is simulates


def test_a_probe_without_a_superlink_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Flower would start a SuperLink of its own in the background, simulate nodes, and leave it running."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flwr"))
    monkeypatch.setattr(FlowerProgram, "start_run", lambda *_: pytest.fail("something was started"))
    done = CliRunner().invoke(app, ["fleet", "probe", "3", "--out", str(tmp_path / "fleet.toml")])
    assert done.exit_code == 2
    assert done.stderr == (
        "error: --superlink must name a connection to a SuperLink with nodes to measure, got 'none', for which Flower"
        " simulates nodes on this machine: add the SuperLink to Flower's configuration (docs/deploy.md, section 2)\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_terminated_probe_stops_its_run_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stopped: list[str] = []

    def lines(_program: FlowerProgram, _run: str) -> Iterator[str]:
        yield "waiting"
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5.0)
        yield "the signal was lost"

    monkeypatch.setattr(FlowerProgram, "start_run", lambda *_: "7")
    monkeypatch.setattr(FlowerProgram, "follow", lines)
    monkeypatch.setattr(FlowerProgram, "stop", lambda _program, run: stopped.append(run))
    before = signal.getsignal(signal.SIGTERM)
    done = CliRunner().invoke(
        app, ["fleet", "probe", "3", "--superlink", "hospital", "--out", str(tmp_path / "fleet.toml")]
    )
    assert done.exit_code != 0 and stopped == ["7"]
    assert signal.getsignal(signal.SIGTERM) is before
