"""The device's side: whom it believes, what it answers once and only once, what it forgets."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

import msgpack
import numpy as np
import pytest

import oracle
from codedfl.crypto import sealed
from codedfl.crypto.sealed import Identity, fingerprint
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fixed_point import Bounds
from codedfl.protocol import Agreement, Device, Server
from codedfl.protocol.messages import SERVER, Answer, Kind, Message, Secrets, Update, pack_list
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from scenario import Network, Scenario, decoded, descent, repeatable, snapshot

X, Y = np.full((3, 4), 0.5), np.full((3, 2), 0.25)
EVE = Identity(bytes([66]) * 32)


def exactly(message: str) -> str:
    return f"^{re.escape(message)}$"


def refused(device: Device, data: bytes, message: str) -> None:
    """Refused with this message, and the device is as before."""
    before = snapshot(device)
    with pytest.raises(MessageRefused, match=exactly(message)):
        device.receive(data)
    assert snapshot(device) == before


def invitation(server: Server, **changes: object) -> Message:
    """What the server would send to all, with changes, signed by the server."""
    message = Message.decode(server.invite()[0].data)
    return replace(message, **changes).signed_by(server.identity)


def from_server(network: Network, kind: Kind, body: bytes, author: Identity | None = None) -> bytes:
    """A message to everybody in the run's name, signed by the server unless another author is given."""
    agreement = b"" if kind is Kind.AGREEMENT else network.server.agreement.hash
    message = Message(kind, network.server.run, agreement, SERVER, SERVER, body)
    return message.signed_by(author or network.server.identity).encode()


@pytest.fixture
def invited() -> Network:
    """All devices have answered the invitation; agreements are on their way."""
    network = Network.of(Scenario())
    network.run_until(Kind.AGREEMENT)
    return network


@pytest.fixture
def agreed() -> Network:
    """The set is frozen; pad seeds and shares are on their way, device-0's seed undelivered."""
    network = Network.of(Scenario())
    network.run_until(Kind.PAD_SEED)
    return network


@pytest.fixture
def sharing() -> Network:
    """Everybody has sent shares, nobody has received any."""
    network = Network.of(Scenario())
    network.run_until(Kind.SHARE)
    return network


@pytest.fixture
def ready() -> Network:
    """Phase 1 is done and the first update is on its way to all."""
    network = Network.of(Scenario())
    network.run_until(Kind.UPDATE, Kind.FINISH)
    assert all(device.ready for device in network.devices.values())
    return network


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


# -- the roster: a lying relay


class Relay:
    """A server that replaces a device's key by its own in the agreement, so as to read what is sealed for it."""

    def __init__(self, **device_options: object) -> None:
        self.scenario = Scenario()
        self.network = Network(self.scenario.server(), [self.scenario.device(i, **device_options) for i in range(4)])
        self.network.send(self.network.server.invite())
        self.network.run_until(Kind.AGREEMENT)
        true = self.network.server.agreement
        keys = dict(zip(true.names, true.publics, strict=True)) | {"device-3": EVE.public}
        self.lie = replace(true, publics=tuple(keys.values()))
        self.data = from_server(self.network, Kind.AGREEMENT, self.lie.encoded)

    @property
    def victim(self) -> Device:
        return self.network.devices["device-0"]


def true_roster() -> dict[str, bytes]:
    return {device.name: device.identity.public for device in Scenario().devices()}


def test_a_lying_relay_is_caught_by_the_roster():
    relay = Relay(roster=true_roster())
    message = (
        f"the key of 'device-3' must be the pinned {fingerprint(true_roster()['device-3'])},"
        f" got {fingerprint(EVE.public)}: the relay may be lying"
    )
    refused(relay.victim, relay.data, message)
    # With the truth all goes well.
    relay.network.run()
    assert np.array_equal(relay.network.server.model, relay.scenario.expected_models(descent())[-1])


