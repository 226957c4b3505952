"""Role keys on a stand-in network: who may be missing when, deadlines, and restarts on either side."""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.engine.calls import Call, Step
from codedfl.engine.conductor import Patience
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.state_folder import StateFolder
from codedfl.errors import NotEnoughDevices
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.schemes.role_keys import ROLE_KEYS
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from fake_post import FakePost, Killed, epoch_of, leftovers, make_conductor, make_hosts, without_nodes
from scenario import Scenario, descent

pytestmark = pytest.mark.usefixtures("no_power_cuts")


@pytest.fixture
def scenario() -> Scenario:
    types: Any = {"scheme": ROLE_KEYS}
    return Scenario((3, 5, 2, 4, 3, 2), 1, d=40, colluders=1, public_samples=False, **types)


def roster_of(post: FakePost) -> Mapping[str, bytes]:
    return {host.name: host.identity.public for host in post.hosts.values()}


def exact(scenario: Scenario, owners: list[str] | None = None, epochs: int = 4) -> np.ndarray:
    return scenario.only(owners or scenario.names).expected_models(descent(epochs))[-1]


def kinds_in(call: Call) -> list[Kind]:
    letters = call.parcel.letters if isinstance(call, Step) else ()
    return [Message.decode(letter.head).kind for letter in letters]


def holders_of(server: Server, role: int) -> list[int]:
    """The nodes of a role."""
    agreed = server.agreement
    assert agreed is not None
    return [100 + int(name[-1]) for name, one in zip(agreed.names, agreed.roles, strict=True) if one == role]


@pytest.mark.parametrize("seed", range(2))
def test_lost_calls_and_replies_change_nothing(scenario: Scenario, tmp_path: Path, seed: int):
    rng = random.Random(seed)
    post = FakePost(
        make_hosts(scenario, tmp_path),
        delay=lambda host, call: rng.uniform(0.1, 3.0),
        fault=lambda host, call: rng.choice(["", "", "", "lose call", "lose reply"]),
    )
    patience = Patience(6, 6, 600.0, 600.0, 600.0)
    conductor = make_conductor(scenario, post, tmp_path, descent, patience=patience, roster=roster_of(post))
    assert np.array_equal(conductor.run(), exact(scenario))
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_server_app_killed_anywhere_tells_one_list(scenario: Scenario, tmp_path: Path, seed: int):
    """Also when the list is made because somebody is gone: it is on the disk before it leaves."""
    post = FakePost(make_hosts(scenario, tmp_path))
    gone = post.hosts[104]
    rng, budget, starts, lists = random.Random(seed), 0, 0, set()

    def tick() -> None:
        nonlocal budget
        budget -= 1
        if 104 in post.hosts and any(Kind.AGREEMENT in kinds_in(call) for _, call in post.handled):
            del post.hosts[104]
        if budget < 0:
            raise Killed

    def fault(host: DeviceHost, call: Call) -> str:
        if host is gone and Kind.AGREEMENT in kinds_in(call):
            return "lose call"
        for letter in call.parcel.letters if isinstance(call, Step) else ():
            message = Message.decode(letter.head)
            if message.kind is Kind.OWNERS:
                lists.add(message.body)
        return ""

    post.tick, post.fault = tick, fault
    while True:
        budget, starts = rng.randrange(15, 60), starts + 1
        patience = Patience(6, 6, 600.0, 2.0, 8.0)
        conductor = make_conductor(scenario, post, tmp_path, descent, patience=patience)
        try:
            model = conductor.run()
            break
        except Killed:
            pass
    assert starts > 3
    assert len(lists) == 1
    assert np.array_equal(model, exact(scenario, [name for name in scenario.names if name != "device-4"]))


