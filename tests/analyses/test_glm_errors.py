"""Dispersion, robust errors and Gamma models beside statsmodels, and the one line that each refusal is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.statistics.cases import Case, found, found_by
from experiments.statistics.dispersion import COLUMNS, KINDS, by_clinics, compared, made_up

from codedfl.analyses.glm import GlmFinding
from codedfl.contract.models.dispersed import GammaModel, QuasiPoissonModel
from codedfl.contract.models.glm import GlmModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.statistics.statistic import Ask
from totals import dealt, total_of
from wording import exactly

CLUSTERED: dict[str, Any] = {"errors": "cluster", "cluster": "clinic"}


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_those_of_statsmodels(kind: str):
    lines = list(compared(kind))
    assert len(lines) >= 12
    assert [line for line in lines if not line.difference <= line.bound] == []


def test_weights_repeat_rows():
    assert [line for line in compared("poisson", weights="times") if not line.difference <= line.bound] == []


@pytest.mark.parametrize("keys", [{}, {"errors": "HC0"}, CLUSTERED])
@pytest.mark.parametrize("kind", [PoissonModel, GammaModel])
def test_who_holds_which_row_changes_no_bit(kind: type[GlmModel], keys: dict[str, Any]):
    """Rows of a cluster stay together, in any order."""
    case = made_up(kind.kind, 300)
    study = case.study(kind("m", COLUMNS, **keys))
    ask = Ask("sandwich", (), np.array([0.1, 0.5, -0.2, 0.3]), "m")
    (together,) = dealt(study, case.table, 1)
    clusters = together.codes[:, 2]
    order = np.random.default_rng(5).permutation(300)
    parts = [order[clusters[order] % 3 == place] for place in range(3)]
    names = ("codes", "target", "held_out")
    moved = [replace(together, **{name: getattr(together, name)[part] for name in names}) for part in parts]
    assert total_of(study, ask, moved) == total_of(study, ask, [together])


def test_overdispersed_counts_are_told_to_have_errors_that_are_too_small():
    case = made_up("poisson")
    (fit,) = found_by(case.study(PoissonModel("m", COLUMNS)), by_clinics(case)).models
    assert isinstance(fit, GlmFinding) and fit.fit.dispersion is not None
    line = (
        f"errors are too small: they take a dispersion of 1, and it is {fit.fit.dispersion:.4g}; take kind ="
        ' "quasi-poisson" or "negative-binomial", or errors = "HC1"'
    )
    assert line in fit.lines()
    (fit,) = found_by(case.study(QuasiPoissonModel("m", COLUMNS)), by_clinics(case)).models
    assert isinstance(fit, GlmFinding) and fit.fit.aic is None
    assert not any("too small" in one for one in fit.lines())


def refused(case: Case, model: GlmModel, line: str, **changes: Any) -> None:
    assert found(case, case.study(model, **changes)).models[0].lines() == [f"none: {line}"]


def test_few_clusters():
    case = made_up("poisson")
    case = replace(case, values={**case.values, "clinic": np.arange(800) % 7.0})
    parts = {f"device-{place}": case.table.rows(np.flatnonzero(np.arange(800) % 7 % 4 == place)) for place in range(4)}
    (none,) = found_by(case.study(PoissonModel("m", COLUMNS, **CLUSTERED)), parts).models
    assert none.lines() == ["none: clusters of the model 'm' must be at least 8, twice its coefficients, got fewer"]


def test_a_row_far_from_what_is_predicted_is_not_cut_off_in_silence():
    """Costs of a cent, and every hundredth of 400."""
    case = made_up("gamma")
    y = np.full(800, 0.01)
    y[::100] = 400.0
    case = replace(case, values={**case.values, "y": y})
    line = (
        "rows must lie near what the model 'm' predicts for its errors, got some beyond four times the target's range,"
        " or a thousand standard deviations: look for wrong values, or take another family"
    )
    refused(case, GammaModel("m", COLUMNS, errors="HC0", bound=12.0), line, smallest_cell=2)


def test_errors_need_a_point():
    line = "points must be more than 3 for the errors of the model 'm': its coefficients were found without"
    refused(made_up("logistic"), LogisticModel("m", COLUMNS, errors="HC0"), line, points=3)


def test_a_device_refuses_coefficients_beyond_the_bound():
    study = made_up("logistic").study(LogisticModel("m", COLUMNS, errors="HC0"))
    message = "the linear predictor of 'm' must lie within -10 and 10 over the ranges, got [-1, 19]"
    with pytest.raises(MessageRefused, match=exactly(f"an ask must fit the study: {message}")):
        Ask.decode(Ask("sandwich", (), np.array([9.0, 10.0, 0.0, 0.0]), "m").encode(), study)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            LogisticModel("m", COLUMNS, errors="HC3"),
            "errors of the model 'm' must be model, HC0, HC1 or cluster, got 'HC3'",
        ),
        (
            LogisticModel("m", COLUMNS, errors="cluster"),
            "cluster of the model 'm' must be said with errors = 'cluster', and only then",
        ),
        (
            LogisticModel("m", COLUMNS, errors="HC0", regularisation=0.1),
            "regularisation of the model 'm' must be 0 for standard errors, got 0.1",
        ),
        (GammaModel("m", COLUMNS), "the target 'y' must be a number for the model 'm', got classes: of 0 and"),
    ],
)
def test_keys_that_do_not_fit(model: GlmModel, message: str):
    with pytest.raises(InvalidInput) as caught:
        made_up("logistic").study(model)
    assert str(caught.value).startswith(message)


def test_a_gamma_model_is_of_numbers_above_zero():
    message = "the range of the target 'y' must begin above 0 for the model 'm', got 0"
    with pytest.raises(InvalidInput, match=exactly(message)):
        made_up("poisson").study(GammaModel("m", COLUMNS))
