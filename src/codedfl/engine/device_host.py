"""A device on a node: from its folder on disk, through one call of the server, and back to the folder.

Flower starts a new process for every call, so nothing survives in memory. What the device answers leaves only after its
new state is safe on the disk: a node that is killed at any moment comes back, is called again and goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from codedfl.crypto.sealed import Identity, fingerprint
from codedfl.engine.calls import Call, Dismissal, Hello, Introduction, Probe, Refused, Reply, Step, introduction_text
from codedfl.engine.ledger_file import LedgerFile
from codedfl.engine.letters import Letter, Line, Parcel
from codedfl.engine.logs import one_line
from codedfl.engine.probe import answer_probe
from codedfl.engine.state_folder import INDEX, StateFolder
from codedfl.errors import CodedFLError, MessageRefused
from codedfl.protocol import Device, Ledger, Policy
from codedfl.protocol.local_data import LocalRows
from codedfl.protocol.messages import VERSION, Kind, Message
from codedfl.protocol.schemes import machines_of
from codedfl.state import State

LoadRows = Callable[[], LocalRows]

log = logging.getLogger("codedfl.engine.device")

PENDING = "pending"
LEDGER = "ledger"
KEEP_SECONDS = 30 * 24 * 3600.0  # a run that was not heard of for so long is over: its secrets are wiped


@dataclass(frozen=True)
class Part:
    """What a device brings into one run, and on which terms.

    recipe: the digest that the run's parameters must carry.
    ledger: the name of the ledger that it is recorded in.
    """

    load_rows: LoadRows
    recipe: bytes
    policy: Policy
    roster: Mapping[str, bytes] | None
    ledger: str


class Stages(Protocol):
    """A device's side of a study that takes several runs (``device_stages``)."""

    def check_approved(self) -> None:
        """Raises unless the operator approved exactly this study."""
        ...

    def part(self, stage: bytes, *, new: bool) -> Part:
        """Its part in the run that is this stage; ``new`` if the run begins here. Raises what speaks against it."""
        ...

    def note(self, stage: bytes, owners: Mapping[str, bytes]) -> None:
        """Remember whose data are in the stage's total, before anything that follows from it leaves."""
        ...

    def is_last(self, stage: bytes) -> bool:
        """Whether the study is over when this stage is."""
        ...


class Lodging(NamedTuple):
    """A device, its line to the server, and the folders that keep them."""

    run: bytes
    stage: bytes
    home: StateFolder
    pending: StateFolder
    device: Device
    line: Line


