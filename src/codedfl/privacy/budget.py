"""What a user asks for: epsilon, delta, and how many devices are assumed honest; and the guarantee in one sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codedfl.errors import InvalidInput

if TYPE_CHECKING:  # without noise a device loads nothing of it
    from codedfl.exact.row_noise import RowNoise

DELTA = 1e-5


@dataclass(frozen=True)
class Budget:
    """How much one run may tell about a row.

    Parameters
    ----------
    epsilon : float
        Adding or removing one row changes the probability of any outcome by at most a factor of exp(epsilon), but for
        delta.
    delta : float
        The probability with which that may fail: well below one over the number of rows.
    honest : int
        How many owners add their noise; the guarantee holds if all others leave theirs out and help the server.
    clip_norm : float or None
        Longer rows of features are shortened to it. None is sqrt(d/2) times the bound on a feature: 1 for random
        Fourier features, whose rows have about that length; for others half of the largest square there can be.
    """

    epsilon: float
    honest: int
    delta: float = DELTA
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        if self.honest < 1:
            raise InvalidInput(f"honest must be at least 1, got {self.honest}")
        if self.clip_norm is not None and not 0 < self.clip_norm < math.inf:
            raise InvalidInput(f"clip_norm must be a positive finite number, got {self.clip_norm}")
        from codedfl.privacy.calibration import rho_for

        rho_for(self.epsilon, self.delta)  # refuses what no noise can give

    @classmethod
    def asked(
        cls, epsilon: float | None, delta: float | None, honest: int | None, clip_norm: float | None
    ) -> Budget | None:
        """The budget that options ask for. Without epsilon there is none, and the other options must be left out."""
        if epsilon is None:
            for name, value in (("delta", delta), ("honest", honest), ("clip_norm", clip_norm)):
                if value is not None:
                    raise InvalidInput(f"{name} must be left out without epsilon, got {value}")
            return None
        if honest is None:
            raise InvalidInput("honest must be said with epsilon: how many devices add their noise for sure, got none")
        return cls(epsilon, honest, DELTA if delta is None else delta, clip_norm)

    def noise(self, n_features: int, bound: float) -> RowNoise:
        """What owners add to rows of ``n_features`` features, none of which is larger than ``bound``."""
        from codedfl.privacy.calibration import noise_for

        norm = bound * math.sqrt(n_features / 2) if self.clip_norm is None else self.clip_norm
        return noise_for(self.epsilon, self.delta, self.honest, norm)

    def sentence(self) -> str:
        """What is promised for one run."""
        return f"{_change('this run', self.epsilon, self.delta)}, as long as {self.honest} owners add their noise."


def spent_sentence(rho: float | None, runs: int, delta: float) -> str:
    """What is promised over all approvals of a device's ledger; ``rho`` is None if one of them is without noise."""
    if runs == 0:
        return "The ledger holds no approval: nothing can be spent."
    if rho is None:
        return (
            f"No bound holds over the {runs} approval(s) of the ledger: at least one is of exact totals, without noise."
        )
    from codedfl.privacy.calibration import epsilon_of

    return f"{_change(f'all {runs} approval(s) of the ledger together', epsilon_of(rho, delta), delta)}."


def _change(what: str, epsilon: float, delta: float) -> str:
    return (
        f"Whether any one row was there or not changes the probability of whatever is made of {what} by at most a"
        f" factor of {math.exp(epsilon):.3g} (epsilon = {epsilon:.3g}), but for {delta:g} (delta)"
    )
