"""What the devices' rows become in a study of random features, for whoever has them all: baselines, and references."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from codedfl.contract.merging import Merged, merged_study
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.model import TrainedModel
from codedfl.exact.fitted_rows import fitted
from codedfl.solve.registry import make_solver
from codedfl.statistics.products import Products
from codedfl.statistics.statistic import Ask, recoded_rows, statistic_of
from codedfl.typing import Floats
from codedfl_lab import datasets
from experiments.local_study import LocalStudy, pixels_table

MOST_ROUNDS = 400


@dataclass(frozen=True)
class PlainRows:
    """Of a study of digits that was agreed to here."""

    made: LocalStudy

    @cached_property
    def merged(self) -> Merged:
        """What the counts leave out, found as the server finds it."""
        return self.made.rehearsed().findings.merged

    @cached_property
    def parts(self) -> list[tuple[Floats, Floats]]:
        """X and Y of each device."""
        return [
            rows_of(self.made.study, self.made.roster, self.merged, snapshot)
            for snapshot in self.made.snapshots().values()
        ]

    @cached_property
    def _test(self) -> tuple[object, np.ndarray]:
        data = datasets.load("digits", use_network=False)
        return pixels_table(data.X_test, data.y_test), data.y_test

    def score(self, theta: Floats) -> float:
        """Accuracy on rows that no device has."""
        return model_of(self.made.study, self.merged, theta).score(*self._test)

    def epochs_to(self, target: float) -> int:
        """How many epochs the study's solver needs, in floating point."""
        gram = np.sum([X.T @ X for X, _ in self.parts], axis=0)
        constant = np.sum([-X.T @ Y for X, Y in self.parts], axis=0)
        study = self.made.study
        solver = make_solver(study.solver, regularisation=float(study.regularisation), epochs=study.epochs)
        solver.start(np.zeros(constant.shape), constant, sum(len(X) for X, _ in self.parts))
        for epoch in range(1, study.epochs + 1):
            if solver.model is not None and self.score(solver.model) >= target:
                return epoch
            asked = solver.request()
            if asked is None:
                break
            solver.receive(asked, gram @ asked)
        raise SystemExit(f"the study must reach {target} within {study.epochs} epochs")

    def rounds_to(self, target: float, steps: int, size: float, most: int = MOST_ROUNDS) -> int:
        """How many rounds FedAvg needs: it waits for everybody, so its models are the same anywhere. 0: it does not."""
        total, regularisation = sum(len(X) for X, _ in self.parts), float(self.made.study.regularisation)
        theta = np.zeros((self.parts[0][0].shape[1], self.parts[0][1].shape[1]))
        for number in range(1, most):
            mean = np.zeros_like(theta)
            for X, Y in self.parts:
                local = theta
                for _ in range(steps):
                    local = local - size * (X.T @ (X @ local - Y) / len(X) + regularisation * local)
                mean += local * len(X) / total
            theta = mean
            if not np.isfinite(theta).all() or np.abs(theta).max() > 1e6:
                return 0
            if self.score(theta) >= target:
                return number
        return 0


def rows_of(plain: Study, roster: Roster, merged: Merged, snapshot: Snapshot) -> tuple[Floats, Floats]:
    """X and Y of one device's snapshot."""
    ask = Ask("products", merged)
    statistic = statistic_of(plain, ask)
    assert isinstance(statistic, Products)
    train = recoded_rows(plain, ask, snapshot).part(held_out=False)
    study = statistic.study
    rows = statistic.recipe.rows(study.matrix(train.codes), study.target.values(train.target))
    X, Y, _ = fitted(rows.X.astype(np.float64), rows.Y, statistic.scales(len(roster.owners)).bounds, None)
    return X, Y


def model_of(study: Study, merged: Merged, theta: Floats) -> TrainedModel:
    final = merged_study(study, merged)
    return final.model(final.recipe(), theta)