@dataclass(frozen=True)
class DeviceHost:
    """One device's keys, folder and rules; its state is in the folder.

    load_rows: returns features and labels as the run wants them; called until phase 1 has used them, not after.
    recipe: its digest, asked for when a run begins.
    policy, server_public, roster: see ``Device``.
    stages: of a study that takes several runs; then they say rows, recipe, policy and roster of each.
    keep_seconds: runs not heard of for longer are wiped.
    """

    name: str
    identity: Identity
    folder: Path
    load_rows: LoadRows
    policy: Policy = field(default_factory=Policy)
    recipe: Callable[[], bytes] = bytes
    server_public: bytes | None = None
    roster: Mapping[str, bytes] | None = None
    stages: Stages | None = None
    keep_seconds: float = KEEP_SECONDS

    def handle(self, call: Call) -> Reply:
        """One call. What breaks a rule is refused, in the log and in the reply; the state is then as before."""
        try:
            if isinstance(call, Dismissal):
                log.error("%s cannot take part: %s", self.name, one_line(call.reason))
                return Refused(call.reason)
            if isinstance(call, Probe):
                return answer_probe(call)
            if call.version != VERSION:
                raise MessageRefused(f"the protocol version must be {VERSION} on this node, got {call.version}")
            if isinstance(call, Hello):
                if call.server_public and self.server_public not in (None, call.server_public):
                    raise MessageRefused(
                        f"the server's key must be the pinned {fingerprint(self.server_public or b'')},"
                        f" got {fingerprint(call.server_public)}"
                    )
                if self.stages is not None:
                    self.stages.check_approved()  # who has not agreed is not even counted
                signature = self.identity.sign(introduction_text(call, self.name))
                return Introduction(self.name, self.identity.public, signature)
            return self._step(call)
        except CodedFLError as error:
            log.error("%s refuses: %s", self.name, one_line(error))
            return Refused(str(error))

    def _step(self, call: Step) -> Parcel:
        if call.name != self.name:
            raise MessageRefused(f"the receiver must be {self.name!r}, got {call.name!r}")
        key = fingerprint(self.identity.public)
        home = self._home(self.folder / f"{call.run.hex()}-{key}")
        # What has led to no agreement has one place for all runs: invitations leave nothing behind but the last.
        pending = StateFolder(self.folder / f"{PENDING}-{key}")
        self._expire(but={home.path, pending.path})
        with home.locked(), pending.locked():
            state = home.load() or _of_run(pending.load(), call.run)
            ending = bool(call.parcel.newest) and Message.decode(call.parcel.newest).kind is Kind.FINISH
            if state is None and ending:
                home.wipe()
                return Parcel(0, (), 0)  # the end once more: everything is forgotten already
            if state is None and call.parcel.first > 0:
                raise MessageRefused(
                    f"the run must be one whose state this node holds, got {call.run.hex()}: the state is gone,"
                    " or never was here"
                )
            stage = call.stage if state is None else state["stage"]
            part = self._part(stage, new=state is None)
            with LedgerFile(self.folder.parent / part.ledger).open() as ledger:
                device, line = self._restored(call.scheme, state, part, ledger)
                reply = self._deliver(device, line, call.parcel)
                self._keep(Lodging(call.run, stage, home, pending, device, line))
            return reply

    def _part(self, stage: bytes, *, new: bool) -> Part:
        if self.stages is not None:
            return self.stages.part(stage, new=new)
        if stage:
            raise MessageRefused("a run must be a training by itself on this node, got a stage of a study")
        return Part(self.load_rows, self.recipe() if new else b"", self.policy, self.roster, LEDGER)

    def _home(self, path: Path) -> StateFolder:
        """Where a run's state is kept."""
        return StateFolder(path)

    def _keep(self, lodging: Lodging) -> None:
        """Save what the device has become, or wipe it when its run is over."""
        run, stage, home, pending, device, line = lodging
        saved = {"run": run, "stage": stage, "device": device.state(), "line": line.state()}
        if self.stages is not None and device.owner_keys:
            self.stages.note(stage, device.owner_keys)
        if device.finished:
            home.wipe()
            pending.wipe()
            log.info("%s: the run is over, its secrets are wiped", self.name)
        elif device.agreed:
            settled = [planes for planes in (device.linear, device.constant) if device.ready and planes is not None]
            home.save(saved, settled)
            pending.wipe()
        elif device.invited:
            home.wipe()
            pending.save(saved)
        else:
            home.wipe()

    def _expire(self, but: Container[Path]) -> None:
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

    def _restored(self, scheme: str, state: State | None, part: Part, ledger: Ledger) -> tuple[Device, Line]:
        gone = state is not None and state["device"]["data_used"]
        rows = (None, None, None) if gone else part.load_rows()
        device = machines_of(scheme).device_type(
            self.name,
            *rows,
            identity=self.identity,
            policy=part.policy,
            recipe=part.recipe,
            server_public=self.server_public,
            roster=part.roster,
            ledger=ledger,
        )
        line = Line()
        if state is not None:
            device.restore(state["device"])
            line.restore(state["line"])
        return device, line

    def _deliver(self, device: Device, line: Line, parcel: Parcel) -> Parcel:
        """Up to the first message that the device refuses; it changes nothing and is noted."""
        answers: list[bytes] = []
        try:
            for letter in line.take(parcel):
                for reply in device.receive(letter.wire()):
                    line.put(Letter.of(reply))
            if device.clipped or device.dropped:
                log.warning(
                    "%s: %d values were clipped to the public bounds, %d rows left out",
                    self.name,
                    device.clipped,
                    device.dropped,
                )
            if device.objection:
                log.error("%s cannot take part: %s", self.name, one_line(device.objection))
            if parcel.newest:
                answers = device.receive(parcel.newest)
        except MessageRefused as error:
            log.error("%s refuses a message: %s", device.name, one_line(error))
            return line.parcel(refusal=str(error))
        return line.parcel(b"".join(answers))


def _of_run(pending: State | None, run: bytes) -> State | None:
    return pending if pending is not None and pending["run"] == run else None
