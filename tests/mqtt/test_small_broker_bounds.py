"""What one party, or a stranger, can hold of the small broker is bounded, and whatever it sends costs itself alone."""

from __future__ import annotations

import asyncio
import errno
import random
import resource
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mqtt5
import pytest

from codedfl.errors import CodedFLError
from codedfl.mqtt import small_broker, topics
from codedfl.mqtt.link import BrokerLink, LinkUp, Will
from codedfl.mqtt.small_broker import SmallBroker
from running_broker import HOST, RunningBroker

pytestmark = [
    pytest.mark.hospitals,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # connections cut on purpose
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # the parser's panics say so as well
]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path / "b", ["device-0", "device-1"]) as running:
        yield running


def lets_in(broker: RunningBroker, device: str = "device-1") -> bool:
    """Whether somebody else still gets in."""
    link = BrokerLink(broker.address(device), device, Will(topics.presence("stays", device)))
    link.open()
    try:
        return link.events(5.0)[:1] == [LinkUp()]
    finally:
        link.close()


def tls(broker: RunningBroker) -> ssl.SSLSocket:
    context = broker.address("device-0").context()
    assert context is not None
    return context.wrap_socket(socket.create_connection((HOST, broker.port), 10), server_hostname=HOST)


def connected(broker: RunningBroker, identity: str) -> tuple[ssl.SSLSocket, mqtt5.ConnAckPacket]:
    stream = tls(broker)
    stream.sendall(mqtt5.ConnectPacket(client_id=identity, keep_alive=0).write())
    answer, _ = mqtt5.read(memoryview(stream.recv(1000)))
    assert isinstance(answer, mqtt5.ConnAckPacket)
    return stream, answer


def ended(stream: socket.socket) -> bool:
    """Whether the broker ends it, whatever it says before."""
    stream.settimeout(10)
    try:
        while stream.recv(1000):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def test_small_messages_do_not_wait_for_an_acknowledgement(broker: RunningBroker):
    stream, _ = connected(broker, "device-0-x")
    inside = broker._broker
    assert inside is not None
    (accepted,) = inside._open.values()
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    stream.close()


async def plainly_connected(port: int, identity: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(mqtt5.ConnectPacket(client_id=identity).write())
    return reader, writer


async def most_connected(devices: int) -> int:
    """How many of so many devices the broker has at one time."""
    inside = SmallBroker(lambda *_: True, lambda *_: True)
    port = await inside.start(HOST, 0, None)
    streams = [await plainly_connected(port, f"device-{i}") for i in range(devices)]
    for reader, _ in streams:
        assert await reader.read(1), "the broker has closed a connection"
    found = len(inside._clients)
    for _, writer in streams:
        writer.close()
    await inside.stop()
    await asyncio.sleep(0.1)
    return found


def test_a_thousand_devices_and_their_server_are_connected_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(small_broker, "MOST_CONNECTIONS_EACH", 2000)  # without TLS all have one name
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 5000 and limits[1] != resource.RLIM_INFINITY:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, limits[1]))
    try:
        assert asyncio.run(most_connected(1001)) == 1001
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_broker_that_may_not_open_enough_files_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    with pytest.raises(CodedFLError) as caught:
        asyncio.run(SmallBroker(lambda *_: True, lambda *_: True).start(HOST, 0, None))
    assert str(caught.value) == (
        "the broker must be allowed 4096 open files, for 4000 connections, got a limit of 1024: "
        "raise it (ulimit -Hn 4096), or take mosquitto"
    )


def test_idle_strangers_shut_nobody_out(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(small_broker, "MOST_CONNECTIONS", 20)
    strangers = [socket.create_connection((HOST, broker.port), 10) for _ in range(60)]
    assert lets_in(broker)
    assert all(map(ended, strangers[:40]))  # the oldest gave way
    inside = broker._broker
    assert inside is not None
    assert len(inside._open) <= 20
    for stranger in strangers:
        stranger.close()


def test_a_broker_without_file_descriptors_goes_on_later(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch):
    accept, failed = socket.socket.accept, [0]

    def failing(listener: socket.socket) -> Any:
        failed[0] += 1
        if failed[0] < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", failing)
    assert lets_in(broker)
    assert failed[0] >= 3


def test_a_certificate_has_few_connections(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(small_broker, "MOST_CONNECTIONS_EACH", 2)
    streams = [connected(broker, f"device-0-{i}") for i in range(3)]
    codes = [answer.reason_code for _, answer in streams]
    assert codes == [mqtt5.ConnAckReasonCode.SUCCESS] * 2 + [mqtt5.ConnAckReasonCode.NOT_AUTHORIZED]
    assert streams[0][1].server_keep_alive == 60  # who asks for none is noticed all the same
    assert lets_in(broker)
    for stream, _ in streams:
        stream.close()


def test_filters_and_retained_messages_are_bounded_and_freed(broker: RunningBroker):
    stream, _ = connected(broker, "device-0-x")
    wanted = [mqtt5.TopicFilter(topics.inbox(f"s{i}", "device-0")) for i in range(20)]
    stream.sendall(mqtt5.SubscribePacket(1, wanted).write())
    answer, _ = mqtt5.read(memoryview(stream.recv(1000)))
    granted, refused = mqtt5.SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE, mqtt5.SubAckReasonCode.QUOTA_EXCEEDED
    assert isinstance(answer, mqtt5.SubAckPacket)
    assert answer.reason_codes == [granted] * 16 + [refused] * 4
    stream.sendall(mqtt5.PublishPacket(topics.presence("large", "device-0"), bytes(1001), retain=True).write())
    for i in range(150):
        stream.sendall(mqtt5.PublishPacket(topics.presence(f"s{i}", "device-0"), b"x", retain=True).write())
    stream.sendall(mqtt5.PingReqPacket().write())
    assert stream.recv(1000)
    inside = broker._broker
    assert inside is not None
    assert (len(inside._exact), len(inside._retained)) == (16, 100)
    stream.sendall(mqtt5.DisconnectPacket().write())
    assert ended(stream)
    until = time.monotonic() + 10
    while inside._exact and time.monotonic() < until:
        time.sleep(0.01)
    assert not inside._exact


def test_malformed_packets_end_their_own_connection(broker: RunningBroker):
    rng = random.Random(0)
    bad = [
        b"\x82\x09\x00\x01\x00\x00\x03a\xa9/\n",  # not UTF-8
        b"\x30\xff\xff\xff\xff\x7f",  # a length of five octets
        b"\x30\xff\xff\xff\x7f",  # of 256 MB
        b"\x82\x02\x00\x01",  # cut off
        *(bytes([rng.randrange(256), n]) + rng.randbytes(n) for n in range(8)),
    ]
    for data in bad:
        stream, _ = connected(broker, "device-0-x")
        stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        assert ended(stream)
    assert lets_in(broker)


@pytest.mark.parametrize(("length", "welcome"), [(small_broker.MOST_CLIENT_ID, True), (4000, False)])
def test_a_client_id_is_bounded(broker: RunningBroker, length: int, welcome: bool):
    stream, answer = connected(broker, "device-0".ljust(length, "x"))
    stream.close()
    assert (answer.reason_code == mqtt5.ConnAckReasonCode.SUCCESS) == welcome
    assert lets_in(broker)
