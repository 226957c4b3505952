"""Flower's grid as an ``Engine``: request record out, reply record back.

Nodes work first in, first out, and nothing can be cancelled: one message at a time is on the way to each, and a newer
request takes the place of one that is not. Each message starts a process on its node.

A node announces a reply before it has uploaded it, and ``Grid.pull_messages`` waits for the upload: as long as a slow
link takes, or three minutes if the node was killed in between. So each reply is asked for on its own, in a thread that
may get stuck without holding up the others. Flower tells nobody that a reply is there: asking again is all there is.
Only with very many nodes do a few share a thread, so that a SuperLink does not notice the questions.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

from codedfl.errors import MessageRefused
from codedfl.flower.records import ASK, HELLO, Hello, packed, unpacked
from codedfl.logs import one_line
from codedfl.sum.events import Connected, Disconnected, Event

log = logging.getLogger("codedfl.server")

_MOST_THREADS = 64
_MOST_AT_ONCE = 32  # questions that go out together; more replies than that share them
_ASK_SECONDS = 0.2  # between two questions for the same reply
_LOOK_SECONDS = 2.0  # between two looks at which nodes there are
_GREET_AGAIN_SECONDS = 30.0  # a node that does not take part may have been mended


@dataclass
class _Node:
    name: str = ""
    out: str = ""  # the number of the message that is on the way
    hello: Hello | None = None
    greet_at: float = 0.0
    asked: bytes = b""  # the request that is on the way
    next: bytes = b""  # the one that follows


class GridEngine:
    """The devices of one study on the nodes of a Flower run.

    Parameters
    ----------
    keys: by name, the devices' long-term keys. study: its digest.
    seconds_to_live: when Flower itself gives a message up. tell: called with who has come, or gone.

    Examples
    --------
    >>> from codedfl.flower.grid_engine import GridEngine
    >>> class NoNodes:
    ...     def get_node_ids(self): return []
    >>> list(GridEngine(NoNodes(), {}, bytes(32)).here())
    []
    """

    def __init__(
        self,
        grid: Grid,
        keys: Mapping[str, bytes],
        study: bytes,
        seconds_to_live: float = 3600.0,
        tell: Callable[[Event], object] = lambda _event: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._grid, self._keys, self._study, self._ttl, self._clock = grid, dict(keys), study, seconds_to_live, clock
        self._tell = tell
        self._nodes: dict[int, _Node] = {}
        self._numbers: dict[str, int] = {}  # message -> its node
        self._due: dict[str, float] = {}  # message -> when to ask for its reply; absent while it is being asked for
        self._look_at = 0.0
        self._ready: list[tuple[str, bytes]] = []
        self._changed = False
        self._tasks: queue.SimpleQueue[tuple[str, ...]] = queue.SimpleQueue()
        self._found: queue.SimpleQueue[tuple[tuple[str, ...], list[Message]]] = queue.SimpleQueue()
        self._threads, self._idle = 0, threading.Semaphore(0)

    # -- the interface of an engine

    def here(self) -> Collection[str]:
        return {node.name for node in self._nodes.values() if node.name}

    def send(self, device: str, request: bytes) -> None:
        for number, node in self._nodes.items():
            if node.name == device and request not in (node.asked, node.next):
                node.next = request
                self._go_on(number, node)

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        """Also ends, with nothing, when a node has come or gone."""
        until = self._clock() + seconds
        while True:
            self._look()
            due = self._ask()
            now = self._clock()
            if self._ready or self._changed or now >= until:
                break
            try:
                self._take(*self._found.get(timeout=max(0.0, min(until, due, self._look_at) - now)))
            except queue.Empty:
                continue
        found, self._ready, self._changed = self._ready, [], False
        return found

    def now(self) -> float:
        return self._clock()

    # -- nodes

    def _look(self) -> None:
        """Which nodes there are; new ones are asked who they are."""
        now = self._clock()
        if now < self._look_at:
            return
        self._look_at = now + _LOOK_SECONDS
        there = set(self._grid.get_node_ids())
        for number in set(self._nodes) - there:
            name = self._nodes.pop(number).name
            if name and name not in self.here():
                self._changed = True
                self._tell(Disconnected(name))
        for number in there:
            node = self._nodes.setdefault(number, _Node())
            if not node.name and not node.out and now >= node.greet_at:
                node.hello = Hello.to_nodes_of(self._study)
                self._push(number, node, Message(node.hello.record(), number, HELLO, ttl=self._ttl))

    def _go_on(self, number: int, node: _Node) -> None:
        if node.next and not node.out:
            node.asked, node.next = node.next, b""
            self._push(number, node, Message(packed(node.asked), number, ASK, ttl=self._ttl))

    def _push(self, number: int, node: _Node, message: Message) -> None:
        found = list(self._grid.push_messages([message]))
        node.out = (found[0] or "") if found else ""
        if node.out:
            self._numbers[node.out], self._due[node.out] = number, self._clock()

    # -- replies

    def _ask(self) -> float:
        """Have threads ask for the replies that are due; returns when others will be."""
        now = self._clock()
        due = [number for number, when in self._due.items() if when <= now]
        share = -(-len(self._numbers) // _MOST_AT_ONCE) or 1
        for start in range(0, len(due), share):
            asked = tuple(due[start : start + share])
            for number in asked:
                del self._due[number]
            if not self._idle.acquire(blocking=False) and self._threads < _MOST_THREADS:
                self._threads += 1
                # A daemon: one that is stuck must not keep the server app from ending.
                threading.Thread(target=self._work, name=f"codedfl-pull-{self._threads}", daemon=True).start()
            self._tasks.put(asked)
        return min(self._due.values(), default=float("inf"))

    def _work(self) -> None:
        while True:
            numbers = self._tasks.get()
            try:
                messages = list(self._grid.pull_messages(list(numbers)))
            except Exception as error:  # whatever the network does: asking again is the remedy
                log.warning("replies could not be pulled: %s", one_line(error))
                messages = []
            self._found.put((numbers, messages))
            self._idle.release()

    def _take(self, asked: tuple[str, ...], messages: list[Message]) -> None:
        for message in messages:
            number = message.metadata.reply_to_message_id
            place = self._numbers.pop(number, None)
            node = None if place is None else self._nodes.get(place)
            if place is None or node is None or node.out != number:
                continue
            node.out = ""
            self._read(place, node, message)
            self._go_on(place, node)
        for number in asked:
            if number in self._numbers:
                self._due[number] = self._clock() + _ASK_SECONDS

    def _read(self, number: int, node: _Node, message: Message) -> None:
        request, node.asked = node.asked, b""
        try:
            if message.has_error():
                reason = message.error.reason or "no reason given"
                raise MessageRefused(f"error {message.error.code}, {reason}")
            if request:
                self._ready.append((node.name, unpacked(message.content)))
            elif node.hello is not None:
                node.name = node.hello.name_in(number, message.content, self._keys)
                self._changed = True
                self._tell(Connected(node.name))
        except MessageRefused as error:
            who = node.name or f"node {number}"
            log.warning("%s does not reply (its own log may say why): %s", who, one_line(error))
            node.greet_at = self._clock() + _GREET_AGAIN_SECONDS
