"""What can be seen of a run while it goes on: who is there, who has shared, who answers, how far it is.

A fold of events: those of the server's machine, of the directory and of the conductor. A ``RunWatch`` keeps what they
add up to for a live table, and writes them to the run's event log (``run.event_log``) for whoever looks on, or later.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from codedfl.private_files import make_private_folder
from codedfl.protocol.events import Event
from codedfl.protocol.server_events import Answered, AnsweredLate, DeviceState, Members, PhaseBegun
from codedfl.run.event_log import (
    EVENTS_FILE,
    Connected,
    Disconnected,
    EpochScored,
    EventLog,
    Finished,
    Scored,
    StageBegun,
)

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
    events_file: where the event log goes; None writes none.
    title: what the run is called in its log.
    """

    def __init__(
        self,
        epochs: int = 0,
        events_file: Path | None = None,
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
        self._traffic: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._events_file = events_file
        self._log: EventLog | None = None  # opened by the first event: whoever is refused the folder writes none

    @classmethod
    def in_folder(cls, output: Path, epochs: int, title: str = "") -> RunWatch:
        """A watch with its event log in the output folder of the run."""
        return cls(epochs, make_private_folder(output) / EVENTS_FILE, title=title)

    def measure(self, traffic: Callable[[], tuple[int, int]]) -> None:
        """Ask this for the bytes received and sent so far, at the end of each epoch."""
        self._traffic = traffic

    @property
    def seconds_an_epoch(self) -> float | None:
        """Seconds per epoch over the last few; None before the second has ended."""
        ended = self._ended[-_EPOCHS_TO_JUDGE_BY - 1 :]
        return (ended[-1] - ended[0]) / (len(ended) - 1) if len(ended) > 1 else None

    @property
    def seconds_left(self) -> float | None:
        """At the pace of the last epochs; None as long as it cannot be told."""
        pace = self.seconds_an_epoch
        return None if pace is None or not self.epochs else pace * max(0, self.epochs - self.epoch)

    # -- what happens

    def take(self, event: Event) -> None:
        """Something happened: remember what it comes to, and write it down."""
        match event:
            case Connected(name) | Disconnected(name):
                self._seen(name).connected = isinstance(event, Connected)
            case DeviceState(name, state):
                self._seen(name).state = state
            case PhaseBegun(phase):
                self.phase = phase
            case Answered(name, epoch):
                seen = self._seen(name)
                seen.answers, seen.answered = seen.answers + 1, epoch
                self.answers[epoch] = self.answers.get(epoch, 0) + 1
            case AnsweredLate(name):
                seen = self._seen(name)
                seen.answers, seen.late = seen.answers + 1, seen.late + 1
            case StageBegun():  # epochs are counted anew
                self.answers = {}
            case Scored(score):
                self.score = score
        self._note(event)
        if isinstance(event, Members):  # who is not among them is not waited for
            for name in set(self.devices) - set(event.names):
                self.take(DeviceState(name, "gone"))

    def _seen(self, name: str) -> Seen:
        return self.devices.setdefault(name, Seen())

    def progress(self, name: str, here: int, in_all: int) -> None:
        """A piece of a device's bulk has come in."""
        seen = self._seen(name)
        seen.uploaded, seen.upload = here, in_all

    def ended(self, epoch: int, score: float | None) -> None:
        """An epoch is over."""
        self.epoch, self.score = epoch, score
        self._ended = [*self._ended[-_EPOCHS_TO_JUDGE_BY:], self._clock()]
        received, sent = self._traffic()
        self._note(EpochScored(epoch, self.answers.get(epoch, 0), score, received, sent))

    def finished(self, outcome: str) -> None:
        self._note(Finished(outcome, *self._traffic()))
        self.close()

    def close(self) -> None:
        """Whatever ends the run; what is told afterwards opens the log again."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _note(self, event: Event) -> None:
        if self._events_file is None:
            return
        if self._log is None:
            self._log = EventLog(self._events_file, "wall", self._clock(), anew=False)
        self._log.note(self._clock(), event)
