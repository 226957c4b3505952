"""The real client at a real broker, with TLS: what it lets through, what it refuses, and how that reads."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codedfl.contract.names import SERVER_NAME
from codedfl.errors import InvalidInput
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import BrokerFolder
from codedfl.mqtt.link import MOST_WAITING, BrokerFailed, BrokerLink, LinkDown, LinkEvent, LinkUp, Received, Will
from codedfl_lab.training.local_party import local_party
from running_broker import HOST, RunningBroker

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # connections cut on purpose

STUDY = "digits"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path_factory.mktemp("broker") / "b", ["device-0", "device-1", "device-2"]) as running:
        yield running


@pytest.fixture
def opened(broker: RunningBroker) -> Iterator[Callable[..., BrokerLink]]:
    links = []

    def open_(party: str, identity: str = "", will: str = "") -> BrokerLink:
        topic = will or (topics.server_presence(STUDY) if party == SERVER_NAME else topics.presence(STUDY, party))
        link = BrokerLink(broker.address(party), identity or party, Will(topic))
        link.open()
        links.append(link)
        assert link.events(5.0)[:1] == [LinkUp()]
        return link

    yield open_
    for link in links:
        link.close()


def until(link: BrokerLink, what: Callable[[LinkEvent], bool], seconds: float = 10.0) -> LinkEvent:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for event in link.events(0.2):
            if what(event):
                return event
    raise AssertionError("it did not happen")


def test_messages_presence_and_wills(opened: Callable[..., BrokerLink]):
    device = opened("device-0")
    device.subscribe(topics.inbox(STUDY, "device-0"))
    device.publish(topics.presence(STUDY, "device-0"), b"here", retain=True)
    server = opened(SERVER_NAME)
    server.subscribe(topics.presence(STUDY, "+"), topics.outbox(STUDY, "+"))
    assert until(server, lambda event: isinstance(event, Received)) == Received(
        topics.presence(STUDY, "device-0"), b"here"
    )  # retained: it was said before the server came
    server.publish(topics.inbox(STUDY, "device-0"), b"x" * 100_000)
    assert until(device, lambda event: isinstance(event, Received)) == Received(
        topics.inbox(STUDY, "device-0"), b"x" * 100_000
    )
    connection = device._client.socket()
    assert connection is not None
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    connection.shutdown(socket.SHUT_RDWR)  # lost: the broker says its will, and it comes back by itself
    assert until(server, lambda event: isinstance(event, Received)) == Received(topics.presence(STUDY, "device-0"), b"")
    until(device, lambda event: event == LinkDown())
    until(device, lambda event: event == LinkUp())


def test_a_second_connection_takes_the_place_of_the_first(opened: Callable[..., BrokerLink]):
    first = opened("device-1")
    opened("device-1")
    until(first, lambda event: event == LinkDown())


def test_two_with_one_certificate_are_told_and_slow_down(
    opened: Callable[..., BrokerLink], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("codedfl.mqtt.link._SHORT_IN_A_ROW", 1)
    first = opened("device-1")
    opened("device-1")
    until(first, lambda event: event == LinkDown())
    (lost,) = [message for message in caplog.messages if " is lost (" in message]
    assert lost.endswith("): does another process use this certificate, or another server serve this study?")
    assert first._client._reconnect_min_delay == 2


def test_nobody_can_take_anothers_connection_by_its_name(opened: Callable[..., BrokerLink], broker: RunningBroker):
    first = opened("device-1")
    other = BrokerLink(broker.address("device-0"), "device-1", Will(topics.presence(STUDY, "device-0")))
    other.open()
    assert other._client._client_id != first._client._client_id
    other.close()
    assert first.events(0.5) == []


def test_a_flood_fills_no_memory(opened: Callable[..., BrokerLink], caplog: pytest.LogCaptureFixture):
    """What nobody reads is dropped beyond a bound, of one topic; another's messages come through."""
    server, flood, other = opened(SERVER_NAME), opened("device-0"), opened("device-2")
    server.subscribe(topics.outbox(STUDY, "+"))
    for _ in range(300):
        flood.publish(topics.outbox(STUDY, "device-0"), bytes(100_000))
    flood.flush(10.0)
    deadline = time.monotonic() + 10
    while not any("more comes in than can be read" in one for one in caplog.messages) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert any("more comes in than can be read" in one for one in caplog.messages)
    other.publish(topics.outbox(STUDY, "device-2"), b"small")
    time.sleep(1.0)
    events = [event for event in server.events(5.0) if isinstance(event, Received)]
    assert sum(event.cost for event in events if event.topic.endswith("device-0/out")) <= MOST_WAITING
    assert Received(topics.outbox(STUDY, "device-2"), b"small") in events
    assert not any(server._waiting.values())


