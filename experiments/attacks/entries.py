"""How many numbers of single devices come out bit for bit, of everything that answers carry: G^(1), X'X, X'X e.

``one_device`` scores pictures, which come from G^(1) alone. X'X says as much about a device and travels in the same
answers: in one-shot itself, in the other schemes as products with every e, which a curious server chooses so that they
are columns of X'X. Here lattice reduction and sparse solves are run on a sample of those numbers as well. Sparse solves
need devices that hold nothing: of a class there are such devices, of X'X never, so they find nothing of it even with
masks off.

For large alpha lattice reduction comes out near everybody's average, and so do the numbers of X'X, which may have a
dozen bits: a few are then hit by chance. How many to expect is read off the near misses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from codedfl.data.problem import Problem
from codedfl.typing import Planes
from experiments.attacks.coded_run import coded_sums, true_parts
from experiments.attacks.scoring import SIGMAS
from experiments.attacks.short_vectors import Grid, ShortVectors
from experiments.views import View

SAMPLE = 40  # numbers of each kind, evenly spread; each is of every device
_NEAR = 50  # units: so near to the truth, one miss is as likely as another
_FEW = 3  # that chance explains even where it explains none on average


@dataclass(frozen=True)
class Recovery:
    """Of the numbers of single devices that are not 0, how many an attack found; and would by chance."""

    what: str
    attack: str
    recovered: int
    attempted: int
    by_chance: float

    @property
    def beyond_chance(self) -> bool:
        return self.recovered > self.by_chance + SIGMAS * math.sqrt(self.by_chance) + _FEW


def recovered_entries(server: View, problem: Problem) -> list[Recovery]:
    attacker = ShortVectors(server)
    ring = server.agreed.fixed_point.ring
    found = []
    for what, grid, sums, parts in _targets(server, problem):
        truth = ring.to_integers(parts)
        for attack, numbers in (
            ("lattice reduction", attacker.lattice(sums, grid)),
            ("sparse solves", attacker.sparse(sums, grid)),
        ):
            right, near = 0, 0.0
            if numbers is not None:
                missed = np.abs((numbers - truth)[truth != 0] >> grid.shift)  # a 0 that is found is no secret
                right = int(np.count_nonzero(missed == 0))
                near = float(np.count_nonzero((missed > 0) & (missed <= _NEAR))) / (2 * _NEAR)
            found.append(Recovery(what, attack, right, int(np.count_nonzero(truth)), near))
    return found


def _targets(server: View, problem: Problem) -> Iterator[tuple[str, Grid, Planes, Planes]]:
    """(what, its grid, coded sums, the truth): a sample of G^(1) of the first class, and of what X'X goes into."""
    p = server.agreed.parameters
    one_class = np.arange(p.n_features) * p.n_outputs
    sums, truth = coded_sums(server, 1), true_parts(server, problem, 1)
    yield "G^(1)", Grid.of_constant(server), *_sample(sums, truth, one_class)
    if p.reveals_gram:
        triangle = p.constant_length + np.arange(p.triangle_length)
        yield "X'X", Grid.of_gram(server), *_sample(sums, truth, triangle)
    else:
        sums, truth = coded_sums(server, 2), true_parts(server, problem, 2)
        yield "X'X e", Grid.of_product(server, 2), *_sample(sums, truth, one_class)


def _sample(sums: Planes, truth: Planes, places: np.ndarray) -> tuple[Planes, Planes]:
    chosen = places[np.linspace(0, len(places) - 1, min(SAMPLE, len(places))).astype(int)]
    return np.ascontiguousarray(sums[:, :, chosen]), np.ascontiguousarray(truth[:, :, chosen])
