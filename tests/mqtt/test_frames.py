"""Calls and replies as bytes: they come back as they were, in frames that any broker takes, and junk is refused."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.engine.calls import Call, Dismissal, Failed, Hello, Introduction, Refused, Reply, Step
from codedfl.engine.letters import Letter, Parcel
from codedfl.errors import MessageRefused
from codedfl.mqtt.fetching import ASK_AGAIN_SECONDS, Fetcher, Offer
from codedfl.mqtt.frames import (
    MOST_BYTES,
    PIECE_BYTES,
    Cargo,
    Envelope,
    Fetch,
    Gone,
    Missing,
    Nudge,
    Piece,
    Reference,
    Unknown,
    call_envelope,
    pack_frame,
    read_call,
    read_frame,
    read_reply,
    reply_envelope,
)
from codedfl.mqtt.presence import Presence
from codedfl.protocol.messages import VERSION, pack_list

LARGE = random.Random(0).randbytes(3 * PIECE_BYTES + 17)
PARCEL = Parcel(2, (Letter(b"head", b"bulk"), Letter(b"x")), 1, b"newest", "no")
BULKY = Parcel(0, (Letter(b"h" * 300_000, LARGE), Letter(b"x")), 0, LARGE[:-1])
CALLS: list[Call] = [
    Hello(b"challenge", b"key"),
    Hello(b"", b"key", 7),
    Dismissal("why"),
    Step(bytes(16), "device-0", PARCEL),
    Step(bytes(16), "device-0", BULKY, 9, b"ask"),
    Step(bytes(16), "y", Parcel(0, tuple(Letter(b"h" * 200) for _ in range(3000)), 0), ask=LARGE),
]
REPLIES: list[Reply] = [
    Introduction("device-0", bytes(64), bytes(64)),
    PARCEL,
    BULKY,
    Refused("no"),
]


def through(envelope: Envelope, cargo: Cargo, read: Any) -> object:
    """Over the wire, with what is missing fetched."""
    frame = read_frame(pack_frame(envelope))
    assert frame == envelope
    assert len(pack_frame(envelope)) < 2 * PIECE_BYTES
    assert isinstance(frame, Envelope)
    body = cargo[frame.body.digest] if isinstance(frame.body, Reference) else frame.body
    inside = {digest: content for digest, content in cargo.items() if content != body}
    if inside:
        with pytest.raises(Missing) as caught:
            read(body, {})
        assert {one.digest: one.size for one in caught.value.references} == {
            digest: len(content) for digest, content in inside.items()
        }
    return read(body, cargo)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: type(call).__name__)
def test_calls_come_back_as_they_were(call: Call):
    cargo: Cargo = {}
    assert through(call_envelope("n-1", call, cargo), cargo, read_call) == call


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_replies_come_back_as_they_were(reply: Reply):
    cargo: Cargo = {}
    assert through(reply_envelope("n-1", reply, cargo), cargo, read_reply) == reply


@pytest.mark.parametrize(
    "frame",
    [Fetch(bytes(32), (1, 2)), Piece(bytes(32), 3, b"data"), Gone(bytes(32)), Nudge("n-1"), Unknown("n-1")],
    ids=lambda frame: type(frame).__name__,
)
def test_frames_come_back_as_they_were(frame: Fetch | Piece | Gone | Nudge | Unknown):
    assert read_frame(pack_frame(frame)) == frame


@given(st.binary(max_size=200))
def test_junk_is_refused_and_never_an_error(junk: bytes):
    for read in (read_frame, lambda data: read_call(data, {}), Presence.read):
        with pytest.raises(MessageRefused):
            read(junk)
    assert isinstance(read_reply(junk, {}), Failed)


def test_a_reference_beyond_all_bounds_is_refused():
    for size in (0, PIECE_BYTES, 1 << 40):
        with pytest.raises(MessageRefused, match=r"^a reference must be to \d+ to \d+ bytes, got \d+$"):
            read_frame(pack_frame(Envelope("call", "n", Reference(bytes(32), size))))


# -- fetching


def offer(cargo: Cargo) -> Offer:
    made = Offer()
    made.cargo.update(cargo)
    return made


def reference_to(content: bytes) -> Reference:
    return Reference(hashlib.sha256(content).digest(), len(content))


def test_a_thing_is_fetched_in_pieces_and_only_once():
    fetcher, cargo = Fetcher(each=2), {hashlib.sha256(LARGE).digest(): LARGE}
    fetcher.want("a", [reference_to(LARGE)])
    asked: list[int] = []
    while fetcher:
        for owner, fetch in list(fetcher.requests(0.0)):
            assert owner == "a" and len(fetch.pieces) <= 2
            asked += fetch.pieces
            for piece in offer(cargo).serve(fetch):
                assert isinstance(piece, Piece)
                fetcher.take("a", piece)
                fetcher.take("a", piece)  # delivered twice
    assert asked == [0, 1, 2, 3]
    assert fetcher.fetched["a"] == cargo


def test_a_lost_piece_is_asked_for_again_when_its_time_has_come():
    fetcher = Fetcher()
    fetcher.want("a", [reference_to(LARGE)])
    ((_, first),) = fetcher.requests(0.0)
    assert first.pieces == (0, 1, 2, 3)
    assert list(fetcher.requests(ASK_AGAIN_SECONDS - 1)) == []
    ((_, again),) = fetcher.requests(ASK_AGAIN_SECONDS + 1)
    assert again.pieces == (0, 1, 2, 3)


def test_what_was_not_asked_for_is_dropped():
    fetcher = Fetcher()
    digest = hashlib.sha256(LARGE).digest()
    assert not fetcher.take("a", Piece(digest, 0, b"x"))
    fetcher.want("a", [reference_to(LARGE)])
    assert not fetcher.take("a", Piece(digest, 0, LARGE[:PIECE_BYTES]))  # wanted, and not asked for yet
    list(fetcher.requests(0.0))
    assert not fetcher.take("b", Piece(digest, 0, LARGE[:PIECE_BYTES]))  # of another owner
    assert not fetcher.take("a", Piece(digest, 0, b"short"))
    assert not fetcher.take("a", Piece(digest, 99, b""))


def test_a_damaged_thing_is_fetched_once_more():
    fetcher, cargo = Fetcher(), {hashlib.sha256(LARGE).digest(): LARGE}
    fetcher.want("a", [reference_to(LARGE)])
    for damaged in (True, False):
        ((_, fetch),) = fetcher.requests(0.0)
        for piece in offer(cargo).serve(fetch):
            assert isinstance(piece, Piece)
            spoilt = damaged and piece.index == 2
            fetcher.take("a", Piece(piece.digest, piece.index, bytes(len(piece.data))) if spoilt else piece)
    assert fetcher.fetched["a"] == cargo


def test_what_is_not_there_any_more_is_given_up():
    fetcher = Fetcher()
    fetcher.want("a", [reference_to(LARGE)])
    ((_, fetch),) = fetcher.requests(0.0)
    (gone,) = offer({}).serve(fetch)
    assert isinstance(gone, Gone)
    assert fetcher.gone("a", gone) and not fetcher.gone("a", gone)
    assert not fetcher


def test_pieces_beyond_the_end_are_not_served():
    cargo = {hashlib.sha256(b"x").digest(): b"x"}
    assert list(offer(cargo).serve(Fetch(hashlib.sha256(b"x").digest(), (0, 1, -1, 10**12))))[1:] == []


def test_the_same_pieces_are_not_given_for_ever():
    """A question of few bytes has an answer of many: who asks without end gets an end."""
    ours, fetch = offer({hashlib.sha256(LARGE).digest(): LARGE}), Fetch(hashlib.sha256(LARGE).digest(), (0, 1, 2, 3))
    given = [piece for _ in range(100) for piece in ours.serve(fetch)]
    assert sum(isinstance(piece, Piece) for piece in given) == 8 * 4
    assert given[-1] == Gone(fetch.digest)


def test_pieces_that_come_slowly_are_not_asked_for_twice():
    fetcher, ours = Fetcher(), offer({hashlib.sha256(LARGE).digest(): LARGE})
    fetcher.want("a", [reference_to(LARGE)])
    ((_, fetch),) = fetcher.requests(0.0)
    for number, piece in enumerate(ours.serve(fetch)):
        assert isinstance(piece, Piece)
        fetcher.take("a", piece)
        assert list(fetcher.requests((number + 1) * (ASK_AGAIN_SECONDS - 1))) == []
    assert fetcher.fetched["a"] == ours.cargo


def test_more_than_anybody_would_send_is_refused():
    """Each reference is within bounds, all of them together are not."""
    message = r"^a message must refer to at most \d+ bytes, got \d+$"
    letters = [[[bytes([number]) * 32, MOST_BYTES], b""] for number in range(2)]
    with pytest.raises(MessageRefused, match=message):
        read_call(pack_list(["step", VERSION, bytes(16), "a", b"", 0, 0, "", b"", letters]), {})
    reply = read_reply(pack_list(["parcel", 0, 0, "", b"", letters]), {})
    assert isinstance(reply, Failed) and reply.reason.startswith("a message must refer to at most")


def test_earlier_attempts_of_one_owner_give_way():
    fetcher = Fetcher()
    for number in range(50):
        fetcher.want("a", [Reference(bytes([number]) * 32, MOST_BYTES)])
    assert len(fetcher._parts) <= 2
