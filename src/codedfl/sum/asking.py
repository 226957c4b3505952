"""Asking devices until goals are reached, whoever is slow, absent, killed or set back meanwhile.

A *goal* says which request, to whom, would bring it further with what is known now. Sending one again does no harm, so
the loop keeps nothing that must not be lost: which requests are on their way, and since when. It has no clock and no
sockets of its own; an ``Engine`` has.

A request that is lost is sent again after ``Patience.retry`` seconds, or when its device comes back. A reply that comes
twice, or late, is to a request that has been dealt with: it is compared with what came first, and used for nothing.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from codedfl.errors import MessageRefused, NotEnoughDevices
from codedfl.sum import events, wire
from codedfl.sum.keys import digest
from codedfl.sum.known import Known

log = logging.getLogger("codedfl.server")

_WAIT = 3600.0  # for the first reply, where nothing else is to be done: whoever waits is woken by a reply
_LEAST = 1e-6  # a clock that adds up floats would never get there by what is left for it
_NEVER = float("inf")
_MOST_SENT = 1 << 14  # requests whose replies are still known for what they are


class Engine(Protocol):
    """Carries a request to a device and brings its reply; both may be lost, late, or come twice."""

    def here(self) -> Collection[str]:
        """The devices that can be reached, as far as is known."""

    def send(self, device: str, request: bytes) -> None:
        """A newer request may take the place of an older one that the device has not begun with."""

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        """What has come in, by device. Waits for the first, or until a device comes back; no longer than this."""

    def now(self) -> float:
        """Seconds, on a clock that only goes forward."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for whom, in seconds.

    join: for devices that are absent when a session begins; then it continues without their groups, if it can.
    upload: for owners that have enrolled and do not upload; then it continues without their groups, if it can.
    reply: for a role of which no holder replies; then the session ends.
    retry: before a request is sent again. hedge: before another holder is asked, too.
    lasts: how long a generation of keys is valid.
    """

    join: float = 300.0
    upload: float = 3600.0
    reply: float = 3600.0
    retry: float = 10.0
    hedge: float = 0.5
    lasts: float = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Sending:
    """A request, who is to get it, and of which type an opened reply to it is: nobody has to guess."""

    device: str
    request: bytes
    reply: type[wire.Wire]


class Goal:
    """Something that is wanted of one of several devices.

    others_may_help: whether an absent candidate is passed over for the next one.
    """

    others_may_help = False

    def __init__(self, known: Known, candidates: Sequence[str]) -> None:
        self.known, self.candidates = known, list(candidates)
        self.begun = 0.0
        self.reached = False
        self.out: dict[str, str] = {}  # candidates that cannot help, and the code they gave

    @property
    def done(self) -> bool:
        return self.reached

    @property
    def hopeless(self) -> bool:
        return not any(self.may_help(name) for name in self.candidates)

    def may_help(self, name: str) -> bool:
        """Whether a candidate is worth asking."""
        return name not in self.out and self.known.takes_part(name)

    def breadth(self, waited: float, hedge: float) -> int:
        """How many candidates may be asked by now."""
        del waited, hedge
        return len(self.candidates)

    def wanted(self, candidate: str) -> Sending | None:
        """Who is to be sent what next, to get it from this candidate; None if nothing can be done."""
        if candidate not in self.known.enrolled:
            return self.enrolling(candidate)
        if candidate in self.known.lacking:
            return Sending(candidate, self.known.put_request(self.known.lacking[candidate]), wire.Kept)
        return self.asked_of(candidate)

    def enrolling(self, device: str) -> Sending:
        return Sending(device, self.known.enrol_request(), wire.Nothing)

    def asked_of(self, candidate: str) -> Sending | None:
        """What to send to a candidate that has enrolled."""
        del candidate
        return None

    def take(self, device: str, found: wire.Wire) -> None:
        """A reply, opened; enrolments and role keys are not among them."""

    def refused(self, device: str, code: str) -> None:
        self.out[device] = code

    def missing(self, device: str, code: str) -> None:
        """The device wants what was left out because it may have had it; ``code`` names it."""
        del code
        self.out[device] = "missing"

    def fail(self) -> None:
        """Raise what is the matter."""
        raise NotEnoughDevices(f"a reply must come of one of {', '.join(self.candidates)}, got none", self.candidates)


@dataclass
class _Outstanding:
    goal: Goal
    request: bytes  # its digest
    since: float


class _Sent(NamedTuple):
    goal: Goal
    reply: type[wire.Wire]
    since: float


class Asking:
    """Sends what goals want over an engine, and gives them what comes in."""

    def __init__(self, engine: Engine, known: Known, patience: Patience) -> None:
        self._engine, self._known, self.patience = engine, known, patience
        self._outstanding: dict[str, _Outstanding] = {}
        self._sent: OrderedDict[tuple[str, bytes], _Sent] = OrderedDict()
        self._here: set[str] = set()
        self._back: dict[str, float] = {}  # when a device was seen again

    def forget(self) -> None:
        """Replies to what was sent until now are of a generation that is over."""
        self._outstanding.clear()
        self._sent.clear()

    def needs(self, goals: Sequence[Goal]) -> None:
        """Pursue goals of which every one is needed."""
        self.pursue(goals, self.patience.reply)
        for goal in goals:
            if not goal.done:
                goal.fail()

    def pursue(self, goals: Sequence[Goal], seconds: float) -> None:
        """Send what brings goals further and take what comes in, until all are done, hopeless, or time is up.

        Everything is sent once, however little time there is: replies that come later are taken all the same.
        """
        begun = now = self._engine.now()
        # When each goal has to be looked at again: with a thousand of them, not after every reply.
        again = dict.fromkeys(goals, begun)
        of_device: dict[str, list[Goal]] = {}
        for goal in goals:
            goal.begun = begun
            for name in goal.candidates:
                of_device.setdefault(name, []).append(goal)
        while True:
            if self._somebody_came():
                again = dict.fromkeys(again, now)
            due = [goal for goal, when in again.items() if when <= now]
            for goal in due:
                if goal.done or goal.hopeless:
                    del again[goal]
            again |= self._advance([goal for goal in due if goal in again], now)
            until = min([begun + seconds, *again.values()])
            if not again or now >= begun + seconds:
                return
            replies = self._engine.replies(max(_LEAST, min(until - now, _WAIT)))
            now = self._engine.now()
            for device, reply in replies:
                self._take(device, reply)
                again |= {goal: now for goal in of_device.get(device, ()) if goal in again}

    def _somebody_came(self) -> bool:
        here = set(self._engine.here())
        came = here - self._here
        # A device that was away may have lost what was on its way: everything is sent to it again, which does no harm.
        for name in came:  # what was sent to it before may be lost
            self._outstanding.pop(name, None)
            self._back[name] = self._engine.now()
        self._here = here
        return bool(came)

    def _advance(self, goals: Sequence[Goal], now: float) -> dict[Goal, float]:
        """Send what goals want of devices that are free; returns when each has to be looked at again.

        Goals take turns, a device at a time, so that the holders of a role share blocks of rows among themselves.
        """
        again = dict.fromkeys(goals, _NEVER)
        turns = deque((goal, self._one_goal(goal, now)) for goal in goals)
        while turns:
            goal, turn = turns.popleft()
            for when in turn:
                again[goal] = min(again[goal], when)
                turns.append((goal, turn))
                break
        return again

    def _one_goal(self, goal: Goal, now: float) -> Iterator[float]:
        hedge = self.patience.hedge
        asked, allowed = 0, goal.breadth(now - goal.begun, hedge)
        if allowed < len(goal.candidates):
            yield goal.begun + hedge * (1 + (now - goal.begun) // hedge)
        for candidate in goal.candidates:
            if asked >= allowed:
                return
            if not goal.may_help(candidate):
                continue
            busy = self._outstanding.get(candidate)
            if busy is not None and busy.goal is goal and now - busy.since < self.patience.retry:
                asked += 1
                yield busy.since + self.patience.retry
                continue
            wanted = goal.wanted(candidate)
            if wanted is None:
                continue
            here = wanted.device in self._here
            asked += here or not goal.others_may_help
            # An engine need not tell that a device is back: it is looked for.
            yield self._send(goal, wanted, now) if here else now + self.patience.retry

    def _send(self, goal: Goal, wanted: Sending, now: float) -> float:
        """Send, unless the device is busy or had the very same request just now; returns when to look again."""
        place = wanted.device, digest(wanted.request)
        busy, retry = self._outstanding.get(wanted.device), self.patience.retry
        if busy is not None and not busy.goal.done and now - busy.since < retry:
            return busy.since + retry
        # Invariant: a reply that brings nobody further does not have its request sent again at once, for ever.
        before, _, since = self._sent.get(place, _Sent(goal, wanted.reply, -retry))
        if (before is goal or not before.done) and now < since + retry and since >= self._back[wanted.device]:
            return since + retry
        self._outstanding[wanted.device] = _Outstanding(goal, place[1], now)
        self._sent[place] = _Sent(goal, wanted.reply, now)
        self._sent.move_to_end(place)
        while len(self._sent) > _MOST_SENT:
            self._sent.popitem(last=False)
        self._engine.send(wanted.device, wanted.request)
        return now + retry

    # -- replies

    def _take(self, device: str, data: bytes) -> None:
        try:
            reply = wire.decode(data, wire.Reply, "a reply")
            # Invariant: a reply is to a request of this session, known by its digest; whatever else comes is used for
            # nothing.
            if (device, reply.request) not in self._sent:
                raise MessageRefused("a reply must be to a request that was sent to this device")
            sent = self._sent[device, reply.request]
            self._is_free(device, reply.request)
            if reply.kind == "ok":
                self._opened(device, reply, sent)
            elif reply.kind == "missing" and self._known.lacks(device, reply.code):
                # Sent again as soon as the content is there. A device that misses it for ever is asked again and again
                # only as fast as the put is sent again.
                self._sent[device, reply.request] = sent._replace(since=-_NEVER)
            elif reply.kind == "missing":
                sent.goal.missing(device, reply.code)
            else:
                self._refused(device, reply.code[:40], sent)
        except MessageRefused as error:
            log.warning("%s: %s", device, error)

    def _is_free(self, device: str, request: bytes) -> None:
        busy = self._outstanding.get(device)
        if busy is not None and busy.request == request:
            del self._outstanding[device]
            self._known.latency[device] = self._engine.now() - busy.since

    def _opened(self, device: str, reply: wire.Reply, sent: _Sent) -> None:
        found = wire.decode(self._known.open(device, reply), sent.reply, "a reply")
        self._known.declined.pop(device, None)
        if isinstance(found, wire.Drawn):
            self._known.keep_drawn(device, found)
        elif isinstance(found, wire.Kept):
            self._known.took(device)
        else:
            sent.goal.take(device, found)

    def _refused(self, device: str, code: str, sent: _Sent) -> None:
        enrolling = sent.reply is wire.Nothing
        if enrolling and sent.goal.done:  # it has enrolled: this is the reply to a request that came twice
            return
        # Invariant: a device only goes forward, so whoever refuses to enrol is in a newer generation: a newer one
        # begins.
        if code == "generation" and enrolling:
            self._known.over(device)
        elif code == "generation":
            self._known.enrolled.pop(device, None)  # it has lost its keys: it is enrolled again
            return
        sent.goal.refused(device, code)
        if enrolling or code in ("study", "signature"):
            self._known.declined[device] = code
            self._known.tell(events.DeviceState(device, "refused"))
