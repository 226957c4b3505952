"""Coded keys: the same exact model with one bulky upload each, and nothing bulky coming down."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.crypto import pads
from codedfl.errors import MessageRefused, NotEnoughDevices
from codedfl.protocol.messages import ENVELOPE_BYTES, Kind, Message
from codedfl.protocol.prepared_pad import CONSTANT, GRAM
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.run.in_process import run_in_process
from codedfl.solve.krylov import ConjugateGradient
from scenario import Network, Scenario, descent


def keys(**options) -> Scenario:
    return Scenario(scheme=CODED_KEYS, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 1},
        {"alpha": 3},
        {"alpha": 4},
        {"sizes": (2, 3), "alpha": 2},
        {"public_samples": False},
        {"precision": 40},
        {"initial": np.array([[0.5, -1.0], [0.25, 0.0], [2.0, 1.5], [-0.125, 3.0]])},
    ],
    ids=str,
)
def test_model_is_the_oracles_bit_for_bit(options):
    scenario = keys(**options)
    expected = scenario.expected_models(descent(5))
    network = Network.of(scenario, descent(5))
    network.run()
    assert np.array_equal(network.server.model, expected[-1])


@given(st.data())
def test_arrival_order_changes_nothing(data):
    scenario = keys(sizes=(2, 3, 1, 4, 2), alpha=3)

    def arrivals(epoch, names):
        answering = data.draw(st.permutations(names), label=f"epoch {epoch}")
        return answering[: data.draw(st.integers(3, len(names)))]

    model = run_in_process(scenario.server(ConjugateGradient(5, 1e-3)), scenario.devices(), arrivals)
    assert np.array_equal(model, scenario.expected_models(ConjugateGradient(5, 1e-3))[-1])


def bulk_bytes(scenario: Scenario) -> int:
    return (scenario.d * (scenario.d + 1) // 2 + scenario.d * scenario.c) * 6


def test_one_bulky_upload_each_and_nothing_bulky_down():
    """Counted on the wire with alpha = D: d(d+1)/2 + dc numbers go up once; what comes down is small or an update."""
    scenario = keys(sizes=(5,) * 6, alpha=6, d=60, c=2)
    network = Network.of(scenario, descent(3))
    network.run()
    bulk = bulk_bytes(scenario)
    for name in scenario.names:
        uploads = [data for data in network.server_saw if Message.decode(data).sender == name]
        bulky = [data for data in uploads if len(data) >= bulk]
        assert len(bulky) == 1
        message = Message.decode(bulky[0])
        assert message.kind is Kind.SHARES
        assert bulk < len(message.attachment) <= bulk + ENVELOPE_BYTES
        down = {Message.decode(data).kind: len(data) for data in network.device_saw[name]}
        assert max(down.values()) < bulk / 4
        assert down[Kind.SHARE] <= ENVELOPE_BYTES


def test_training_starts_before_the_slow_devices_are_ready():
    """All uploads are needed, but only D - alpha + 1 devices must have expanded their seeds."""
    scenario = keys(alpha=3)
    network = Network.of(scenario)
    late = {"device-2", "device-3"}
    network.run(lambda data: Message.decode(data).kind is Kind.SHARE and Message.decode(data).receiver in late)
    assert network.server.ready_devices == ["device-0", "device-1"]
    network.run()
    assert np.array_equal(network.server.model, scenario.expected_models(descent())[-1])


def test_a_missing_upload_holds_up_the_start():
    scenario = keys(alpha=3)
    network = Network.of(scenario)
    network.run(lambda data: (Message.decode(data).kind is Kind.AGREEMENT and False) or _shares_of(data, "device-1"))
    assert network.server.phase.value == "sharing"
    message = "all 4 devices must share before training: 1 missing (device-1)"
    with pytest.raises(NotEnoughDevices) as caught:
        network.server.go_on_without(["device-1"])
    assert str(caught.value) == message
    assert caught.value.missing == ("device-1",)


def _shares_of(data: bytes, name: str) -> bool:
    message = Message.decode(data)
    return message.kind is Kind.SHARES and message.sender == name


def test_a_device_with_a_seed_and_all_traffic_cannot_open_an_upload():
    """The holder of R_j would read X_j'X_j from U_j = X_j'X_j + R_j, so the upload is sealed to the server."""
    scenario = keys(alpha=2)
    network = Network.of(scenario)
    network.run_until(Kind.UPDATE)
    victim = "device-1"
    upload = next(Message.decode(data) for data in network.server_saw if _shares_of(data, victim))
    agreement = network.server.agreement
    ring = agreement.fixed_point.ring
    share = next(
        Message.decode(data)
        for data in network.device_saw["device-0"]
        if Message.decode(data).kind is Kind.SHARE and Message.decode(data).sender == victim
    )
    from codedfl.crypto import sealed
    from codedfl.protocol.messages import Secrets, Shares

    seed = Secrets.decode(network.opened(share, "device-0")).pad
    pad = ring.pack(pads.expand(ring, seed, GRAM, scenario.parameters.triangle_length))
    plain = oracle_gram_bytes(scenario, 1, ring)
    padded = ring.pack(ring.add(ring.unpack(plain, len(plain) // 6), ring.unpack(pad, len(pad) // 6)))
    assert padded not in upload.attachment
    assert plain not in b"".join(network.server_saw)
    envelope = Shares.decode(upload.body).for_server
    header = upload.with_body(b"").context()
    with pytest.raises(MessageRefused, match="a sealed message must open with the key of its sender"):
        sealed.open_sealed(network.run_keys["device-0"], network.run_keys[victim].public, header, envelope)
    # The test has teeth: with the server's key the same bytes open, and the pad comes off.
    secrets = Secrets.decode(
        sealed.open_sealed(network.run_keys[""], network.run_keys[victim].public, header, envelope)
    )
    bulk = sealed.decrypt_bulk(secrets.content_key, header, secrets.digest, upload.attachment)
    assert bulk.startswith(padded)
    assert CONSTANT != GRAM


def oracle_gram_bytes(scenario: Scenario, device: int, ring) -> bytes:
    gram = scenario.totals().grams[device]
    triangle = [gram[i][j] for i in range(len(gram)) for j in range(i, len(gram))]
    return b"".join(b"".join((x % p).to_bytes(3, "little") for x in triangle) for p in ring.primes)


def test_server_keeps_the_sum_of_the_uploads_only():
    network = Network.of(keys(alpha=2))
    network.run_until(Kind.UPDATE)
    held = [
        value for value in vars(network.server.sharing).values() if isinstance(value, np.ndarray) and value.ndim >= 2
    ]
    d = 4
    sizes = sorted(value.shape[1:] for value in held if value.size)
    assert sizes == sorted([(d, d), (8,)]), "one d x d matrix and one constant"
