"""A made-up run that goes on while a test looks: five devices in two roles, one slow, one silent, one that lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codedfl.report.event_log import EVENTS_FILE, Begun, EpochScored, EventLog, Finished
from codedfl.sum.events import (
    Connected,
    DeviceState,
    Disconnected,
    Event,
    Listed,
    Members,
    Part,
    PhaseBegun,
    Replied,
    RepliedLate,
    SumBegun,
    UploadTaken,
    WrongReply,
)

NAMES = tuple(f"clinic-{i}" for i in range(1, 6))
ROLES = (Part(("clinic-1", "clinic-3", "clinic-5"), 1), Part(("clinic-2", "clinic-4"), 1))
SCORES = (0.5, 0.7, 0.8, 0.84, 0.86, 0.87)


class GrowingRun:
    """Its event log is in ``folder``. clinic-1 and 2 are fast, clinic-3 is late, clinic-4 silent, clinic-5 lies."""

    def __init__(self, folder: Path, title: str = "days in hospital", score_name: str = "accuracy") -> None:
        self._log = EventLog(folder / EVENTS_FILE, "wall", 1000.0, empty=False)
        self._now = 1000.0
        self._epoch = 0
        self.tell(
            Begun(
                title=title,
                scheme="role-keys, z = 1",
                solver="block-krylov",
                epochs=6,
                target=0.85 if score_name == "accuracy" else None,
                score_name=score_name,
                n_features=40,
                directions=2,
                reveals_gram=False,
                server_sees="the total only",
                exposed=(0, 0, 3),
            )
        )

    def tell(self, event: Event, after: float = 0.1) -> None:
        self._now += after
        self._log.note(self._now, event)

    def share(self) -> None:
        self.tell(PhaseBegun("sharing"))
        self.tell(Members(NAMES, "role", ROLES))
        for name in NAMES:
            self.tell(Connected(name))
            self.tell(UploadTaken(name, 5000))
            self.tell(DeviceState(name, "ready"))
        self.tell(Disconnected("clinic-4"))
        self.tell(PhaseBegun("training"))

    def exchange(self, stage: str, listed: tuple[str, ...]) -> None:
        """One total of a study, over the rows of those listed."""
        self.tell(SumBegun(stage))
        self.tell(Members(NAMES, "role", ROLES))
        for name in NAMES:
            self.tell(Connected(name))
            self.tell(UploadTaken(name, 5000))
            self.tell(DeviceState(name, "shared"))
        self.tell(Listed(listed))
        self.tell(Replied("clinic-1", 1, 300))
        self.tell(RepliedLate("clinic-2", 1, 300))

    def train(self, epochs: int = 1) -> None:
        for _ in range(epochs):
            self._epoch += 1
            epoch = self._epoch
            if epoch > 1:
                self.tell(RepliedLate("clinic-3", epoch, 300))
            self.tell(Replied("clinic-1", epoch, 300))
            if epoch == 2:
                self.tell(Replied("clinic-5", epoch, 300))
                self.tell(WrongReply("clinic-5", epoch))
            self.tell(Replied("clinic-2", epoch, 300))
            self.tell(EpochScored(epoch, 2, SCORES[epoch - 1], 25_000 + 900 * epoch, 1500 * epoch), after=0.5)

    def finish(self, outcome: str = "complete") -> None:
        self.tell(PhaseBegun("finished"))
        self.tell(Finished(outcome))
        self.close()

    def close(self) -> None:
        self._log.close()


NewRun = Callable[..., GrowingRun]
