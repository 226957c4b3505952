"""The paper's scheme: what is padded, who gets it, and how many bytes travel."""

from __future__ import annotations

import os
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from codedfl.crypto import sealed
from codedfl.crypto.sealed import BULK_CHUNK, SEAL_OVERHEAD, TAG_BYTES
from codedfl.protocol.messages import (
    ENVELOPE_BYTES,
    MAX_NAME,
    SERVER,
    Answer,
    Kind,
    Message,
    Secrets,
    Shares,
    Update,
)
from scenario import ROLE_KINDS, Network, Scenario, decoded, descent, names_of


def shared_plaintext(network: Network, sender: str, receiver: str) -> bytes:
    """What ``receiver`` reads of ``sender``'s padded data, opened with the receiver's own key."""
    (share,) = (m for m in decoded(network.device_saw[receiver], Kind.SHARE) if m.sender == sender)
    secrets = Secrets.decode(network.opened(share, receiver))
    context = Message(Kind.SHARES, share.run, share.agreement, sender, SERVER).context()
    return sealed.decrypt_bulk(secrets.content_key, context, secrets.digest, share.attachment)


def neighbour_of(network: Network, sender: str) -> str:
    """Who holds ``sender``'s padded data."""
    code, agreement = network.server.agreement.code, network.server.agreement
    return agreement.names[code.column_support(agreement.position(sender))[1]]


def pad_seed(network: Network, name: str) -> bytes:
    (letter,) = decoded(network.device_saw[name], Kind.PAD_SEED)
    return network.opened(letter, name)


def pad(network: Network, name: str, label: str, plane: int, prime: int, count: int) -> list[int]:
    return list(islice(oracle.pad_residues(pad_seed(network, name), label, plane, prime), count))


@pytest.mark.parametrize("public_samples", [True, False], ids=["m public", "m summed"])
@pytest.mark.parametrize("precision", [None, 50], ids=["two primes", "three primes"])
def test_what_is_shared_is_phi_and_psi(public_samples: bool, precision: int | None):
    """Phi = X'X + Xi and Psi = G^(1) + Delta (paper eq. 7, 8), the sample count behind the latter, on the wire."""
    initial = np.array([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.0], [0.0, 3.0]])
    scenario = Scenario(alpha=3, public_samples=public_samples, precision=precision, initial=initial)
    network = Network.of(scenario)
    network.run_until(Kind.UPDATE)
    agreement = network.server.agreement
    totals, primes = scenario.totals(agreement), agreement.fixed_point.ring.primes
    assert len(primes) == (2 if precision is None else 3)
    for j, sender in enumerate(scenario.names):
        plaintext = shared_plaintext(network, sender, scenario.names[j - 1])
        triangle = [totals.grams[j][a][b] for a in range(4) for b in range(a, 4)]
        constant = [v for row in totals.constants[j] for v in row]
        if not public_samples:
            constant.append(scenario.sizes[j])
        expected = b""
        for label, numbers in (("gram", triangle), ("constant", constant)):
            for k, prime in enumerate(primes):
                stream = pad(network, sender, label, k, prime, len(numbers))
                padded = [(v + r) % prime for v, r in zip(numbers, stream, strict=True)]
                expected += b"".join(v.to_bytes(3, "little") for v in padded)
        assert plaintext == expected


def test_all_receivers_get_the_same_ciphertext():
    """Encrypted once under one content key: 12 MB are not sealed alpha - 1 times."""
    network = Network.of(Scenario(sizes=(2,) * 6, alpha=5))
    network.run_until(Kind.UPDATE)
    for sender in names_of(6):
        shares = [
            m for name in names_of(6) for m in decoded(network.device_saw[name], Kind.SHARE) if m.sender == sender
        ]
        bulks = {share.attachment for share in shares}
        assert len(shares) == 5  # four of the column, one more for the mask seed
        assert len(bulks - {b""}) == 1
        assert len({share.body for share in shares}) == 5


def test_the_server_keeps_the_sums_of_the_pads():
    network = Network.of(Scenario())
    network.run_until(Kind.UPDATE)
    server = network.server
    for k, prime in enumerate(server.agreement.fixed_point.ring.primes):
        grams = [pad(network, name, "gram", k, prime, 10) for name in names_of(4)]
        sums = iter([sum(entries) % prime for entries in zip(*grams, strict=True)])
        for a in range(4):
            for b in range(a, 4):
                expected = next(sums)
                assert int(server.sharing.offset_matrix[k, a, b]) % prime == expected
                assert int(server.sharing.offset_matrix[k, b, a]) % prime == expected
        constants = [pad(network, name, "constant", k, prime, 8) for name in names_of(4)]
        assert [int(x) % prime for x in server.sharing.offset_constant[k]] == [
            sum(v) % prime for v in zip(*constants, strict=True)
        ]


def test_every_device_has_its_own_pad():
    network = Network.of(Scenario())
    network.run_until(Kind.UPDATE)
    assert len({pad_seed(network, name) for name in names_of(4)}) == 4


