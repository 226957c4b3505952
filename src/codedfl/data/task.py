"""What labels are for, guessed from a table: classes, or a number. No device guesses; authors and predictions do."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from codedfl.checks import check_vector
from codedfl.errors import InvalidInput

Task = Literal["classification", "regression"]

# Whole numbers with more distinct values than this are taken for quantities (ages, counts), not for names of classes.
MOST_CLASSES_GUESSED = 20


def as_labels(y: NDArray[Any], task: Task | None) -> tuple[NDArray[Any], Task]:
    """Bring labels of any type to text, whole numbers or floats; with task None, also say what they are for.

    Text is classes, and so are truth values and whole numbers with at most 20 distinct values that each stand
    in two rows on average; everything else is a regression target. Floats that are all whole count as whole
    numbers, since many programs write no others.
    """
    if y.dtype.kind == "U":
        if task == "regression":
            raise InvalidInput(f"labels must be numbers for regression, got {str(y[0])!r}")
        return y, "classification"
    if y.dtype.kind not in "biuf":
        raise InvalidInput(f"labels must be text or numbers, got an array of {y.dtype}")
    check_vector("labels", y)
    numbers = y.astype(np.float64)
    whole = numbers == np.round(numbers)
    if task is None:
        few = len(np.unique(numbers)) <= min(MOST_CLASSES_GUESSED, len(numbers) / 2)
        task = "classification" if whole.all() and few else "regression"
    if task == "regression":
        return numbers, task
    if not whole.all():
        first = numbers[np.flatnonzero(~whole)[0]]
        raise InvalidInput(f"labels must be text or whole numbers for classification, got {first}")
    return y.astype(np.int64), task
