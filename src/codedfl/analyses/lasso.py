"""The lasso and elastic net of a study: every weight of a path, and the one that was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from codedfl.analyses.inference import CONSTANT
from codedfl.data.model import TrainedModel
from codedfl.typing import Floats, JsonObject


@dataclass(frozen=True, eq=False)
class LassoPath:
    """Lasso or elastic net for every weight of a path.

    l1_ratio: 1 is the lasso.
    names: the constant, and the design columns.
    weights, coefficients: falling weights, and a row of coefficients in the columns' units for each.
    scores, criterion: what each was judged by: R^2 on held-out rows, or BIC where none are held out.
    best, model: the place of the one that was chosen, and its model.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.lasso import LassoPath
    >>> names, found = ("constant", "age", "height"), np.array([[2.0, 0.3, 0.0]])
    >>> path = LassoPath(1.0, names, np.array([0.5]), found, np.array([0.4]), "R^2", 0, model=None)
    >>> path.summary().splitlines()[0], path.summary().splitlines()[-1]
    ('Lasso, weight 0.5: R^2 0.4', '1 column left out')
    """

    l1_ratio: float
    names: tuple[str, ...]
    weights: Floats
    coefficients: Floats
    scores: Floats
    criterion: str
    best: int
    model: TrainedModel

    def to_dict(self) -> JsonObject:
        """For JSON; the model has a file of its own."""
        return {
            "l1_ratio": self.l1_ratio,
            "names": list(self.names),
            "weights": self.weights.tolist(),
            "coefficients": self.coefficients.tolist(),
            "scores": self.scores.tolist(),
            "criterion": self.criterion,
            "best": self.best,
        }

    def summary(self) -> str:
        """What was chosen, at most 79 columns wide; columns that are not in it are counted."""
        chosen = self.coefficients[self.best]
        inside = [(name, b) for name, b in zip(self.names, chosen.tolist(), strict=True) if b or name == CONSTANT]
        kind = "Lasso" if self.l1_ratio == 1 else f"Elastic net, l1_ratio {self.l1_ratio:g}"
        lines = [f"{kind}, weight {self.weights[self.best]:.4g}: {self.criterion} {self.scores[self.best]:.4g}"]
        lines += [f"{name[:64]:<64} {b:>12.5g}" for name, b in inside]
        out = len(self.names) - len(inside)
        return "\n".join((*lines, f"{out} column{'s' * (out != 1)} left out"))
