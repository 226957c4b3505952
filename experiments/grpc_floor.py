"""The floor: the same server and devices over plain gRPC streams with TLS, without a broker in between.

Both ends are a ``Link``, so ``MqttPost`` and ``DeviceDaemon`` run on it unchanged; what is measured is the transport.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # programs are started beside it, and nothing is forked

import grpc
import msgpack

from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.link import LinkEvent, LinkUp, Received, Will

_SERVICE, _METHOD = "codedfl.Floor", "Link"
_LARGEST = [("grpc.max_receive_message_length", 1 << 22), ("grpc.max_send_message_length", 1 << 22)]


class _Queued:
    """Events of a link whose messages come in another thread."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[LinkEvent] = queue.SimpleQueue()
        self.bytes_in = self.bytes_out = 0

    def subscribe(self, *names: str) -> None:
        """Everything comes anyway."""

    def events(self, seconds: float) -> list[LinkEvent]:
        found: list[LinkEvent] = []
        try:
            found.append(self._events.get(timeout=seconds))
            while True:
                found.append(self._events.get_nowait())
        except queue.Empty:
            return found

    def _took(self, packed: bytes) -> None:
        topic, payload = msgpack.unpackb(packed)
        self.bytes_in += len(payload)
        self._events.put(Received(topic, payload))


class GrpcServerLink(_Queued):
    """The server's end: a gRPC server, one stream a device."""

    def __init__(self, party: BrokerAddress, devices: int) -> None:
        super().__init__()
        self._streams: dict[str, queue.SimpleQueue[bytes | None]] = {}
        self._server = grpc.server(ThreadPoolExecutor(devices + 4), options=_LARGEST)
        handler = grpc.stream_stream_rpc_method_handler(self._stream)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),))
        assert party.key and party.certificate and party.authority
        pair = (party.key.read_bytes(), party.certificate.read_bytes())
        credentials = grpc.ssl_server_credentials([pair], party.authority.read_bytes(), require_client_auth=True)
        self.port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()
        self._events.put(LinkUp())

    def _stream(self, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        name = dict(context.invocation_metadata())["device"]
        out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._streams[name] = out

        def read() -> None:
            try:
                for packed in requests:
                    self._took(packed)
            except grpc.RpcError:
                pass
            finally:
                out.put(None)

        ThreadPoolExecutor(1).submit(read)
        while (packed := out.get()) is not None:
            yield packed

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        del retain
        to_one = topic.count("/") > 2  # else it is the server's presence, which all read
        for device, stream in list(self._streams.items()):
            if not to_one or device == topics.device_of(topic):
                self.bytes_out += len(payload)
                stream.put(msgpack.packb([topic, payload]))

    def flush(self, seconds: float) -> None:
        """Streams are flushed when they end."""

    def close(self) -> None:
        self._server.stop(1.0).wait()


class GrpcDeviceLink(_Queued):
    """A device's end."""

    def __init__(self, address: BrokerAddress, will: Will) -> None:
        super().__init__()
        assert address.authority and address.certificate and address.key
        credentials = grpc.ssl_channel_credentials(
            address.authority.read_bytes(), address.key.read_bytes(), address.certificate.read_bytes()
        )
        self._channel = grpc.secure_channel(f"127.0.0.1:{address.port}", credentials, options=_LARGEST)
        self._device = topics.device_of(will.topic)
        self._out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def open(self) -> None:
        call = self._channel.stream_stream(f"/{_SERVICE}/{_METHOD}")(
            iter(self._out.get, None), metadata=(("device", self._device),)
        )

        def read() -> None:
            try:
                for packed in call:
                    self._took(packed)
            except grpc.RpcError:
                pass

        ThreadPoolExecutor(1).submit(read)
        self._events.put(LinkUp())

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        del retain
        self._out.put(msgpack.packb([topic, payload]))

    def flush(self, seconds: float) -> None:
        """Streams are flushed when they end."""

    def close(self) -> None:
        self._out.put(None)
        self._channel.close()
