"""The secure sums of a study: how many numbers each device puts into each of them."""

from __future__ import annotations

from codedfl.data.labels import ClassLabels
from codedfl.data.score_sums import BINS
from codedfl.data.studies.study import Study

SUMS, SQUARES, SCORE = "sums", "squares", "score"


def sum_length(study: Study, kind: str) -> int:
    """In the first sum rows, sums of columns, values and targets beyond their ranges; then squares about the mean."""
    width = study.table_columns.width
    if kind in (SUMS, SQUARES):
        return 2 * width + 2 if kind == SUMS else width
    labels = study.target.labels()
    if not isinstance(labels, ClassLabels):
        return 5
    return labels.n_outputs**2 + (2 * BINS if labels.n_outputs == 2 else 0)


def sum_lengths(study: Study) -> tuple[int, ...]:
    """Of all sums that the study takes."""
    kinds = (*((SUMS, SQUARES) if study.needs_moments else ()), *((SCORE,) if study.held_out > 0 else ()))
    return tuple(sum_length(study, kind) for kind in kinds)
