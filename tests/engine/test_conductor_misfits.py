"""Nodes that do not fit, do not come or hang: refused or given up, and named in the logs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from codedfl.engine.calls import Call, Refused, Reply
from codedfl.engine.conductor import Patience
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.directory import MOST_REFUSALS
from codedfl.crypto.key_files import load_identity
from codedfl.errors import NotEnoughDevices
from codedfl.protocol.messages import VERSION
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from codedfl.run.in_process import run_in_process
from fake_post import FakePost, epoch_of, leftovers, make_conductor, make_hosts, without_nodes
from scenario import Scenario, descent


def run_without_the_last(scenario: Scenario, post: FakePost, tmp_path: Path, **options: object) -> np.ndarray:
    patience = Patience(scenario.n_devices, scenario.n_devices - 1, 10.0, 30.0, 30.0)
    model = make_conductor(scenario, post, tmp_path, descent, patience=patience, **options).run()
    rest = Scenario(
        sizes=scenario.sizes[:-1],
        alpha=scenario.alpha,
        d=scenario.d,
        bounds=scenario.bounds,
        scheme=scenario.scheme,
    )
    rest.data = scenario.data[:-1]
    rest.public_samples = scenario.public_samples
    expected = run_in_process(rest.server(), rest.devices())
    assert np.array_equal(model, expected)
    return model


@pytest.fixture
def private(scenario: Scenario) -> Scenario:
    """The number of samples is summed securely: a device may be missing from it."""
    scenario.public_samples = False
    return scenario


def test_a_node_of_another_version_is_refused_in_both_logs(
    private: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    post = FakePost(make_hosts(private, tmp_path))
    old_handle = DeviceHost.handle

    def handle(self: DeviceHost, call: Call) -> Reply:
        with monkeypatch.context() as other:
            if self.name == "device-4":
                other.setattr("codedfl.engine.device_host.VERSION", 9)
            return old_handle(self, call)

    monkeypatch.setattr(DeviceHost, "handle", handle)
    run_without_the_last(private, post, tmp_path)
    reason = f"the protocol version must be 9 on this node, got {VERSION}"
    assert ("codedfl.engine.device", logging.ERROR, f"device-4 refuses: {reason}") in caplog.record_tuples
    assert ("codedfl.engine.server", logging.ERROR, f"node 104 cannot take part: {reason}") in caplog.record_tuples


def test_a_node_with_wrong_shapes_is_refused_and_only_its_own_log_says_why(
    private: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    private.data[4] = (private.data[4][0][:, :-1], private.data[4][1])
    post = FakePost(make_hosts(private, tmp_path))
    run_without_the_last(private, post, tmp_path)
    rule = "n_features and n_outputs must be 39 and 2 as this device's recipe makes them, got 40 and 2"
    told = f"device-4 cannot take part: {DOES_NOT_TAKE_PART}"
    assert ("codedfl.engine.device", logging.ERROR, f"device-4 cannot take part: {rule}") in caplog.record_tuples
    assert ("codedfl.engine.server", logging.ERROR, told) in caplog.record_tuples


def test_a_node_with_an_unknown_key_is_refused_in_both_logs(
    private: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    post = FakePost(make_hosts(private, tmp_path))
    roster = {host.name: host.identity.public for host in post.hosts.values()}
    last = post.hosts[104]
    post.hosts[104] = replace(last, identity=load_identity(tmp_path / "other.key"))
    run_without_the_last(private, post, tmp_path, roster=roster)
    texts = [text for _, level, text in caplog.record_tuples if level == logging.ERROR]
    assert any(text.startswith("node 104 cannot take part: the key of 'device-4' must be the one on") for text in texts)
    assert any(text.startswith("device-4 cannot take part: the key of 'device-4' must be the one on") for text in texts)


def test_a_node_that_lost_its_state_is_refused_and_only_its_own_log_says_why(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """It cannot be a participant any more; as long as the code tolerates it, the run goes on."""
    post = FakePost(make_hosts(scenario, tmp_path))
    wiped = False

    def tick() -> None:
        nonlocal wiped
        if not wiped and any(epoch_of(call) >= 1 for name, call in post.handled if name == "device-4"):
            wiped = True
            for entry in (tmp_path / "device-4" / "runs").rglob("*"):
                if entry.is_file():
                    entry.unlink()

    post.tick = tick
    model = make_conductor(scenario, post, tmp_path, descent).run()
    assert np.array_equal(model, run_in_process(scenario.server(), scenario.devices()))
    reason = "device-4 refuses: the run must be one whose state this node holds, got "
    assert {name for name, _, text in caplog.record_tuples if text.startswith(reason)} == {"codedfl.engine.device"}
    told = f"device-4 refuses: {DOES_NOT_TAKE_PART}"
    assert ("codedfl.engine.server", logging.ERROR, told) in caplog.record_tuples


def test_a_second_node_cannot_take_the_name_of_another(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    post = FakePost(make_hosts(scenario, tmp_path))
    first = post.hosts[100]
    thief = replace(first, identity=load_identity(tmp_path / "thief.key"), folder=tmp_path / "thief")

    def tick() -> None:
        if post.now > 2.5:
            post.hosts[900] = thief

    post.tick = tick
    model = make_conductor(scenario, post, tmp_path, lambda: descent(20)).run()
    assert np.array_equal(model, run_in_process(scenario.server(descent(20)), scenario.devices()))
    texts = [text for _, level, text in caplog.record_tuples if level == logging.ERROR]
    assert any(text.startswith("node 900 cannot take part: the key of 'device-0' must be") for text in texts)


def test_too_few_devices_are_reported(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    del post.hosts[100], post.hosts[101]
    patience = Patience(5, 4, 10.0)
    message = r"^after 10 s at least 4 devices must take part, got 3 \(device-2, device-3, device-4\)$"
    with pytest.raises(NotEnoughDevices, match=message):
        make_conductor(scenario, post, tmp_path, descent, patience=patience).run()


def test_without_any_device_there_is_no_waiting_for_ever(scenario: Scenario, tmp_path: Path):
    post = FakePost({}, tick=lambda: ended_by(post, 60.0))
    with pytest.raises(NotEnoughDevices, match=r"^after 10 s at least 4 devices must take part, got 0 \(none\)$"):
        make_conductor(scenario, post, tmp_path, descent, patience=Patience(5, 4, 10.0)).run()


def ended_by(post: FakePost, when: float) -> None:
    assert post.now < when, "it must have ended by now"


def test_nodes_that_hang_are_given_up_although_they_are_connected(scenario: Scenario, tmp_path: Path):
    hanging = ("device-0", "device-1", "device-3")
    post = FakePost(
        make_hosts(scenario, tmp_path),
        delay=lambda host, call: float("inf") if host.name in hanging and epoch_of(call) == 2 else 0.3,
        tick=lambda: ended_by(post, 100.0),
    )
    patience = Patience(5, 5, 60.0, gone_seconds=30.0, call_seconds=20.0)
    with pytest.raises(NotEnoughDevices, match=r"without device-0, device-1, device-3$"):
        make_conductor(scenario, post, tmp_path, descent, patience=patience).run()
    assert post.now > 50.0


def refusing_updates(monkeypatch: pytest.MonkeyPatch, name: str, refuses: Callable[[], bool]) -> None:
    handle = DeviceHost.handle

    def refusing(self: DeviceHost, call: Call) -> Reply:
        return Refused("no") if self.name == name and epoch_of(call) and refuses() else handle(self, call)

    monkeypatch.setattr(DeviceHost, "handle", refusing)


def test_a_device_that_was_given_up_is_told_of_the_end(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    refusing_updates(monkeypatch, "device-4", lambda: True)
    post = FakePost(make_hosts(scenario, tmp_path))
    make_conductor(scenario, post, tmp_path, lambda: descent(40)).run()
    assert sum(epoch_of(call) > 0 for name, call in post.handled if name == "device-4") == MOST_REFUSALS
    assert leftovers(tmp_path) == []
    assert not [text for _, _, text in caplog.record_tuples if text.startswith("not told")]


def test_a_given_up_device_whose_node_is_gone_is_named_and_not_waited_for(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    refusing_updates(monkeypatch, "device-4", lambda: True)
    post = FakePost(make_hosts(scenario, tmp_path))
    without_nodes(post, [104], lambda: any(epoch_of(call) >= 50 for _, call in post.handled))
    patience = Patience(5, 5, 60.0, gone_seconds=30.0, farewell_seconds=1000.0)
    make_conductor(scenario, post, tmp_path, lambda: descent(60), patience=patience).run()
    assert post.now < 100.0
    expected = "not told that the run is over, and so not wiped: device-4"
    assert ("codedfl.engine.server", logging.WARNING, expected) in caplog.record_tuples


def test_a_given_up_device_that_comes_back_at_another_node_is_asked_again(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    post = FakePost(make_hosts(scenario, tmp_path))
    refusing_updates(monkeypatch, "device-4", lambda: 104 in post.hosts)
    asked: list[int] = []

    def tick() -> None:
        asked[:] = [epoch_of(call) for name, call in post.handled if name == "device-4" and epoch_of(call)]
        if len(asked) >= MOST_REFUSALS and 104 in post.hosts:
            post.hosts[204] = post.hosts.pop(104)

    post.tick = tick
    make_conductor(scenario, post, tmp_path, lambda: descent(60)).run()
    assert len(asked) > MOST_REFUSALS + 10
