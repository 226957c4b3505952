"""Parties that end at any message and come back from their state: the run must not notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.messages import SERVER, Kind, Message, Update
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.schemes.role_keys import ROLE_KEYS, ROLE_SUMS
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, Nesterov
from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
from codedfl.solve.solver import Solver
from scenario import STEP, Network, Scenario, descent, repeatable, snapshot, wire
from wording import exactly

REGULARISATION = 1e-3
SOLVERS: dict[str, Callable[[], Solver]] = {
    "gd": descent,
    "nesterov": lambda: Nesterov(4, REGULARISATION, STEP),
    "cg": lambda: ConjugateGradient(9, REGULARISATION, restart=2),  # restarts, so that refreshing is interrupted too
    "block-krylov": lambda: BlockKrylov(9, REGULARISATION),
    "derived step": lambda: GradientDescent(9, REGULARISATION),
}
SCHEMES: dict[str, tuple[SharingScheme, Callable[[], Solver]]] = {
    "coded-padded": (CODED_PADDED, descent),
    "coded-keys": (CODED_KEYS, descent),
    "one-shot": (ONE_SHOT, lambda: ClosedForm(REGULARISATION)),
    "role-keys": (ROLE_KEYS, descent),
    "role-sums": (ROLE_SUMS, lambda: ClosedForm(REGULARISATION)),
}


def plain(state: Any) -> Any:
    """Through msgpack and back: a state must hold nothing but plain values and arrays."""

    def pack_array(value: Any) -> Any:
        assert isinstance(value, np.ndarray), f"a state must be plain, got {value!r}"
        return {"dtype": value.dtype.str, "shape": list(value.shape), "bytes": value.tobytes()}

    def unpack_array(value: dict[str, Any]) -> Any:
        if set(value) != {"dtype", "shape", "bytes"}:
            return value
        return np.frombuffer(value["bytes"], value["dtype"]).reshape(value["shape"]).copy()

    return msgpack.unpackb(msgpack.packb(state, default=pack_array), object_hook=unpack_array, strict_map_key=False)


def restored_device(scenario: Scenario, old: Device) -> Device:
    rows = None if old.data_used else Rows(*scenario.data[scenario.names.index(old.name)])
    fresh = Device(scenario.plan, old.name, rows, identity=old.identity)
    fresh.restore(plain(old.state()))
    return fresh


def restored_server(scenario: Scenario, old: Server, solver: Solver) -> Server:
    fresh = Server(scenario.plan, solver, identity=old.identity)
    fresh.restore(plain(old.state()))
    return fresh


GIVEN = {"random_bytes", "pads", "outbox", "handlers", "solver", "helper", "parameters"}
GIVEN |= {"keys", "_session", "_sharing", "_own", "_plan", "_terms", "_scheme", "_roster", "_stop_when"}


def remembered(party: Server | Device) -> dict[str, Any]:
    """All attributes of its parts but those that a restored party gets from its arguments, or computes again."""
    found = {
        name: {one: snapshot(value) for one, value in vars(part).items() if one not in GIVEN}
        for name, part in party._parts.items()
    }
    if isinstance(party, Server):  # what a solver does not have before its start is None after
        solver = vars(party.epochs.solver)
        found["solver"] = {name: snapshot(value) for name, value in solver.items() if value is not None}
    return found


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def scenario_of(scheme: str) -> Scenario:
    sharing, _ = SCHEMES[scheme]
    roles = sharing.lists_owners
    return Scenario(
        sizes=(3, 5, 2, 4),
        alpha=1 if roles else 2,
        colluders=int(roles),
        public_samples=False,
        scheme=sharing,
    )


def run_with_crashes(scenario: Scenario, make_solver: Callable[[], Solver], crash: Callable[[int], bool]) -> Server:
    """Before the deliveries that ``crash`` names, the receiver ends and comes back from its state."""
    network = Network.of(scenario, make_solver())
    count = 0
    while links := network.pending():
        direction, name = links[-1 if count % 3 else 0]  # not always in order of the devices
        if crash(count):
            if direction == "down":
                old = network.devices[name]
                network.devices[name] = restored_device(scenario, old)
                assert remembered(network.devices[name]) == remembered(old)
            else:
                old_server = network.server
                network.server = restored_server(scenario, old_server, make_solver())
                assert remembered(network.server) == remembered(old_server)
        network.deliver((direction, name))
        count += 1
    assert network.server.phase is Phase.FINISHED
    return network.server


def test_a_party_that_ends_before_every_message_changes_nothing(scheme: str):
    scenario, make_solver = scenario_of(scheme), SCHEMES[scheme][1]
    undisturbed = run_with_crashes(scenario, make_solver, lambda _: False)
    crashed = run_with_crashes(scenario, make_solver, lambda _: True)
    assert undisturbed.model is not None and crashed.model is not None
    assert np.array_equal(crashed.model, undisturbed.model)
    assert crashed.epoch == undisturbed.epoch


def test_a_single_crash_at_each_message_changes_nothing(scheme: str):
    scenario, make_solver = scenario_of(scheme), SCHEMES[scheme][1]
    undisturbed = run_with_crashes(scenario, make_solver, lambda _: False).model
    for message in range(0, 60, 7):
        crashed = run_with_crashes(scenario, make_solver, message.__eq__).model
        assert np.array_equal(crashed, undisturbed)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_solver_goes_on_bit_for_bit(solver: str):
    scenario = scenario_of("coded-keys")
    scenario.public_samples = True
    final = run_with_crashes(scenario, SOLVERS[solver], lambda _: True).model
    expected = scenario.expected_models(SOLVERS[solver]())
    assert len(expected) >= 3  # block Krylov fills four dimensions with two products
    assert np.array_equal(final, expected[-1])


def trained_device() -> tuple[Scenario, Network, Device]:
    """A device that has answered the first epoch."""
    scenario = scenario_of("coded-keys")
    network = Network.of(scenario)
    network.run_until(Kind.ANSWER)
    return scenario, network, network.devices["device-1"]


def test_a_restored_device_refuses_a_second_update_of_an_epoch_it_answered():
    """What the zero-sum masks rest on, so the state must be saved before an answer leaves."""
    scenario, network, device = trained_device()
    restored = restored_device(scenario, device)
    server = network.server
    other = Update(1, 0, b"\x01" * (6 * scenario.d * scenario.c)).encode()
    assert server.agreement is not None
    message = Message(Kind.UPDATE, server.run, server.agreement.hash, SERVER, SERVER, other).signed_by(server.identity)
    with pytest.raises(MessageRefused, match=r"^epoch 1 must be answered for one update only, got a second one$"):
        restored.receive(message.encode())


def test_a_restored_device_answers_the_same_update_with_the_same_numbers():
    scenario, network, device = trained_device()
    (outgoing,) = network.server.resend().outgoing
    again = wire(restored_device(scenario, device).receive(outgoing.data))
    for data in [*network.up["device-1"], *again]:
        network.send(network.server.receive(data))
    assert network.ignored["repeated answer"] == 1


def test_repeat_asks_those_who_have_not_answered():
    _, network, _ = trained_device()
    network.server.receive(network.up["device-1"].popleft())
    (outgoing,) = network.server.resend().outgoing
    assert outgoing.receivers == ("device-0", "device-2", "device-3")
    assert Message.decode(outgoing.data).kind is Kind.UPDATE


def test_repeat_after_the_end_says_so():
    server = run_with_crashes(scenario_of("coded-keys"), descent, lambda _: False)
    (outgoing,) = server.resend().outgoing
    assert outgoing.receivers == server.expected
    assert Message.decode(outgoing.data).kind is Kind.FINISH


def test_a_state_is_refused_by_any_other_party():
    scenario, network, device = trained_device()
    for other in (
        scenario.device(2, identity=device.identity),
        scenario.device(1, identity=Identity.generate(repeatable("another"))),
        scenario.device(1, identity=device.identity, scheme=CODED_PADDED),
    ):
        with pytest.raises(InvalidInput, match=r"^state must be that of \['coded-"):
            other.restore(device.state())
    another = scenario.server(names=tuple(scenario.names[::-1]), identity=network.server.identity)
    with pytest.raises(InvalidInput, match=r"^state must be that of \['coded-keys', \['device-3'"):
        another.restore(network.server.state())


def test_a_state_of_another_version_is_refused():
    state = GradientDescent(3).state()
    del state["_epoch"]
    message = "state must be of this version, got one that differs in _epoch"
    with pytest.raises(InvalidInput, match=exactly(message)):
        GradientDescent(3).restore(state)


def test_data_must_come_with_a_state_from_before_their_use():
    scenario = scenario_of("coded-padded")
    network = Network.of(scenario)
    network.run_until(Kind.PAD_SEED)
    old = network.devices["device-0"]
    fresh = Device(scenario.plan, "device-0", None, identity=old.identity)
    message = "the contribution of 'device-0' must be given, it was not used yet, got None"
    with pytest.raises(InvalidInput, match=exactly(message)):
        fresh.restore(old.state())
