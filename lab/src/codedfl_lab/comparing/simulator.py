"""A scheme on a fleet in virtual time (paper V): who answers when, and what model comes of it.

Two ways to the same trace:

* ``simulate`` runs the real parties, the real ring arithmetic and the real requests and replies, with every answer
  delivered in the order in which the latency model lets it arrive. No clock is read and nothing sleeps, so a day of
  training passes in seconds. Devices whose answers nobody waits for need not compute.
* ``trajectory`` computes the models centrally (``central``), once, and scores them; any number of latencies can be
  drawn for it (``schemes.epoch_end_times``). For coded schemes the models are the same bit for bit.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets as system_random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import RangeExceeded
from codedfl.exact.row_noise import RowNoise
from codedfl.solve.solver import Solver
from codedfl.sum.events import EpochEnded, EpochStarted, Event, Listed, OfDevice, Replied, RepliedLate, Sent, WrongReply
from codedfl.typing import Floats, RandomBytes
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions, WorkShape, order_of_devices
from codedfl_lab.costs.timing import FleetTiming
from codedfl_lab.problems.problem import Problem
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.training.in_process import Simulated
from codedfl_lab.training.paced import Paced
from codedfl_lab.training.train import train

SCORED_AT_ONCE = 16
RUN_AWAY = 10.0  # times the training error of predicting nothing, from which a model is not one that learns slowly
OUT_OF_HAND = 1e30  # a model beyond it is not worth scoring, and float32 can still hold it


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Test scores along a training: the ``epochs`` scored (from 1) and the final model.

    ``diverged``: the models ran away. Its scores then say nothing of the scheme but where it had got to before.
    """

    epochs: NDArray[np.int64]
    scores: Floats
    model: Floats
    diverged: bool = field(default=False, kw_only=True)

    def epochs_to(self, target: float) -> int | None:
        """The first scored epoch at or above the target; None if it was never reached."""
        reached = np.flatnonzero(self.scores >= target)
        return int(self.epochs[reached[0]]) if len(reached) else None


@dataclass(frozen=True, eq=False)
class Trace(Trajectory):
    """A trajectory with the virtual ``seconds`` at the end of each epoch."""

    seconds: Floats


class Watch(Protocol):
    """Who looks on: a ``RunWatch``."""

    def take(self, event: Event) -> None:
        """Something happened."""

    def ended(self, epoch: int, score: float | None) -> None:
        """An epoch is over."""


def simulate(
    scheme: CodedScheme,
    problem: Problem,
    solver: Solver,
    at: Conditions,
    rng: np.random.Generator,
    *,
    everyone_computes: bool = False,
    precision: int | None = None,
    noise: RowNoise | None = None,
    stop_when: Callable[[Floats], bool] | None = None,
    random_bytes: RandomBytes = system_random.token_bytes,
    on_epoch: Callable[[int, float, float], None] | None = None,
    gone: Collection[str] = (),
    watched: Callable[[Callable[[], float]], Watch] | None = None,
) -> Trace:
    """Run the parties in virtual time; ``on_epoch`` is called with epoch, seconds and score.

    ``watched`` makes of the clock what receives all that can be seen.

    ``everyone_computes`` also lets the devices compute and send that cannot be in time; it changes nothing but the
    time the simulation takes. ``gone`` are devices that die when they have uploaded: they answer no epoch.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import BlockKrylov
    >>> from codedfl_lab import make_problem
    >>> from codedfl_lab import Conditions, Fleet, RoleKeys, simulate
    >>> from codedfl_lab.datasets import load
    >>> problem = make_problem(load("digits"), n_devices=10, n_features=50)
    >>> at = Conditions(Fleet.load("paper").scaled_to(10))
    >>> trace = simulate(RoleKeys(1), problem, BlockKrylov(epochs=4, regularisation=1e-4), at, np.random.default_rng(0))
    >>> len(trace.seconds), bool(trace.scores[-1] > 0.7)
    (4, True)
    """
    shape = WorkShape.of(problem, precision)
    order = order_of_devices(scheme, shape, at, rng)
    run = Simulated.of(
        scheme, problem, precision=precision, order=order.tolist(), noise=noise, random_bytes=random_bytes
    )
    seats, places = list(run.devices), dict(zip(run.names, range(len(run.names)), strict=True))
    timing = FleetTiming(scheme, shape, at.in_order(order), rng)
    devices = {name: device.reply for name, device in run.devices.items()}
    engine = Paced(devices, seats, timing, [places[name] for name in gone])
    watch = None if watched is None else watched(engine.now)
    epochs: list[int] = []
    seconds: list[float] = []
    scores: list[float] = []

    def record(epoch: int, model: Floats) -> None:
        epochs.append(epoch)
        seconds.append(engine.ends)
        scores.append(problem.score(model))
        if everyone_computes:
            engine.compute_all()
        if watch is not None:
            watch.ended(epoch, scores[-1])
        if on_epoch is not None:
            on_epoch(epoch, engine.ends, scores[-1])

    tell = _told(watch, engine, dict(zip(seats, run.names, strict=True)))
    model = train(
        run.sums(engine, tell),
        run.statistic,
        solver,
        before_epoch=lambda _epoch: engine.next_epoch(),
        on_epoch=record,
        stop_when=stop_when,
    )
    return Trace(np.array(epochs), np.array(scores), model, np.array(seconds))


