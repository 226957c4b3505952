"""What can be seen of a run while it lasts: who is there, who has uploaded, who replies, how far it is.

A ``RunWatch`` folds the events of a session for a live table (``run_fold``), and writes them to the run's event log
(``event_log``) for whoever looks on, or later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from codedfl.device.study_sums import StudySums
from codedfl.errors import CodedFLError
from codedfl.private_files import make_private_folder
from codedfl.report.event_log import EVENTS_FILE, Begun, Clock, EpochScored, EventLog, Finished
from codedfl.report.run_fold import DeviceLane, RunFold
from codedfl.sum.events import Event, PhaseBegun


class RunWatch:
    """Folds what happens; with a folder, every event is a line in its event log.

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
        *,
        private: bool = True,
    ) -> None:
        """``now``: the time of an event, on a ``clock``.

        private: nobody else may look into the folder; a simulation on public data has no secrets.
        """
        self.failure: OSError | None = None  # why the log ends early: a run is not worth less for that
        self._fold = RunFold()
        self.view = self._fold.view  # how far the run is
        self.devices: Mapping[str, DeviceLane] = self._fold.devices  # each, as far as the server can see it
        self._now, self._clock = now, clock
        self._folder, self._log, self._private = folder, None, private

    _log: EventLog | None

    def take(self, event: Event) -> None:
        """Something happened: fold it, and write it down."""
        now = self._now()
        self._fold.take(now, event)
        if event.event:
            self._note(now, event)

    def ended(self, epoch: int, score: float | None) -> None:
        """An exchange is over; those of a training are its epochs."""
        fold = self._fold
        if fold.in_training:
            self.take(EpochScored(epoch, fold.answers[epoch], score, fold.received, fold.sent))

    def finished(self, outcome: str) -> None:
        self.take(PhaseBegun("finished"))
        self.take(Finished(outcome, self._fold.received, self._fold.sent))
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

    def _note(self, now: float, event: Event) -> None:
        if self._folder is None or self.failure is not None:
            return
        try:
            if self._log is None:  # with the first event: whoever is refused the folder writes none
                path = (make_private_folder(self._folder) if self._private else self._folder) / EVENTS_FILE
                self._log = EventLog(path, self._clock, now, empty=self._clock != "wall")
            self._log.note(now, event)
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