def test_a_broker_that_restarts_is_found_again(broker: RunningBroker, opened: Callable[..., BrokerLink]):
    link = opened("device-2")
    broker.stop()
    until(link, lambda event: event == LinkDown())
    broker.start()
    until(link, lambda event: event == LinkUp(), 20.0)


# -- one line for what is wrong


def stranger(tmp_path: Path) -> BrokerAddress:
    """A party of another broker."""
    return local_party(BrokerFolder.create(tmp_path / "other", [HOST]), "device-0", tmp_path / "strange")


def test_no_broker(broker: RunningBroker):
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    good = broker.address("device-0")
    address = BrokerAddress(HOST, port, True, good.authority, good.certificate, good.key)
    message = f"the broker must be reachable at mqtts://{HOST}:{port}, got [Errno 111] Connection refused"
    with pytest.raises(BrokerFailed, match=f"^{re.escape(message)}$"):
        BrokerLink(address, "device-0", Will("x")).open()


def test_a_broker_whose_certificate_another_authority_signed(broker: RunningBroker, tmp_path: Path):
    other = stranger(tmp_path)
    address = BrokerAddress(HOST, broker.port, True, other.authority, other.certificate, other.key)
    message = (
        rf"^the certificate of the broker at mqtts://{HOST}:\d+ must be signed by the kit's authority, be valid today"
        " and carry that name, got self-signed certificate in certificate chain$"
    )
    with pytest.raises(BrokerFailed, match=message):
        BrokerLink(address, "device-0", Will("x")).open()


LET_IN = (
    "the broker at {} must let this party in, got a closed connection: is its certificate signed by the broker's"
    " authority, in date by the broker's clock, and not revoked?"
)


def test_a_stranger_with_a_certificate_of_another_authority(broker: RunningBroker, tmp_path: Path):
    other = stranger(tmp_path)
    address = BrokerAddress(HOST, broker.port, True, broker.address("device-0").authority, other.certificate, other.key)
    with pytest.raises(BrokerFailed, match=f"^{re.escape(LET_IN.format(address))}$"):
        BrokerLink(address, "device-0", Will("x")).open()


def test_a_broker_that_wants_tls(broker: RunningBroker):
    message = (
        f"the broker at mqtt://{HOST}:{broker.port} must let this party in, got a closed connection: does it want TLS"
        " (mqtts://)?"
    )
    with pytest.raises(BrokerFailed, match=f"^{re.escape(message)}$"):
        BrokerLink(BrokerAddress(HOST, broker.port, False), "device-0", Will("x")).open()


def test_a_stranger_without_a_certificate(broker: RunningBroker):
    address = BrokerAddress(HOST, broker.port, True, broker.address("device-0").authority)
    with pytest.raises(BrokerFailed, match=f"^{re.escape(LET_IN.format(address))}$"):
        BrokerLink(address, "device-0", Will("x")).open()


def test_a_revoked_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with RunningBroker(tmp_path / "b", ["device-0", "device-1"]) as running:
        address = running.address("device-1")
        early = BrokerLink(address, "device-1", Will(topics.presence(STUDY, "device-1")))
        early.open()
        running.folder.revoke("device-1")
        running.stop()
        running.start()  # it reads the list when it starts
        with pytest.raises(BrokerFailed, match=f"^{re.escape(LET_IN.format(address))}$"):
            BrokerLink(address, "device-1", Will("x")).open()
        revoked = f"the connection to the broker at {address} is lost (closed before it let us in): is the certificate"
        deadline = time.monotonic() + 10
        while f"{revoked} revoked, or expired?" not in caplog.messages and time.monotonic() < deadline:
            early.events(0.1)
        assert f"{revoked} revoked, or expired?" in caplog.messages
        early.close()


