"""The server's work on any engine: moves letters between the server's state machine and the nodes, and survives.

One call at a time to each node: a node works first in, first out and nothing can be taken back, so a straggler that is
still at work on an old epoch gets the newest update next, whatever came between. The state is on the disk before
anything that follows from it leaves, so a conductor that is killed at any moment goes on from its checkpoint.
"""

from __future__ import annotations

import logging
import time
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

from codedfl.engine.calls import Call, Failed, Post, Refused, Reply, Step
from codedfl.engine.directory import Clock, Contact, Directory
from codedfl.engine.letters import Letter, Parcel
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.state_folder import StateFolder
from codedfl.errors import CodedFLError, InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.flower.config import setting
from codedfl.logs import one_line
from codedfl.protocol.events import Event, Outgoing, Turn
from codedfl.protocol.messages import Kind
from codedfl.protocol.server import Server
from codedfl.protocol.server_events import (
    Answered,
    DeviceState,
    EpochEnded,
    EpochStarted,
    LiarFound,
    PhaseBegun,
    RefusedToJoin,
    RunFailed,
)
from codedfl.protocol.server_session import Phase
from codedfl.run.event_log import Connected, Uploaded, log_event
from codedfl.typing import Floats, Planes

log = logging.getLogger("codedfl.engine.server")

WAIT_SECONDS = 0.1  # for a reply, before it is looked again who is there and who may be called
MOST_BYTES = 64 << 20  # letters in one call


@dataclass(frozen=True)
class Patience:
    """How long to wait for whom.

    devices: how many to wait for; the run starts as soon as they are there.
    min_devices: with at least this number it starts after ``join_seconds`` without the others.
    gone_seconds: a device without a sign of life for this long counts as gone, until it comes back.
    farewell_seconds: at the end, how long to wait for those who have not heard of it.
    call_seconds: while a call is out for longer, its node must reply: being connected is no sign of life then.
    upload_seconds: a device that has not uploaded this long after the participants were fixed is left out, if the
        scheme can do without it.
    message_seconds: when Flower itself gives a call up.
    """

    devices: int = 2
    min_devices: int = 2
    join_seconds: float = 300.0
    gone_seconds: float = 300.0
    farewell_seconds: float = 60.0
    call_seconds: float = 600.0
    upload_seconds: float = 3600.0
    message_seconds: float = 3600.0

    def __post_init__(self) -> None:
        if not 2 <= self.min_devices <= self.devices:
            raise InvalidInput(f"min-devices must be between 2 and devices ({self.devices}), got {self.min_devices}")


