"""How long the phases of a scheme take, what it costs and what models it makes: functions about its descriptor.

Each is a generic function of the scheme's class (``functools.singledispatch``). What holds for every scheme stands
here, what the coded ones add in ``coded``; a baseline says its own beside its descriptor (``codedfl_lab.baselines``).
Coded schemes give exact gradients, so their models are the centralised ones (``central``), whoever straggles; the
baselines compute theirs from who was in time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.solve.descent import StepSchedule, derived_step
from codedfl.solve.solver import Solver
from codedfl.typing import Floats, Seconds
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.prices import at_published_prices
from codedfl_lab.fleet.clock import StragglerPolicy, TrainingClock
from codedfl_lab.fleet.fleet import RATED_BITS, Fleet
from codedfl_lab.fleet.latency import (
    LatencyModel,
    RoundTrip,
    RunLatency,
    SharingConvention,
    epoch_arrivals,
    mean_arrivals,
)
from codedfl_lab.fleet.latency_models import latency_of
from codedfl_lab.primes.fixed_point import FixedPoint
from codedfl_lab.primes.ring import NARROW
from codedfl_lab.problems.problem import Problem
from codedfl_lab.schemes.descriptor import Scheme
from codedfl_lab.schemes.role_keys import RoleKeyed

FLOAT_BITS = 32


@dataclass(frozen=True, eq=False)
class WorkShape:
    """The sizes that latencies depend on: d, c, the samples of each device, and the bits of a ring number.

    ``number_bits`` is 48 for two primes, which nearly every run takes, 72 for three (a high ``precision``) and 32 for
    two short ones (``on_ring_of``). Sums and products go by bits too, as in the authors' program; ``ring_multiple``
    charges products of role keys at a multiple of a MAC of 48 bits instead, whatever their bits.
    """

    n_features: int
    n_outputs: int
    samples: NDArray[np.int64]
    number_bits: int = RATED_BITS
    ring_multiple: float | None = None

    @classmethod
    def of(cls, problem: Problem, precision: int | None = None) -> WorkShape:
        """What a run on this problem has; ``precision`` as in ``Parameters``."""
        ring = FixedPoint.derive(problem.bounds, problem.n_features, problem.n_devices, precision=precision).ring
        return cls(problem.n_features, problem.n_outputs, problem.samples_of_device, 8 * ring.bytes_per_number)

    def on_ring_of(self, scheme: Scheme | RoleKeyed) -> WorkShape:
        """The same on the ring that the scheme takes: of 32 bits where it is a narrow one."""
        return replace(self, number_bits=8 * NARROW.bytes_per_number) if is_narrow(scheme) else self

    @property
    def model_numbers(self) -> int:
        """d c."""
        return self.n_features * self.n_outputs

    @property
    def bulk_numbers(self) -> int:
        """d(d+1)/2 + d c: what a device of a coded scheme shares in phase 1."""
        return self.n_features * (self.n_features + 1) // 2 + self.model_numbers

    @property
    def bulk_bits(self) -> int:
        return self.bulk_numbers * self.number_bits


Grouping = Literal["by-speed", "random"]
"""How devices come into groups that have a code each.