def test_without_a_roster_a_lying_relay_reads_the_data():
    """This is what the roster is for: the swapped key opens what device-0 seals for device-3, and the server knows
    the pad, so X'X of device-0 lies open."""
    relay = Relay()
    victim, server = relay.victim, relay.network.server
    victim.receive(relay.data)
    pad_seed = bytes(32)
    header = Message(Kind.PAD_SEED, server.run, relay.lie.hash, SERVER, "device-0")
    seal = sealed.seal(server.identity, victim.identity.public, header.context(), pad_seed, repeatable(0))
    (shares,) = decoded(victim.receive(header.with_body(seal).encode()), Kind.SHARES)
    envelope = dict(msgpack.unpackb(shares.body))["device-3"]
    context = replace(shares, kind=Kind.SHARE, receiver="device-3").context()
    secrets = Secrets.decode(sealed.open_sealed(EVE, victim.identity.public, context, envelope))
    padded = sealed.decrypt_bulk(secrets.content_key, shares.context(), secrets.digest, shares.attachment)
    ring = relay.lie.fixed_point.ring
    recovered = []
    for x in range(10):
        residues = []
        for k, prime in enumerate(ring.primes):
            pad = list(islice(oracle.pad_residues(pad_seed, server.run, "gram", k, prime), 10))
            residues.append((int.from_bytes(padded[30 * k + 3 * x :][:3], "little") - pad[x]) % prime)
        recovered.append(oracle.from_residues(residues, ring.primes))
    gram = relay.scenario.totals(server.agreement).grams[0]
    assert recovered == [gram[a][b] for a in range(4) for b in range(a, 4)]


def test_a_stranger_is_not_on_the_roster():
    roster = {name: key for name, key in true_roster().items() if name != "device-2"}
    scenario = Scenario()
    network = Network(scenario.server(), [scenario.device(i, roster=roster) for i in range(4)])
    network.send(network.server.invite())
    network.run_until(Kind.AGREEMENT)
    refused(
        network.devices["device-0"],
        network.down["device-0"][0],
        "every participant must be on the roster, got 'device-2'",
    )


def test_a_device_need_not_be_on_its_own_roster():
    scenario = Scenario()
    rosters = [{name: key for name, key in true_roster().items() if name != own} for own in scenario.names]
    network = Network(scenario.server(), [scenario.device(i, roster=rosters[i]) for i in range(4)])
    network.send(network.server.invite())
    network.run()
    assert network.server.model is not None


# -- phase 1


def pad_seed_for(network: Network, name: str, seed: bytes) -> bytes:
    """Another pad seed, properly sealed by the server."""
    server = network.server
    header = Message(Kind.PAD_SEED, server.run, server.agreement.hash, SERVER, name)
    public = server.agreement.public_of(name)
    return header.with_body(
        sealed.seal(server.identity, public, header.context(), seed, repeatable(1))
    ).encode()  # fmt: skip


def test_a_pad_is_used_once(sharing: Network):
    """A second seed, or the same again, must not make the device pad and send its data again."""
    device = sharing.devices["device-0"]
    (first,) = decoded(sharing.device_saw["device-0"], Kind.PAD_SEED)
    for data in (first.encode(), pad_seed_for(sharing, "device-0", bytes(32))):
        before = snapshot(device)
        assert device.receive(data) == []
        assert snapshot(device) == before


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_pad_seed_of_another_size_is_refused_before_the_data_are_touched(agreed: Network, size: int):
    data = pad_seed_for(agreed, "device-0", bytes(size))
    refused(agreed.devices["device-0"], data, f"a pad's seed must have 32 bytes, got {size}")


def test_raw_data_are_gone_once_they_are_shared(sharing: Network):
    for device in sharing.devices.values():
        held = [value for value in vars(device).values() if isinstance(value, tuple) and len(value) == 2]
        assert not any(isinstance(part, np.ndarray) and part.dtype == np.float64 for pair in held for part in pair)


def share_from(network: Network, secrets: Secrets, bulk: bytes = b"", sender: str = "device-1") -> bytes:
    """A share that ``sender`` itself sealed for device-0, with contents of our choice."""
    author = network.devices[sender]
    agreement = network.server.agreement
    header = Message(Kind.SHARE, network.server.run, agreement.hash, sender, "device-0", attachment=bulk)
    public = agreement.public_of("device-0")
    return header.with_body(
        sealed.seal(author.identity, public, header.context(), secrets.encode(), repeatable(2))
    ).encode()  # fmt: skip


def sealed_bulk(network: Network, plaintext: bytes, sender: str = "device-1") -> tuple[Secrets, bytes]:
    context = Message(Kind.SHARES, network.server.run, network.server.agreement.hash, sender, SERVER).context()
    bulk = b"".join(sealed.encrypt_bulk(bytes(32), context, plaintext))
    return Secrets(bytes(32), content_key=bytes(32), digest=sealed.digest_of([bulk])), bulk


