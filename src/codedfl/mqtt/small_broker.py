"""A small MQTT 5 broker in one process: for a first try, for tests, and where no other can be installed.

It does what ``codedfl.mqtt`` needs and no more: TLS with client certificates, access by name, retained messages, wills,
delivery as certain as its publisher chose, on a connection that lasts. Sessions end with their connection, and a client
that takes in less than is sent to it loses messages beyond ``MOST_QUEUED``, as with larger brokers; codedfl repeats
what matters. What one party can hold of it is bounded: connections, filters, retained messages. The packets themselves
are read and written by the ``mqtt5`` package, whatever they hold. For thousands of devices take mosquitto.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mqtt5

from codedfl.errors import CodedFLError
from codedfl.logs import one_line

log = logging.getLogger("codedfl.mqtt.broker")

MOST_PACKET = 1 << 17  # bytes: what hosted brokers take; larger things travel in pieces
MOST_QUEUED = 32 << 20  # bytes for one client
MOST_CONNECTIONS = 4000  # beyond these whoever has not introduced itself for longest gives way
FILES = MOST_CONNECTIONS + 96  # open at once: a socket for each connection, and what the process itself has open
MOST_CLIENT_ID = 128  # characters: a name has 64 at most, and its digest 33
MOST_CONNECTIONS_EACH = 32  # of one certificate: one per study
MOST_FILTERS = 16  # of one connection, which needs two
MOST_RETAINED_EACH = 100  # of one certificate: one per study
_MOST_RETAINED_BYTES = 1000  # limit on one message: what is retained says who is there
_MOST_KEEP_ALIVE = 60  # seconds
_READ_BYTES = 1 << 18
_HANDSHAKE_SECONDS = 10.0
_NO_ACCEPT_SECONDS = 0.1
_HEADER_BYTES = 5  # one of type, one to four of length

# (name in the certificate, topic or filter) -> whether it may; the name is empty without TLS.
Access = Callable[[str, str], bool]


@dataclass(eq=False)
class _Client:
    writer: asyncio.StreamWriter
    name: str  # by its certificate
    identity: str = ""
    will: mqtt5.Will | None = None
    keep_alive: int = 0
    filters: set[str] = field(default_factory=set)
    numbers: Any = field(default_factory=lambda: itertools.cycle(range(1, 65536)))
    dropped: int = 0

    def send(self, packet: bytes) -> None:
        if not self.writer.is_closing():
            self.writer.write(packet)

    def queued(self) -> int:
        transport: asyncio.WriteTransport = self.writer.transport
        return transport.get_write_buffer_size()


class _Over(Exception):
    """The connection is to end here."""


class SmallBroker:
    """``await broker.start(...)``, then it serves until ``stop``.

    may_publish, may_read: the access lists.
    """

    def __init__(self, may_publish: Access, may_read: Access) -> None:
        self._may_publish = may_publish
        self._may_read = may_read
        self._clients: dict[str, _Client] = {}
        self._exact: dict[str, set[_Client]] = {}
        self._wild: dict[str, set[_Client]] = {}
        self._retained: dict[str, tuple[str, bytes]] = {}  # topic -> by whom, and what
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._strangers: dict[asyncio.Task[None], None] = {}  # who has not introduced itself yet, the oldest first
        self._open: dict[asyncio.Task[None], socket.socket] = {}

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen; returns the port, which the system chooses for 0."""
        _allow_open_files(FILES)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=1024)
        except OSError as error:
            raise CodedFLError(f"the broker must be able to listen at {host}:{port}, got {one_line(error)}") from None
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._listener, context))
        return int(self._listener.getsockname()[1])

    async def stop(self) -> None:
        """Listen no more, and cut all connections."""
        if self._listener is not None and self._accepting is not None:
            self._accepting.cancel()
            self._listener.close()
        for client in list(self._clients.values()):
            client.writer.transport.abort()
        for stranger in self._strangers:
            stranger.cancel()

    # -- one connection

    async def _accept(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        """Every connection, bounded before it costs a handshake."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(0)  # accepting many at once yields to nobody else
            try:
                connection, (address, *_) = await loop.sock_accept(listener)
                # asyncio leaves it out: create_server says protocol 0. Without it small messages wait 40 ms for an ACK.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as error:  # out of file descriptors, or gone before it was accepted: the others continue
                log.warning("no connection can be accepted for a moment (%s)", one_line(error))
                self._drop_a_stranger()
                await asyncio.sleep(_NO_ACCEPT_SECONDS)
                continue
            if len(self._open) >= MOST_CONNECTIONS and not self._drop_a_stranger():
                connection.close()
                log.warning("%s is turned away: %d connections are open", address, MOST_CONNECTIONS)
                continue
            task = loop.create_task(self._serve(connection, address, context))
            self._open[task], self._strangers[task] = connection, None
            task.add_done_callback(self._ended)

    def _drop_a_stranger(self) -> bool:
        """Whoever has not introduced itself for longest; returns whether there is one."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        del self._strangers[oldest]
        return oldest.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        connection = self._open.pop(task)
        self._strangers.pop(task, None)
        if task.cancelled():  # perhaps before anybody had taken it over
            connection.close()
        elif (error := task.exception()) is not None:
            log.error("a connection ends (%s)", one_line(repr(error)))

    async def _serve(self, connection: socket.socket, address: str, context: ssl.SSLContext | None) -> None:
        reader = asyncio.StreamReader(limit=_READ_BYTES)
        protocol, loop = asyncio.StreamReaderProtocol(reader), asyncio.get_running_loop()
        patience = None if context is None else _HANDSHAKE_SECONDS
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=context, ssl_handshake_timeout=patience
            )
        except OSError as error:  # such as a certificate that is expired, revoked or of another authority
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else repr(error)
            log.warning("%s is not admitted (%s)", address, one_line(reason))
            return
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        client = _Client(writer, _common_name(writer))
        try:
            packet = await self._next(reader, _HANDSHAKE_SECONDS)
            if not isinstance(packet, mqtt5.ConnectPacket):
                return
            self._welcome(client, packet)
            self._strangers.pop(asyncio.current_task(), None)  # type: ignore[arg-type]  # there is one
            while True:
                self._take(client, await self._next(reader, 1.5 * client.keep_alive))
                if client.queued() > _READ_BYTES:
                    await writer.drain()
        except (TimeoutError, OSError, EOFError, ValueError, _Over) as error:
            if not isinstance(error, EOFError | _Over):
                who = one_line(client.identity) or address
                log.info("%s: the connection ends (%s)", who, one_line(repr(error)))
        finally:
            self._leave(client)
            writer.close()

    async def _next(self, reader: asyncio.StreamReader, seconds: float) -> mqtt5.Packet:
        async with asyncio.timeout(seconds):  # wait_for would make a task of every packet
            head = bytearray(await reader.readexactly(2))
            while head[-1] & 0x80 and len(head) < _HEADER_BYTES:
                head += await reader.readexactly(1)
            size = sum((octet & 0x7F) << (7 * place) for place, octet in enumerate(head[1:]))
            if size > MOST_PACKET:
                raise ValueError(f"a packet must have at most {MOST_PACKET} bytes, got {size}")
            body = await reader.readexactly(size)
        return _read(bytes(head) + body)

    def _welcome(self, client: _Client, packet: mqtt5.ConnectPacket) -> None:
        client.identity = packet.client_id
        client.will, client.keep_alive = packet.will, min(packet.keep_alive or _MOST_KEEP_ALIVE, _MOST_KEEP_ALIVE)
        refused = packet.will is not None and not self._may_publish(client.name, packet.will.topic)
        others = sum(one.name == client.name for key, one in self._clients.items() if key != client.identity)
        if refused or not 0 < len(packet.client_id) <= MOST_CLIENT_ID or others >= MOST_CONNECTIONS_EACH:
            code = mqtt5.ConnAckReasonCode.NOT_AUTHORIZED
            client.will = None
            client.send(mqtt5.ConnAckPacket(reason_code=code).write())
            log.warning("%s (certificate %r) is refused", one_line(packet.client_id), client.name)
            raise _Over
        former = self._clients.get(client.identity)
        if former is not None:  # a second connection takes the place of the first
            taken = mqtt5.DisconnectReasonCode.SESSION_TAKEN_OVER
            former.send(mqtt5.DisconnectPacket(reason_code=taken).write())
            self._leave(former)
            former.writer.close()
        self._clients[client.identity] = client
        answer = mqtt5.ConnAckPacket(
            max_qos=mqtt5.QoS.AT_LEAST_ONCE,
            max_packet_size=MOST_PACKET,
            server_keep_alive=client.keep_alive,
            shared_subscription_available=False,
        )
        client.send(answer.write())
        log.info("%s is connected", one_line(client.identity))

    def _leave(self, client: _Client) -> None:
        for filter_ in client.filters:
            table = self._table(filter_)
            table[filter_].discard(client)
            if not table[filter_]:
                del table[filter_]
        client.filters.clear()
        if self._clients.get(client.identity) is client:
            del self._clients[client.identity]
            log.info("%s has left", one_line(client.identity))
        will, client.will = client.will, None
        if will is not None:
            self._route(client.name, mqtt5.PublishPacket(will.topic, will.payload or b"", retain=will.retain))

    def _table(self, filter_: str) -> dict[str, set[_Client]]:
        return self._wild if "+" in filter_ or "#" in filter_ else self._exact

    # -- packets

    def _take(self, client: _Client, packet: mqtt5.Packet) -> None:
        if isinstance(packet, mqtt5.PublishPacket):
            self._take_publish(client, packet)
        elif isinstance(packet, mqtt5.SubscribePacket):
            self._subscribe(client, packet)
        elif isinstance(packet, mqtt5.PingReqPacket):
            client.send(mqtt5.PingRespPacket().write())
        elif isinstance(packet, mqtt5.DisconnectPacket):
            if packet.reason_code == mqtt5.DisconnectReasonCode.NORMAL_DISCONNECTION:
                client.will = None
            raise _Over
        elif not isinstance(packet, mqtt5.PubAckPacket):
            raise ValueError(f"a client must not send a {type(packet).__name__} here")

    def _take_publish(self, client: _Client, packet: mqtt5.PublishPacket) -> None:
        allowed = self._may_publish(client.name, packet.topic)
        if allowed:
            self._route(client.name, packet)
        else:
            log.warning("%s must not publish to %s", one_line(client.identity), one_line(packet.topic))
        if packet.qos and packet.packet_id is not None:
            code = mqtt5.PubAckReasonCode.SUCCESS if allowed else mqtt5.PubAckReasonCode.NOT_AUTHORIZED
            client.send(mqtt5.PubAckPacket(packet.packet_id, reason_code=code).write())

    def _route(self, name: str, packet: mqtt5.PublishPacket) -> None:
        topic, payload = packet.topic, packet.payload
        if packet.retain:
            self._retained.pop(topic, None)
            kept = sum(by == name for by, _ in self._retained.values())
            if 0 < len(payload) <= _MOST_RETAINED_BYTES and kept < MOST_RETAINED_EACH:
                self._retained[topic] = name, payload
        receivers = set(self._exact.get(topic, ()))
        for filter_, clients in self._wild.items():
            if matches(filter_, topic):
                receivers |= clients
        for client in receivers:
            self._deliver(client, packet)

    def _deliver(self, client: _Client, packet: mqtt5.PublishPacket, retained: bool = False) -> None:
        """With the certainty that its publisher chose: who wants no confirmation pays for none."""
        if client.queued() + len(packet.payload) > MOST_QUEUED:
            if not client.dropped:
                log.warning("%s takes in too little: messages to it are dropped", one_line(client.identity))
            client.dropped += 1
            return
        confirmed = packet.qos != mqtt5.QoS.AT_MOST_ONCE
        sent = mqtt5.PublishPacket(
            packet.topic,
            packet.payload,
            qos=mqtt5.QoS.AT_LEAST_ONCE if confirmed else mqtt5.QoS.AT_MOST_ONCE,
            retain=retained,
            packet_id=next(client.numbers) if confirmed else None,
            message_expiry_interval=packet.message_expiry_interval,
        )
        client.send(sent.write())

    def _subscribe(self, client: _Client, packet: mqtt5.SubscribePacket) -> None:
        codes = []
        for wanted in packet.topic_filters:
            if not self._may_read(client.name, wanted.pattern):
                log.warning("%s must not read %s", one_line(client.identity), one_line(wanted.pattern))
                codes.append(mqtt5.SubAckReasonCode.NOT_AUTHORIZED)
                continue
            if len({*client.filters, wanted.pattern}) > MOST_FILTERS:
                codes.append(mqtt5.SubAckReasonCode.QUOTA_EXCEEDED)
                continue
            self._table(wanted.pattern).setdefault(wanted.pattern, set()).add(client)
            client.filters.add(wanted.pattern)
            codes.append(mqtt5.SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE)
        client.send(mqtt5.SubAckPacket(packet.packet_id, codes).write())
        for wanted, code in zip(packet.topic_filters, codes, strict=True):
            if code == mqtt5.SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE:
                for topic, (_, payload) in self._retained.items():
                    if matches(wanted.pattern, topic):
                        self._deliver(client, mqtt5.PublishPacket(topic, payload), retained=True)


