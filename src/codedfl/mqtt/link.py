"""The connection to a broker: what MQTT is to the rest of ``codedfl.mqtt``, with the paho client behind it.

Connections begin clean and leave nothing behind: what was on the way when one is lost is lost, and the newest request
is sent again. So a party that was away gets what is newest now, and a broker that loses its memory loses nothing of
ours.
"""

from __future__ import annotations

import logging
import queue
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from codedfl.errors import CodedFLError
from codedfl.logs import one_line
from codedfl.mqtt.address import BrokerAddress

log = logging.getLogger("codedfl.mqtt")

EXPIRY_SECONDS = 60  # a call that a broker could not deliver for this long is stale: a newer one exists
MOST_WAITING = 16 << 20  # bytes of one topic: many times what is agreed to be on the way; a flood must not fill memory
_KEEP_ALIVE = 20
_CONNECT_SECONDS = 30.0  # a broker may be busy with the handshakes of many
_NOT_AUTHORISED = 135
_CALLBACKS = ("on_connect", "on_connect_fail", "on_disconnect", "on_message", "on_publish", "on_subscribe")
_SHORT_SECONDS = 20.0  # a connection that was lost sooner was short
_SHORT_IN_A_ROW = 3  # this many short connections in a row are no accident
_MOST_DELAY = 15  # seconds before a connection is restored
_TURN_SECONDS = 2e-4


class BrokerFailed(CodedFLError):
    """The broker cannot be reached, or lets this party in no further."""


@dataclass(frozen=True)
class LinkUp:
    """A new connection: subscriptions and presence must be made again."""


@dataclass(frozen=True)
class LinkDown:
    """The connection is lost, and with it what was on the way. It is being restored."""


@dataclass(frozen=True)
class Received:
    """A message on one of the topics subscribed to."""

    topic: str
    payload: bytes

    @property
    def cost(self) -> int:
        """In memory, with what Python needs beside the payload."""
        return len(self.payload) + 1000


LinkEvent = LinkUp | LinkDown | Received


@dataclass(frozen=True)
class Will:
    """What the broker publishes, retained, when this party is lost."""

    topic: str
    payload: bytes = b""


