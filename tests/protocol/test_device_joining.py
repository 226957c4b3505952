"""The device before it takes part: which data, which server and which agreement it accepts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from crafted import EVE, from_server, refused

from codedfl.crypto.sealed import fingerprint
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fixed_point import Bounds
from codedfl.protocol import Agreement, Server
from codedfl.protocol.messages import SERVER, Kind, Message, pack_list
from codedfl.protocol.schemes.coded_padded import PaddedDevice
from scenario import Network, Scenario, repeatable, snapshot
from wording import exactly

X, Y = np.full((3, 4), 0.5), np.full((3, 2), 0.25)


def invitation(server: Server, **changes: object) -> Message:
    """What the server would send to all, with changes, signed by the server."""
    message = Message.decode(server.invite()[0].data)
    return replace(message, **changes).signed_by(server.identity)


# -- data


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.zeros((0, 4)), np.zeros((0, 2)), "X of 'a' must have at least one sample, got none"),
        (X[0], Y, "X of 'a' must have two dimensions, got shape (4,)"),
        (X, Y[:, 0], "Y of 'a' must have two dimensions, got shape (3,)"),
        (X, Y[:2], "X and Y of 'a' must have as many rows, got 3 and 2"),
        (np.where(np.eye(3, 4), np.nan, X), Y, "X of 'a' must be finite, got 3 NaN or infinite values"),
        (X, np.where(np.eye(3, 2), -np.inf, Y), "Y of 'a' must be finite, got 2 NaN or infinite values"),
    ],
)
def test_bad_data_are_refused(X: np.ndarray, Y: np.ndarray, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        PaddedDevice("a", X, Y)


@pytest.mark.parametrize(("name", "length"), [("", 0), ("x" * 65, 65), ("é" * 33, 66)])
def test_a_bad_name_is_refused(name: str, length: int):
    with pytest.raises(InvalidInput, match=exactly(f"name must have 1 to 64 bytes, got {length}")):
        PaddedDevice(name, X, Y)


def test_lists_and_float32_are_welcome():
    device = PaddedDevice("a", X.tolist(), Y.astype(np.float32))
    assert not device.ready


# -- the invitation


def test_a_pinned_server_is_the_only_one_believed():
    scenario = Scenario()
    server = scenario.server()
    device = scenario.device(0, server_public=EVE.public)
    message = (
        f"the server's key must be the pinned {fingerprint(EVE.public)}, got {fingerprint(server.identity.public)}"
    )
    refused(device, server.invite()[0].data, message)
    assert scenario.device(0, server_public=server.identity.public).receive(server.invite()[0].data)


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
    device.receive(server.invite()[0].data)
    body = pack_list([EVE.public, scenario.parameters.encode()])
    message = (
        f"the server's key must stay that of the first invitation, {fingerprint(server.identity.public)},"
        f" got {fingerprint(EVE.public)}"
    )
    refused(device, invitation(server, body=body).signed_by(EVE).encode(), message)


def test_a_device_is_in_one_run():
    scenario = Scenario()
    server, other = scenario.server(), scenario.server(random_bytes=repeatable("other"))
    device = scenario.device(0)
    device.receive(server.invite()[0].data)
    message = f"this device is in run {server.run.hex()} already: one run each, got {other.run.hex()}"
    refused(device, other.invite()[0].data, message)


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
    body = pack_list([bytes(32) + server.identity.public[32:], scenario.parameters.encode()])
    message = "a public key must be a valid X25519 point, got one that is not"
    refused(scenario.device(0), invitation(server, body=body).encode(), message)


def test_an_invitation_repeated_is_joined_again_until_the_set_is_frozen(invited: Network):
    device = invited.devices["device-0"]
    data = invited.server.invite()[0].data
    before = snapshot(device)
    assert [Message.decode(reply).kind for reply in device.receive(data)] == [Kind.JOIN]
    assert snapshot(device) == before
    invited.run_until(Kind.PAD_SEED)
    before = snapshot(device)
    assert device.receive(data) == []
    assert snapshot(device) == before


def test_before_an_invitation_nothing_else_is_read(ready: Network):
    device = Scenario().device(0)
    for data in ready.device_saw["device-0"][1:]:
        refused(device, data, f"the run must be none yet, got {ready.server.run.hex()}")


def test_bounds_are_those_of_the_invitation():
    """A device whose data outgrow the public bounds says so and does not join; the server hears why."""
    scenario = Scenario(bounds=Bounds(0.5, 1.0, 14, 5))
    network = Network.of(scenario)
    network.run()
    assert network.server.refusals == dict.fromkeys(
        scenario.names, "X must lie within the public bound of +-0.5, got larger values"
    )


# -- the agreement


def agreement_of(network: Network, **changes: object) -> Agreement:
    return replace(network.server.agreement, **changes)


def test_a_second_agreement_is_refused_and_the_same_one_changes_nothing(agreed: Network):
    """The difference of two answers, once with and once without a third device, would expose that device."""
    device = agreed.devices["device-0"]
    first = agreed.server.agreement
    without = agreement_of(agreed, names=first.names[:3], publics=first.publics[:3])
    message = "a device accepts one agreement a run: a second, different one is refused"
    refused(device, from_server(agreed, Kind.AGREEMENT, without.encoded), message)
    before = snapshot(device)
    assert device.receive(from_server(agreed, Kind.AGREEMENT, first.encoded)) == []
    assert snapshot(device) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run": bytes(16)}, "the agreement must be for this run and this server: it is for another"),
        ({"server_public": EVE.public}, "the agreement must be for this run and this server: it is for another"),
        (
            {"names": ("a", "b", "c", "d")},
            "the device must be one of the 4 of this run, got 'device-0'",
        ),
        (
            {"publics": (EVE.public,) * 4},
            "the agreement must carry the true key of 'device-0': it carries another",
        ),
        (
            {"parameters": replace(Scenario().parameters, alpha=3)},
            "the agreement must have the parameters of the invitation: it has others",
        ),
        (
            {"parameters": replace(Scenario().parameters, masks=False)},
            "the agreement must have the parameters of the invitation: it has others",
        ),
        (
            {"parameters": replace(Scenario().parameters, n_features=2**17)},
            "the agreement must have the parameters of the invitation: it has others",
        ),
    ],
)
def test_an_agreement_on_something_else_is_refused(invited: Network, changes: dict, message: str):
    data = from_server(invited, Kind.AGREEMENT, agreement_of(invited, **changes).encoded)
    refused(invited.devices["device-0"], data, message)


def test_an_agreement_by_somebody_else_is_refused(invited: Network):
    data = from_server(invited, Kind.AGREEMENT, invited.server.agreement.encoded, author=EVE)
    message = f"the signature must be by key {fingerprint(invited.server.identity.public)}: it is not, or was damaged"
    refused(invited.devices["device-0"], data, message)


@pytest.mark.parametrize("body", [b"", b"\x90", pack_list([b"x"])])
def test_a_malformed_agreement_is_refused(invited: Network, body: bytes):
    device = invited.devices["device-0"]
    message = (
        "the agreement must have the parameters of the invitation: it has others"
        if body
        else "an agreement must be well-formed msgpack: damaged or cut (ValueError)"
    )
    refused(device, from_server(invited, Kind.AGREEMENT, body), message)


@pytest.mark.parametrize("least", [3, 4, 5])
def test_a_set_below_the_minimum_is_refused(least: int):
    scenario = Scenario()
    network = Network(scenario.server(), [scenario.device(i, min_participants=least) for i in range(4)])
    network.send(network.server.invite())
    network.run_until(Kind.AGREEMENT)
    data = network.down["device-0"][0]
    if least == 5:
        refused(network.devices["device-0"], data, "at least 5 devices must take part, got 4")
    else:
        network.run()
        assert network.server.model is not None


def test_a_set_of_one_is_never_accepted():
    """A "total" over one device is its own data; no setting allows it."""
    scenario = Scenario(alpha=1)
    device = scenario.device(0, min_participants=0)
    server = scenario.server()
    device.receive(server.invite()[0].data)
    alone = Agreement(
        scenario.parameters,
        server.run,
        server.identity.public,
        ("device-0",),
        (device.identity.public,),
        np.zeros((4, 2)),
    )
    data = Message(Kind.AGREEMENT, server.run, b"", SERVER, SERVER, alone.encoded).signed_by(server.identity).encode()
    before = snapshot(device)
    with pytest.raises(MessageRefused, match=r"^the agreement breaks a rule: .* got 1$"):
        device.receive(data)
    assert snapshot(device) == before
