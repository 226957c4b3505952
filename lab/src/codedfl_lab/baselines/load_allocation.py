"""CodedFedL's load allocation and deadline (Prakash et al., the paper's baseline of Section V).

The central server holds parity of a fraction delta of the data and waits a fixed time t* every epoch. Device
i computes on l_i of its points; if it returns by t*, they count. With v >= 2 transmissions down and up
together, a = 2 l d c / tau_i the deterministic compute time and s a the mean setup time, its expected return
is

    E(l, t) = l P(T_i <= t),  P(T_i <= t) = sum_v (v-1) (1-p)^2 p^(v-2) (1 - exp(-(t - a - v h) / (s a)))_+

where one transmission takes h, the mean of its times up and down (what the two messages take beside their bits
comes off t first). l_i maximises E for each t, and t* is the least t at which the returns sum to (1 - delta) of
the points. Loads are whole numbers of points.

Term v is l (1 - e^(1/s) e^(-A/l)) with A = (t - v h) / (s k), a = k l: concave in l, and zero from the
breakpoint l = (t - v h) / k on. So E is concave between breakpoints, and its whole-number maximum on a piece
is found by bisecting the sign of E(l+1) - E(l), on all pieces of all devices at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Floats
from codedfl_lab.costs.times import FLOAT_BITS
from codedfl_lab.fleet.fleet import Fleet

_TAIL = 1e-9
"""Transmission counts that together are rarer than this share of delta are left out."""
_LEAST_DELTA = 1e-6
"""Below, rounding decides whether the returns ever sum to 1 - delta."""
_MOST_FAILURE = 0.9
"""Above, there are hundreds of likely transmission counts and as many pieces: no link anyone trains over."""
_PRECISION = 1e-9
"""Relative precision of the deadline."""
_LEAST_SETUP = 1e-9
"""Stands for a setup factor of 0: devices that compute in deterministic time are the limit."""


@dataclass(frozen=True)
class LoadAllocation:
    """What CodedFedL fixes before training.

    ``deadline`` is t* in seconds, the length of every epoch. ``loads`` are the points per mini-batch that
    each device computes on; ``return_probability`` is P(T_i <= t*), 0 for a device without load. Its l_i
    points enter the parity with weight sqrt(1 - return_probability), the others with weight 1.
    """

    deadline: float
    loads: NDArray[np.int64]
    return_probability: Floats


@dataclass(frozen=True)
class _Devices:
    """Columns that broadcast against loads of shape (devices, pieces)."""

    seconds_per_point: Floats
    setup: Floats
    transmission: Floats
    failure: Floats
    most_points: Floats
    latency: Floats  # of both messages together together
    counts: Floats  # v = 2, 3, ..

    def return_probability(self, loads: Floats, deadline: float) -> Floats:
        """P(T_i <= deadline) with these loads; 0 for no load."""
        compute = (self.seconds_per_point * loads)[..., None]
        setup, transmission, failure = (x[..., None] for x in (self.setup, self.transmission, self.failure))
        left_over = (deadline - self.latency)[..., None]
        likely = (self.counts - 1) * (1 - failure) ** 2 * failure ** (self.counts - 2)
        left = np.maximum(left_over - compute - self.counts * transmission, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            in_time = -np.expm1(-left / (setup * compute))
        result: Floats = np.where(loads > 0, (likely * in_time).sum(axis=-1), 0.0)
        return result

    def best_loads(self, deadline: float) -> Floats:
        """The whole number of points that maximises each device's expected return by ``deadline``."""

        def returned(loads: Floats) -> Floats:
            return loads * self.return_probability(loads, deadline)

        breakpoints = np.floor((deadline - self.latency - self.counts * self.transmission) / self.seconds_per_point)
        last = np.clip(breakpoints, 0, self.most_points)  # of the piece where the terms up to v are not zero
        first = np.minimum(np.concatenate([last[:, 1:], np.zeros_like(last[:, :1])], axis=1) + 1, last)
        # Invariant: E rises up to ``first``, and the piece's maximum lies in [first, last].
        while (first < last).any():
            middle = np.floor((first + last) / 2)
            rising = returned(middle + 1) > returned(middle)
            first = np.where(rising & (first < last), middle + 1, first)
            last = np.where(rising, last, middle)
        best = np.argmax(returned(first), axis=1)
        return np.take_along_axis(first, best[:, None], axis=1)


