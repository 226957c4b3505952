"""Calls and replies as Flower messages, and the grid that may get stuck on one of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest
from flwr.app import ConfigRecord, Error, Message, RecordDict

from codedfl.crypto.pads import RUN_ID_BYTES
from codedfl.engine.calls import Call, Dismissal, Failed, Hello, Introduction, Refused, Reply, Step
from codedfl.engine.letters import Letter, Parcel
from codedfl.errors import MessageRefused
from codedfl.flower.grid_post import GridPost
from codedfl.flower.records import STEP, call_record, read_call, read_reply, reply_record

RUN = bytes(range(RUN_ID_BYTES))
PARCEL = Parcel(3, (Letter(b"one"), Letter(b"two", bytes(range(256)) * 50_000), Letter(b"three")), 5, b"newest")

CALLS: list[Call] = [
    Hello(b"challenge", b"server"),
    Dismissal("because"),
    Step(RUN, "device-0", PARCEL, ask=b"what"),
    Step(RUN, "device-0", Parcel(0, (), 0)),
]
REPLIES: list[Reply] = [
    Introduction("a", b"public", b"signature"),
    PARCEL,
    Parcel(0, (), 0, refusal="no"),
    Refused("no"),
]


def travelled(content: RecordDict) -> RecordDict:
    """Through Flower's own form and back."""
    message = Message(content, 7, "query")
    records = {name: type(record).inflate(record.deflate(), record.children) for name, record in content.items()}
    assert message.has_content()
    return RecordDict(records)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: type(call).__name__)
def test_a_call_comes_out_as_it_went_in(call: Call):
    kind, content = call_record(call)
    assert read_call(kind, travelled(content)) == call


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_a_reply_comes_out_as_it_went_in(reply: Reply):
    assert read_reply(travelled(reply_record(reply))) == reply


def test_the_same_bulk_to_two_nodes_is_one_object():
    """Flower uploads an object once however many messages of a push contain it."""
    contents = [call_record(Step(RUN, name, PARCEL))[1] for name in ("a", "b")]
    assert contents[0]["bulk-1"].object_id == contents[1]["bulk-1"].object_id
    assert contents[0]["newest"].object_id == contents[1]["newest"].object_id
    assert contents[0]["call"].object_id != contents[1]["call"].object_id


def changed(**fields: Any) -> RecordDict:
    content = call_record(Step(RUN, "a", PARCEL))[1]
    for name, value in fields.items():
        content["parcel"][name] = value
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (RecordDict(), r"^a message of codedfl must have a record 'call', got \[\]$"),
        (call_record(Step(bytes(5000), "a", PARCEL))[1], r"^a run id must have 16 bytes, got 5000$"),
        (changed(first="0"), r"^first must be of type int, got str$"),
        (changed(first=-1), r"^a parcel's numbers must be at least 0, got -1 and 5$"),
        (changed(heads=[b"one"]), r"^a parcel must hold as many heads as bulks, got 1 and 3$"),
        (changed(heads=["a", "b", "c"]), r"^a parcel must hold as many heads as bulks, got 3 and 3$"),
        (changed(bulks=[True, True, False]), r"^letter 0 of a parcel must have its bulk, got none$"),
    ],
)
def test_a_malformed_call_is_refused(content: RecordDict, message: str):
    with pytest.raises(MessageRefused, match=message):
        read_call(STEP, content)


def test_a_malformed_reply_is_no_reply():
    reply = read_reply(RecordDict({"nonsense": ConfigRecord({"a": 1})}))
    assert reply == Failed("a message of codedfl must have a record 'parcel', got ['nonsense']")


class FakeGrid:
    """Replies at once, except to calls in ``stuck``: asking for those blocks, as a half-uploaded reply does."""

    def __init__(self) -> None:
        self.stuck: set[str] = set()
        self.silent: set[str] = set()
        self.release = threading.Event()
        self.sent: dict[str, Message] = {}
        self.asked: list[tuple[str, ...]] = []

    def get_node_ids(self) -> Iterable[int]:
        return [1, 2, 3]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        numbers = []
        for message in messages:
            number = f"call-{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = number
            self.sent[number] = message
            numbers.append("" if message.metadata.dst_node_id == 3 else number)
        return numbers

    def pull_messages(self, numbers: Iterable[str]) -> Iterable[Message]:
        self.asked.append(tuple(numbers))
        if self.stuck & set(numbers):
            self.release.wait(10)
        ready = [self.sent[number] for number in numbers if number not in self.silent]
        return [
            Message(Error(3, "expired"), reply_to=message)
            if message.metadata.dst_node_id == 2
            else Message(reply_record(Parcel(0, (), 0)), reply_to=message)
            for message in ready
        ]


def pulled(post: GridPost, numbers: set[str], count: int) -> dict[str, Reply]:
    found: dict[str, Reply] = {}
    deadline = time.monotonic() + 10
    while len(found) < count and time.monotonic() < deadline:
        found.update(post.pull(numbers - set(found)))
    return found


def test_the_grid_as_a_post():
    grid = FakeGrid()
    post = GridPost(grid, 60.0)  # type: ignore[arg-type]
    assert post.nodes() == {1, 2, 3}
    numbers = post.push([(1, Hello(b"x", b"y")), (2, Hello(b"x", b"y")), (3, Hello(b"x", b"y"))])
    assert numbers == ["call-0", "call-1", None]
    assert grid.sent["call-0"].metadata.ttl == 60.0
    found = pulled(post, {"call-0", "call-1"}, 2)
    assert found == {"call-0": Parcel(0, (), 0), "call-1": Failed("error 3, expired")}


def test_a_reply_that_is_stuck_holds_up_no_other():
    grid = FakeGrid()
    post = GridPost(grid, 60.0)  # type: ignore[arg-type]
    post.push([(1, Hello(b"x", b"y"))] * 6)
    grid.stuck = {"call-0", "call-3"}
    numbers = {f"call-{i}" for i in range(6)}
    assert set(pulled(post, numbers, 4)) == numbers - grid.stuck
    grid.release.set()
    assert set(pulled(post, grid.stuck, 2)) == grid.stuck


def test_with_very_many_nodes_few_polls_go_out():
    grid = FakeGrid()
    post = GridPost(grid, 60.0)  # type: ignore[arg-type]
    post.push([(1, Hello(b"x", b"y"))] * 300)
    grid.silent = set(grid.sent)
    post.pull(set(grid.sent))
    time.sleep(0.1)
    post.pull(set(grid.sent))
    assert len(grid.asked) <= 32
    assert {number for asked in grid.asked for number in asked} == set(grid.sent)


def test_an_error_of_the_network_is_asked_again():
    grid = FakeGrid()
    post = GridPost(grid, 60.0)  # type: ignore[arg-type]
    (number,) = post.push([(1, Hello(b"x", b"y"))])
    assert number is not None
    pull, failures = grid.pull_messages, iter([OSError("the SuperLink is restarting")])

    def failing(numbers: Iterable[str]) -> Iterable[Message]:
        for error in failures:
            raise error
        return pull(numbers)

    grid.pull_messages = failing  # type: ignore[method-assign]
    assert pulled(post, {number}, 1) == {number: Parcel(0, (), 0)}
