"""All parties of a training as processes of this machine, at a broker with TLS; some are late, some are killed.

The calling process is the server. Every device is a process of its own that was given its rows and nobody else's.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from codedfl.contract.names import SERVER_NAME
from codedfl.errors import CodedFLError
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import BrokerFolder, may_publish, may_read
from codedfl.mqtt.small_broker import SmallBroker
from codedfl.solve.solver import Solver
from codedfl.sum.asking import Patience
from codedfl.typing import Floats
from codedfl_lab.parties.making import Parties, TrainingRoster
from codedfl_lab.problems.problem import Problem
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.training.at_broker import join, serve
from codedfl_lab.training.in_process import SERVER, simulated_identity, statistic_of
from codedfl_lab.training.local_party import local_party

_HOST = "127.0.0.1"
_START_SECONDS, _END_SECONDS = 60.0, 10.0
_PATIENCE = Patience(retry=2.0)  # nothing is lost on the way within a machine; whoever is dead is not waited for longer


@dataclass(frozen=True)
class Troubles:
    """What befalls devices.

    late: seconds that each reply of a device is late. killed: who is killed for good when epoch ``in_epoch`` is over.
    """

    late: Mapping[str, float] = field(default_factory=dict)
    killed: tuple[str, ...] = ()
    in_epoch: int = 1


@dataclass(frozen=True, eq=False)
class FinishedProcess:
    """A model, and the seconds on this machine's clock from its first epoch to the end of each."""

    model: Floats
    seconds: tuple[float, ...]
    killed: tuple[str, ...]

    @property
    def per_epoch(self) -> float:
        """Seconds, on average; the first epoch is not timed, as it begins with the sharing phase."""
        return self.seconds[-1] / max(1, len(self.seconds) - 1)


def train_in_processes(
    scheme: CodedScheme, problem: Problem, solver: Solver, troubles: Troubles | None = None
) -> FinishedProcess:
    """Train with one process per device, to the end; everything that was started is stopped.

    Examples
    --------
    Ten devices, of which one replies half a second late and one is killed in epoch 3:
    ``train_in_processes(CodedPadded(4), problem, BlockKrylov(8), Troubles({"device-1": 0.5}, ("device-2",), 3))``.
    ``codedfl lab demo`` is that.
    """
    troubles = troubles or Troubles()
    keys = {name: simulated_identity(name).public for name in problem.device_names}
    statistic = statistic_of(scheme, problem)
    parties = scheme.parties(statistic, TrainingRoster(simulated_identity(SERVER).public, keys))
    ends: list[float] = []
    killed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="codedfl-") as folder, _processes() as started:
        broker = _broker(Path(folder) / "broker", problem.device_names, started)
        for name in problem.device_names:
            rows = problem.rows_of(problem.device_names.index(name))
            own = problem.X[rows], problem.Y[rows]
            started.add(name, _device, parties, name, own, broker[name], troubles.late.get(name, 0.0))

        def on_epoch(epoch: int, _theta: Floats) -> None:
            ends.append(time.monotonic())
            if epoch == troubles.in_epoch:
                for name in troubles.killed:
                    started.kill(name)
                    killed.append(name)

        server = simulated_identity(SERVER)
        model = serve(parties, statistic, solver, server, broker[SERVER_NAME], on_epoch, _PATIENCE)
        started.wait_for(problem.device_names)
    return FinishedProcess(model, tuple(one - ends[0] for one in ends), tuple(killed))


def _broker(folder: Path, names: tuple[str, ...], started: _Processes) -> dict[str, BrokerAddress]:
    """Everybody's way to a broker at a port that the system has chosen."""
    listening, speaking = multiprocessing.Pipe(duplex=False)
    broker = BrokerFolder.create(folder, [_HOST], listen=_HOST)
    started.add("broker", _serve_broker, folder, speaking)
    speaking.close()
    try:
        if listening.poll(_START_SECONDS):
            port = int(listening.recv())
            return {name: local_party(broker, name, folder / "keys" / name, port) for name in (*names, SERVER_NAME)}
    except EOFError:  # its process has ended
        pass
    raise CodedFLError(f"the broker must listen on this machine within {_START_SECONDS:g} s, got no port from it")


# -- what runs in the other processes


def _serve_broker(folder: Path, tell: Connection) -> None:
    async def serve() -> None:
        broker = SmallBroker(may_publish, may_read)
        tell.send(await broker.start(_HOST, 0, BrokerFolder(folder).tls_context()))
        await asyncio.Event().wait()

    asyncio.run(serve())


def _device(
    parties: Parties, name: str, rows: tuple[NDArray[Any], NDArray[Any]], address: BrokerAddress, late: float
) -> None:
    join(parties, name, simulated_identity(name), lambda: rows, address, late)


def _as_a_child(target: Any, *arguments: Any) -> None:
    """Ctrl-C is the parent's, who stops us in order; a parent that is killed takes us along."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for who in ("codedfl", "asyncio"):  # devices that are killed are no news here
        logging.getLogger(who).setLevel(logging.ERROR)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    target(*arguments)


class _Processes:
    """By name."""

    def __init__(self) -> None:
        # A server forked once, with everything loaded, forks the devices: eleven processes start in the time of one.
        # Never from this process itself, whose threads may hold locks.
        method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(method)
        if method == "forkserver":
            self._context.set_forkserver_preload([__name__])
        self._processes: dict[str, BaseProcess] = {}

    def add(self, name: str, target: Any, *arguments: Any) -> None:
        process = self._context.Process(target=_as_a_child, args=(target, *arguments), name=name, daemon=True)
        process.start()
        self._processes[name] = process

    def kill(self, name: str) -> None:
        """As if its plug was pulled."""
        self._processes[name].kill()
        self._processes[name].join()

    def wait_for(self, names: tuple[str, ...]) -> None:
        """Until these have ended by themselves."""
        for name in names:
            self._processes[name].join(_END_SECONDS)

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.join(_END_SECONDS)
            process.kill()


@contextmanager
def _processes() -> Iterator[_Processes]:
    started = _Processes()
    try:
        yield started
    finally:
        started.stop()