def load_patience(path: Path) -> Patience:
    """How long to wait, from a TOML file: join-seconds, gone-seconds and the others; how many is the study's to say."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"the patience must be a readable TOML file, got {str(path)!r} ({error})") from None
    keys = [one.name.replace("_", "-") for one in fields(Patience) if one.name.endswith("seconds")]
    for key in found:
        if key not in keys:
            raise InvalidInput(f"a key of the patience must be one of {', '.join(keys)}, got {key!r:.80}")
    return Patience(**{key.replace("-", "_"): setting(found, key, float) for key in found})


class Conductor:
    """Conducts one run from the first node to the last epoch.

    server_public: the server's key: devices introduce themselves to it and to no other.
    make_server: makes the state machine for the devices that introduced themselves, by name, each with the key it did
        it with: the roster of the run, also where the operator has none.
    on_epoch: told the number of each finished epoch.
    watch: told what can be seen of the run.
    ask: which total of the study the run is for (``statistics.Ask``), as it travels.
    absent: devices that were absent a moment ago: welcome, but not waited for.
    objection_to: why a run cannot do with these devices, by name; empty when it can. None asks for ``min_devices``.
    keep: told the server when the run has come to its end, before the checkpoint goes.
    """

    def __init__(
        self,
        post: Post,
        server_public: bytes,
        make_server: Callable[[Mapping[str, bytes]], Server],
        checkpoint: StateFolder,
        patience: Patience,
        *,
        roster: Mapping[str, bytes] | None = None,
        on_epoch: Callable[[int], None] = lambda _: None,
        watch: RunWatch | None = None,
        ask: bytes = b"",
        absent: Collection[str] = (),
        objection_to: Callable[[Collection[str]], str] | None = None,
        keep: Callable[[Server], None] = lambda _: None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._ask = ask
        self._absent = frozenset(absent)
        self._objection_to = objection_to or self._too_few
        self._keep = keep
        self._post = post
        self._make_server = make_server
        self._checkpoint = checkpoint
        self._patience = patience
        self._on_epoch = on_epoch
        self._watch = watch or RunWatch()
        self._clock = clock
        self._expected = frozenset(roster or ())
        self._directory = Directory(post, roster, clock, patience.call_seconds, server_public, self._tell)
        self._unsaved = False  # something has changed that must be on the disk before anything else leaves
        self._join_until = 0.0
        self._upload_until: float | None = None  # set when sharing begins, in this process
        self._failure: CodedFLError | None = None  # what ended the run for good
        self.server: Server | None = None

    @property
    def model(self) -> Floats | None:
        """The last good model; None before the first epoch."""
        return None if self.server is None else self.server.model

    @property
    def declined(self) -> set[str]:
        """Who is there and does not take part; its own log says why."""
        refused = () if self.server is None else self.server.joining.refusals
        lost = (contact.name for contact in self._directory.contacts.values() if contact.lost)
        return {*self._directory.declined, *refused, *lost}

    @property
    def here(self) -> set[str]:
        """Who is connected and takes part."""
        return {name for name, contact in self._directory.contacts.items() if contact.node is not None} - self.declined

    def run(self) -> Floats:
        """Train to the end and return the model.

        Raises ``NotEnoughDevices`` when too many are gone; the checkpoint stays, so that the same call goes on from
        there when they are back. ``WrongAnswers``, ``RangeExceeded`` and ``SolverFailed`` end the run for good: they
        are raised when the devices have been told, and ``model`` is then the last good one.
        """
        server = self.server = self._resumed() or self._gathered()
        self._join_until = self._clock() + self._patience.join_seconds
        while server.phase is not Phase.FINISHED:
            self._turn(server)
            self._give_up_if_hopeless(server)
        self._say_farewell(server)
        if self._failure is None:
            self._keep(server)
        self._checkpoint.wipe()
        if self._failure is not None:
            raise self._failure
        assert server.model is not None
        return server.model

    def _say_farewell(self, server: Server) -> None:
        until = self._clock() + self._patience.farewell_seconds
        while any(contact.node is not None or not contact.lost for contact in self._untold(server)):
            if self._clock() >= until:
                break
            self._turn(server)
        if untold := self._untold(server):
            names = ", ".join(contact.name for contact in untold)
            log.warning("not told that the run is over, and so not wiped: %s", names)

    def _turn(self, server: Server) -> None:
        self._directory.look()
        self._send(server)
        if not self._receive(server):
            self._post.wait(WAIT_SECONDS)

    # -- beginning

    def _resumed(self) -> Server | None:
        state = self._checkpoint.load()
        if state is None:
            return None
        keys = dict(state["publics"])
        server = self._make_server({name: keys[name] for name in state["names"]})
        try:
            server.restore(state["server"])
        except InvalidInput:
            raise InvalidInput(
                "output-dir must not hold the checkpoint of another configuration:"
                f" choose another or delete {self._checkpoint.path}"
            ) from None
        for place, (name, public) in enumerate(state["publics"]):
            contact = self._directory.contacts[name] = Contact(name, public, heard=self._clock())
            contact.line.restore(state["lines"][str(place)])
        self._directory.closed = True
        self._failure = CodedFLError(state["failure"]) if state["failure"] else None
        for event in server.standing():
            self._watch.take(event)
        self._follow(server.resend())
        log.info("run %s goes on from its checkpoint, %s, epoch %d", server.run.hex(), server.phase.value, server.epoch)
        return server

    def _gathered(self) -> Server:
        """Wait for the devices and invite them."""
        contacts, wait = self._directory.contacts, self._patience
        until, wanted = self._clock() + wait.join_seconds, wait.devices - len(self._absent)
        named = ": " + ", ".join(sorted(self._expected - self._absent)) if self._expected else ""
        log.info("waiting for %d devices, at most %g s%s", wanted, wait.join_seconds, named)
        self._watch.wanted = wanted
        while len(contacts.keys() - self._absent) < wanted and self._clock() < until:
            self._directory.look()
            self._pull({})
            self._post.wait(WAIT_SECONDS)
        if objection := self._objection_to(contacts):
            raise NotEnoughDevices(f"after {wait.join_seconds:g} s {objection}", ())
        self._directory.closed = True
        server = self._make_server(self._directory.keys)
        log.info("run %s with %d devices", server.run.hex(), len(contacts))
        self._follow(server.invite())
        return server

    def _freeze_if_joined(self, server: Server) -> None:
        """Fix the participants without those who refused or are gone; ``Server`` does it by itself when all are in."""
        open_ = [name for name in server.expected if name not in server.joined and name not in server.joining.refusals]
        waiting = [name for name in open_ if not self._gone(self._directory.contacts[name])]
        if waiting and self._clock() < self._join_until:
            return
        if objection := self._objection_to(server.joined):
            raise NotEnoughDevices(objection, [name for name in server.expected if name not in server.joined])
        self._follow(server.freeze())

    def _too_few(self, names: Collection[str]) -> str:
        if len(names) >= self._patience.min_devices:
            return ""
        here = ", ".join(sorted(names)) or "none"
        return f"at least {self._patience.min_devices} devices must take part, got {len(names)} ({here})"

    # -- what the server's machine says

    def _follow(self, turn: Turn) -> None:
        """Tell what happened, and put what is to be sent where ``_send`` finds it."""
        for event in turn.events:
            self._tell(event)
        for outgoing in turn.outgoing:
            self._put(outgoing)

    def _tell(self, event: Event) -> None:
        log_event(log, event)
        self._watch.take(event)
        contacts = self._directory.contacts
        match event:
            case EpochStarted():
                for contact in contacts.values():
                    contact.newest = b""
                self._unsaved = True
            case Answered(name) | LiarFound(name):
                contacts[name].newest = b""
            case RefusedToJoin(name, reason):
                log.error("%s cannot take part: %s", name, one_line(reason))
            case EpochEnded(epoch):
                self._on_epoch(epoch)
            case PhaseBegun():
                self._unsaved = True
            case RunFailed(error):
                self._failure = error
            case Connected(name) if self.server is not None:  # it may have been given up
                for state in self.server.standing():
                    if isinstance(state, DeviceState) and state.device == name:
                        self._watch.take(state)

    def _put(self, outgoing: Outgoing) -> None:
        """A letter on the line, or the newest update or end, which takes the place of an older one."""
        contacts = [self._directory.contacts[name] for name in outgoing.receivers]
        if outgoing.kind in (Kind.UPDATE, Kind.FINISH):
            for contact in contacts:
                contact.newest = outgoing.data
            return
        letter = Letter.of(outgoing.message)
        hold = self._clock() + (self._post.linger_seconds if outgoing.kind is Kind.SHARE else 0.0)
        for contact in contacts:
            contact.put(letter, hold)
        self._unsaved = True

    # -- sending

    def _send(self, server: Server) -> None:
        # A contact has at most one call out, and only idle ones get another: so a parcel holds all that waits, nothing
        # overtakes it, and the letters that its reply confirms are a beginning of those that wait now.
        now = self._clock()
        over = server.phase is Phase.FINISHED
        together = server.phase is Phase.SHARING and bool(server.unshared)
        calls: list[tuple[int, Call]] = []
        called: list[Contact] = []
        for contact in self._directory.contacts.values():
            waits = bool(contact.line.waiting) and not (together and now < contact.hold_until)
            if not contact.is_idle(now) or contact.parted or not (waits or contact.newest):
                continue
            if contact.lost and not over:
                continue
            assert contact.node is not None
            contact.parting, contact.called = over, now
            parcel = contact.line.parcel(contact.newest, most_bytes=MOST_BYTES)
            if contact.lost:  # it may be lost because it refuses these letters: the end must not wait behind them
                parcel = replace(parcel, letters=())
            ask = b"" if parcel.first else self._ask
            calls.append((contact.node, Step(server.run, contact.name, parcel, ask=ask)))
            called.append(contact)
        if calls:
            for contact, number in zip(called, self._post.push(calls), strict=True):
                contact.call = number
                if number is None:
                    contact.failed(now)

    # -- receiving

    def _receive(self, server: Server) -> bool:
        """Take what has come in; returns whether anything has."""
        at_work = {contact.call: contact for contact in self._directory.contacts.values() if contact.call is not None}
        replies = self._pull(at_work)
        for contact, reply in replies:
            self._take(server, contact, reply)
        if server.phase is Phase.JOINING:
            self._freeze_if_joined(server)
        self._save_if_changed(server)
        return bool(replies)

    def _pull(self, at_work: Mapping[str, Contact]) -> list[tuple[Contact, Reply]]:
        numbers = set(at_work) | self._directory.calls
        found = []
        for number, reply in self._post.pull(numbers) if numbers else ():
            if number in at_work:
                found.append((at_work[number], reply))
            else:
                self._directory.take(number, reply)
        return found

    def _take(self, server: Server, contact: Contact, reply: Reply) -> None:
        now = self._clock()
        if contact.parting and isinstance(reply, Parcel) and not reply.refusal:
            contact.replied(now)
            contact.parted = True
            self._tell(DeviceState(contact.name, "done"))
        elif isinstance(reply, Refused):
            log.error("%s refuses: %s", contact.name, one_line(reply.reason))
            self._refused(contact, reply.reason)
        elif not isinstance(reply, Parcel):
            reason = reply.reason if isinstance(reply, Failed) else "the reply must be a parcel, got something else"
            log.warning("%s did not reply: %s", contact.name, one_line(reason))
            contact.failed(now)
        else:
            try:
                self._unpack(server, contact, reply)
            except MessageRefused as error:
                log.error("a message of %s is refused: %s", contact.name, one_line(error))
                self._refused(contact, str(error))

    def _unpack(self, server: Server, contact: Contact, reply: Parcel) -> None:
        """What a device replied, in the name under which it introduced itself, or not at all."""
        for letter in contact.line.take(reply):
            turn = server.receive(letter.head, letter.bulk, sender=contact.name)
            if any(isinstance(event, DeviceState) and event.state == "shared" for event in turn.events):
                self._watch.take(Uploaded(contact.name, len(letter.head) + len(letter.bulk)))
            self._follow(turn)
            self._unsaved = True
        if reply.newest:
            self._follow(server.receive(reply.newest, sender=contact.name))
        if reply.refusal:
            log.error("%s refuses a message: %s", contact.name, one_line(reply.refusal))
            self._refused(contact, reply.refusal)
        else:
            contact.replied(self._clock())

    def _refused(self, contact: Contact, reason: str) -> None:
        contact.refused(self._clock(), reason)
        if contact.lost:
            self._tell(DeviceState(contact.name, "gone"))

    # -- what is kept, and who is gone

    def _save_if_changed(self, server: Server) -> None:
        """Before anything leaves that follows from it: a list of owners that was told is never another.

        Nothing before the participants are fixed: who was refused then can mend it, and the run be started anew.
        """
        if not self._unsaved or server.phase is Phase.JOINING:
            return
        self._unsaved = False
        contacts = self._directory.contacts
        self._checkpoint.save(
            {
                "names": list(server.expected),
                "publics": [[name, contact.public] for name, contact in contacts.items()],
                "lines": {str(place): contact.line.state() for place, contact in enumerate(contacts.values())},
                "server": server.state(),
                "failure": str(self._failure or ""),
            },
            _matrices(server),
        )

    def _gone(self, contact: Contact) -> bool:
        return contact.is_gone(self._clock(), self._patience.gone_seconds)

    def _give_up_if_hopeless(self, server: Server) -> None:
        if server.phase is Phase.JOINING:
            return
        gone = [name for name, contact in self._directory.contacts.items() if self._gone(contact)]
        self._close_uploads_if_due(server)
        self._follow(server.go_on_without(gone))
        self._save_if_changed(server)

    def _close_uploads_if_due(self, server: Server) -> None:
        """The deadline for uploads; after a restart the time begins anew."""
        if server.phase is not Phase.SHARING:
            return
        if self._upload_until is None:
            self._upload_until = self._clock() + self._patience.upload_seconds
        if self._clock() < self._upload_until:
            return
        late, turn = server.unshared, server.close_uploads()
        if any(outgoing.kind is Kind.ROLE_KEY_WANTED for outgoing in turn.outgoing):
            self._upload_until = None  # others are to draw a key that uploads wait for
        elif turn.outgoing and late:
            log.warning("left out, since they have not uploaded in time: %s", ", ".join(late))
        self._follow(turn)

    def _untold(self, server: Server) -> list[Contact]:
        """Who has not heard yet that the run is over, and so still keeps its secrets."""
        assert server.agreement is not None
        contacts = (self._directory.contacts[name] for name in server.agreement.names)
        return [contact for contact in contacts if not contact.parted]


def _matrices(server: Server) -> list[Planes]:
    """What nobody writes to once training has begun."""
    sharing = server.sharing
    held = (sharing.offset_matrix, sharing.offset_constant) if server.phase is Phase.TRAINING else ()
    return [planes for planes in held if planes is not None]
