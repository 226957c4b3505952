"""What a study finds, as one type from the comparison to the page: ``Results``, written as results.json.

Files carry a schema number. Field names are those of 0.1, and as there a row's parameters (alpha, delta, ...) stand
beside its other fields. Nobody has to take a name apart: a row has its scheme, its solver and its parameters as
fields, and ``label`` only as words for people.

None in a statistic stands for "never": a seed that does not reach the target is infinitely late, and JSON has no
infinity.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject
from codedfl_lab.comparing.timed_scheme import TimedScheme

SCHEMA = 5
NOT_WRITTEN = {"written": False}  # marks a field that is not in results.json


Verdict = Literal["holds", "fails", "tie", "not judged"]
"""What is said of a claim: *holds* or *fails* where the whole interval says so, *tie* where it lies on both sides.

*Not judged* is a claim without the rows it needs, or with fewer than three seeds.
"""
GoalVerdict = Literal["met", "met, interval reaches below", "missed", "no goal"]
"""What is said of a goal: whether the median over seeds reaches it, and if so whether its whole interval does.

With fewer than three seeds there is no interval, so nothing is known of it.
"""


@dataclass(frozen=True)
class Summary:
    """One number over seeds.

    median: over the seeds; None where half of them or more never get there.
    mean: over the seeds; None where one never gets there.
    min: the smallest; None where no seed gets there.
    max: the largest; None where one never gets there.
    """

    median: float | None = None
    mean: float | None = None
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True)
class Times(Summary):
    """Seconds over seeds; the percentiles are over seeds and latencies together.

    p5: in one of twenty runs it takes less.
    p95: in one of twenty runs it takes more.
    """

    p5: float | None = None
    p95: float | None = None


@dataclass(frozen=True)
class Speedups(Summary):
    """Over the seeds in which the rival reaches the target; 0 is a seed in which the scheme does not.

    Median None: the rival reaches it in no seed, or was not run.

    seeds_compared: the number of seeds in which the rival reaches the target.
    low: where the 95 % interval of the median begins, by the bootstrap over seeds and draws (``paired``); None
        with fewer than three seeds.
    high: where it ends; None too where it has no end.
    """

    seeds_compared: int = 0
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Gain:
    """The median speed-up over conventional FL in two factors, whose product it is.

    solver: the median speed-up of the strongest baseline, conventional FL with the same solver on a stored Gram matrix.
    code: what is left, for not waiting for stragglers. Both None without a speed-up or without the rival.
    """

    solver: float | None = None
    code: float | None = None


@dataclass(frozen=True)
class ExposureResult:
    """How many devices' own sums become known; colluders' own are not counted. None where nobody worked it out.

    server: to the server alone.
    one_colluder: to the server and the worst one device.
    two_colluders: to the server and the worst two.
    """

    server: int | None = None
    one_colluder: int | None = None
    two_colluders: int | None = None


@dataclass(frozen=True)
class SchemeResult:
    """One scheme with one solver at one target, under one convention.

    dataset: the name of the data.
    scheme: its name, as ``codedfl lab train --scheme`` takes it.
    label: scheme and parameters in words, for people.
    solver: its name.
    sharing: how the sharing phase is timed: "authors", "per-message" or "multicast".
    step: of gradient descent: "derived" from the data, or "paper" or "literal".
    target_accuracy: the score to reach.
    parameters: the scheme's own (alpha, groups, spare, delta, dropped, z, ...).
    chunked: messages travel in packets of 1500 bytes, each repeated by itself.
    private: the server sees no single device's gradient or data.
    seeds: the number of feature seeds that were tried.
    seeds_reached: the number of those in which the target was reached.
    epochs_to_target: over the seeds.
    time_to_target_s: simulated seconds, the sharing phase included.
    speedup_over_conventional: conventional FL's time over this one's, seed by seed.
    gain: the median speed-up as a product of what the solver brings and what the code brings.
    sharing_s: mean simulated seconds before the first epoch.
    epoch_s_mean: mean simulated seconds of one epoch.
    final_accuracy: the score after the last epoch.
    exposure: whose data a collusion learns.
    gram_directions: of how many directions of the total Gram matrix the server learns the image on the way there.
    reason: why the scheme has no numbers; every statistic is then empty. None where it has.
    diverged: it ran, and its models ran away: the reason is why. False where it could not run at all.
    seconds: (seeds, draws) to the target, infinite in a seed that never gets there; in memory only.
    final: (seeds,) scores after the last epoch; in memory only.
    """

    dataset: str
    scheme: str
    label: str
    solver: str
    sharing: str
    step: str
    target_accuracy: float
    parameters: Mapping[str, float] = field(default_factory=dict)
    chunked: bool = False
    private: bool = True
    seeds: int = 0
    seeds_reached: int = 0
    epochs_to_target: Summary = Summary()
    time_to_target_s: Times = Times()
    speedup_over_conventional: Speedups = Speedups()
    gain: Gain = Gain()
    sharing_s: float | None = None
    epoch_s_mean: float | None = None
    final_accuracy: Summary = Summary()
    exposure: ExposureResult = ExposureResult()
    gram_directions: int | None = None
    reason: str | None = None
    diverged: bool = False
    seconds: Floats = field(default_factory=lambda: np.empty((0, 0)), compare=False, repr=False, metadata=NOT_WRITTEN)
    final: Floats = field(default_factory=lambda: np.empty(0), compare=False, repr=False, metadata=NOT_WRITTEN)

    @property
    def alpha(self) -> int | None:
        """None where the scheme has no code."""
        found = self.parameters.get("alpha")
        return None if found is None else int(found)

    @property
    def z(self) -> int | None:
        """How many devices may collude with the server; None where the scheme has no such parameter."""
        found = self.parameters.get("z")
        return None if found is None else int(found)


@dataclass(frozen=True)
class TraceRow:
    """One scored epoch of one seed, a line of traces.csv.

    dataset: the name of the data.
    label: scheme and parameters in words.
    scheme: its name.
    solver: its name.
    step: the step of gradient descent.
    seed: the seed of the random features.
    epoch: counted from 1.
    seconds: virtual, when the epoch ends; the mean over latencies.
    accuracy: the score then.
    """

    dataset: str
    label: str
    scheme: str
    solver: str
    step: str
    seed: int
    epoch: int
    seconds: float
    accuracy: float


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, or of this project, and whether it holds.

    statement: the claim.
    dataset: where it was tried.
    target_accuracy: at which score; None where it is about all targets.
    verdict: "holds", "fails", "tie" or "not judged".
    evidence: the numbers that decide it.
    sharing: how the sharing phase of all schemes is timed; None where the claim is not about time.
    charged: whether pads, masks and sealing cost time; None where the claim is not about time.
    """

    statement: str
    dataset: str
    target_accuracy: float | None
    verdict: Verdict
    evidence: str
    sharing: str | None = field(default=None, kw_only=True)
    charged: bool | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Timed:
    """A scheme's time to the target in one column of a race, beside the two that it is compared with.

    column: "call": what needs no bulk of numbers to travel was done before. "zero": everything is charged, from
        enrolment on. "ring": from the call, products at the measured multiple of the ring that really runs.
    label: the scheme's parameters in words: the fastest of a few variants in this column.
    time_s: median seconds to the target.
    speedup: times faster than conventional FL as in the paper, in the median over seeds; None where one never gets
        there.
    low: where its 95 % interval begins; None with fewer than three seeds.
    high: where it ends.
    over_strongest: times faster than the strongest baseline: conventional FL on full batches, with block Krylov, on the
        same features.
    goal: how many times faster than conventional FL it is to be; None where it is only shown.
    verdict: "met" where median and interval reach the goal, "met, interval reaches below" where only the median does,
        "missed" where it does not; "no goal" without one.
    """

    column: str
    label: str = ""
    time_s: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    over_strongest: float | None = None
    goal: float | None = None
    verdict: GoalVerdict = "no goal"


