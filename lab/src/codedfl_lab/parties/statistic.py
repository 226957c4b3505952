"""What the devices of a training sum: X'X and X'Y of their rows in whole numbers, and how a server reads the sums.

>>> import numpy as np
>>> from codedfl_lab.parties.statistic import RowsStatistic
>>> from codedfl import Bounds
>>> rows = RowsStatistic.of(Bounds(1.0, 1.0, 10, 5), n_features=2, n_outputs=1, n_devices=3)
>>> vector, triangle = rows.numbers(np.array([[0.5, 0.25]]), np.array([[1.0]]))
>>> constant, samples, gram = rows.read([int(one) for one in vector])
>>> constant.tolist(), samples  # G^(1) = -X'Y of one row, for Theta^(1) = 0
([[-0.5], [-0.25]], 1)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto.noise import cross_noise, gram_noise
from codedfl.errors import InvalidInput, RangeExceeded
from codedfl.exact.fitted_rows import fitted
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.exact.totals import constant_to_reals, gram_to_reals
from codedfl.sum.keys import pack
from codedfl.typing import Floats
from codedfl_lab.coded.study import Sizes
from codedfl_lab.primes.fixed_point import FixedPoint
from codedfl_lab.primes.ring import NARROW

ASK = b"rows"


class Numbers(NamedTuple):
    """One device's, before any pad: integer-valued."""

    vector: Floats
    triangle: Floats


class TrainingTotals(NamedTuple):
    """G^(1), m, and X'X (its triangle) where the server is to learn it."""

    constant: Floats
    samples: int
    gram: Floats | None


@dataclass(frozen=True)
class RowsStatistic:
    """Everything public that decides it.

    scales: of the ring. n_outputs: c. reveals_gram: X'X is summed, too, instead of multiplied.
    noise: what every device adds. about: digest of what makes X and Y of rows.
    """

    scales: FixedPoint
    n_outputs: int
    reveals_gram: bool = False
    noise: RowNoise | None = None
    about: bytes = field(default=b"", repr=False)

    @classmethod
    def of(
        cls,
        bounds: Bounds,
        *,
        n_features: int,
        n_outputs: int,
        n_devices: int,
        ring_sizes: tuple[int, ...] = (),
        narrow: bool = False,
        precision: int | None = None,
        reveals_gram: bool = False,
        noise: RowNoise | None = None,
        about: bytes = b"",
    ) -> RowsStatistic:
        """The scales by the rules of ``exact.fixed_point``: all schemes on as many devices have the same ones."""
        if narrow:
            if precision is not None:
                raise InvalidInput("narrow must be off where precision is asked for, got both")
            if noise is not None and not reveals_gram:
                raise InvalidInput("narrow must be off with noise where products follow: X'X then takes 18 bits")
            scales = FixedPoint.of(NARROW, bounds, n_features, n_devices)
            scales = scales if noise is None else scales.with_noise(noise, n_outputs)
        else:
            shape, how = (bounds, n_features, n_devices), (ring_sizes or (n_devices,), precision)
            scales = FixedPoint.derive(*shape, *how, noise=noise, n_outputs=n_outputs)
        return cls(scales, n_outputs, reveals_gram, noise, about)

    @property
    def counts_rows(self) -> bool:
        """Whether m is summed along: not with noise, it would be exact."""
        return self.noise is None

    @cached_property
    def sizes(self) -> Sizes:
        d, c = self.scales.n_features, self.n_outputs
        length = d * c + self.counts_rows
        if self.reveals_gram:
            return Sizes(length + d * (d + 1) // 2)
        return Sizes(length, d, c, self.room)

    @property
    def room(self) -> int:
        """The largest column 1-norm of an e in whole numbers."""
        return self.scales.limit // self.scales.gram_limit

    @property
    def limit(self) -> int:
        """No entry of the summed vector is larger in size."""
        largest = max(self.scales.cross_limit, self.scales.bounds.samples)
        return max(largest, self.scales.gram_limit) if self.reveals_gram else largest

    @cached_property
    def digest(self) -> bytes:
        """Of all that decides the numbers."""
        bounds, noise = self.scales.bounds, self.noise
        shape = (self.scales.n_features, self.n_outputs, self.scales.n_devices, int(self.reveals_gram))
        added = b"" if noise is None else repr((noise.multiplier, noise.honest, noise.clip_norm)).encode()
        public = repr((bounds.features, bounds.labels, bounds.samples, bounds.samples_per_device)).encode()
        return hashlib.sha256(pack("codedfl lab rows", *shape, *self.scales.primes, public, added, self.about)).digest()

    def numbers(self, X: NDArray[Any], Y: NDArray[Any], noise_seed: bytes = b"") -> Numbers:
        """X'X, -X'Y and the number of rows, on the grid; rows that do not fit the public bounds are made to.

        Paper: III-A, eq. 3. Shown by ``pytest tests/claims/test_bit_for_bit.py -k centralised``.
        """
        scales = self.scales
        fit_x, fit_y, _ = fitted(np.asarray(X, np.float64), np.asarray(Y, np.float64), scales.bounds, self.noise)
        gram, cross = scales.gram(fit_x), scales.cross(fit_x, fit_y)
        if self.noise is not None:
            gram = gram + gram_noise(scales, noise_seed, self.digest.hex())
            cross = cross + cross_noise(scales, self.n_outputs, noise_seed, self.digest.hex())
        count = [float(len(X))] if self.counts_rows else []
        vector = np.concatenate([-cross.reshape(-1), count])
        if self.reveals_gram:
            return Numbers(np.concatenate([vector, gram]), np.empty(0))
        return Numbers(vector, gram)

    def read(self, vector: Sequence[int]) -> TrainingTotals:
        """The summed vector in reals; refused outside the proven bounds."""
        scales, c = self.scales, self.n_outputs
        shape, wholes = (scales.n_features, c), np.array(vector, dtype=object)
        split = shape[0] * c
        constant = constant_to_reals(scales, wholes[:split].reshape(shape))
        samples = scales.bounds.samples  # with noise the public bound stands for m: it is a scale and no more
        if self.counts_rows:
            samples = int(vector[split])
        if not 1 <= samples <= scales.bounds.samples:
            raise RangeExceeded(f"the summed rows must be between 1 and {scales.bounds.samples}, got {samples}")
        gram = wholes[split + self.counts_rows :]
        return TrainingTotals(constant, samples, gram_to_reals(scales, gram) if self.reveals_gram else None)
