"""A device on a node: from its folder on disk, through one call of the server, and back to the folder.

Flower starts a new process for every call, so nothing survives in memory. What the device answers leaves only after its
new state is safe on the disk: a node that is killed at any moment comes back, is called again and goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from codedfl.crypto.sealed import Identity, fingerprint
from codedfl.engine.calls import Call, Dismissal, Hello, Introduction, Refused, Reply, Step, introduction_text
from codedfl.engine.letters import Letter, Line, Parcel
from codedfl.engine.state_folder import INDEX, StateFolder
from codedfl.errors import CodedFLError, MessageRefused
from codedfl.logs import one_line
from codedfl.protocol.device import Device, used_data
from codedfl.protocol.events import (
    Event,
    InvitationAccepted,
    InvitationRefused,
    QuestionAnswered,
    RowsFitted,
    SecretsForgotten,
)
from codedfl.protocol.messages import VERSION, Kind, Message
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads
from codedfl.protocol.terms import DOES_NOT_TAKE_PART

log = logging.getLogger("codedfl.engine.device")

PENDING = "pending"
KEEP_SECONDS = 30 * 24 * 3600.0  # a run that was not heard of for this long is over: its secrets are wiped
EXPIRY_SECONDS = 24 * 3600.0  # how often a process that stays looks for such runs


class Party(Protocol):
    """What a device's operator approved, as the device itself derives it (``approved_party``)."""

    def check_approved(self) -> None:
        """Raises unless the operator approved exactly what this host is for."""
        ...

    def begin(self, ask: bytes, run: bytes) -> None:
        """Judge what a device is about to join, and record it before the join leaves. Raises what speaks against it."""
        ...

    def device(self, ask: bytes, *, used: bool, pads: PreparedPads | None) -> Device:
        """The machine of a run: fresh, to be restored; ``used`` if its contribution was uploaded already."""
        ...

    def pad_layout(self) -> PadLayout | None:
        """Of the upload whose pads are worth making before the call; None if there is none."""
        ...

    def keep(self, ask: bytes, device: Device) -> None:
        """Record what the machine is going to answer, before the answer leaves."""
        ...


class HostedRun(NamedTuple):
    """A device in one run, its line to the server, and the folders that keep them."""

    run: bytes
    ask: bytes
    home: StateFolder
    pending: StateFolder
    device: Device
    line: Line


