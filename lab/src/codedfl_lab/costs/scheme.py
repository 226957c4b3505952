"""What a scheme is to the simulator and the planner: how long its phases take, and what models it makes.

A new scheme is one new file with a subclass of ``Scheme``: what it costs, what it shows to whom and which variants are
worth trying are said there and nowhere else. Coded schemes give exact gradients, so their models are the
centralised ones (``central``), whoever straggles; the baselines compute theirs from who was in time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from codedfl.code.quorum import Quorum
from codedfl.data.problem import Problem
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import FixedPoint
from codedfl.exact.ring import BYTES_PER_RESIDUE
from codedfl.privacy.exposure import Exposure
from codedfl.privacy.rows import MOST_DEVICES, PrivacyRow, plain_rows, privacy_rows
from codedfl.privacy.views import Views
from codedfl.solve.descent import StepSchedule, derived_step
from codedfl.solve.registry import DEFAULT_SOLVER
from codedfl.solve.solver import Solver
from codedfl.typing import Floats, Seconds
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.fleet.clock import StragglerPolicy, TrainingClock
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import (
    FleetLatency,
    LatencyModel,
    RunLatency,
    SharingConvention,
    epoch_arrivals,
    mean_arrivals,
)

FLOAT_BITS = 32


@dataclass(frozen=True, eq=False)
class WorkShape:
    """The sizes that latencies depend on: d, c, the samples of each device, and the bits of a ring number.

    ``number_bits`` is 48 for two primes, which nearly every run takes, and 72 for three (a high ``precision``).
    """

    n_features: int
    n_outputs: int
    samples: NDArray[np.int64]
    number_bits: int = 8 * 2 * BYTES_PER_RESIDUE

    @classmethod
    def of(cls, problem: Problem, precision: int | None = None) -> WorkShape:
        """What a run on this problem has; ``precision`` as in ``Parameters``."""
        ring = FixedPoint.derive(problem.bounds, problem.n_features, problem.n_devices, precision=precision).ring
        return cls(problem.n_features, problem.n_outputs, problem.samples_of_device, 8 * ring.bytes_per_number)

    @property
    def model_numbers(self) -> int:
        """d c."""
        return self.n_features * self.n_outputs

    @property
    def bulk_numbers(self) -> int:
        """d(d+1)/2 + d c: what a device of a coded scheme shares in phase 1."""
        return self.n_features * (self.n_features + 1) // 2 + self.model_numbers

    @property
    def model_bits(self) -> int:
        """Of an update or an answer on the ring."""
        return self.model_numbers * self.number_bits

    @property
    def bulk_bits(self) -> int:
        return self.bulk_numbers * self.number_bits


Grouping = Literal["by-speed", "random"]
"""How devices come into groups that have a code each.

``by-speed``: dealt in turn from the fastest to the slowest, so that every group has its share of slow ones (ours).
``random``: as in the authors' simulation of the journal version.
"""
_RANDOM_ORDERS = 32  # of random groups, over which latencies are drawn


@dataclass(frozen=True)
class Conditions:
    """How the simulation is run: on which fleet, and by which conventions.

    latency: how long things take; None is the fleet's own model. The fleet then still says who the devices are and
        what crypto costs them.
    call_overhead: seconds that the engine itself takes for every message to a device, beside the links.
    grouping: how schemes with groups deal out the devices; others do not read it.
    own_pads_charged: whether coded keys and role keys pay for a device's own pads during the run. They can be drawn
        before it, and are not charged unless asked for.
    """

    fleet: Fleet
    sharing: SharingConvention = "authors"
    policy: StragglerPolicy = "restart"
    chunk_bits: float | None = None
    latency: LatencyModel | None = None
    call_overhead: float = 0.0
    grouping: Grouping = "by-speed"
    own_pads_charged: bool = False

    def __post_init__(self) -> None:
        if self.grouping not in get_args(Grouping):
            raise InvalidInput(f"grouping must be one of {', '.join(get_args(Grouping))}, got {self.grouping!r}")

    @property
    def times(self) -> LatencyModel:
        """The model in force."""
        model = FleetLatency(self.fleet) if self.latency is None else self.latency
        return RunLatency(model, call_overhead=self.call_overhead) if self.call_overhead else model

    def in_order(self, order: NDArray[np.intp]) -> Conditions:
        """The same for a run whose position i is device ``order[i]``; schemes then speak of positions."""
        if np.array_equal(order, np.arange(len(order))):
            return self
        model = FleetLatency(self.fleet) if self.latency is None else self.latency
        return replace(self, latency=RunLatency(model, order))


@dataclass(frozen=True, eq=False)
class Sharing:
    """Phase 1: when the server can begin (draws,), and when each device can answer (draws, D)."""

    start: Seconds
    ready: Seconds

    @classmethod
    def none(cls, draws: int, n_devices: int) -> Sharing:
        return cls(np.zeros(draws), np.zeros((draws, n_devices)))


@dataclass(frozen=True, eq=False)
class EpochLoad:
    """What a device does in one epoch, and which answers end it.

    ``deadline`` replaces ``quorum`` in schemes whose epochs have a fixed length.
    """

    macs: float | Floats
    bits_down: float
    bits_up: float
    quorum: Quorum
    deadline: float | None = None

    def arrivals(self, at: Conditions, draws: int, rng: np.random.Generator, now: float | Seconds = 0.0) -> Seconds:
        """(draws, D) times from each device's start, at ``now``, to its answer."""
        return epoch_arrivals(at.times, self.macs, self.bits_down, self.bits_up, draws, rng, at.chunk_bits, now)


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