def test_bad_shares_are_refused(sharing: Network):
    """device-0 with alpha = 2 holds the data of device-0 and device-1, and the mask seeds of 0, 1 and 2."""
    device = sharing.devices["device-0"]
    numbers = 4 * 5 // 2 + 4 * 2
    short, short_bulk = sealed_bulk(sharing, bytes(6 * numbers - 1))
    good, good_bulk = sealed_bulk(sharing, bytes(6 * numbers))
    cases: list[tuple[bytes, str]] = [
        (share_from(sharing, Secrets()), "the share of 'device-1' must carry a mask seed, got none"),
        (share_from(sharing, Secrets(bytes(32))), "a share along the code must bring a content key, got none"),
        (
            share_from(sharing, short, short_bulk),
            f"{numbers} ring numbers must take {6 * numbers} bytes, got {6 * numbers - 1}",
        ),
        (
            share_from(sharing, good, good_bulk[:-1]),
            "the bulk must have the digest its sender sealed: it was damaged or replaced",
        ),
        (
            share_from(sharing, replace(good, digest=b""), good_bulk),
            "the bulk must have the digest its sender sealed: it was damaged or replaced",
        ),
        (
            share_from(sharing, Secrets(bytes(32)), sender="device-3"),
            "'device-3' must not share with 'device-0' under this code, but did",
        ),
    ]
    for data, message in cases:
        refused(device, data, message)
    stranger = Message(Kind.SHARE, sharing.server.run, sharing.server.agreement.hash, "mallory", "device-0")
    refused(device, stranger.encode(), "the device must be one of the 4 of this run, got 'mallory'")


def test_a_share_meant_for_another_is_refused(sharing: Network):
    (theirs,) = (m for m in map(Message.decode, sharing.down["device-1"]) if m.sender == "device-2" and m.attachment)
    device, author = sharing.devices["device-0"], sharing.devices["device-2"].identity.public
    refused(device, theirs.encode(), "the receiver must be 'device-0', got 'device-1'")
    message = (
        f"a sealed message must open with the key of its sender {fingerprint(author)}:"
        " it was damaged, forged or meant for another run, purpose or receiver"
    )
    refused(device, replace(theirs, receiver="device-0").encode(), message)


def test_ready_is_announced_once_with_the_last_share(sharing: Network):
    device = sharing.devices["device-0"]
    shares = list(sharing.down["device-0"])
    assert len(shares) == 2  # the data and seed of device-1, the mask seed of device-2
    assert device.receive(shares[0]) == []
    assert not device.ready
    assert [Message.decode(reply).kind for reply in device.receive(shares[1])] == [Kind.READY]
    assert device.ready
    for share in shares:
        before = snapshot(device)
        assert device.receive(share) == []
        assert snapshot(device) == before


def test_what_a_device_holds_is_coded_padded_data(ready: Network):
    """C_i and Cbar_i of the paper (eq. 9, 10), from the oracle's Gram matrices and pads."""
    scenario = Scenario()
    totals = scenario.totals(ready.server.agreement)
    ring, code = ready.server.agreement.fixed_point.ring, ready.server.agreement.code
    seeds = pad_seeds(ready)
    for i, device in enumerate(ready.devices.values()):
        for k, prime in enumerate(ring.primes):
            row = code.matrix()[k][i].tolist()
            grams = [padded_gram(totals.grams[j], seeds[j], ready.server.run, k, prime) for j in range(4)]
            for a in range(4):
                for b in range(4):
                    expected = sum(row[j] * grams[j][a][b] for j in range(4)) % prime
                    assert int(device.linear[k, a, b]) % prime == expected


def pad_seeds(network: Network) -> list[bytes]:
    """What the server sealed for each device, opened with the device's key."""
    seeds = []
    for name, device in network.devices.items():
        (letter,) = decoded(network.device_saw[name], Kind.PAD_SEED)
        public = network.server.identity.public
        seeds.append(sealed.open_sealed(device.identity, public, letter.context(), letter.body))
    return seeds


def padded_gram(gram: list[list[int]], seed: bytes, run: bytes, plane: int, prime: int) -> list[list[int]]:
    """X'X + Xi with Xi symmetric: its upper triangle is the pad's stream, row by row."""
    stream = oracle.pad_residues(seed, run, "gram", plane, prime)
    size = len(gram)
    padded = [list(row) for row in gram]
    for a in range(size):
        for b in range(a, size):
            padded[a][b] = padded[b][a] = (gram[a][b] + next(stream)) % prime
    return padded


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
    (reply,) = map(Message.decode, device.receive(data))
    assert reply.kind is Kind.ANSWER
    opened = sealed.open_sealed(network.server.identity, device.identity.public, reply.context(), reply.body)
    return Answer.decode(opened)


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


