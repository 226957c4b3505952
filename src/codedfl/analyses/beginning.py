"""What is asked of a model's columns before an iteration begins: that few combinations are not rare, that all vary."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Totals
from codedfl.contract.combinations import FEW_CELLS, count_cells, mostly_own
from codedfl.contract.models import StudyModel
from codedfl.contract.models.glm import GlmModel
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats

_NAMED = 0.2


def check_cells(totals: Totals, model: StudyModel) -> Generator[Ask, Any, None]:
    """Refuse columns of few combinations some of which are rare: what is asked next would tell their rows.

    Iterations do not where most rows have a combination of their own: the rule that a device has for columns with many
    combinations (``iteration_objection``), so that a wider range of the same rows changes nothing.

    Examples
    --------
    See ``codedfl.analyses.glm.glm``, which begins with it.
    """
    if count_cells(totals.study, model) > FEW_CELLS:
        return
    numbers: list[int] = yield totals.ask("crosstable", model)
    rows, devices = np.array(numbers).reshape(2, -1)
    smallest, least = totals.study.smallest_cell, totals.study.colluders + 2
    if model.iterates and mostly_own(int((rows > 0).sum()), int(rows.sum())):
        return
    rare = int(((rows > 0) & ((rows < smallest) | (devices < least))).sum())
    if rare:
        raise InvalidInput(
            f"combinations of columns that occur in the model {model.name!r} must each have at least {smallest} rows on"
            f" {least} devices, since their number would be told, got {rare} with fewer: take coarser steps, join"
            " levels, or leave a column out"
        )


def check_columns(totals: Totals, model: StudyModel) -> None:
    """Refuse columns that do not vary, or that depend on each other where no penalty decides between them, by name.

    Examples
    --------
    See ``codedfl.analyses.glm.start``, which begins with it.
    """
    linear, _ = totals.present(model.columns)
    names, variance = linear.study.design_names, linear.moments().variance
    if not variance.all():
        still = [name for name, one in zip(names, variance, strict=True) if not one]
        raise InvalidInput(
            f"columns of the model {model.name!r} must vary, got ones that do not: {', '.join(still)}; leave them out"
        )
    if getattr(model, "regularisation", 0.0):
        return
    deviation = np.sqrt(variance)
    refuse_dependent(linear.covariance() / np.outer(deviation, deviation), names, model.name)


def check_weights(totals: Totals, model: GlmModel) -> None:
    """Weights that are other than the lowest in few rows would pick these out.

    Examples
    --------
    See ``codedfl.analyses.glm.glm``, which begins with it.
    """
    if not model.weights:
        return
    place = totals.study.table_columns.names.index(model.weights)
    _, above = totals.counts.columns[place]
    smallest, least = totals.study.smallest_cell, totals.study.colluders + 2
    if above.rows and (above.rows < smallest or above.devices < least):
        raise InvalidInput(
            f"weights of the model {model.name!r} must be above the lowest in at least {smallest} rows on {least}"
            f" devices, got fewer: {model.weights!r} picks out people"
        )


def refuse_dependent(correlation: Floats, names: Sequence[str], model: str) -> None:
    """Refuse columns with this correlation of which some follow from others, by name.

    Examples
    --------
    >>> from codedfl.analyses.beginning import refuse_dependent
    >>> refuse_dependent(np.eye(2), ("age", "height"), "m")
    >>> try:
    ...     refuse_dependent(np.ones((2, 2)), ("age", "born"), "m")
    ... except InvalidInput as error:
    ...     print(str(error)[-20:])
    born; leave some out
    """
    values, vectors = np.linalg.eigh(correlation)
    lost = values <= 1e-10 * values[-1]
    if lost.any():
        parts = np.abs(vectors[:, lost]).max(axis=1)
        named = ", ".join(name for name, part in zip(names, parts, strict=True) if part >= _NAMED * parts.max())
        raise InvalidInput(
            f"columns of the model {model!r} must be independent, got some that depend on each other: {named}; leave"
            " some out"
        )