def allocate_loads(
    fleet: Fleet,
    points: ArrayLike,
    delta: float,
    *,
    features: int,
    outputs: int,
    mini_batches: int = 5,
) -> LoadAllocation:
    """The deadline and loads of CodedFedL for ``points`` training points (one number, or n_i per device).

    An epoch uses one of ``mini_batches`` equal parts of the data, so l_i <= n_i / mini_batches, and sends
    features x outputs numbers each way. ``delta`` is the parity data over the raw data. At delta >= 1 the
    parity stands for everything: no device computes and the deadline is 0. delta = 0 is refused, for no
    finite deadline returns every point, and so are links that fail more than nine times in ten.
    """
    if not _LEAST_DELTA <= delta < np.inf:
        raise InvalidInput(f"delta must be at least {_LEAST_DELTA:g}, got {delta}")
    worst = float(fleet.failure_probability.max())
    if worst > _MOST_FAILURE:
        raise InvalidInput(f"failure_probability must be at most {_MOST_FAILURE} for coded-fedl, got {worst}")
    for name, value in (
        ("features", features),
        ("outputs", outputs),
        ("mini_batches", mini_batches),
    ):
        if value < 1:
            raise InvalidInput(f"{name} must be a positive integer, got {value}")
    held = np.asarray(points)
    if held.shape not in ((), (fleet.n_devices,)):
        raise InvalidInput(f"points must be one number or one per device, got shape {held.shape}")
    most_points = np.broadcast_to(held // mini_batches, (fleet.n_devices,))
    if (most_points < 1).any():
        raise InvalidInput(f"points must be at least one per mini-batch ({mini_batches}), got {held.min()}")
    if delta >= 1:
        nothing = np.zeros(fleet.n_devices)
        return LoadAllocation(0.0, nothing.astype(np.int64), nothing)

    bits = features * outputs * FLOAT_BITS * (1 + fleet.header_overhead)
    parameters = np.stack(
        [
            2 * features * outputs / fleet.mac_rate,
            np.maximum(fleet.setup_factor, _LEAST_SETUP),
            bits * (1 / fleet.uplink_rate + 1 / fleet.downlink_rate) / 2,
            fleet.failure_probability,
            most_points,
            2 * fleet.latency,
        ]
    )
    # Devices alike have the same load: a fleet of a thousand in four classes is four rows of work.
    distinct, which, multiplicity = np.unique(parameters, axis=1, return_inverse=True, return_counts=True)
    seconds_per_point, setup, transmission, failure, most, latency = distinct[:, :, None]
    counts = _transmission_counts(worst, _TAIL * delta)
    devices = _Devices(seconds_per_point, setup, transmission, failure, most, latency, counts)

    def allocation(deadline: float) -> tuple[Floats, Floats, float]:
        loads = devices.best_loads(deadline)
        probability = devices.return_probability(loads, deadline)
        return loads[:, 0], probability[:, 0], float(multiplicity @ (loads * probability)[:, 0])

    wanted = (1 - delta) * float(most_points.sum())
    too_early, enough = 0.0, 1.0
    while allocation(enough)[2] < wanted:
        too_early, enough = enough, 2 * enough
    while enough - too_early > _PRECISION * enough:
        middle = (too_early + enough) / 2
        if allocation(middle)[2] < wanted:
            too_early = middle
        else:
            enough = middle
    loads, probability, _ = allocation(enough)
    return LoadAllocation(enough, loads[which].astype(np.int64), probability[which])


def _transmission_counts(failure: float, tail: float) -> Floats:
    """2, 3, .., up to where P(v > n) = p^(n-1) (1 + (n-1) (1-p)) falls below ``tail``; 2 alone if p = 0."""
    last = 2
    while failure ** (last - 1) * (1 + (last - 1) * (1 - failure)) > tail:
        last += 1
    return np.arange(2.0, last + 1)
