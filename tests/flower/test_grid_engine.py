"""Flower's grid as an engine: one message at a time per node, the newest request follows, names are signed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from flwr.app import Error, Message, RecordDict

from codedfl.crypto.sealed import Identity
from codedfl.flower.grid_engine import GridEngine
from codedfl.flower.records import HELLO, Hello, packed, unpacked

STUDY = bytes(range(32))
KEYS = {name: Identity(hashlib.sha256(name.encode()).digest()) for name in ("a", "b")}


class Grid:
    """Nodes that answer when they are told to; ``asked`` is what is on the way to each."""

    def __init__(self, names: dict[int, str]) -> None:
        self.names, self.asked = names, dict[int, Message]()
        self._numbers: dict[str, int] = {}
        self._replies: dict[str, Message] = {}

    def get_node_ids(self) -> list[int]:
        return list(self.names)

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        numbers = []
        for message in messages:
            node, number = message.metadata.dst_node_id, f"m{len(self._numbers)}"
            assert node not in self.asked, "one message at a time is on the way to a node"
            message.metadata.__dict__["_message_id"] = number
            self.asked[node], self._numbers[number] = message, node
            numbers.append(number)
            if message.metadata.message_type == HELLO and self.names[node]:
                hello, name = Hello.read(message.content), self.names[node]
                self.reply(node, hello.answered(node, name.strip("!"), KEYS["b" if "!" in name else name]))
        return numbers

    def reply(self, node: int, content: Any) -> None:
        message = self.asked.pop(node)
        self._replies[message.metadata.message_id] = Message(content, reply_to=message)

    def pull_messages(self, numbers: Iterable[str]) -> list[Message]:
        return [self._replies.pop(number) for number in numbers if number in self._replies]


def engine_of(grid: Grid) -> GridEngine:
    keys = {name: one.public for name, one in KEYS.items()}
    return GridEngine(grid, keys, STUDY)  # type: ignore[arg-type]  # as much of a grid as is needed


def settled(engine: GridEngine, count: int) -> None:
    while len(engine.here()) < count:
        engine.replies(5.0)


def test_the_newest_request_follows_the_one_that_is_on_the_way() -> None:
    grid = Grid({7: "a"})
    engine = engine_of(grid)
    settled(engine, 1)
    for request in (b"one", b"two", b"three", b"three"):
        engine.send("a", request)
    assert unpacked(grid.asked[7].content) == b"one"
    grid.reply(7, packed(b"first"))
    assert engine.replies(5.0) == [("a", b"first")]
    assert unpacked(grid.asked[7].content) == b"three"
    grid.reply(7, packed(bytes(100_000)))
    assert engine.replies(5.0) == [("a", bytes(100_000))]
    assert grid.asked == {}


def test_a_node_that_gives_a_name_it_has_no_key_of_is_nobody() -> None:
    grid = Grid({7: "a!", 8: "b"})
    engine = engine_of(grid)
    settled(engine, 1)
    engine.replies(0.5)
    assert set(engine.here()) == {"b"}


def test_a_node_that_fails_can_be_asked_again_and_one_that_is_gone_is_not_here() -> None:
    grid = Grid({7: "a"})
    engine = engine_of(grid)
    settled(engine, 1)
    engine.send("a", b"one")
    grid.reply(7, Error(1, "it died"))
    assert engine.replies(0.5) == []
    engine.send("a", b"one")
    grid.reply(7, RecordDict())
    assert engine.replies(0.5) == []
    engine.send("a", b"one")
    grid.reply(7, packed(b"first"))
    assert engine.replies(5.0) == [("a", b"first")]
    del grid.names[7]
    engine._look_at = 0.0
    assert engine.replies(0.1) == [] and engine.here() == set()
