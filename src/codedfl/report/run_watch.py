"""What can be seen of a run while it goes on: who is there, who has uploaded, who replies, how far it is.

A fold of the events of a session. A ``RunWatch`` keeps what they add up to for a live table, and writes them to the
run's event log (``event_log``) for whoever looks on, or later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from codedfl.device.study_sums import StudySums
from codedfl.errors import CodedFLError
from codedfl.private_files import make_private_folder
from codedfl.report.event_log import (
    EVENTS_FILE,
    Begun,
    Clock,
    Connected,
    Disconnected,
    EpochScored,
    EventLog,
    Finished,
    Scored,
)
from codedfl.sum.events import DeviceState, Event, PhaseBegun, Replied, RepliedLate, SumBegun, UploadTaken

_EPOCHS_TO_JUDGE_BY = 5


@dataclass
class SeenDevice:
    """One device, as far as the server can see it."""

    connected: bool = False
    state: str = "waiting"  # then enrolled, uploaded; gone, refused
    uploaded: int = 0  # bytes of the upload that is coming in
    upload: int = 0
    answered: int = 0  # the newest epoch it replied to
    answers: int = 0
    late: int = 0  # replies that came when their epoch was over


class RunWatch:
    """Keeps what was seen last; with a folder, every event is a line in its event log.

    Examples
    --------
    >>> from codedfl.report.run_watch import RunWatch
    >>> from codedfl.sum.events import DeviceState
    >>> watch = RunWatch()
    >>> watch.take(DeviceState("clinic-1", "enrolled")); watch.devices["clinic-1"].state
    'enrolled'
    """

    def __init__(
        self,
        folder: Path | None = None,
        now: Callable[[], float] = time.time,
        clock: Clock = "wall",
        epochs: int = 0,
        *,
        private: bool = True,
    ) -> None:
        """``now``: the time of an event, on a ``clock``. ``epochs``: how many there will be at most; 0 is unknown.

        private: nobody else may look into the folder; a simulation on public data has no secrets.
        """
        self.title = ""
        self.devices: dict[str, SeenDevice] = {}
        self.epoch, self.epochs = 0, epochs
        self.stage = ""
        self.score: float | None = None
        self.answers: dict[int, int] = {}  # epoch -> replies that came in time
        self.failure: OSError | None = None  # why the log ends early: a run is not worth less for that
        self._ended: list[float] = []  # when the last epochs ended
        self._now, self._clock = now, clock
        self._received = self._sent = 0
        self._folder, self._log, self._private = folder, None, private

    _log: EventLog | None

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
            case UploadTaken(name, size):
                seen = self._seen(name)
                seen.state, seen.uploaded, seen.upload = "uploaded", size, size
                self._received += size
            case Replied(name, epoch, size):
                seen = self._seen(name)
                seen.answers, seen.answered = seen.answers + 1, epoch
                self.answers[epoch] = self.answers.get(epoch, 0) + 1
                self._received += size
            case RepliedLate(name, _, size):
                seen = self._seen(name)
                seen.answers, seen.late = seen.answers + 1, seen.late + 1
                self._received += size
            case SumBegun(stage):  # epochs are counted from 1 again
                self.stage, self.answers, self._ended = stage, {}, []
            case Begun():
                self.title, self.epochs = event.title, self.epochs or event.epochs
            case Scored(score):
                self.score = score
        self._note(event)

    def _seen(self, name: str) -> SeenDevice:
        return self.devices.setdefault(name, SeenDevice())

    def sent(self, size: int) -> None:
        """``size`` bytes have left for devices."""
        self._sent += size

    def reachable(self, name: str, here: bool) -> None:
        """A device has come, or gone."""
        self.take(Connected(name) if here else Disconnected(name))

    def progress(self, name: str, here: int, in_all: int) -> None:
        """A piece of a device's upload has come in."""
        seen = self._seen(name)
        seen.uploaded, seen.upload = here, in_all

    def ended(self, epoch: int, score: float | None) -> None:
        """An exchange is over; those of a training are its epochs."""
        self.epoch, self.score = epoch, score
        self._ended = [*self._ended[-_EPOCHS_TO_JUDGE_BY:], self._now()]
        if self.stage in ("", "products"):
            self._note(EpochScored(epoch, self.answers.get(epoch, 0), score, self._received, self._sent))

    def finished(self, outcome: str) -> None:
        self._note(PhaseBegun("finished"))
        self._note(Finished(outcome, self._received, self._sent))
        self.close()

    @contextmanager
    def told_how_it_ends(self) -> Iterator[None]:
        """At the end the log says: complete, interrupted, or why."""
        try:
            yield
        except CodedFLError as error:
            self.finished(" ".join(str(error).split()))
            raise
        except BaseException:
            self.finished("interrupted")
            raise
        self.finished("complete")

    def close(self) -> None:
        """Whatever ends the run; what is noted afterwards opens the log again."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _note(self, event: Event) -> None:
        if self._folder is None or self.failure is not None or not event.event:
            return
        try:
            if self._log is None:  # with the first event: whoever is refused the folder writes none
                path = (make_private_folder(self._folder) if self._private else self._folder) / EVENTS_FILE
                self._log = EventLog(path, self._clock, self._now(), anew=self._clock != "wall")
            self._log.note(self._now(), event)
        except OSError as error:
            self.failure = error


def begun_study(sums: StudySums) -> Begun:
    """What a run of a study has to say of itself.

    Examples
    --------
    See ``codedfl.run.rehearsal``, whose event log begins with it.
    """
    study, terms = sums.study, sums.terms
    others = len(terms.owners)
    return Begun(
        title=study.name,
        scheme=f"role keys, z = {terms.colluders}",
        solver=study.solver,
        epochs=study.epochs if "products" in study.statistics else 1,
        target=None,
        score_name="accuracy" if study.task == "classification" else "R^2",
        n_features=study.feature_count,
        directions=study.target.labels().n_outputs,
        reveals_gram=study.noise is not None,
        server_sees="sums over whole disclosure groups",
        exposed=(0, 0 if terms.colluders else others - 1, 0 if terms.colluders > 1 else others - 2),
    )
