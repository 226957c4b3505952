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

import numpy as np
import tomli_w

from codedfl.engine.keys import load_identity, save_roster
from codedfl.errors import CodedFLError
from codedfl.mqtt.broker_folder import SERVER_NAME, BrokerFolder
from experiments.local_programs import HOST, LocalPrograms, free_port

_ROOT = Path(__file__).resolve().parent.parent


class LocalFleet:
    """``with LocalFleet(folder, config, parts) as fleet: fleet.start_server(); fleet.wait_for_server(60)``.

    Parameters
    ----------
    config: the study, flat as in its file.
    parts: each device's raw rows and labels.
    program: mosquitto or small; empty takes mosquitto where it is installed.
    pinned: whether server and devices have a roster of everybody's keys.
    delays: by device, the arguments of ``experiments.slow_device`` for one that is to be slow.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        parts: Sequence[tuple[Any, Any]],
        *,
        program: str = "",
        delays: Mapping[int, Sequence[str]] | None = None,
        pinned: bool = True,
    ) -> None:
        self.folder = folder
        self.output = folder / "server"
        self.study = folder / "study.toml"
        self._program = program
        self._delays = delays or {}
        self.via: dict[int, int] = {}  # device -> the port it reaches the broker by, if not the broker's own
        self.programs = LocalPrograms(folder, _ROOT)
        self.names = [f"device-{i}" for i in range(len(parts))]
        folder.mkdir(parents=True, exist_ok=True)
        shown = {key: value for key, value in config.items() if key != "output-dir"}
        shown["server-key-file"] = str(folder / "server-key" / "server.key")
        if pinned:
            shown["roster"] = str(folder / "roster.toml")
        self.study.write_text(tomli_w.dumps(shown), encoding="utf-8")
        # Small models, many epochs: more directions of X'X than it has.
        (folder / "policy.toml").write_text("allow-gram = true\n")
        for name, (X, y) in zip(self.names, parts, strict=True):
            np.savez(folder / f"{name}.npz", X=X, label=y)
        if pinned:
            keys = [folder / f"state-{i}" / name / "device.key" for i, name in enumerate(self.names)]
            publics = [load_identity(path).public for path in keys]
            save_roster(dict(zip(self.names, publics, strict=True)), folder / "roster.toml")
        self.broker = BrokerFolder.create(folder / "broker", [HOST, "localhost"], self.names, free_port(), HOST)

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
        return f"mqtts://{HOST}:{self.broker.port}"

    def start_broker(self) -> None:
        self.programs.start("broker", self.broker_command())
        self.programs.wait_for_port("broker", self.broker.port)

    def broker_command(self) -> list[str]:
        command = [*_codedfl(), "broker", "start", str(self.broker.path)]
        return command + (["--program", self._program] if self._program else [])

    def device_command(self, index: int, party: str = "") -> list[str]:
        """``codedfl join`` for a device; with ``party`` under another's certificate."""
        name = self.names[index]
        arguments = [str(self.study), "--table", str(self.folder / f"{name}.npz"), "--name", name, "--once"]
        arguments += ["--policy", str(self.folder / "policy.toml"), "--roster", str(self.folder / "roster.toml")]
        arguments += ["--state", str(self.folder / f"state-{index}"), *self._access(party or name, self.via.get(index))]
        if index in self._delays:
            return [sys.executable, "-m", "experiments.slow_device", *self._delays[index], *arguments]
        return [*_codedfl(), "join", *arguments]

    def start_device(self, index: int) -> None:
        self.programs.start(self.names[index], self.device_command(index))

    def start_server(self) -> None:
        """Start the server, or start it again after it was killed."""
        self.programs.start("server", self.server_command())

    def server_command(self) -> list[str]:
        return [*_codedfl(), "serve", str(self.study), "--out", str(self.output), *self._access(SERVER_NAME)]

    def _access(self, party: str, port: int | None = None) -> list[str]:
        files = self.broker.party(party)
        access = ["--broker", f"mqtts://{HOST}:{port}" if port else self.url, "--ca", str(files.authority)]
        return [*access, "--cert", str(files.certificate), "--key", str(files.key)]

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

    def secrets_left(self, but: Sequence[int] = ()) -> list[Path]:
        """Files of runs on the devices; empty when all were told of the end."""
        kept = [i for i in range(len(self.names)) if i not in but]
        return [path for i in kept for path in self.folder.glob(f"state-{i}/*/runs/*/*")]

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
