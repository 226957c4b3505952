"""The parties of a training as processes at a broker: what ``join`` and ``serve`` are to a study, for any scheme."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from codedfl.contract.names import SERVER_NAME
from codedfl.crypto.sealed import Identity
from codedfl.engines import mqtt_device
from codedfl.engines.mqtt_server import MqttEngine
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import BrokerLink
from codedfl.mqtt.topics import level_of
from codedfl.solve.solver import Solver
from codedfl.sum.asking import Patience
from codedfl.sum.in_memory import InMemory
from codedfl.typing import Floats
from codedfl_lab.parties.making import Parties, Rows
from codedfl_lab.parties.statistic import RowsStatistic
from codedfl_lab.training.train import train

_FAREWELL_SECONDS = 5.0


def join(parties: Parties, name: str, identity: Identity, rows: Rows, address: BrokerAddress, delay: float = 0) -> None:
    """Answer until the server says that it is over; ``delay``: seconds that every reply is late."""
    device = parties.device(name, identity, rows, InMemory(), now=time.time, random_bytes=secrets.token_bytes)

    def answer(request: bytes) -> bytes:
        time.sleep(delay)
        return device.reply(request)

    mqtt_device.serve({parties.terms.study: answer}, address, name, until=lambda one: one.all_over)


def serve(
    parties: Parties,
    statistic: RowsStatistic,
    solver: Solver,
    identity: Identity,
    address: BrokerAddress,
    on_epoch: Callable[[int, Floats], None] = lambda _epoch, _theta: None,
    patience: Patience | None = None,
) -> Floats:
    """Train on the devices at the broker to the end, and return the model."""
    terms = parties.terms
    link = BrokerLink(address, f"{SERVER_NAME}-{level_of(terms.study)}", MqttEngine.will(terms.study))
    engine = MqttEngine(link, terms.study, list(terms.by_name))
    link.open()
    try:
        sums = parties.server(
            engine,
            identity,
            patience=patience or Patience(),
            tell=lambda _event: None,
            wall=time.time,
            random_bytes=secrets.token_bytes,
        )
        model = train(sums, statistic, solver, on_epoch=on_epoch)
        sums.close()
        return model
    finally:
        engine.leave(over=True)
        link.flush(_FAREWELL_SECONDS)
        link.close()