def _told(watch: Watch | None, engine: Paced, names: Mapping[str, str]) -> Callable[[Event], None]:
    """Devices go by the names of the problem; the sum that starts a training is its first epoch."""

    def tell(event: Event) -> None:
        if watch is None:
            return
        if isinstance(event, OfDevice):
            event = replace(event, device=names[event.device])
        if isinstance(event, Listed):
            event = replace(event, names=tuple(names[name] for name in event.names))
        if isinstance(event, Replied | RepliedLate | EpochStarted | EpochEnded | WrongReply):
            event = replace(event, epoch=event.epoch + 1)
        watch.take(event)
        watch.take(Sent(engine.sent))
        engine.sent = 0

    return tell


def until_diverged(models: Iterator[Floats]) -> Iterator[Floats]:
    """The models up to the first that is out of hand, or the first update that is refused as out of range."""
    with contextlib.suppress(RangeExceeded):
        for theta in models:
            if not (np.abs(theta) < OUT_OF_HAND).all():  # nan is not
                return
            yield theta


def trajectory(
    models: Iterator[Floats],
    totals: CentralTotals,
    *,
    max_epochs: int,
    target: float = 1.0,
    beyond_target: float = 1.1,
) -> Trajectory:
    """Score the models that ``costs.models`` makes until ``max_epochs``, or a little past the target (for the figure).

    Models are scored several at a time, so a few may be computed past the end. A training that diverges ends there,
    with the scores it had.
    """
    scores: list[float] = []
    model = np.zeros((totals.problem.n_features, totals.problem.n_outputs))
    last = max_epochs
    models = until_diverged(models)
    while len(scores) < last:
        # Few at first: the fast solvers are there after a few epochs.
        count = min(SCORED_AT_ONCE, max(1, len(scores)), last - len(scores))
        with np.errstate(over="ignore", invalid="ignore"):
            batch = list(itertools.islice(models, count))
        if not batch:
            break
        found = totals.problem.scores(batch)
        reached = next((index for index, score in enumerate(found) if score >= target), None)
        if reached is not None and last == max_epochs:
            last = min(max_epochs, int(np.ceil((len(scores) + reached + 1) * beyond_target)))
        kept = min(len(batch), last - len(scores))
        scores += found[:kept]
        model = batch[kept - 1]
    at_first = totals.loss(np.zeros_like(model))
    diverged = not scores or not totals.loss(model) <= RUN_AWAY * at_first  # nan is not
    return Trajectory(np.arange(1, len(scores) + 1), np.array(scores), model, diverged=diverged)
