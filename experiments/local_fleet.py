"""A broker, a server and devices on the loopback address, for tests and demonstrations: real programs, TLS throughout.

Nothing listens beyond 127.0.0.1 and nothing needs the network. Everything started here is stopped at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import tomli_w

from codedfl.contract.names import SERVER_NAME
from codedfl.device.membership import TLS_FOLDER
from codedfl.errors import CodedFLError
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import BrokerFolder
from codedfl_lab.training.local_party import local_party
from experiments.local_programs import HOST, LocalPrograms, free_port
from experiments.local_study import LocalStudy

_ROOT = Path(__file__).resolve().parent.parent


class LocalFleet:
    """``with LocalFleet(agree(...)) as fleet: fleet.start_server(); fleet.wait_for_server(60)``.

    Parameters
    ----------
    made: the study, which all devices have approved.
    program: mosquitto or small; empty takes mosquitto where it is installed.
    delays: by device, the arguments of ``experiments.slow_device`` for one that is to be slow.
    patience: how long the server waits for what, by the keys of its file.
    others: by device, the command of another program than ``codedfl site join``; how to reach the broker is appended.
    """

    def __init__(
        self,
        made: LocalStudy,
        *,
        program: str = "",
        delays: Mapping[int, Sequence[str]] | None = None,
        patience: Mapping[str, float] | None = None,
        others: Mapping[int, Sequence[str]] | None = None,
    ) -> None:
        self.made = made
        self.folder = made.folder
        self.output = made.folder / "server"
        self.names = list(made.names)
        self.via: dict[int, int] = {}  # device -> the port it reaches the broker by, if not the broker's own
        self.programs = LocalPrograms(made.folder, _ROOT)
        self._program = program
        self._delays, self._others = delays or {}, others or {}
        self._patience = made.folder / "patience.toml"
        self._patience.write_text(tomli_w.dumps({"join": 60.0, **(patience or {})}))
        self.broker = BrokerFolder.create(made.folder / "broker", [HOST, "localhost"], free_port(), HOST)
        self._addresses: dict[str, BrokerAddress] = {}

    def __enter__(self) -> Self:
        try:
            self.start_broker()
            for index in range(len(self.names)):
                self.start_device(index)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return self.broker.url

    def start_broker(self) -> None:
        self.programs.start("broker", self.broker_command())
        self.programs.wait_for_port("broker", self.broker.port)

    def broker_command(self) -> list[str]:
        command = [*_codedfl(), "broker", "start", str(self.broker.path)]
        return command + (["--program", self._program] if self._program else [])

    def device_command(self, index: int) -> list[str]:
        """``codedfl site join`` for a device."""
        name = self.names[index]
        if index in self._others:
            at = self.address(name)
            access = [
                "--broker",
                str(at),
                "--ca",
                str(at.authority),
                "--cert",
                str(at.certificate),
                "--key",
                str(at.key),
            ]
            return [*self._others[index], *access]
        arguments = [str(self.kit_of(name, self.via.get(index))), "--state", str(self.made.state(name)), "--once"]
        if index in self._delays:
            return [sys.executable, "-m", "experiments.slow_device", *self._delays[index], *arguments]
        return [*_codedfl(), "site", "join", *arguments]

    def start_device(self, index: int) -> None:
        self.programs.start(self.names[index], self.device_command(index))

    def start_server(self) -> None:
        """Start the server, or start it again after it was killed."""
        self.programs.start("server", self.server_command())

    def server_command(self) -> list[str]:
        arguments = [str(self.kit_of(SERVER_NAME)), "--out", str(self.output)]
        arguments += ["--state", str(self.made.server_state), "--patience", str(self._patience)]
        return [*_codedfl(), "server", "run", *arguments]

    def kit_of(self, party: str, port: int | None = None) -> Path:
        """The kit of a party, which reaches the broker by another port where one is given."""
        certificate = self.address(party).certificate
        assert certificate is not None
        at = f"mqtts://{HOST}:{port}" if port else self.url
        return self.made.write_kit(party, at, self.broker.authority, certificate.read_text())

    def address(self, party: str) -> BrokerAddress:
        """How a party of this machine reaches the broker; it is admitted with the first call."""
        if party not in self._addresses:
            state = self.made.server_state if party == SERVER_NAME else self.made.state(party)
            self._addresses[party] = local_party(self.broker, party, state / party / TLS_FOLDER)
        return self._addresses[party]

    def kill(self, name: str) -> None:
        """As if its plug was pulled: broker, server or a device."""
        self.programs.kill(name)

    def ended(self, name: str) -> int | None:
        """The exit code of a program; None while it runs."""
        return self.programs.ended(name)

    def events(self) -> list[dict[str, Any]]:
        """The server's journal so far."""
        try:
            lines = (self.output / "events.jsonl").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines if line.endswith("}")]

    def wait_for(self, what: Callable[[], bool], seconds: float) -> None:
        """Until something holds. It is not waited for if the server has given up."""
        deadline = time.monotonic() + seconds
        while not what():
            if time.monotonic() > deadline or ("server" in self.programs and self.ended("server")):
                raise CodedFLError(f"it must happen within {seconds:g} s, got {self.log_of('server')[-800:]}")
            time.sleep(0.02)

    def wait_for_epoch(self, epoch: int, seconds: float = 60.0) -> None:
        self.wait_for(
            lambda: any(event["event"] == "epoch" and event["epoch"] >= epoch for event in self.events()), seconds
        )

    def wait_for_server(self, seconds: float) -> int:
        """Until the server has ended; returns its exit code."""
        self.wait_for(lambda: self.ended("server") is not None, seconds)
        code = self.ended("server")
        assert code is not None
        return code

    def log_of(self, name: str) -> str:
        return self.programs.log_of(name)

    def secrets_left(self, but: Sequence[int] = ()) -> list[str]:
        """Devices that still have keys of a generation; none when all were told of the end."""
        return self.made.secrets_left([self.names[index] for index in but])

    def stop(self) -> None:
        self.programs.stop()


def _codedfl() -> list[str]:
    return [sys.executable, "-m", "codedfl"]


def memory_and_cpu(pid: int) -> tuple[int, float]:
    """Bytes a process takes now, and seconds of CPU it has used. On Linux only."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")
