"""A device on a node: from its folder on disk, through one call of the server, and back to the folder.

Flower starts a new process for every call, so nothing survives in memory. What the device answers leaves only after its
new state is safe on the disk: a node that is killed at any moment comes back, is called again and goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from codedfl.crypto.sealed import Identity, fingerprint
from codedfl.engine.calls import Call, Dismissal, Hello, Introduction, Probe, Refused, Reply, Step, introduction_text
from codedfl.engine.letters import Letter, Line, Parcel
from codedfl.engine.logs import one_line
from codedfl.engine.probe import answer_probe
from codedfl.engine.state_folder import StateFolder
from codedfl.errors import CodedFLError, MessageRefused
from codedfl.protocol import Device
from codedfl.protocol.messages import VERSION, Kind, Message
from codedfl.protocol.schemes import machines_of
from codedfl.state import State
from codedfl.typing import Floats

LoadRows = Callable[[], tuple[Floats, Floats]]

log = logging.getLogger("codedfl.flower.device")


@dataclass(frozen=True)
class DeviceHost:
    """One device's keys, folder and rules; its state is in the folder.

    load_rows: returns features and labels as the run wants them; called until phase 1 has used them, not after.
    server_public, roster, min_participants: see ``Device``.
    allow_gram: take part in schemes that show the server the total of X'X itself.
    """

    name: str
    identity: Identity
    folder: Path
    load_rows: LoadRows
    server_public: bytes | None = None
    roster: Mapping[str, bytes] | None = None
    min_participants: int = 2
    allow_gram: bool = False

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
                signature = self.identity.sign(introduction_text(call.challenge, self.name))
                return Introduction(self.name, self.identity.public, signature)
            return self._step(call)
        except CodedFLError as error:
            log.error("%s refuses: %s", self.name, one_line(error))
            return Refused(str(error))

    def _step(self, call: Step) -> Parcel:
        if call.name != self.name:
            raise MessageRefused(f"the receiver must be {self.name!r}, got {call.name!r}")
        home = StateFolder(self.folder / f"{call.run.hex()}-{fingerprint(self.identity.public)}")
        with home.locked():
            state = home.load()
            ending = bool(call.parcel.newest) and Message.decode(call.parcel.newest).kind is Kind.FINISH
            if state is None and ending:
                home.wipe()
                return Parcel(0, (), 0)  # the end once more: everything is forgotten already
            if state is None and call.parcel.first > 0:
                raise MessageRefused(
                    f"the run must be one whose state this node holds, got {call.run.hex()}: the state is gone,"
                    " or never was here"
                )
            device, line = self._restored(call.scheme, state)
            reply = self._deliver(device, line, call.parcel)
            if device.finished:
                home.wipe()
                log.info("%s: the run is over, its secrets are wiped", self.name)
            else:
                home.save({"device": device.state(), "line": line.state()})
            return reply

    def _restored(self, scheme: str, state: State | None) -> tuple[Device, Line]:
        device_type = machines_of(scheme).device_type
        if device_type.reveals_gram and not self.allow_gram:
            raise MessageRefused(f"scheme must not show the server X'X unless the node allows it, got {scheme!r}")
        rows = (None, None) if state is not None and state["device"]["data_used"] else self.load_rows()
        device = device_type(
            self.name,
            *rows,
            identity=self.identity,
            server_public=self.server_public,
            roster=self.roster,
            min_participants=self.min_participants,
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
            if device.objection:
                log.error("%s cannot take part: %s", self.name, one_line(device.objection))
            if parcel.newest:
                answers = device.receive(parcel.newest)
        except MessageRefused as error:
            log.error("%s refuses a message: %s", device.name, one_line(error))
            return line.parcel(refusal=str(error))
        return line.parcel(b"".join(answers))