``by-speed``: dealt in turn from the fastest to the slowest, so that every group has its share of slow ones (ours).
``random``: as in the authors' simulation of the journal version.
"""
Beginning = Literal["call", "zero"]
_RANDOM_ORDERS = 32  # of random groups, over which latencies are drawn


@dataclass(frozen=True)
class Conditions:
    """How the simulation is run: on which fleet, and by which conventions.

    latency: how long things take; None is the fleet's own model. The fleet then still says who the devices are and
        what crypto costs them.
    grouping: how schemes with groups deal out the devices; others do not read it.
    begins: where time begins. "call": whatever needs no bulk of numbers to travel was done before: keys, pads, what is
        made of seeds. "zero": all of it is charged, from enrolment on.

    Examples
    --------
    >>> from codedfl_lab import Conditions, Fleet
    >>> at = Conditions(Fleet.load("paper"), sharing="per-message")
    >>> at.policy, at.grouping
    ('restart', 'by-speed')
    """

    fleet: Fleet
    sharing: SharingConvention = "authors"
    policy: StragglerPolicy = "restart"
    chunk_bits: float | None = None
    latency: LatencyModel | None = None
    grouping: Grouping = "by-speed"
    begins: Beginning = "call"

    def __post_init__(self) -> None:
        for name, kind in (("grouping", Grouping), ("sharing", SharingConvention), ("begins", Beginning)):
            known = get_args(kind)
            if getattr(self, name) not in known:
                raise InvalidInput(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")

    @property
    def times(self) -> LatencyModel:
        """The model in force."""
        return latency_of(self.fleet) if self.latency is None else self.latency

    @property
    def from_zero(self) -> Conditions:
        """The same with everything charged, from enrolment on, at prices published for a microcontroller."""
        return replace(self, begins="zero", fleet=at_published_prices(self.fleet))

    def in_order(self, order: NDArray[np.intp]) -> Conditions:
        """The same for a run whose position i is device ``order[i]``; schemes then speak of positions."""
        if np.array_equal(order, np.arange(len(order))):
            return self
        return replace(self, latency=RunLatency(self.times, order))


@dataclass(frozen=True, eq=False)
class Draws:
    """How often latencies are drawn, and from which generator; epochs draw from ``epochs_rng`` if there is one."""

    count: int
    rng: np.random.Generator
    epochs_rng: np.random.Generator | None = None


@dataclass(frozen=True, eq=False)
class Sharing:
    """Phase 1: when the server can begin (draws,), and when each device can answer (draws, D)."""

    start: Seconds
    ready: Seconds


@dataclass(frozen=True, eq=False)
class EpochLoad(RoundTrip):
    """What a device does in one epoch, and which answers end it.

    ``deadline`` replaces ``quorum`` in schemes whose epochs have a fixed length.
    """

    quorum: Quorum
    deadline: float | None = None


@dataclass(frozen=True)
class DeviceCosts:
    """What a whole training costs one device: bytes both ways, MACs, and the memory it holds."""

    upload_bytes: float
    download_bytes: float
    macs: float
    memory_bytes: float

    def plus(self, *, upload_bytes: float = 0.0, download_bytes: float = 0.0, macs: float = 0.0) -> DeviceCosts:
        return replace(
            self,
            upload_bytes=self.upload_bytes + upload_bytes,
            download_bytes=self.download_bytes + download_bytes,
            macs=self.macs + macs,
        )


@dataclass(frozen=True)
class Descent:
    """Hyper-parameters that every scheme of a comparison shares; without a step each derives its own, by one rule."""

    step: StepSchedule | None
    regularisation: float

    def step_on(self, matrices: Iterable[Floats]) -> StepSchedule:
        """The step of a scheme that descends on these X'X/m, its mini-batches, one after the other."""
        return self.step or derived_step(matrices, self.regularisation)


