"""What the parties see of phase 1: the server ciphertext, a device padded values, both indistinguishable from noise.

The data are as unlike noise as can be (every sample is the same), so that anything that shines through is seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from scipy import stats

from codedfl.crypto import sealed
from codedfl.crypto.sealed import RunKey
from codedfl.errors import MessageRefused
from codedfl.protocol.device import Device
from codedfl.protocol.messages import SERVER, Kind, Message, Secrets, Share, Shares
from codedfl.protocol.server import Server
from scenario import Network, Scenario, decoded

D, ALPHA, FEATURES, OUTPUTS = 6, 4, 40, 3
NUMBERS = FEATURES * (FEATURES + 1) // 2 + FEATURES * OUTPUTS
WINDOW = 12  # bytes: four residues, or a number and a half of raw data; no window occurs by chance


@cache
def shared() -> tuple[Scenario, Network]:
    """A run with phase 1 done and the first update undelivered."""
    scenario = Scenario(sizes=(3,) * D, alpha=ALPHA, d=FEATURES, c=OUTPUTS)
    scenario.data = [(np.full((3, FEATURES), 0.7), np.full((3, OUTPUTS), 0.3)) for _ in range(D)]
    network = Network.of(scenario)
    network.run_until(Kind.UPDATE)
    return scenario, network


def openings(key: RunKey, publics: list[bytes], message: Message) -> Iterator[bytes]:
    """All that the holder of ``key`` can open of a message, trying every key and every plausible context."""
    bodies = [(message, message.body)]
    if message.kind is Kind.SHARES:
        shares = Shares.decode(message.body)
        bodies.append((message.with_body(b""), shares.for_server))
        for name, envelope in shares.envelopes.items():
            header = Message(Kind.SHARE, message.run, message.agreement, message.sender, name)
            bodies.append((header, envelope))
    if message.kind is Kind.SHARE:
        bodies.append((message, Share.decode(message.body).envelope))
    for (header, body), public in itertools.product(bodies, publics):
        try:
            plaintext = sealed.open_sealed(key, public, header.context(), body)
        except MessageRefused:
            continue
        yield plaintext
        if message.kind is Kind.SHARE:
            secrets = Secrets.decode(plaintext)
            if secrets.content_key:
                context = Message(Kind.SHARES, message.run, message.agreement, message.sender, SERVER).context()
                yield sealed.decrypt_bulk(secrets.content_key, context, secrets.digest, message.attachment)


def view(party: Server | Device, seen: list[bytes]) -> bytes:
    """Everything a party received, and everything it can make of it with its own key."""
    _, network = shared()
    publics = [key.public for key in network.run_keys.values()]
    name = SERVER if isinstance(party, Server) else party.name
    parts = list(seen)
    for data in seen:
        parts += openings(network.run_keys[name], publics, Message.decode(data))
    return b"|".join(parts)


def unpadded(index: int) -> bytes:
    """What device ``index`` pads, on the wire's form; from the oracle."""
    scenario, network = shared()
    agreement = network.server.agreement
    totals = scenario.totals(agreement)
    gram = [totals.grams[index][a][b] for a in range(FEATURES) for b in range(a, FEATURES)]
    constant = [v for row in totals.constants[index] for v in row]
    return b"".join(
        (v % p).to_bytes(3, "little")
        for values in (gram, constant)
        for p in agreement.fixed_point.ring.primes
        for v in values
    )


def padded(index: int) -> bytes:
    """What device ``index`` shared, opened by a neighbour it was meant for."""
    _, network = shared()
    reader = f"device-{(index - 1) % D}"
    (share,) = (m for m in decoded(network.device_saw[reader], Kind.SHARE) if m.sender == f"device-{index}")
    publics = [network.run_keys[share.sender].public]
    *_, plaintext = openings(network.run_keys[reader], publics, share)
    assert len(plaintext) == 6 * NUMBERS
    return plaintext


def windows(data: bytes, step: int = 1) -> set[bytes]:
    return {data[i : i + WINDOW] for i in range(0, len(data) - WINDOW + 1, step)}


def raw_forms(index: int) -> set[bytes]:
    """Features and labels as floats, as they lie in memory."""
    scenario, _ = shared()
    forms = set()
    for values in scenario.data[index]:
        for kind in ("<f8", "<f4"):
            forms |= windows(values.astype(kind).tobytes(), 4)
    return forms


