"""The one list of owners of role keys: who signs it, what waits for it, and the server that makes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from crafted import from_server, refused
from role_runs import holders_of, scenario_of, without

from codedfl.errors import MessageRefused, NotEnoughDevices
from codedfl.protocol.device import Device
from codedfl.protocol.messages import SERVER, Commitments, Kind, Message, Share, Update
from codedfl.protocol.owner_list import Certificate, OwnerList
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from scenario import Network, descent, wire
from wording import exactly


@pytest.fixture
def listed() -> Network:
    """The list is on its way to the holders."""
    network = Network.of(scenario_of())
    network.run_until(Kind.OWNERS)
    return network


# -- the list


def test_a_holder_signs_one_list_a_run(listed: Network):
    device, server = listed.devices["device-0"], listed.server
    owners = server.sharing.owners
    first = listed.down["device-0"][-1]
    (signature,) = map(Message.decode, wire(device.receive(first)))
    assert signature.kind is Kind.SIGNATURE
    assert wire(device.receive(first)) == [signature.encode()]
    shorter = OwnerList(owners.owners[1:])
    message = "a device signs one list of owners per run: a second, different one is refused"
    refused(device, from_server(listed, Kind.OWNERS, shorter.encoded), message)


def test_lists_that_are_none_are_refused(listed: Network):
    device, owners = listed.devices["device-0"], listed.server.sharing.owners.owners
    names = "a list must name owners of this run, each once and in its order: it does not"
    for lie, message in (
        (OwnerList(owners[:2]), "at least 3 owners must be in the total, got 2"),
        (OwnerList((owners[1], owners[0], *owners[2:])), names),
        (OwnerList((owners[0], *owners)), names),
        (
            OwnerList((replace(owners[0], commitments=bytes(32)), *owners[1:])),
            f"the list must name the commitments of {owners[0].name!r} known here: it has others",
        ),
    ):
        refused(device, from_server(listed, Kind.OWNERS, lie.encoded), message)


def test_nothing_made_of_the_sums_leaves_before_the_certificate(listed: Network):
    listed.run_until(Kind.CERTIFICATE)
    device = listed.devices["device-0"]
    update = from_server(listed, Kind.UPDATE, Update(1, 0, b"").encode())
    refused(device, update, "shares must be complete before an update: some are missing")
    certificate = Certificate.decode(Message.decode(listed.down["device-0"][-1]).body)
    few = dict(list(certificate.signatures.items())[:3])
    message = "a list must be signed by 4 of 6 devices, more than (D + z)/2, got 3"
    refused(device, from_server(listed, Kind.CERTIFICATE, Certificate(few).encode()), message)
    stranger = Certificate({**few, "mallory": bytes(64)})
    refused(
        device,
        from_server(listed, Kind.CERTIFICATE, stranger.encode()),
        "the device must be one of the 6 of this run, got 'mallory'",
    )
    other = OwnerList(listed.server.sharing.owners.owners[1:])
    agreement = listed.server.agreement
    forged = {name: other.signed_by(listed.devices[name].identity, agreement) for name in certificate.signatures}
    before = device.ready
    with pytest.raises(MessageRefused, match="the signature must be by key"):
        device.receive(from_server(listed, Kind.CERTIFICATE, Certificate(forged).encode()))
    assert device.ready == before is False


def test_seeds_are_wiped_when_the_first_epoch_is_decoded_and_everything_at_the_end():
    network = Network.of(scenario_of())
    network.run_until(Kind.UPDATE)
    device = network.devices["device-0"]
    assert device.sharing.seeds
    network.run_until(Kind.FINISH)
    assert not device.sharing.seeds
    assert device.ready
    network.run()
    for one in network.devices.values():
        left = one.state()
        secrets = ("_key", "_seeds", "_gram_sum", "_constant_sum", "linear", "constant")
        assert not any(left.get(name) for name in secrets)


# -- the server's side of the list


def reported(network: Network, *names: str) -> None:
    """Only these holders' reports come in; everything else does."""
    network.run(lambda data: (m := Message.decode(data)).kind is Kind.HOLDS and m.sender not in names)


