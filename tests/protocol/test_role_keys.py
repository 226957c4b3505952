"""Role keys: the exact model from the first answer of each role, one list of owners, and who may be missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MethodType
from typing import Any

import numpy as np
import pytest
from crafted import from_server, refused

from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.protocol import Agreement, Device, Phase, Policy, Server
from codedfl.protocol.messages import Commitments, Kind, Message, Secrets, Share, Update, pack_list
from codedfl.protocol.owner_list import Certificate, OwnerList, signatures_needed
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.role_device import RoleDevice
from codedfl.protocol.schemes.role_server import RoleServer
from codedfl.protocol.schemes.role_sums import SumsDevice, SumsServer
from codedfl.run.in_process import run_in_process
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.krylov import BlockKrylov
from codedfl.solve.solver import Solver
from scenario import Network, Scenario, descent
from wording import exactly

SIZES = (2, 1, 7, 3, 1, 4)
POLICY = Policy(allow_gram=True, allow_unpinned=True)


def scenario_of(colluders: int = 1, sizes: Sequence[int] = SIZES, **options: Any) -> Scenario:
    types = {"server_type": RoleServer, "device_type": RoleDevice} | options
    return Scenario(sizes=sizes, alpha=1, colluders=colluders, public_samples=False, **types)


def first_of_each_role(server: Server, rng: np.random.Generator) -> Callable[[int, Sequence[str]], list[str]]:
    """A different holder of every role in each epoch; nobody else answers."""

    def arrivals(epoch: int, names: Sequence[str]) -> list[str]:
        del epoch
        agreement = server.agreement
        assert agreement is not None
        roles: dict[int, list[str]] = {}
        for name in names:
            roles.setdefault(agreement.roles[agreement.position(name)], []).append(name)
        return [str(rng.choice(holders)) for holders in roles.values()]

    return arrivals


def holders_of(server: Server, role: int) -> list[str]:
    agreement = server.agreement
    assert agreement is not None
    return [name for name, one in zip(agreement.names, agreement.roles, strict=True) if one == role]


# -- the model


@pytest.mark.parametrize("colluders", [0, 1, 2])
@pytest.mark.parametrize("solver", [lambda: descent(5), lambda: BlockKrylov(4, 1e-3)], ids=["descent", "krylov"])
@pytest.mark.parametrize("precision", [None, 50], ids=["two primes", "three primes"])
def test_one_answer_of_each_role_gives_the_model_of_plain_integers(
    colluders: int, solver: Callable[[], Solver], precision: int | None
):
    scenario = scenario_of(colluders, precision=precision)
    server = scenario.server(solver())
    arrivals = first_of_each_role(server, np.random.default_rng(colluders))
    devices = scenario.devices(policy=replace(POLICY, colluders=colluders))
    model = run_in_process(server, devices, arrivals)
    assert np.array_equal(model, scenario.expected_models(solver())[-1])


def test_it_is_the_model_of_every_other_scheme():
    keys = scenario_of(server_type=KeysServer, device_type=KeysDevice, colluders=0)
    model = run_in_process(keys.server(descent(4)), keys.devices())
    roles = scenario_of()
    assert np.array_equal(run_in_process(roles.server(descent(4)), roles.devices()), model)


def test_role_sums_solve_at_once():
    scenario = scenario_of(server_type=SumsServer, device_type=SumsDevice)
    server = scenario.server(ClosedForm(1e-3))
    model = run_in_process(server, scenario.devices(), first_of_each_role(server, np.random.default_rng(1)))
    assert np.array_equal(model, scenario.expected_models(ClosedForm(1e-3))[-1])
    assert server.epoch == 1


def test_keys_may_be_held_by_some_devices_or_by_helpers_without_data():
    scenario = scenario_of(colluders=1)
    few = scenario.server(descent(3), holders=["device-4", "device-0", "device-2"])
    model = run_in_process(few, scenario.devices())
    expected = scenario.expected_models(descent(3))[-1]
    assert np.array_equal(model, expected)
    agreement = few.agreement
    assert {name for name, role in zip(agreement.names, agreement.roles, strict=True) if role == 0} == {
        "device-4",
        "device-2",
    }
    names = [*scenario.names, "helper-0", "helper-1"]
    server = RoleServer(
        scenario.parameters, names, descent(3), holders=["helper-0", "helper-1"], helpers=["helper-0", "helper-1"]
    )
    helpers = [RoleDevice(name, None, None, helper=True, policy=POLICY) for name in ("helper-0", "helper-1")]
    assert np.array_equal(run_in_process(server, [*scenario.devices(), *helpers]), expected)


def test_a_helper_has_no_data():
    with pytest.raises(InvalidInput, match=exactly("X and Y must be None for a helper, which has no data, got some")):
        RoleDevice("a", [[1.0]], [[1.0]], helper=True)


# -- who may be missing


def without(scenario: Scenario, *left_out: int) -> np.ndarray:
    """The model of the others, on the scales that all agreed on."""
    kept = [name for i, name in enumerate(scenario.names) if i not in left_out]
    return scenario.only(kept).expected_models(descent())[-1]


def deaf(network: Network, *names: str) -> Callable[[], None]:
    """From now on nothing reaches these devices and nothing comes from them."""

    def run() -> None:
        while links := [link for link in network.pending() if link[1] not in names]:
            network.deliver(links[0])

    return run


def test_an_owner_that_never_uploads_is_left_out_at_the_deadline():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.SHARES)
    run = deaf(network, "device-3")
    run()
    assert network.server.phase is Phase.SHARING
    network.send(network.server.check_enough(["device-3"]))
    run()
    server = network.server
    assert server.phase is Phase.FINISHED
    assert "device-3" not in server.owners.names
    assert np.array_equal(server.model, without(scenario, 3))


def test_an_owner_that_has_uploaded_may_die_and_so_may_all_holders_of_a_role_but_one():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.UPDATE)
    by_role = [holders_of(network.server, role) for role in (0, 1)]
    dead = [*by_role[0][1:], *by_role[1][1:]]
    deaf(network, *dead)()
    server = network.server
    assert server.phase is Phase.FINISHED
    assert len(server.owners.names) == 6
    assert np.array_equal(server.model, scenario.expected_models(descent())[-1])


def test_a_dead_role_ends_the_run_by_name_with_the_model_so_far():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.UPDATE)
    agreement = network.server.agreement
    role = holders_of(network.server, 1)
    network.run_until(Kind.ANSWER)
    for name in agreement.names:
        network.deliver(("up", name))
    deaf(network, *role)()
    with pytest.raises(NotEnoughDevices) as caught:
        network.server.check_enough(role)
    assert str(caught.value).startswith(
        "epoch 2 needs 2 answers (one of each role) but only 3 devices are alive: 1 more"
    )
    assert set(caught.value.missing) == set(role)
    assert np.array_equal(caught.value.model, scenario.expected_models(descent())[0])


def test_too_few_holders_for_a_list_end_the_run_before_it_begins():
    """Of six devices and z = 1 four must sign: three may not be missing."""
    assert [signatures_needed(6, z) for z in (0, 1, 2)] == [4, 4, 5]
    assert signatures_needed(25, 1) == 14  # eleven may be missing
    network = Network.of(scenario_of())
    network.run_until(Kind.SHARES)
    gone = ["device-1", "device-2", "device-3"]
    with pytest.raises(
        NotEnoughDevices, match=r"^the list of owners must be signed by 4 of 6 devices, only 3 are there"
    ):
        network.server.check_enough(gone)


def test_a_missing_seed_comes_from_a_co_holder():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.SHARE)
    agreement = network.server.agreement
    role = holders_of(network.server, 0)
    victim, owner = role[0], next(name for name in agreement.names if name not in role)
    lost = [data for data in network.down[victim] if Message.decode(data).sender == owner]
    assert lost
    for data in lost:
        network.down[victim].remove(data)
    network.run_until(Kind.HOLDS)
    network.send(network.server.close_uploads())
    network.run_until(Kind.UPDATE)
    assert any(Message.decode(data).kind is Kind.SEED for data in network.device_saw[victim])
    assert victim in network.server.ready_devices or network.devices[victim].ready
    network.run()
    assert np.array_equal(network.server.model, scenario.expected_models(descent())[-1])


# -- the list


@pytest.fixture
def listed() -> Network:
    """The list is on its way to the holders."""
    network = Network.of(scenario_of())
    network.run_until(Kind.OWNERS)
    return network


def test_a_holder_signs_one_list_a_run(listed: Network):
    device, server = listed.devices["device-0"], listed.server
    owners = server.owners
    first = listed.down["device-0"][-1]
    (signature,) = map(Message.decode, device.receive(first))
    assert signature.kind is Kind.SIGNATURE
    assert device.receive(first) == [signature.encode()]
    shorter = OwnerList(owners.owners[1:])
    message = "a device signs one list of owners a run: a second, different one is refused"
    refused(device, from_server(listed, Kind.OWNERS, shorter.encoded), message)


def test_lists_that_are_none_are_refused(listed: Network):
    device, owners = listed.devices["device-0"], listed.server.owners.owners
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


def test_the_operator_may_ask_for_more_owners():
    scenario = scenario_of()
    policy = replace(POLICY, least_owners=6)
    network = Network(scenario.server(), scenario.devices(policy=policy))
    network.send(network.server.invite())
    network.run_until(Kind.OWNERS)
    shorter = OwnerList(network.server.owners.owners[1:])
    data = from_server(network, Kind.OWNERS, shorter.encoded)
    refused(network.devices["device-0"], data, "at least 6 owners must be in the total, got 5")


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
    other = OwnerList(listed.server.owners.owners[1:])
    agreement = listed.server.agreement
    forged = {name: other.signed_by(listed.devices[name].identity, agreement) for name in certificate.signatures}
    before = device.ready
    with pytest.raises(MessageRefused, match="the signature must be by key"):
        device.receive(from_server(listed, Kind.CERTIFICATE, Certificate(forged).encode()))
    assert device.ready == before is False


def test_a_seed_goes_to_a_holder_of_the_same_role_only(listed: Network):
    agreement = listed.server.agreement
    device = listed.devices[agreement.names[0]]
    for other in agreement.names[1:]:
        wish = from_server(listed, Kind.SEED_WANTED, pack_list([agreement.names[2], other]))
        if agreement.roles[agreement.position(other)] == agreement.roles[0]:
            (sent,) = map(Message.decode, device.receive(wish))
            assert sent.kind is Kind.SEED
        else:
            refused(device, wish, f"a seed goes to a holder of the same role only, got {other!r}")


def test_without_a_roster_protection_from_colluders_is_not_claimed():
    scenario = scenario_of()
    device = scenario.device(0, policy=Policy(allow_gram=True))
    (reply,) = map(Message.decode, device.receive(scenario.server().invite()[0].data))
    assert (reply.kind, reply.body.decode()) == (
        Kind.REFUSAL,
        "a roster must be pinned where 1 colluder(s) are to learn nothing: a server could invent devices; pin one, or"
        " set allow_unpinned, got none",
    )


def test_fewer_colluders_than_the_operator_has_in_mind_are_refused():
    """With z = 0 every holder has all keys, and one that colludes gives everybody away."""
    scenario = scenario_of(colluders=0)
    device = scenario.device(0)
    (reply,) = map(Message.decode, device.receive(scenario.server().invite()[0].data))
    assert (reply.kind, reply.body.decode()) == (
        Kind.REFUSAL,
        "colluders must be at least 1 by this device's policy, got 0: so many devices together with the server must"
        " learn the total only",
    )


def test_seeds_are_wiped_when_the_first_epoch_is_decoded_and_everything_at_the_end():
    network = Network.of(scenario_of())
    network.run_until(Kind.UPDATE)
    device = network.devices["device-0"]
    assert device._seeds
    network.run_until(Kind.FINISH)
    assert not device._seeds
    assert device.ready
    network.run()
    for one in network.devices.values():
        left = one.state()
        secrets = ("_key", "_seeds", "_gram_sum", "_constant_sum", "linear", "constant")
        assert not any(left.get(name) for name in secrets)


# -- liars


def make_liar(device: Device, first_epoch: int = 2) -> None:
    honest = type(device)._answer

    def answer(self: Device, update: Update, digest: bytes) -> Any:
        planes = honest(self, update, digest)
        if update.epoch >= first_epoch:
            planes[0, 0] += 1 if planes[0, 0] < 0 else -1
        return planes

    device._answer = MethodType(answer, device)  # type: ignore[method-assign]


def test_two_spare_answers_outvote_a_liar_and_name_it():
    scenario = scenario_of(sizes=(2, 1, 3, 2, 1, 2, 2))
    server = scenario.server(descent(4), spare=2)
    devices = scenario.devices()
    make_liar(devices[3])
    model = run_in_process(server, devices)
    assert server.liars == {"device-3": 2}
    assert np.array_equal(model, scenario.expected_models(descent(4))[-1])


def test_spare_answers_need_holders_in_each_role():
    scenario = scenario_of(sizes=(2, 1, 3, 2))
    message = "every role must have 3 holder(s) for 2 spare answers, got 4 holders for 2 roles"
    with pytest.raises(InvalidInput, match=exactly(message)):
        run_in_process(scenario.server(descent(2), spare=2), scenario.devices())


def test_a_wrong_seed_is_complained_of_and_its_owner_left_out():
    """An owner that seals garbage to one role is not covered by it, and nobody honest is named."""
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.AGREEMENT)
    guilty = network.devices["device-2"]
    honest = guilty._seal

    def seal(self: Device, receiver: bytes, header: Message, plaintext: bytes) -> bytes:
        agreement = network.server.agreement
        if header.kind is Kind.SHARE and agreement.roles[agreement.position(header.receiver)] == 0:
            plaintext = plaintext[:-40] + bytes(40)
        return honest(receiver, header, plaintext)

    guilty._seal = MethodType(seal, guilty)  # type: ignore[method-assign]
    network.run()
    if network.server.phase is not Phase.FINISHED:
        network.send(network.server.close_uploads())
        network.run()
    server = network.server
    assert set(server.complaints) <= {"device-2"}
    assert server.liars == {}
    assert server.phase is Phase.FINISHED


def test_public_sample_counts_are_refused():
    parameters = replace(scenario_of().parameters, samples=18)
    message = "samples must be None for role-keys, whose owners may be left out, got 18"
    with pytest.raises(InvalidInput, match=exactly(message)):
        RoleServer(parameters, scenario_of().names, descent())


def test_the_agreement_says_who_holds_what_and_is_checked():
    network = Network.of(scenario_of(colluders=2))
    network.run_until(Kind.AGREEMENT)
    agreement = network.server.agreement
    again = Agreement.decode(agreement.encoded)
    assert (again.roles, again.helpers) == (agreement.roles, ())
    assert sorted(again.roles) == [0, 0, 1, 1, 2, 2]
    assert repr(again.answer_code) == "<RoleCode of 3 roles with 2, 2, 2 holders, tolerates 2 colluders>"
    lie = replace(agreement, roles=())
    message = "the agreement must say rightly who has data and who holds keys: it does not"
    refused(network.devices["device-0"], from_server(network, Kind.AGREEMENT, lie.encoded), message)


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
    assert server.owners is None
    network.run()
    assert server.phase is Phase.FINISHED
    assert len(server.owners.names) == 9


def test_uploads_stay_open_while_there_are_too_few():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.SHARES)
    for name in ("device-0", "device-1"):
        network.deliver(("up", name))
    message = (
        "the data of at least 3 owners (z + 2) must be in the total, got 2: missing are"
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
        server.check_enough()


def lacking(network: Network) -> tuple[str, str, list[str]]:
    """A holder that never gets the share of an owner of another role; with its co-holders."""
    network.run_until(Kind.SHARE)
    role = holders_of(network.server, 0)
    owner = holders_of(network.server, 1)[0]
    queue = network.down[role[0]]
    for data in [data for data in queue if Message.decode(data).sender == owner]:
        queue.remove(data)
    network.run_until(Kind.HOLDS)
    network.send(network.server.close_uploads())
    network.run_until(Kind.SEED_WANTED, Kind.READY)
    return role[0], owner, role[1:]


def asked(network: Network) -> list[str]:
    kinds = {name: [Message.decode(data).kind for data in queue] for name, queue in network.down.items()}
    return [name for name, found in kinds.items() if Kind.SEED_WANTED in found]


def test_another_co_holder_is_asked_when_the_first_is_gone():
    network = Network.of(scenario_of())
    victim, _, others = lacking(network)
    (first,) = asked(network)
    network.down[first].clear()
    network.send(network.server.check_enough([first]))
    assert asked(network) == [name for name in others if name != first]
    network.run()
    assert network.devices[victim]._owners and network.server.phase is Phase.FINISHED


def test_another_co_holder_is_asked_when_the_first_gives_rubbish():
    """It harms nobody: the holder says that it still lacks the seed, and refuses no letter for it."""
    network = Network.of(scenario_of())
    victim, _, _ = lacking(network)
    (first,) = asked(network)
    giver = network.devices[first]
    giver._seeds = {owner: bytes(32) for owner in giver._seeds}
    network.run_until(Kind.UPDATE)
    assert network.devices[victim].ready
    network.run()
    saw = [Message.decode(data) for data in network.device_saw[victim]]
    assert len({message.sender for message in saw if message.kind is Kind.SEED}) == 2
    assert network.server.phase is Phase.FINISHED


def test_a_seed_that_nobody_asked_for_is_not_relayed(listed: Network):
    agreement = listed.server.agreement
    giver, receiver = holders_of(listed.server, 0)[:2]
    wish = from_server(listed, Kind.SEED_WANTED, pack_list([agreement.names[2], receiver]))
    (seed,) = listed.devices[giver].receive(wish)
    refused(listed.server, seed, f"a seed must be one that {giver!r} was asked for: it was not")


def test_a_seed_for_other_commitments_than_the_listed_is_not_summed():
    """A dishonest owner must not make honest holders of a role say different things."""
    network = Network.of(scenario_of())
    victim, owner, _ = lacking(network)
    device, agreement = network.devices[victim], network.server.agreement
    fooled = network.devices[owner]
    seed = bytes(31) + b"7"
    purposes = {f"role-{role}": seed for role in (0, 1)}
    others = Commitments.to(purposes, owner, agreement.run, fooled.identity)
    header = Message(Kind.SHARE, agreement.run, agreement.hash, owner, victim)
    envelope = network.sealed(header, victim, Secrets(pad=seed).encode())
    share = replace(header, body=Share(others, envelope).encode()).signed_by(network.server.identity)
    (complaint,) = map(Message.decode, device.receive(share.encode()))
    assert complaint.kind is Kind.COMPLAINT
    assert agreement.position(owner) not in device._seeds


def test_an_owner_that_nobody_can_use_is_left_out_without_a_deadline():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.AGREEMENT)
    guilty = network.devices["device-2"]
    honest = guilty._seal

    def seal(self: Device, receiver: bytes, header: Message, plaintext: bytes) -> bytes:
        del self
        return honest(receiver, header, Secrets().encode() if header.kind is Kind.SHARE else plaintext)

    guilty._seal = MethodType(seal, guilty)  # type: ignore[method-assign]
    network.run()
    server = network.server
    assert server.phase is Phase.FINISHED
    listed = set(server.owners.names)
    covered = all(len(holders_of(server, role)) > (guilty._role == role) for role in (0, 1))
    assert covered
    assert listed == set(scenario.names) - {"device-2"}
    assert np.array_equal(server.model, without(scenario, 2))


def test_a_helper_goes_on_from_its_state():
    names = [*scenario_of().names, "helper-0", "helper-1"]
    scenario = scenario_of()
    helpers = {"holders": names[-2:], "helpers": names[-2:]}
    server = RoleServer(scenario.parameters, names, descent(3), **helpers)
    parties = [RoleDevice(name, None, None, helper=True, policy=POLICY) for name in names[-2:]]
    network = Network(server, [*scenario.devices(), *parties])
    network.send(server.invite())
    for kind in (Kind.AGREEMENT, Kind.SHARE, Kind.OWNERS, Kind.CERTIFICATE, Kind.UPDATE):
        network.run_until(kind)
        for old in parties:
            again = RoleDevice(old.name, None, None, helper=True, policy=POLICY, identity=old.identity)
            again.restore(network.devices[old.name].state())
            network.devices[old.name] = again
    network.run()
    assert np.array_equal(server.model, scenario.expected_models(descent(3))[-1])
