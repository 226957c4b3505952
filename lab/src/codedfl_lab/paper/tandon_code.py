"""Tandon et al.'s random cyclic gradient code over the reals, which the paper takes (II-B, eq. 1).

>>> import numpy as np
>>> code = TandonCode(5, 3, np.random.default_rng(0))
>>> [np.flatnonzero(row).tolist() for row in code.B]
[[0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 3, 4], [0, 1, 4]]
>>> survivors = [0, 2, 3]
>>> (code.decoding_vector(survivors) @ code.B[survivors]).round(12).tolist()
[1.0, 1.0, 1.0, 1.0, 1.0]

In the paper's datatype A and B are rounded to f bits, and A B is no longer 1:

>>> from codedfl_lab.paper import PaperFixedPoint
>>> rounded = code.rounded(PaperFixedPoint(48, 24))
>>> 0 < rounded.error(survivors) < 1e-6
True
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

import numpy as np

from codedfl.typing import Floats
from codedfl_lab.code.gradient_code import check_alpha
from codedfl_lab.paper.fixed_point import PaperFixedPoint


class TandonCode:
    """B from their Algorithm 2, A row by row as in Algorithm 1; any D - alpha + 1 rows of B decode.

    datatype: what both are rounded to; None keeps the reals.

    Paper: II-B, eq. 1. Shown by ``pytest tests/code/test_gradient_code.py -k random_real_code``.
    """

    def __init__(self, n_devices: int, alpha: int, rng: np.random.Generator) -> None:
        check_alpha(alpha, n_devices)
        self.n_devices = n_devices
        self.alpha = alpha
        self.datatype: PaperFixedPoint | None = None
        self.B = np.eye(n_devices)
        stragglers = alpha - 1
        if stragglers == 0:
            return
        # H has rows that sum to zero, so the all-ones vector lies in the null space that the rows of B span.
        H = rng.standard_normal((stragglers, n_devices))
        H[:, -1] = -H[:, :-1].sum(axis=1)
        for i in range(n_devices):
            support = [(i + s) % n_devices for s in range(alpha)]
            self.B[i, support[1:]] = -np.linalg.solve(H[:, support[1:]], H[:, support[0]])

    def rounded(self, datatype: PaperFixedPoint) -> TandonCode:
        """The code in Q<k,f> (II-B); refused (InvalidInput) where a coefficient is out of its range."""
        code = copy(self)
        code.datatype, code.B = datatype, _on_grid(self.B, datatype)
        return code

    def decoding_vector(self, survivors: Sequence[int]) -> Floats:
        """Least-squares solution of a B[survivors] = 1: for the rounded B where it is rounded, and rounded itself."""
        solved = np.linalg.lstsq(self.B[list(survivors)].T, np.ones(self.n_devices), rcond=None)
        found = np.asarray(solved[0], dtype=np.float64)
        return found if self.datatype is None else _on_grid(found, self.datatype)

    def error(self, survivors: Sequence[int]) -> float:
        """The largest entry of |a B - 1|: by which share one device's gradient counts too much or too little."""
        return float(np.abs(self.decoding_vector(survivors) @ self.B[list(survivors)] - 1.0).max())


def _on_grid(values: Floats, datatype: PaperFixedPoint) -> Floats:
    return datatype.to_reals(datatype.from_reals(values))
