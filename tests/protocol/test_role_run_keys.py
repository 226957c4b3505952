"""Each role has a key pair for the run: who draws it and has it, what owners seal to, how few signatures it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from crafted import from_server, refused
from role_runs import deaf, holders_of, scenario_of

from codedfl.crypto import sealed
from codedfl.crypto.sealed import KEY_BYTES, RunKey
from codedfl.errors import MessageRefused, NotEnoughDevices
from codedfl.protocol import agreement as agreements
from codedfl.protocol import messages, owner_list, role_key
from codedfl.protocol.agreement import seated
from codedfl.protocol.device import Device
from codedfl.protocol.messages import (
    SERVER,
    Complaint,
    Kind,
    Message,
    Shares,
    Unusable,
    check_types,
    pack_list,
    unpack_list,
)
from codedfl.protocol.role_key import decode_keys
from codedfl.protocol.schemes.role_keys import ROLE_KEYS, ROLE_SUMS
from codedfl.protocol.server_session import Phase
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.solver import Solver
from scenario import Network, Scenario, decoded, descent, wire

MANY = 20


def many(**options: object) -> Scenario:
    return scenario_of(1, sizes=[1] * MANY, d=2, c=1, **options)


# -- what it costs


@pytest.mark.parametrize(("sums", "solver"), [(True, lambda: ClosedForm(1e-3)), (False, lambda: descent(4))])
def test_a_device_checks_at_most_one_and_a_half_signatures_per_device(
    monkeypatch: pytest.MonkeyPatch, sums: bool, solver: Callable[[], Solver]
):
    """Everything from the invitation to the end, but the updates, of which each is checked once."""
    checks: Counter[str] = Counter()
    acting = ""

    def counted(public: bytes, message: bytes, signature: bytes) -> None:
        checks[acting] += 1
        verify(public, message, signature)

    verify = sealed.verify
    for place in (sealed, messages, owner_list, role_key):
        monkeypatch.setattr(place, "verify", counted)
    monkeypatch.setattr(agreements, "_decoded", agreements._decoded.__wrapped__)  # every device for itself
    network = Network.of(many(scheme=ROLE_SUMS if sums else ROLE_KEYS), solver())

    def before(receiver: object, data: bytes) -> None:
        nonlocal acting
        acting = receiver.name if isinstance(receiver, Device) else SERVER

    network.before = before
    network.run()
    assert network.server.phase is Phase.FINISHED
    updates = network.server.epoch
    most = max(checks[name] for name in network.devices)
    assert 1.0 * MANY < most - updates <= 1.5 * MANY, checks


@pytest.mark.parametrize("sizes", [[1] * 6, [1] * MANY])
def test_an_owner_seals_one_envelope_per_role_whatever_the_number_of_devices(sizes: list[int]):
    network = Network.of(scenario_of(2, sizes=sizes, d=1, c=1))
    network.run_until(Kind.SHARES)
    for name in network.devices:
        (message,) = decoded(list(network.up[name]), Kind.SHARES)
        assert sorted(Shares.decode(message.body).envelopes) == ["role-0", "role-1", "role-2"]


# -- who has it, and for how long


def test_all_holders_get_the_key_of_their_role_and_forget_it_with_the_seeds():
    network = Network.of(scenario_of())
    network.run_until(Kind.ROLE_KEYS)
    network.run_until(Kind.SHARES)
    for role in (0, 1):
        held = {network.devices[name].sharing.role_key.public for name in holders_of(network.server, role)}
        assert held == {network.server.sharing.keys.publics[role]}
    network.run_until(Kind.FINISH)
    for name in (name for name, device in network.devices.items() if device.epochs.last_answer[0] > 1):
        assert network.devices[name].sharing.role_key is None and not network.devices[name].sharing.seeds
    network.run()
    for device in network.devices.values():
        assert device.state()["sharing"]["role_key"] is None


def test_who_gets_the_key_late_gets_the_seeds_then():
    network = Network.of(scenario_of())
    late = holders_of_later(network)
    network.run(lambda data: (m := Message.decode(data)).kind is Kind.ROLE_KEY and m.receiver == late)
    assert not any(decoded(network.device_saw[late], Kind.SHARE))
    network.run()
    assert len(list(decoded(network.device_saw[late], Kind.SHARE))) == 5


def holders_of_later(network: Network) -> str:
    """A holder that is neither asked to draw its role's key nor must sign it."""
    network.run_until(Kind.AGREEMENT)
    return holders_of(network.server, 0)[2]


