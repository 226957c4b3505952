"""Which scheme, alpha, number of groups and solver for this fleet, this data and this target.

Epochs to the target come from training centrally, once per solver (coded schemes make the same models whatever alpha
is); times come from Monte-Carlo on the fleet. Every plan says what it costs a device and what leaks to whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from codedfl.data.problem import PAPER_REGULARISATION
from codedfl.errors import InvalidInput
from codedfl.run.simulator import trajectory
from codedfl.schemes import (
    CodedKeys,
    CodedPadded,
    CodedScheme,
    Conditions,
    Conventional,
    ConventionalFullBatch,
    Descent,
    OneShot,
    Scheme,
    WorkShape,
    epoch_end_times,
)
from codedfl.schemes.central import CentralTotals
from codedfl.schemes.scheme import FLOAT_BITS, RING_BITS
from codedfl.solve.descent import STEPS
from codedfl.study.comparison import Entry
from codedfl.typing import Progress

GROUP_SIZE = 25  # candidates for large fleets: groups of about this many devices, and of twice as many
ALPHAS_TRIED = 14
MAX_EPOCHS = {"gd": 1000, "nesterov": 400, "cg": 60}


@dataclass(frozen=True)
class Limits:
    """What a plan must keep to. None is no limit; bytes are per device and for the whole training."""

    max_exposure: int | None = None
    max_upload: float | None = None
    max_memory: float | None = None
    allow_gram: bool = False


@dataclass(frozen=True)
class Plan:
    """One way to train, its time to the target and its price.

    exposure: how many devices' data one device colluding with the server gives away (alpha; itself if uncoded).
    gram_directions: of how many directions of the total Gram matrix the server learns the image, of ``n_features``.
    """

    scheme: str
    alpha: int
    groups: int
    solver: str
    epochs: int
    seconds_mean: float
    seconds_p5: float
    seconds_p95: float
    sharing_seconds: float
    epoch_seconds: float
    upload_bytes: float
    download_bytes: float
    macs: float
    memory_bytes: float
    stragglers: int
    server_sees: str
    gram_directions: int
    n_features: int
    exposure: int
    parameters: Mapping[str, float] = field(default_factory=dict)  # all of the scheme's own

    @property
    def label(self) -> str:
        coded = f", α = {self.alpha}" if self.is_coded else ""
        grouped = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{self.scheme}{coded}{grouped}, {self.solver}"

    @property
    def is_coded(self) -> bool:
        return self.scheme not in (Conventional.name, ConventionalFullBatch.name)

    @property
    def reveals_gram(self) -> bool:
        return self.gram_directions >= self.n_features

    def objections(self, limits: Limits) -> list[str]:
        """Which limits the plan breaks; empty when none."""
        found = []
        if limits.max_exposure is not None and self.exposure > limits.max_exposure:
            found.append(f"exposure {self.exposure} > {limits.max_exposure}")
        if limits.max_upload is not None and self.upload_bytes > limits.max_upload:
            found.append(f"upload {self.upload_bytes:.3g} B > {limits.max_upload:.3g} B")
        if limits.max_memory is not None and self.memory_bytes > limits.max_memory:
            found.append(f"memory {self.memory_bytes:.3g} B > {limits.max_memory:.3g} B")
        if self.reveals_gram and self.is_coded and not limits.allow_gram:
            found.append("the server learns the whole total Gram matrix")
        return found


@dataclass
class Planning:
    """The outcome: ``plans`` that keep to the limits, fastest first; ``left_out`` with the reasons."""

    target: float
    plans: list[Plan] = field(default_factory=list)
    left_out: list[tuple[Plan, list[str]]] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)  # solvers that never reach the target

    @property
    def best(self) -> Plan:
        if not self.plans:
            reasons = sorted({reason for _, why in self.left_out for reason in why} | set(self.unreached))
            raise InvalidInput(f"at least one plan must keep to the limits, got none ({'; '.join(reasons)})")
        return self.plans[0]

    def why(self) -> str:
        """In words: why the winner wins, against conventional FL and against the next different scheme."""
        best = self.best
        sentence = (
            f"{best.label} takes {best.seconds_mean:.4g} s: {best.sharing_seconds:.3g} s before training, then"
            f" {best.epochs} epochs of {best.epoch_seconds:.3g} s."
        )
        everything = [*self.plans, *(plan for plan, _ in self.left_out)]
        for name in (Conventional.name, ConventionalFullBatch.name):
            rival = next((plan for plan in everything if plan.scheme == name and plan is not best), None)
            if rival is not None:
                words = "conventional FL" if name == Conventional.name else f"conventional FL with {rival.solver}"
                sentence += (
                    f" {words} needs {rival.seconds_mean:.4g} s ({rival.epochs} epochs of {rival.epoch_seconds:.3g} s,"
                    f" waiting for the slowest), {rival.seconds_mean / best.seconds_mean:.3g} times as long."
                )
        if not best.is_coded:
            sentence += " Coding does not pay on this fleet: stragglers cost less than the sharing phase."
        return sentence


def plan(
    totals: CentralTotals,
    at: Conditions,
    target: float,
    limits: Limits | None = None,
    *,
    solvers: Sequence[str] = ("gd", "nesterov", "cg"),
    step: str = "paper",
    regularisation: float = PAPER_REGULARISATION,
    draws: int = 100,
    seed: int = 0,
    progress: Progress | None = None,
) -> Planning:
    """Search schemes, alpha, groups and solvers; see ``Planning`` for the outcome."""
    if not 0 < target <= 1:
        raise InvalidInput(f"target must be between 0 and 1, got {target}")
    if at.fleet.n_devices != totals.problem.n_devices:
        raise InvalidInput(
            f"the fleet must have as many devices as the problem ({totals.problem.n_devices}), got {at.fleet.n_devices}"
        )
    say = progress or (lambda _what, _fraction: None)
    limits = limits or Limits()
    outcome = Planning(target)
    shape = WorkShape.of(totals.problem)
    epochs = _epochs_to_target(totals, at, target, solvers, step, regularisation, seed, say, outcome)
    candidates = list(_candidates(at.fleet.n_devices, epochs))
    for done, (scheme, solver) in enumerate(candidates):
        say(f"{scheme.label}, {solver}", 0.5 + done / len(candidates) / 2)
        made = _timed(scheme, solver, epochs[_models_of(scheme), solver], shape, at, draws, seed)
        why = made.objections(limits)
        if why:
            outcome.left_out.append((made, why))
        else:
            outcome.plans.append(made)
    outcome.plans.sort(key=lambda made: made.seconds_mean)
    outcome.left_out.sort(key=lambda pair: pair[0].seconds_mean)
    return outcome


def _models_of(scheme: Scheme) -> str:
    """Schemes whose models are the same share their number of epochs."""
    if isinstance(scheme, OneShot):
        return OneShot.name
    return "exact" if scheme.exact else scheme.name


def _epochs_to_target(
    totals: CentralTotals,
    at: Conditions,
    target: float,
    solvers: Sequence[str],
    step: str,
    regularisation: float,
    seed: int,
    say: Progress,
    outcome: Planning,
) -> dict[tuple[str, str], int]:
    """Epochs for each kind of model and solver; those that never get there are left out and named."""
    found: dict[tuple[str, str], int] = {}
    descent = Descent(STEPS[step], regularisation)
    kinds = [Entry(Conventional(), step=step), Entry(OneShot(1), step=step)]
    kinds += [Entry(CodedKeys(1), solver, step) for solver in solvers]
    for done, entry in enumerate(kinds):
        say(f"training with {entry.solver}", done / len(kinds) / 2)
        limit = 1 if isinstance(entry.scheme, OneShot) else MAX_EPOCHS[entry.solver]
        run = trajectory(
            entry.scheme,
            totals,
            entry.make_solver(limit, regularisation),
            descent,
            at,
            np.random.default_rng(seed),
            max_epochs=limit,
            target=target,
            beyond_target=1.0,
        )
        reached = run.epochs_to(target)
        if reached is None:
            best = float(run.scores.max())
            outcome.unreached.append(f"{_models_of(entry.scheme)} with {entry.solver} reached {best:.4f} only")
        else:
            found[_models_of(entry.scheme), entry.solver] = reached
    return found


def _candidates(n_devices: int, epochs: dict[tuple[str, str], int]) -> Iterator[tuple[Scheme, str]]:
    if (Conventional.name, "gd") in epochs:
        yield Conventional(), "gd"
    exact = [solver for kind, solver in epochs if kind == "exact"]
    for solver in exact:
        yield ConventionalFullBatch(), solver
    for groups in _group_counts(n_devices):
        size = n_devices // groups
        for alpha in _spread(1, size, ALPHAS_TRIED):
            for solver in exact:
                yield CodedKeys(alpha, groups), solver
                yield CodedPadded(alpha, groups), solver
            if (OneShot.name, "gd") in epochs:
                yield OneShot(alpha, groups), "gd"


def _group_counts(n_devices: int) -> list[int]:
    """One group for all if a device can bear D pads; otherwise groups of about 25 and 50 devices."""
    if n_devices <= 2 * GROUP_SIZE:
        return [1]
    return sorted({max(1, round(n_devices / size)) for size in (GROUP_SIZE, 2 * GROUP_SIZE)})


def _spread(low: int, high: int, count: int) -> list[int]:
    return sorted({round(value) for value in np.linspace(low, high, min(count, high - low + 1))})


def _timed(scheme: Scheme, solver: str, epochs: int, shape: WorkShape, at: Conditions, draws: int, seed: int) -> Plan:
    start, ends = epoch_end_times(scheme, shape, at, epochs, draws, np.random.default_rng([seed, 2]))
    total = ends[:, -1]
    alpha, groups = (scheme.alpha, scheme.groups) if isinstance(scheme, CodedScheme) else (1, 1)
    reveals = isinstance(scheme, CodedScheme) and scheme.reveals_gram
    return Plan(
        scheme=scheme.name,
        alpha=alpha,
        groups=groups,
        solver="closed-form" if reveals else solver,
        epochs=epochs,
        seconds_mean=float(total.mean()),
        seconds_p5=float(np.quantile(total, 0.05)),
        seconds_p95=float(np.quantile(total, 0.95)),
        sharing_seconds=float(start.mean()),
        epoch_seconds=float((total - start).mean() / epochs),
        stragglers=(alpha - 1) * groups,
        server_sees="each device's gradient" if not scheme.private else "the total only",
        gram_directions=gram_directions(shape, epochs, reveals_gram=reveals),
        n_features=shape.n_features,
        exposure=alpha,
        parameters=scheme.parameters,
        **_device_costs(scheme, alpha, epochs, shape, at),
    )


def gram_directions(shape: WorkShape, epochs: int, *, reveals_gram: bool) -> int:
    """Of how many directions of the total Gram matrix the server learns the image: c an epoch, never more than d."""
    return shape.n_features if reveals_gram else min(shape.n_features, shape.n_outputs * epochs)


def _device_costs(scheme: Scheme, alpha: int, epochs: int, shape: WorkShape, at: Conditions) -> dict[str, float]:
    """Bytes, MACs and memory of the busiest device, for the whole training."""
    load = scheme.epoch_load(shape, at.fleet)
    upload, download = epochs * load.bits_up / 8, epochs * load.bits_down / 8
    macs = epochs * float(np.max(load.macs))
    d = shape.n_features
    if not isinstance(scheme, CodedScheme):
        samples = int(shape.samples.max())
        held = d * d if scheme.exact else samples * (d + shape.n_outputs)
        return {"upload_bytes": upload, "download_bytes": download, "macs": macs, "memory_bytes": held * FLOAT_BITS / 8}
    bulk = shape.bulk_numbers * RING_BITS / 8
    upload += bulk
    pads = alpha if isinstance(scheme, CodedKeys) else 1
    if isinstance(scheme, CodedPadded):
        # The wire carries the bulk up once; the conventions that send it to each recipient pay for each.
        download += (alpha - 1) * bulk
        upload += (alpha - 2) * bulk if at.sharing != "multicast" and alpha > 1 else 0
    macs += shape.bulk_numbers * pads * (at.fleet.pad_macs_per_number + 1)
    # Two float32 planes of d x d, and the shared bulk once on its way.
    return {"upload_bytes": upload, "download_bytes": download, "macs": macs, "memory_bytes": 8.0 * d * d + bulk}


class CurveKey(NamedTuple):
    """Which plans make one curve over alpha."""

    scheme: str
    solver: str
    groups: int


def time_against_alpha(planning: Planning) -> dict[CurveKey, list[tuple[int, float]]]:
    """(alpha, mean seconds) of every scheme, solver and number of groups; plans left out are part of it."""
    curves: dict[CurveKey, list[tuple[int, float]]] = {}
    for made in (*planning.plans, *(made for made, _ in planning.left_out)):
        if made.is_coded:
            key = CurveKey(made.scheme, made.solver, made.groups)
            curves.setdefault(key, []).append((made.alpha, made.seconds_mean))
    return {key: sorted(points) for key, points in sorted(curves.items())}
