"""The scales of a training whose sums are made modulo primes: ``scales`` on a ring of the laboratory's schemes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

from codedfl.errors import InvalidInput
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds, Scales, natural_bits
from codedfl.exact.totals import constant_to_reals, gram_to_reals, product_to_reals
from codedfl.typing import Floats
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import Ring


@dataclass(frozen=True)
class FixedPoint(Scales):
    """Scales with their ring. Use ``derive``; the fields are what it decided.

    Paper: II-A. Shown by ``pytest tests/primes/test_fixed_point.py``.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import Bounds
    >>> from codedfl_lab import FixedPoint
    >>> scales = FixedPoint.derive(Bounds(1.0, 1.0, samples=1000, samples_per_device=300), n_features=2, n_devices=5)
    >>> scales
    <FixedPoint 2 primes, 19-bit grid, X'X 18 and G1 34 fraction bits>
    >>> row = np.array([[0.5, 0.25]])
    >>> total = scales.ring.add(scales.gram_planes(row), scales.gram_planes(row))  # two devices with one row each
    >>> scales.planes_of_gram(total).tolist()  # the upper triangle of X'X
    [0.5, 0.25, 0.125]
    """

    primes: tuple[int, ...] = ()

    @cached_property
    def ring(self) -> Ring:
        return Ring(self.primes)

    @classmethod
    def derive(
        cls,
        bounds: Bounds,
        n_features: int,
        n_devices: int,
        group_sizes: tuple[int, ...] = (),
        precision: int | None = None,
        noise: RowNoise | None = None,
        n_outputs: int = 1,
    ) -> Self:
        """Choose primes and fraction bits.

        ``precision`` is the least number of fraction bits that X'X e must have for an update of natural size (see
        ``natural_bits``). None takes what two primes give; more bits than that take the third prime.
        ``noise`` is what the devices have agreed to add to X'X and to X'Y, which has ``n_outputs`` columns.
        """
        for planes in (2, 3):
            ring = Ring.for_group_sizes(group_sizes or (n_devices,), planes)
            available = natural_bits(ring.modulus, bounds, n_features)
            if precision is None or available >= precision:
                break
        else:
            raise InvalidInput(f"precision must be at most {available} fraction bits for these bounds, got {precision}")
        plain = cls.of(ring, bounds, n_features, n_devices)
        return plain if noise is None else plain.with_noise(noise, n_outputs)

    @classmethod
    def of(cls, ring: Ring, bounds: Bounds, n_features: int, n_devices: int) -> Self:
        """The scales on a ring that was chosen already; ``derive`` has the arguments.

        >>> from codedfl_lab.primes.ring import NARROW
        >>> mnist = Bounds(features=(2 / 2000) ** 0.5, labels=1.0, samples=60_000, samples_per_device=2400)
        >>> FixedPoint.of(NARROW, mnist, n_features=2000, n_devices=25)
        <FixedPoint 2 primes, 24-bit grid, X'X 6 and G1 17 fraction bits>
        """
        found = cls.on(ring.modulus, bounds, n_features, n_devices)
        return cls(**{**found.__dict__, "primes": ring.primes})

    def __repr__(self) -> str:
        return (
            f"<FixedPoint {len(self.primes)} primes, {self.feature_bits}-bit grid,"
            f" X'X {self.gram_bits} and G1 {self.constant_bits} fraction bits>"
        )

    def gram_planes(self, X: Floats, rows: slice | None = None) -> Planes:
        """``gram`` on the ring."""
        return self.ring.from_integers(self.gram(X, rows))

    def cross_planes(self, X: Floats, Y: Floats) -> Planes:
        """``cross`` on the ring."""
        return self.ring.from_integers(self.cross(X, Y))

    def planes_of_product(self, planes: Planes, update_integers: Floats, update_bits: int) -> Floats:
        """``product_to_reals`` of residues."""
        return product_to_reals(self, self.ring.to_integers(planes), update_integers, update_bits)

    def planes_of_gram(self, triangle: Planes) -> Floats:
        """``gram_to_reals`` of residues."""
        return gram_to_reals(self, self.ring.to_integers(triangle))

    def planes_of_constant(self, planes: Planes) -> Floats:
        """``constant_to_reals`` of residues."""
        return constant_to_reals(self, self.ring.to_integers(planes))