@dataclass(frozen=True)
class Racer:
    """A scheme on one fleet and one kind of features, in every column.

    dataset: the name of the data.
    scheme: its name.
    solver: its solver.
    z: colluders that it bears; None where it has no such parameter.
    devices: the size of the fleet, which has the mix of the paper's.
    features: what it trains on: "rbf" is the paper's 2000 random features.
    columns: what it reached in each.
    """

    dataset: str
    scheme: str
    solver: str
    z: int | None = None
    devices: int = 25
    features: str = "rbf"
    columns: tuple[Timed, ...] = ()


@dataclass(frozen=True)
class Preparation:
    """What one step of a scheme costs a device of one class: done before the call, or charged from zero.

    label: the scheme's parameters in words.
    devices: the size of the fleet.
    step: in words.
    device: the class of the device.
    seconds: on average.
    """

    label: str
    devices: int
    step: str
    device: str
    seconds: float


@dataclass(frozen=True)
class AtSize:
    """A timed scheme on a fleet of another size.

    dataset: the name of the data.
    devices: how many.
    sharing: how the sharing phase is timed.
    chunked: messages travel in packets.
    timed: the scheme, its time to the target and its price.
    speedup: over conventional FL on that fleet; None where it is not compared.
    chosen: the fastest that does not give the server the whole total Gram matrix at once.
    """

    dataset: str
    devices: int
    sharing: str
    chunked: bool
    timed: TimedScheme
    speedup: float | None = None
    chosen: bool = False

    @property
    def gain(self) -> float:
        """The speed-up; only for a row that has one."""
        assert self.speedup is not None
        return self.speedup

    @property
    def method(self) -> tuple[str, str]:
        """Scheme and solver, whatever the parameters."""
        return self.timed.scheme, self.timed.solver


