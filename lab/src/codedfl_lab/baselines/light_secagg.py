"""LightSecAgg (So et al.), as a timed row: conventional mini-batches under masks that are shared again every epoch.

Every device codes its mask into D shares, of which any U decode and any t - 1 = z say nothing; here nobody drops out,
so U = D. The server sees the total of the gradients. It is timed by the formulas of the authors' simulation of their
journal version, each message at its mean time; it has no state machines here, so no planner proposes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Seconds
from codedfl_lab.baselines.conventional import Conventional, conventional_models
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.costs.times import (
    FLOAT_BITS,
    Conditions,
    Draws,
    EpochLoad,
    TrainingTimes,
    WorkShape,
    end_times,
    epoch_load,
    models,
    models_key,
)
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import Direction
from codedfl_lab.primes.ring import Ring
from codedfl_lab.privacy.exposure import Exposure
from codedfl_lab.privacy.views import Seen, Views, unit_forms, updates_of
from codedfl_lab.problems.problem import MINI_BATCHES
from codedfl_lab.schemes.descriptor import Scheme


@dataclass(frozen=True)
class SecretShared(Scheme):
    """What schemes by secret sharing have in common that are timed here and cannot be run.

    z: how many devices may collude; the more, the larger the shares.
    """

    z: int
    shares_gram: ClassVar[bool] = False  # X'X is shared once; otherwise gradients, in every epoch

    @classmethod
    def default_for(cls, n_devices: int) -> Self:
        del n_devices
        return cls(1)

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[Scheme]:
        """None: it cannot be run here."""
        del n_devices
        return iter(())

    def exposure(self, n_devices: int) -> Exposure:
        return Exposure.beyond(self.z, n_devices)

    def views(self, n_devices: int) -> Views | None:
        """Shamir's shares: device i has p_j(i) of every j, of degree z with its secret at 0, and answers their sum."""
        n, prime = n_devices, Ring.for_group_sizes([n_devices]).primes[0]
        columns = n * (1 + self.z)  # the secrets, then the random coefficients of each degree
        powers = np.array([[pow(i, k, prime) for k in range(self.z + 1)] for i in range(1, n + 1)])
        shares = [np.kron(row, np.eye(n, dtype=np.int64)) for row in powers]
        sums = np.array([share.sum(axis=0) for share in shares])
        devices = [
            [
                Seen("its own data", unit_forms(columns, [i])),
                Seen(f"shares of {n - 1} others", share, self.shares_gram),
            ]
            for i, share in enumerate(shares)
        ]
        return Views(prime, n, [Seen(f"{n} sums of shares", sums, whole=False)], devices, [updates_of(n, columns)])


@dataclass(frozen=True)
class LightSecAgg(SecretShared):
    """Shares of masks, again in every epoch."""

    name: ClassVar[str] = "light-secagg"

    @property
    def label(self) -> str:
        return f"LightSecAgg, z = {self.z}"

    @property
    def parameters(self) -> dict[str, float]:
        return {"z": self.z}

    def check(self, n_devices: int) -> None:
        super().check(n_devices)
        if not 0 <= self.z <= n_devices - 2:
            raise InvalidInput(f"z must be between 0 and the number of devices less 2 ({n_devices - 2}), got {self.z}")

    def share_numbers(self, shape: WorkShape, n_devices: int) -> float:
        """d c / (U - t), with U = D and t = z + 1."""
        return shape.model_numbers / (n_devices - self.z - 1)


@epoch_load.register(LightSecAgg)
def masked_load(scheme: LightSecAgg, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """The gradient and the coding of D mask shares; these, the gradient and one sum of shares are sent."""
    D, numbers = fleet.n_devices, shape.model_numbers
    share = scheme.share_numbers(shape, D)
    up = ((D - 1) * share + numbers + D * share) * FLOAT_BITS
    macs = _gradient_macs(shape) + share * D * D
    return EpochLoad(macs, ((D - 1) * share + numbers) * FLOAT_BITS, up, Quorum.all_but(D))


@end_times.register(LightSecAgg)
def masked_end_times(
    scheme: LightSecAgg, shape: WorkShape, at: Conditions, epochs: int, draws: Draws
) -> tuple[Seconds, Seconds]:
    """The authors' formulas, with the times of ``at``: gradient, coding and mask shares, of all; then their sums.

    Gradient and coding have a setup time each. Mask shares are sent once, whatever fails, and the model's way down
    is not counted, as in those formulas; the sharing convention and the policy of ``at`` are not read.
    """
    count, rng = draws.count, draws.epochs_rng or draws.rng  # nothing is drawn before the epochs
    times, D = at.times, at.fleet.n_devices
    share = scheme.share_numbers(shape, D)
    directions: tuple[Direction, Direction] = ("up", "down")
    masks = sum(times.mean_transfer_times((D - 1) * share * FLOAT_BITS, direction) for direction in directions)
    gradient = times.mean_transfer_times(shape.model_numbers * FLOAT_BITS, "up")
    sent = masks * (1 - at.fleet.failure_probability) + gradient
    after = float(times.mean_transfer_times(D * share * FLOAT_BITS, "up").max())
    lengths = np.empty((count, epochs))
    for epoch in range(epochs):
        computed = times.compute_times(_gradient_macs(shape), count, rng)
        computed = computed + times.compute_times(share * D * D, count, rng)
        lengths[:, epoch] = (sent + computed).max(axis=1) + after
    return np.zeros(count), lengths.cumsum(axis=1)


@models_key.register(LightSecAgg)
def masked_models_key(_scheme: LightSecAgg) -> Hashable:
    """That of conventional FL."""
    return models_key(Conventional())


@models.register(LightSecAgg)
def masked_models(_scheme: LightSecAgg, by: TrainingTimes) -> Iterator[Floats]:
    """What conventional FL learns: masks cancel."""
    return conventional_models(Conventional(), by)


def _gradient_macs(shape: WorkShape) -> Floats:
    """Two products on a mini-batch."""
    return np.asarray(2 * (shape.samples / MINI_BATCHES) * shape.model_numbers)
