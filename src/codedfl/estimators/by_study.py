"""What estimators share whose model is an analysis of a study: from rows to findings, and the table of a model.

``fit(X, y, device=ids)`` makes a study of the columns, on a fine grid over the ranges that these data have, and its
totals by the real protocol, in this process: what a federation that agreed on the same study would find, bit for bit.
Where ranges and steps are agreed on by people, take a study file instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from codedfl.analyses import study_analysis  # noqa: F401  # knows all kinds of analyses
from codedfl.analyses.analysis import ANALYSES, Totals
from codedfl.analyses.driving import driven
from codedfl.analyses.inference import Inference
from codedfl.contract.models import StudyModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import ClassTarget, NumberColumn, NumberTarget
from codedfl.data.tables import as_raw_table
from codedfl.engines.in_process import InProcess
from codedfl.errors import InvalidInput
from codedfl.estimators.training_rows import dealt_by_value, device_ids, rows_by_id
from codedfl.run.rehearsal import Rehearsed, made_up_roster, rehearsal_key
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats

_STEPS = (
    1 << 20
)  # of a column between its ends: rounding then moves a coefficient by less than a thousandth of its error
_LEAST = 3  # devices
_POINTS = 100


@dataclass(frozen=True, eq=False)
class StudyRows:
    """Rows as a study has them: ``used`` columns of X vary and are in the model, ``beside`` it are others.

    target: the name of y, which no column has.
    """

    study: Study
    values: Mapping[str, NDArray[Any]]
    used: NDArray[np.int64]
    n_columns: int

    def means(self) -> Floats:
        """Of the columns that are in the model."""
        return np.array([self.values[one.name].mean() for one in self.study.columns if one.width])

    def whole(self, coefficients: Floats) -> Floats:
        """Coefficients of all columns of X; those that do not vary have none."""
        slopes = np.zeros(self.n_columns)
        slopes[self.used] = coefficients
        return slopes


class ByStudy(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What these estimators share: from rows to answers to asks, and from coefficients to predictions."""

    coef_: Floats
    intercept_: Any

    def _rows(
        self,
        X: Floats,
        y: NDArray[Any],
        target: Callable[[str], NumberTarget | ClassTarget],
        *,
        beside: Mapping[str, Floats] | None = None,
        constant: bool = False,
    ) -> StudyRows:
        """A study of the columns that vary, or of all. beside: columns of 0 and 1 that no linear model has."""
        if len(X) < _LEAST:
            raise InvalidInput(
                f"X must have at least {_LEAST} samples, one for each of {_LEAST} devices, got {len(X)} sample"
                + "s" * (len(X) != 1)
            )
        used = np.flatnonzero((np.ptp(X, axis=0) > 0) | constant)
        if not len(used):
            raise InvalidInput("X must have at least one column that varies, got none")
        names = [self._names(X)[j] for j in used]
        extra = {free_name(name, names): values for name, values in (beside or {}).items()}
        columns = [NumberColumn(name, *grid_of(X[:, j])) for name, j in zip(names, used, strict=True)]
        columns += [NumberColumn(name, (0.0, 1.0), 1.0, in_model=False) for name in extra]
        last, n = free_name("y", [*names, *extra]), len(X)
        study = Study("fit", tuple(columns), target(last), n, n, _LEAST, smallest_cell=1, held_out=0.0)
        values = {**{name: X[:, j] for name, j in zip(names, used, strict=True)}, **extra, last: y}
        return StudyRows(study, values, used, X.shape[1])

    def _fitted(self, rows: StudyRows, model: StudyModel, device: ArrayLike | None) -> tuple[Totals, Any]:
        """Server and devices in this process find what the model's analysis ends in; what cannot be made is refused."""
        columns = tuple(one.name for one in rows.study.columns if one.width)
        model = replace(model, columns=columns)
        study = replace(rows.study, models=(model,), points=_POINTS)
        answer = self._answers(replace(rows, study=study), device)
        totals = Totals(study, answer(Ask("cells")), (), answer(Ask("gram")))
        return totals, driven(ANALYSES[model.kind](totals, model), answer)

    def _names(self, X: Floats) -> list[str]:
        """Those that the rows came with, if they are texts."""
        return [str(one) for one in getattr(self, "feature_names_in_", (f"x{j}" for j in range(X.shape[1])))]

    def _answers(self, rows: StudyRows, device: ArrayLike | None) -> Callable[[Ask], list[int]]:
        """Who answers the asks of the study: server and devices in this process."""
        *columns, y = rows.values.values()
        X = np.column_stack(columns)
        if device is None:
            if self.n_devices < _LEAST:
                raise InvalidInput(f"n_devices must be at least {_LEAST}, got {self.n_devices}")
            parts = dealt_by_value(X, y, self.n_devices)
        else:
            parts = rows_by_id(device_ids(X, device))
        if len(parts) < _LEAST:
            raise InvalidInput(f"device must name at least {_LEAST} devices, got {len(parts)}")
        snapshots = {
            name: take_snapshot(
                rows.study,
                as_raw_table({one: values[part] for one, values in rows.values.items()}, name),
                rehearsal_key(name),
            )
            for name, part in parts.items()
        }
        rehearsed = Rehearsed(rows.study, made_up_roster(rows.study, parts), snapshots)
        self.devices_ = tuple(parts)
        totals = rehearsed.totals(InProcess({name: one.reply for name, one in rehearsed.devices().items()}))
        return lambda ask: [int(one) for one in np.asarray(totals.answer(ask), dtype=object)]

    def _linear(self, X: ArrayLike) -> Floats:
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(rows @ np.ravel(self.coef_) + np.ravel(self.intercept_)[0])


class WithErrors(ByStudy):
    """Estimators whose coefficients have standard errors."""

    _inference: Inference | None

    @property
    def results_(self) -> Inference:
        """Coefficients with errors and all that follows: tests, contrasts, predictions; none with a penalty."""
        check_is_fitted(self)
        if self._inference is None:
            raise InvalidInput(f"regularisation must be 0 for standard errors, got {self.regularisation}")
        return self._inference

    def summary(self) -> str:
        """The table that statistics programs print."""
        return self.results_.summary()

    def conf_int(self) -> Floats:
        """Lower and upper end of each coefficient's confidence interval, in the order of ``results_.names``."""
        return self.results_.conf_int()


def grid_of(values: Floats) -> tuple[tuple[float, float], float]:
    """The range of some values and a step; a constant is in the middle of one."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        width = max(1.0, abs(low))
        return (low - width, low + width), width
    return (low, high), (high - low) / _STEPS


def free_name(name: str, taken: list[str]) -> str:
    """The name, or one like it that nobody has."""
    while name in taken:
        name += "_"
    return name