def test_the_server_sees_only_ciphertext_in_phase_1():
    _, network = shared()
    kinds = {Message.decode(data).kind for data in network.server_saw}
    assert kinds == {Kind.JOIN, Kind.SHARES, Kind.READY}
    everything = windows(view(network.server, network.server_saw))
    for index in range(D):
        assert not everything & windows(unpadded(index), 3)
        assert not everything & windows(padded(index), 3)  # the server knows the pads: padded data must be sealed too
        assert not everything & raw_forms(index)


def test_what_the_server_can_open_is_empty():
    """Readies carry nothing; shares are for others. Joins are public, and signed."""
    _, network = shared()
    publics = [network.run_keys[name].public for name in network.devices]
    opened = [
        plaintext
        for data in network.server_saw
        for plaintext in openings(network.run_keys[SERVER], publics, Message.decode(data))
    ]
    assert opened == [b""] * D


@pytest.mark.parametrize("index", range(D))
def test_a_device_sees_no_unpadded_value_of_another(index: int):
    _, network = shared()
    device = network.devices[f"device-{index}"]
    everything = windows(view(device, network.device_saw[device.name]))
    row = {(index + s) % D for s in range(ALPHA)}
    for other in set(range(D)) - {index}:
        assert not everything & windows(unpadded(other), 3)
        assert not everything & raw_forms(other)
        # It holds the padded data of its row of the code and of nobody else: the search above does find things.
        found = everything & windows(padded(other), 3)
        assert bool(found) == (other in row)
        if found:
            assert found == windows(padded(other), 3)


def test_a_device_does_not_get_the_pad_seed_of_another():
    _, network = shared()
    seeds = {}
    for name in network.devices:
        (letter,) = decoded(network.device_saw[name], Kind.PAD_SEED)
        (seeds[name],) = openings(network.run_keys[name], [network.run_keys[SERVER].public], letter)
    for name, device in network.devices.items():
        seen = view(device, network.device_saw[name])
        assert [other for other, seed in seeds.items() if seed in seen] == [name]


# -- uniformity


def p_value(numbers: np.ndarray, top: int, bins: int = 64) -> float:
    """Chi-square against the uniform distribution on [0, top)."""
    edges = [-(-i * top // bins) for i in range(bins + 1)]
    observed = np.histogram(numbers, edges)[0]
    return float(stats.chisquare(observed, len(numbers) * np.diff(edges) / top).pvalue)


def residues(wire: bytes) -> list[np.ndarray]:
    """Residues of both primes of the two packed parts (triangle, constant), per prime."""
    split = 6 * FEATURES * (FEATURES + 1) // 2
    planes: list[list[np.ndarray]] = [[], []]
    for part in (wire[:split], wire[split:]):
        triples = np.frombuffer(part, np.uint8).reshape(2, -1, 3).astype(np.int64)
        for k in (0, 1):
            planes[k].append(triples[k] @ [1, 256, 65536])
    return [np.concatenate(plane) for plane in planes]


def test_padded_values_are_uniform_on_the_ring():
    _, network = shared()
    primes = network.server.agreement.fixed_point.ring.primes
    views = [residues(padded(index)) for index in range(D)]
    for k, prime in enumerate(primes):
        together = np.concatenate([planes[k] for planes in views])
        assert len(together) == D * NUMBERS
        assert 0.001 < p_value(together, prime) < 0.999
        # The difference of two devices' values, which a shared pad would make constant, is uniform as well.
        for one, other in itertools.combinations(views, 2):
            assert p_value((one[k] - other[k]) % prime, prime) > 0.0001
    # The same test sees at once that the unpadded ones are not.
    for k, prime in enumerate(primes):
        assert p_value(residues(unpadded(0))[k], prime) < 1e-100


def test_ciphertext_is_uniform():
    _, network = shared()
    bulk = b"".join(message.attachment for message in decoded(network.server_saw, Kind.SHARES))
    assert len(bulk) == D * (6 * NUMBERS + 16)
    assert 0.001 < p_value(np.frombuffer(bulk, np.uint8), 256, bins=256) < 0.999


def test_pads_hide_even_when_everything_else_is_the_same():
    """Two devices with equal data share nothing equal: of 880 pairs of 24-bit residues none coincides."""
    assert unpadded(0) == unpadded(1)
    for one, other in zip(residues(padded(0)), residues(padded(1)), strict=True):
        assert np.count_nonzero(one == other) <= 1
