"""A broker as a ``Post``: the server's side of the inboxes and outboxes.

A node is one connection of one device: whoever connects anew is a new node and introduces itself anew. One call at a
time is on the way to each (``Conductor``), which is flow control as well: a slow device gets the newest update when it
has answered its last one, and a device that is not connected gets nothing. Calls that are lost with a connection, the
device's or the server's own, are reported as failed at once, and so are repeated.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from codedfl.engine.calls import Call, Dismissal, Failed, Reply
from codedfl.errors import MessageRefused
from codedfl.logs import one_line
from codedfl.mqtt import topics
from codedfl.mqtt.fetching import Fetcher, Offer, Progress
from codedfl.mqtt.frames import (
    REPLY,
    Envelope,
    Fetch,
    Frame,
    Gone,
    Missing,
    Nudge,
    Piece,
    Reference,
    Unknown,
    call_envelope,
    pack_frame,
    read_frame,
    read_reply,
)
from codedfl.mqtt.link import Connected, Disconnected, Link, Will
from codedfl.mqtt.presence import SERVER_HAS_LEFT, SERVER_IS_HERE, Presence, study_is_over

log = logging.getLogger("codedfl.engine.server")

_LOST = Failed("the call was lost on the way")
NUDGE_SECONDS = (5.0, 10.0, 20.0, 60.0)  # without a reply, by how often it was nudged; the last from then on


@dataclass
class _Node:
    """One connection of a device, and the one call it is at."""

    device: str
    session: bytes
    number: str = ""
    offer: Offer = field(default_factory=Offer)  # what the call refers to
    body: bytes | Reference | None = None  # its reply's, while things it refers to are being fetched
    fetches: bool = False  # whether the reply refers to anything
    replied: str = ""  # the number of the last call that it replied to
    nudge_at: float = 0.0
    nudges: int = 0


class MqttPost:
    """The devices of one study at a broker.

    Parameters
    ----------
    study: the name of the study, a level of its topics.
    digest: hash of what is public about the study; a device that joined another under the same name is turned away.
    on_progress: told of each piece of a bulk that comes in.
    """

    look_seconds = 0.2
    linger_seconds = 0.02  # relayed shares of one moment travel together

    def __init__(
        self,
        link: Link,
        study: str,
        digest: bytes,
        *,
        on_progress: Progress = lambda _device, _here, _all: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._link = link
        self._study = study
        self._digest = digest
        self._clock = clock
        self._fetcher = Fetcher(on_progress=on_progress)
        self._nodes: dict[int, _Node] = {}
        self._at: dict[str, int] = {}  # device -> its node
        self._leaving: dict[int, str] = {}  # nodes that are gone, and whose last reply nobody has asked for yet
        self._replies: dict[str, Reply] = {}
        self.turned_away: dict[str, bytes] = {}  # devices that are there for another study, and their sessions
        self._ids = itertools.count(1)
        self._prefix = secrets.token_hex(6)  # so that a reply to a server that was killed is not taken for ours
        self._numbers = itertools.count(1)
        self._nudge_at = float("inf")

    @staticmethod
    def will(study: str) -> Will:
        """What the broker says when the server is lost."""
        return Will(topics.server_presence(study))

    def leave(self, over: bool) -> None:
        """Take the server's presence back; ``over`` tells the devices that the study has come to its end."""
        words = study_is_over(self._digest) if over else SERVER_HAS_LEFT
        self._link.publish(topics.server_presence(self._study), words, retain=True)

    # -- the interface of a post

    def nodes(self) -> set[int]:
        """See ``Post``; a device that left counts as here until its last reply was pulled."""
        self.wait(0.0)
        self._leaving = {node: number for node, number in self._leaving.items() if number in self._replies}
        return {*self._nodes, *self._leaving}

    def called(self, node: int) -> str:
        """See ``Post``; a broker lets a device write to its own topics only."""
        return self._nodes[node].device if node in self._nodes else f"node {node}"

    def push(self, calls: list[tuple[int, Call]]) -> list[str | None]:
        """See ``Post``."""
        numbers: list[str | None] = []
        for number_of_node, call in calls:
            node = self._nodes.get(number_of_node)
            if node is not None:
                node.number, node.offer, node.body = f"{self._prefix}-{next(self._numbers)}", Offer(), None
                node.fetches = False
                node.nudge_at, node.nudges = self._clock() + NUDGE_SECONDS[0], 0
                self._nudge_at = min(self._nudge_at, node.nudge_at)
                self._send(node.device, call_envelope(node.number, call, node.offer.cargo))
            numbers.append(None if node is None else node.number)
        return numbers

    def pull(self, numbers: set[str]) -> list[tuple[str, Reply]]:
        """See ``Post``."""
        self.wait(0.0)
        found = [(number, self._replies.pop(number)) for number in list(self._replies) if number in numbers]
        self._replies.clear()  # nobody asks for these any more
        return found

    def wait(self, seconds: float) -> None:
        """See ``Post``; takes what has come in, and asks for what it refers to."""
        for event in self._link.events(seconds):
            if isinstance(event, Connected):
                self._link.subscribe(topics.presence(self._study, "+"), topics.outbox(self._study, "+"))
                self._link.publish(topics.server_presence(self._study), SERVER_IS_HERE, retain=True)
            elif isinstance(event, Disconnected):
                for node in list(self._nodes):
                    self._lose(node)
            elif event.topic.endswith("/" + topics.HERE):
                self._take_presence(topics.device_of(event.topic), event.payload)
            else:
                self._take_frame(topics.device_of(event.topic), event.payload)
        if self._fetcher:
            for device, fetch in self._fetcher.requests(self._clock(), self._awaits):
                self._send(device, fetch)
        if self._clock() >= self._nudge_at:
            self._nudge()

    def _send(self, device: str, frame: Frame) -> None:
        self._link.publish(topics.inbox(self._study, device), pack_frame(frame))

    # -- what comes in

    def _nudge(self) -> None:
        """A broker may drop what it has no room for: ask those who have been silent for long."""
        now = self._clock()
        for node in self._nodes.values():
            if node.number and node.body is None and now >= node.nudge_at:
                node.nudges += 1
                node.nudge_at = now + NUDGE_SECONDS[min(node.nudges, len(NUDGE_SECONDS) - 1)]
                self._send(node.device, Nudge(node.number))
        waiting = [node.nudge_at for node in self._nodes.values() if node.number and node.body is None]
        self._nudge_at = min(waiting, default=float("inf"))

    def _awaits(self, device: str) -> bool:
        """Whether a reply of it waits for what it refers to; else what is here of an earlier one rests."""
        node = self._nodes.get(self._at.get(device, 0))
        return node is not None and node.body is not None

    def _take_presence(self, device: str, payload: bytes) -> None:
        here = self._at.get(device)
        try:
            told = Presence.read(payload) if payload else None
        except MessageRefused as error:
            log.error("%s cannot take part: %s", one_line(device), one_line(error))
            told = None
        if here is not None and (told is None or told.session != self._nodes[here].session):
            self._lose(here)
            here = None
        if told is not None and told.study != self._digest:
            self._turn_away(device, told)
            return
        self.turned_away.pop(device, None)
        if told is None or here is not None:
            return
        node = next(self._ids)
        self._nodes[node] = _Node(device, told.session)
        self._at[device] = node

    def _turn_away(self, device: str, told: Presence) -> None:
        if self.turned_away.get(device) == told.session:
            return
        self.turned_away[device] = told.session
        reason = (
            f"the study must be {self._digest.hex()[:16]} as the server has it, got {told.study.hex()[:16]}: codedfl"
            " study approve there, with the server's file"
        )
        log.error("%s cannot take part: %s", device, reason)
        self._send(device, call_envelope(f"{self._prefix}-{next(self._numbers)}", Dismissal(reason), {}))

    def _lose(self, number_of_node: int) -> None:
        node = self._nodes.pop(number_of_node)
        del self._at[node.device]
        self._fetcher.interrupt(node.device)
        if node.number:
            self._replies[node.number] = _LOST
        elif node.replied in self._replies:
            self._leaving[number_of_node] = node.replied

    def _take_frame(self, device: str, payload: bytes) -> None:
        node = self._nodes.get(self._at.get(device, 0))
        if node is None:  # its presence is on the way; it repeats what it has to say when it is called
            return
        try:
            frame = read_frame(payload)
        except MessageRefused as error:
            log.error("a message of %s is refused: %s", device, one_line(error))
            return
        if isinstance(frame, Fetch):
            for answer in node.offer.serve(frame):
                self._send(device, answer)
        elif isinstance(frame, Piece):
            if self._fetcher.take(device, frame):
                self._read(node)
        elif isinstance(frame, Gone):
            if self._fetcher.gone(device, frame):
                self._finish(node, Failed("what its reply referred to is gone"))
        elif isinstance(frame, Unknown):
            if frame.number == node.number and node.body is None:
                self._finish(node, _LOST)
        elif isinstance(frame, Envelope) and frame.kind == REPLY and frame.number == node.number:
            node.body = frame.body
            self._read(node)

    def _read(self, node: _Node) -> None:
        """Hand the reply over, or fetch what it refers to first."""
        fetched = self._fetcher.fetched.get(node.device, {})
        try:
            body = node.body
            if isinstance(body, Reference):
                if body.digest not in fetched:
                    raise Missing([body])
                body = fetched[body.digest]
            if body is not None:
                self._finish(node, read_reply(body, fetched))
        except Missing as missing:
            node.fetches = True
            self._fetcher.want(node.device, missing.references)

    def _finish(self, node: _Node, reply: Reply) -> None:
        self._replies[node.number] = reply
        if node.fetches:  # else what is here of a larger one stays until that comes again
            self._fetcher.forget(node.device)
        node.number, node.offer, node.body, node.replied = "", Offer(), None, node.number
