"""What is asked of a model's columns before an iteration begins: that all vary, and none depends on others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codedfl.analyses.analysis import Totals
from codedfl.contract.models import StudyModel
from codedfl.errors import InvalidInput
from codedfl.typing import Floats

_NAMED = 0.2


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
