"""Which epoch's model a training keeps: the one that held-out rows prefer, scored by other rows.

The last model is not always the best: where lambda is small for the rows there are, a solver continues to fit their
noise. Every second row of the test set chooses the epoch; the rows between them, which had no say, score what was
chosen, so that the score is not that of the luckiest epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from codedfl.typing import Floats
from codedfl_lab.problems.problem import Problem

LEAST_ROWS = 40
"""With fewer test rows nothing is chosen: half of them would mostly tell chance."""


@dataclass
class HeldOut:
    """The models of a training so far, and which of them is kept.

    problem: whose test rows decide. chooses: off, the last model is kept and every test row scores it, as where a
    training stops at the first model that reaches a score.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Dataset, make_problem
    >>> from codedfl_lab.training.held_out import HeldOut
    >>> X = np.linspace(-1, 1, 80)[:, None]
    >>> data = Dataset("made up", X, X[:, 0], X, X[:, 0], "regression", public_range=(-1.0, 1.0))
    >>> held_out = HeldOut(make_problem(data, n_devices=2, features="linear", target_range=(-1.0, 1.0)))
    >>> for epoch, slope in enumerate((0.5, 1.0, 2.0), 1):
    ...     held_out.take(epoch, np.array([[-slope], [2 * slope]]))
    >>> held_out.epoch, held_out.rows, round(held_out.score, 3)
    (2, 40, 1.0)
    """

    problem: Problem
    chooses: bool = True
    epoch: int = 0
    last: int = 0
    model: Floats | None = None
    _best: float = field(default=-np.inf, init=False)
    _last_model: Floats | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.chooses = self.chooses and len(self.problem.y_test) >= LEAST_ROWS
        first, step = (1, 2) if self.chooses else (0, 1)
        self._choosing, self._scoring = self._rows(0, 2), self._rows(first, step)

    def _rows(self, first: int, step: int) -> Problem:
        """The problem with some of its test rows only."""
        return replace(self.problem, X_test=self.problem.X_test[first::step], y_test=self.problem.y_test[first::step])

    def take(self, epoch: int, model: Floats) -> None:
        """The model after an epoch; of equally good ones the earliest is kept."""
        self.last, self._last_model = epoch, model.copy()
        found = self._choosing.score(model) if self.chooses else np.inf
        if found > self._best or not self.chooses:
            self._best, self.epoch, self.model = found, epoch, self._last_model

    @property
    def rows(self) -> int:
        """How many rows score."""
        return len(self._scoring.y_test)

    @property
    def score(self) -> float:
        """Of the model kept, on rows that did not choose it."""
        assert self.model is not None, "an epoch comes first"
        return self._scoring.score(self.model)

    @property
    def last_score(self) -> float:
        """Of the last model, on the same rows."""
        assert self._last_model is not None, "an epoch comes first"
        return self._scoring.score(self._last_model)
