"""The small broker in this process, for tests: in a thread with a loop of its own, TLS on the loopback address."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from codedfl.contract.names import SERVER_NAME
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import BrokerFolder, may_publish, may_read
from codedfl.mqtt.small_broker import SmallBroker
from codedfl_lab.training.local_party import local_party

HOST = "127.0.0.1"


class Parties:
    """The keys and certificates of all parties of a test, each in a folder of its own."""

    def __init__(self, broker: BrokerFolder, folder: Path, names: list[str]) -> None:
        self._broker, self._folder = broker, folder
        self._found = {name: local_party(broker, name, folder / name) for name in names}

    def renew(self, name: str) -> None:
        self._found[name] = local_party(self._broker, name, self._folder / name)

    def address(self, name: str, port: int) -> BrokerAddress:
        return replace(self._found[name], port=port)


class RunningBroker:
    """``with RunningBroker(folder, names) as broker: BrokerLink(broker.address("device-0"), ...)``."""

    def __init__(self, path: Path, devices: list[str]) -> None:
        self.folder = BrokerFolder.create(path, [HOST])
        self._parties = Parties(self.folder, path.with_name(f"{path.name}-parties"), [*devices, SERVER_NAME])
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._broker: SmallBroker | None = None

    def __enter__(self) -> RunningBroker:
        self._thread.start()
        self.start()
        return self

    def start(self) -> None:
        self._broker = SmallBroker(may_publish, may_read)
        coming = self._broker.start(HOST, self.port, self.folder.tls_context())
        self.port = asyncio.run_coroutine_threadsafe(coming, self._loop).result(10)

    def stop(self) -> None:
        if self._broker is not None:
            asyncio.run_coroutine_threadsafe(self._broker.stop(), self._loop).result(10)
            self._broker = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _settle(self) -> None:
        """Let connections that were cut come to their end."""
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    def address(self, party: str) -> BrokerAddress:
        return self._parties.address(party, self.port)

    def renew(self, party: str) -> None:
        """By a request for another key."""
        self._parties.renew(party)
