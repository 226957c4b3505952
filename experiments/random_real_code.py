"""Tandon et al.'s random cyclic gradient code over the reals, which the paper takes: the reference of ours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from codedfl.code.gradient_code import check_alpha
from codedfl.typing import Floats


class RandomRealCode:
    """Tandon et al.'s random cyclic code over the reals: B from their Alg. 2, A row by row as in Alg. 1."""

    def __init__(self, n_devices: int, alpha: int, rng: np.random.Generator) -> None:
        check_alpha(alpha, n_devices)
        self.n_devices = n_devices
        self.alpha = alpha
        self.B = np.zeros((n_devices, n_devices))
        stragglers = alpha - 1
        if stragglers == 0:
            self.B[...] = np.eye(n_devices)
            return
        # H has rows that sum to zero, so the all-ones vector lies in the null space that the rows of B span.
        H = rng.standard_normal((stragglers, n_devices))
        H[:, -1] = -H[:, :-1].sum(axis=1)
        for i in range(n_devices):
            support = [(i + s) % n_devices for s in range(alpha)]
            self.B[i, support[0]] = 1.0
            self.B[i, support[1:]] = -np.linalg.solve(H[:, support[1:]], H[:, support[0]])

    def decoding_vector(self, survivors: Sequence[int]) -> Floats:
        """Least-squares solution of a B[survivors] = 1."""
        ones = np.ones(self.n_devices)
        return np.asarray(np.linalg.lstsq(self.B[list(survivors)].T, ones, rcond=None)[0], dtype=np.float64)
