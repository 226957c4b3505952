"""What can be seen of a run while it goes on: who is there, who has shared, who answers, how far it is.

The conductor tells; a ``RunWatch`` keeps it for a live table, and writes it to the run's journal (``run.journal``) for
whoever looks on, or later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from codedfl.engine.directory import Contact
from codedfl.private_files import make_private_folder
from codedfl.protocol import Phase, Server
from codedfl.run.journal import (
    JOURNAL_FILE,
    Answered,
    AnsweredLate,
    Begun,
    Connected,
    DeviceState,
    Disconnected,
    EpochEnded,
    Event,
    Finished,
    PhaseBegun,
    RunJournal,
    Scored,
    StageBegun,
    Uploaded,
    members_of,
    new_liars,
)

_LOOK_SECONDS = 0.2
_EPOCHS_TO_JUDGE_BY = 5


@dataclass
class Seen:
    """One device, as far as the server can see it."""

    connected: bool = False
    state: str = "waiting"  # then joined, shared, ready; gone
    uploaded: int = 0  # bytes of the bulk that is coming in
    upload: int = 0
    answered: int = 0  # the newest epoch it answered
    answers: int = 0
    late: int = 0  # answers that came when their epoch was over


class RunWatch:
    """Keeps what was seen last; with a file, every event is a line in it.

    epochs: how many there will be at most, to tell the time that is left. 0 if nobody knows.
    title: what the run is called in its journal.
    """

    def __init__(
        self,
        epochs: int = 0,
        journal: Path | None = None,
        clock: Callable[[], float] = time.time,
        title: str = "",
    ) -> None:
        self.title = title
        self.devices: dict[str, Seen] = {}
        self.wanted = 0  # how many are waited for
        self.phase = "gathering"
        self.epoch = 0
        self.epochs = epochs
        self.score: float | None = None
        self.answers: dict[int, int] = {}  # epoch -> answers that came in time
        self._ended: list[float] = []  # when the last epochs ended
        self._clock = clock
        self._looked = float("-inf")
        self._traffic: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._members_told = False
        self._liars: set[str] = set()
        self._journal_file = journal
        self._journal: RunJournal | None = None  # opened by the first event: whoever is refused the folder writes none

    @classmethod
    def in_folder(cls, output: Path, epochs: int, title: str = "") -> RunWatch:
        """With the journal in the output folder of the run."""
        return cls(epochs, make_private_folder(output) / JOURNAL_FILE, title=title)

    def measure(self, traffic: Callable[[], tuple[int, int]]) -> None:
        """Ask this for the bytes received and sent so far, at the end of each epoch."""
        self._traffic = traffic

    @property
    def seconds_an_epoch(self) -> float | None:
        """Of the last few; None before the second has ended."""
        ended = self._ended[-_EPOCHS_TO_JUDGE_BY - 1 :]
        return (ended[-1] - ended[0]) / (len(ended) - 1) if len(ended) > 1 else None

    @property
    def seconds_left(self) -> float | None:
        """At the pace of the last epochs; None as long as it cannot be told."""
        pace = self.seconds_an_epoch
        return None if pace is None or not self.epochs else pace * max(0, self.epochs - self.epoch)

    # -- what the conductor tells

    def begun(self, what: Begun) -> None:
        """The run begins, or goes on."""
        self._note(what)

    def stage(self, kind: str) -> None:
        """A stage of a study begins: epochs and members are counted anew."""
        self.answers, self._members_told = {}, False
        self._note(StageBegun(kind))

    def look(self, server: Server | None, contacts: Mapping[str, Contact]) -> None:
        """See what has changed. Often called: it looks a few times a second."""
        now = self._clock()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        states = _States(server)
        for name, contact in contacts.items():
            seen = self.devices.setdefault(name, Seen())
            connected = contact.node is not None
            if connected != seen.connected:
                self._note(Connected(name) if connected else Disconnected(name))
            seen.connected = connected
            state = states.of(name, contact)
            if state != seen.state:
                self._note(DeviceState(name, state))
            seen.state = state
        if server is not None and server.phase.value != self.phase:
            self.phase = server.phase.value
            self._note(PhaseBegun(self.phase))
        self._look_at_members(server)

    def _look_at_members(self, server: Server | None) -> None:
        if server is None or server.agreement is None:
            return
        if not self._members_told:
            self._members_told = True
            self._note(members_of(server))
        for lied in new_liars(server, self._liars):
            self._liars.add(lied.device)
            self._note(lied)

    def answered(self, name: str, epoch: int, in_time: bool, size: int) -> None:
        """A device's answer has come in: to this epoch, or late."""
        seen = self.devices.setdefault(name, Seen())
        seen.answers += 1
        if in_time:
            seen.answered = epoch
            self.answers[epoch] = self.answers.get(epoch, 0) + 1
        else:
            seen.late += 1
        self._note(Answered(name, epoch, size) if in_time else AnsweredLate(name, epoch, size))

    def progress(self, name: str, here: int, in_all: int) -> None:
        """A piece of a device's bulk has come in."""
        seen = self.devices.setdefault(name, Seen())
        seen.uploaded, seen.upload = here, in_all
        if here == in_all:
            self._note(Uploaded(name, in_all))

    def ended(self, epoch: int, score: float | None) -> None:
        """An epoch is over."""
        self.epoch, self.score = epoch, score
        self._ended = [*self._ended[-_EPOCHS_TO_JUDGE_BY:], self._clock()]
        received, sent = self._traffic()
        self._note(EpochEnded(epoch, self.answers.get(epoch, 0), score, received, sent))

    def scored(self, score: float, rows: int) -> None:
        """The devices have scored the last model, on so many rows of theirs."""
        self.score = score
        self._note(Scored(score, rows))

    def finished(self, outcome: str) -> None:
        self._note(Finished(outcome, *self._traffic()))
        self.close()

    def close(self) -> None:
        """Whatever ends the run; what is told afterwards opens the journal again."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _note(self, event: Event) -> None:
        if self._journal_file is None:
            return
        if self._journal is None:
            self._journal = RunJournal(self._journal_file, "wall", self._clock(), anew=False)
        self._journal.note(self._clock(), event)


class _States:
    """How far each device is: the server's lists looked up once for all of them."""

    def __init__(self, server: Server | None) -> None:
        self._joined: set[str] = set()
        self._members: set[str] | None = None  # once they are fixed
        self._ready: set[str] = set()
        self._unshared: set[str] = set()
        if server is not None:
            self._joined = set(server.joined)
        if server is not None and server.agreement is not None:
            self._members, self._ready = set(server.agreement.names), set(server.ready_devices)
            self._unshared = set(server.unshared) if server.phase is Phase.SHARING else set()

    def of(self, name: str, contact: Contact) -> str:
        if contact.parted:
            return "done"
        if contact.lost or (self._members is not None and name not in self._members):
            return "gone"
        if self._members is None:
            return "joined" if name in self._joined else "waiting"
        if name in self._ready:
            return "ready"
        return "joined" if name in self._unshared else "shared"