def _read(data: bytes) -> mqtt5.Packet:
    """One whole packet; ``ValueError`` for whatever is none. The parser panics on texts that are not UTF-8."""
    try:
        packet, used = mqtt5.read(memoryview(data))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ValueError(f"a packet must be well-formed, got {one_line(error)}") from None
    if used != len(data):
        raise ValueError(f"a packet must have the length that it says, {len(data)}, got {used}")
    return packet


def matches(filter_: str, topic: str) -> bool:
    """MQTT's wildcards: + is one level, # at the end all below."""
    levels, parts = filter_.split("/"), topic.split("/")
    if levels[-1] == "#":
        levels = levels[:-1]
        parts = parts[: len(levels)]
    return len(levels) == len(parts) and all(one in ("+", other) for one, other in zip(levels, parts, strict=True))


def _allow_open_files(wanted: int) -> None:
    """Raise this process's limit on open files to ``wanted``, if it is lower."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise CodedFLError(
            f"the broker must be allowed {wanted} open files, for {MOST_CONNECTIONS} connections, "
            f"got a limit of {hard}: raise it (ulimit -Hn {wanted}), or take mosquitto"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _common_name(writer: asyncio.StreamWriter) -> str:
    certificate = writer.get_extra_info("peercert") or {}
    fields = dict(pair for entry in certificate.get("subject", ()) for pair in entry)
    return str(fields.get("commonName", ""))
