"""A device by itself: what it counts, what it refuses, and that its reply is a function of the request."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from by_hand import NOT_AFTER, ByHand
from codedfl.sum import wire
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.keys import digest
from codedfl.sum.layout import Layout
from codedfl.sum.terms import Terms
from codedfl.sum.wire import ListEntry, RoleKey
from federations import MadeUp, identity, terms_of

ASK, OTHER = b"gram", b"other"
LAYOUT = Layout(48, 1, 2, 10**6, 3, columns=1, room=1 << 15)
NAMES = ("a", "b", "c")
GRAM = [11, 12, 13, 22, 23, 33]  # of every device: a triangle


def e_of(*entries: int) -> bytes:
    return LAYOUT.to_bytes(np.array(entries, dtype=np.int64).view(np.uint64))


class Small(ByHand):
    """Three owners, z = 1, and memories with budgets."""

    def __init__(self, layout: Layout = LAYOUT, arguments: int | None = None, directions: int | None = None) -> None:
        self.layouts, self.time = {ASK: layout, OTHER: layout}, 0.0
        self.memories = {name: InMemory(arguments, directions) for name in (*NAMES, "k")}
        terms = terms_of([NAMES], 1, ["k"])
        super().__init__(terms, {name: self.started(terms, name) for name in self.memories})
        self.members = {name: self.enrolled(name) for name in self.memories}
        self.keys = self.drawn_keys()

    def started(self, terms: Terms, name: str, first: int = 1) -> Device:
        """A device's process, on its memory."""
        numbers = {ask: ([first, 2], GRAM) for ask in self.layouts} if name in NAMES else {}
        contract = MadeUp(terms, self.layouts, numbers)
        return Device(name, identity(name), contract, self.memories[name], now=lambda: self.time)

    def restart(self, name: str, first: int = 1) -> None:
        self.devices[name] = self.started(self.terms, name, first)

    def drawn_keys(self) -> list[RoleKey]:
        return [self.drawn(self.terms.holders_of(role)[0], [])[0] for role in (0, 1)]

    def entries(self) -> list[ListEntry]:
        return [self.entry(self.members[name]) for name in NAMES]

    def code(self, e: bytes = b"", ask: bytes = ASK) -> str:
        """What the drawer of role 0 says to an e."""
        return self.answer(self.keys[0].drawer, ask, self.keys[0], self.entries(), e).code


def test_one_direction_more_than_allowed_is_refused_and_the_same_one_again_is_free() -> None:
    small = Small(directions=1)
    assert small.code(e_of(1, 0, 0)) == ""
    assert small.code(e_of(0, 1, 0)) == "budget"
    small.restart(small.keys[0].drawer)
    assert small.code(e_of(1, 0, 0)) == ""
    assert small.code(e_of(0, 1, 0)) == "budget"
    assert small.code() == "", "the sum of the vector is no direction"
    assert small.code(e_of(1, 0, 0), OTHER) == "budget", "of another argument it is another one"


def test_one_argument_more_than_allowed_is_refused_and_the_same_one_again_is_free() -> None:
    small = Small(arguments=1)
    assert small.upload("a", ASK, small.keys).code == ""
    assert small.upload("a", OTHER, small.keys).code == "budget"
    small.restart("a")
    assert small.upload("a", ASK, small.keys).code == ""
    assert small.upload("a", OTHER, small.keys).code == "budget"


def test_a_statistic_that_has_other_numbers_than_before_is_refused() -> None:
    small = Small()
    assert small.upload("a", ASK, small.keys).code == ""
    small.restart("a", first=5)
    assert small.upload("a", ASK, small.keys).code == "rows"
    small.restart("a")
    assert small.upload("a", ASK, small.keys).code == ""


def test_one_counted_direction_does_not_read_several_columns() -> None:
    packed = e_of(1, 1 << 14, 1 << 28)
    assert Small(directions=1).code(packed) == "request"
    assert Small(replace(LAYOUT, room=1 << 30), directions=1).code(packed) == ""  # this is what the bound is for


