"""Sums through a real broker with TLS equal those of devices in this process, bit for bit."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from codedfl.contract.names import SERVER_NAME
from codedfl.engines.in_process import InProcess
from codedfl.engines.mqtt_device import MqttDevice, ReplyBytes, serve
from codedfl.engines.mqtt_server import MqttEngine
from codedfl.mqtt.link import BrokerLink
from codedfl.sum.device import Device
from codedfl.sum.layout import Layout
from codedfl.sum.session import Session
from codedfl.sum.terms import Terms
from federations import SERVER, MadeUp, devices_of, terms_of
from running_broker import RunningBroker

ASK = b"ask"


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that devices of this process see soon that they are to end."""
    monkeypatch.setattr("codedfl.engines.mqtt_device.TURN_SECONDS", 0.1)


def drawn(seed: str, layout: Layout, size: int = 10) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    return (
        [rng.randint(-size, size) for _ in range(layout.length)],
        [rng.randint(-size, size) for _ in range(layout.triangle)],
    )


@contextmanager
def joined(broker: RunningBroker, name: str, studies: Mapping[bytes, ReplyBytes]) -> Iterator[None]:
    """A device that answers in a thread of its own."""
    ended = threading.Event()

    def until(device: MqttDevice) -> bool:
        return ended.is_set() or device.all_over

    arguments = (studies, broker.address(name), name)
    thread = threading.Thread(target=serve, args=arguments, kwargs={"until": until}, name=f"device {name}")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


@contextmanager
def engine_at(broker: RunningBroker, terms: Terms) -> Iterator[tuple[MqttEngine, BrokerLink]]:
    link = BrokerLink(broker.address(SERVER_NAME), "codedfl-server", MqttEngine.will(terms.study))
    engine = MqttEngine(link, terms.study, list(terms.by_name))
    link.open()
    try:
        yield engine, link
    finally:
        engine.leave(over=True)
        link.flush(5.0)
        link.close()


def wall() -> float:
    return 0.0


def test_sums_at_a_broker_are_those_in_process_and_a_sum_takes_24_messages(tmp_path: Path) -> None:
    terms = terms_of([[f"a{i}" for i in range(10)]], 1)
    asks = {b"ask %d" % i: Layout.of_vector(66, 1000) for i in range(3)}

    def devices() -> dict[str, Device]:
        return devices_of(terms, asks, lambda name, ask: drawn(name + ask.decode(), asks[ask]), wall)

    there = InProcess({name: one.reply for name, one in devices().items()})
    expected = [Session(there, MadeUp(terms, asks), SERVER, wall=wall).sum(ask) for ask in asks]
    with RunningBroker(tmp_path / "broker", list(terms.by_name)) as broker, ExitStack() as stack:
        for name, device in devices().items():
            stack.enter_context(joined(broker, name, {terms.study: device.reply}))
        engine, link = stack.enter_context(engine_at(broker, terms))
        session = Session(engine, MadeUp(terms, asks), SERVER, wall=wall)
        found = [session.sum(asks_one) for asks_one in list(asks)[:2]]
        before = link.messages_in + link.messages_out
        found.append(session.sum(list(asks)[2]))
        # An upload of each of ten, and a holder of each of two roles; a hedge where this machine is busy.
        assert 24 <= link.messages_in + link.messages_out - before <= 28
    assert found == expected


def test_one_process_serves_two_studies_and_leaves_when_both_are_over(tmp_path: Path) -> None:
    groups = [["a", "b", "c"]]
    studies = [replace(terms_of(groups, 1), study=hashlib.sha256(name).digest()) for name in (b"one", b"two")]
    layout = Layout.of_vector(4, 1000)
    devices = [devices_of(terms, {ASK: layout}, lambda name, _: drawn(name, layout), wall) for terms in studies]
    with RunningBroker(tmp_path / "broker", groups[0]) as broker, ExitStack() as stack:
        for name in groups[0]:
            answers = {terms.study: one[name].reply for terms, one in zip(studies, devices, strict=True)}
            stack.enter_context(joined(broker, name, answers))
        for terms in studies:
            with engine_at(broker, terms) as (engine, _):
                total = Session(engine, MadeUp(terms, {ASK: layout}), SERVER, wall=wall).sum(ASK)
                columns = zip(*(drawn(name, layout)[0] for name in groups[0]), strict=True)
                assert total == [sum(column) for column in columns]
        for thread in threading.enumerate():
            if thread.name.startswith("device "):
                thread.join(10)
                assert not thread.is_alive()


def test_a_device_that_has_not_approved_the_study_is_not_here_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    terms = terms_of([["a", "b"]], 0)
    with RunningBroker(tmp_path / "broker", ["a", "b"]) as broker, ExitStack() as stack:
        stack.enter_context(joined(broker, "a", {bytes(32): bytes}))
        engine, _ = stack.enter_context(engine_at(broker, terms))
        stack.enter_context(joined(broker, "b", {terms.study: bytes}))
        while not engine.here():
            engine.replies(10.0)
        engine.replies(0.2)
        assert set(engine.here()) == {"b"}
    assert "a is there, but has not approved this study" in caplog.text


def test_nothing_is_polled(tmp_path: Path) -> None:
    """A server that waits, and devices that wait, use no processor time."""
    terms = terms_of([["a", "b"]], 0)
    with RunningBroker(tmp_path / "broker", ["a", "b"]) as broker, ExitStack() as stack:
        for name in ("a", "b"):
            stack.enter_context(joined(broker, name, {terms.study: bytes}))
        engine, _ = stack.enter_context(engine_at(broker, terms))
        while len(engine.here()) < 2:
            engine.replies(10.0)
        begun = time.process_time()
        assert engine.replies(2.0) == []
        assert time.process_time() - begun < 0.2
