"""Single devices from coded sums B g modulo M, g small: by lattice reduction, and by small sparse solves.

* Lattice: g is short against M, so it is the short one among all solutions of B x = y. LLL reduces the lattice of
  B x = 0 once per code; for every entry any solution is brought close to zero (Babai's rounding).
* Sparse: on label-sorted data a class lives on a few neighbouring devices. For each window of neighbours the small
  system is solved; a right window shows by numbers that are small throughout. This needs no lattice, and it works where
  lattices fail (large alpha).
"""

from __future__ import annotations

import flint
import numpy as np
from numpy.typing import NDArray

from codedfl.fixed_point import GRID_BITS
from codedfl.ring import Planes, Ring
from codedfl.row_reduction import reduced
from codedfl.views import View

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PROBE = 8


class ShortVectors:
    """The attacks for the code of one run, on entries that are multiples of 2^``shift`` ring units."""

    def __init__(self, server: View) -> None:
        agreed = server.agreed
        format_ = agreed.fixed_point
        self.ring: Ring = format_.ring
        self.matrices = agreed.code.matrix()
        self.n = agreed.n_devices
        self.rank = agreed.code.answers_needed
        # With labels 0 and 1, X'Y is a sum of gridded features: a multiple of the features' unit.
        self.shift = max(0, format_.constant_bits - format_.feature_bits)
        self.small = agreed.parameters.bounds.samples_per_device << GRID_BITS
        self._reduce()

    def lattice(self, sums: Planes) -> Integers:
        """Short x with B x = sums, for each entry: (P, D, d) -> (D, d) in ring units."""
        residues = self._divided(sums)
        forms = [
            reduced(np.hstack([B, y]), p, pivot_columns=self.n)[0][: self.rank, self.n :]
            for B, y, p in zip(self.matrices, residues, self.ring.primes, strict=True)
        ]
        solution = np.zeros((self.n, sums.shape[2]), dtype=np.int64)
        solution[: self.rank] = self._integers(np.stack(forms))
        nearest = np.rint(solution.T.astype(np.float64) @ self._inverse).astype(np.int64)
        return (solution - (nearest @ self._basis).T) << self.shift

    def sparse(self, sums: Planes) -> Integers | None:
        """The same from windows of neighbours, smallest first; None if no window gives small numbers."""
        residues = self._divided(sums)
        for width in range(1, self.rank + 1):
            for first in range(self.n):
                window = [(first + k) % self.n for k in range(width)]
                # A few entries rule out nearly every wrong window before all are solved.
                if not self._is_small(self._solve(window, [plane[:, :_PROBE] for plane in residues])):
                    continue
                found = self._solve(window, residues)
                if found is not None and self._is_small(found):
                    full = np.zeros((self.n, sums.shape[2]), dtype=np.int64)
                    full[window] = found << self.shift
                    return full
        return None

    def _solve(self, window: list[int], residues: list[Integers]) -> Integers | None:
        """g on the window alone with B g = the sums modulo every prime; None if there is none."""
        forms = []
        for B, y, p in zip(self.matrices, residues, self.ring.primes, strict=True):
            form, _ = reduced(np.hstack([B[:, window], y]), p, pivot_columns=len(window))
            if len(form) > len(window):
                return None
            forms.append(form[:, len(window) :])
        return self._integers(np.stack(forms))

    def _is_small(self, found: Integers | None) -> bool:
        return found is not None and int(np.abs(found).max()) <= self.small

    def _divided(self, sums: Planes) -> list[Integers]:
        return [
            np.asarray(plane, dtype=np.int64) * pow(2**self.shift, -1, p) % p
            for plane, p in zip(sums, self.ring.primes, strict=True)
        ]

    def _integers(self, residues: Integers) -> Integers:
        planes = [
            np.where(plane > p // 2, plane - p, plane) for plane, p in zip(residues, self.ring.primes, strict=True)
        ]
        return np.asarray(self.ring.to_integers(np.stack(planes).astype(np.float32)), dtype=np.int64)

    def _reduce(self) -> None:
        """The reduced basis of {x : B x = 0 modulo M}: M e_k for the pivots, (-T column, e_f) for the rest."""
        forms = np.stack([reduced(B, p)[0] for B, p in zip(self.matrices, self.ring.primes, strict=True)])
        T = self._integers(forms[:, :, self.rank :])
        rows = np.eye(self.n, dtype=object)
        for k in range(self.rank):
            rows[k, k] = self.ring.modulus
        rows[self.rank :, : self.rank] = -T.T.astype(object)
        basis = flint.fmpz_mat([[int(x) for x in row] for row in rows]).lll()
        inverse = flint.fmpq_mat(basis).inv().tolist()
        self._basis = np.array([[int(x) for x in row] for row in basis.tolist()], dtype=np.int64)
        self._inverse: Floats = np.array([[int(x.p) / int(x.q) for x in row] for row in inverse])