@dataclass(frozen=True)
class PaperValue:
    """What the paper's text states.

    speedup: over conventional FL.
    alpha: for which alpha.
    """

    speedup: float
    alpha: int


@dataclass(frozen=True)
class Took:
    """Real seconds of this machine.

    total: from start to end.
    linear_algebra: of them, in matrix products.
    """

    total: float
    linear_algebra: float


class Written:
    """What is written as results.json: every field that is not marked, and the schema's number."""

    def to_json(self) -> JsonObject:
        """Plain values."""
        return {"schema": SCHEMA, **plain(self)}

    def json_bytes(self) -> bytes:
        """What results.json holds; refuses infinities, which JSON has not."""
        try:
            text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            raise InvalidInput(
                f"results must hold finite numbers and None only, got one that is not ({error})"
            ) from None
        return (text + "\n").encode()


@dataclass(frozen=True)
class Results(Written):
    """All that a comparison found and how; ``traces`` go to traces.csv, the rest to results.json.

    name: the name of the comparison, and of its folder.
    title: what the page is called.
    dataset: the name of the data.
    command: what was typed.
    fleet: the fleet's name.
    n_devices: how many devices.
    n_features: d.
    seeds: the seeds of the random features.
    draws: latencies drawn for each scheme.
    score_name: "accuracy" or "R^2".
    schemes: a row for each scheme, solver, target and convention.
    seconds: what it took here.
    versions: of codedfl and of what it builds on.
    n_samples: training rows.
    targets: scores that were to be reached.
    headline_target: the one of the first screen; None where every data set has its own, as in the study beyond the
        paper.
    paper: what the paper states; None where it says nothing of these data.
    from_zero: the leading rows again with everything charged, from enrolment on, at published prices; those of
        ``schemes`` begin at the call, and what was made before it (keys, pads, sealed uploads) is not in their times.
    shuffled: the rows with data spread over the devices at random.
    claims: what was claimed, and whether it holds.
    goals: how fast ours was to be, and is, by where time begins.
    preparations: what is done before the call, and what it costs.
    scaling: fleets of other sizes.
    peers: secure schemes of other authors.
    notes: what a reader should know beside the numbers.
    quick: on fewer features and rows than the paper's, so that its numbers cannot be reached.
    traces: a row for each scored epoch.
    """

    name: str
    title: str
    dataset: str
    command: str
    fleet: str
    n_devices: int
    n_features: int
    seeds: tuple[int, ...]
    draws: int
    score_name: str
    schemes: tuple[SchemeResult, ...]
    seconds: Took
    versions: Mapping[str, str]
    n_samples: int | None = None
    targets: tuple[float, ...] = ()
    headline_target: float | None = None
    paper: PaperValue | None = None
    from_zero: tuple[SchemeResult, ...] = ()
    shuffled: tuple[SchemeResult, ...] = ()
    claims: tuple[Claim, ...] = ()
    goals: tuple[Racer, ...] = ()
    preparations: tuple[Preparation, ...] = ()
    scaling: tuple[AtSize, ...] = ()
    peers: tuple[AtSize, ...] = ()
    notes: tuple[str, ...] = ()
    quick: bool = False
    traces: tuple[TraceRow, ...] = field(default=(), metadata=NOT_WRITTEN)

    def files(self) -> dict[str, bytes]:
        """What results.json and traces.csv hold."""
        columns = [one.name for one in fields(TraceRow)]
        traces = csv_bytes(columns, ([getattr(row, column) for column in columns] for row in self.traces))
        return {"results.json": self.json_bytes(), "traces.csv": traces}


