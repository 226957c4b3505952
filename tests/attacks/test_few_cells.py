"""The honest path of Newton's iteration tells how many rows each combination of categorical columns has.

On the old rule, which let any model iterate, a server that only follows the protocol reads the whole cross-table, with
single people in it. On the new one the combinations are counted first, and no coefficients are ever sent.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from codedfl.analyses import beginning
from codedfl.analyses.analysis import NotFound
from codedfl.analyses.glm import GlmFinding
from codedfl.analyses.study_analysis import conduct
from codedfl.contract.combinations import iteration_objection
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import ClassTarget, Study, StudyColumn
from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.data.tables import as_raw_table
from codedfl.statistics.newton import Newton
from totals import dealt, pooled, total_of

SIZES = (2, 2, 2, 3, 5)  # 120 combinations
NAMES = tuple(f"c{place}" for place in range(5))
MODEL = LogisticModel("m", NAMES)


def made_up() -> tuple[Study, list[Snapshot]]:
    rng = np.random.default_rng(5)
    levels = [tuple(f"l{level}" for level in range(size)) for size in SIZES]
    values = {
        name: rng.choice(all_, 2000, p=[0.6, *[0.4 / (len(all_) - 1)] * (len(all_) - 1)])
        for name, all_ in zip(NAMES, levels, strict=True)
    }
    effects = [dict(zip(all_, [0.0, *rng.normal(0, 0.9, len(all_) - 1)], strict=True)) for all_ in levels]
    columns = zip(effects, values.values(), strict=True)
    predictor = -0.3 + sum(np.array([effect[one] for one in column]) for effect, column in columns)
    ill = (rng.random(2000) < 1 / (1 + np.exp(-predictor))).astype(int)
    study = Study(
        "s",
        tuple(StudyColumn(CategoryColumn(name, all_)) for name, all_ in zip(NAMES, levels, strict=True)),
        ClassTarget("ill", (0, 1)),
        *(4000, 1000, 3),
        held_out=0.0,
        models=(MODEL,),
    )
    return study, dealt(study, as_raw_table({**values, "ill": ill}))


def path_of(study: Study, rows: list[Snapshot]) -> tuple[object, list[tuple[np.ndarray, list[int]]]]:
    """What an honest server finds, and all that it sees of an iteration."""
    run, seen = conduct(study), []
    ask = next(run)
    while True:
        total = total_of(study, ask, rows)
        if ask.statistic == "newton":
            seen.append((ask.point, total))
        try:
            ask = run.send(total)
        except StopIteration as end:
            return end.value.models[0], seen


def cross_table(study: Study, seen: list[tuple[np.ndarray, list[int]]]) -> np.ndarray:
    """Linear equations for the 120 counts: every entry of X'WX, and every change of the gradient."""
    cells = np.array(list(itertools.product(*map(range, SIZES))))
    levels = [cells[:, place] == level for place, size in enumerate(SIZES) for level in range(1, size)]
    X = np.column_stack([np.ones(len(cells)), *levels]).astype(float)
    d, (first, second) = X.shape[1], np.triu_indices(X.shape[1])
    left, right = [], []
    means, gradients = [], []
    for point, total in seen:
        numbers = np.array([one / 2 ** Newton(study, point, MODEL).bits for one in total])
        mean = 1 / (1 + np.exp(-X @ point))
        left.append(((mean * (1 - mean))[:, None] * X[:, first] * X[:, second]).T)
        right.append(numbers[3 + d :])
        means.append(mean)
        gradients.append(numbers[3 : 3 + d])
    for mean, gradient in zip(means[1:], gradients[1:], strict=True):
        left.append(((means[0] - mean)[:, None] * X).T)
        right.append(gradient - gradients[0])
    return np.rint(np.linalg.lstsq(np.vstack(left), np.concatenate(right), rcond=1e-15)[0]).astype(int)


def test_ranges_that_make_few_combinations_look_many_are_refused_by_the_device():
    """The same columns as numbers in wide ranges: nothing would be counted, so the device does not approve."""
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, size, 500) for size in SIZES], axis=1)
    wide = tuple(StudyColumn(NumberColumn(name), (0.0, 99.0), 1.0) for name in NAMES)
    study = Study("s", wide, ClassTarget("ill", (0, 1)), 4000, 1000, 3, held_out=0.0, models=(MODEL,))
    rows = Snapshot(study.digest(), codes, np.zeros(500, dtype=np.int64), np.zeros(500, dtype=np.bool_))
    found = len(np.unique(codes, axis=0))
    assert iteration_objection(study, rows) == (
        f"columns of the model 'm' must have a combination of their own in most rows of this table, got {found} in 500"
        " rows: iterations would tell how many rows each has; ask for ranges and steps that allow at most 4096"
        " combinations, which are counted first"
    )
    measured = replace(rows, codes=rng.integers(0, 100, (500, 5)))
    assert iteration_objection(study, measured) == ""


@pytest.mark.parametrize(("ages", "made"), [(1, False), (26, True)])
def test_the_same_rows_have_the_same_verdict_in_narrow_and_wide_ranges(ages: int, made: bool):
    """26 x 2 x 2 combinations are counted, 121 x 101 x 2 are not: 100 rows of them are measured, or a cross-table."""
    rng = np.random.default_rng(2)
    age, dose = 20 + np.arange(100) % ages, rng.integers(0, 2, 100)
    values = {"age": age * 1.0, "dose": dose * 1.0, "sex": rng.choice(["f", "m"], 100)}
    if not made:
        values["age"] += values["dose"] + (np.arange(100) < 2)  # two people of 22
    table = as_raw_table({**values, "ill": (rng.random(100) < 0.5).astype(int)})
    verdicts, slopes = [], []
    for years, most in (((20.0, 45.0), 1.0), ((0.0, 120.0), 100.0)):
        numbers = (("age", years), ("dose", (0.0, most)))
        columns = [StudyColumn(NumberColumn(name), ends, 1.0) for name, ends in numbers]
        columns.append(StudyColumn(CategoryColumn("sex", ("f", "m"))))
        model = LogisticModel("m", ("age", "dose", "sex"), bound=100.0)
        study = Study("s", tuple(columns), ClassTarget("ill", (0, 1)), 4000, 1000, 3, held_out=0.0, models=(model,))
        rows = dealt(study, table)
        fit, _ = path_of(study, rows)
        told = not any(iteration_objection(study, one) for one in rows)
        verdicts.append(told and isinstance(fit, GlmFinding))
        slopes.append(fit.coefficients if isinstance(fit, GlmFinding) else np.zeros(3))
    assert verdicts == [made, made]
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-6)


def test_the_honest_path_gave_the_cross_table_and_is_not_begun(monkeypatch: pytest.MonkeyPatch):
    study, rows = made_up()
    codes, _ = pooled(rows)
    truth = np.bincount(np.ravel_multi_index(codes.T, SIZES), minlength=120)
    assert (truth == 1).sum() >= 3  # single people
    with monkeypatch.context() as old_rule:
        old_rule.setattr(beginning, "FEW_CELLS", 0)
        fit, seen = path_of(study, rows)
    assert isinstance(fit, GlmFinding) and len(seen) <= 5
    assert np.array_equal(cross_table(study, seen), truth)
    refused, seen = path_of(study, rows)
    assert seen == [] and isinstance(refused, NotFound)
    assert refused.why == (
        "combinations of columns that occur in the model 'm' must each have at least 5 rows on 3 devices, since their"
        " number would be told, got 31 with fewer: take coarser steps, join levels, or leave a column out"
    )