@pytest.mark.parametrize("e", [e_of(1, 0), e_of(1, 0, 0, 0), e_of(-(1 << 47), 0, 0), e_of(1 << 14, 1 << 14, 1)])
def test_an_e_of_another_shape_or_beyond_its_room_is_refused(e: bytes) -> None:
    assert Small().code(e) == "request"


def test_the_reply_to_a_request_is_the_same_bytes_from_every_process_of_a_device() -> None:
    small = Small()
    replies: dict[tuple[str, bytes], bytes] = {}
    for _ in range(3):
        small.upload("a", ASK, small.keys)
        requests = [("a", small.last)]
        for e in (b"", e_of(1, 2, 3)):
            small.code(e)
            requests.append((small.keys[0].drawer, small.last))
        for name, request in reversed(requests):
            reply = small.devices[name].reply(request)
            assert replies.setdefault((name, request), reply) == reply
        for name in NAMES:
            small.restart(name)
    assert len(replies) == 3


def test_a_device_that_was_set_back_never_seals_two_replies_with_one_key() -> None:
    small = Small()
    first = small.upload("a", ASK, small.keys)
    root = small.memories["a"].generation()
    small.memories["a"] = InMemory()  # set back to before the upload, and then the rows change
    small.memories["a"].keep(root)
    small.restart("a", first=5)
    second = small.upload("a", ASK, small.keys)
    assert first.request == second.request
    assert first.body[:16] != second.body[:16], "another tag, so another key"


def test_a_key_only_participant_uploads_nothing() -> None:
    small = Small()
    assert small.upload("k", ASK, small.keys).code == "role"


def test_a_device_without_a_role_draws_and_answers_nothing() -> None:
    terms = terms_of([["a", "b", "c", "d"]], 1, holders=2)
    contract = MadeUp(terms, {ASK: LAYOUT}, {ASK: ([1, 2], GRAM)})
    idle = next(name for name in terms.by_name if name not in terms.roles)
    hand = ByHand(terms, {idle: Device(idle, identity(idle), contract, InMemory(), now=lambda: 0.0)})
    hand.enrolled(idle)
    assert hand.reply(idle, "draw", wire.Common(*hand.ids), wire.DrawOwn(())).code == "role"


def test_the_keys_of_a_generation_are_deleted_when_its_time_is_up_also_if_nobody_asks() -> None:
    small = Small()
    small.time = NOT_AFTER
    assert all(memory.generation().root for memory in small.memories.values())
    for one in small.devices.values():
        one.expire()
    assert not any(memory.generation().root for memory in small.memories.values())
    assert small.upload("a", ASK, small.keys).code == "generation"


def test_a_closed_generation_stays_closed_and_its_first_record_stays() -> None:
    small = Small()
    for names in (("a", "b", "c"), ("a",)):
        record = ((digest(ASK), names),)
        assert small.reply("a", "close", wire.CloseCommon(*small.ids, record), wire.Nothing()).kind == "ok"
    assert small.memories["a"].records == {1: {digest(ASK): ("a", "b", "c")}}
    assert small.memories["a"].generation().root == b""
    enrol = wire.EnrolCommon(*small.ids, NOT_AFTER)
    assert small.reply("a", "enrol", enrol, wire.Nothing()).code == "generation"


@pytest.mark.parametrize("field", ["name", "public", "not_after", "signature", "nonce"])
def test_an_entry_with_a_field_that_cannot_be_is_refused_and_ends_nothing(field: str) -> None:
    wrong = {"name": "", "public": b"x", "not_after": -1, "signature": b"", "nonce": b""}
    small = Small()
    entries = [msgspec.structs.replace(one, **{field: wrong[field]}) for one in small.entries()]
    assert small.answer(small.keys[0].drawer, ASK, small.keys[0], entries).code == "list"


@pytest.mark.parametrize("public", [bytes(32), (1).to_bytes(32, "little")], ids=["zero", "one"])
def test_a_server_key_that_is_no_point_is_refused_and_ends_nothing(public: bytes) -> None:
    small = Small()
    enrol = wire.EnrolCommon(small.terms.study, 1, public, NOT_AFTER)
    assert small.reply("a", "enrol", enrol, wire.Nothing()).code == "request"
