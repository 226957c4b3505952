"""What the benchmark of frozen features runs, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from codedfl_lab.comparing.results import Written

DEVICES = (25, 100, 1000)


@dataclass(frozen=True)
class FrozenSizes:
    """How much is run.

    gradient_seeds: how many seeds gradient methods have at most; None is all.
    rates, pulls: what they are tuned over, over all rounds.
    """

    seeds: int = 5
    rounds: int = 45
    devices: tuple[int, ...] = DEVICES
    gradient_seeds: int | None = None
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0)
    pulls: tuple[float, ...] = (0.01,)
    draws: int = 100

    @property
    def of_gradient(self) -> int:
        """Seeds of gradient methods."""
        return self.seeds if self.gradient_seeds is None else min(self.seeds, self.gradient_seeds)


@dataclass(frozen=True)
class Lead:
    """Ours against a gradient method that has used as much.

    rounds: how many it had. accuracy: what it reached. lead: how far ours is ahead, the mean over the seeds of both.
    half_width: of the 95 % interval of the lead, paired by seed; None with one seed.
    """

    rounds: int
    accuracy: float
    lead: float
    half_width: float | None

    @classmethod
    def of(cls, ours: Sequence[float], curves: Sequence[Sequence[float]], rounds: int, guess: float) -> Lead:
        """After a number of rounds; without any it guesses."""
        rounds = min(rounds, len(curves[0]))
        theirs = [one[rounds - 1] if rounds else guess for one in curves]
        leads = [a - b for a, b in zip(ours, theirs, strict=False)]
        return cls(rounds, fmean(theirs), fmean(leads), half_width(leads) if len(leads) > 1 else None)

    @property
    def verdict(self) -> str:
        """Ahead, behind, or level: the interval says which; with one seed the sign does."""
        if abs(self.lead) <= (self.half_width or 0.0):
            return "level"
        return "ahead" if self.lead > 0 else "behind"


@dataclass(frozen=True)
class AtEqual:
    """One of our rows against a gradient method that has used as much of something.

    ours: our method. bytes: of the device with the most. seconds, charged: without and with X'X.
    """

    ours: str
    bytes: Lead
    seconds: Lead
    charged: Lead


@dataclass(frozen=True)
class FrozenRow:
    """One method on one split over ``devices``.

    accuracies: on the test rows, a seed each.
    up, down: bytes of a device, the mean over devices. most: both ways, of the device with the most.
    seconds: on the paper's fleet, X'X at hand; charged: with X'X.
    at_equal: of gradient methods, each of our exact rows against them after no more than that row takes; the widest is
    first. at_end: the widest after all rounds. crossing: the round in which the mean of their seeds passes it; None is
    never.
    """

    split: str
    devices: int
    method: str
    accuracies: tuple[float, ...]
    rounds: int
    up: float
    down: float
    most: float
    seconds: float
    charged: float
    sees: str
    tuned: str = ""
    at_equal: tuple[AtEqual, ...] = ()
    at_end: Lead | None = None
    crossing: int | None = None
    curve: tuple[float, ...] = ()

    @property
    def accuracy(self) -> float:
        """The mean."""
        return fmean(self.accuracies)

    @property
    def half_width(self) -> float | None:
        """Of a 95 % interval over seeds; None with one seed."""
        return half_width(self.accuracies) if len(self.accuracies) > 1 else None


@dataclass(frozen=True)
class KernelRow:
    """One upload of random features on one of the paper's data sets.

    judged: accuracy on held-out rows, the mean over seeds of the features. accuracies: on test rows, a seed each.
    target: the paper's. up: bytes of a device. seconds, charged: on the paper's fleet, without and with X'X.
    """

    dataset: str
    kind: str
    width: int
    judged: float
    accuracies: tuple[float, ...]
    target: float
    up: float
    seconds: float
    charged: float

    @property
    def accuracy(self) -> float:
        """The mean on test rows."""
        return fmean(self.accuracies)

    @property
    def reaches(self) -> bool:
        """Whether held-out rows say that the target is reached."""
        return self.judged >= self.target


def half_width(values: Sequence[float]) -> float:
    """Of a 95 % interval of the mean, by Student's t."""
    from scipy.stats import t  # slow to load

    return float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))


@dataclass(frozen=True)
class FrozenResults(Written):
    """The outcome.

    exact: splits whose sum was that of pooled rows, and how many were compared. heads: each head's accuracy on held-out
    and on test rows, for the first seed; the test column chose nothing. confusion: of the chosen head, first seed.
    kernels: random features on the paper's data sets. seconds: what all parts took, whenever that was.
    """

    rows: tuple[FrozenRow, ...]
    exact: tuple[int, int]
    heads: tuple[tuple[str, float, float, float], ...]
    confusion: tuple[tuple[int, ...], ...]
    dataset: str
    classes: tuple[str, ...]
    width: int
    n_train: int
    n_test: int
    seeds: int
    command: str
    seconds: float
    versions: dict[str, str] = field(default_factory=dict)
    kernels: tuple[KernelRow, ...] = ()

    name: str = "frozen"