@dataclass(frozen=True)
class DeviceHost:
    """One device's keys, folder and terms; its state is in the folder.

    server_public: the key of the one server that it listens to.
    party: what it takes part in.
    keep_seconds: runs not heard of for longer are wiped.

    Whatever it refuses, the server is told the same words (but for another version of the protocol); the reason is in
    the device's own log.
    """

    name: str
    identity: Identity
    folder: Path
    server_public: bytes
    party: Party
    keep_seconds: float = KEEP_SECONDS

    def handle(self, call: Call) -> Reply:
        """One call. What breaks a rule is refused; the state is then as before."""
        try:
            if isinstance(call, Dismissal):
                log.error("%s cannot take part: %s", self.name, one_line(call.reason))
                return Refused(DOES_NOT_TAKE_PART)
            if call.version != VERSION:
                # The one reason that is told: it follows from the software alone.
                reason = f"the protocol version must be {VERSION} on this node, got {call.version}"
                log.error("%s refuses: %s", self.name, reason)
                return Refused(reason)
            if isinstance(call, Hello):
                return self._introduction(call)
            return self._step(call)
        except CodedFLError as error:
            log.error("%s refuses: %s", self.name, one_line(error))
            return Refused(DOES_NOT_TAKE_PART)

    def _introduction(self, call: Hello) -> Introduction:
        if call.server_public != self.server_public:
            raise MessageRefused(
                f"the server's key must be {fingerprint(self.server_public)}, got {fingerprint(call.server_public)}"
            )
        self.party.check_approved()  # who has not agreed is not even counted
        return Introduction(self.name, self.identity.public, self.identity.sign(introduction_text(call, self.name)))

    def _step(self, call: Step) -> Parcel:
        if call.name != self.name:
            raise MessageRefused(f"the receiver must be {self.name!r}, got {call.name!r}")
        key = fingerprint(self.identity.public)
        home = self._home(self.folder / f"{call.run.hex()}-{key}")
        # What has led to no agreement has one place for all runs: invitations leave nothing behind but the last.
        pending = StateFolder(self.folder / f"{PENDING}-{key}")
        self.expire(but={home.path, pending.path})
        with home.locked(), pending.locked():
            state = home.load()
            if state is None and (waiting := pending.load()) is not None and waiting["run"] == call.run:
                state = waiting
            if state is None and call.parcel.newest and Message.decode(call.parcel.newest).kind is Kind.FINISH:
                home.wipe()
                return Parcel(0, (), 0)  # the end once more: everything is forgotten already
            if state is None and call.parcel.first > 0:
                raise MessageRefused(
                    f"the run must be one whose state this node holds, got {call.run.hex()}: the state is gone,"
                    " or never was here"
                )
            ask: bytes = call.ask if state is None else state["ask"]
            self.party.check_approved()
            used = state is not None and used_data(state["device"])
            device, line = self.party.device(ask, used=used, pads=self._pads), Line()
            if state is not None:
                device.restore(state["device"])
                line.restore(state["line"])
            return self._serve(HostedRun(call.run, ask, home, pending, device, line), call)

    def _serve(self, hosted: HostedRun, call: Step) -> Parcel:
        """Deliver, judge and record, save, and only then reply.

        A step itself is not signed: what the server signed is in its letters. So nothing is recorded before those have
        led to a join, or whoever can write to the network could use up what the study allows the server.
        """
        # The order of what follows is the whole safety of a device that may be killed anywhere: the machine changes in
        # memory only; the ledger knows of the join, or of the question, before any state does; the state is on the disk
        # before the reply exists for anybody else. Killed in between, the ledger may know too much, never too little.
        device, events = hosted.device, list[Event]()
        if call.ask and call.ask != hosted.ask:
            raise MessageRefused("a run must be for one total, got a request for another one")
        reply = self._deliver(device, hosted.line, call.parcel, events)
        if device.run not in (b"", call.run):
            raise MessageRefused(f"letters must be of run {call.run.hex()}, got some of {device.run.hex()}")
        kinds = set(map(type, events))
        if InvitationAccepted in kinds:
            self.party.begin(hosted.ask, hosted.run)
        if QuestionAnswered in kinds:
            self.party.keep(hosted.ask, device)
        self._keep(hosted, forgot=SecretsForgotten in kinds)
        return reply

    @property
    def _pads(self) -> PreparedPads | None:
        """What was prepared in this process; nothing, where it ends with the call."""
        return None

    def _home(self, path: Path) -> StateFolder:
        """Where a run's state is kept."""
        return StateFolder(path)

    def _keep(self, hosted: HostedRun, *, forgot: bool) -> None:
        """Save what the device has become, or wipe it when its run is over."""
        run, ask, home, pending, device, line = hosted
        saved = {"run": run, "ask": ask, "device": device.state(), "line": line.state()}
        if device.finished:
            home.wipe()
            pending.wipe()
            log.info("%s: the run is over, its secrets are wiped", self.name)
        elif device.agreed:
            held = (device.sharing.answer_matrix, device.sharing.answer_constant)
            settled = [planes for planes in held if planes is not None]
            home.save(saved, settled, anew=forgot)
            pending.wipe()
        elif device.invited:
            home.wipe()
            pending.save(saved)
        else:
            home.wipe()

    def expire(self, but: Container[Path] = ()) -> None:
        """Wipe runs that ended without our hearing of it. The one that calls is alive, however the clock has jumped."""
        if not self.folder.exists():
            return
        for path in self.folder.iterdir():
            if path in but or not (path / INDEX).exists():
                continue
            heard = max(entry.stat().st_mtime for entry in path.iterdir())  # of the index, or of a journal beside it
            if time.time() - heard > self.keep_seconds:
                log.warning("%s: a run not heard of for %.0f days is wiped", self.name, self.keep_seconds / 86400)
                StateFolder(path).wipe()

    def _deliver(self, device: Device, line: Line, parcel: Parcel, events: list[Event]) -> Parcel:
        """Up to the first message that the device refuses; it changes nothing and is noted."""
        answers: list[bytes] = []
        try:
            for letter in line.take(parcel):
                turn = device.receive(letter.head, letter.bulk)
                events += turn.events
                for reply in turn.outgoing:
                    line.put(Letter.of(reply.message))
            if parcel.newest:
                turn = device.receive(parcel.newest)
                events += turn.events
                answers = [answer.data for answer in turn.outgoing]
        except MessageRefused as error:
            log.error("%s refuses a message: %s", device.name, one_line(error))
            # The end of a run counts whatever was refused before it: secrets must not outlive it.
            with suppress(MessageRefused):
                if parcel.newest and Message.decode(parcel.newest).kind is Kind.FINISH:
                    events += device.receive(parcel.newest).events
            return line.parcel(refusal=DOES_NOT_TAKE_PART)
        finally:
            for event in events:
                self._log(event)
        return line.parcel(b"".join(answers))

    def _log(self, event: Event) -> None:
        match event:
            case RowsFitted(clipped, dropped):
                words = "%s: %d values were clipped to the public bounds, %d rows left out"
                log.warning(words, self.name, clipped, dropped)
            case InvitationRefused(reason):
                log.error("%s cannot take part: %s", self.name, one_line(reason))