def test_an_owner_that_is_gone_before_it_uploads_is_left_out(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    post.fault = lambda host, call: "lose call" if host.name == "device-1" and Kind.AGREEMENT in kinds_in(call) else ""
    without_nodes(post, [101], lambda: any(Kind.AGREEMENT in kinds_in(call) for _, call in post.handled))
    conductor = make_conductor(scenario, post, tmp_path, descent)
    model = conductor.run()
    assert np.array_equal(model, exact(scenario, [name for name in scenario.names if name != "device-1"]))


def test_an_owner_that_is_there_but_late_is_left_out_at_the_deadline(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Its upload comes in when the time is over: it changes nothing, and the device may still answer as a holder."""
    post = FakePost(make_hosts(scenario, tmp_path))
    post.delay = lambda host, call: 40.0 if host.name == "device-2" and Kind.AGREEMENT in kinds_in(call) else 0.3
    patience = Patience(6, 6, 600.0, 300.0, 60.0, upload_seconds=20.0)
    conductor = make_conductor(scenario, post, tmp_path, descent, patience=patience)
    with caplog.at_level(logging.WARNING, "codedfl"):
        model = conductor.run()
    assert np.array_equal(model, exact(scenario, [name for name in scenario.names if name != "device-2"]))
    assert "left out, since they have not uploaded in time: device-2" in caplog.messages
    assert leftovers(tmp_path) == []


def test_what_the_deadline_decides_is_on_the_disk_before_anybody_is_told(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    post = FakePost(make_hosts(scenario, tmp_path))
    post.delay = lambda host, call: 40.0 if host.name == "device-2" and Kind.AGREEMENT in kinds_in(call) else 0.3
    push, told = post.push, set()

    def checked(calls: list[tuple[int, Call]]) -> list[str | None]:
        for kind in {kind for _, call in calls for kind in kinds_in(call)} & {Kind.ROLL_CALL, Kind.OWNERS}:
            saved = StateFolder(tmp_path / "server" / "checkpoint").load()
            assert saved is not None and saved["server"]["sharing"]["_closed"]
            assert kind is Kind.ROLL_CALL or saved["server"]["sharing"]["owners"]
            told.add(kind)
        return push(calls)

    monkeypatch.setattr(post, "push", checked)
    patience = Patience(6, 6, 600.0, 300.0, 60.0, upload_seconds=20.0)
    make_conductor(scenario, post, tmp_path, descent, patience=patience).run()
    assert told == {Kind.ROLL_CALL, Kind.OWNERS}


def test_too_few_uploads_at_the_deadline_end_the_run_which_can_be_resumed(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    late = {f"device-{i}" for i in (0, 1, 2, 3)}
    post.delay = lambda host, call: 200.0 if host.name in late and Kind.ROLE_KEYS in kinds_in(call) else 0.3
    patience = Patience(6, 6, 600.0, 600.0, 600.0, upload_seconds=20.0)
    conductor = make_conductor(scenario, post, tmp_path, descent, patience=patience)
    with pytest.raises(NotEnoughDevices, match=r"^the data of at least 3 owners \(z \+ 2\) .*, got 2: without"):
        conductor.run()
    patience = replace(patience, upload_seconds=600.0)
    model = make_conductor(scenario, post, tmp_path, descent, patience=patience).run()
    assert np.array_equal(model, exact(scenario))


def test_owners_that_have_uploaded_and_all_of_a_role_but_one_may_die(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    conductor = make_conductor(scenario, post, tmp_path, lambda: descent(6))

    def tick() -> None:
        server = conductor.server
        if server is not None and server.epoch >= 2:
            for role in (0, 1):
                for node in holders_of(server, role)[1:]:
                    post.hosts.pop(node, None)

    post.tick = tick
    assert np.array_equal(conductor.run(), exact(scenario, epochs=6))
    assert len(post.hosts) == 2


def test_a_dead_role_ends_the_run_by_name_with_the_model_so_far_and_can_be_resumed(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    everybody = dict(post.hosts)
    conductor = make_conductor(scenario, post, tmp_path, lambda: descent(6))
    dead: list[int] = []

    def tick() -> None:
        server = conductor.server
        if server is not None and server.epoch >= 3:
            dead[:] = holders_of(server, 1)
            for node in dead:
                post.hosts.pop(node, None)

    post.tick = tick
    with pytest.raises(NotEnoughDevices, match=r"^epoch \d needs 2 answers \(one of each role\)") as caught:
        conductor.run()
    assert sorted(caught.value.missing) == sorted(f"device-{node - 100}" for node in dead)
    assert caught.value.model is not None
    assert np.array_equal(caught.value.model, conductor.model)
    post.tick, post.hosts = (lambda: None), everybody
    resumed = make_conductor(scenario, post, tmp_path, lambda: descent(6))
    assert np.array_equal(resumed.run(), exact(scenario, epochs=6))
    assert resumed.server is not None and resumed.server.phase is Phase.FINISHED


def test_a_node_killed_at_any_time_comes_back_with_its_state(scenario: Scenario, tmp_path: Path):
    post = FakePost(make_hosts(scenario, tmp_path))
    host = post.hosts[102]

    def tick() -> None:
        """Five seconds away, five there, under another id each time."""
        spell, away = divmod(post.now, 10.0)
        for node in [node for node, one in post.hosts.items() if one is host]:
            del post.hosts[node]
        if away < 5.0 or post.now > 60:
            post.hosts[200 + min(int(spell), 6)] = host

    post.tick = tick
    model = make_conductor(scenario, post, tmp_path, lambda: descent(30)).run()
    assert np.array_equal(model, exact(scenario, epochs=30))
    assert epoch_of(post.handled[-1][1]) == 0
