"""An owner's noise on X'X and X'Y, before its pads: what hides single rows in the total, from everybody and for good.

Drawn from a seed and the parameters that were agreed to, so that a repeated or restored upload has the very same noise,
in every run on the same terms: nobody can have it drawn again and average it away. Other parameters have other noise,
and another snapshot of the rows must have another seed: two totals with the same noise would differ by exact data.
"""

from __future__ import annotations

import numpy as np

from codedfl.crypto import noise
from codedfl.crypto.sealed import digest_of
from codedfl.exact.fixed_point import FixedPoint
from codedfl.protocol.agreement import Agreement, Parameters
from codedfl.typing import Integers, Planes


def noise_label(parameters: Parameters) -> str:
    """What tells the noise of one set of parameters from that of any other."""
    return digest_of([parameters.encode()]).hex()


def gram_noise(format_: FixedPoint, seed: bytes, label: str) -> Integers:
    """For the packed triangle of X'X, in units of the ring; more on the diagonal than off it (``exact.row_noise``)."""
    scales, d = format_.noise, format_.n_features
    assert scales is not None
    drawn = np.empty(d * (d + 1) // 2, dtype=np.int64)
    diagonal = np.zeros(len(drawn), dtype=np.bool_)
    diagonal[diagonal_of_triangle(d)] = True
    drawn[diagonal] = noise.draw(seed, f"{label}|diagonal", scales.diagonal, d)
    drawn[~diagonal] = noise.draw(seed, f"{label}|off the diagonal", scales.off_diagonal, len(drawn) - d)
    return drawn


def cross_noise(format_: FixedPoint, n_outputs: int, seed: bytes, label: str) -> Integers:
    """For X'Y."""
    assert format_.noise is not None
    shape = (format_.n_features, n_outputs)
    drawn = noise.draw(seed, f"{label}|cross", format_.noise.cross, shape[0] * shape[1])
    return drawn.reshape(shape)


def add_noise(format_: FixedPoint, gram: Planes, cross: Planes, seed: bytes, agreed: Agreement) -> None:
    """To one device's X'X (its triangle) and X'Y, in place."""
    ring, label = format_.ring, noise_label(agreed.parameters)
    one = [[1]] * len(ring.primes)
    ring.add_scaled(gram, one, [ring.from_integers(gram_noise(format_, seed, label))])
    ring.add_scaled(cross, one, [ring.from_integers(cross_noise(format_, cross.shape[-1], seed, label))])


def diagonal_of_triangle(size: int) -> Integers:
    """Where the diagonal stands in a packed upper triangle, row by row."""
    rows = np.arange(size, dtype=np.int64)
    return rows * size - rows * (rows - 1) // 2
