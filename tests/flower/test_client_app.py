"""The client app on a node: what it is told, what it refuses, and what stays on the node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from app_nodes import Machines, Node
from flwr.app import Context, Message, RecordDict

from codedfl.errors import MessageRefused
from codedfl.flower.delays import injected_delay
from codedfl.flower.records import ASK, HELLO, Hello, packed, unpacked
from codedfl.sum import wire
from codedfl.sum.keys import digest


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return Machines(tmp_path_factory.mktemp("machines"))


@pytest.fixture
def node(machines: Machines) -> Node:
    return machines.nodes[103]


@pytest.fixture
def hello(machines: Machines) -> Hello:
    return Hello.to_nodes_of(machines.made.study.digest())


def test_a_node_signs_whose_it_is_for_this_node_and_this_challenge(machines: Machines, node: Node, hello: Hello):
    keys, reply = dict(machines.made.roster.keys), node.greet(hello)
    assert hello.name_in(2, reply, keys) == "device-3"
    for other, number in ((hello, 3), (Hello.to_nodes_of(hello.study), 2), (Hello(bytes(32), hello.challenge), 2)):
        with pytest.raises(MessageRefused):
            other.name_in(number, reply, keys)
    with pytest.raises(MessageRefused):
        hello.name_in(2, reply, {"device-3": keys["device-1"]})
    with pytest.raises(MessageRefused):
        hello.name_in(2, reply, {"device-1": keys["device-1"]})


def test_a_node_of_another_study_gives_no_name(node: Node, hello: Hello):
    assert node.greet(Hello(bytes(32), hello.challenge)) == RecordDict()


def test_nothing_of_the_device_is_in_the_context(node: Node, hello: Hello):
    node.greet(hello)
    assert len(node.context.state) == 0


@pytest.mark.parametrize("size", [0, 10, 1 << 16, 300_000])
def test_bytes_are_what_they_were(size: int):
    assert unpacked(packed(bytes(size))) == bytes(size)


def test_any_request_has_a_reply(node: Node):
    reply = node.answer(Message(packed(b"junk"), 2, ASK), "1")
    found = wire.decode(unpacked(reply.content), wire.Reply, "a reply")
    assert (found.kind, found.code, found.request) == ("refused", "request", digest(b"junk"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kit": None}, "kit must be of type str in the configuration, got None"),
        ({"kit": "none.kit"}, "the kit must be a readable file, got 'none.kit'"),
        ({}, "the kit must be of a device that enrolled on this machine (none), got one of 'device-3': --state names"),
    ],
)
def test_a_bad_node_configuration_is_for_the_nodes_log_only(
    node: Node, hello: Hello, tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], message: str
):
    config = {**node.config, "state-dir": str(tmp_path / "state"), **changes}
    stranger = Node({key: value for key, value in config.items() if value is not None})
    assert stranger.greet(hello) == RecordDict()
    (text,) = [text for _, _, text in caplog.record_tuples if text.startswith("this node does not take part: ")]
    assert text.startswith(f"this node does not take part: {message}")


def context(node: dict[str, Any]) -> Context:
    return Context(1, 2, node, RecordDict(), {})


def request(e: bytes) -> RecordDict:
    common = wire.AnswerCommon(bytes(32), 1, bytes(32), b"ask", bytes(32), e)
    own = wire.AnswerOwn(wire.RoleKey("a", bytes(32), bytes(32), bytes(64)), b"", (0, 1), b"")
    return packed(wire.encode(wire.Request("answer", wire.encode(common), wire.encode(own), bytes(64))))


def test_delays_are_those_of_the_node_and_only_before_products(monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    here = context({"delay-seconds": 2.0, "delay-mean": 1.0, "delay-seed": 5})
    product, whole, damaged = request(bytes(8)), request(b""), packed(b"?")
    messages = (
        (HELLO, RecordDict()),
        (ASK, RecordDict()),
        (ASK, whole),
        (ASK, damaged),
        (ASK, product),
        (ASK, product),
    )
    for kind, content in messages:
        message = Message(content, 2, kind)
        assert injected_delay(message, here, lambda message, context: message) is message
    assert len(slept) == 2 and min(slept) > 2 and slept[0] != slept[1]
    again = context(dict(here.node_config))
    injected_delay(Message(product, 2, ASK), again, lambda message, context: message)
    assert slept[2] == slept[0]
