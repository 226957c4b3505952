"""What a device brings into a run: its rows, or a vector of whole numbers. Asked for once, and dropped then.

Rows that do not fit the public bounds are clipped or left out here, on the device, and counted for its own log. Nobody
else learns of it: whether a device takes part never depends on its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from codedfl.crypto.pads import SEED_BYTES
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fitted_rows import Fit, fitted
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import Agreement, Parameters
from codedfl.protocol.hiding_rows import add_noise
from codedfl.state import PLAIN, CheckpointFields, Codec
from codedfl.typing import Floats, Planes, RandomBytes


class OnRing(NamedTuple):
    """One device's numbers before any pad.

    gram: the rows of X'X that a slice names, from the diagonal on, one after the other; made when they are asked for.
    constant: the constant part.
    fit: what was done to make rows fit.
    """

    gram: Callable[[slice], Planes]
    constant: Planes
    fit: Fit = Fit()


class Contribution(Protocol):
    """One device's part of the total."""

    def objection(self, parameters: Parameters) -> str:
        """Why it cannot be brought into a run of this shape; empty when it can. Never a matter of single rows."""
        ...

    def on_ring(self, agreed: Agreement, noise_seed: bytes) -> OnRing:
        """X'X and the constant part."""
        ...


@dataclass(frozen=True, eq=False, init=False)
class Rows:
    """Features X (n x d) and labels Y (n x c); finite, at least one row, as many rows in both.

    >>> Rows([[1.0, 0.5]], [[0.0]]).X.shape
    (1, 2)
    """

    X: Floats
    Y: Floats

    def __init__(self, X: ArrayLike, Y: ArrayLike) -> None:
        for name, values in (("X", X), ("Y", Y)):
            array = np.asarray(values, dtype=np.float64)
            if array.ndim != 2:
                raise InvalidInput(f"{name} must have two dimensions, got shape {array.shape}")
            if len(array) == 0:
                raise InvalidInput(f"{name} must have at least one sample, got none")
            bad = int(array.size - np.count_nonzero(np.isfinite(array)))
            if bad:
                raise InvalidInput(f"{name} must be finite, got {bad} NaN or infinite values")
            object.__setattr__(self, name, array)
        if len(self.X) != len(self.Y):
            raise InvalidInput(f"X and Y must have as many rows, got {len(self.X)} and {len(self.Y)}")

    def objection(self, parameters: Parameters) -> str:
        """See ``Contribution``."""
        shape = (self.X.shape[1], self.Y.shape[1])
        if parameters.total_limit:
            return "the run must be one of rows, got a total of whole numbers"
        if shape == (parameters.n_features, parameters.n_outputs):
            return ""
        return (
            f"n_features and n_outputs must be {shape[0]} and {shape[1]} as this device's recipe makes them, got"
            f" {parameters.n_features} and {parameters.n_outputs}"
        )

    def on_ring(self, agreed: Agreement, noise_seed: bytes) -> OnRing:
        """X'X, and G^(1) = X'X Theta^(1) - X'Y with the sample count behind it (paper eq. 3)."""
        format_, ring, p = agreed.fixed_point, agreed.ring, agreed.parameters
        X, Y, fit = fitted(self.X, self.Y, p.bounds, p.noise)
        gram, gradient = partial(format_.gram_planes, X), format_.cross_planes(X, Y)
        if format_.noise is not None or np.any(agreed.initial_integers):  # both need all of X'X at once
            whole = format_.gram_planes(X)
            gram = partial(rows_of_triangle, whole, p.n_features)
        if format_.noise is not None:
            add_noise(format_, whole, gradient, noise_seed, agreed)
        if np.any(agreed.initial_integers):
            product = ring.product(ring.symmetric(whole, X.shape[1]), ring.from_integers(agreed.initial_integers))
            gradient = ring.add(product, gradient, sign=-1)
        else:
            gradient = -gradient  # centred residues: negation needs no reduction
        constant = ring.zeros(p.constant_length)
        constant[:, : gradient[0].size] = gradient.reshape(len(ring.primes), -1)
        if p.counts_rows:
            constant[:, -1:] = ring.from_integers(np.array([len(X)]))
        return OnRing(gram, constant, fit)


def rows_of_triangle(triangle: Planes, size: int, rows: slice) -> Planes:
    """These rows of a packed upper triangle (P, size(size+1)/2), from the diagonal on.

    >>> rows_of_triangle(np.arange(6)[None, :], 3, slice(1, 3)).tolist()
    [[3, 4, 5]]
    """
    first, last = (i * size - i * (i - 1) // 2 for i in (rows.start, rows.stop))
    return triangle[:, first:last]


@dataclass(frozen=True, eq=False)
class WholeNumbers:
    """A vector of ``length`` whole numbers of any size, made on the run's ring when it is asked for.

    >>> WholeNumbers(2, lambda ring: ring.from_integers(np.array([3, -4]))).length
    2
    """

    length: int
    make: Callable[[Ring], Planes]

    def objection(self, parameters: Parameters) -> str:
        """See ``Contribution``."""
        if parameters.total_limit and parameters.constant_length == self.length:
            return ""
        return f"the run must be a total of {self.length} whole numbers, got another"

    def on_ring(self, agreed: Agreement, noise_seed: bytes) -> OnRing:
        """The vector is the constant part; there is no X'X behind it."""
        del noise_seed
        ring, numbers = agreed.ring, self.make(agreed.ring)
        if numbers.shape != (len(ring.primes), self.length):
            raise InvalidInput(f"{self.length} whole numbers must be made on the ring, got shape {numbers.shape}")
        return OnRing(lambda _: ring.zeros(agreed.parameters.triangle_length), numbers)


class OwnData:
    """A device's contribution until it is used, which is once; then it is dropped, as is the seed of its noise.

    helper: the device has no data, and needs none.
    noise_seed: seed of the noise that hides rows; empty until it is drawn.
    """

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "used": PLAIN,
        "noise_seed": PLAIN,
        "fit": Codec(list, lambda saved: Fit(*saved)),
    }

    def __init__(self, contribution: Contribution | None, noise_seed: bytes, *, helper: bool) -> None:
        if helper and contribution is not None:
            raise InvalidInput("the contribution must be None for a helper, which has no data, got one")
        self.contribution = contribution
        self.helper = helper
        self.noise_seed = noise_seed
        self.used = False
        self.fit = Fit()  # what did not fit the public bounds; for the device's own log

    def draw_noise_seed(self, random_bytes: RandomBytes) -> None:
        """Unless there is one; kept from then on, with the join that it is drawn for."""
        self.noise_seed = self.noise_seed or random_bytes(SEED_BYTES)

    def objection(self, parameters: Parameters) -> str:
        """Why it cannot be brought into such a run; empty when it can."""
        if self.contribution is not None:
            return self.contribution.objection(parameters)
        return "" if self.helper else "the device's data were used in an earlier run: make a new device"

    def on_ring(self, agreed: Agreement) -> OnRing:
        """See ``Contribution``; once."""
        if self.contribution is None:
            raise MessageRefused(self.objection(agreed.parameters))
        found = self.contribution.on_ring(agreed, self.noise_seed)
        self.fit = found.fit
        self.drop()
        return found

    def drop(self) -> None:
        self.contribution, self.noise_seed, self.used = None, b"", True

    def check_restored(self, name: str) -> None:
        """Data that were used are not needed any more; others must be there."""
        if self.used:
            self.contribution = None
        elif self.contribution is None and not self.helper:
            raise InvalidInput(f"the contribution of {name!r} must be given, it was not used yet, got None")
