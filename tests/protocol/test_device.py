"""The device in phase 2 and at the end: what it answers once and only once, what it forgets."""

from __future__ import annotations

import hashlib
from itertools import islice

import pytest
from crafted import EVE, from_server, pad_seeds, padded_gram, refused

import oracle
from codedfl.crypto.sealed import Identity, fingerprint
from codedfl.protocol.device import Device
from codedfl.protocol.messages import SERVER, Answer, Kind, Message, Update
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from scenario import Network, Scenario, repeatable, snapshot, wire

# -- phase 2


def update_for(network: Network, epoch: int, packed: bytes = b"", bits: int = 0) -> bytes:
    return from_server(network, Kind.UPDATE, Update(epoch, bits, packed).encode())


def direction(network: Network, *values: int) -> bytes:
    """A 4 x 2 update in ring numbers on the wire."""
    entries = [*values, *[0] * (8 - len(values))]
    primes = network.server.agreement.fixed_point.ring.primes
    return b"".join((v % p).to_bytes(3, "little") for p in primes for v in entries)


def answer_of(network: Network, name: str, data: bytes) -> Answer:
    device = network.devices[name]
    (reply,) = map(Message.decode, wire(device.receive(data)))
    assert reply.kind is Kind.ANSWER
    return Answer.decode(network.opened(reply))


def test_an_epoch_is_answered_for_one_update_only(ready: Network):
    device = ready.devices["device-0"]
    first = update_for(ready, 1)
    answer = answer_of(ready, "device-0", first)
    second = update_for(ready, 1, direction(ready, 1))
    refused(device, second, "epoch 1 must be answered for one update only, got a second one")
    # Asked again, it is the very same answer, never one with a fresh mask.
    assert answer_of(ready, "device-0", first) == answer


def test_an_answered_epoch_does_not_come_back(ready: Network):
    device = ready.devices["device-0"]
    first, later = update_for(ready, 1), update_for(ready, 5, direction(ready, 1))
    device.receive(first)
    device.receive(later)
    for epoch in (1, 2, 4):
        refused(device, update_for(ready, epoch), f"the epoch must be later than 5, got {epoch}")
    refused(device, first, "the epoch must be later than 5, got 1")


def test_skipped_epochs_are_no_obstacle(ready: Network):
    """A device that was away answers the epoch it finds."""
    assert answer_of(ready, "device-0", update_for(ready, 7, direction(ready, 1, 2))).epoch == 7


