"""Nonsense that a member of the run has signed or sealed: it passes every key check and meets the code behind.

Parties are honest by the threat model; one that is not, or is broken, must not break another down all the same. Each
test takes a valid message of a stopped run, opens it with the receiver's key, damages what was inside, and closes it
again with the sender's. Wire formats are not repeated here, so the tests follow them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from mutation import INPUTS, damaged, damaged_list, fuzz
from stopped_runs import Frozen, stopped_at

from codedfl.crypto import sealed
from codedfl.crypto.sealed import Identity
from codedfl.errors import MessageRefused
from codedfl.protocol.messages import SERVER, Answer, Commitments, Kind, Message, Secrets, Share, Shares, Update
from scenario import Network

SENDER, RECEIVER = "device-1", "device-0"  # device 0 answers for device 1
BOTH = pytest.mark.parametrize("padded", [False, True], ids=["coded-keys", "coded-padded"])


def waiting(network: Network, kind: Kind, sender: str, receiver: str) -> Message:
    """The message of this kind on the link."""
    queue = network.up[sender] if receiver == SERVER else network.down[receiver]
    messages = map(Message.decode, queue)
    return next(message for message in messages if message.kind is kind and message.sender == sender)


def identity_of(network: Network, name: str) -> Identity:
    return network.server.identity if name == SERVER else network.devices[name].identity


def closed(network: Network, message: Message, receiver: str, plaintext: bytes) -> Message:
    """The same message with another content, sealed by its sender; a share keeps its commitments."""
    body = network.sealed(message, receiver, plaintext)
    if message.kind is Kind.SHARE:
        body = replace(Share.decode(message.body), envelope=body).encode()
        return message.with_body(body).signed_by(network.server.identity)
    return message.with_body(body)


def committed(network: Network, message: Message, secrets: Secrets) -> Message:
    """A share with other secrets, and with commitments of its sender that fit them."""
    seeds = {"mask": secrets.mask, "pad": secrets.pad}
    commitments = Commitments.to(seeds, message.sender, message.agreement, identity_of(network, message.sender))
    body = Share(commitments, network.sealed(message, RECEIVER, secrets.encode())).encode()
    return message.with_body(body).signed_by(network.server.identity)


def fuzz_content(
    party: Frozen, valid: bytes, wrap: Callable[[bytes], bytes], damage: Callable[[bytes, random.Random], bytes]
) -> dict[str, int]:
    """At least what is valid is taken; the tests say how much of the rest is refused."""
    counts = fuzz(lambda data: party(wrap(data)), [valid], damage)
    assert counts["taken"] > 0
    return counts


# -- what the server signs or seals


@pytest.mark.parametrize("kind", [Kind.INVITATION, Kind.AGREEMENT, Kind.UPDATE])
def test_a_device_refuses_nonsense_that_its_server_has_signed(kind: Kind):
    network = stopped_at(False, kind)
    message = waiting(network, kind, SERVER, RECEIVER)
    device = Frozen(network.devices[RECEIVER])

    def wrap(body: bytes) -> bytes:
        return message.with_body(body).signed_by(network.server.identity).encode()

    assert fuzz_content(device, message.body, wrap, damaged_list)["refused"] > INPUTS // 3


@pytest.mark.parametrize("field", ["epoch", "fraction_bits", "packed"])
def test_a_device_refuses_or_answers_any_update_that_is_one_by_its_form(field: str):
    network = stopped_at(True, Kind.UPDATE)
    message = waiting(network, Kind.UPDATE, SERVER, RECEIVER)
    device = Frozen(network.devices[RECEIVER])
    numbers = [0, -1, 2, 2**31, 2**63, 2**64 - 1, -(2**63)]
    values = [bytes(size) for size in (1, 47, 48, 49, 5000)] if field == "packed" else numbers

    def wrap(choice: bytes) -> bytes:
        update: Any = {"epoch": 1, "fraction_bits": 0, "packed": b""} | {field: values[choice[0]]}
        body = Update(**update).encode()
        return message.with_body(body).signed_by(network.server.identity).encode()

    fuzz(lambda data: device(wrap(data)), [bytes([place]) for place in range(len(values))], inputs=len(values))


def test_a_device_refuses_a_pad_seed_that_is_none():
    network = stopped_at(True, Kind.PAD_SEED)
    message = waiting(network, Kind.PAD_SEED, SERVER, RECEIVER)
    seed = network.opened(message, RECEIVER)
    device = Frozen(network.devices[RECEIVER])
    counts = fuzz_content(device, seed, lambda data: closed(network, message, RECEIVER, data).encode(), damaged)
    assert counts["refused"] > INPUTS // 3


# -- what a device seals to another


class Complaining(Frozen):
    """A device whose complaint about the sender counts as a refusal."""

    def __call__(self, data: bytes) -> list[bytes]:
        replies = super().__call__(data)
        if any(Message.decode(reply).kind is Kind.COMPLAINT for reply in replies):
            raise MessageRefused("the sender is complained of")
        return replies


@BOTH
def test_a_device_refuses_secrets_that_are_none(padded: bool):
    network = stopped_at(padded, Kind.SHARE)
    message = waiting(network, Kind.SHARE, SENDER, RECEIVER)
    secrets = network.opened(message, RECEIVER)
    device = Complaining(network.devices[RECEIVER])
    counts = fuzz_content(device, secrets, lambda data: closed(network, message, RECEIVER, data).encode(), damaged_list)
    assert counts["refused"] > INPUTS // 3


def test_a_device_refuses_bulk_that_is_none():
    """Encrypted anew, with the right digest sealed beside: only the numbers themselves can be wrong."""
    network = stopped_at(True, Kind.SHARE)
    message = waiting(network, Kind.SHARE, SENDER, RECEIVER)
    secrets = Secrets.decode(network.opened(message, RECEIVER))
    context = Message(Kind.SHARES, message.run, message.agreement, SENDER, SERVER).context()
    numbers = sealed.decrypt_bulk(secrets.content_key, context, secrets.digest, message.attachment)
    device = Complaining(network.devices[RECEIVER])

    def wrap(data: bytes) -> bytes:
        bulk = b"".join(sealed.encrypt_bulk(secrets.content_key, context, data))
        again = replace(secrets, digest=sealed.digest_of([bulk]))
        return committed(network, replace(message, attachment=bulk), again).encode()

    assert fuzz_content(device, numbers, wrap, damaged)["refused"] > INPUTS // 3


# -- what a device signs or seals to the server


@BOTH
def test_the_server_takes_any_content_of_a_message_that_needs_none(padded: bool):
    network = stopped_at(padded, Kind.READY)
    message = waiting(network, Kind.READY, SENDER, SERVER)
    server = Frozen(network.server)
    counts = fuzz_content(server, b"", lambda data: closed(network, message, SERVER, data).encode(), damaged)
    assert counts["refused"] == 0


def test_the_server_takes_any_text_as_a_refusal():
    network = stopped_at(False, Kind.JOIN)
    join = waiting(network, Kind.JOIN, SENDER, SERVER)
    message, author = replace(join, kind=Kind.REFUSAL), identity_of(network, SENDER)
    server = Frozen(network.server)
    counts = fuzz_content(
        server, b"masks must be on", lambda data: message.with_body(data).signed_by(author).encode(), damaged
    )
    assert counts["refused"] == 0


def test_the_server_refuses_a_join_that_is_none():
    network = stopped_at(False, Kind.JOIN)
    message = waiting(network, Kind.JOIN, SENDER, SERVER)
    server = Frozen(network.server)
    counts = fuzz_content(server, message.body, lambda body: message.with_body(body).encode(), damaged)
    assert counts["refused"] > INPUTS // 3


def test_the_server_refuses_a_join_with_a_key_that_is_none():
    """The key comes in the join itself; the signature is by whoever holds it."""
    network = stopped_at(False, Kind.JOIN)
    message = waiting(network, Kind.JOIN, SENDER, SERVER)
    server = Frozen(network.server)

    def wrap(key: bytes) -> bytes:
        return replace(message, attachment=key).encode()

    assert fuzz_content(server, message.attachment, wrap, damaged)["refused"] > INPUTS // 3


@BOTH
def test_the_server_refuses_shares_that_are_none(padded: bool):
    network = stopped_at(padded, Kind.SHARES)
    message = waiting(network, Kind.SHARES, SENDER, SERVER)
    server = Frozen(network.server)

    def wrap(body: bytes) -> bytes:
        return message.with_body(body).signed_by(identity_of(network, SENDER)).encode()

    assert fuzz_content(server, message.body, wrap, damaged_list)["refused"] > INPUTS // 3


def resigned(network: Network, message: Message, for_server: Secrets | bytes, bulk: bytes) -> bytes:
    """A SHARES message of coded-keys with other secrets for the server and another bulk."""
    header = Message(Kind.SHARES, message.run, message.agreement, SENDER, SERVER)
    plaintext = for_server if isinstance(for_server, bytes) else for_server.encode()
    shares = replace(Shares.decode(message.body), for_server=network.sealed(header, SERVER, plaintext))
    return replace(message, body=shares.encode(), attachment=bulk).signed_by(identity_of(network, SENDER)).encode()


def upload_secrets(network: Network, message: Message) -> bytes:
    header = Message(Kind.SHARES, message.run, message.agreement, SENDER, SERVER)
    return network.opened(header.with_body(Shares.decode(message.body).for_server))


def test_the_server_refuses_secrets_of_an_upload_that_are_none():
    network = stopped_at(False, Kind.SHARES)
    message = waiting(network, Kind.SHARES, SENDER, SERVER)
    server, valid = Frozen(network.server), upload_secrets(network, message)
    counts = fuzz_content(
        server, valid, lambda data: resigned(network, message, data, message.attachment), damaged_list
    )
    assert counts["refused"] > INPUTS // 3


def test_the_server_refuses_an_upload_that_is_none():
    network = stopped_at(False, Kind.SHARES)
    message = waiting(network, Kind.SHARES, SENDER, SERVER)
    secrets = Secrets.decode(upload_secrets(network, message))
    context = Message(Kind.SHARES, message.run, message.agreement, SENDER, SERVER).context()
    numbers = sealed.decrypt_bulk(secrets.content_key, context, secrets.digest, message.attachment)
    server = Frozen(network.server)

    def wrap(data: bytes) -> bytes:
        bulk = b"".join(sealed.encrypt_bulk(secrets.content_key, context, data))
        again = replace(secrets, digest=sealed.digest_of([bulk]))
        return resigned(network, message, again, bulk)

    assert fuzz_content(server, numbers, wrap, damaged)["refused"] > INPUTS // 3


@BOTH
def test_the_server_refuses_an_answer_that_is_none(padded: bool):
    network = stopped_at(padded, Kind.ANSWER)
    message = waiting(network, Kind.ANSWER, SENDER, SERVER)
    answer = network.opened(message)
    assert Answer.decode(answer).epoch == 1
    server = Frozen(network.server)
    counts = fuzz_content(server, answer, lambda data: closed(network, message, SERVER, data).encode(), damaged_list)
    assert counts["refused"] > INPUTS // 3
