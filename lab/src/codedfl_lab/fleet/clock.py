"""When an epoch ends, and the virtual time of a training made of epochs (paper III-B)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Seconds
from codedfl_lab.code.quorum import Quorum

StragglerPolicy = Literal["restart", "finish"]


class TrainingClock:
    """Virtual time of one training, an epoch at a time, for (draws, D) devices at once.

    start: (draws,) when the central server can begin; ready: (draws, D) when each device can answer at all.
    Under ``restart`` a straggler drops what it was doing when the next update comes, as the paper assumes, and
    epochs are independent. Under ``finish`` it first finishes and sends the old answer, which is of no use any more,
    then takes the newest update. Waiting for all makes the two agree: nobody is ever late.
    """

    def __init__(self, start: Seconds, ready: Seconds, policy: StragglerPolicy = "restart") -> None:
        if policy not in get_args(StragglerPolicy):
            raise InvalidInput(f"policy must be restart or finish, got {policy!r}")
        self.now = start
        self._busy_until = ready  # under restart this never grows: only phase 1 keeps a device busy
        self._policy = policy

    @property
    def starts(self) -> Seconds:
        """(draws, D) when each device would begin with an update broadcast now."""
        return np.maximum(self._busy_until, self.now[:, None])

    def advance(self, durations: Seconds, quorum: Quorum) -> Seconds:
        """Let one epoch pass: it ends when the quorum is complete. Returns the answers' times."""
        answers = self.starts + durations
        self.now = quorum.time(answers)
        if self._policy == "finish":
            # A device still busy when the epoch ends never takes its update: it continues with a later one.
            self._busy_until = np.where(self._busy_until < self.now[:, None], answers, self._busy_until)
        return answers
