"""The server app and its nodes on a stand-in network: whatever is lost, killed or wrong, the model is the same."""

from __future__ import annotations

import itertools
import logging
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_post import FakePost, Killed, is_step, make_conductor, make_hosts

from codedfl.engine.calls import Call, Refused, Reply, Step
from codedfl.engine.conductor import Patience
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.directory import MOST_REFUSALS
from codedfl.engine.keys import load_identity
from codedfl.errors import CodedFLError, InvalidInput, NotEnoughDevices, RangeExceeded, WrongAnswers
from codedfl.protocol import Phase
from codedfl.protocol.epoch_total import feed_solver
from codedfl.protocol.messages import Kind, Message, Update
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from codedfl.run.in_process import run_in_process
from scenario import Scenario, descent

SCHEMES = {"coded-padded": (PaddedServer, PaddedDevice), "coded-keys": (KeysServer, KeysDevice)}


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is most of the time these tests take."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture(params=SCHEMES)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    server_type, device_type = SCHEMES[request.param]
    return Scenario(sizes=(3, 5, 2, 4, 3), alpha=3, d=40, server_type=server_type, device_type=device_type)


def expected_model(scenario: Scenario) -> np.ndarray:
    return run_in_process(scenario.server(), scenario.devices())


def leftovers(folder: Path) -> list[str]:
    """Files of runs, on the nodes and on the server; keys and lock files apart."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".key", ".lock")]
    return [str(path.relative_to(folder)) for path in files]


def test_the_model_is_the_one_of_the_in_process_run(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    epochs: list[int] = []
    model = make_conductor(scenario, post, tmp_path, descent, on_epoch=epochs.append).run()
    assert np.array_equal(model, expected_model(scenario))
    assert epochs == [1, 2, 3, 4]
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("seed", range(4))
def test_lost_calls_and_replies_change_nothing(scenario: Scenario, tmp_path: Path, seed: int):
    rng = random.Random(seed)
    post = FakePost(
        make_hosts(scenario, tmp_path),
        delay=lambda host, call: rng.uniform(0.1, 3.0),
        fault=lambda host, call: rng.choice(["", "", "", "lose call", "lose reply"]),
    )
    patience = Patience(5, 5, 600.0, 600.0, 600.0)
    model = make_conductor(scenario, post, tmp_path, descent, patience=patience).run()
    assert np.array_equal(model, expected_model(scenario))
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("where", ["", " start"])
def test_damaged_messages_change_nothing(scenario: Scenario, tmp_path: Path, where: str):
    seen: dict[str, int] = {}

    def fault(host: DeviceHost, call: object) -> str:
        """Every third call to a node is damaged on the way there, every fourth reply on the way back."""
        seen[host.name] = seen.get(host.name, -1) + 1
        return {0: f"damage call{where}", 1: "", 2: f"damage reply{where}", 3: ""}[seen[host.name] % 4]

    post = FakePost(make_hosts(scenario, tmp_path), fault=fault)
    model = make_conductor(scenario, post, tmp_path, descent).run()
    assert np.array_equal(model, expected_model(scenario))
    assert leftovers(tmp_path) == []


def test_a_server_app_killed_anywhere_goes_on_without_a_new_sharing_phase(scenario: Scenario, tmp_path: Path):
    loads: list[str] = []
    hosts = make_hosts(scenario, tmp_path)
    counted = {
        node: DeviceHost(
            host.name, host.identity, host.folder, lambda host=host: (loads.append(host.name), host.load_rows())[1]
        )
        for node, host in hosts.items()
    }
    post = FakePost(counted)
    rng = random.Random(1)
    budget = 0

    def tick() -> None:
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise Killed

    post.tick = tick
    runs: set[bytes] = set()
    starts = 0
    while True:
        budget = rng.randrange(3, 25)
        starts += 1
        conductor = make_conductor(scenario, post, tmp_path, descent)
        try:
            model = conductor.run()
            break
        except Killed:
            if conductor.server is not None and conductor.server.phase is not Phase.JOINING:
                runs.add(conductor.server.run)
            else:
                loads.clear()  # nothing is kept before the participants are fixed: they are invited anew
    assert starts > 4
    assert len(runs) == 1
    assert np.array_equal(model, expected_model(scenario))
    # Once for the invitation and once for the agreement, and once more for each of them that is repeated.
    assert all(loads.count(name) <= 4 for name in scenario.names)


@pytest.mark.parametrize("death", [2.0, 4.0, 6.0])
def test_a_node_that_was_killed_rejoins_under_another_id_with_its_state(
    scenario: Scenario, tmp_path: Path, death: float
):
    post = FakePost(make_hosts(scenario, tmp_path))
    host = post.hosts[102]

    def tick() -> None:
        if death < post.now < death + 12 and 102 in post.hosts:
            del post.hosts[102]
        if post.now > death + 12 and 102 not in post.hosts:
            post.hosts[202] = host

    post.tick = tick
    model = make_conductor(scenario, post, tmp_path, lambda: descent(30)).run()
    assert np.array_equal(model, run_in_process(scenario.server(descent(30)), scenario.devices()))
    assert leftovers(tmp_path) == []


def epoch_of(call: object) -> int:
    """The epoch of the update in a call; 0 if there is none."""
    if not isinstance(call, Step) or not call.parcel.newest:
        return 0
    message = Message.decode(call.parcel.newest)
    return Update.decode(message.body).epoch if message.kind is Kind.UPDATE else 0


def test_a_straggler_skips_to_the_newest_epoch(scenario: Scenario, tmp_path: Path):
    slow = "device-1"
    post = FakePost(
        make_hosts(scenario, tmp_path), delay=lambda host, call: 2.0 if host.name == slow and epoch_of(call) else 0.3
    )
    make_conductor(scenario, post, tmp_path, lambda: descent(12)).run()
    epochs = [epoch_of(call) for name, call in post.handled if name == slow and epoch_of(call)]
    fast = [epoch_of(call) for name, call in post.handled if name == "device-0" and epoch_of(call)]
    assert fast == list(range(1, 13))
    assert 2 <= len(epochs) <= 5
    assert all(later > earlier + 1 for earlier, later in itertools.pairwise(epochs))


def without_nodes(post: FakePost, nodes: list[int], when: Callable[[], bool]) -> None:
    def tick() -> None:
        if when():
            for node in nodes:
                post.hosts.pop(node, None)

    post.tick = tick


def test_as_many_nodes_may_die_for_good_as_the_code_tolerates(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    without_nodes(post, [100, 103], lambda: any(epoch_of(call) >= 2 for _, call in post.handled))
    model = make_conductor(scenario, post, tmp_path, descent).run()
    assert np.array_equal(model, expected_model(scenario))


def test_one_more_is_reported_with_the_model_so_far_and_can_be_resumed(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    all_hosts = dict(post.hosts)
    without_nodes(post, [100, 101, 103], lambda: any(epoch_of(call) >= 3 for _, call in post.handled))
    conductor = make_conductor(scenario, post, tmp_path, lambda: descent(6))
    with pytest.raises(
        NotEnoughDevices, match=r"needs 3 answers .* missing are device-0, device-1, device-3"
    ) as caught:
        conductor.run()
    assert caught.value.model is not None
    assert np.array_equal(caught.value.model, conductor.model)

    post.tick = lambda: None
    post.hosts = all_hosts
    resumed = make_conductor(scenario, post, tmp_path, lambda: descent(6))
    model = resumed.run()
    assert np.array_equal(model, run_in_process(scenario.server(descent(6)), scenario.devices()))
    assert resumed.server is not None and resumed.server.run == conductor.server.run


def test_a_device_that_dies_before_it_has_shared_ends_the_run(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    without_nodes(post, [104], lambda: sum(is_step(call) for _, call in post.handled) >= 5)
    with pytest.raises(NotEnoughDevices, match=r"^all 5 devices must share before training: 1 missing \(device-4\)$"):
        make_conductor(scenario, post, tmp_path, descent).run()


# -- nodes that do not fit


def run_without_the_last(scenario: Scenario, post: FakePost, tmp_path: Path, **options: object) -> np.ndarray:
    patience = Patience(scenario.n_devices, scenario.n_devices - 1, 10.0, 30.0, 30.0)
    model = make_conductor(scenario, post, tmp_path, descent, patience=patience, **options).run()
    rest = Scenario(
        sizes=scenario.sizes[:-1],
        alpha=scenario.alpha,
        d=scenario.d,
        bounds=scenario.bounds,
        server_type=scenario.server_type,
        device_type=scenario.device_type,
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

    def handle(self: DeviceHost, call: object) -> object:
        with monkeypatch.context() as other:
            if self.name == "device-4":
                other.setattr("codedfl.engine.device_host.VERSION", 9)
            return old_handle(self, call)

    monkeypatch.setattr(DeviceHost, "handle", handle)
    run_without_the_last(private, post, tmp_path)
    reason = "the protocol version must be 9 on this node, got 1"
    assert ("codedfl.flower.device", logging.ERROR, f"device-4 refuses: {reason}") in caplog.record_tuples
    assert ("codedfl.flower.server", logging.ERROR, f"node 104 cannot take part: {reason}") in caplog.record_tuples


def test_a_node_with_wrong_shapes_is_refused_in_both_logs(
    private: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    private.data[4] = (private.data[4][0][:, :-1], private.data[4][1])
    post = FakePost(make_hosts(private, tmp_path))
    run_without_the_last(private, post, tmp_path)
    reason = "device-4 cannot take part: X must have 40 columns as this run has, got 39"
    assert ("codedfl.flower.device", logging.ERROR, reason) in caplog.record_tuples
    assert ("codedfl.flower.server", logging.ERROR, reason) in caplog.record_tuples


def test_a_node_with_an_unknown_key_is_refused_in_both_logs(
    private: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    post = FakePost(make_hosts(private, tmp_path))
    roster = {host.name: host.identity.public for host in post.hosts.values()}
    last = post.hosts[104]
    post.hosts[104] = DeviceHost(last.name, load_identity(tmp_path / "other.key"), last.folder, last.load_rows)
    run_without_the_last(private, post, tmp_path, roster=roster)
    texts = [text for _, level, text in caplog.record_tuples if level == logging.ERROR]
    assert any(text.startswith("node 104 cannot take part: the key of 'device-4' must be the one on") for text in texts)
    assert any(text.startswith("device-4 cannot take part: the key of 'device-4' must be the one on") for text in texts)


def test_a_node_that_lost_its_state_is_refused_in_both_logs(
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
    assert np.array_equal(model, expected_model(scenario))
    reason = "device-4 refuses: the run must be one whose state this node holds, got "
    assert {name for name, _, text in caplog.record_tuples if text.startswith(reason)} == {
        "codedfl.flower.device",
        "codedfl.flower.server",
    }


def test_a_second_node_cannot_take_the_name_of_another(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    post = FakePost(make_hosts(scenario, tmp_path))
    first = post.hosts[100]
    thief = DeviceHost(first.name, load_identity(tmp_path / "thief.key"), tmp_path / "thief", first.load_rows)

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
    message = r"^at least 4 devices must be there after 10 s, got 3 \(device-2, device-3, device-4\)$"
    with pytest.raises(NotEnoughDevices, match=message):
        make_conductor(scenario, post, tmp_path, descent, patience=patience).run()


def test_without_any_device_there_is_no_waiting_for_ever(scenario: Scenario, tmp_path: Path):
    post = FakePost({}, tick=lambda: ended_by(post, 60.0))
    with pytest.raises(NotEnoughDevices, match=r"^at least 4 devices must be there after 10 s, got 0 \(none\)$"):
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
    with pytest.raises(NotEnoughDevices, match=r"missing are device-0, device-1, device-3$"):
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
    assert ("codedfl.flower.server", logging.WARNING, expected) in caplog.record_tuples


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


# -- answers that are wrong beyond repair


@pytest.fixture
def lied_to(monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """One redundant answer shows that somebody lies from epoch 3 on, but not who."""
    honest = KeysDevice._masked_answer

    def answer(self: KeysDevice, update: Update) -> Any:
        planes = honest(self, update)
        if self.name == "device-1" and update.epoch >= 3:
            planes[0, 0] += 1 if planes[0, 0] < 0 else -1
        return planes

    monkeypatch.setattr(KeysDevice, "_masked_answer", answer)
    return Scenario(sizes=(3, 5, 2, 4), alpha=2, d=40, server_type=KeysServer, device_type=KeysDevice)


def test_when_answers_contradict_each_other_the_devices_are_told_and_the_good_model_stays(
    lied_to: Scenario, tmp_path: Path
):
    conductor = make_conductor(lied_to, FakePost(make_hosts(lied_to, tmp_path)), tmp_path, descent, spare=1)
    with pytest.raises(WrongAnswers, match=r"^the answers to epoch 3 must agree on the code"):
        conductor.run()
    assert leftovers(tmp_path) == []
    assert np.array_equal(conductor.model, run_in_process(lied_to.server(descent(2)), lied_to.devices()))


def test_when_a_total_breaks_its_bound_the_devices_are_told_and_the_good_model_stays(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    totals = itertools.count(2)  # the first epoch's starts the solver

    def feed(*arguments: Any) -> None:
        if next(totals) == 3:
            raise RangeExceeded("the total must be within its bound, got another")
        feed_solver(*arguments)

    monkeypatch.setattr("codedfl.protocol.server.feed_solver", feed)
    conductor = make_conductor(scenario, FakePost(make_hosts(scenario, tmp_path)), tmp_path, descent)
    with pytest.raises(RangeExceeded, match=r"^the total must be within its bound, got another$"):
        conductor.run()
    assert leftovers(tmp_path) == []
    monkeypatch.undo()
    assert np.array_equal(conductor.model, run_in_process(scenario.server(descent(2)), scenario.devices()))


def test_a_run_that_ended_for_good_is_not_resumed_as_if_it_had_not(lied_to: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(lied_to, tmp_path))
    first = make_conductor(lied_to, post, tmp_path, descent, spare=1)

    def tick() -> None:
        if first.server is not None and first.server.phase is Phase.FINISHED:
            raise Killed

    post.tick = tick
    with pytest.raises(Killed):
        first.run()
    post.tick = lambda: None
    again = make_conductor(lied_to, post, tmp_path, descent, spare=1)
    with pytest.raises(CodedFLError, match=r"^the answers to epoch 3 must agree on the code"):
        again.run()
    assert np.array_equal(again.model, first.model)
    assert leftovers(tmp_path) == []


# -- starting again


def test_a_run_that_failed_while_joining_can_be_repeated_when_the_fault_is_mended(scenario: Scenario, tmp_path: Path):
    good = scenario.data[4]
    scenario.data[4] = (good[0][:, :-1], good[1])
    post = FakePost(make_hosts(scenario, tmp_path))
    with pytest.raises(NotEnoughDevices, match=r"^at least 5 devices must join, got 4; missing are device-4$"):
        make_conductor(scenario, post, tmp_path, descent).run()
    scenario.data[4] = good
    model = make_conductor(scenario, post, tmp_path, descent).run()
    assert np.array_equal(model, expected_model(scenario))


def test_the_checkpoint_of_another_configuration_is_refused(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    without_nodes(post, [100, 101, 103], lambda: any(epoch_of(call) >= 2 for _, call in post.handled))
    with pytest.raises(NotEnoughDevices):
        make_conductor(scenario, post, tmp_path, descent).run()
    scenario.alpha = 2
    message = (
        "output-dir must not hold the checkpoint of another configuration:"
        f" choose another or delete {tmp_path / 'server' / 'checkpoint'}"
    )
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        make_conductor(scenario, post, tmp_path, descent).run()


def test_the_server_ends_in_the_finished_phase(scenario: Scenario, tmp_path: Path):
    conductor = make_conductor(scenario, FakePost(make_hosts(scenario, tmp_path)), tmp_path, descent)
    conductor.run()
    assert conductor.server is not None and conductor.server.phase is Phase.FINISHED