def test_the_same_data_in_two_runs_look_unrelated():
    """Every run has fresh pad seeds."""
    networks = [Network.of(Scenario(), random_bytes=os.urandom) for _ in range(2)]
    for network in networks:
        network.run_until(Kind.UPDATE)
    assert len({pad_seed(network, "device-1") for network in networks}) == 2
    one, two = (shared_plaintext(network, "device-1", neighbour_of(network, "device-1")) for network in networks)
    assert not any(one[i : i + 3] == two[i : i + 3] for i in range(0, len(one), 3))


def test_uncoded_shares_nothing_bulky():
    """alpha = 1: each device answers for itself; only mask seeds travel between devices."""
    network = Network.of(Scenario(alpha=1))
    network.run()
    for name in names_of(4):
        shares = list(decoded(network.device_saw[name], Kind.SHARE))
        assert len(shares) == 1
        assert not shares[0].attachment


# -- the size of every message


def numbers_in(network: Network, message: Message) -> int:
    """How many ring numbers the latency model counts for it."""
    p = network.server.parameters
    model, constant = p.n_features * p.n_outputs, p.n_features * p.n_outputs + (p.samples is None)
    bulk = p.n_features * (p.n_features + 1) // 2 + constant
    if message.kind is Kind.UPDATE:
        return 0 if Update.decode(message.body).epoch == 1 else model
    if message.kind is Kind.ANSWER:
        return constant if Answer.decode(network.opened(message)).epoch == 1 else model
    if message.kind is Kind.SHARE:
        sender, receiver = (network.server.agreement.position(n) for n in (message.sender, message.receiver))
        return bulk if (sender - receiver) % network.server.agreement.n_devices < p.alpha else 0
    return bulk if message.kind is Kind.SHARES else 0


@given(
    d=st.integers(1, 30),
    c=st.integers(1, 12),
    alpha=st.integers(1, 4),
    public_samples=st.booleans(),
    three=st.booleans(),
)
@settings(max_examples=20)
def test_sizes_are_the_formula_of_the_latency_model_and_a_fixed_header(
    d: int, c: int, alpha: int, public_samples: bool, three: bool
):
    sizes = (2, 2, 3, 1)
    scenario = Scenario(sizes, alpha, d, c, public_samples=public_samples, precision=48 if three else None)
    network = Network.of(scenario, descent(2))
    network.run()
    seen = [*network.server_saw, *(data for saw in network.device_saw.values() for data in saw)]
    counted = set()
    for data in seen:
        message = Message.decode(data)
        header = len(data) - (9 if three else 6) * numbers_in(network, message)
        envelopes = 1 + (len(Shares.decode(message.body).envelopes) if message.kind is Kind.SHARES else 0)
        if message.kind is Kind.AGREEMENT:  # names and keys of all
            envelopes += len(sizes)
        assert 0 < header <= ENVELOPE_BYTES * envelopes, message.kind
        counted.add(message.kind)
    assert counted == set(Kind) - ROLE_KINDS - {Kind.REFUSAL, Kind.COMPLAINT}


def test_the_header_is_never_larger_than_stated_even_with_the_longest_names():
    """At the paper's size, d = 2000 and c = 10: 12 MB and the header (and Poly1305's 16 bytes a MiB)."""
    long_a, long_b = "\N{GREEK SMALL LETTER ALPHA}" * (MAX_NAME // 2), "b" * MAX_NAME
    run, agreement, tag = bytes(16), bytes(32), bytes(SEAL_OVERHEAD)
    numbers = 2000 * 2001 // 2 + 2000 * 10
    bulk = 6 * numbers + TAG_BYTES * -(-6 * numbers // BULK_CHUNK)
    share = Message(
        Kind.SHARE,
        run,
        agreement,
        long_a,
        long_b,
        tag + Secrets(*[bytes(32)] * 4).encode(),
        bytes(bulk),
    )
    assert len(share.encode()) <= bulk + ENVELOPE_BYTES
    assert bulk - 6 * numbers <= 16 * (6 * numbers / 2**20 + 1)
    answer = Answer(2**31, bytes(32), bytes(6 * 20_000)).encode()
    message = Message(Kind.ANSWER, run, agreement, long_a, SERVER, tag + answer)
    assert len(message.encode()) <= 6 * 20_000 + ENVELOPE_BYTES
    update = Update(2**31, 60, bytes(6 * 20_000)).encode()
    message = Message(Kind.UPDATE, run, agreement, SERVER, SERVER, update, signature=bytes(64))
    assert len(message.encode()) <= 6 * 20_000 + ENVELOPE_BYTES


def test_envelopes_of_shares_are_small_and_one_per_receiver():
    network = Network.of(Scenario(sizes=(2,) * 6, alpha=3))
    network.run_until(Kind.UPDATE)
    for shares in decoded(network.server_saw, Kind.SHARES):
        envelopes = Shares.decode(shares.body).envelopes
        j = network.server.agreement.position(shares.sender)
        assert set(envelopes) == {f"device-{(j - s) % 6}" for s in (1, 2, 3)}
        assert all(len(envelope) <= 256 for envelope in envelopes.values())
