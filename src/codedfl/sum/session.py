"""The server's side: asks devices until it has a sum, whoever is slow, absent, killed or set back meanwhile.

It pursues *goals*. A goal knows which request, to whom, would bring it further with what is known now; sending one
again does no harm, so there is nothing else to remember than what devices have replied, and that is a cache
(``store``). A session that is killed anywhere is begun again with the same store, or without one, and ends with the
same sums.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from codedfl.crypto.sealed import KEY_BYTES, Identity, verify
from codedfl.errors import MessageRefused, NotEnoughDevices, RangeExceeded, WrongAnswers
from codedfl.sum import events, wire
from codedfl.sum.keys import (
    NONCE_BYTES,
    ExchangeKey,
    Scope,
    digest,
    label_of,
    open_reply,
    role_sum_text,
    signed_request,
    total_text,
    upload_text,
)
from codedfl.sum.layout import LOW_BITS, TILE, Layout, Words, product
from codedfl.sum.store import Store
from codedfl.sum.terms import Terms
from codedfl.sum.wire import Enrolment, Entry, Refused, RoleKey
from codedfl.typing import RandomBytes

log = logging.getLogger("codedfl.server")

_WAIT = 3600.0  # for the first reply, where nothing else is to be done: whoever waits is woken by a reply
_RESTARTS = 8
_FINAL = ("study", "signature", "budget", "rows")  # a device that says so will say so again


class Engine(Protocol):
    """Carries a request to a device and brings its reply; both may be lost, late, or come twice."""

    def here(self) -> Collection[str]:
        """The devices that can be reached, as far as is known."""

    def send(self, device: str, request: bytes) -> None:
        """A newer request may take the place of an older one that the device has not begun with."""

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        """What has come in, by device; waits for the first, no longer than this."""

    def now(self) -> float:
        """Seconds, on a clock that only goes forward."""


class ServedStudy(Protocol):
    """What the server knows of a study: the same as its devices (``device.Contract``), without rows."""

    @property
    def terms(self) -> Terms:
        """Who takes part."""

    def layout(self, ask: bytes) -> Layout:
        """How a statistic is laid out."""

    def groups(self, ask: bytes) -> Collection[int]:
        """The disclosure groups that are in this sum; empty where any union of groups may be."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for whom, in seconds.

    join: for devices that are absent when a session begins; then it goes on without their groups, if it can.
    upload: for owners that have enrolled and do not upload; then it goes on without their groups, if it can.
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


class _Drawn(msgspec.Struct):
    """A role's key, and its secret half sealed to holders: by name, for which enrolled key."""

    role_key: RoleKey
    sealed: dict[str, tuple[bytes, bytes]]


class _Generation(msgspec.Struct):
    number: int
    secret: bytes
    not_after: int


class _DrawAgain(Exception):
    """No holder can open a role's key: another must be drawn, and uploads made for it."""

    def __init__(self, role: int) -> None:
        super().__init__(f"role {role}")
        self.role = role


@dataclass(frozen=True)
class CertifiedTotal:
    """A total that devices believe: z + 1 of them have computed it from what owners and holders signed."""

    ask: bytes
    entries: bytes
    numbers: bytes
    signatures: tuple[tuple[str, bytes], ...]

    def check(self, terms: Terms) -> None:
        """Refuse a total that fewer than z + 1 devices of the roster have signed."""
        text = total_text(label_of(terms.study, self.ask), digest(self.entries), self.numbers)
        signers = {name for name, _ in self.signatures}
        if len(signers) <= terms.colluders or not signers <= set(terms.by_name):
            raise Refused("list", f"a certified total must be signed by {terms.colluders + 1} devices of the roster")
        for name, signature in self.signatures:
            verify(terms.by_name[name].key, text, signature)


