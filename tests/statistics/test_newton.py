"""Totals of an iteration: what they are, that no row's place matters, and which coefficients a device refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codedfl.contract.models.glm import GlmModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.poisson import PoissonModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget, DerivedColumn, NumberColumn, NumberTarget
from codedfl.data.derived import Factor
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.statistics.newton import Newton, column_reaches, linear_predictor, predictor_range, scaled_design
from codedfl.statistics.rounded import LEAST_BITS
from codedfl.statistics.statistic import Ask
from codedfl.sum.layout import LOW_BITS, Layout
from totals import total_of
from wording import exactly

COLUMNS = (
    NumberColumn("age", (0.0, 100.0), 0.01),
    NumberColumn("crp", (0.0, 500.0), 0.1, missing=2.0),
    CategoryColumn("ward", ("a", "b", "c")),
    NumberColumn("weight", (0.0, 3.0), 0.5, in_model=False),
    NumberColumn("offset", (-1.0, 1.0), 0.01, in_model=False),
)
WIDTH = 5  # age, crp, its mark, two levels
KEYS = {"weights": "weight", "offset": "offset"}


def study_of(kind: type[GlmModel], **keys: Any) -> Study:
    model = kind("m", ("age", "crp", "ward"), **keys)
    target = ClassTarget("y", (0, 1)) if kind is LogisticModel else NumberTarget("y", (0.0, 20.0), 1.0)
    return Study("s", COLUMNS, target, 5000, 1000, 3, models=(model,))


def rows_of(study: Study, n: int = 300, seed: int = 0) -> Snapshot:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, most, n) for most in (10001, 5001, 3, 7, 201)], axis=1)
    codes[::9, 1] = -1
    target = rng.integers(0, 2 if isinstance(study.target, ClassTarget) else 21, n)
    return Snapshot(study.digest(), codes, target, rng.random(n) < 0.2)


def point(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, 1 + WIDTH)


@pytest.mark.parametrize("keys", [{}, KEYS], ids=["plain", "weights and offset"])
@pytest.mark.parametrize("kind", [LogisticModel, PoissonModel])
def test_the_total_is_gradient_information_and_likelihood(kind: type[GlmModel], keys: dict[str, str]):
    study = study_of(kind, **keys)
    rows, beta = rows_of(study), point()
    total = np.array([float(one) for one in total_of(study, Ask("newton", (), beta, "m"), [rows])])
    total /= 2.0 ** Newton(study, beta, study.models[0]).bits
    train = rows.part(held_out=False)
    age, crp, ward, weight, offset = train.codes.T
    crp_filled = np.where(crp < 0, 20, crp)
    columns = (np.ones(len(age)), (age - 5000) / 5000, (crp_filled - 2500) / 2500, crp < 0, ward == 1, ward == 2)
    X, y = np.column_stack(columns).astype(float), train.target.astype(float)
    w = 0.5 * weight if keys else np.ones(len(y))
    eta = X @ beta + (0.01 * offset - 1.0 if keys else 0.0)
    if kind is LogisticModel:
        mean = 1 / (1 + np.exp(-eta))
        variance, likelihood, best = mean * (1 - mean), np.log(np.where(y == 1, mean, 1 - mean)), 0.0 * y
    else:
        factorial = np.array([float(np.log(np.arange(1.0, one + 1)).sum()) for one in y])
        mean = variance = np.exp(eta)
        likelihood = y * eta - mean - factorial
        best = np.where(y > 0, y * np.log(np.maximum(y, 1.0)), 0.0) - y - factorial
    information = (X.T * (w * variance)) @ X
    expected = [w.sum(), w @ likelihood, w @ best, *(X.T @ (w * (y - mean))), *information[np.triu_indices(1 + WIDTH)]]
    assert np.abs(total - expected).max() < 1e-7


@pytest.mark.parametrize("kind", [LogisticModel, PoissonModel])
def test_who_holds_which_row_changes_no_bit(kind: type[GlmModel]):
    study = study_of(kind, **KEYS)
    rows, ask = rows_of(study), Ask("newton", (), point(), "m")
    together = total_of(study, ask, [rows])
    order = np.random.default_rng(4).permutation(len(rows))
    for n_devices in (2, 7, 100):
        parts = [
            replace(rows, codes=rows.codes[part], target=rows.target[part], held_out=rows.held_out[part])
            for part in np.array_split(order, n_devices)
        ]
        assert total_of(study, ask, parts) == together


def test_a_device_refuses_coefficients_beyond_the_bound():
    study = study_of(LogisticModel)
    within = np.array([2.0, 3.0, 1.0, 1.0, 3.0, -4.0])  # -8 to 10: one level at a time
    assert Ask.decode(Ask("newton", (), within, "m").encode(), study).point.tolist() == within.tolist()
    message = "the linear predictor of 'm' must lie within -10 and 10 over the ranges, got [-1.99, 10.01]"
    with pytest.raises(MessageRefused, match=exactly(f"an ask must fit the study: {message}")):
        Ask.decode(Ask("newton", (), np.array([2.01, 3.0, 1.0, 1.0, 3.0, 0.0]), "m").encode(), study)


def test_only_a_model_that_needs_it_is_asked_for():
    study = study_of(LogisticModel)
    for ask, line in (
        (Ask("newton", (), point()), "newton must be asked for a model"),
        (Ask("gram", (), model="m"), "gram must be asked for a model of the study that needs it, got 'm'"),
        (Ask("newton", (), point(), "n"), "newton must be asked for a model of the study that needs it, got 'n'"),
    ):
        with pytest.raises(MessageRefused, match=f"^an ask must fit the study: {line}"):
            Ask.decode(ask.encode(), study)


def test_every_total_fits_the_ring_or_the_study_is_refused():
    study = study_of(PoissonModel)
    for rows, bits in ((1000, 36), (10**6, 33), (2**22, 31)):
        newton = Newton(replace(study, max_rows=rows), point(), study.models[0])
        layout = Layout.of_vector(1, newton.limit)
        room = layout.bits if layout.words == 1 else LOW_BITS + layout.bits
        assert (newton.bits, 1 << room >= 8 * newton.limit) == (bits, True)
    with pytest.raises(
        InvalidInput, match=rf"^max_rows times what the model 'm' can predict must leave {LEAST_BITS} bits"
    ):
        Newton(replace(study, max_rows=2**28), point(), study.models[0])


POWERS = (
    NumberColumn("age", (20.0, 90.0), 1.0, missing=50.0),
    CategoryColumn("ward", ("a", "b")),
    DerivedColumn("age^2", (0.0, 8100.0), 10.0, factors=(Factor("age", power=2),)),
    DerivedColumn("age:b", (0.0, 90.0), 1.0, factors=(Factor("age"), Factor("ward", "b"))),
)


def powers(*names: str) -> Study:
    target = ClassTarget("y", (0, 1))
    return Study("s", POWERS, target, 5000, 1000, 3, models=(LogisticModel("m", names),))


def test_a_number_and_its_powers_reach_as_far_together_as_any_row_can():
    study, beta = powers("age", "age^2"), np.array([0.5, -16.0, 0.25, 14.0])  # the constant, age, its mark, age^2
    ages = [*map(str, range(20, 91)), ""]
    codes, _ = study.codes(as_raw_table({"age": ages, "ward": ["a"] * len(ages)}))
    every = linear_predictor(scaled_design(study, study.models[0], codes), beta)
    assert predictor_range(study, study.models[0], beta) == pytest.approx((every.min(), every.max()), abs=1e-12)
    assert np.abs(every).max() < 10 < 16 + 14 - 0.75  # column by column it was refused
    Newton(study, beta, study.models[0])


def test_steep_powers_are_refused_with_what_they_reach():
    study, beta = powers("age", "age^2"), np.array([0.0, -3.0, 0.0, 14.0])
    low, high = predictor_range(study, study.models[0], beta)
    assert high > 10
    line = f"the linear predictor of 'm' must lie within -10 and 10 over the ranges, got [{low:g}, {high:g}]"
    with pytest.raises(InvalidInput, match=exactly(line)):
        Newton(study, beta, study.models[0])


def test_what_a_level_takes_part_in_counts_by_itself():
    study = powers("age", "ward", "age:b")
    reaches = column_reaches(study, study.models[0], np.array([0.0, 1.0, 0.5, 2.0, 3.0]))
    assert reaches == {"age": (-1.0, 1.5), "ward": (0.0, 2.0), "age:b": (-3.0, 3.0)}
