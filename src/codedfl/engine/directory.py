"""Which device is at which node: nodes come and go, a device is known by its name and its key.

Node ids are the engine's and change when a node restarts or connects anew; a device that comes back under another id is
recognised by its signature and goes on where it was.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from codedfl.crypto import sealed
from codedfl.crypto.sealed import KEY_BYTES, fingerprint
from codedfl.engine.calls import Dismissal, Hello, Introduction, Post, Refused, Reply, introduction_text
from codedfl.engine.letters import Letter, Line
from codedfl.errors import MessageRefused
from codedfl.logs import one_line
from codedfl.protocol.events import Event
from codedfl.protocol.messages import MAX_NAME, name_length
from codedfl.run.event_log import Connected, Disconnected

Clock = Callable[[], float]

log = logging.getLogger("codedfl.engine.server")

MOST_FAILURES = 5  # calls in a row without a reply: that the node is connected is then no sign of life any more
MOST_REFUSALS = 3  # in a row
_BACK_OFF = (0.5, 2.0, 5.0, 15.0, 30.0)  # seconds before a call is repeated, by how often it failed
_GREET_AGAIN = 5.0  # seconds
_CHALLENGE_BYTES = 16


@dataclass
class Contact:
    """One device: where it is, what it is at, and the line to it."""

    name: str
    public: bytes  # never changes: a device that comes back with another key is somebody else
    node: int | None = None  # None: not connected; then ``call`` is None too
    line: Line = field(default_factory=Line)
    call: str | None = None  # the number of the one call it is at work on
    called: float = 0.0  # when that was sent
    failures: int = 0
    refusals: int = 0
    not_before: float = 0.0
    heard: float = 0.0  # when it was last known to be there
    newest: bytes = b""  # the update or the end that it has not replied to
    hold_until: float = 0.0  # letters that are better sent together wait until then
    lost: str = ""  # why it is not asked any more, unless it comes back at another node
    parting: bool = False  # the call it is at work on tells it that the run is over
    parted: bool = False  # it has heard so

    def put(self, letter: Letter, hold_until: float) -> None:
        self.hold_until = hold_until if not self.line.waiting else min(self.hold_until, hold_until)
        self.line.put(letter)

    def is_idle(self, now: float) -> bool:
        return self.node is not None and self.call is None and now >= self.not_before

    def is_gone(self, now: float, after: float) -> bool:
        return bool(self.lost) or now - self.heard > after

    def hangs(self, now: float, after: float) -> bool:
        """Its call has been out for so long that its node being connected is no sign of life any more."""
        return self.call is not None and now - self.called > after

    def replied(self, now: float) -> None:
        self.call, self.failures, self.refusals, self.not_before, self.heard = None, 0, 0, now, now

    def failed(self, now: float) -> None:
        self.not_before = now + _BACK_OFF[min(self.failures, len(_BACK_OFF) - 1)]
        self.call, self.failures = None, self.failures + 1

    def refused(self, now: float, reason: str) -> None:
        """A message from or to it was refused: once may be damage on the way, again and again is its nature."""
        self.failed(now)
        self.refusals += 1
        if self.refusals >= MOST_REFUSALS:
            self.lost = reason


class Directory:
    """The devices known so far. ``closed`` turns newcomers away, once the participants are fixed.

    server_public: the key of the server that asks.
    tell: is told who can be reached, and who cannot any more.
    call_seconds: a node that is at work on one call for longer must reply before it counts as alive again.
    """

    def __init__(
        self,
        post: Post,
        roster: Mapping[str, bytes] | None,
        clock: Clock,
        call_seconds: float = float("inf"),
        server_public: bytes = b"",
        tell: Callable[[Event], None] = lambda _: None,
    ) -> None:
        self.contacts: dict[str, Contact] = {}
        self.closed = False
        self._declined: set[str] = set()
        self._post = post
        self._roster = roster
        self._clock = clock
        self._call_seconds = call_seconds
        self._server_public = server_public
        self._tell = tell
        self._looked = float("-inf")
        self._greeted: dict[int, float] = {}  # node -> when to greet it again
        self._hellos: dict[str, tuple[int, Hello | None]] = {}  # call -> node, question; none in a dismissal

    @property
    def keys(self) -> dict[str, bytes]:
        """Under which key each device introduced itself: the roster of the run."""
        return {name: self.contacts[name].public for name in sorted(self.contacts)}

    @property
    def declined(self) -> set[str]:
        """Who is there and does not take part, as the post calls them."""
        return {*self._declined, *self._post.turned_away}

    @property
    def calls(self) -> set[str]:
        """Calls of the directory's own that wait for a reply."""
        return set(self._hellos)

    def look(self) -> None:
        """See who is connected, and greet those not known yet."""
        now = self._clock()
        if now - self._looked < self._post.look_seconds:
            return
        self._looked = now
        nodes = self._post.nodes()
        for contact in self.contacts.values():
            if contact.node in nodes:
                if contact.failures < MOST_FAILURES and not contact.hangs(now, self._call_seconds):
                    contact.heard = now
            elif contact.node is not None:
                if not contact.parted:
                    log.warning("%s is not connected any more", contact.name)
                contact.node, contact.call = None, None
                self._tell(Disconnected(contact.name))
        known = {contact.node for contact in self.contacts.values()}
        self._greeted = {node: when for node, when in self._greeted.items() if node in nodes}
        for node in sorted(nodes - known):
            if now >= self._greeted.get(node, now):
                self._greet(node, now)

    def _greet(self, node: int, now: float) -> None:
        hello = Hello(secrets.token_bytes(_CHALLENGE_BYTES), self._server_public)
        (number,) = self._post.push([(node, hello)])
        self._greeted[node] = now + (_GREET_AGAIN if number is None else float("inf"))
        if number is not None:
            self._hellos[number] = (node, hello)

    def take(self, number: str, reply: Reply) -> None:
        """A reply to one of ``calls``."""
        node, hello = self._hellos.pop(number)
        if hello is None:
            return
        called = self._post.called(node)
        if isinstance(reply, Refused):
            self._declined.add(called)
            log.error("%s cannot take part: %s", called, one_line(reply.reason))
        elif isinstance(reply, Introduction):
            try:
                self._meet(node, hello, reply)
            except MessageRefused as error:
                if not self.closed:  # else it is only late
                    self._declined.add(called)
                log.error("%s cannot take part: %s", called, one_line(error))
                (dismissal,) = self._post.push([(node, Dismissal(str(error)))])
                if dismissal is not None:
                    self._hellos[dismissal] = (node, None)
        else:
            reason = one_line(getattr(reply, "reason", "got another reply"))
            log.warning("%s did not introduce itself: %s", called, reason)
            self._greeted[node] = self._clock() + _GREET_AGAIN

    def _meet(self, node: int, hello: Hello, reply: Introduction) -> None:
        name, public = reply.name, reply.public
        if not 1 <= name_length(name) <= MAX_NAME:
            raise MessageRefused(f"a device's name must have 1 to {MAX_NAME} bytes, got {name[:80]!r}")
        if not name.isprintable():  # it begins lines of logs
            raise MessageRefused(f"a device's name must be printable, got {name!r}")
        if len(public) != KEY_BYTES:
            raise MessageRefused(f"a public key must have {KEY_BYTES} bytes, got {len(public)}")
        sealed.verify(public, introduction_text(hello, name), reply.signature)
        if self._roster is not None and self._roster.get(name) != public:
            raise MessageRefused(
                f"the key of {name!r} must be the one on the roster, got {fingerprint(public)}: codedfl roster renew"
                " puts a new key there"
            )
        contact = self.contacts.get(name)
        if contact is None:
            if self.closed:
                raise MessageRefused(
                    f"the participants were fixed before {name!r} came: it can take part in the next run"
                )
            contact = self.contacts[name] = Contact(name, public)
        elif contact.public != public:
            raise MessageRefused(
                f"the key of {name!r} must be {fingerprint(contact.public)} as before, got {fingerprint(public)}"
            )
        if contact.node != node:
            contact.node, contact.call = node, None
            contact.lost, contact.refusals = "", 0
            log.info("%s is at node %d, key %s", name, node, fingerprint(public))
            self._tell(Connected(name))
        contact.heard = contact.not_before = self._clock()
        contact.failures = 0
