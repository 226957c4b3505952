"""Models of random features: products epoch by epoch, after a covariance where components are wanted."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from codedfl.analyses.linear import LinearTotal
from codedfl.analyses.scoring import Score, ask_score
from codedfl.contract.merging import Merged, merged_study
from codedfl.contract.study import Study
from codedfl.data.features import Principal
from codedfl.data.features.pca_rbf import principal_directions
from codedfl.data.model import TrainedModel
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats


def principal_of_total(study: Study, integers: list[int]) -> Principal:
    """The principal components of the columns, scaled by their public ranges, from the total of ``gram``.

    Examples
    --------
    >>> from codedfl.analyses.kernel import principal_of_total
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> study = Study("stays", (age,), days, 5000, 1000, 3, features="pca-rbf", components=1)
    >>> principal_of_total(study, [3, 0, 0, 200, 200, 200]).centre
    array([0.5])
    """
    total, scaling = LinearTotal(study, integers), study.preprocessing()
    covariance = total.covariance() / np.outer(scaling.scale, scaling.scale)
    # A mean is a float of an exact fraction: rounding must not put it outside the ranges.
    centre = np.clip((total.moments().mean - scaling.shift) / scaling.scale, scaling.low, scaling.high)
    return principal_directions(centre, covariance, study.components or 0)


def conduct_kernel(
    study: Study, merged: Merged, no_score: str = ""
) -> Generator[Ask, Any, tuple[TrainedModel, Score | None, str, list[int]]]:
    """Ask for a model of random features and, unless ``no_score`` says why not, for its score.

    The answer to products is Theta as its solver found it.
    Returns the model, its score, why there is none, and the total of ``gram`` if there was one.

    Examples
    --------
    >>> from codedfl.analyses.kernel import conduct_kernel
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> days = NumberTarget("days", (0.0, 60.0), 1.0)
    >>> next(conduct_kernel(Study("stays", (age,), days, 5000, 1000, 3, features="rbf"), ()))
    <Ask for products>
    """
    final = merged_study(study, merged)
    principal, flat, total = None, np.zeros(0), []
    if study.needs_covariance:
        total = yield Ask("gram", merged)
        principal = principal_of_total(final, total)
        flat = np.concatenate((principal.centre, principal.components.ravel()))
    theta: Floats = yield Ask("products", merged, flat)
    model = final.model(final.recipe(principal), theta)
    if no_score:
        return model, None, no_score, total
    score, no_score = yield from ask_score(final, merged, np.concatenate((flat, model.theta.ravel())))
    return model, score, no_score, total
