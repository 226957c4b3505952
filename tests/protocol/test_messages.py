"""The wire format: what is accepted, what is refused, and that nothing damaged gets further than the decoder."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.crypto.sealed import Identity, fingerprint
from codedfl.errors import MessageRefused
from codedfl.protocol.messages import (
    MAX_NAME,
    SERVER,
    Answer,
    Commitments,
    Kind,
    Message,
    Secrets,
    Share,
    Shares,
    Update,
    check_types,
    unpack_list,
)
from wording import exactly

ALICE = Identity(bytes([1]) * 32)
RUN, AGREEMENT = bytes(range(16)), bytes(range(32))
MESSAGE = Message(Kind.ANSWER, RUN, AGREEMENT, "alice", SERVER, b"body", b"bulk", b"signature")


def fields_of(message: Message) -> list:
    return msgpack.unpackb(message.encode())


def refused_as(data: bytes, message: str) -> None:
    with pytest.raises(MessageRefused, match=exactly(message)):
        Message.decode(data)


@given(
    kind=st.sampled_from(list(Kind)),
    names=st.lists(st.text(max_size=16), min_size=2, max_size=2),
    parts=st.lists(st.binary(max_size=40), min_size=5, max_size=5),
)
def test_a_message_comes_back_as_it_was(kind: Kind, names: list[str], parts: list[bytes]):
    run, agreement, body, attachment, signature = parts
    message = Message(kind, run, agreement, names[0], names[1], body, attachment, signature)
    assert Message.decode(message.encode()) == message


def test_the_bytes_on_the_wire_are_the_documented_ones():
    """A vector by hand: another implementation must be able to read this."""
    expected = (
        b"\x9a"  # a list of ten
        + b"\xa7codedfl\x03\xa6answer"
        + b"\xc4\x10" + RUN + b"\xc4\x20" + AGREEMENT
        + b"\xa5alice\xa0"
        + b"\xc4\x04body\xc4\x04bulk\xc4\x09signature"
    )  # fmt: skip
    assert MESSAGE.encode() == expected
    assert MESSAGE.context() == b"\x97" + expected[1 : -len(b"\xc4\x04body\xc4\x04bulk\xc4\x09signature")]


@pytest.mark.parametrize("version", [0, 2, 99, "3", None, 3.5])
def test_an_unknown_version_is_refused(version: object):
    fields = fields_of(MESSAGE)
    fields[1] = version
    refused_as(msgpack.packb(fields), f"the protocol version must be 3, got {version}")


@pytest.mark.parametrize("version", [3.0])
def test_a_version_that_only_compares_equal_is_refused(version: object):
    fields = fields_of(MESSAGE)
    fields[1] = version
    refused_as(msgpack.packb(fields), f"the protocol version must be 3, got {version}")


def test_something_else_is_refused():
    refused_as(msgpack.packb(["flower", 1]), "a message must start with the codedfl magic, got something else")
    refused_as(msgpack.packb([]), "a message must start with the codedfl magic, got something else")
    refused_as(msgpack.packb({"codedfl": 1}), "a message must be a list, got dict")
    refused_as(b"", "a message must be well-formed msgpack: damaged or cut (ValueError)")
    refused_as(b"GET / HTTP/1.1", "a message must be well-formed msgpack: damaged or cut (ExtraData)")
    # An extension type, whatever its code, is not ours.
    refused_as(
        msgpack.packb(msgpack.ExtType(5, b"x")), "a message must be well-formed msgpack: damaged or cut (ValueError)"
    )


def test_a_list_nested_without_end_is_refused():
    refused_as(b"\x91" * 100_000, "a message must hold plain values here, got list")


def test_a_declared_length_is_not_believed():
    """A header that claims 4 GiB must not be allocated for."""
    with pytest.raises(MessageRefused, match=r"^a message must be well-formed msgpack: damaged or cut \(\w+\)$"):
        Message.decode(MESSAGE.encode()[:-11] + b"\xc6\xff\xff\xff\xffsignature")


@pytest.mark.parametrize("kind", ["", "answers", "x" * 100])
def test_an_unknown_kind_is_refused(kind: str):
    fields = fields_of(MESSAGE)
    fields[2] = kind
    refused_as(msgpack.packb(fields), f"the message kind must be a known one, got {kind[:40]!r}")


@pytest.mark.parametrize(
    ("index", "value", "expected", "got"),
    [
        (2, 7, "str", "int"),
        (3, "run", "bytes", "str"),
        (4, None, "bytes", "NoneType"),
        (5, b"alice", "str", "bytes"),
        (6, 0, "str", "int"),
        (8, 1.5, "bytes", "float"),
    ],
)
def test_a_field_of_another_type_is_refused(index: int, value: object, expected: str, got: str):
    fields = fields_of(MESSAGE)
    fields[index] = value
    refused_as(msgpack.packb(fields), f"a message must have a field of type {expected}, got {got}")


def test_a_missing_or_additional_field_is_refused():
    refused_as(msgpack.packb(fields_of(MESSAGE)[:-1]), "a message must have 8 fields, got 7")
    refused_as(msgpack.packb([*fields_of(MESSAGE), b""]), "a message must have 8 fields, got 9")


@pytest.mark.parametrize("place", ["sender", "receiver"])
def test_a_name_that_is_too_long_is_refused(place: str):
    """In bytes, as it travels: 64 characters of four bytes each would burst the fixed header."""

    def named(name: str) -> Message:
        change: dict[str, Any] = {place: name}
        return replace(MESSAGE, **change)

    longest = named("é" * (MAX_NAME // 2))
    assert Message.decode(longest.encode()) == longest
    for name in ("x" * (MAX_NAME + 1), "é" * (MAX_NAME // 2) + "x"):
        refused_as(named(name).encode(), f"a device's name must have at most {MAX_NAME} bytes, got more")


@given(cut=st.integers(0, len(MESSAGE.encode()) - 1))
def test_a_truncated_message_is_refused(cut: int):
    with pytest.raises(MessageRefused, match=r"^a message must be well-formed msgpack: damaged or cut \(\w+\)$"):
        Message.decode(MESSAGE.encode()[:cut])


@given(data=st.binary(max_size=60))
def test_noise_is_refused_and_nothing_else_escapes(data: bytes):
    for decode in (Message.decode, Update.decode, Answer.decode, Secrets.decode, Shares.decode, Share.decode):
        with pytest.raises(MessageRefused):
            decode(data)


@given(position=st.integers(0, len(MESSAGE.encode()) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_refused_or_changes_the_message(position: int, bit: int):
    damaged = bytearray(MESSAGE.encode())
    damaged[position] ^= 1 << bit
    with suppress(MessageRefused):
        assert Message.decode(bytes(damaged)) != MESSAGE


# -- what is authenticated


def test_the_context_tells_apart_everything_but_body_bulk_and_signature():
    others = [
        replace(MESSAGE, kind=Kind.READY),
        replace(MESSAGE, run=bytes(16)),
        replace(MESSAGE, agreement=b""),
        replace(MESSAGE, sender="bob"),
        replace(MESSAGE, receiver="bob"),
        # Fields cannot flow into each other.
        replace(MESSAGE, sender="", receiver="alice"),
        replace(MESSAGE, run=RUN + AGREEMENT, agreement=b""),
    ]
    contexts = {message.context() for message in [MESSAGE, *others]}
    assert len(contexts) == 1 + len(others)
    assert replace(MESSAGE, body=b"x", attachment=b"y", signature=b"z").context() == MESSAGE.context()


@pytest.mark.parametrize(
    "change",
    [
        {"kind": Kind.FINISH},
        {"run": bytes(16)},
        {"agreement": b""},
        {"sender": "bob"},
        {"receiver": "bob"},
        {"body": b"other"},
        {"attachment": b"other"},
        {"body": b"bodybulk", "attachment": b""},
        {"signature": bytes(64)},
        {"signature": b""},
    ],
    ids=lambda change: "+".join(change),
)
def test_a_signature_covers_the_whole_message(change: dict):
    signed = MESSAGE.signed_by(ALICE)
    signed.check_signature(ALICE.public)
    message = f"the signature must be by key {fingerprint(ALICE.public)}: it is not, or was damaged"
    with pytest.raises(MessageRefused, match=exactly(message)):
        replace(signed, **change).check_signature(ALICE.public)


# -- bodies


@given(epoch=st.integers(1, 2**40), bits=st.integers(0, 100), packed=st.binary(max_size=30))
def test_updates_and_answers_come_back(epoch: int, bits: int, packed: bytes):
    update = Update(epoch, bits, packed)
    assert Update.decode(update.encode()) == update
    answer = Answer(epoch, hashlib.sha256(packed).digest(), packed)
    assert Answer.decode(answer.encode()) == answer


@pytest.mark.parametrize("epoch", [0, -1])
def test_an_update_of_no_epoch_is_refused(epoch: int):
    with pytest.raises(MessageRefused, match=exactly(f"an epoch must be at least 1, got {epoch}")):
        Update.decode(Update(epoch, 0, b"").encode())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([1, 0, "text"], "an update must have a field of type bytes, got str"),
        ([True, 0, b""], "an update must have a field of type int, got bool"),
        ([1, 1.0, b""], "an update must have a field of type int, got float"),
        ([1, 0], "an update must have 3 fields, got 2"),
        ("update", "an update must be a list, got str"),
    ],
)
def test_a_malformed_update_is_refused(fields: object, message: str):
    with pytest.raises(MessageRefused, match=exactly(message)):
        Update.decode(msgpack.packb(fields))


def test_a_malformed_answer_is_refused():
    with pytest.raises(MessageRefused, match=exactly("an answer must have 3 fields, got 2")):
        Answer.decode(msgpack.packb([1, b""]))


def test_secrets_come_back_and_never_show():
    secrets = Secrets(mask=b"m" * 32, content_key=b"k" * 32, digest=b"d" * 32)
    assert Secrets.decode(secrets.encode()) == secrets
    assert repr(secrets) == "<Secrets mask, content_key>"
    assert repr(Secrets(pad=b"p" * 32)) == "<Secrets pad>"
    assert repr(Secrets()) == "<Secrets none>"


@pytest.mark.parametrize("size", [1, 16, 31, 33])
def test_a_secret_of_another_size_is_refused(size: int):
    message = "every secret in a share must have 0 or 32 bytes, got another length"
    for name in ("mask", "pad", "content_key", "digest"):
        with pytest.raises(MessageRefused, match=exactly(message)):
            Secrets.decode(Secrets(**{name: bytes(size)}).encode())


def test_shares_come_back_and_bad_ones_are_refused():
    alice = Identity(bytes([1]) * 32)
    commitments = Commitments.to({"mask": bytes(32), "pad": b""}, "alice", bytes(16), alice)
    shares = Shares(commitments, b"for the server", {"bob": b"for bob"})
    assert Shares.decode(shares.encode()) == shares
    assert Share.decode(Share(commitments, b"for bob").encode()) == Share(commitments, b"for bob")
    for fields, message in (
        (["bob"], "shares must be a list of pairs, got something else"),
        ([["bob"]], "shares must have 2 fields, got 1"),
        ([["bob", "text"]], "shares must have a field of type bytes, got str"),
        ([["bob", b"1"], ["bob", b"2"]], "shares must name each receiver once, got 'bob' twice"),
    ):
        with pytest.raises(MessageRefused, match=exactly(message)):
            Shares.decode(msgpack.packb([commitments.fields(), b"", fields]))


def test_a_commitment_fits_one_seed_of_one_owner_and_purpose_in_one_run():
    alice, run, seed = Identity(bytes([1]) * 32), bytes(16), bytes(32)
    commitments = Commitments.to({"mask": seed}, "alice", run, alice)
    assert list(commitments.digests) == ["mask"]
    commitments.check_signature("alice", run, alice.public)
    commitments.check({"mask": seed, "pad": b""}, "alice", run)  # an empty seed was not shared
    for seeds, owner, where in (
        ({"mask": b"x" * 32}, "alice", run),
        ({"pad": seed}, "alice", run),
        ({"mask": seed}, "bob", run),
        ({"mask": seed}, "alice", b"another run now!"),
    ):
        ((purpose, _),) = seeds.items()
        message = f"the {purpose} seed of {owner!r} must fit its commitment: it does not"
        with pytest.raises(MessageRefused, match=exactly(message)):
            commitments.check(seeds, owner, where)
    for owner, where in (("bob", run), ("alice", b"another run now!")):
        with pytest.raises(MessageRefused, match="the signature must be by key"):
            commitments.check_signature(owner, where, alice.public)


def test_types_are_checked_exactly():
    assert check_types([1, b"x"], (int, bytes), "it") == [1, b"x"]
    with pytest.raises(MessageRefused, match=exactly("it must have a field of type int, got bool")):
        check_types([True], (int,), "it")
    with pytest.raises(MessageRefused, match=exactly("it must be a list, got int")):
        unpack_list(msgpack.packb(5), "it")
