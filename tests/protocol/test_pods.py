"""Owners are in a total in whole pods or not at all: what devices sign, what the server makes, and who is missing."""

from __future__ import annotations

import random
from collections.abc import Collection
from contextlib import nullcontext
from itertools import chain, combinations

import numpy as np
import pytest
from crafted import from_server, refused
from pod_runs import KINDS, PodScenario, drive

from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.privacy.calibration import noise_for
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.owner_list import OwnerList
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.server_session import Phase
from codedfl.protocol.terms import Terms
from scenario import Network, decoded
from wording import exactly


@pytest.fixture(params=KINDS)
def scenario(request: pytest.FixtureRequest) -> PodScenario:
    return PodScenario(**KINDS[request.param])


def is_whole(scenario: PodScenario, names: Collection[str]) -> bool:
    return all(pod <= set(names) or not pod & set(names) for pod in scenario.pods)


# -- what devices sign


def test_every_list_that_is_no_union_of_whole_pods_is_refused_by_every_device(scenario: PodScenario):
    network = scenario.network()
    network.run_until(Kind.OWNERS)
    owners = network.server.sharing.owners.owners
    subsets = chain.from_iterable(combinations(owners, size) for size in range(3, len(owners)))
    lists = [OwnerList(subset) for subset in subsets]
    broken = [one for one in lists if not is_whole(scenario, one.names)]
    assert len(lists) - len(broken) == 6  # one pod of three, or two
    for one in broken:
        torn = next(pod for pod in scenario.pods if pod & set(one.names) and not pod <= set(one.names))
        message = f"a list of owners must have whole pods, got one without {min(torn - set(one.names))!r}"
        with pytest.raises(MessageRefused, match=exactly(message)):
            scenario.agreed_to.check_list(one.names)
    rng = random.Random(1)
    for device in network.devices.values():
        before = device.state()
        for one in rng.sample(broken, 20):
            with pytest.raises(
                MessageRefused, match=r"^a list of owners must have whole pods, got one without 'device-"
            ):
                device.receive(from_server(network, Kind.OWNERS, one.encoded))
        assert device.state()["sharing"]["owners"] is before["sharing"]["owners"] is None
    network.run()
    assert np.array_equal(network.server.model, scenario.expected(scenario.names))


@pytest.mark.parametrize(
    ("pods", "owners", "message"),
    [
        (["012345", "678"], 9, ""),
        (["0123456", "78"], 9, "every pod must have at least 3 owners, got one of 2"),
        ([], 0, "every pod must have at least 3 owners, got one of 0"),
        (["012345", "5678"], 9, "every owner must be in one pod and on the roster, got one that is not"),
        (["012345", "789"], 9, "every owner must be in one pod and on the roster, got one that is not"),
        (["012345", "678"], 0, "owners must be 9, as many as are in the pods, got 0"),
        (["012345"], 9, "owners must be 6, as many as are in the pods, got 9"),
    ],
)
def test_pods_are_large_enough_and_apart_and_fix_the_scales(pods: list[str], owners: int, message: str):
    scenario = PodScenario(changes={"owners": owners})
    divided = tuple(frozenset(f"device-{i}" for i in pod) for pod in pods)
    with pytest.raises(InvalidInput, match=exactly(message)) if message else nullcontext():
        Terms(scenario.parameters, bytes(32), scenario.roster, divided)


def test_a_pod_has_as_many_owners_as_its_noise_is_made_for():
    """Two runs on the same terms carry the same noise, so their difference has only that of the pods they differ by."""
    scenario = PodScenario(noise=noise_for(2.0, 1e-5, 3, clip_norm=1.5))
    with pytest.raises(InvalidInput, match=exactly("every pod must have at least 4 owners, got one of 3")):
        _ = scenario.agreed_to


def test_where_nobody_can_be_left_out_the_agreement_itself_must_have_whole_pods():
    """Totals of coded schemes are over everybody who joined."""
    scenario = PodScenario(sizes=(2, 1, 3, 1, 2, 2), pod_sizes=(3, 3), colluders=0, scheme=CODED_KEYS)
    network = scenario.network()
    for name in ("device-2", "device-4", "device-5"):
        network.down[name].clear()
    network.run()
    network.send(network.server.freeze())
    data = network.down["device-0"][0]
    refused(network.devices["device-0"], data, "a list of owners must have whole pods, got one without 'device-2'")


def test_fewer_owners_than_agreed_on_are_refused_in_whole_pods_too(scenario: PodScenario):
    scenario.least_owners = 6
    network = scenario.network()
    network.run_until(Kind.OWNERS)
    owners = network.server.sharing.owners.owners
    pod = OwnerList(tuple(owner for owner in owners if owner.name in scenario.pods[0]))
    data = from_server(network, Kind.OWNERS, pod.encoded)
    for device in network.devices.values():
        refused(device, data, "at least 6 owners must be in the total, got 3")