class Link(Protocol):
    """A party's end of the connection to a broker. Tests put one in its place whose broker is a dictionary."""

    def subscribe(self, *topics: str) -> None:
        """Receive what is published to these, and what is retained there."""
        ...

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send at most once, or not at all without a connection. Retained: at least once; empty takes it back."""
        ...

    def events(self, seconds: float) -> list[LinkEvent]:
        """What has happened, in order; waits for the first, no longer than ``seconds``."""
        ...


class BrokerLink:
    """A ``Link`` to a real broker, by MQTT 5. What is lost is asked for again, so messages are not confirmed.

    Parameters
    ----------
    identity: who connects; a second connection of the same with the same key takes the first one's place.
    will: what the broker is to say when this party is lost.
    """

    def __init__(self, address: BrokerAddress, identity: str, will: Will) -> None:
        self.address = address
        self.bytes_in = self.bytes_out = self.messages_in = self.messages_out = 0
        # Two threads meet in this queue and nowhere else: paho's puts, ours takes.
        self._events: queue.SimpleQueue[LinkEvent] = queue.SimpleQueue()
        self._waiting: Counter[str] = Counter()  # topic -> bytes that have come in and were not asked for yet
        self._counting = threading.Lock()
        self._failure = ""  # in words: an exception would hold this link by its traceback
        self._connected_at = 0.0
        self._let_in = False  # on this connection
        self._unreachable = ""  # why, when that was reported last
        self._short = 0  # short connections in a row
        self._answered = threading.Event()
        self._newest: paho.MQTTMessageInfo | None = None  # of what was published
        # Made once: paho builds a table of all properties each time.
        self._passing = _properties(PacketTypes.PUBLISH, MessageExpiryInterval=EXPIRY_SECONDS)
        context = address.context()
        client = self._client = paho.Client(
            CallbackAPIVersion.VERSION2, address.client_id(identity), protocol=paho.MQTTv5
        )
        if context is not None:
            client.tls_set_context(context)
        client.will_set(will.topic, will.payload, qos=1, retain=True)
        client.connect_timeout = _CONNECT_SECONDS
        client.max_queued_messages_set(0)
        client.reconnect_delay_set(1, _MOST_DELAY)
        client.on_socket_open = _without_delay
        for name in _CALLBACKS:
            setattr(client, name, getattr(self, f"_{name}"))

    def open(self) -> None:
        """Connect for the first time; later losses mend themselves."""
        properties = _properties(PacketTypes.CONNECT, SessionExpiryInterval=0)
        try:
            self._client.connect(
                self.address.host, self.address.port, _KEEP_ALIVE, clean_start=True, properties=properties
            )
        except ssl.SSLCertVerificationError as error:
            raise BrokerFailed(
                f"the certificate of the broker at {self.address} must be signed by the kit's authority, be valid today"
                f" and carry that name, got {one_line(error.verify_message)}"
            ) from None
        except (OSError, ValueError) as error:
            raise BrokerFailed(f"the broker must be reachable at {self.address}, got {one_line(error)}") from None
        self._start_reading()
        if not self._wait_for_answer(_CONNECT_SECONDS):
            self.close()
            raise BrokerFailed(f"the broker at {self.address} must answer within {_CONNECT_SECONDS:g} s, got nothing")
        if self._failure:
            self.close()
            raise BrokerFailed(self._failure)

    def _start_reading(self) -> None:
        """In a thread of its own while this one computes: at 5 ms per turn of Python, a message would wait for that."""
        sys.setswitchinterval(min(sys.getswitchinterval(), _TURN_SECONDS))
        self._client.loop_start()

    def _wait_for_answer(self, seconds: float) -> bool:
        return self._answered.wait(seconds)

    def close(self) -> None:
        """Leave for good. The broker publishes no will then: whoever has a presence takes it back first."""
        self._client.disconnect()
        self._client.loop_stop()
        # paho closes its sockets when it is forgotten: nothing of it must hold us any more.
        for name in _CALLBACKS:
            setattr(self._client, name, None)

    def subscribe(self, *topics: str) -> None:
        """See ``Link``."""
        self._client.subscribe([(topic, SubscribeOptions(qos=1)) for topic in topics])

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """See ``Link``."""
        # Dropped, not queued: by the time of the next connection something newer is sent.
        if not self._client.is_connected():
            return
        # A retained message must not expire: it says who is here for as long as they are.
        properties = None if retain else self._passing
        self._newest = self._client.publish(topic, payload, qos=int(retain), retain=retain, properties=properties)
        self.bytes_out += len(payload)
        self.messages_out += 1

    def flush(self, seconds: float) -> None:
        """Wait until the broker has taken what was published, no longer than this."""
        # What was published before the newest has left before it. On a lost connection nothing is waited for.
        if self._newest is not None:
            with suppress(RuntimeError, ValueError):
                self._newest.wait_for_publish(seconds)

    def events(self, seconds: float) -> list[LinkEvent]:
        """See ``Link``; raises ``BrokerFailed`` when the broker has refused something for good."""
        found: list[LinkEvent] = []
        try:
            found.append(self._events.get(timeout=seconds))
            while True:
                found.append(self._events.get_nowait())
        except queue.Empty:
            pass
        with self._counting:
            for event in found:
                # Read by now: its bytes no longer count against the topic.
                if isinstance(event, Received):
                    self._waiting[event.topic] -= event.cost
        if self._failure:
            raise BrokerFailed(self._failure)
        return found

    # -- what paho tells, in its own thread

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        if code.is_failure:
            self._fail(f"the broker at {self.address} must let this party in, got {one_line(code)}")
            return
        self._connected_at, self._let_in, self._unreachable = time.monotonic(), True, ""
        # Before the answer is reported: whoever waits for it finds the event there.
        self._events.put(LinkUp())
        self._answered.set()

    def _on_disconnect(self, _client: Any, _data: Any, _flags: Any, code: ReasonCode, _properties: Any) -> None:
        # Lost before the first answer: nobody has been admitted yet, and trying again would say nothing new.
        if not self._answered.is_set():  # a certificate that the broker does not take shows itself like this
            asked = (
                "is its certificate signed by the broker's authority, in date by the broker's clock, and not revoked?"
            )
            self._fail(
                f"the broker at {self.address} must let this party in, got a closed connection: "
                + (asked if self.address.tls else "does it want TLS (mqtts://)?")
            )
        elif code.is_failure:
            self._note_loss(one_line(code))
            self._events.put(LinkDown())

    def _note_loss(self, reason: str) -> None:
        """Brokers do not say for sure why. Lost again and again, it is tried less often: perhaps two are at odds."""
        lasted = time.monotonic() - self._connected_at
        self._short = self._short + 1 if lasted < _SHORT_SECONDS else 0
        self._client.reconnect_delay_set(min(2**self._short, _MOST_DELAY), _MOST_DELAY)
        hint = ""
        if not self._let_in:
            reason, hint = "closed before it let us in", ": is the certificate revoked, or expired?"
        elif self._short >= _SHORT_IN_A_ROW:
            hint = ": does another process use this certificate, or another server serve this study?"
        self._let_in = False
        log.warning("the connection to the broker at %s is lost (%s)%s", self.address, reason, hint)

    def _on_connect_fail(self, _client: Any, _data: Any) -> None:
        """It is not there, or is another: reported when the reason changes, and tried again."""
        error = sys.exc_info()[1]
        reason = one_line(error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error)
        if reason != self._unreachable:
            self._unreachable = reason
            log.warning("the broker at %s cannot be reached (%s); it is tried again", self.address, reason)

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        self.bytes_in += len(message.payload)
        self.messages_in += 1
        received = Received(message.topic, bytes(message.payload))
        with self._counting:
            fits = self._waiting[received.topic] + received.cost <= MOST_WAITING
            # Invariant: what is counted here is what ``events`` takes off: a flood on one topic cannot starve another.
            self._waiting[received.topic] += received.cost if fits else 0
        if fits:
            self._events.put(received)
        else:
            log.warning("%s: more comes in than can be read, and is dropped", one_line(received.topic))

    def _on_publish(self, _client: Any, _data: Any, _number: int, code: ReasonCode, _properties: Any) -> None:
        if code.value == _NOT_AUTHORISED:
            self._fail(
                f"the broker at {self.address} must let this party publish under its name, got a refusal: does its"
                " certificate carry another name?"
            )

    def _on_subscribe(self, _client: Any, _data: Any, _number: int, codes: list[ReasonCode], _properties: Any) -> None:
        if any(code.is_failure for code in codes):
            self._fail(
                f"the broker at {self.address} must let this party read its topics, got a refusal: does its"
                " certificate carry another name?"
            )

    def _fail(self, message: str) -> None:
        # The first reason stays: later ones follow from it.
        self._failure = self._failure or message
        self._answered.set()
        self._events.put(LinkDown())


def _properties(packet: int, **values: int) -> Properties:
    made = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(made, name, value)
    return made


def _without_delay(_client: Any, _data: Any, connection: Any) -> None:
    """paho leaves Nagle's algorithm on: with delayed acknowledgements that costs 40 ms per message."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
