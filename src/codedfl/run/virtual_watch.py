"""What can be seen of a simulated run, in its event log: as on real machines, in virtual seconds.

The simulator says when each device would answer; the events of the server say what came of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from codedfl.protocol.events import Event
from codedfl.protocol.server_events import Answered, AnsweredLate, DeviceState, PhaseBegun
from codedfl.protocol.server_session import Phase
from codedfl.run.event_log import (
    EVENTS_FILE,
    Begun,
    Clock,
    Connected,
    EpochScored,
    EventLog,
    Finished,
    StageBegun,
    Uploaded,
)


class VirtualWatch:
    """Writes the event log of one simulated run into a folder, in place of an older one.

    Used as a context, it says at the end how the run ended. clock: whose seconds they are (``Opened``).
    """

    def __init__(self, folder: Path, what: Begun, clock: Clock = "virtual") -> None:
        self.failure: OSError | None = None  # why the log ends early: a run is not worth less for that
        self._log = EventLog(folder / EVENTS_FILE, clock, 0.0, anew=True)
        self._received = 0
        self._sent = 0
        self._counts_epochs = True
        self._begin(0.0)
        self._note(what)

    def _begin(self, seconds: float) -> None:
        """A run begins, so long after the log."""
        self._began = seconds
        self._now = 0.0
        self._times: Mapping[str, float] = {}  # when each device's answer to the current update arrives
        self._start = 0.0
        self._ready: dict[str, float] = {}  # who is not ready yet, and when it will be
        self._in_training = False
        self._answers: dict[int, int] = {}
        self._uploads: dict[str, int] = {}

    def stage(self, kind: str, seconds: float, trains: bool) -> None:
        """The run for one total of a study begins; one that trains has epochs, the others are one exchange."""
        self._begin(seconds)
        self._counts_epochs = trains
        self._note(StageBegun(kind))

    def _note(self, event: Event, seconds: float | None = None) -> None:
        if self.failure is None:
            try:
                self._log.note(self._began + (self._now if seconds is None else seconds), event)
            except OSError as error:
                self.failure = error

    # -- what the simulator knows

    def sharing(self, start: float, ready: Mapping[str, float]) -> None:
        """The sharing phase begins; when the first update will go out, and when each device will be ready for it."""
        self._start, self._ready = start, dict(ready)
        self._note(PhaseBegun(Phase.SHARING.value))
        for name in ready:
            self._note(Connected(name))

    def asked(self, times: Mapping[str, float]) -> None:
        """An update goes out; when the answer of each device arrives, if it gets that far."""
        self._times = times

    def sent(self, size: int) -> None:
        """``size`` bytes go out, whether they are answered in time or not."""
        self._sent += size

    def replied(self, name: str, size: int) -> None:
        """What a device made of a message."""
        self._received += size
        if not self._in_training:
            self._uploads[name] = self._uploads.get(name, 0) + size

    def ended(self, epoch: int, now: float, score: float | None) -> None:
        """An epoch is over, at this moment and with this score, if anybody knows it."""
        self._tell_ready(now)
        if self._counts_epochs:
            self._note(EpochScored(epoch, self._answers.get(epoch, 0), score, self._received, self._sent))

    # -- what the server's machine tells

    def take(self, event: Event) -> None:
        """Phases and who is ready are told when their virtual time has come, and not when it is computed."""
        match event:
            case PhaseBegun(phase) if phase == Phase.TRAINING.value:
                self._in_training = True
                self._tell_ready(self._start)
                self._note(event)
            case PhaseBegun() | DeviceState():
                pass
            case Answered(name, epoch) | AnsweredLate(name, epoch):
                self._tell_ready(self._times[name])
                if isinstance(event, Answered):
                    self._answers[epoch] = self._answers.get(epoch, 0) + 1
                self._note(event)
            case _:
                self._note(event)

    def _tell_ready(self, until: float) -> None:
        """Who was ready for updates by then; slow devices are long after the first epochs."""
        self._now = until
        for name, time in sorted(self._ready.items(), key=lambda one: one[1]):
            if time > until:
                return
            if name in self._uploads:
                self._note(Uploaded(name, self._uploads[name]), time)
            self._note(DeviceState(name, "ready"), time)
            del self._ready[name]

    def __enter__(self) -> VirtualWatch:
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        """The run is over: complete, interrupted, or why."""
        outcome = "complete" if error is None else str(error) or "interrupted"
        self._note(PhaseBegun(Phase.FINISHED.value))
        self._note(Finished(outcome, self._received, self._sent))
        with suppress(OSError):
            self._log.close()