class Session:
    """Sums of one study over one engine.

    Examples
    --------
    See ``codedfl.run.in_process``, which has devices in this process.

    Parameters
    ----------
    engine: carries requests. study: whose sums. identity: the server's long-term key.
    store: the cache of replies. tell: told what happens. wall: seconds since 1970, for the end of generations.
    """

    def __init__(
        self,
        engine: Engine,
        study: ServedStudy,
        identity: Identity,
        store: Store | None = None,
        *,
        patience: Patience | None = None,
        spare: int = 0,
        row_blocks: int = 1,
        tell: Callable[[events.Event], None] = lambda _event: None,
        wall: Callable[[], float] | None = None,
        random_bytes: RandomBytes = secrets.token_bytes,
    ) -> None:
        self._engine, self._study, self._identity = engine, study, identity
        self._terms = study.terms
        self._store = store or Store()
        self._patience, self._spare, self._row_blocks = patience or Patience(), spare, row_blocks
        self._tell, self._wall, self._random_bytes = tell, wall or engine.now, random_bytes
        self.excluded: set[str] = set()  # devices whose replies were wrong
        self.declined: dict[str, str] = {}  # devices that do not take part, and the code they gave
        self._outstanding: dict[str, tuple[bytes, float, Goal]] = {}
        self._sent: dict[tuple[str, bytes], Goal] = {}
        self._last_here: set[str] = set()
        self._signed: dict[bytes, bytes] = {}
        self._latency: dict[str, float] = {}
        self._enrolled: dict[str, Enrolment] = {}
        self._drawn: dict[int, _Drawn] = {}
        self._bad_drawers: set[str] = set()
        self._epoch = 0
        self._renewed = False
        self._absent: set[str] = set()  # not waited for again
        self._begin()

    # -- the generation

    def _begin(self) -> None:
        kept = self._store.get(("generation",))
        found = None if kept is None else msgspec.msgpack.decode(kept, type=_Generation)
        if found is None or not found.secret or self._wall() >= found.not_after:
            self._forget_generation()
            # Invariant: larger than any before, also of a server that has lost its store: devices refuse older ones.
            number = max(int(1000 * self._wall()), 0 if found is None else found.number + 1)
            found = _Generation(number, self._random_bytes(KEY_BYTES), int(self._wall() + self._patience.lasts))
            self._store.put(("generation",), msgspec.msgpack.encode(found))
        self._not_after = found.not_after
        self._scope = Scope(self._terms.study, found.number)
        self._own = ExchangeKey(found.secret)
        for saved in self._store.values("enrolment"):
            one = msgspec.msgpack.decode(saved, type=Enrolment)
            self._enrolled[one.name] = one
        for role in range(self._terms.colluders + 1):
            if (saved_role := self._store.get(("drawn", role))) is not None:
                self._drawn[role] = msgspec.msgpack.decode(saved_role, type=_Drawn)

    def _forget_generation(self) -> None:
        self._store.clear("enrolment", "drawn", "upload", "answer")
        self._enrolled, self._drawn = {}, {}

    def _renew(self) -> None:
        """Begin another generation: devices have closed this one, of which an older store knows nothing."""
        self._store.put(("generation",), msgspec.msgpack.encode(_Generation(self._scope.generation, b"", 0)))
        self._begin()

    def enrol(self, objection_to: Callable[[Collection[str]], str] | None = None) -> tuple[str, ...]:
        """Wait for everybody, or for enough when patience ends; returns who is enrolled.

        objection_to: why these devices are too few; empty when they will do. None wants a sum that may be made.
        """
        objection_to = objection_to or self._too_few
        goals = [_Enrol(self, name) for name in self._terms.by_name if name not in self._enrolled]
        goals = [goal for goal in goals if goal.name not in self._absent]
        self._pursue(goals, self._patience.join)
        over = [name for name, code in self.declined.items() if code == "generation"]
        if over and not self._renewed:
            self._renewed = True
            for name in over:
                del self.declined[name]
            self._renew()
            return self.enrol(objection_to)
        here = [name for name in self._terms.by_name if name in self._enrolled]
        for goal in goals:
            if goal.name not in self._enrolled:
                self._absent.add(goal.name)
                self._tell(events.DeviceState(goal.name, "refused" if goal.name in self.declined else "gone"))
        if objection := objection_to(here):
            raise NotEnoughDevices(objection, sorted(set(self._terms.by_name) - set(here)))
        return tuple(here)

    def _too_few(self, here: Collection[str]) -> str:
        groups = self._terms.whole_groups(here)
        owners = sum(len(self._terms.groups[number]) for number in groups)
        if owners < self._terms.least_owners:
            return f"at least {self._terms.least_owners} owners in whole groups must take part, got {owners}"
        roles = {self._terms.roles[name] for name in here if name in self._terms.roles}
        if len(roles) <= self._terms.colluders:
            return f"a holder of each of {self._terms.colluders + 1} roles must take part, got {len(roles)}"
        return ""

    def close(self) -> None:
        """End the generation: devices delete its keys, and are told who was in which sum. Absent ones by its date."""
        record = tuple(sorted((digest(ask), names) for ask, names in self.members().items()))
        common = wire.CloseCommon(self._scope.study, self._scope.generation, self._own.public, record)
        goals = [_Close(self, name, common) for name in self._enrolled]
        self._pursue(goals, self._patience.retry)
        self._renew_later()

    def _renew_later(self) -> None:
        self._store.put(("generation",), msgspec.msgpack.encode(_Generation(self._scope.generation, b"", 0)))
        self._forget_generation()
        self._store.clear("matrix")

    def members(self) -> Mapping[bytes, tuple[str, ...]]:
        """For each ask whose rows are in the sum."""
        found = {}
        for saved in self._store.values("list"):
            ask, entries = msgspec.msgpack.decode(saved, type=tuple[bytes, bytes])
            found[ask] = tuple(one.name for one in wire.decode_list(entries))
        return found

    # -- the two primitives

    def sum(self, ask: bytes, objection_to: Callable[[Collection[str]], str] | None = None) -> list[int]:
        """The sum of a statistic's vector over whole groups, in whole numbers."""
        place = digest(ask)
        layout = self._study.layout(ask)
        kept = self._store.get(("total", place))
        if kept is None:
            kept = layout.to_bytes(self._summed(ask, layout, objection_to))
            self._store.put(("total", place), kept)
            self._store.clear("answer")
        return layout.numbers_of(layout.from_bytes(kept, layout.vector_words))

    def product(self, ask: bytes, e: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.object_]:
        """The sum of a statistic's matrix times e, in whole numbers; ``sum`` must have been asked for before."""
        layout = self._study.layout(ask)
        if self._store.get(("matrix", digest(ask))) is None:
            self.sum(ask)
        self._epoch += 1
        self._tell(events.EpochStarted(self._epoch))
        entries = self._entries(ask)
        common = wire.AnswerCommon(
            *(self._scope.study, self._scope.generation, self._own.public, ask, digest(entries)),
            np.ascontiguousarray(e, dtype="<i8").tobytes(),
        )
        goals = [
            _Answer(self, common, entries, role, block, layout, eager=True)
            for block in self._blocks(layout)
            for role in range(self._terms.colluders + 1)
        ]
        self._needs(goals)
        planes = [words[: layout.size] for words in self._matrix_product(ask, layout, e)]
        for goal in goals:
            first, last = goal.rows
            at = slice(first * TILE, first * TILE + layout.rows_in(first, last))
            count = layout.rows_in(first, last) * layout.columns
            words = layout.from_bytes(goal.numbers, layout.words * count)
            for plane in range(layout.words):
                planes[plane][at] -= words[plane * count : (plane + 1) * count].reshape(-1, layout.columns)
        self._store.clear("answer")
        self._tell(events.EpochEnded(self._epoch))
        signed = [layout.signed(one) for one in planes]
        if layout.words == 1:
            return signed[0]
        return signed[0].astype(object) + (signed[1].astype(object) << LOW_BITS)

    def _blocks(self, layout: Layout) -> list[tuple[int, int]]:
        """Tile rows, dealt out in as many blocks as are wanted and there are."""
        count = max(1, min(self._row_blocks, layout.tile_rows))
        ends = [layout.tile_rows * one // count for one in range(count + 1)]
        return list(itertools.pairwise(ends))

    def _matrix_product(self, ask: bytes, layout: Layout, e: NDArray[np.int64]) -> list[Words]:
        saved = self._store.get(("matrix", digest(ask)))
        assert saved is not None
        words = layout.from_bytes(saved, layout.words * layout.triangle)
        found = []
        for plane in range(layout.words):
            part = words[plane * layout.triangle : (plane + 1) * layout.triangle]
            tiles = {(a, b): part[start:stop] for a, b, start, stop in layout.tiles()}
            rows = [product(layout.dense(tiles, a, a + 1), e) for a in range(layout.tile_rows)]
            found.append(np.concatenate(rows))
        return found

    # -- one sum

    def _summed(self, ask: bytes, layout: Layout, objection_to: Callable[[Collection[str]], str] | None) -> Words:
        for _ in range(_RESTARTS):
            try:
                return self._summed_once(ask, layout, objection_to)
            except _DrawAgain as again:
                drawn = self._drawn.pop(again.role, None)
                if drawn is not None:
                    self._bad_drawers.add(drawn.role_key.drawer)
                self._store.drop(("drawn", again.role), ("list", digest(ask)))
                self._store.clear("upload")
        raise NotEnoughDevices("a role key must be opened by one of its holders, got none that can", ())

    def _summed_once(self, ask: bytes, layout: Layout, objection_to: Callable[[Collection[str]], str] | None) -> Words:
        self.enrol(objection_to)
        role_keys = self._draw()
        entries = self._uploaded(ask, layout, role_keys, objection_to)
        common = wire.AnswerCommon(
            self._scope.study, self._scope.generation, self._own.public, ask, digest(entries), b""
        )
        goals = [_Answer(self, common, entries, role, (0, 1), layout) for role in range(self._terms.colluders + 1)]
        self._needs(goals)
        total = self._sum_of_uploads(ask, layout, entries)
        vector = total[: layout.vector_words]
        for goal in goals:
            vector = vector - layout.from_bytes(goal.numbers, layout.vector_words)
        layout.numbers_of(vector)  # refused before anything is kept where it is beyond its limit
        if layout.size:
            self._store.put(("matrix", digest(ask)), layout.to_bytes(total[layout.vector_words :]))
        self._drop_uploads(ask)
        return vector

    def _draw(self) -> tuple[RoleKey, ...]:
        goals = [_Draw(self, role) for role in range(self._terms.colluders + 1) if role not in self._drawn]
        self._needs(goals)
        return tuple(self._drawn[role].role_key for role in range(self._terms.colluders + 1))

    def _entries(self, ask: bytes) -> bytes:
        saved = self._store.get(("list", digest(ask)))
        assert saved is not None
        entries: bytes = msgspec.msgpack.decode(saved, type=tuple[bytes, bytes])[1]
        return entries

    def _uploaded(
        self,
        ask: bytes,
        layout: Layout,
        role_keys: tuple[RoleKey, ...],
        objection_to: Callable[[Collection[str]], str] | None,
    ) -> bytes:
        """The list of owners that is summed over: once it is decided, it stays."""
        if self._store.get(("list", digest(ask))) is not None:
            return self._entries(ask)
        enrolled = set(self._enrolled) - set(self.declined) - self.excluded
        wanted = set(self._study.groups(ask)) or set(self._terms.whole_groups(enrolled))
        goals = [
            _Upload(self, ask, layout, role_keys, name)
            for number in sorted(wanted)
            for name in self._terms.groups[number]
        ]
        self._pursue(goals, self._patience.upload)
        here = {goal.name for goal in goals if goal.done}
        groups = self._terms.whole_groups(here)
        listed = sorted((name for number in groups for name in self._terms.groups[number]), key=str.encode)
        left = [name for name in enrolled - here if name not in self._terms.owners]
        if objection := (objection_to or self._too_few)([*listed, *left, *self._key_holders(enrolled)]):
            raise NotEnoughDevices(objection, sorted(self._terms.owners - here))
        by_name = {goal.name: goal for goal in goals}
        entries = wire.encode_list(
            tuple(
                Entry(one.name, one.public, one.not_after, one.signature, by_name[one.name].nonce)
                for one in (by_name[name].enrolment for name in listed)
            )
        )
        self._store.put(("list", digest(ask)), msgspec.msgpack.encode((ask, entries)))
        self._tell(events.Listed(tuple(listed)))
        return entries

    def _key_holders(self, enrolled: Collection[str]) -> list[str]:
        return [name for name in enrolled if name not in self._terms.owners]

    def _sum_of_uploads(self, ask: bytes, layout: Layout, entries: bytes) -> Words:
        total = np.zeros(layout.total_words, dtype=np.uint64)
        for entry in wire.decode_list(entries):
            saved = self._store.get(("upload", digest(ask), entry.name))
            assert saved is not None
            upload = msgspec.msgpack.decode(saved, type=_Kept)
            total += layout.from_bytes(upload.numbers, layout.total_words)
        return total

    def _drop_uploads(self, ask: bytes) -> None:
        self._store.drop(*(("upload", digest(ask), name) for name in self._terms.owners))

    # -- certified totals

    def certified(self, ask: bytes) -> CertifiedTotal:
        """A total with the signatures of z + 1 devices that computed it themselves."""
        layout = self._study.layout(ask)
        self.enrol()
        role_keys = self._draw()
        entries = self._uploaded(ask, layout, role_keys, None)
        ids = (self._scope.study, self._scope.generation, self._own.public, ask, digest(entries))
        goals = [
            _Answer(self, wire.AnswerCommon(*ids, b""), entries, role, (0, 1), layout)
            for role in range(self._terms.colluders + 1)
        ]
        self._needs(goals)
        uploads = []
        for entry in wire.decode_list(entries):
            saved = self._store.get(("upload", digest(ask), entry.name))
            assert saved is not None
            kept = msgspec.msgpack.decode(saved, type=_Kept)
            uploads.append(wire.CertifiedUpload(kept.numbers, kept.signature))
        sums = tuple(wire.CertifiedSum(goal.role_key, goal.numbers, goal.signatures) for goal in goals)
        own = wire.CertifyOwn(entries, tuple(uploads), sums)
        goal = _Certify(self, wire.CertifyCommon(*ids), own, layout)
        self._needs([goal])
        self._drop_uploads(ask)
        return CertifiedTotal(ask, entries, goal.numbers, goal.signatures)

    # -- the loop

    def _needs(self, goals: Sequence[Goal]) -> None:
        """Pursue goals of which every one is needed."""
        self._pursue(goals, self._patience.reply)
        for goal in goals:
            if not goal.done:
                goal.fail()

    def _pursue(self, goals: Sequence[Goal], seconds: float) -> None:
        """Send what brings goals further and take what comes in, until all are done, hopeless, or time is up."""
        begun = self._engine.now()
        for goal in goals:
            goal.begun = begun
        while open_ := [goal for goal in goals if not goal.done and not goal.hopeless]:
            now = self._engine.now()
            if now - begun >= seconds:
                return
            here = set(self._engine.here())
            for name in here - self._last_here:  # what was sent to it before may be lost
                self._outstanding.pop(name, None)
            self._last_here = here
            due = [begun + seconds]
            for goal in open_:
                due += self._advance(goal, here, now)
            if any(goal.done for goal in open_):  # from the cache
                continue
            for device, reply in self._engine.replies(max(0.0, min(min(due) - now, _WAIT))):
                self._take(device, reply)

    def _advance(self, goal: Goal, here: Collection[str], now: float) -> Iterator[float]:
        """Send what this goal wants of devices that are free; yields when something is to be done again."""
        asked, allowed = 0, goal.breadth(now, self._patience.hedge)
        if allowed < len(goal.candidates):
            yield goal.begun + self._patience.hedge * (1 + (now - goal.begun) // self._patience.hedge)
        for candidate in goal.candidates:
            if goal.done or asked >= allowed:
                return
            if candidate in goal.out or candidate in self.excluded:
                continue
            asked += 1
            wanted = goal.wanted(candidate)
            if wanted is None or wanted[0] not in here:
                asked -= wanted is None or goal.others_may_help
                continue
            device, request = wanted
            busy = self._outstanding.get(device)
            if busy is not None and not busy[2].done and now - busy[1] < self._patience.retry:
                yield busy[1] + self._patience.retry
                continue
            self._outstanding[device] = (digest(request), now, goal)
            self._sent[device, digest(request)] = goal
            self._engine.send(device, request)
            yield now + self._patience.retry

    def _take(self, device: str, data: bytes) -> None:
        try:
            reply = wire.decode(data, wire.Reply, "a reply")
            goal = self._sent.get((device, reply.request))
            if goal is None:
                raise MessageRefused("a reply must be to a request that was sent to this device")
            busy = self._outstanding.get(device)
            if busy is not None and busy[0] == reply.request:
                del self._outstanding[device]
                self._latency[device] = self._engine.now() - busy[1]
            if reply.enrolment is not None and reply.enrolment != self._enrolled.get(device):
                self._learn_enrolment(device, reply.enrolment)
            if reply.kind == "ok":
                plain = (
                    b""
                    if not reply.body
                    else open_reply(self._scope, self._own, self._enrolled[device].public, reply.request, reply.body)
                )
                goal.take(device, plain)
            else:
                self._refused(goal, device, reply)
        except MessageRefused as error:
            log.warning("%s: %s", device, error)

    def _learn_enrolment(self, device: str, one: Enrolment) -> None:
        if one.name != device:
            raise MessageRefused("an enrolment must be of the device that sends it")
        self._terms.check_enrolment(self._scope, one, self._wall())
        if device not in self._enrolled:
            self._tell(events.DeviceState(device, "enrolled"))
        self._enrolled[device] = one
        self._store.put(("enrolment", device), msgspec.msgpack.encode(one))

    def _refused(self, goal: Goal, device: str, reply: wire.Reply) -> None:
        if reply.kind == "refused" and reply.code == "generation" and not isinstance(goal, _Enrol):
            self._enrolled.pop(device, None)  # it has lost its keys: it is enrolled again
            return
        if reply.kind == "missing":
            goal.missing(device, reply.code)
            return
        goal.refused(device, reply.code)
        if reply.code in _FINAL or isinstance(goal, _Enrol):
            self.declined[device] = reply.code

    def request(self, kind: str, common: wire.Common, own: msgspec.Struct) -> bytes:
        """As it travels; the signature of what is common is made once."""
        text = wire.encode(common)
        place = digest(kind.encode() + text)
        if place not in self._signed:
            self._signed[place] = signed_request(self._identity, kind, text)
        return wire.encode(wire.Request(kind, text, wire.encode(own), self._signed[place]))

    def enrol_request(self) -> bytes:
        ids = (self._scope.study, self._scope.generation, self._own.public)
        return self.request("enrol", wire.EnrolCommon(*ids, self._not_after), wire.Nothing())

    def draw_request(self, role: int) -> bytes:
        members = tuple(self._enrolled[name] for name in self._terms.holders_of(role) if name in self._enrolled)
        common = wire.Common(self._scope.study, self._scope.generation, self._own.public)
        return self.request("draw", common, wire.DrawOwn(members))

    def fastest(self, names: Iterable[str]) -> list[str]:
        """Those who replied fastest before first."""
        return sorted(names, key=lambda name: self._latency.get(name, 0.0))


class _Kept(msgspec.Struct):
    """An upload in the cache."""

    enrolment: Enrolment
    nonce: bytes
    numbers: bytes
    signature: bytes
    role_keys: tuple[RoleKey, ...]


class Goal:
    """Something that is wanted of one of several devices."""

    others_may_help = False  # whether an absent candidate is passed over for the next one

    def __init__(self, session: Session, candidates: Sequence[str]) -> None:
        self.session, self.candidates = session, list(candidates)
        self.begun = 0.0
        self.done = False
        self.out: dict[str, str] = {}  # candidates that cannot help, and the code they gave

    @property
    def hopeless(self) -> bool:
        return all(name in self.out or name in self.session.excluded for name in self.candidates)

    def breadth(self, now: float, hedge: float) -> int:
        """How many candidates may be asked by now."""
        del now, hedge
        return len(self.candidates)

    def wanted(self, candidate: str) -> tuple[str, bytes] | None:
        """Who is to be sent what next, to get it from this candidate; None if nothing can be done."""
        raise NotImplementedError

    def take(self, device: str, plain: bytes) -> None:
        """A reply, opened."""
        raise NotImplementedError

    def refused(self, device: str, code: str) -> None:
        self.out[device] = code

    def missing(self, device: str, code: str) -> None:
        """The device wants what was left out because it may have had it; ``code`` names it."""
        del code
        self.out[device] = "missing"

    def fail(self) -> None:
        """Raise what is the matter."""
        raise NotEnoughDevices(f"a reply must come of one of {', '.join(self.candidates)}, got none", self.candidates)


class _Enrol(Goal):
    """A device's key of the generation."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, [name])
        self.name = name

    def wanted(self, candidate: str) -> tuple[str, bytes]:
        return candidate, self.session.enrol_request()

    def take(self, device: str, plain: bytes) -> None:
        del device, plain  # the enrolment is in every reply
        self.done = True


class _Draw(Goal):
    """A role key, of whichever holder draws it first."""

    others_may_help = True

    def __init__(self, session: Session, role: int) -> None:
        holders = [name for name in session._terms.holders_of(role) if name in session._enrolled]
        fresh = [name for name in holders if name not in session._bad_drawers]
        super().__init__(session, session.fastest(fresh or holders))
        self.role = role

    def breadth(self, now: float, hedge: float) -> int:
        return 1 + int((now - self.begun) // hedge)

    def wanted(self, candidate: str) -> tuple[str, bytes]:
        session = self.session
        if candidate not in session._enrolled:
            return candidate, session.enrol_request()
        return candidate, session.draw_request(self.role)

    def take(self, device: str, plain: bytes) -> None:
        if self.done or not _is(plain, wire.Drawn):
            return
        self.done = True
        _keep_drawn(self.session, self.role, device, wire.decode(plain, wire.Drawn, "a drawn role key"))


def _keep_drawn(session: Session, role: int, device: str, drawn: wire.Drawn) -> None:
    """A role key, or the same one sealed to more holders; another one changes nothing once a role has its key."""
    enrolled = session._enrolled
    key = RoleKey(device, enrolled[device].public, drawn.public, drawn.signature)
    session._terms.check_role_key(session._scope, role, key)
    known = session._drawn.get(role)
    if known is None:
        known = session._drawn[role] = _Drawn(key, {})
    if known.role_key.public != drawn.public:
        return
    known.sealed |= {name: (enrolled[name].public, one) for name, one in drawn.sealed.items() if name in enrolled}
    session._store.put(("drawn", role), msgspec.msgpack.encode(known))


class _Upload(Goal):
    """One owner's statistic under pads."""

    def __init__(self, session: Session, ask: bytes, layout: Layout, role_keys: tuple[RoleKey, ...], name: str) -> None:
        super().__init__(session, [name])
        self.name, self._ask, self._layout, self._role_keys = name, ask, layout, role_keys
        self._place = ("upload", digest(ask), name)
        saved = session._store.get(self._place)
        if saved is not None:
            kept = msgspec.msgpack.decode(saved, type=_Kept)
            if kept.role_keys == role_keys:
                self.nonce, self.enrolment, self.done = kept.nonce, kept.enrolment, True

    def wanted(self, candidate: str) -> tuple[str, bytes]:
        session = self.session
        if candidate not in session._enrolled:
            return candidate, session.enrol_request()
        ids = (session._scope.study, session._scope.generation, session._own.public)
        return candidate, session.request("upload", wire.AskCommon(*ids, self._ask), wire.UploadOwn(self._role_keys))

    def take(self, device: str, plain: bytes) -> None:
        session, layout = self.session, self._layout
        if self.done or not _is(plain, wire.Uploaded):
            return
        upload = wire.decode(plain, wire.Uploaded, "an upload")
        layout.from_bytes(upload.numbers, layout.total_words)
        if len(upload.nonce) != NONCE_BYTES:
            raise MessageRefused(f"a nonce must have {NONCE_BYTES} bytes, got {len(upload.nonce)}")
        self.nonce, self.enrolment = upload.nonce, session._enrolled[device]
        if layout.certified:
            label = label_of(session._scope.study, self._ask)
            publics = [key.public for key in self._role_keys]
            text = upload_text(label, self.enrolment.public, publics, upload.nonce, upload.numbers)
            verify(session._terms.by_name[device].key, text, upload.signature)
        kept = _Kept(self.enrolment, upload.nonce, upload.numbers, upload.signature, self._role_keys)
        session._store.put(self._place, msgspec.msgpack.encode(kept))
        self.done = True
        session._tell(events.UploadTaken(device, len(upload.numbers)))


class _Answer(Goal):
    """What a role's holders reply to one request: the same from each of them, so as many as are wanted must agree."""

    others_may_help = True

    def __init__(
        self,
        session: Session,
        common: wire.AnswerCommon,
        entries: bytes,
        role: int,
        rows: tuple[int, int],
        layout: Layout,
        *,
        eager: bool = False,
    ) -> None:
        holders = [name for name in session._terms.holders_of(role) if name not in session.declined]
        turn = rows[0] if eager else 0  # each holder begins with another block
        holders = session.fastest(holders)
        super().__init__(session, holders[turn % len(holders) :] + holders[: turn % len(holders)] if holders else [])
        self.role, self.rows, self._eager = role, rows, eager
        self._common, self._entries, self._layout = common, entries, layout
        self._needed = session._terms.colluders + 1 if layout.certified else 1 + session._spare
        self.role_key = session._drawn[role].role_key
        self.numbers = b""
        self.signatures: tuple[tuple[str, bytes], ...] = ()
        self._given: dict[str, wire.Answered] = {}
        self._without: set[str] = set()  # who was asked without the list, and wants it
        self._cached = ("answer", digest(wire.encode(common)), role, rows[0])
        saved = session._store.get(self._cached)
        if saved is not None:
            self.numbers, self.signatures = msgspec.msgpack.decode(
                saved, type=tuple[bytes, tuple[tuple[str, bytes], ...]]
            )
            self.done = True

    def breadth(self, now: float, hedge: float) -> int:
        if self._eager or len({one.numbers for one in self._given.values()}) > 1:
            return len(self.candidates)
        return self._needed + int((now - self.begun) // hedge)

    def wanted(self, candidate: str) -> tuple[str, bytes] | None:
        session, drawn = self.session, self.session._drawn.get(self.role)
        if candidate in self._given or drawn is None:
            return None
        mine = session._enrolled.get(candidate)
        if mine is None:
            return candidate, session.enrol_request()
        sealed = b""
        if candidate != self.role_key.drawer:
            enrolled, sealed = drawn.sealed.get(candidate, (b"", b""))
            if enrolled != mine.public:  # enrolled after the key was drawn: it is sealed to it by the drawer
                drawer = self.role_key.drawer
                return None if drawer in self.out else (drawer, session.draw_request(self.role))
        known = self._eager and candidate not in self._without and candidate in session._latency
        own = wire.AnswerOwn(self.role_key, sealed, self.rows, b"" if known else self._entries)
        return candidate, session.request("answer", self._common, own)

    def take(self, device: str, plain: bytes) -> None:
        session = self.session
        if _is(plain, wire.Drawn):
            _keep_drawn(session, self.role, device, wire.decode(plain, wire.Drawn, "a drawn role key"))
            return
        if not _is(plain, wire.Answered):
            return
        if self.done:
            session._tell(events.RepliedLate(device, session._epoch, len(plain)))
            return
        found = wire.decode(plain, wire.Answered, "a reply")
        layout = self._layout
        numbers = layout.vector_words
        if self._common.e:
            numbers = layout.words * layout.rows_in(*self.rows) * layout.columns
        layout.from_bytes(found.numbers, numbers)
        if layout.certified:
            label = label_of(session._scope.study, self._common.ask)
            text = role_sum_text(label, self._common.list, self.role, self.role_key.public, found.numbers)
            verify(session._terms.by_name[device].key, text, found.signature)
        self._given[device] = found
        session._tell(events.Replied(device, session._epoch, len(plain)))
        agree = [name for name, one in self._given.items() if one.numbers == found.numbers]
        if len(agree) < self._needed:
            return
        self.done, self.numbers = True, found.numbers
        self.signatures = tuple((name, self._given[name].signature) for name in agree)
        for liar in set(self._given) - set(agree):
            session.excluded.add(liar)
            session._tell(events.WrongReply(liar, session._epoch))
        session._store.put(self._cached, msgspec.msgpack.encode((self.numbers, self.signatures)))

    def refused(self, device: str, code: str) -> None:
        session = self.session
        if code == "role" and session._terms.roles.get(device) == self.role:
            drawn = session._drawn.get(self.role)
            mine = session._enrolled.get(device)
            other = device != self.role_key.drawer
            if other and drawn and mine and drawn.sealed.get(device, (b"",))[0] != mine.public:
                return  # enrolled anew: it is sealed to it again
        self.out[device] = code

    def missing(self, device: str, code: str) -> None:
        del code
        self._without.add(device)

    @property
    def hopeless(self) -> bool:
        able = (name for name in self.candidates if name not in self.session.excluded and name not in self.out)
        return not any(name in self._given or self.wanted(name) is not None for name in able)

    def fail(self) -> None:
        if len({one.numbers for one in self._given.values()}) > 1:
            suspects = sorted(self._given)
            raise WrongAnswers(
                f"replies of role {self.role} must agree: they do not, and there are too few to tell whose is wrong"
                f" (those of {', '.join(suspects)})",
                suspects,
            )
        if not self._given and "role" in self.out.values() and not self._common.e:
            raise _DrawAgain(self.role)
        raise NotEnoughDevices(
            f"a sum needs replies of {self._needed} of the holders of role {self.role}"
            f" ({', '.join(self.candidates)}), got {len(self._given)}",
            [name for name in self.candidates if name not in self._given],
        )


class _Certify(Goal):
    """Signatures of z + 1 devices under a total."""

    others_may_help = True

    def __init__(self, session: Session, common: wire.CertifyCommon, own: wire.CertifyOwn, layout: Layout) -> None:
        super().__init__(session, session.fastest(session._enrolled))
        self._common, self._own, self._layout = common, own, layout
        self._given: dict[str, wire.Answered] = {}
        self.numbers = b""
        self.signatures: tuple[tuple[str, bytes], ...] = ()

    def breadth(self, now: float, hedge: float) -> int:
        return self.session._terms.colluders + 1 + int((now - self.begun) // hedge)

    def wanted(self, candidate: str) -> tuple[str, bytes] | None:
        if candidate in self._given:
            return None
        return candidate, self.session.request("certify", self._common, self._own)

    def take(self, device: str, plain: bytes) -> None:
        session = self.session
        found = wire.decode(plain, wire.Answered, "a certified total")
        label = label_of(session._scope.study, self._common.ask)
        verify(session._terms.by_name[device].key, total_text(label, self._common.list, found.numbers), found.signature)
        self._given[device] = found
        agree = [name for name, one in self._given.items() if one.numbers == found.numbers]
        if len(agree) > session._terms.colluders:
            self.done, self.numbers = True, found.numbers
            self.signatures = tuple((name, self._given[name].signature) for name in agree)


class _Close(Goal):
    """A device has deleted its keys."""

    def __init__(self, session: Session, name: str, common: wire.CloseCommon) -> None:
        super().__init__(session, [name])
        self._common = common

    def wanted(self, candidate: str) -> tuple[str, bytes]:
        return candidate, self.session.request("close", self._common, wire.Nothing())

    def take(self, device: str, plain: bytes) -> None:
        del device, plain
        self.done = True


def _is(plain: bytes, kind: type[msgspec.Struct]) -> bool:
    """Whether a reply is of this kind: a goal may have had to ask for something else first."""
    try:
        wire.decode(plain, kind, "a reply")
    except Refused:
        return False
    return True


__all__ = ["CertifiedTotal", "Engine", "Patience", "RangeExceeded", "ServedStudy", "Session"]