def plain(value: Any) -> Any:
    """Dataclasses as objects, tuples as lists; a record's ``parameters`` stand beside its other fields."""
    if is_dataclass(value):
        written = [one.name for one in fields(value) if one.metadata != NOT_WRITTEN]
        made = {name: plain(getattr(value, name)) for name in written}
        parameters = made.pop("parameters", None)
        return made if parameters is None else {**made, "z": parameters.get("z"), **parameters}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, tuple) else value


_SUMMARY = (
    "label", "scheme", "solver", "alpha", "z", "step", "sharing", "target_accuracy", "seeds", "seeds_reached",
    "epochs_to_target.median", "time_to_target_s.median", "time_to_target_s.p5", "time_to_target_s.p95",
    "speedup_over_conventional.median", "speedup_over_conventional.min", "speedup_over_conventional.max",
    "gain.solver", "gain.code", "sharing_s", "epoch_s_mean", "final_accuracy.median", "private",
    "exposure.server", "exposure.one_colluder", "exposure.two_colluders", "diverged", "reason",
)  # fmt: skip


def summary_bytes(found: Sequence[Results]) -> bytes:
    """What summary.csv holds: a row for each scheme, solver and convention of sharing at the headline target.

    Columns are named as in results.json, with a dot between an object and its field; an empty cell is None.
    """
    lines = [
        (each.dataset, each.n_devices, each.n_features, *(attrgetter(column)(row) for column in _SUMMARY))
        for each in found
        for row in each.schemes
        if row.target_accuracy == each.headline_target
    ]
    return csv_bytes(("dataset", "n_devices", "n_features", *_SUMMARY), lines)


def csv_bytes(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> bytes:
    """A table with a line of names on top."""
    buffer = io.StringIO(newline="")
    rows = csv.writer(buffer, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(lines)
    return buffer.getvalue().encode()


def summary(values: Sequence[float]) -> Summary:
    """Infinite values are seeds that never got there; no values make an empty summary."""
    if not values:
        return Summary()
    array = np.array(values)
    return Summary(*(finite(float(of(array))) for of in (np.median, np.mean, np.min, np.max)))


def finite(value: float) -> float | None:
    """JSON has no infinity: None stands for a target never reached."""
    return value if math.isfinite(value) else None
