"""What pictures are made of: residuals, QQ points, calibration and ROC, without counts below the smallest cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from experiments.statistics import robust
from experiments.statistics.cases import found
from experiments.statistics.glm import made_up
from experiments.statistics.plots import lines

from codedfl.analyses.glm import GlmFinding
from codedfl.analyses.residuals import ResidualsFinding
from codedfl.analyses.scoring import ClassScore
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.residuals import ResidualsModel
from codedfl.errors import MessageRefused
from codedfl.statistics.statistic import Ask
from totals import conducted, dealt
from wording import exactly

COLUMNS = ("age", "ward")


def test_they_are_those_of_the_oracles():
    assert [line for line in lines() if line.difference > line.bound] == []


def test_parts_with_few_residuals_are_joined():
    case = robust.made_up(200)
    (fit,) = found(case, case.study(ResidualsModel("m", COLUMNS))).models
    assert isinstance(fit, ResidualsFinding)
    assert fit.counts.sum() == 200 and len(fit.counts) == len(fit.edges) + 1 > 10
    assert set(fit.counts.tolist()) & {1, 2, 3, 4} == set()


def test_who_holds_which_row_changes_no_bit():
    case = robust.made_up(300)
    study = case.study(ResidualsModel("m", COLUMNS))
    first, second = (conducted(study, dealt(study, case.table, n, seed=n)).models[0].to_dict() for n in (3, 8))
    assert first == second


def test_a_deviation_is_positive():
    study = robust.made_up(300).study(ResidualsModel("m", COLUMNS))
    line = "an ask must fit the study: the deviation in a point of residuals must be above 0, got 0"
    with pytest.raises(MessageRefused, match=exactly(line)):
        Ask.decode(Ask("residuals", (), np.zeros(5), "m").encode(), study)


def test_a_logistic_model_is_judged_on_held_out_rows():
    case = made_up("logistic", 1500)
    study = case.study(LogisticModel("m", COLUMNS), held_out=0.3)
    (fit,) = found(case, study).models
    assert isinstance(fit, GlmFinding) and isinstance(fit.score, ClassScore)
    assert fit.score.rows + fit.fit.rows == 1500 and 350 < fit.score.rows < 550
    assert any(line.startswith("accuracy ") for line in fit.lines())
    few = found(case, case.study(LogisticModel("m", COLUMNS), points=3)).models[0]
    assert few.lines()[-1] == "no calibration: points must be more than 3 for it"


@pytest.mark.parametrize(
    "counts",
    [
        [90, 3, 13, 94, *[90, 0, 0, 0, 0, 0, 0, 0, 0, 3], *[13, 0, 0, 0, 0, 0, 0, 0, 0, 94]],
        [90, 6, 13, 94, *[88, 0, 0, 0, 0, 2, 0, 0, 0, 6], *[13, 0, 0, 0, 0, 0, 0, 0, 0, 94]],
    ],
    ids=["few false positives", "few at just a half"],
)
def test_what_would_give_back_a_small_count_is_withheld(counts: list[int]):
    """Class totals are known, so that of two classes any one cell, and any rate at a half, is the matrix."""
    score = ClassScore.of(counts, 2, smallest_cell=5)
    line = (
        "confusion matrix, calibration and ROC curve are withheld, and accuracy counts errors in steps of 5: a count by"
        " class is below 5 (smallest_cell), and others would give it back; hold out more rows"
    )
    found = score.to_dict()
    assert (found["confusion"], found["calibration"], found["roc"], found["withheld"]) == (None, None, [], line)
    assert found["auc"] is None and score.value == found["accuracy"] == 1 - 20 / score.rows
    assert score.shown_accuracy() in ("at least 90.0 %", "at least 90.1 %")


def told_small_counts(rows: int, smallest: int, told: Callable[[ClassScore], object]) -> int:
    """How many of all that can be told of two classes fix a count below ``smallest``, over all tables of ``rows`` rows.

    Scores are at 0, just below a half, at a half and at 1. A class has no row or enough, as devices see to.
    """
    tables = defaultdict(list)
    for bars in combinations(range(rows + 7), 7):
        places = np.zeros((2, 10), dtype=int)
        places[:, [0, 4, 5, 9]] = (np.diff([-1, *bars, rows + 7]) - 1).reshape(2, 4)
        if any(0 < count < smallest for count in places.sum(axis=1)):
            continue
        matrix = places.reshape(2, 2, 5).sum(axis=2).ravel()
        errors = int(matrix[1] + matrix[2])
        score = ClassScore.of([*matrix.tolist(), *places.ravel().tolist()], 2, smallest)
        tables[repr(told(score))].append([*matrix.tolist(), errors, rows - errors])
    return sum(
        any(len(set(one)) == 1 and 0 < one[0] < smallest for one in zip(*same, strict=True)) for same in tables.values()
    )


@pytest.mark.hospitals
def test_no_small_count_follows_from_all_that_is_told_of_a_score():
    """Accuracy told exactly beside a withheld matrix was a count of errors; rounded to cells it fixes none."""
    exact = [ClassScore.to_dict, lambda score: (score.to_dict(), int(np.trace(score.confusion)))]
    assert [told_small_counts(8, 3, told) for told in exact] == [0, 4]


def test_a_roc_curve_hides_small_counts():
    first, second = [40, 30, 3, 9, 8, 4, 0, 0, 2, 0], [0, 0, 6, 6, 1, 9, 30, 8, 20, 27]
    score = ClassScore.of([90, 6, 13, 94, *first, *second], 2, smallest_cell=5)
    rates = np.array(score.roc())
    counts = [count for one in score.calibration or () for count in (one.second, one.rows - one.second)]
    assert not {1, 2, 3, 4} & set(counts) and 0.5 in [one.high for one in score.calibration or ()]
    steps = np.diff(rates, axis=0) * [sum(first), sum(second)]
    assert len(rates) > 3 and all(abs(step) < 1e-9 or step > 4.999 for step in steps.ravel())
