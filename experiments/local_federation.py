"""A federation on one machine, for tests and demonstrations: a SuperLink and its SuperNodes on the loopback address.

Real programs, TLS and SuperNode authentication as on real machines; nothing listens beyond 127.0.0.1 and nothing needs
the network. Everything started here, and whatever that starts, is stopped at the end.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from codedfl.flower.certificates import make_certificate, make_node_key
from experiments.flwr_program import FlowerProgram, flat
from experiments.local_programs import HOST, LocalPrograms, descendants, free_port, send_signal


class LocalFederation:
    """``with LocalFederation(folder, node_configs) as federation: federation.flwr.start_run(app, config)``.

    node_configs: one per SuperNode, what ``--node-config`` gets. Empty makes a SuperLink for the simulation engine.
    """

    def __init__(self, folder: Path, node_configs: Sequence[Mapping[str, Any]]) -> None:
        self.folder = folder
        self._configs = list(node_configs)
        self._port = free_port()
        self._ports = [free_port() for _ in node_configs]
        # A SuperNode looks once a second whether it has a process to start, unless told to look more often.
        self.flwr = FlowerProgram(
            FLWR_HOME=str(folder / "flwr"),
            FLWR_SUPEREXEC_TASK_POLL_INTERVAL="0.2",
            XDG_STATE_HOME=str(folder / "state"),  # keys of the server and of virtual nodes
        )
        self._programs = LocalPrograms(folder, folder, self.flwr.environment)

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
        self._programs.start("superlink", command)
        self._programs.wait_for_port("superlink", self._port)

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
        self._programs.start(f"node-{index}", command)

    def kill_node(self, index: int) -> None:
        """As if its plug was pulled: the SuperNode and whatever it has started."""
        self._programs.kill(f"node-{index}")

    def node_runs(self, index: int) -> bool:
        name = f"node-{index}"
        return name in self._programs and self._programs.ended(name) is None

    def kill_server_app(self) -> None:
        """End the process of the server app as a power cut would; the SuperLink goes on."""
        for pid in descendants(self._programs.pid("superlink")):
            if b"flwr-serverapp" in _command_line(pid):
                send_signal(pid, signal.SIGKILL)

    def log_of(self, name: str) -> str:
        """What a program (superlink, node-0, ...) has written so far."""
        return self._programs.log_of(name)

    def memory(self) -> int:
        """Bytes that all programs of the federation take now, what they share counted once. On Linux only."""
        return sum(map(_proportional_bytes, self._programs.everyone()))

    def stop(self) -> None:
        """End all processes started here."""
        self._programs.stop()


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
