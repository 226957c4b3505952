"""Flower's own command line as a program beside this one: start a run, follow its log, ask how it went."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from codedfl.errors import CodedFLError

_CALL_SECONDS = 120.0
_SIMULATION_HERE = ":local:"  # Flower's name for it in place of an address
_COLOURED_LEVEL = re.compile(r"^\x1b\[\d+m\w+ *\x1b\[0m *: *")
# Flower would look for newer versions of itself and report usage.
_OFFLINE = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "RAY_USAGE_STATS_ENABLED": "0"}


class FlowerFailed(CodedFLError):
    """A program of Flower did not start, ended, or refused; the message has the end of what it said."""


class FlowerProgram:
    """``flwr``, with the environment it needs to be found and to stay off the network.

    superlink: the name of a connection in Flower's configuration; empty takes its default.
    """

    def __init__(self, superlink: str = "", **environment: str) -> None:
        self._superlink = [superlink] if superlink else []
        programs = str(Path(sys.executable).parent)
        path = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
        self.environment = {**os.environ, **_OFFLINE, "PATH": path, **environment}

    @property
    def simulates_here(self) -> bool:
        """Whether runs go to a simulation that Flower starts on this machine, as long as nobody has told it better.

        It starts programs in the background for that, and leaves them running.
        """
        home = self.environment.get("FLWR_HOME") or Path.home() / ".flwr"
        try:
            connections = tomllib.loads((Path(home) / "config.toml").read_text(encoding="utf-8"))["superlink"]
            named = connections[self._superlink[0] if self._superlink else connections["default"]]
            return bool(named["address"] == _SIMULATION_HERE)
        except (OSError, ValueError, KeyError, TypeError):
            return not self._superlink  # without a configuration Flower writes one that simulates; else it complains

    def start_run(self, app: Path, config: Mapping[str, Any], engine: Mapping[str, Any] | None = None) -> str:
        """``flwr run``; returns Flower's number of the run. ``engine`` configures the simulation engine."""
        command = ["flwr", "run", str(app), *self._superlink, "--format", "json"]
        if config:
            command += ["--run-config", flat(config)]
        if engine:
            command += ["--federation-config", flat(engine)]
        told = self.call(command)
        found = json.loads(told[told.index("{") :])
        if not found["success"]:
            raise FlowerFailed(f"flwr run must accept the app, got {found['error-message'].strip()}")
        return str(found["run-id"])

    def follow(self, run: str) -> Iterator[str]:
        """The server app's log, line by line as it comes, until the run ends; Flower's colours are taken off."""
        command = ["flwr", "log", run, *self._superlink, "--stream"]
        with subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as log:
            assert log.stdout is not None
            try:
                for line in log.stdout:
                    yield _COLOURED_LEVEL.sub("", line).strip()
            finally:
                log.kill()

    def status(self, run: str) -> str:
        """Such as running, finished:completed, finished:failed."""
        return str(self._listed(run)["status"])

    def traffic(self, run: str) -> int:
        """Bytes between the SuperLink and the SuperNodes so far, both ways, as Flower counts them."""
        return int(self._listed(run)["network-traffic"]["total-bytes"])

    def stop(self, run: str) -> None:
        self.call(["flwr", "stop", run, *self._superlink])

    def _listed(self, run: str) -> dict[str, Any]:
        told = self.call(["flwr", "ls", *self._superlink, "--run-id", run, "--format", "json"])
        found: dict[str, Any] = json.loads(told)["runs"][0]
        return found

    def call(self, command: list[str]) -> str:
        """Run a program to its end; returns what it printed."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, timeout=_CALL_SECONDS
        )
        if done.returncode:
            told = done.stdout[-500:] + done.stderr[-500:]
            raise FlowerFailed(f"{Path(command[0]).name} {command[1]} must succeed, got {told}")
        return done.stdout


def flat(config: Mapping[str, Any]) -> str:
    """As ``--run-config`` and ``--node-config`` want it: key=value pairs, values as in TOML."""
    pairs = [f"{key}={json.dumps(value)}" for key, value in config.items()]
    for pair in pairs:
        tomllib.loads(pair)  # a value that TOML cannot hold is refused here, with its name
    return " ".join(pairs)
