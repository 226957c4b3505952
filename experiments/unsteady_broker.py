"""A small broker that delivers some messages twice and some late, behind newer ones: for tests.

``python -m experiments.unsteady_broker FOLDER``. Every broker may do the first where messages are confirmed, and with
connections that break some do the second.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

import mqtt5

from codedfl.mqtt.broker_folder import BrokerFolder, may_publish, may_read
from codedfl.mqtt.small_broker import SmallBroker

_TWICE = _LATE = 0.25  # of the messages
_LATE_SECONDS = 0.05  # at most


class UnsteadyBroker(SmallBroker):
    """Retained messages, who is there, come in order: a will behind the next presence would be another device."""

    def __init__(self) -> None:
        super().__init__(may_publish, may_read)
        self._chance = random.Random(1)
        self.twice = self.late = 0

    def _deliver(self, client: Any, packet: mqtt5.PublishPacket, retained: bool = False) -> None:
        deliver = super()._deliver
        if packet.topic in self._retained or retained or not packet.payload:
            deliver(client, packet, retained)
            return
        times = 1 + (self._chance.random() < _TWICE)
        self.twice += times - 1
        for _ in range(times):
            late = self._chance.random() < _LATE
            self.late += late
            seconds = late * self._chance.random() * _LATE_SECONDS
            asyncio.get_running_loop().call_later(seconds, deliver, client, packet)


async def serve(folder: BrokerFolder) -> None:
    broker = UnsteadyBroker()
    await broker.start(folder.listen, folder.port, folder.tls_context())
    while True:
        await asyncio.sleep(0.5)
        print(f"{broker.twice} twice, {broker.late} late", flush=True)


if __name__ == "__main__":
    asyncio.run(serve(BrokerFolder(Path(sys.argv[1]))))