def test_whole_roles_that_reported_first_do_not_end_the_run():
    """Of nine holders and z = 2 six sign a list, as many as two whole roles: the third has not reported yet."""
    network = Network.of(scenario_of(2, (2, 1, 3, 2, 1, 2, 1, 1, 2)))
    network.run_until(Kind.HOLDS)
    server = network.server
    network.send(server.close_uploads())
    reported(network, *holders_of(server, 0), *holders_of(server, 1))
    assert server.sharing.owners is None
    network.run()
    assert server.phase is Phase.FINISHED
    assert len(server.sharing.owners.names) == 9


def test_uploads_stay_open_while_there_are_too_few():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.SHARES)
    for name in ("device-0", "device-1"):
        network.deliver(("up", name))
    message = (
        "the data of at least 3 owners (z + 2) must be in the total, got 2: without"
        f" {', '.join(name for name in network.server.agreement.names if name not in ('device-0', 'device-1'))}"
    )
    with pytest.raises(NotEnoughDevices, match=exactly(message)):
        network.server.close_uploads()
    network.run()
    assert np.array_equal(network.server.model, scenario.expected_models(descent())[-1])


def test_owners_whose_seeds_no_role_has_are_too_few_in_the_end():
    network = Network.of(scenario_of())
    network.run_until(Kind.SHARE)
    for queue in network.down.values():
        queue.clear()
    server = network.server
    network.send(server.close_uploads())
    network.run()
    with pytest.raises(NotEnoughDevices, match=r"^the data of at least 3 owners \(z \+ 2\) must be .*, got 0"):
        server.go_on_without()


def test_a_seed_for_other_commitments_than_the_listed_is_not_summed():
    """A dishonest owner must not make honest holders of a role say different things."""
    network = Network.of(scenario_of())
    network.run_until(Kind.SHARE)
    victim, owner = holders_of(network.server, 0)[0], holders_of(network.server, 1)[0]
    device, agreement = network.devices[victim], network.server.agreement
    for data in [data for data in network.down[victim] if Message.decode(data).sender == owner]:
        network.down[victim].remove(data)
    network.run_until(Kind.CERTIFICATE)
    guilty = network.devices[owner].sharing
    seed = bytes(31) + b"7"
    others = Commitments.to({f"role-{role}": seed for role in (0, 1)}, owner, agreement.hash, guilty._session.identity)
    envelope = guilty._sealed_seed(network.server.sharing.keys.publics[0], 0, seed, others)
    share = Message(Kind.SHARE, agreement.run, agreement.hash, owner, SERVER, Share(others, envelope).encode())
    (complaint,) = map(Message.decode, wire(device.receive(share.encode())))
    assert complaint.kind is Kind.COMPLAINT
    assert agreement.position(owner) not in device.sharing.seeds


def test_an_owner_that_nobody_can_use_is_left_out_without_a_deadline():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.AGREEMENT)
    guilty = network.devices["device-2"]
    honest = guilty.sharing._sealed_seed
    guilty.sharing._sealed_seed = lambda key, role, seed, commitments: honest(key, role, b"", commitments)
    network.run()
    server = network.server
    assert server.phase is Phase.FINISHED
    listed = set(server.sharing.owners.names)
    covered = all(len(holders_of(server, role)) > (guilty.sharing._role == role) for role in (0, 1))
    assert covered
    assert listed == set(scenario.names) - {"device-2"}
    assert np.array_equal(server.model, without(scenario, 2))


def test_a_helper_goes_on_from_its_state():
    names = [*scenario_of().names, "helper-0", "helper-1"]
    scenario = scenario_of()
    plan = replace(scenario.plan, names=tuple(names), holders=tuple(names[-2:]), helpers=frozenset(names[-2:]))
    server = Server(plan, descent(3))
    parties = [Device(plan, name, None) for name in names[-2:]]
    network = Network(server, [*scenario.devices(), *parties])
    network.send(server.invite())
    for kind in (Kind.AGREEMENT, Kind.SHARE, Kind.OWNERS, Kind.CERTIFICATE, Kind.UPDATE):
        network.run_until(kind)
        for old in parties:
            again = Device(plan, old.name, None, identity=old.identity)
            again.restore(network.devices[old.name].state())
            network.devices[old.name] = again
    network.run()
    assert np.array_equal(server.model, scenario.expected_models(descent(3))[-1])
