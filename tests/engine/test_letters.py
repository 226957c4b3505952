"""Numbered letters: lost, repeated and late ones, and those that are refused."""

from __future__ import annotations

import random

import pytest

from codedfl.engine.letters import Letter, Line, Parcel
from codedfl.errors import MessageRefused
from codedfl.protocol.messages import Kind, Message
from scenario import Scenario


def letter(number: int) -> Letter:
    return Letter(b"%d" % number)


def test_a_letter_splits_a_message_and_puts_it_together_again():
    message = Message(Kind.SHARES, bytes(16), bytes(32), "a", "", b"body", b"bulk" * 1000, b"signature")
    split = Letter.of(message)
    assert split.bulk == b"bulk" * 1000
    assert len(split.head) < 200
    assert Message.decode(split.head, bulk=split.bulk) == message
    (outgoing,) = Scenario().server().invite().outgoing
    assert Letter.of(outgoing.message) == Letter(outgoing.data)


def test_a_message_has_its_bulk_inside_or_beside_it():
    message = Message(Kind.SHARES, bytes(16), bytes(32), "a", "", b"body", b"bulk")
    with pytest.raises(MessageRefused, match=r"^a message must have one attachment, got one inside and one beside it$"):
        Message.decode(message.encode(), bulk=b"bulk")


def test_everything_arrives_once_and_in_order_over_a_line_that_loses_half():
    rng = random.Random(3)
    here, there = Line(), Line()
    sent: list[Letter] = []
    received: list[Letter] = []
    while len(received) < 50:
        if len(sent) < 50:
            sent.append(letter(len(sent)))
            here.put(sent[-1])
        call = here.parcel()
        if rng.random() < 0.5:
            continue  # the call is lost
        received += there.take(call)
        reply = there.parcel()
        if rng.random() < 0.5:
            continue  # the reply is
        assert list(here.take(reply)) == []
    assert received == sent


def test_old_replies_change_nothing():
    here, there = Line(), Line()
    here.put(letter(0))
    first = here.parcel()
    list(there.take(first))
    old_reply = there.parcel()
    list(here.take(old_reply))
    here.put(letter(1))
    list(here.take(old_reply))
    assert here.waiting == [letter(1)]
    assert list(there.take(first)) == []


def test_a_letter_that_is_refused_comes_again_with_those_behind_it():
    here, there = Line(), Line()
    for number in range(3):
        here.put(letter(number))
    taken = []
    for one in there.take(here.parcel()):
        if one == letter(1):
            break  # refused
        taken.append(one)
    list(here.take(there.parcel()))
    assert here.waiting == [letter(1), letter(2)]
    taken += there.take(here.parcel())
    assert taken == [letter(0), letter(1), letter(2)]


def test_a_gap_is_refused():
    with pytest.raises(MessageRefused, match=r"^the next letter must be number 0, got 2: some are missing$"):
        list(Line().take(Parcel(2, (letter(2),), 0)))


def test_what_was_never_sent_cannot_be_confirmed():
    line = Line()
    line.put(letter(0))
    message = r"^the letters confirmed must be among those sent \(0 to 1\), got 2$"
    with pytest.raises(MessageRefused, match=message):
        list(line.take(Parcel(0, (), 2)))


def test_large_letters_go_one_by_one():
    line = Line()
    for _ in range(3):
        line.put(Letter(b"head", bytes(1000)))
    assert len(line.parcel().letters) == 3
    assert len(line.parcel(most_bytes=2500).letters) == 2
    assert len(line.parcel(most_bytes=10).letters) == 1


def test_a_line_comes_back_from_its_state():
    line = Line()
    line.put(letter(0))
    line.put(letter(1))
    list(line.take(Parcel(0, (letter(7),), 1)))
    restored = Line()
    restored.restore(line.state())
    assert restored.parcel() == line.parcel() == Parcel(1, (letter(1),), 1)