@singledispatch
def epoch_load(scheme: Scheme, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """One epoch of phase 2."""
    del shape, fleet
    raise InvalidInput(f"a scheme must say what an epoch costs (codedfl_lab.costs.times.epoch_load), got {scheme.name}")


@singledispatch
def sharing(scheme: Scheme, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
    """Phase 1; none unless the scheme has one."""
    del scheme, shape, rng
    return Sharing(np.zeros(draws), np.zeros((draws, at.fleet.n_devices)))


@singledispatch
def device_costs(scheme: Scheme, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
    """What the busiest device pays for a whole training."""
    return raw_row_costs(scheme, shape, at, epochs)


def raw_row_costs(scheme: Scheme, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
    """Epochs without a sharing phase, on raw rows in float32."""
    rows = int(shape.samples.max()) * (shape.n_features + shape.n_outputs)
    return epoch_costs(scheme, shape, at, epochs, memory_bytes=rows * FLOAT_BITS / 8)


def epoch_costs(scheme: Scheme, shape: WorkShape, at: Conditions, epochs: int, memory_bytes: float) -> DeviceCosts:
    """What the epochs alone cost a device that holds ``memory_bytes``."""
    load = epoch_load(scheme, shape, at.fleet)
    up, down = epochs * float(np.max(load.bits_up)) / 8, epochs * load.bits_down / 8
    return DeviceCosts(up, down, epochs * float(np.max(load.macs)), memory_bytes)


@singledispatch
def stragglers(scheme: Scheme, shape: WorkShape, fleet: Fleet) -> int:
    """How many devices an epoch need not wait for: all where it has a deadline."""
    load = epoch_load(scheme, shape, fleet)
    waited_for = 0 if load.deadline is not None else load.quorum.answers_needed
    return fleet.n_devices - waited_for


def failures_survived(scheme: Scheme, shape: WorkShape, fleet: Fleet) -> int:
    """How many devices, whichever, may fail for good once training has begun; all where it has a deadline."""
    load = epoch_load(scheme, shape, fleet)
    return fleet.n_devices if load.deadline is not None else load.quorum.failures_survived


def is_narrow(scheme: Scheme | RoleKeyed) -> bool:
    """Whether it takes the ring of 32 bits."""
    return isinstance(scheme, RoleKeyed) and scheme.narrow


@singledispatch
def models_key(scheme: Scheme) -> Hashable:
    """Schemes with the same key make the same models, whoever straggles: all exact ones on one ring do."""
    if not scheme.exact:
        return scheme
    return "closed form" if scheme.reveals_gram else "exact", is_narrow(scheme)


@dataclass(frozen=True, eq=False)
class TrainingTimes:
    """What the models of a scheme are made from.

    ``solver`` is for exact schemes, whose models are the centralised ones; the others descend by ``descent``. ``rng``
    draws what the trajectory depends on, such as who is in time.
    """

    totals: CentralTotals
    solver: Solver | None
    descent: Descent
    at: Conditions
    rng: np.random.Generator


@singledispatch
def models(scheme: Scheme, by: TrainingTimes) -> Iterator[Floats]:
    """Theta after each epoch, without end (the caller stops) or until the solver has finished."""
    if scheme.reveals_gram:
        return iter([by.totals.ridge(by.descent.regularisation, narrow=is_narrow(scheme))])
    if not scheme.exact:
        raise InvalidInput(f"a scheme must say what its models are (codedfl_lab.costs.times.models), got {scheme.name}")
    assert by.solver is not None
    return by.totals.train(by.solver, narrow=is_narrow(scheme))


@singledispatch
def end_times(scheme: Scheme, shape: WorkShape, at: Conditions, epochs: int, draws: Draws) -> tuple[Seconds, Seconds]:
    """(draws,) ends of the sharing phase and (draws, epochs) ends of the epochs.

    By ``sharing``, ``epoch_load`` and the clock, unless the scheme has a formula of its own.
    """
    shared = sharing(scheme, shape, at, draws.count, draws.rng)
    load = epoch_load(scheme, shape, at.fleet)
    clock = TrainingClock(shared.start, shared.ready, at.policy)
    ends, epochs_rng = np.empty((draws.count, epochs)), draws.epochs_rng or draws.rng
    for epoch in range(epochs):
        if load.deadline is not None:
            clock.now = clock.now + load.deadline
        else:
            times = epoch_arrivals(at.times, load, draws.count, epochs_rng, at.chunk_bits, clock.starts)
            clock.advance(times, load.quorum)
        ends[:, epoch] = clock.now
    return shared.start, ends


def order_of_devices(scheme: Scheme, shape: WorkShape, at: Conditions, rng: np.random.Generator) -> NDArray[np.intp]:
    """Which device takes which position of the run: as the fleet lists them, unless they are dealt into groups."""
    if not scheme.grouped:
        return np.arange(at.fleet.n_devices)
    if at.grouping == "random":
        return rng.permutation(at.fleet.n_devices)
    load = epoch_load(scheme, shape, at.fleet)  # by position: before there are positions, all do the most
    most = RoundTrip(float(np.max(load.macs)), load.bits_down, float(np.max(load.bits_up)))
    return np.argsort(mean_arrivals(at.times, most), kind="stable")


def epoch_end_times(
    scheme: Scheme, shape: WorkShape, at: Conditions, epochs: int, draws: Draws
) -> tuple[Seconds, Seconds]:
    """(draws,) ends of the sharing phase and (draws, epochs) ends of the epochs, from time zero.

    Random groups are drawn again for every few draws. With generators alike, and one for the epochs, the k-th epoch of
    a draw finds every device in the same state under every scheme, whatever its sharing phase drew: schemes can be
    compared draw by draw.
    """
    scheme.check(at.fleet.n_devices)
    orders = min(draws.count, _RANDOM_ORDERS) if scheme.grouped and at.grouping == "random" else 1
    parts = []
    for part in np.array_split(np.arange(draws.count), orders):
        ordered = at.in_order(order_of_devices(scheme, shape, at, draws.rng))
        parts.append(end_times(scheme, shape, ordered, epochs, replace(draws, count=len(part))))
    starts, ends = zip(*parts, strict=True)
    return np.concatenate(starts), np.concatenate(ends)