class Scheme(ABC):
    """One scheme with its parameters. Subclasses are frozen dataclasses; their fields are the parameters."""

    name: ClassVar[str]
    exact: ClassVar[bool] = False  # gives the exact total gradient, so any solver can be used
    private: ClassVar[bool] = True  # the server sees no single device's gradient or data
    server_sees: ClassVar[str] = "the total only"  # in words
    reveals_gram: ClassVar[bool] = False  # the server learns the whole total of X'X

    @classmethod
    def default_for(cls, n_devices: int) -> Scheme:
        """The variant to take on so many devices when nothing else is known; a scheme without parameters is one."""
        del n_devices
        return cls()

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[Scheme]:
        """The variants that a planner should try on so many devices."""
        yield cls.default_for(n_devices)

    @classmethod
    def tolerating(cls, colluders: int, n_devices: int) -> Iterator[Scheme]:
        """The variants to try beside, where so many devices may collude; none unless the scheme can choose that."""
        del colluders, n_devices
        return iter(())

    @property
    @abstractmethod
    def label(self) -> str:
        """As it stands in tables and figures."""

    @property
    def grouped(self) -> bool:
        """Whether it matters which device has which position."""
        return False

    def order(self, shape: WorkShape, at: Conditions, rng: np.random.Generator) -> NDArray[np.intp]:
        """Which device takes which position of the run: as the fleet lists them, unless they are dealt into groups."""
        if not self.grouped:
            return np.arange(at.fleet.n_devices)
        if at.grouping == "random":
            return rng.permutation(at.fleet.n_devices)
        load = self.epoch_load(shape, at.fleet)
        return np.argsort(mean_arrivals(at.times, load.macs, load.bits_down, load.bits_up), kind="stable")

    @property
    def parameters(self) -> dict[str, float]:
        """``alpha`` or ``delta`` or ..., for results files."""
        return {}

    @property
    def default_solver(self) -> str:
        """What its server runs unless said otherwise: descent where gradients are not exact."""
        return DEFAULT_SOLVER if self.exact else "gd"

    def solvers(self, wanted: Sequence[str | Solver]) -> Sequence[str | Solver]:
        """Which of these solvers it can run: any with exact gradients, otherwise its own only."""
        return wanted if self.exact and not self.reveals_gram else (self.default_solver,)

    @property
    def models_key(self) -> Hashable:
        """Schemes with the same key make the same models, whoever straggles: all exact ones do."""
        return "exact" if self.exact else self

    def exposure(self, n_devices: int) -> Exposure:
        """Whom the server exposes by itself and with colluding devices: with one everybody, unless the scheme knows."""
        return Exposure.beyond(0, n_devices) if self.private else Exposure.everybody(n_devices)

    def privacy_rows(self, n_devices: int) -> list[PrivacyRow]:
        """Per party what it sees and what follows: computed from the views, else by ``exposure`` alone."""
        self.check(n_devices)
        views = self.views(n_devices) if n_devices <= MOST_DEVICES else None
        if views is None:
            return plain_rows(self.server_sees, self.exposure(n_devices), n_devices)
        return privacy_rows(views)

    def views(self, n_devices: int) -> Views | None:
        """What every party of a run reads, as linear forms; None where a scheme does not say."""
        del n_devices
        return None

    def device_costs(self, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
        """Of the busiest device; here: epochs without a sharing phase, on raw rows in float32."""
        rows = int(shape.samples.max()) * (shape.n_features + shape.n_outputs)
        return self._epoch_costs(shape, at, epochs, memory_bytes=rows * FLOAT_BITS / 8)

    def _epoch_costs(self, shape: WorkShape, at: Conditions, epochs: int, memory_bytes: float) -> DeviceCosts:
        load = self.epoch_load(shape, at.fleet)
        up, down = epochs * load.bits_up / 8, epochs * load.bits_down / 8
        return DeviceCosts(up, down, epochs * float(np.max(load.macs)), memory_bytes)

    def stragglers(self, shape: WorkShape, fleet: Fleet) -> int:
        """How many devices an epoch need not wait for: all where it has a deadline."""
        load = self.epoch_load(shape, fleet)
        waited_for = 0 if load.deadline is not None else load.quorum.answers_needed
        return fleet.n_devices - waited_for

    def check(self, n_devices: int) -> None:
        """Refuse parameters that do not fit the fleet."""
        if n_devices < 2:
            raise InvalidInput(f"the number of devices must be at least 2, got {n_devices}")

    def sharing(self, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
        """Phase 1; none unless the scheme has one."""
        del shape, rng
        return Sharing.none(draws, at.fleet.n_devices)

    @abstractmethod
    def epoch_load(self, shape: WorkShape, fleet: Fleet) -> EpochLoad:
        """One epoch of phase 2."""

    def end_times(
        self,
        shape: WorkShape,
        at: Conditions,
        epochs: int,
        draws: int,
        rng: np.random.Generator,
        epochs_rng: np.random.Generator | None = None,
    ) -> tuple[Seconds, Seconds]:
        """(draws,) ends of the sharing phase and (draws, epochs) ends of the epochs.

        By ``sharing``, ``epoch_load`` and the clock, unless the scheme has a formula of its own.
        """
        in_epochs = epochs_rng or rng
        shared = self.sharing(shape, at, draws, rng)
        load = self.epoch_load(shape, at.fleet)
        clock = TrainingClock(shared.start, shared.ready, at.policy)
        ends = np.empty((draws, epochs))
        for epoch in range(epochs):
            if load.deadline is not None:
                clock.advance_by(load.deadline)
            else:
                clock.advance(load.arrivals(at, draws, in_epochs, clock.starts), load.quorum)
            ends[:, epoch] = clock.now
        return shared.start, ends

    @abstractmethod
    def models(
        self, totals: CentralTotals, solver: Solver | None, descent: Descent, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        """Theta after each epoch, without end (the caller stops) or until the solver has finished.

        ``solver`` is for exact schemes; the others descend by ``descent``. ``rng`` draws what the trajectory depends
        on, such as who is in time.
        """


class ExactScheme(Scheme):
    """A scheme with exact total gradients: its models are the centralised ones, whoever straggles."""

    exact: ClassVar[bool] = True

    def models(
        self, totals: CentralTotals, solver: Solver | None, descent: Descent, at: Conditions, rng: np.random.Generator
    ) -> Iterator[Floats]:
        del descent, at, rng
        assert solver is not None
        return totals.train(solver)


def epoch_end_times(
    scheme: Scheme,
    shape: WorkShape,
    at: Conditions,
    epochs: int,
    draws: int,
    rng: np.random.Generator,
    epochs_rng: np.random.Generator | None = None,
) -> tuple[Seconds, Seconds]:
    """(draws,) ends of the sharing phase and (draws, epochs) ends of the epochs, from time zero.

    Random groups are drawn anew for every few draws. Epochs draw from ``epochs_rng`` if there is one. With generators
    alike the k-th epoch of a draw then finds every device in the same state under every scheme, whatever its sharing
    phase drew: schemes can be compared draw by draw.
    """
    scheme.check(at.fleet.n_devices)
    orders = min(draws, _RANDOM_ORDERS) if scheme.grouped and at.grouping == "random" else 1
    parts = []
    for part in np.array_split(np.arange(draws), orders):
        ordered = at.in_order(scheme.order(shape, at, rng))
        parts.append(scheme.end_times(shape, ordered, epochs, len(part), rng, epochs_rng))
    starts, ends = zip(*parts, strict=True)
    return np.concatenate(starts), np.concatenate(ends)
