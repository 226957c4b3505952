"""The device before it takes part: which data, which server and which agreement it accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from crafted import EVE, EVES_KEY, from_server, refused

from codedfl.crypto.sealed import fingerprint
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.messages import SERVER, Kind, Message, pack_list
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from scenario import Network, Scenario, descent, joined, repeatable, snapshot, wire
from wording import exactly

X, Y = np.full((3, 4), 0.5), np.full((3, 2), 0.25)


def invitation(server: Server, **changes: Any) -> Message:
    """What the server would send to all, with changes, signed by the server."""
    message = Message.decode(server.invite().outgoing[0].data)
    return replace(message, **changes).signed_by(server.identity)


# -- data


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.zeros((0, 4)), np.zeros((0, 2)), "X must have at least one sample, got none"),
        (X[0], Y, "X must have two dimensions, got shape (4,)"),
        (X, Y[:, 0], "Y must have two dimensions, got shape (3,)"),
        (X, Y[:2], "X and Y must have as many rows, got 3 and 2"),
        (np.where(np.eye(3, 4), np.nan, X), Y, "X must be finite, got 3 NaN or infinite values"),
        (X, np.where(np.eye(3, 2), -np.inf, Y), "Y must be finite, got 2 NaN or infinite values"),
    ],
)
def test_bad_data_are_refused(X: np.ndarray, Y: np.ndarray, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        Rows(X, Y)


@pytest.mark.parametrize(("name", "length"), [("", 0), ("x" * 65, 65), ("é" * 33, 66)])
def test_a_bad_name_is_refused(name: str, length: int):
    with pytest.raises(InvalidInput, match=exactly(f"name must have 1 to 64 bytes, got {length}")):
        Device(Scenario().plan, name, Rows(X, Y))


def test_lists_and_float32_are_welcome():
    rows = Rows(X.tolist(), Y.astype(np.float32))
    assert rows.X.dtype == rows.Y.dtype == np.float64


# -- the invitation


def test_an_invitation_must_be_signed_by_the_key_it_brings():
    scenario = Scenario()
    server = scenario.server()
    device = scenario.device(0)
    message = f"the signature must be by key {fingerprint(server.identity.public)}: it is not, or was damaged"
    refused(device, invitation(server).signed_by(EVE).encode(), message)


def test_the_first_key_is_kept_for_the_run():
    """Without a pin the first invitation is trusted; nobody may take the run over with a second one."""
    scenario = Scenario()
    server = scenario.server()
    device = scenario.device(0)
    device.receive(server.invite().outgoing[0].data)
    body = pack_list([EVE.public, EVES_KEY.public, scenario.parameters.encode()])
    message = (
        f"the server's key must stay that of the first invitation, {fingerprint(server.identity.public)},"
        f" got {fingerprint(EVE.public)}"
    )
    refused(device, invitation(server, body=body).signed_by(EVE).encode(), message)


def test_a_device_is_in_one_run():
    scenario = Scenario()
    server, other = scenario.server(), scenario.server(random_bytes=repeatable("other"))
    device = scenario.device(0)
    device.receive(server.invite().outgoing[0].data)
    message = f"this device is in run {server.run.hex()} already: one run each, got {other.run.hex()}"
    refused(device, other.invite().outgoing[0].data, message)


@pytest.mark.parametrize("run", [b"", b"short", bytes(17)])
def test_a_run_id_of_another_size_is_refused(run: bytes):
    scenario = Scenario()
    refused(
        scenario.device(0),
        invitation(scenario.server(), run=run).encode(),
        f"a run id must have 16 bytes, got {len(run)}",
    )


def test_a_server_key_that_nothing_can_be_sealed_to_is_refused():
    scenario = Scenario()
    server = scenario.server()
    body = pack_list([server.identity.public, bytes(32), scenario.parameters.encode()])
    message = "a public key must be a valid X25519 point, got one that is not"
    refused(scenario.device(0), invitation(server, body=body).encode(), message)


def test_an_invitation_repeated_is_joined_again_until_the_set_is_frozen(invited: Network):
    device = invited.devices["device-0"]
    data = invited.server.invite().outgoing[0].data
    before = snapshot(device)
    assert [Message.decode(reply).kind for reply in wire(device.receive(data))] == [Kind.JOIN]
    assert snapshot(device) == before
    invited.run_until(Kind.PAD_SEED)
    before = snapshot(device)
    assert device.receive(data).outgoing == []
    assert snapshot(device) == before


def test_before_an_invitation_nothing_else_is_read(ready: Network):
    device = Scenario().device(0)
    for data in ready.device_saw["device-0"][1:]:
        refused(device, data, f"the run must be none yet, got {ready.server.run.hex()}")


def test_one_set_of_parameters_a_run():
    """Asked again with other bounds, a device does not answer: its answers must not add up to an oracle."""
    scenario = Scenario()
    server = scenario.server()
    device = scenario.device(0)
    device.receive(server.invite().outgoing[0].data)
    other = replace(server.invitation, parameters=replace(scenario.parameters, bounds=Bounds(0.5, 1.0, 14, 5)))
    message = "a run has one invitation: a second one with other parameters or keys is refused"
    refused(device, invitation(server, body=other.encoded).encode(), message)


@pytest.mark.parametrize("bounds", [Bounds(0.5, 1.0, 14, 5), Bounds(1.0, 0.1, 14, 5), Bounds(1.0, 1.0, 14, 1)])
def test_whether_a_device_joins_says_nothing_of_its_rows(bounds: Bounds):
    """Rows that do not fit are clipped or left out where they are, and counted there; the server hears a join."""
    scenario = Scenario(bounds=bounds, public_samples=False)
    network = Network.of(scenario)
    network.run()
    assert network.server.joining.refusals == {}
    assert network.server.phase is Phase.FINISHED
    for (X, Y), device in zip(scenario.data, network.devices.values(), strict=True):
        kept = slice(0, bounds.samples_per_device)
        beyond = np.abs(X[kept]) > bounds.features, np.abs(Y[kept]) > bounds.labels
        assert device.fit.clipped == sum(int(part.sum()) for part in beyond)
        assert device.fit.dropped == max(0, len(X) - bounds.samples_per_device)


def test_the_total_is_that_of_the_rows_as_they_were_made_to_fit():
    bounds = Bounds(0.5, 0.25, 14, 3)
    scenario = Scenario(bounds=bounds, public_samples=False)
    network = Network.of(scenario)
    network.run()
    fitting = Scenario(bounds=bounds, public_samples=False)
    fitting.data = [(np.clip(X[:3], -0.5, 0.5), np.clip(Y[:3], -0.25, 0.25)) for X, Y in scenario.data]
    fitting.sizes = tuple(len(X) for X, _ in fitting.data)
    assert np.array_equal(network.server.model, fitting.expected_models(descent())[-1])


# -- the agreement


def agreement_of(network: Network, **changes: Any) -> Agreement:
    return replace(network.server.agreement, **changes)


def test_a_second_agreement_is_refused_and_the_same_one_changes_nothing(agreed: Network):
    """The difference of two answers, once with and once without a third device, would expose that device."""
    device = agreed.devices["device-0"]
    first = agreed.server.agreement
    without = agreement_of(agreed, members=first.members[:3])
    message = "a device accepts one agreement per run: a second, different one is refused"
    refused(device, from_server(agreed, Kind.AGREEMENT, without.encoded), message)
    before = snapshot(device)
    assert device.receive(from_server(agreed, Kind.AGREEMENT, first.encoded)).outgoing == []
    assert snapshot(device) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"run": bytes(16)},
        {"server_public": EVE.public},
        {"server_key": EVES_KEY.public},
        {"parameters": replace(Scenario().parameters, alpha=3)},
        {"parameters": replace(Scenario().parameters, masks=False)},
        {"parameters": replace(Scenario().parameters, n_features=2**17)},
    ],
)
def test_an_agreement_for_another_invitation_is_refused(invited: Network, changes: dict):
    elsewhere = replace(invited.server.invitation, **changes)
    data = from_server(invited, Kind.AGREEMENT, agreement_of(invited, invitation=elsewhere).encoded)
    message = "the agreement must be for the invitation that this device joined: it is for another"
    refused(invited.devices["device-0"], data, message)


def test_an_agreement_without_this_device_or_with_another_key_for_it_is_refused(invited: Network):
    device, server = invited.devices["device-0"], invited.server
    others = [joined(server.invitation, name) for name in ("a", "b", "c", "d")]
    for members, message in (
        (others, "the device must be one of the 4 of this run, got 'device-0'"),
        (
            [joined(server.invitation, "device-0"), *others],
            "the agreement must carry the true keys of 'device-0': it carries others",
        ),
    ):
        lie = Agreement.freeze(server.invitation, members)
        refused(device, from_server(invited, Kind.AGREEMENT, lie.encoded), message)


def test_an_agreement_by_somebody_else_is_refused(invited: Network):
    data = from_server(invited, Kind.AGREEMENT, invited.server.agreement.encoded, author=EVE)
    message = f"the signature must be by key {fingerprint(invited.server.identity.public)}: it is not, or was damaged"
    refused(invited.devices["device-0"], data, message)


@pytest.mark.parametrize("body", [b"", b"\x90", pack_list([b"x"])])
def test_a_malformed_agreement_is_refused(invited: Network, body: bytes):
    message = "the agreement must be for the invitation that this device joined: it is for another"
    refused(invited.devices["device-0"], from_server(invited, Kind.AGREEMENT, body), message)


def test_a_set_of_one_is_never_accepted():
    """A "total" over one device is its own data; no setting allows it."""
    scenario = Scenario(alpha=1)
    device = scenario.device(0)
    server = scenario.server()
    (join,) = map(Message.decode, wire(device.receive(server.invite().outgoing[0].data)))
    server.receive(join.encode())
    alone = Agreement(server.invitation, tuple(server.joining.members), np.zeros((4, 2)))
    data = Message(Kind.AGREEMENT, server.run, b"", SERVER, SERVER, alone.encoded).signed_by(server.identity).encode()
    before = snapshot(device)
    with pytest.raises(MessageRefused, match=r"^the agreement breaks a rule: .* got 1$"):
        device.receive(data)
    assert snapshot(device) == before
