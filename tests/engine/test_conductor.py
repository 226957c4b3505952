"""The server app and its nodes on a stand-in network: whatever is lost, killed or late, the model is the same."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import numpy as np
import pytest

from codedfl.engine.conductor import Patience
from codedfl.engine.device_host import DeviceHost
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import run_in_process
from fake_post import (
    FakePost,
    Killed,
    epoch_of,
    is_step,
    leftovers,
    make_conductor,
    make_hosts,
    party_of,
    without_nodes,
)
from scenario import Scenario, descent
from wording import exactly


def expected_model(scenario: Scenario) -> np.ndarray:
    return run_in_process(scenario.server(), scenario.devices())


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
    post = FakePost(make_hosts(scenario, tmp_path))
    parties = [party_of(host) for host in post.hosts.values()]
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
                for party in parties:
                    party.asked.clear()  # nothing is kept before the participants are fixed: they are invited anew
    assert starts > 4
    assert len(runs) == 1
    assert np.array_equal(model, expected_model(scenario))
    assert all(party.asked.count("begin") == 1 for party in parties)
    # Once for the invitation and once for the agreement, and once more for each of them that is repeated.
    assert all(party.asked.count("rows") <= 4 for party in parties)


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
    with pytest.raises(NotEnoughDevices, match=r"needs 3 answers .* without device-0, device-1, device-3") as caught:
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


# -- starting again


def test_a_run_that_failed_while_joining_can_be_repeated_when_the_fault_is_mended(scenario: Scenario, tmp_path: Path):
    good = scenario.data[4]
    scenario.data[4] = (good[0][:, :-1], good[1])
    post = FakePost(make_hosts(scenario, tmp_path))
    here = "device-0, device-1, device-2, device-3"
    with pytest.raises(NotEnoughDevices, match=exactly(f"at least 5 devices must take part, got 4 ({here})")):
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
    with pytest.raises(InvalidInput, match=exactly(message)):
        make_conductor(scenario, post, tmp_path, descent).run()


def test_the_server_ends_in_the_finished_phase(scenario: Scenario, tmp_path: Path):
    conductor = make_conductor(scenario, FakePost(make_hosts(scenario, tmp_path)), tmp_path, descent)
    conductor.run()
    assert conductor.server is not None and conductor.server.phase is Phase.FINISHED
