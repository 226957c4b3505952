"""Programs on this machine, for tests and demonstrations, each with a log; whatever happens, they are ended."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from codedfl.errors import CodedFLError

HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_ENDS_WITH_PARENT = Path(__file__).with_name("ends_with_parent.py")


class LocalPrograms:
    """By name. ``folder`` gets their logs; ``cwd`` and ``environment`` are what they run in."""

    def __init__(self, folder: Path, cwd: Path, environment: Mapping[str, str] | None = None) -> None:
        self._logs = folder / "logs"
        self._cwd = cwd
        self._environment = environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str]) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_ENDS_WITH_PARENT), *command],
                env=self._environment,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C must reach us only: we stop them in order
            )

    def __contains__(self, name: str) -> bool:
        return name in self._processes

    def pid(self, name: str) -> int:
        return self._processes[name].pid

    def ended(self, name: str) -> int | None:
        """The exit code of a program; None while it runs."""
        return self._processes[name].poll()

    def wait_for(self, prefix: str, seconds: float) -> None:
        """Until all programs whose names begin so have ended by themselves, each within ``seconds``."""
        for name in [name for name in self._processes if name.startswith(prefix)]:
            try:
                self._processes[name].wait(seconds)
            except subprocess.TimeoutExpired:
                raise CodedFLError(f"{name} must end with its run, got {self.log_of(name)[-1000:]}") from None
            del self._processes[name]

    def everyone(self) -> list[int]:
        """The processes of all programs, and those that they have started."""
        roots = [process.pid for process in self._processes.values()]
        return [pid for root in roots for pid in (root, *descendants(root))]

    def kill(self, name: str) -> None:
        """As if its plug was pulled: the program and whatever it has started."""
        process = self._processes.pop(name)
        for pid in (process.pid, *descendants(process.pid)):
            send_signal(pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End them all, and what they have started: asked first, and after ten seconds ended."""
        everyone = set(self.everyone())
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in everyone - {process.pid for process in self._processes.values()}:
            send_signal(pid, signal.SIGKILL)
        self._processes.clear()

    def log_of(self, name: str) -> str:
        """What a program has written so far."""
        path = self._logs / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait_for_port(self, name: str, port: int) -> None:
        """Until it listens there."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.ended(name) is None:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    return
            time.sleep(0.05)
        raise CodedFLError(f"{name} must listen on port {port}, got none: {self.log_of(name)[-500:]}")


def free_port() -> int:
    """One that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> list[int]:
    """Processes that this one has started, and theirs; from /proc, so only where there is one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        waiting += (more := children.get(waiting.pop(), []))
        found += more
    return found


def send_signal(pid: int, what: signal.Signals) -> None:
    """Unless it has ended meanwhile."""
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return
