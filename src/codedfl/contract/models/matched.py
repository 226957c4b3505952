"""How large a matched set, or a cluster of rows that are alike, may be."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from codedfl.typing import Integers

MOST_IN_SET = 50  # rows of a set or a cluster, which bound what it adds


def too_large(name: str, sets: str, codes: Mapping[str, Integers]) -> str:
    """Why these sets are too large for a model; "" if they are not.

    >>> too_large("m", "set", {"set": np.array([1, 1, 2])})
    ''
    """
    most = int(np.unique(codes[sets], return_counts=True)[1].max(initial=0))
    if most <= MOST_IN_SET:
        return ""
    return f"{sets!r} of the model {name!r} must have at most {MOST_IN_SET} rows of one value, got {most}"
