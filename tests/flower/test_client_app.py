"""The client app on a node and the app of the package: what they are told, what they refuse, what stays on the node."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.federation import APP, app_config, local_parts
from flwr.app import ConfigRecord, Context, Message, RecordDict

from codedfl.engine.calls import Hello, Introduction, Refused, Step
from codedfl.engine.letters import Parcel
from codedfl.engine.rehearsal import rehearse
from codedfl.engine.run_config import RunConfig
from codedfl.flower.client import device_name, make_client_app, make_host
from codedfl.flower.delays import injected_delay
from codedfl.flower.records import HELLO, STEP, call_record, read_reply
from codedfl.protocol import Policy
from codedfl.run.in_process import run_in_process
from run_settings import CONFIG
from scenario import Scenario


def context(node: dict[str, Any], run: dict[str, Any] | None = None) -> Context:
    return Context(1, 2, node, RecordDict(), run or CONFIG)


def test_nodes_whose_files_have_another_order_of_columns_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(APP))
    from codedfl_app.data import load_local_data

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "rows.csv").write_text("a,b,label\n1,2,yes\n")
    (tmp_path / "two" / "rows.csv").write_text("b,label,more,a\n2,yes,7,1\n")
    run = app_config(data="files", column_names="a, b")
    for name in ("one", "two"):
        X, y = load_local_data(context({"data-dir": str(tmp_path / name)}, run))
        assert X.tolist() == [[1.0, 2.0]] and y.tolist() == ["yes"]


def test_operators_need_not_change_their_policy_for_the_app_as_it_is():
    """A server that asks each holder of a role something else must not get all of X'X (``Agreement.directions``)."""
    config = RunConfig.from_config(app_config())
    parameters = config.learning.parameters(config.scheme)
    holders = max(len(part.members) for part in config.scheme.quorum(config.patience.devices).parts)
    assert Policy().objection(replace(parameters, epochs=config.epochs)) == ""
    assert holders * (config.epochs - 1) * parameters.n_outputs < parameters.n_features


def test_a_rehearsal_trains_the_app_of_the_package():
    config = app_config(devices=4, epochs=5, n_features=40)
    theta = rehearse(RunConfig.from_config(config), local_parts(config, 4))
    data = local_parts(config, 1)[0]
    assert RunConfig.from_config(config).learning.model(theta).score(*data) > 0.8


CONFIGURED = ("run_config.py", "learning.py")


def test_the_app_names_every_key_that_is_read():
    """Flower refuses to override what the app does not name."""
    source = "".join((APP.parent.parent / "src/codedfl/engine" / name).read_text() for name in CONFIGURED)
    read = set(re.findall(r'setting\(config, "([a-z-]+)"', source)) | set(re.findall(r'config, "([a-z-]+)"', source))
    assert read - set(app_config()) == set()


# -- the client app


def answer(node: dict[str, Any], challenge: bytes = b"x") -> Any:
    kind, content = call_record(Hello(challenge))
    app = make_client_app(lambda context: (np.zeros((2, 3)), np.array(["yes", "no"])))
    message = Message(content, 2, kind)
    message.metadata.__dict__["_message_id"] = "1"
    return read_reply(app(message, context(node)).content)


def test_the_client_app_introduces_its_device(tmp_path: Path):
    reply = answer({"partition-id": 3, "state-dir": str(tmp_path / "state")})
    assert isinstance(reply, Introduction) and reply.name == "device-3"
    assert (tmp_path / "state" / "device-3" / "device.key").is_file()
    again = answer({"device-name": "a name", "state-dir": str(tmp_path / "state")})
    assert isinstance(again, Introduction) and again.name == "a name"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({}, "partition-id must be of type int in the configuration, got None"),
        ({"device-name": "../up"}, "device-name must do as the name of a folder, got '../up'"),
        ({"device-name": ".."}, "device-name must do as the name of a folder, got '..'"),
        ({"device-name": "a\nb"}, "device-name must do as the name of a folder, got 'a\\nb'"),
        (
            {"partition-id": 0, "server-key": "00"},
            "server-key must be a public key of 32 bytes in hex, got '00'",
        ),
        (
            {"device-name": "a", "least-joiners": "3"},
            "least-joiners must be of type int in the configuration, got '3'",
        ),
    ],
)
def test_a_bad_node_configuration_is_refused(tmp_path: Path, node: dict[str, Any], message: str):
    assert answer({"state-dir": str(tmp_path / "state")} | node) == Refused(message)


SECRET = "4711-secret"


def with_a_row_too_many(context: Context) -> Any:
    return np.zeros((4711, 3)), np.array(["yes", "no"])


def with_a_bug(context: Context) -> Any:
    raise KeyError(SECRET)


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (with_a_row_too_many, "InvalidInput: y must hold one label per row (4711), got 2"),
        (with_a_bug, f"KeyError: '{SECRET}'"),
    ],
)
def test_what_is_wrong_with_rows_stays_on_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, load: Any, text: str
):
    host = make_host(context({"partition-id": 0, "state-dir": str(tmp_path / "state")}), load)
    reply = host.handle(Step(bytes(16), "coded-keys", "device-0", Parcel(0, (), 0)))
    assert reply == Refused("its rows cannot be used: see the node's log")
    assert ("codedfl.engine.device", logging.ERROR, f"device-0: {text}") in caplog.record_tuples


def test_nothing_of_the_device_is_in_the_context(tmp_path: Path):
    kind, content = call_record(Hello(b"x"))
    app = make_client_app(lambda context: (np.zeros((2, 3)), np.array(["yes", "no"])))
    message = Message(content, 2, kind)
    message.metadata.__dict__["_message_id"] = "1"
    here = context({"partition-id": 3, "state-dir": str(tmp_path / "state")})
    app(message, here)
    assert len(here.state) == 0
    assert device_name(here) == "device-3"


def newest_messages() -> tuple[bytes, bytes, bytes]:
    """An update, the end of the run, and neither."""
    scenario = Scenario()
    server = scenario.server()
    updates: list[bytes] = []
    run_in_process(server, scenario.devices(), on_epoch=lambda _: updates.extend(out.data for out in server.repeat()))
    (end,) = {out.data for out in server.repeat()}
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
