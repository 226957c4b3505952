"""When an epoch ends, and the virtual time of a training made of epochs (paper III-B)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Seconds

StragglerPolicy = Literal["restart", "finish"]


def kth_fastest(arrivals: Seconds, k: int) -> Seconds:
    """The k-th smallest along the last axis: k = D - alpha + 1 in the coded schemes, k = D waits for all."""
    if not 1 <= k <= arrivals.shape[-1]:
        raise InvalidInput(f"k must be between 1 and the number of devices ({arrivals.shape[-1]}), got {k}")
    # A copy, or the whole partitioned array would live on behind the view.
    return np.partition(arrivals, k - 1, axis=-1)[..., k - 1].copy()


@dataclass(frozen=True)
class Quorum:
    """Which answers end an epoch: all but ``tolerated`` in each of ``groups`` (device i is in group i mod groups).

    tolerated = 0 waits for everybody; alpha - 1 in the coded schemes.
    """

    tolerated: int
    groups: int = 1

    def time(self, arrivals: Seconds) -> Seconds:
        """(...,) when the quorum is complete, for (..., D) arrivals: the slowest group counts."""
        ends = []
        for group in range(self.groups):
            members = arrivals[..., group :: self.groups]
            ends.append(kth_fastest(members, members.shape[-1] - self.tolerated))
        return np.asarray(np.max(ends, axis=0))


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

    def answers(self, durations: Seconds) -> Seconds:
        """(draws, D) times at which each device's answer to an update broadcast now would arrive."""
        return np.maximum(self._busy_until, self.now[:, None]) + durations

    def advance(self, durations: Seconds, quorum: Quorum) -> Seconds:
        """Let one epoch pass: it ends when the quorum is complete. Returns the answers' times."""
        answers = self.answers(durations)
        self.now = quorum.time(answers)
        if self._policy == "finish":
            # A device still busy when the epoch ends never takes its update: it goes on to a later one.
            self._busy_until = np.where(self._busy_until < self.now[:, None], answers, self._busy_until)
        return answers

    def advance_by(self, seconds: float) -> None:
        """Let an epoch of fixed length pass (a scheme with a deadline)."""
        self.now = self.now + seconds


def training_times(
    arrivals: Seconds | Callable[[int], Seconds],
    epochs: int,
    wait_for: int,
    policy: StragglerPolicy = "restart",
) -> Seconds:
    """(draws, epochs) times at which each epoch ends, from the start of the first, all devices being ready then.

    ``arrivals`` is a (draws, epochs, D) array of :func:`epoch_arrivals`, or a function from the epoch's
    number (from 0) to its (draws, D): a thousand devices need not be held in memory for every epoch.
    See :class:`TrainingClock` for the policies.
    """
    if epochs < 1:
        raise InvalidInput(f"epochs must be a positive integer, got {epochs}")
    if not callable(arrivals) and (arrivals.ndim != 3 or arrivals.shape[1] != epochs):
        raise InvalidInput(f"arrivals must have the shape (draws, {epochs}, D), got {arrivals.shape}")
    ends: list[Seconds] = []
    clock: TrainingClock | None = None
    for epoch in range(epochs):
        durations = arrivals(epoch) if callable(arrivals) else arrivals[:, epoch]
        clock = clock or TrainingClock(np.zeros(len(durations)), np.zeros_like(durations), policy)
        clock.advance(durations, Quorum(durations.shape[1] - wait_for))
        ends.append(clock.now)
    return np.stack(ends, axis=1)
