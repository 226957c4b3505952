"""What can be seen of a simulated run, in its journal: as on real machines, in virtual seconds.

The simulator says when each device would answer; the driver says what was delivered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from codedfl.protocol import Phase, Server
from codedfl.run.journal import (
    JOURNAL_FILE,
    Answered,
    AnsweredLate,
    Begun,
    Connected,
    DeviceState,
    EpochEnded,
    Event,
    Finished,
    PhaseBegun,
    RunJournal,
    StageBegun,
    Uploaded,
    members_of,
    new_liars,
)


class VirtualWatch:
    """Writes the journal of one simulated run into a folder, in place of an older one.

    Used as a context, it says at the end how the run ended.
    """

    def __init__(self, folder: Path, what: Begun) -> None:
        self.failure: OSError | None = None  # why the journal ends early: a run is not worth less for that
        self._journal = RunJournal(folder / JOURNAL_FILE, "virtual", 0.0, anew=True)
        self._received = 0
        self._sent = 0
        self._liars: set[str] = set()
        self._counts_epochs = True
        self._begin(0.0)
        self._note(0.0, what)

    def _begin(self, seconds: float) -> None:
        """A run begins, so long after the journal."""
        self._began = seconds
        self._asked = 0  # the epoch that is being asked for
        self._times: Mapping[str, float] = {}
        self._start = 0.0
        self._ready: dict[str, float] = {}  # who is not ready yet
        self._now = 0.0
        self._answers: dict[int, int] = {}
        self._uploads: dict[str, int] = {}
        self._in_training = False

    def stage(self, kind: str, seconds: float, trains: bool) -> None:
        """The run for one total of a study begins; one that trains has epochs, the others are one exchange."""
        self._begin(seconds)
        self._counts_epochs = trains
        self._note(0.0, StageBegun(kind))

    def _note(self, seconds: float, event: Event) -> None:
        if self.failure is None:
            try:
                self._journal.note(self._began + seconds, event)
            except OSError as error:
                self.failure = error

    def sharing(self, start: float, ready: Mapping[str, float]) -> None:
        """The sharing phase begins; when the first update will go out, and when each device will be ready for it."""
        self._start, self._ready = start, dict(ready)
        self._note(0.0, PhaseBegun(Phase.SHARING.value))
        for name in ready:
            self._note(0.0, Connected(name))

    def sent(self, data: bytes, receivers: int) -> None:
        """A message goes to so many devices, whether they will answer it in time or not."""
        self._sent += len(data) * receivers

    def replied(self, name: str, replies: Sequence[bytes]) -> None:
        """What a device made of a message."""
        size = sum(map(len, replies))
        self._received += size
        if not self._in_training:
            self._uploads[name] = self._uploads.get(name, 0) + size

    def asked(self, epoch: int, times: Mapping[str, float]) -> None:
        """An update goes out; when the answer of each device arrives, if it gets that far."""
        self._asked, self._times = epoch, times

    def answered(self, server: Server, name: str, reply: bytes) -> None:
        """The server is about to receive this reply."""
        if server.phase is not Phase.TRAINING or not self._asked:
            return
        self._begin_training(server)
        now = self._times[name]
        self._tell_ready(now)
        if server.epoch == self._asked:
            self._answers[self._asked] = self._answers.get(self._asked, 0) + 1
            self._note(now, Answered(name, self._asked, len(reply)))
        else:
            self._note(now, AnsweredLate(name, server.epoch, len(reply)))

    def _begin_training(self, server: Server) -> None:
        if self._in_training:
            return
        self._in_training = True
        self._note(0.0, members_of(server))
        self._tell_ready(self._start)
        self._note(self._now, PhaseBegun(Phase.TRAINING.value))

    def _tell_ready(self, until: float) -> None:
        """Who was ready for updates by then; slow devices are long after the first epochs."""
        self._now = until
        for name, time in sorted(self._ready.items(), key=lambda one: one[1]):
            if time > until:
                return
            if name in self._uploads:
                self._note(time, Uploaded(name, self._uploads[name]))
            self._note(time, DeviceState(name, "ready"))
            del self._ready[name]

    def ended(self, server: Server, epoch: int, now: float, score: float | None) -> None:
        """An epoch is over, at this moment and with this score, if anybody knows it."""
        self._tell_ready(now)
        for lied in new_liars(server, self._liars):
            self._liars.add(lied.device)
            self._note(now, lied)
        if self._counts_epochs:
            self._note(now, EpochEnded(epoch, self._answers.get(epoch, 0), score, self._received, self._sent))

    def __enter__(self) -> VirtualWatch:
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        """The run is over: complete, interrupted, or why."""
        outcome = "complete" if error is None else str(error) or "interrupted"
        self._note(self._now, PhaseBegun(Phase.FINISHED.value))
        self._note(self._now, Finished(outcome, self._received, self._sent))
        with suppress(OSError):
            self._journal.close()
