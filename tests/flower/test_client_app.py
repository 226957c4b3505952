"""The client app on a node: what it is told, what it refuses, and what stays on the node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from app_nodes import Machines, Node
from flwr.app import ConfigRecord, Context, Message, RecordDict

from codedfl.engine.calls import Hello, Introduction, Refused
from codedfl.flower.delays import injected_delay
from codedfl.flower.records import HELLO, STEP
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from codedfl.run.in_process import run_in_process
from scenario import Scenario

PRINTABLE = "must be printable, without spaces, / \\ + # and a dot in front"


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Machines:
    return Machines(tmp_path_factory.mktemp("machines"))


@pytest.fixture
def node(machines: Machines) -> Node:
    return machines.nodes[103]


@pytest.fixture
def hello(machines: Machines) -> Hello:
    return Hello(b"x", bytes.fromhex(machines.made.study.server_key))


def test_the_client_app_introduces_its_device_to_the_server_of_its_study(machines: Machines, node: Node, hello: Hello):
    reply = node.handle(hello)
    assert isinstance(reply, Introduction)
    assert (reply.name, reply.public) == ("device-3", machines.made.roster.keys["device-3"])
    assert node.handle(replace(hello, server_public=bytes(32))) == Refused(DOES_NOT_TAKE_PART)


def test_nothing_of_the_device_is_in_the_context(node: Node, hello: Hello):
    node.handle(hello)
    assert len(node.context.state) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device-name": None}, "device-name must be of type str in the configuration, got None"),
        ({"device-name": "../up"}, f"device-name {PRINTABLE}, got '../up': write 'up'"),
        ({"device-name": ".."}, f"device-name {PRINTABLE}, got '..': write 'unnamed'"),
        ({"device-name": "a\nb"}, f"device-name {PRINTABLE}, got 'a\\nb': write 'a-b'"),
        ({"study-file": None}, "study-file must be of type str in the configuration, got None"),
        ({"study-file": "none.toml"}, "the study file must exist, got 'none.toml'"),
        ({"roster": None}, "roster must be of type str in the configuration, got None"),
        ({"roster": "none.toml"}, "the roster must be a readable file, got 'none.toml'"),
        ({"device-name": "stranger"}, "'stranger' must be on the roster with this device's key "),
    ],
)
def test_a_bad_node_configuration_is_for_the_nodes_log_only(
    node: Node, hello: Hello, tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], message: str
):
    config = {**node.config, "state-dir": str(tmp_path / "state"), **changes}
    stranger = Node({key: value for key, value in config.items() if value is not None})
    assert stranger.handle(hello) == Refused(DOES_NOT_TAKE_PART)
    (text,) = [text for _, _, text in caplog.record_tuples if text.startswith("this node does not take part: ")]
    assert text.startswith(f"this node does not take part: {message}")


def context(node: dict[str, Any]) -> Context:
    return Context(1, 2, node, RecordDict(), {})


def newest_messages() -> tuple[bytes, bytes, bytes]:
    """An update, the end of the run, and neither."""
    scenario = Scenario()
    server = scenario.server()
    updates: list[bytes] = []
    run_in_process(
        server, scenario.devices(), on_epoch=lambda _: updates.extend(out.data for out in server.resend().outgoing)
    )
    (end,) = {out.data for out in server.resend().outgoing}
    return updates[0], end, b"?"


def test_delays_are_those_of_the_node_and_only_in_phase_2(monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    here = context({"delay-seconds": 2.0, "delay-mean": 1.0, "delay-seed": 5})
    update, end, damaged = (RecordDict({"newest": ConfigRecord({"data": data})}) for data in newest_messages())
    calls = ((HELLO, RecordDict()), (STEP, RecordDict()), (STEP, end), (STEP, damaged), (STEP, update), (STEP, update))
    for kind, content in calls:
        message = Message(content, 2, kind)
        assert injected_delay(message, here, lambda message, context: message) is message
    assert len(slept) == 2 and min(slept) > 2 and slept[0] != slept[1]
    again = context(dict(here.node_config))
    injected_delay(Message(update, 2, STEP), again, lambda message, context: message)
    assert slept[2] == slept[0]