@pytest.mark.parametrize("prepared", [True, False])
def test_an_answer_is_coded_data_times_e_plus_mask(ready: Network, prepared: bool):
    """Whether the mask was expanded ahead or not."""
    e = [3, -1, 0, 2, 5, 0, 0, -4]
    scenario, server = Scenario(), ready.server
    ring, code = server.agreement.fixed_point.ring, server.agreement.code
    seeds = {j: device._mask_seeds[j] for j, device in enumerate(ready.devices.values())}
    device = ready.devices["device-2"]
    device.receive(update_for(ready, 1))
    if prepared:
        device.idle()
    answer = answer_of(ready, "device-2", update_for(ready, 2, direction(ready, *e)))
    totals, pads = scenario.totals(server.agreement), pad_seeds(ready)
    for k, prime in enumerate(ring.primes):
        B = code.matrix()[k].tolist()
        received = [int.from_bytes(answer.packed[24 * k + 3 * x :][:3], "little") for x in range(8)]
        as_matrix = [e[2 * row : 2 * row + 2] for row in range(4)]
        products = [
            oracle.product(padded_gram(totals.grams[j], pads[j], server.run, k, prime), as_matrix) for j in range(4)
        ]
        masks = [list(islice(oracle.pad_residues(seeds[j], server.run, "mask|2", k, prime), 8)) for j in range(4)]
        for x in range(8):
            coded = sum(B[2][j] * products[j][x // 2][x % 2] for j in range(4))
            masked = sum(B[2][j] * (masks[j][x] - masks[(j + 1) % 4][x]) for j in range(4))
            assert received[x] == (coded + masked) % prime


def test_updates_out_of_protocol_are_refused(ready: Network, sharing: Network):
    device = ready.devices["device-0"]
    device.idle()
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


def test_idle_before_phase_1_is_done_does_nothing(agreed: Network):
    device = agreed.devices["device-0"]
    before = snapshot(device)
    device.idle()
    assert snapshot(device) == before


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
            assert device.receive(data) == []
        assert snapshot(device) == before


def repeatable_mask_seed(index: int, device: Device) -> bytes:
    """The mask seed that device ``index`` of the scenario drew: identity, the join's seal, then the seed."""
    source = repeatable(f"device {index} 7")
    assert Identity(source(32)).public == device.identity.public
    source(32)
    return source(32)


def test_the_mask_seed_of_the_test_above_is_the_true_one(ready: Network):
    for j, device in enumerate(ready.devices.values()):
        assert device._mask_seeds[j] == repeatable_mask_seed(j, device)


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
        "<PaddedDevice 'device-0', idle, answered epoch 0>",
        "<PaddedDevice 'device-0', sharing, answered epoch 0>",
        "<PaddedDevice 'device-0', ready, answered epoch 0>",
        "<PaddedDevice 'device-0', finished, answered epoch 4>",
    ]


def test_bounds_are_those_of_the_invitation():
    """A device whose data outgrow the public bounds says so and does not join; the server hears why."""
    scenario = Scenario(bounds=Bounds(0.5, 1.0, 14, 5))
    network = Network.of(scenario)
    network.run()
    assert network.server.refusals == dict.fromkeys(
        scenario.names, "X must lie within the public bound of +-0.5, got larger values"
    )


@pytest.mark.parametrize("types", [(PaddedServer, PaddedDevice), (KeysServer, KeysDevice)], ids=["padded", "keys"])
def test_an_end_in_the_middle_of_phase_1_leaves_no_secrets(types: tuple[type[Server], type[Device]]):
    network = Network.of(Scenario(server_type=types[0], device_type=types[1]))
    network.run_until(Kind.SHARE)
    device = network.devices["device-0"]
    assert device._mask_seeds and not device.ready
    server = network.server
    end = Message(Kind.FINISH, server.run, server.agreement.hash, "", "").signed_by(server.identity)
    assert device.receive(end.encode()) == []
    left = device.state()
    secrets = ("_mask_seeds", "_pad_seeds", "_gram_sum", "_constant_sum", "linear", "constant")
    assert not any(left.get(name) for name in secrets)
    assert device._data is None
