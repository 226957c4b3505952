"""Flower's grid as a ``Post``.

A node announces a reply before it has uploaded it, and ``Grid.pull_messages`` waits for the upload: as long as a slow
link takes, or three minutes if the node was killed in between. Replies that were asked for in the same breath wait
along. So each is asked for on its own, in a thread that may get stuck without holding up the others. Only with very
many nodes do a few share a thread, so that the number of polls per second stays below what a SuperLink notices.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable

from flwr.app import Message
from flwr.serverapp import Grid

from codedfl.engine.calls import Call, Failed, Reply, Step
from codedfl.engine.letters import Parcel
from codedfl.flower.records import call_record, read_reply
from codedfl.logs import one_line

log = logging.getLogger("codedfl.engine.server")

_MOST_THREADS = 64
_MOST_AT_ONCE = 32  # polls that go out together; more calls than that share them
_POLLS_A_SECOND = 25.0
_SHORTEST_INTERVAL = 0.2  # seconds between two polls for the same reply


class GridPost:
    """The nodes of a Flower run. ``seconds_to_live`` is when Flower itself gives a call up.

    ``bytes_in`` and ``bytes_out`` count the protocol's messages, not what Flower wraps around them.
    """

    look_seconds = 2.0
    linger_seconds = 1.0  # each call costs its node the start of a process
    turned_away = ()

    def __init__(self, grid: Grid, seconds_to_live: float) -> None:
        self._grid = grid
        self._seconds_to_live = seconds_to_live
        self._asked: set[str] = set()  # calls whose replies are being asked for right now
        self._not_before: dict[str, float] = {}
        self._tasks: queue.SimpleQueue[tuple[str, ...]] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[tuple[tuple[str, ...], list[tuple[str, Reply]]]] = queue.SimpleQueue()
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self.bytes_in = 0
        self.bytes_out = 0

    def nodes(self) -> set[int]:
        return set(self._grid.get_node_ids())

    def called(self, node: int) -> str:
        return f"node {node}"

    def push(self, calls: list[tuple[int, Call]]) -> list[str | None]:
        messages = []
        for node, call in calls:
            kind, content = call_record(call)
            messages.append(Message(content, node, kind, ttl=self._seconds_to_live))
            self.bytes_out += call.parcel.size if isinstance(call, Step) else 0
        numbers: list[str | None] = [number or None for number in self._grid.push_messages(messages)]
        return numbers + [None] * (len(calls) - len(numbers))

    def pull(self, numbers: set[str]) -> list[tuple[str, Reply]]:
        now = time.monotonic()
        self._not_before = {number: when for number, when in self._not_before.items() if number in numbers}
        due = [number for number in sorted(numbers - self._asked) if now >= self._not_before.get(number, now)]
        share = -(-len(numbers) // _MOST_AT_ONCE)
        for start in range(0, len(due), share or 1):
            self._ask(tuple(due[start : start + share]))
        polls = -(-len(numbers) // share) if share else 0
        interval = max(_SHORTEST_INTERVAL, polls / _POLLS_A_SECOND)
        found: list[tuple[str, Reply]] = []
        while not self._found.empty():
            asked, replies = self._found.get()
            self._asked.difference_update(asked)
            self._not_before.update(dict.fromkeys(asked, now + interval))
            found += [(number, reply) for number, reply in replies if number in numbers]
            self.bytes_in += sum(reply.size for _, reply in replies if isinstance(reply, Parcel))
        return found

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)  # Flower tells nobody: what has come in is found by asking

    def _ask(self, numbers: tuple[str, ...]) -> None:
        self._asked.update(numbers)
        if not self._idle.acquire(blocking=False) and self._threads < _MOST_THREADS:
            self._threads += 1
            # A daemon: one that is stuck must not keep the server app from ending.
            threading.Thread(target=self._work, name=f"codedfl-pull-{self._threads}", daemon=True).start()
        self._tasks.put(numbers)

    def _work(self) -> None:
        while True:
            numbers = self._tasks.get()
            try:
                replies = list(self._read(self._grid.pull_messages(list(numbers))))
            except Exception as error:  # whatever the network does: the next poll is the remedy
                log.warning("replies could not be pulled: %s", one_line(error))
                replies = []
            self._found.put((numbers, replies))
            self._idle.release()

    @staticmethod
    def _read(messages: Iterable[Message]) -> Iterable[tuple[str, Reply]]:
        for message in messages:
            number = message.metadata.reply_to_message_id
            if message.has_error():
                yield number, Failed(f"error {message.error.code}, {message.error.reason or 'no reason given'}")
            else:
                yield number, read_reply(message.content)
