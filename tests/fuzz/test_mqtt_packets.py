"""What a client of the small broker may send it: MQTT packets, damaged in every way, end in one kind of error."""

from __future__ import annotations

import mqtt5
import pytest
from mutation import fuzz

from codedfl.errors import MessageRefused
from codedfl.mqtt.small_broker import _read

pytestmark = [
    pytest.mark.hospitals,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # the parser's panics say so as well
]

PACKETS = [
    mqtt5.ConnectPacket(client_id="a", will=mqtt5.Will(topic="codedfl/s/a/here", payload=b"x", retain=True)).write(),
    mqtt5.PublishPacket("codedfl/s/a/out", b"x", qos=mqtt5.QoS.AT_LEAST_ONCE, packet_id=1).write(),
    mqtt5.SubscribePacket(1, [mqtt5.TopicFilter("codedfl/s/a/in"), mqtt5.TopicFilter("codedfl/+/server")]).write(),
    mqtt5.PubAckPacket(1).write(),
    mqtt5.PingReqPacket().write(),
    mqtt5.DisconnectPacket().write(),
    b"\x82\t\x00\x01\x00\x00\x03a\xa9/\n",  # a filter that is not UTF-8: the parser panics
]


def read(data: bytes) -> None:
    """As the broker does, in the words of ``fuzz``."""
    try:
        _read(data)
    except ValueError as error:
        raise MessageRefused(str(error)) from None


def test_whatever_is_no_packet_is_one_error():
    counts = fuzz(read, PACKETS)
    assert min(counts.values()) > 5
    with pytest.raises(ValueError, match=r"^a packet must be well-formed, got PyObject pointer is null$"):
        _read(PACKETS[-1])