def test_a_broker_that_comes_back_as_another_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with RunningBroker(tmp_path / "b", ["device-0"]) as running:
        address = running.address("device-0")
        link = BrokerLink(address, "device-0", Will(topics.presence(STUDY, "device-0")))
        link.open()
        other = stranger(tmp_path)
        link._client._ssl_context = BrokerAddress(HOST, running.port, True, other.authority).context()
        running.stop()
        running.start()
        reason = "self-signed certificate in certificate chain"
        wanted = f"the broker at {address} cannot be reached ({reason}); it is tried again"
        deadline = time.monotonic() + 10
        while wanted not in caplog.messages and time.monotonic() < deadline:
            link.events(0.1)
        assert caplog.messages.count(wanted) == 1
        link.close()


def test_a_device_with_anothers_certificate_is_refused(broker: RunningBroker):
    """Its will is on a topic that is not its own."""
    link = BrokerLink(broker.address("device-1"), "device-0", Will(topics.presence(STUDY, "device-0")))
    message = f"the broker at {broker.address('device-1')} must let this party in, got Not authorized"
    with pytest.raises(BrokerFailed, match=f"^{re.escape(message)}$"):
        link.open()


def test_a_refused_topic_is_one_line(broker: RunningBroker, opened: Callable[..., BrokerLink]):
    link = opened("device-0")
    link.publish(topics.outbox(STUDY, "device-1"), b"x", retain=True)
    message = (
        f"the broker at {broker.address('device-0')} must let this party publish under its name, got a refusal: does"
        " its certificate carry another name?"
    )
    with pytest.raises(BrokerFailed, match=f"^{re.escape(message)}$"):
        until(link, lambda event: False)
    link = opened("device-0")
    link.subscribe(topics.inbox(STUDY, "device-1"))
    message = (
        f"the broker at {broker.address('device-0')} must let this party read its topics, got a refusal: does its"
        " certificate carry another name?"
    )
    with pytest.raises(BrokerFailed, match=f"^{re.escape(message)}$"):
        until(link, lambda event: False)


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n" + b"x" * 99, b"\x10\xff\xff\xff\xff\xff", b"\x30\x00", b"\x00" * 50]
)
def test_junk_at_its_port_ends_that_connection_only(
    broker: RunningBroker, opened: Callable[..., BrokerLink], junk: bytes
):
    context = broker.address("device-1").context()
    assert context is not None
    with (
        socket.create_connection((HOST, broker.port)) as raw,
        context.wrap_socket(raw, server_hostname=HOST) as stranger,
    ):
        stranger.settimeout(10)
        stranger.sendall(junk)
        assert stranger.recv(100) == b""
    opened("device-0")


# -- addresses


@pytest.mark.parametrize("url", ["", "localhost", "http://h", "mqtts://", "mqtt://h/x", "mqtts://u@h", "mqtt://h:x"])
def test_a_bad_url_is_refused(url: str):
    message = f"broker must be mqtts://host:port or mqtt://host:port, got {url!r}"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        BrokerAddress.parse(url)


def test_ports_by_default():
    assert str(BrokerAddress.parse("mqtts://h")) == "mqtts://h:8883"
    assert str(BrokerAddress.parse("mqtt://h")) == "mqtt://h:1883"


def test_certificates_that_do_not_go_together_are_refused(broker: RunningBroker, tmp_path: Path):
    zero, one = broker.address("device-0"), broker.address("device-1")
    with pytest.raises(InvalidInput, match=r"^a certificate must come with its key .*, got one of them$"):
        BrokerAddress.parse("mqtts://h", zero.authority, zero.certificate)
    with pytest.raises(InvalidInput, match=r"^certificates must go with mqtts://, got 'mqtt://h'$"):
        BrokerAddress.parse("mqtt://h", zero.authority)
    with pytest.raises(InvalidInput, match=r"^the key must be a readable file, got '.*missing'$"):
        BrokerAddress.parse("mqtts://h", zero.authority, zero.certificate, tmp_path / "missing")
    mixed = BrokerAddress.parse("mqtts://h", zero.authority, zero.certificate, one.key)
    with pytest.raises(InvalidInput, match=r"^the certificates must be readable PEM files that belong together"):
        mixed.context()
