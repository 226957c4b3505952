"""A federation on one machine, for tests and demonstrations: a SuperLink and its SuperNodes on the loopback address.

Real programs, TLS and SuperNode authentication as on real machines; nothing listens beyond 127.0.0.1 and nothing needs
the network. Everything started here, and whatever that starts, is stopped at the end.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from codedfl.engine.certificates import make_certificate, make_node_key
from codedfl.flower.flwr_program import FlowerFailed, FlowerProgram, flat

HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


class LocalFederation:
    """``with LocalFederation(folder, node_configs) as federation: federation.flwr.start_run(app, config)``.

    node_configs: one per SuperNode, what ``--node-config`` gets. Empty makes a SuperLink for the simulation engine.
    """

    def __init__(self, folder: Path, node_configs: Sequence[Mapping[str, Any]]) -> None:
        self.folder = folder
        self._configs = list(node_configs)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []
        self._port = _free_port()
        self._ports = [_free_port() for _ in node_configs]
        # A SuperNode looks once a second whether it has a process to start, unless told to look more often.
        self.flwr = FlowerProgram(
            FLWR_HOME=str(folder / "flwr"),
            FLWR_SUPEREXEC_TASK_POLL_INTERVAL="0.2",
            XDG_STATE_HOME=str(folder / "state"),  # keys of the server and of virtual nodes
        )

    @property
    def simulates(self) -> bool:
        return not self._configs

    def __enter__(self) -> LocalFederation:
        try:
            self._start_superlink()
            self._register_nodes()
            for index in range(len(self._configs)):
                self.start_node(index)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start_superlink(self) -> None:
        home = self.folder / "flwr"
        home.mkdir(parents=True, exist_ok=True)
        command = ["flower-superlink", "--host", HOST, "--port", str(self._port)]
        command += ["--database", str(self.folder / "superlink.db"), "--disable-runtime-dependency-installation"]
        connection = [f'address = "{HOST}:{self._port}"']
        if self.simulates:
            command += ["--simulation", "--insecure"]
            connection += ["insecure = true"]
        else:
            made = make_certificate(self.folder / "certificates", [HOST, "localhost"])
            command += ["--ssl-ca-certfile", str(made.authority), "--ssl-certfile", str(made.certificate)]
            command += ["--ssl-keyfile", str(made.key), "--enable-supernode-auth"]
            connection += [f'root-certificates = "{made.authority}"']
        lines = ["[superlink]", 'default = "here"', "", "[superlink.here]", *connection]
        (home / "config.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self._start("superlink", command)
        self._wait_for_port("superlink", self._port)

    def _register_nodes(self) -> None:
        """``flwr supernode register`` for each key, in one process: the program takes seconds to start."""
        folder = self.folder / "node-keys"
        keys = [f"{make_node_key(folder, f'node-{index}')}.pub" for index in range(len(self._configs))]
        register = "app(['supernode', 'register', key], standalone_mode=False)"
        code = f"import sys\nfrom flwr.cli.app import app\nfor key in sys.argv[1:]:\n    {register}\n"
        if keys:
            self.flwr.call([sys.executable, "-c", code, *keys])

    def start_node(self, index: int) -> None:
        """Start a SuperNode, or start it again after ``kill_node``."""
        command = ["flower-supernode", "--superlink", f"{HOST}:{self._port}"]
        command += ["--root-certificates", str(self.folder / "certificates" / "ca.pem")]
        command += ["--auth-supernode-private-key", str(self.folder / "node-keys" / f"node-{index}")]
        command += ["--host", HOST, "--port", str(self._ports[index])]
        command += ["--node-config", flat(self._configs[index])]
        self._start(f"node-{index}", command)

    def kill_node(self, index: int) -> None:
        """As if its plug was pulled: the SuperNode and whatever it has started."""
        process = self._processes.pop(f"node-{index}")
        for pid in [process.pid, *_descendants(process.pid)]:
            _signal(pid, signal.SIGKILL)
        process.wait()

    def node_runs(self, index: int) -> bool:
        process = self._processes.get(f"node-{index}")
        return process is not None and process.poll() is None

    def kill_server_app(self) -> None:
        """End the process of the server app as a power cut would; the SuperLink goes on."""
        for pid in _descendants(self._processes["superlink"].pid):
            if b"flwr-serverapp" in _command_line(pid):
                _signal(pid, signal.SIGKILL)

    def log_of(self, name: str) -> str:
        """What a program (superlink, node-0, ...) has written so far."""
        return (self.folder / "logs" / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def memory(self) -> int:
        """Bytes that all programs of the federation take now, what they share counted once. On Linux only."""
        roots = [process.pid for process in self._processes.values()]
        return sum(_proportional_bytes(pid) for root in roots for pid in (root, *_descendants(root)))

    def stop(self) -> None:
        """End all processes started here: asked first, and after ten seconds ended."""
        started = {process.pid: name for name, process in self._processes.items()}
        everyone = {pid for root in started for pid in (root, *_descendants(root))}
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in everyone - set(started):
            _signal(pid, signal.SIGKILL)
        self._processes.clear()
        for log in self._logs:
            log.close()
        self._logs.clear()

    # -- programs

    def _start(self, name: str, command: list[str]) -> None:
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        log = (logs / f"{name}.log").open("ab")
        self._logs.append(log)
        self._processes[name] = subprocess.Popen(
            command,
            env=self.flwr.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C must reach us only: we stop them in order
            preexec_fn=_end_with_parent,
        )

    def _wait_for_port(self, name: str, port: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._processes[name].poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    return
            time.sleep(0.1)
        raise FlowerFailed(f"{name} must listen on port {port}, got none: {self.log_of(name)[-500:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _end_with_parent() -> None:
    """In a new process: let the system end it when its parent is killed and cannot do so itself. On Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
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


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def _proportional_bytes(pid: int) -> int:
    try:
        found = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    except OSError:  # it has ended meanwhile
        return 0
    return 1024 * int(found[1]) if found else 0


def _signal(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return