# -- holders that die or lie


def asked_to_draw(network: Network, role: int) -> str:
    return network.server.agreement.names[network.server.sharing.keys.drawer_of[role]]


@pytest.mark.parametrize("when", [Kind.ROLE_KEY_WANTED, Kind.ROLE_KEY, Kind.ROLE_KEY_HELD, Kind.ROLE_KEYS, Kind.SHARES])
def test_the_next_one_draws_when_the_first_dies_and_nobody_is_missed_later(when: Kind):
    """The device that draws the key of role 0 is gone for good when messages of this kind are on their way."""
    scenario = scenario_of(sizes=(2, 1, 7, 3, 1, 4, 2))
    network = Network.of(scenario)
    network.run_until(Kind.AGREEMENT)
    network.run_until(when)
    dead = asked_to_draw(network, 0)
    run = deaf(network, dead)
    network.down[dead].clear()
    network.up[dead].clear()
    run()
    while network.server.phase is not Phase.FINISHED:
        turn = network.server.go_on_without([dead])
        assert turn.outgoing or turn.events, network.server
        network.send(turn)
        run()
    kept = scenario.only(network.server.sharing.owners.names)
    assert len(network.server.sharing.owners.names) >= 6
    assert np.array_equal(network.server.model, kept.expected_models(descent())[-1])


def test_another_one_draws_when_the_time_for_uploads_is_over():
    network = Network.of(scenario_of())
    network.run_until(Kind.AGREEMENT)
    silent = asked_to_draw(network, 0)
    run = deaf(network, silent)
    run()
    assert not network.server.sharing.keys.told
    network.send(network.server.close_uploads())
    assert asked_to_draw(network, 0) != silent
    run()
    assert network.server.sharing.keys.told and not network.server.sharing._closed


def test_too_few_holders_to_sign_a_key_end_the_run():
    network = Network.of(scenario_of())
    network.run_until(Kind.AGREEMENT)
    _, *gone = holders_of(network.server, 0)
    words = f"the key of role 0 must be signed by 2 of its holders, only 1 are there: missing are {', '.join(gone)}"
    with pytest.raises(NotEnoughDevices, match=f"^{words}$"):
        network.server.go_on_without(gone)


def test_who_gives_another_key_than_it_signed_is_complained_of_and_replaced():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.AGREEMENT)
    guilty = asked_to_draw(network, 0)
    session = network.devices[guilty]._session
    honest = session.seal_for

    def seal_for(position: int, plaintext: bytes, kind: Kind = Kind.SHARE) -> bytes:
        return honest(position, bytes(KEY_BYTES - 1) + b"9" if kind is Kind.ROLE_KEY else plaintext, kind)

    session.seal_for = seal_for  # type: ignore[method-assign]
    network.run()
    server = network.server
    assert server.phase is Phase.FINISHED
    assert asked_to_draw(network, 0) != guilty
    assert np.array_equal(server.model, scenario.expected_models(descent())[-1])


def test_only_who_was_given_a_key_may_complain_of_it():
    network = Network.of(scenario_of())
    network.run_until(Kind.ROLE_KEYS)
    mate, other = holders_of(network.server, 0)[0], holders_of(network.server, 1)[0]
    session = network.devices[mate]._session
    session.send_sealed(Kind.COMPLAINT, Complaint(other, Unusable.NO_KEY).encode())
    (data,) = wire(session.outbox.emptied())
    refused(
        network.server, data, f"a complaint must be about a share that was relayed to {mate!r}, got one about {other!r}"
    )


# -- a relay that lies


def relayed_key(network: Network) -> tuple[str, Message]:
    """A holder and the key that is on its way to it."""
    network.run_until(Kind.ROLE_KEY)
    for link in network.pending():
        if link[0] == "up":
            network.deliver(link)
    return next((name, m) for name, queue in network.down.items() for m in decoded(list(queue), Kind.ROLE_KEY))