# -- who is missing


def spoil_shares(device: Device) -> None:
    """What it seals to holders cannot be read."""
    honest = device.sharing._sealed_seed
    device.sharing._sealed_seed = lambda key, role, seed, commitments: honest(key, role, seed[:-1], commitments)


@pytest.mark.parametrize("how", ["never joins", "is silent after its join", "gives seeds that do not fit"])
@pytest.mark.parametrize("missing", ["device-0", "device-4", "device-8"])
def test_a_missing_owner_takes_its_pod_out_and_nobody_else(scenario: PodScenario, missing: str, how: str):
    network = scenario.network()
    if how == "never joins":
        drive(network, joined=[name for name in scenario.names if name != missing])
    elif how == "is silent after its join":
        drive(network, lambda: [missing] if network.server.phase is not Phase.JOINING else [])
    else:
        spoil_shares(network.devices[missing])
        drive(network)
    server = network.server
    assert server.phase is Phase.FINISHED
    assert set(server.sharing.owners.names) == set(scenario.names) - scenario.pod_of(missing)
    assert np.array_equal(server.model, scenario.expected(server.sharing.owners.names))


def test_who_is_gone_after_its_upload_is_in_the_total_with_its_pod(scenario: PodScenario):
    network = scenario.network()
    network.run_until(Kind.OWNERS)
    drive(network, lambda: ["device-0"])
    assert set(network.server.sharing.owners.names) == set(scenario.names)
    assert np.array_equal(network.server.model, scenario.expected(scenario.names))


@pytest.mark.parametrize("how", ["never join", "are silent after their join"])
def test_with_too_few_whole_pods_the_run_ends_and_says_who_is_missing(scenario: PodScenario, how: str):
    scenario.least_owners = 6
    network, gone = scenario.network(), ["device-1", "device-5"]
    message = "the data of at least 6 owners (in whole pods) must be in the total, got 3: without device-1, device-5"
    never = how == "never join"
    joined = [name for name in scenario.names if not (never and name in gone)]
    with pytest.raises(NotEnoughDevices, match=exactly(message)) as caught:
        drive(network, lambda: [] if never or network.server.phase is Phase.JOINING else gone, joined)
    assert caught.value.missing == tuple(gone)
    assert network.server.sharing.owners is None
    assert not any(list(decoded(seen, Kind.OWNERS)) for seen in network.device_saw.values())


# -- whatever happens, the server never makes a torn list


@pytest.mark.parametrize("seed", range(24))
def test_whoever_is_lost_whenever_the_list_has_whole_pods(scenario: PodScenario, seed: int):
    rng = random.Random(seed)
    joining = [name for name in scenario.names if rng.random() < 0.9]
    network = scenario.network(seed)
    lost: set[str] = set()
    lists: list[OwnerList] = []

    def unlucky(receiver: object, data: bytes) -> None:
        """Somebody may be lost at any delivery once the set is frozen."""
        message = Message.decode(data)
        if message.kind is Kind.OWNERS:
            lists.append(OwnerList.decode(message.body, network.server.agreement))
        if network.server.phase is Phase.SHARING and len(lost) < 4 and rng.random() < 0.03:
            lost.add(rng.choice(scenario.names))

    network.before = unlucky
    try:
        drive(network, lambda: lost, joined=joining)
    except NotEnoughDevices:
        assert network.server.sharing.owners is None or lost
    else:
        assert np.array_equal(network.server.model, scenario.expected(network.server.sharing.owners.names))
    assert len({one.encoded for one in lists}) <= 1
    assert all(is_whole(scenario, one.names) for one in lists)


def test_what_two_runs_tell_is_a_sum_over_a_pod(scenario: PodScenario):
    """The totals of two runs differ by whole pods, whoever was away: here by device-3, 4 and 5 together."""
    first, second = scenario.network("first"), scenario.network("second")
    drive(first)
    drive(second, joined=[name for name in scenario.names if name != "device-3"])
    left = set(first.server.sharing.owners.names) - set(second.server.sharing.owners.names)
    assert left == scenario.pod_of("device-3")


def test_without_terms_owners_are_left_out_one_by_one(scenario: PodScenario):
    """As simulations do; then a list of other devices than the plan's would be signed."""
    free = [scenario.device(i, terms=None) for i in range(scenario.n_devices)]
    network = Network(scenario.server(scenario.solver(), terms=None), free)
    network.send(network.server.invite())
    drive(network, lambda: ["device-3"] if network.server.phase is not Phase.JOINING else [])
    assert set(network.server.sharing.owners.names) == set(scenario.names) - {"device-3"}
