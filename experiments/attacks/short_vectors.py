"""Single devices from coded sums B g modulo M, g small: by lattice reduction, and by small sparse solves.

g is any number of the devices' parts (``coded_run``): of G^(1), of X'X or of X'X e.

* Lattice: g is short against M, so it is the short one among all solutions of B x = y. LLL reduces the lattice of
  B x = 0 once per code; for every entry any solution is brought close to zero (Babai's rounding).
* Sparse: on label-sorted data a class lives on a few neighbouring devices. For each window of neighbours the small
  system is solved; a right window shows by numbers that are small throughout. This needs no lattice, and it works where
  lattices fail (large alpha).
"""

from __future__ import annotations

from dataclasses import dataclass

import flint
import numpy as np
from numpy.typing import NDArray

from codedfl.exact.ring import Ring
from codedfl.exact.scales import GRID_BITS
from codedfl.privacy.row_reduction import reduced
from codedfl.typing import Planes
from experiments.views import View

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_PROBE = 8


@dataclass(frozen=True)
class Grid:
    """What is public about one device's numbers: multiples of 2^``shift`` ring units, at most ``largest`` of them."""

    shift: int
    largest: int

    @classmethod
    def of_constant(cls, server: View) -> Grid:
        """With labels 0 and 1, X'Y is a sum of gridded features: a multiple of the features' unit."""
        format_ = server.agreed.fixed_point
        shift = max(0, format_.constant_bits - format_.feature_bits)
        return cls(shift, format_.bounds.samples_per_device << GRID_BITS)

    @classmethod
    def of_gram(cls, server: View) -> Grid:
        return cls(0, _gram_of_one_device(server))

    @classmethod
    def of_product(cls, server: View, epoch: int) -> Grid:
        """X'X is whole, so X'X e is a multiple of every power of two that divides e."""
        e = server.agreed.fixed_point.ring.to_integers(server.update_on_ring(epoch))
        divisor = int(np.gcd.reduce(e, axis=None))
        shift = (divisor & -divisor).bit_length() - 1
        return cls(shift, _gram_of_one_device(server) * int(np.abs(e >> shift).sum(axis=0).max()))

    def fits(self, found: Integers | None) -> bool:
        """Whether these, in multiples of 2^shift, can be numbers of single devices."""
        return found is not None and int(np.abs(found).max()) <= self.largest


def _gram_of_one_device(server: View) -> int:
    """The proven limit on the total, scaled to the rows that one device may have."""
    format_ = server.agreed.fixed_point
    return format_.gram_limit * format_.bounds.samples_per_device // format_.bounds.samples + 1


class ShortVectors:
    """The attacks for the code of one run."""

    def __init__(self, server: View) -> None:
        agreed = server.agreed
        self.ring: Ring = agreed.fixed_point.ring
        self.matrices = agreed.code.matrix()
        self.n = agreed.n_devices
        self.rank = agreed.code.answers_needed
        self._reduce()

    def lattice(self, sums: Planes, grid: Grid) -> Integers:
        """Short x with B x = sums, for each entry: (P, D, d) -> (D, d) in ring units."""
        residues = self._divided(sums, grid)
        forms = [
            reduced(np.hstack([B, y]), p, pivot_columns=self.n)[0][: self.rank, self.n :]
            for B, y, p in zip(self.matrices, residues, self.ring.primes, strict=True)
        ]
        solution = np.zeros((self.n, sums.shape[2]), dtype=np.int64)
        solution[: self.rank] = self._integers(np.stack(forms))
        nearest = np.rint(solution.T.astype(np.float64) @ self._inverse).astype(np.int64)
        return (solution - (nearest @ self._basis).T) << grid.shift

    def sparse(self, sums: Planes, grid: Grid) -> Integers | None:
        """The same from windows of neighbours, smallest first; None if no window gives small numbers."""
        residues = self._divided(sums, grid)
        for width in range(1, self.rank + 1):
            for first in range(self.n):
                window = [(first + k) % self.n for k in range(width)]
                # A few entries rule out nearly every wrong window before all are solved.
                if not grid.fits(self._solve(window, [plane[:, :_PROBE] for plane in residues])):
                    continue
                found = self._solve(window, residues)
                if found is not None and grid.fits(found):
                    full = np.zeros((self.n, sums.shape[2]), dtype=np.int64)
                    full[window] = found << grid.shift
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

    def _divided(self, sums: Planes, grid: Grid) -> list[Integers]:
        return [
            np.asarray(plane, dtype=np.int64) * pow(2**grid.shift, -1, p) % p
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
