"""What is large is pulled by pieces: bounded on the way and in memory, whatever its owner does."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.engines.frames import (
    PIECE_BYTES,
    PIECES_EACH,
    Gone,
    Offered,
    Offers,
    Piece,
    Pull,
    Whole,
    pack_frame,
    read_frame,
)
from codedfl.engines.pieces import MOST_AT_ONCE, PIECES_IN_ALL, TURN_SECONDS, Pulls
from codedfl.errors import MessageRefused

MEGABYTE = bytes(1 << 20)


def pulled(pulls: Pulls, givers: dict[str, Offers], now: float) -> list[tuple[str, tuple[bytes, bytes]]]:
    """Everything that one look brings in."""
    found = []
    for party, pull in pulls.asked(now):
        for piece in givers[party].given(pull):
            whole = pulls.take(party, piece, now) if isinstance(piece, Piece) else None
            found += [(party, whole)] if whole is not None else []
    return found


@pytest.mark.parametrize("size", [PIECE_BYTES + 1, 2 * PIECE_BYTES, 40 * PIECE_BYTES - 1])
def test_what_is_pulled_is_what_was_offered(size: int) -> None:
    giver, pulls, content = Offers(), Pulls(), os.urandom(size)
    pulls.begin("a", giver.framed(b"asked", content))
    found = [whole for turn in range(40) for _, whole in pulled(pulls, {"a": giver}, turn / 10)]
    assert found == [(b"asked", content)]


def test_small_ones_travel_whole() -> None:
    assert Offers().framed(b"of", bytes(PIECE_BYTES)) == Whole(b"of", bytes(PIECE_BYTES))


def test_what_is_on_the_way_is_bounded_for_each_and_for_all() -> None:
    pulls, on_the_way = Pulls(), dict[str, int]()
    for i in range(100):
        pulls.begin(f"{i}", Offers().framed(b"", MEGABYTE + bytes([i])))
    for party, pull in pulls.asked(0.0):
        on_the_way[party] = on_the_way.get(party, 0) + len(pull.pieces)
    assert max(on_the_way.values()) == PIECES_EACH and sum(on_the_way.values()) == PIECES_IN_ALL
    assert list(pulls.asked(0.0)) == []


def test_lost_pieces_are_asked_for_again_and_no_others() -> None:
    giver, pulls = Offers(), Pulls()
    pulls.begin("a", giver.framed(b"", MEGABYTE[: 5 * PIECE_BYTES]))
    [(_, pull)] = pulls.asked(0.0)
    for piece in giver.given(Pull(pull.digest, (1, 3))):
        assert isinstance(piece, Piece)
        pulls.take("a", piece, 1.0)
    assert list(pulls.asked(2.0)) == [] and pulls.due() == 6.0
    assert [one.pieces for _, one in pulls.asked(6.0)] == [(0, 2, 4)]


def test_a_device_that_gives_its_pieces_slowly_delays_others_for_its_turn_only() -> None:
    """It declares more than memory allows, and gives one piece in four seconds, so it is never silent."""
    pulls, giver = Pulls(), Offers()
    pulls.begin("malicious", Offered(b"", b"x" * 32, MOST_AT_ONCE))
    assert list(pulls.asked(0.0))
    pulls.begin("honest", giver.framed(b"", MEGABYTE))
    now, done = 0.0, list[tuple[str, tuple[bytes, bytes]]]()
    while not done and now < 100.0:
        now = min(now + 4.0, pulls.due())
        pulls.take("malicious", Piece(b"x" * 32, int(now / 4), bytes(PIECE_BYTES)), now)
        done = pulled(pulls, {"malicious": Offers(), "honest": giver}, now)
        done += pulled(pulls, {"malicious": Offers(), "honest": giver}, now)
    assert [party for party, _ in done] == ["honest"] and now == TURN_SECONDS


def test_many_large_replies_are_never_in_memory_together() -> None:
    pulls = Pulls(at_once=20 << 20)
    contents = {f"{i}": os.urandom(12 << 20) for i in range(4)}
    givers = {name: Offers() for name in contents}
    for name, content in contents.items():
        pulls.begin(name, givers[name].framed(b"", content))
    turns, found, most = 0, list[tuple[str, tuple[bytes, bytes]]](), 0
    while len(found) < 4:
        found += pulled(pulls, givers, turns / 1000)
        most = max(most, sum(pulls.progress(name)[0] for name in contents))
        turns += 1
    assert {name: whole[1] for name, whole in found} == contents
    assert most <= 20 << 20


def test_other_contents_than_offered_are_not_handed_over() -> None:
    pulls, giver = Pulls(), Offers()
    offered = giver.framed(b"", MEGABYTE)
    assert isinstance(offered, Offered)
    pulls.begin("a", offered)
    for turn in range(10):
        for _, pull in pulls.asked(turn / 10):
            for piece in giver.given(pull):
                assert isinstance(piece, Piece)
                other = bytes(len(piece.data) - 1) + b"!"
                assert pulls.take("a", Piece(piece.digest, piece.index, other), turn / 10) is None


def test_what_is_gone_is_said_to_be() -> None:
    offers = Offers(most=1)
    first, second = offers.framed(b"", MEGABYTE), offers.framed(b"", MEGABYTE + b"2")
    assert isinstance(first, Offered) and isinstance(second, Offered)
    assert list(offers.given(Pull(first.digest, (0,)))) == [Gone(first.digest)]
    assert [type(one) for one in offers.given(Pull(second.digest, (0, 99, 1)))] == [Piece, Piece]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        frame = read_frame(data)
    except MessageRefused:
        return
    assert read_frame(pack_frame(frame)) == frame


@pytest.mark.parametrize("size", [0, PIECE_BYTES, -1, 1 << 62])
def test_an_offer_of_an_impossible_size_is_refused(size: int) -> None:
    with pytest.raises(MessageRefused, match="offered"):
        read_frame(pack_frame(Offered(b"", bytes(32), size)))