def test_an_answer_is_coded_data_times_e_plus_masks_of_this_very_update(ready: Network):
    e = [3, -1, 0, 2, 5, 0, 0, -4]
    scenario, server = Scenario(), ready.server
    ring, code = server.agreement.fixed_point.ring, server.agreement.code
    seeds = {j: device.sharing.mask_seeds[j] for j, device in enumerate(ready.devices.values())}
    device = ready.devices["device-2"]
    device.receive(update_for(ready, 1))
    update = update_for(ready, 2, direction(ready, *e))
    answer = answer_of(ready, "device-2", update)
    label = f"mask|{server.run.hex()}|{hashlib.sha256(Message.decode(update).body).hexdigest()}"
    totals, pads = scenario.totals(server.agreement), pad_seeds(ready)
    for k, prime in enumerate(ring.primes):
        B = code.matrix()[k].tolist()
        received = [int.from_bytes(answer.packed[24 * k + 3 * x :][:3], "little") for x in range(8)]
        as_matrix = [e[2 * row : 2 * row + 2] for row in range(4)]
        products = [oracle.product(padded_gram(totals.grams[j], pads[j], k, prime), as_matrix) for j in range(4)]
        masks = [list(islice(oracle.pad_residues(seeds[j], label, k, prime), 8)) for j in range(4)]
        for x in range(8):
            coded = sum(B[2][j] * products[j][x // 2][x % 2] for j in range(4))
            masked = sum(B[2][j] * (masks[j][x] - masks[(j + 1) % 4][x]) for j in range(4))
            assert received[x] == (coded + masked) % prime


def test_updates_out_of_protocol_are_refused(ready: Network, sharing: Network):
    device = ready.devices["device-0"]
    server_key = fingerprint(ready.server.identity.public)
    too_large = ready.server.agreement.fixed_point.ring.primes[0]
    cases: list[tuple[bytes, str]] = [
        (
            from_server(ready, Kind.UPDATE, Update(1, 0, b"").encode(), author=EVE),
            f"the signature must be by key {server_key}: it is not, or was damaged",
        ),
        (update_for(ready, 0), "an epoch must be at least 1, got 0"),
        (update_for(ready, 1, bytes(47)), "8 ring numbers must take 48 bytes, got 47"),
        (
            update_for(ready, 1, too_large.to_bytes(3, "little") + bytes(45)),
            f"ring numbers must be residues below {too_large}, got a larger one",
        ),
        (
            from_server(ready, Kind.UPDATE, b"\x90"),
            "an update must have 3 fields, got 0",
        ),
    ]
    for data, message in cases:
        refused(device, data, message)
    early = sharing.devices["device-0"]
    refused(early, update_for(sharing, 1), "shares must be complete before an update: some are missing")


def test_messages_of_another_agreement_are_refused(ready: Network):
    message = Message(Kind.UPDATE, ready.server.run, bytes(32), SERVER, SERVER, Update(1, 0, b"").encode())
    refused(
        ready.devices["device-0"],
        message.signed_by(ready.server.identity).encode(),
        "the message must belong to the agreement this device accepted: it names another",
    )


@pytest.mark.parametrize("kind", [Kind.JOIN, Kind.REFUSAL, Kind.SHARES, Kind.READY, Kind.ANSWER])
def test_messages_for_the_server_are_refused(ready: Network, kind: Kind):
    data = from_server(ready, kind, b"")
    refused(ready.devices["device-0"], data, f"a device must not be sent a {kind} message, got one")


# -- the end


def test_after_the_end_all_secrets_of_the_run_are_forgotten(ready: Network):
    ready.run()
    for name, device in ready.devices.items():
        assert not device.ready
        seen = ready.device_saw[name]
        state = repr(snapshot({k: v for k, v in vars(device).items() if k not in ("identity", "_random_bytes")}))
        for j, other in enumerate(ready.devices.values()):
            assert repr(repeatable_mask_seed(j, other)) not in state
        # Played again, nothing of the run brings anything back.
        before = snapshot(device)
        for data in seen:
            assert device.receive(data).outgoing == []
        assert snapshot(device) == before


def repeatable_mask_seed(index: int, device: Device) -> bytes:
    """The mask seed that device ``index`` of the scenario drew: identity, content key, then the seed."""
    source = repeatable(f"device {index} 7")
    assert Identity(source(32)).public == device.identity.public
    source(32)
    return source(32)


def test_the_mask_seed_of_the_test_above_is_the_true_one(ready: Network):
    for j, device in enumerate(ready.devices.values()):
        assert device.sharing.mask_seeds[j] == repeatable_mask_seed(j, device)


def test_a_finish_by_somebody_else_is_refused(ready: Network):
    data = from_server(ready, Kind.FINISH, b"", author=EVE)
    message = f"the signature must be by key {fingerprint(ready.server.identity.public)}: it is not, or was damaged"
    refused(ready.devices["device-0"], data, message)


# -- repr


def test_repr_shows_the_state_and_no_secret():
    network = Network.of(Scenario())
    device = network.devices["device-0"]
    shown = [repr(device)]
    for kinds in ([Kind.SHARE], [Kind.UPDATE, Kind.FINISH]):
        network.run_until(*kinds)
        shown.append(repr(device))
    network.run()
    shown.append(repr(device))
    assert shown == [
        "<Device 'device-0', idle, answered epoch 0>",
        "<Device 'device-0', sharing, answered epoch 0>",
        "<Device 'device-0', ready, answered epoch 0>",
        "<Device 'device-0', finished, answered epoch 4>",
    ]


# -- the end


@pytest.mark.parametrize("types", [CODED_PADDED, CODED_KEYS], ids=["padded", "keys"])
def test_an_end_in_the_middle_of_phase_1_leaves_no_secrets(types: SharingScheme):
    network = Network.of(Scenario(scheme=types))
    network.run_until(Kind.SHARE)
    device = network.devices["device-0"]
    assert device.sharing.mask_seeds and device._session.key and not device.ready
    server = network.server
    end = Message(Kind.FINISH, server.run, server.agreement.hash, "", "").signed_by(server.identity)
    assert device.receive(end.encode()).outgoing == []
    left = {**device.state()["session"], **device.state()["own"], **device.state()["sharing"]}
    secrets = ("key", "noise_seed", "mask_seeds", "gram_sum", "constant_sum", "answer_matrix", "answer_constant")
    assert set(secrets) <= set(left)
    assert not any(left.get(name) for name in (*secrets, "_pad_seeds"))
    assert device._own.contribution is None
