"""The device in phase 1: it pads its data once, and takes the shares of those it should and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from crafted import pad_seeds, padded_gram, refused

from codedfl.crypto import sealed
from codedfl.crypto.sealed import fingerprint
from codedfl.protocol.messages import SERVER, Commitments, Complaint, Kind, Message, Secrets, Share, Unusable
from scenario import Network, Scenario, decoded, snapshot, wire


def pad_seed_for(network: Network, name: str, seed: bytes) -> bytes:
    """Another pad seed, properly sealed by the server."""
    server = network.server
    header = Message(Kind.PAD_SEED, server.run, server.agreement.hash, SERVER, name)
    return header.with_body(network.sealed(header, name, seed)).encode()


def test_a_pad_is_used_once(sharing: Network):
    """A second seed, or the same again, must not make the device pad and send its data again."""
    device = sharing.devices["device-0"]
    (first,) = decoded(sharing.device_saw["device-0"], Kind.PAD_SEED)
    for data in (first.encode(), pad_seed_for(sharing, "device-0", bytes(32))):
        before = snapshot(device)
        assert device.receive(data).outgoing == []
        assert snapshot(device) == before


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_pad_seed_of_another_size_is_refused_before_the_data_are_touched(agreed: Network, size: int):
    data = pad_seed_for(agreed, "device-0", bytes(size))
    refused(agreed.devices["device-0"], data, f"a pad's seed must have 32 bytes, got {size}")


def test_raw_data_are_gone_once_they_are_shared(sharing: Network):
    for device in sharing.devices.values():
        held = [value for value in vars(device).values() if isinstance(value, tuple) and len(value) == 2]
        assert not any(isinstance(part, np.ndarray) and part.dtype == np.float64 for pair in held for part in pair)


def share_from(
    network: Network, secrets: Secrets, bulk: bytes = b"", sender: str = "device-1", committed: bytes = b""
) -> bytes:
    """A share that ``sender`` itself sealed for device-0, with contents of our choice and commitments that fit.

    committed: another mask seed than the one sealed, to commit to.
    """
    author, run = network.devices[sender], network.server.run
    header = Message(Kind.SHARE, run, network.server.agreement.hash, sender, "device-0", attachment=bulk)
    commitments = Commitments.to({"mask": committed or secrets.mask}, sender, header.agreement, author.identity)
    body = Share(commitments, network.sealed(header, "device-0", secrets.encode())).encode()
    return header.with_body(body).signed_by(network.server.identity).encode()  # as the server relays it


def sealed_bulk(network: Network, plaintext: bytes, sender: str = "device-1") -> tuple[Secrets, bytes]:
    context = Message(Kind.SHARES, network.server.run, network.server.agreement.hash, sender, SERVER).context()
    bulk = b"".join(sealed.encrypt_bulk(bytes(32), context, plaintext))
    return Secrets(bytes(32), content_key=bytes(32), digest=sealed.digest_of([bulk])), bulk


def complaint_of(network: Network, replies: list[bytes]) -> Complaint:
    (message,) = decoded(replies, Kind.COMPLAINT)
    return Complaint.decode(network.opened(message))


def test_a_share_that_its_sender_made_unusable_is_complained_of(sharing: Network):
    """device-0 with alpha = 2 holds the data of device-0 and device-1, and the mask seeds of 0, 1 and 2."""
    device = sharing.devices["device-0"]
    numbers = 4 * 5 // 2 + 4 * 2
    short, short_bulk = sealed_bulk(sharing, bytes(6 * numbers - 1))
    good, good_bulk = sealed_bulk(sharing, bytes(6 * numbers))
    for data, reason in (
        (share_from(sharing, Secrets()), Unusable.NO_MASK),
        (share_from(sharing, Secrets(bytes(31))), Unusable.MALFORMED),
        (share_from(sharing, good, good_bulk, committed=b"another mask seed of 32 bytes..."), Unusable.NOT_COMMITTED),
        (share_from(sharing, Secrets(bytes(32))), Unusable.NO_DATA),
        (share_from(sharing, short, short_bulk), Unusable.NO_DATA),
        (share_from(sharing, good, good_bulk[:-1]), Unusable.NO_DATA),
        (share_from(sharing, replace(good, digest=b""), good_bulk), Unusable.NO_DATA),
    ):
        before = snapshot(device)
        assert complaint_of(sharing, wire(device.receive(data))) == Complaint("device-1", reason)
        assert snapshot(device) == before


def test_shares_of_those_who_should_not_are_refused(sharing: Network):
    device = sharing.devices["device-0"]
    data = share_from(sharing, Secrets(bytes(32)), sender="device-3")
    refused(device, data, "'device-3' must not share with 'device-0' in this run, but did")
    stranger = Message(Kind.SHARE, sharing.server.run, sharing.server.agreement.hash, "mallory", "device-0")
    refused(device, stranger.encode(), "the device must be one of the 4 of this run, got 'mallory'")


def test_a_share_meant_for_another_is_refused(sharing: Network):
    (theirs,) = (m for m in map(Message.decode, sharing.down["device-1"]) if m.sender == "device-2" and m.attachment)
    device, author = sharing.devices["device-0"], sharing.run_keys["device-2"].public
    refused(device, theirs.encode(), "the receiver must be 'device-0', got 'device-1'")
    message = (
        f"a sealed message must open with the key of its sender {fingerprint(author)}:"
        " it was damaged, forged or meant for another run, purpose or receiver"
    )
    forged = replace(theirs, receiver="device-0")
    key = fingerprint(sharing.server.identity.public)
    refused(device, forged.encode(), f"the signature must be by key {key}: it is not, or was damaged")
    refused(device, forged.signed_by(sharing.server.identity).encode(), message)  # the relay itself cannot do it either


def test_a_bulk_that_was_damaged_on_the_way_is_refused_and_may_come_again(sharing: Network):
    (true,) = [m for m in decoded(sharing.down["device-0"], Kind.SHARE) if m.attachment]
    rule = f"the signature must be by key {fingerprint(sharing.server.identity.public)}: it is not, or was damaged"
    refused(sharing.devices["device-0"], replace(true, attachment=true.attachment[:-1]).encode(), rule)
    sharing.devices["device-0"].receive(true.encode())
    assert 1 in sharing.devices["device-0"].sharing.mask_seeds


def test_ready_is_announced_once_with_the_last_share(sharing: Network):
    device = sharing.devices["device-0"]
    shares = list(sharing.down["device-0"])
    assert len(shares) == 2  # the data and seed of device-1, the mask seed of device-2
    assert device.receive(shares[0]).outgoing == []
    assert not device.ready
    assert [Message.decode(reply).kind for reply in wire(device.receive(shares[1]))] == [Kind.READY]
    assert device.ready
    for share in shares:
        before = snapshot(device)
        assert device.receive(share).outgoing == []
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
            grams = [padded_gram(totals.grams[j], seeds[j], k, prime) for j in range(4)]
            for a in range(4):
                for b in range(4):
                    expected = sum(row[j] * grams[j][a][b] for j in range(4)) % prime
                    assert int(device.sharing.answer_matrix[k, a, b]) % prime == expected