def test_a_key_is_taken_from_a_holder_of_the_same_role_only():
    """The server draws one itself, and says that a holder of the other role, or another device, gave it."""
    network = Network.of(scenario_of())
    name, message = relayed_key(network)
    agreed, server = network.server.agreement, network.server
    role = agreed.roles[agreed.position(name)]
    other = holders_of(server, 1 - role)[0]
    _, signature, envelope = check_types(unpack_list(message.body, "a key"), (bytes, bytes, bytes), "a key")
    lie = replace(message, sender=other).signed_by(server.identity)
    words = f"the key of role {role} must be signed by its holders, got a signature of {other!r}"
    refused(network.devices[name], lie.encode(), words)
    drawn = RunKey(bytes(32))
    body = pack_list([drawn.public, signature, envelope])
    key = sealed.fingerprint(agreed.member(message.sender).identity)
    words = f"the signature must be by key {key}: it is not, or was damaged"
    refused(network.devices[name], replace(message, body=body).signed_by(server.identity).encode(), words)


def test_a_key_is_given_to_the_run_keys_that_co_holders_joined_with():
    """A server that put a run key of its own in the place of one gets nothing: the join does not fit."""
    network = Network.of(scenario_of())
    network.run_until(Kind.AGREEMENT)
    true = network.server.agreement
    giver, victim = holders_of(network.server, 0)[:2]
    forged = replace(true.member(victim), run_key=RunKey(bytes(32)).public)
    members = seated([forged if one.name == victim else one for one in true.members], true.run, 1)
    roles = {one.name: true.roles[true.position(one.name)] for one in members}
    lie = replace(true, members=members, roles=tuple(roles.values()))
    network.server._session.agreement = lie
    device = network.devices[giver]
    device.receive(from_server(network, Kind.AGREEMENT, lie.encoded))
    wanted = from_server(network, Kind.ROLE_KEY_WANTED, pack_list([victim]))
    key = sealed.fingerprint(forged.identity)
    refused(device, wanted, f"the signature must be by key {key}: it is not, or was damaged")


def test_keys_of_another_run_are_refused():
    """With the same devices: signatures are for one run and one agreement."""
    one, other = (Network.of(scenario_of(seed=seed)) for seed in (7, 8))
    for network in (one, other):
        network.run_until(Kind.ROLE_KEYS)
    shown = next(decoded(list(one.down["device-0"]), Kind.ROLE_KEYS))
    replayed = replace(shown, run=other.server.run, agreement=other.server.agreement.hash)
    device = other.devices["device-0"]
    with pytest.raises(MessageRefused, match=r"must be signed by its holders|the signature must be by key"):
        device.receive(replayed.encode())
    assert not device.data_used


def test_owners_that_were_shown_different_keys_harm_availability_only():
    """A role whose key was drawn twice: who sealed to the first is left out, and the total is that of the others."""
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.ROLE_KEYS)
    agreed = network.server.agreement
    shown = next(decoded(list(network.down["device-5"]), Kind.ROLE_KEYS))
    assert len(decode_keys(shown.body, agreed)) == 2
    network.deliver(("down", "device-5"))
    for name in holders_of(network.server, 0):  # they get another key, as if it had been drawn again
        network.devices[name].sharing.role_key = RunKey(bytes(32))
    network.server.sharing.keys.publics[0] = RunKey(bytes(32)).public
    for name in scenario.names[:5]:
        network.down[name].popleft()
        device = network.devices[name]
        publics = [network.server.sharing.keys.publics[role] for role in (0, 1)]
        device.sharing._upload(publics)
        device.sharing._report()
        network.up[name].extend(wire(device._session.outbox.emptied()))
    network.run(lambda data: Message.decode(data).sender == "device-5" and Message.decode(data).kind is Kind.SHARE)
    for name in holders_of(network.server, 0):
        network.down[name] = type(network.down[name])(
            data for data in network.down[name] if Message.decode(data).kind is not Kind.SHARE
        )
    network.run()
    network.send(network.server.close_uploads())
    network.run()
    listed = network.server.sharing.owners.names
    assert np.array_equal(network.server.model, scenario.only(listed).expected_models(descent())[-1])
