"""From flat configuration to features, labels, scheme and solver; and what is refused on the way."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.federation import APP, app_config, local_parts
from flwr.app import ConfigRecord, Context, Message, RecordDict

from codedfl.engine.calls import Hello, Introduction, Refused, Step
from codedfl.engine.learning import Learning
from codedfl.engine.letters import Parcel
from codedfl.engine.run_config import RunConfig
from codedfl.errors import InvalidInput
from codedfl.flower.client import device_name, make_client_app, make_host
from codedfl.flower.delays import injected_delay
from codedfl.flower.records import HELLO, STEP, call_record, read_reply
from codedfl.flower.rehearsal import rehearse
from codedfl.run.in_process import run_in_process
from codedfl.schemes import CodedKeys, CodedPadded, OneShot
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent
from codedfl.solve.krylov import ConjugateGradient
from codedfl.study.plan_file import MadeFor, PlanFile
from scenario import Scenario

CONFIG: dict[str, Any] = {
    "devices": 4,
    "alpha": 2,
    "epochs": 5,
    "columns": 3,
    "x-low": -1,
    "x-high": 1.0,
    "classes": "yes, no",
    "features": "linear",
    "max-samples": 100,
    "max-samples-per-device": 50,
}


def test_learning_makes_the_same_of_the_same_rows_everywhere():
    learning = Learning.from_config(CONFIG)
    X, Y = learning.rows(np.array([[0.0, 1.0, -1.0], [1.0, 0.5, 0.0]]), np.array(["no", "yes"]))
    assert np.array_equal(X, [[1, 0.5, 1, 0], [1, 1, 0.75, 0.5]])  # the constant, then [0, 1]
    assert np.array_equal(Y, [[1, 0], [0, 1]])
    model = learning.model(np.zeros((4, 2)))
    assert list(model.predict(np.zeros((1, 3)))) == ["no"]


def test_values_beyond_their_public_range_are_clipped_only_if_the_run_says_so(caplog: pytest.LogCaptureFixture):
    config = CONFIG | {"classes": "", "target-low": 0.0, "target-high": 1.0}
    rows = np.array([[0.0, 1.5, -1.0], [5.0, 0.5, 0.0]]), np.array([0.5, -3.0])
    message = (
        "the rows must lie within x-low to x-high and target-low to target-high, unless clip is true,"
        " got 2 features and 1 targets beyond"
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        Learning.from_config(config).rows(*rows)
    X, Y = Learning.from_config(config | {"clip": True}).rows(*rows)
    assert np.array_equal(X, [[1, 0.5, 1, 0], [1, 1, 0.75, 0.5]])
    assert np.array_equal(Y, [[0], [-1]])
    told = ("codedfl.flower.device", logging.WARNING, "clipped to their public ranges: 2 features and 1 targets")
    assert caplog.record_tuples == [told]


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


def test_the_server_key_is_the_same_for_all_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert RunConfig.from_config(CONFIG).server_key == Path("/state/codedfl/server.key")
    assert RunConfig.from_config(CONFIG | {"server-key-file": "/keys/mine"}).server_key == Path("/keys/mine")


def test_numbers_and_targets_are_read():
    assert Learning.from_config(CONFIG | {"classes": "3,1,2"}).labels.to_dict() == {
        "kind": "classes",
        "classes": [1, 2, 3],
    }
    regression = Learning.from_config(CONFIG | {"classes": "", "target-low": 0, "target-high": 10.0})
    assert regression.task == "regression"
    assert regression.labels.to_dict() == {"kind": "targets", "low": 0.0, "high": 10.0}
    kernel = Learning.from_config(CONFIG | {"features": "rbf", "n-features": 30})
    assert kernel.feature_map.n_features == 30


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": "3"}, "columns must be of type int in the configuration, got '3'"),
        ({"columns": None}, "columns must be of type int in the configuration, got None"),
        ({"features": "cubic"}, "features must be rbf or linear, got 'cubic'"),
        ({"alpha": 5}, "alpha must be between 1 and the number of devices (4), got 5"),
        ({"scheme": "fast"}, "scheme must be one of coded-padded, coded-keys, one-shot, got 'fast'"),
        ({"solver": "fast"}, "solver must be one of gd, nesterov, cg, got 'fast'"),
        ({"step": "fast"}, "step must be one of paper, literal, got 'fast'"),
        ({"spare": 2}, "spare must be between 0 and alpha - 1 (1), got 2"),
        ({"min-devices": 1}, "min-devices must be between 2 and devices (4), got 1"),
    ],
)
def test_a_bad_configuration_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        RunConfig.from_config(CONFIG | change)


def test_the_scheme_decides_the_solver():
    assert isinstance(RunConfig.from_config(CONFIG).make_solver(), ConjugateGradient)
    assert isinstance(RunConfig.from_config(CONFIG | {"solver": "gd"}).make_solver(), GradientDescent)
    assert isinstance(RunConfig.from_config(CONFIG | {"scheme": "one-shot"}).make_solver(), ClosedForm)


def test_a_plan_file_replaces_scheme_and_solver(tmp_path: Path):
    path = tmp_path / "plan.toml"
    PlanFile(CodedPadded(3), "nesterov", 7).save(path)
    config = RunConfig.from_config(CONFIG | {"plan": str(path)})
    assert (config.scheme, config.solver, config.epochs) == (CodedPadded(3), "nesterov", 7)


def test_a_one_shot_plan_runs_as_it_does_in_train(tmp_path: Path):
    path = tmp_path / "plan.toml"
    PlanFile(OneShot(3), "closed-form", 1).save(path)
    config = RunConfig.from_config(CONFIG | {"plan": str(path)})
    assert config.scheme == OneShot(3)
    assert isinstance(config.make_solver(), ClosedForm)


@pytest.mark.parametrize(("planned", "configured"), [(2, 0), (0, 2)])
def test_a_plan_keeps_the_spare_answers(tmp_path: Path, planned: int, configured: int):
    path = tmp_path / "plan.toml"
    PlanFile(CodedKeys(3, 1, planned), "cg", 7).save(path)
    assert RunConfig.from_config(CONFIG | {"plan": str(path), "spare": configured}).scheme == CodedKeys(3, 1, 2)


def test_a_plan_for_a_larger_federation_is_refused(tmp_path: Path):
    path = tmp_path / "plan.toml"
    PlanFile(CodedKeys(3), "cg", 7, 0.9, MadeFor("d", 100, 3, 2, "f", "0", 9)).save(path)
    with pytest.raises(InvalidInput, match=r"^the plan was made for 9 devices, "):
        RunConfig.from_config(CONFIG | {"plan": str(path)})


def test_a_rehearsal_trains_the_app_of_the_package():
    config = app_config(devices=3, alpha=2, epochs=5, n_features=40)
    theta = rehearse(RunConfig.from_config(config), local_parts(config, 3))
    data = local_parts(config, 1)[0]
    assert RunConfig.from_config(config).learning.model(theta).score(*data) > 0.8


def test_the_app_names_every_key_that_is_read():
    """Flower refuses to override what the app does not name."""
    source = "".join((APP.parent.parent / "src/codedfl/engine" / name).read_text() for name in CONFIGURED)
    read = set(re.findall(r'setting\(config, "([a-z-]+)"', source)) | set(re.findall(r'config, "([a-z-]+)"', source))
    assert read - set(app_config()) == set()


CONFIGURED = ("run_config.py", "learning.py")


# -- the client app


def context(node: dict[str, Any], run: dict[str, Any] | None = None) -> Context:
    return Context(1, 2, node, RecordDict(), run or CONFIG)


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
            "server-key must be a public key of 64 bytes in hex, got '00'",
        ),
        (
            {"partition-id": 0, "min-participants": "3"},
            "min-participants must be of type int in the configuration, got '3'",
        ),
    ],
)
def test_a_bad_node_configuration_is_refused(tmp_path: Path, node: dict[str, Any], message: str):
    assert answer({"state-dir": str(tmp_path / "state")} | node) == Refused(message)


SECRET = "4711-secret"


def of_an_unknown_class(context: Context) -> Any:
    return np.zeros((2, 3)), np.array(["yes", SECRET])


def with_a_bug(context: Context) -> Any:
    raise KeyError(SECRET)


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (of_an_unknown_class, f"InvalidInput: y must hold the 2 classes only, got '{SECRET}'"),
        (with_a_bug, f"KeyError: '{SECRET}'"),
    ],
)
def test_what_is_wrong_with_rows_stays_on_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, load: Any, text: str
):
    host = make_host(context({"partition-id": 0, "state-dir": str(tmp_path / "state")}), load)
    reply = host.handle(Step(bytes(16), "coded-keys", "device-0", Parcel(0, (), 0)))
    assert reply == Refused("its rows cannot be used: see the node's log")
    assert ("codedfl.flower.device", logging.ERROR, f"device-0: {text}") in caplog.record_tuples


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


def test_a_node_does_not_load_what_an_update_does_not_need():
    """A process is started for every call: what it imports is waited for."""
    code = "import sys, codedfl.flower.client; print([m for m in sys.modules if m in ('sklearn', 'matplotlib', 'ray')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
