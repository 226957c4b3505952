"""Which scheme, alpha, number of groups and solver for this fleet, this data and this target.

Epochs to the target come from training centrally, once for every kind of model and solver (exact schemes make the same
models); times come from Monte-Carlo on the fleet. Which variants to try, what they cost a device and whom they expose,
the schemes say themselves. Plans that show the server single devices are listed and never recommended: nothing here
runs them. Of plans as fast as the fastest, within the noise of the draws, the one that exposes fewest is taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from codedfl.data.features.pca_rbf import PrincipalFourierFeatures
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.report.text import number, seconds
from codedfl.solve.descent import DERIVED
from codedfl.solve.registry import solver_kind, solver_kinds
from codedfl.solve.solver import Solver
from codedfl.typing import Floats, Progress, Seconds
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.code.roles import most_blocks
from codedfl_lab.comparing.comparison import Entry
from codedfl_lab.comparing.names import full_name, name_in_sentence, solver_name
from codedfl_lab.comparing.paired import mean_gap
from codedfl_lab.comparing.simulator import trajectory
from codedfl_lab.comparing.timed_scheme import TimedScheme, Workload
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions, Draws, WorkShape, epoch_end_times, models_key
from codedfl_lab.planning.noisy_totals import NoisyTotals
from codedfl_lab.problems.problem import PAPER_REGULARISATION, Problem
from codedfl_lab.schemes.descriptor import Scheme
from codedfl_lab.schemes.registry import SCHEMES
from codedfl_lab.schemes.role_keys import RoleKeyed, RoleKeys, RoleSums

EPOCHS_TRIED = 2  # times a solver's default
AS_FAST = 0.01
"""Part of the fastest plan's time by which another may be slower and still count as fast: two models of the same fleet
agree no better (tests/referee)."""


@dataclass(frozen=True)
class Limits:
    """What a plan must keep to. None is no limit; bytes are per device and for the whole training.

    max_exposure: devices that one device colluding with the server may expose beside itself.
    total_only: the server by itself must see no single device.
    colluders: how many devices may collude with the server without exposing another. 0 says what total_only says.
    allow_gram: also plans that show the server the whole total of X'X.
    survive: how many devices, whichever, may fail for good once training has begun.

    Examples
    --------
    >>> from codedfl_lab import Limits
    >>> Limits(colluders=1, max_upload=20e6).allow_gram
    False
    """

    max_exposure: int | None = None
    max_upload: float | None = None
    max_memory: float | None = None
    allow_gram: bool = False
    total_only: bool = False
    colluders: int | None = None
    survive: int = 0

    def __post_init__(self) -> None:
        for name, value in (("colluders", self.colluders), ("survive", self.survive)):
            if value is not None and value < 0:
                raise InvalidInput(f"{name} must be zero or positive, got {value}")

    def objections(self, plan: TimedScheme) -> list[str]:
        """Which limits the plan breaks; empty when none."""
        found = []
        if self.total_only and not plan.is_private:
            found.append(f"the server sees {plan.server_sees}")
        if self.colluders is not None and plan.colluders < self.colluders:
            found.append(f"{self.colluders} colluders expose others" if plan.is_private else "the server needs none")
        if self.max_exposure is not None and plan.exposed_by_one > self.max_exposure:
            found.append(f"exposure {plan.exposed_by_one} > {self.max_exposure}")
        if self.max_upload is not None and plan.upload_bytes > self.max_upload:
            found.append(f"upload {plan.upload_bytes:.3g} B > {self.max_upload:.3g} B")
        if self.max_memory is not None and plan.memory_bytes > self.max_memory:
            found.append(f"memory {plan.memory_bytes:.3g} B > {self.max_memory:.3g} B")
        if plan.failures_survived < self.survive:
            found.append(f"it survives {plan.failures_survived} failures, fewer than {self.survive}")
        if plan.reveals_gram and plan.is_private and not self.allow_gram:
            found.append("the server learns the whole total Gram matrix")
        return found


@dataclass
class Planning:
    """The outcome: ``plans`` that keep to the limits, fastest first; ``left_out`` with the reasons."""

    target: float
    plans: list[TimedScheme] = field(default_factory=list)
    left_out: list[tuple[TimedScheme, list[str]]] = field(default_factory=list)
    unreached: list[str] = field(default_factory=list)  # solvers that never reach the target
    highest: float | None = None  # the best score of those
    noisy_scores: dict[str, float] = field(default_factory=dict)  # with noise, of the schemes that can add it
    tied: list[TimedScheme] = field(default_factory=list)  # private ones that the draws cannot tell from the fastest
    from_zero: float | None = None  # mean seconds of the recommended plan with everything charged

    @property
    def everything(self) -> list[TimedScheme]:
        """Every plan that was tried, fastest first, those that a limit leaves out among them."""
        return sorted([*self.plans, *(made for made, _ in self.left_out)], key=_mean)

    def rival(self, scheme: str) -> TimedScheme | None:
        """The fastest plan of a scheme, whatever the limits; None where none reaches the target."""
        return next((made for made in self.everything if made.scheme == scheme), None)

    @property
    def fastest(self) -> TimedScheme | None:
        """The fastest plan that shows the server no single device; None if none keeps to the limits."""
        return next((made for made in self.plans if made.is_private), None)

    @property
    def recommended(self) -> TimedScheme | None:
        """The fastest, or one as fast that exposes fewer devices."""
        return min(self.tied, key=_exposing, default=self.fastest)

    @property
    def best(self) -> TimedScheme:
        if self.recommended is None:
            raise InvalidInput(self._why_none())
        return self.recommended

    def _why_none(self) -> str:
        """In one line; the tables have every plan."""
        out = next(((made, why) for made, why in self.left_out if made.is_private), None)
        if out is not None:
            return (
                f"the limits must leave a plan that shows the server no single device, got none: the fastest is"
                f" {full_name(out[0])}, left out because {' and '.join(out[1])}; loosen that limit"
            )
        only = "" if self.highest is None else f" (the best without it: {self.highest:.4g})"
        if self.plans:  # which show single devices, or one of them would be recommended
            only = f" ({self.plans[0].scheme} shows the server {self.plans[0].server_sees})"
        return f"target must be a score that a private scheme reaches, got {self.target:g}{only}: take a lower one"

    def why(self) -> str:
        """In words: the recommended plan, and conventional FL beside it, as in the paper and with its best solver."""
        best = self.best
        return " ".join(
            [
                f"{full_name(best)} takes {seconds(best.seconds_mean)}: {seconds(best.sharing_seconds)} before"
                f" training, then {epochs_words(best)} of {seconds(best.epoch_seconds)}. Once training has begun, any"
                f" {best.failures_survived} of the devices may fail.",
                *self.beside(),
            ]
        )

    def beside(self) -> list[str]:
        """What stands beside the recommended plan, a sentence each."""
        best, found = self.best, self._why_not_the_fastest()
        for name, words in ((Conventional.name, ""), (ConventionalFullBatch.name, " on full batches")):
            rival = self.rival(name)
            if rival is None:
                continue
            ratio, solver = rival.seconds_mean / best.seconds_mean, solver_name(rival.solver)
            found.append(
                f"Conventional FL{words}{solver and f' with {solver}'} needs {seconds(rival.seconds_mean)}"
                f" ({epochs_words(rival)} of {seconds(rival.epoch_seconds)}, waiting for the slowest),"
                f" {number(ratio)} times as long, and shows the server {rival.server_sees}."
            )
        open_ = next((made for made in self.everything if not made.is_private), None)
        if open_ is not None and open_.seconds_mean < best.seconds_mean:
            found.append(
                "Coding does not pay on this fleet in time: it buys that the server sees no single device."
                f" Faster is {name_in_sentence(open_)} with {seconds(open_.seconds_mean)}. It is not chosen, because"
                " codedfl runs only schemes whose server sees no single device: any other framework runs that one."
            )
        return found

    def _why_not_the_fastest(self) -> list[str]:
        best, fastest = self.best, self.fastest
        if fastest is None or fastest is best:
            return []
        if _exposed(best) == _exposed(fastest):
            why = f"it bears {fastest.colluders} colluders, this one {best.colluders}"
        else:
            why = (
                f"there one colluder exposes {fastest.exposed_by_one} devices, two {fastest.exposed_by_two}; here"
                f" {best.exposed_by_one} and {best.exposed_by_two}"
            )
        time = seconds(fastest.seconds_mean)
        return [f"{full_name(fastest)} is as fast within the noise of the draws ({time}), and {why}."]


def _exposed(made: TimedScheme) -> tuple[int, int, int]:
    """Devices, to the server alone, with one colluder, with two."""
    return made.exposed_to_server, made.exposed_by_one, made.exposed_by_two


def _exposing(made: TimedScheme) -> tuple[float, ...]:
    """Fewest devices first; of equals the one that bears most colluders, then the fastest."""
    return (*_exposed(made), -made.colluders, made.seconds_mean)


def _mean(made: TimedScheme) -> float:
    return made.seconds_mean


def epochs_words(made: TimedScheme) -> str:
    """Such as "7 epochs"."""
    return f"{made.epochs} epoch{'s' * (made.epochs != 1)}"


@dataclass(frozen=True)
class Search:
    """How plans are searched for.

    solvers: names or objects that were never started; None tries all that are known.
    step: the step of every descent, as in ``Entry``. ``codedfl lab train`` derives it; another is for comparisons only.
    regularisation: the ridge parameter.
    draws: latencies drawn for each plan.
    seed: draws the latencies and the noise.
    budget: how much a run may tell about a row; the outcome then says what score noise leaves to the schemes that
        can add it.

    Examples
    --------
    >>> from codedfl_lab import Search
    >>> Search(solvers=["cg"], draws=20).solvers_tried
    ['cg']
    """

    solvers: Sequence[str | Solver] | None = None
    step: str = DERIVED
    regularisation: float = PAPER_REGULARISATION
    draws: int = 100
    seed: int = 0
    budget: Budget | None = None

    @property
    def solvers_tried(self) -> Sequence[str | Solver]:
        if self.solvers is not None:
            return self.solvers
        return [name for name, kind in solver_kinds().items() if not kind.needs_gram]


def plan(
    problem: Problem | CentralTotals,
    at: Conditions,
    target: float,
    limits: Limits | None = None,
    search: Search | None = None,
    progress: Progress | None = None,
) -> Planning:
    """Search all schemes that are known; see ``Planning`` for the outcome.

    Examples
    --------
    >>> from codedfl_lab import make_problem
    >>> from codedfl_lab import Conditions, Fleet, Limits, Search, plan
    >>> from codedfl_lab.datasets import load
    >>> problem = make_problem(load("digits"), n_devices=10, n_features=50)
    >>> at = Conditions(Fleet.load("paper").scaled_to(10))
    >>> found = plan(problem, at, target=0.7, limits=Limits(colluders=1), search=Search(["block-krylov"], draws=5))
    >>> found.best.scheme
    'role-keys'
    """
    if not 0 < target <= 1:
        raise InvalidInput(f"target must be between 0 and 1, got {target}")
    totals = problem if isinstance(problem, CentralTotals) else CentralTotals(problem)
    if at.fleet.n_devices != totals.problem.n_devices:
        raise InvalidInput(
            f"the fleet must have as many devices as the problem ({totals.problem.n_devices}), got {at.fleet.n_devices}"
        )
    say = progress or (lambda _what, _fraction: None)
    limits, search = limits or Limits(), search or Search()
    outcome = Planning(target)
    work = Workload(WorkShape.of(totals.problem, totals.precision), at, search.draws)
    narrow = search.budget is None and totals.precision is None and draws_features(totals.problem)
    candidates = list(_candidates(at.fleet.n_devices, limits, search.solvers_tried, outcome, narrow=narrow))
    kinds = dict.fromkeys((models_key(scheme), solver) for scheme, solver in candidates)
    samples = {(models_key(scheme), solver): scheme for scheme, solver in reversed(candidates)}
    epochs: dict[tuple[Hashable, str | Solver], int] = {}
    for done, kind in enumerate(kinds):
        scheme, solver = samples[kind], kind[1]
        say(f"training with {solver_kind(solver).name}", done / len(kinds) / 2)
        reached = _epochs_to_target(Entry(scheme, solver, search.step), totals, at, search, outcome)
        if reached is not None:
            epochs[kind] = reached
    trained = [(scheme, solver) for scheme, solver in candidates if (models_key(scheme), solver) in epochs]
    seconds: dict[int, Floats] = {}
    of: dict[int, Scheme] = {}

    def times_of(scheme: Scheme, epochs: int, at: Conditions) -> tuple[Seconds, Seconds]:
        streams = np.random.default_rng([search.seed, 2]).spawn(2)  # alike for all: compared draw by draw
        return epoch_end_times(scheme, work.shape, at, epochs, Draws(search.draws, *streams))

    for done, (scheme, solver) in enumerate(trained):
        say(f"{scheme.label}, {solver_kind(solver).name}", 0.5 + done / len(trained) / 2)
        times = times_of(scheme, epochs[models_key(scheme), solver], at)
        made = TimedScheme.of(scheme, solver, work, *times)
        why = limits.objections(made)
        if why:
            outcome.left_out.append((made, why))
        else:
            outcome.plans.append(made)
            seconds[id(made)], of[id(made)] = times[1][:, -1], scheme
    outcome.plans.sort(key=_mean)
    outcome.tied = _as_fast(outcome, seconds)
    outcome.left_out.sort(key=lambda pair: pair[0].seconds_mean)
    if outcome.recommended is not None:
        best = outcome.recommended
        outcome.from_zero = float(times_of(of[id(best)], best.epochs, at.from_zero)[1][:, -1].mean())
    if search.budget is not None:
        outcome.noisy_scores = noisy_scores(totals.problem, search.budget, search.seed)
    return outcome


def _as_fast(outcome: Planning, seconds: Mapping[int, Floats]) -> list[TimedScheme]:
    """Private plans whose paired 95 % interval does not lie above the fastest one's mean time and ``AS_FAST`` of it."""
    fastest = outcome.fastest
    if fastest is None:
        return []
    own, most = seconds[id(fastest)], AS_FAST * fastest.seconds_mean
    return [made for made in outcome.plans if made.is_private and mean_gap(seconds[id(made)], own)[0] <= most]


def noisy_scores(problem: Problem, budget: Budget, seed: int) -> dict[str, float]:
    """By scheme: role-keys has products and the ridge alone, role-sums can clear the spectrum of X'X."""
    noise = budget.noise(problem.n_features, problem.feature_map.bound)
    key = hashlib.sha256(f"a plan with noise, {seed}".encode()).digest()
    products, cleared = NoisyTotals(problem, noise).models(noise, key)
    return {RoleKeys.name: problem.score(products), RoleSums.name: problem.score(cleared)}


def draws_features(problem: Problem) -> bool:
    """Whether a ring of 32 bits is enough: for random features and a target, never for a table's own columns."""
    return isinstance(problem.feature_map, RandomFourierFeatures | PrincipalFourierFeatures)


def _candidates(
    n_devices: int, limits: Limits, solvers: Sequence[str | Solver], outcome: Planning, *, narrow: bool
) -> Iterator[tuple[Scheme, str | Solver]]:
    """What the schemes want tried, with every solver they can run; a scheme that cannot be loaded is named."""
    outcome.unreached.extend(SCHEMES.broken.values())
    for kind in SCHEMES.values():
        asked_for = [] if limits.colluders is None else kind.tolerating(limits.colluders, n_devices)
        for scheme in dict.fromkeys([*kind.candidates(n_devices), *asked_for]):
            for variant in _variants(scheme, n_devices, limits.survive, narrow=narrow):
                for solver in variant.solvers(solvers):
                    yield variant, solver


def _variants(scheme: Scheme, n_devices: int, survive: int, *, narrow: bool) -> Iterator[Scheme]:
    """The scheme; with blocks of rows, the reserve that it takes to survive; on 32 bits too where that is enough.

    With blocks 48 bits are left out then: they are slower and expose nobody less.
    """
    if not isinstance(scheme, RoleKeyed):
        yield scheme
        return
    fitting = scheme
    while fitting.blocks > 1 and fitting.quorum(n_devices).failures_survived < survive:
        fitting = replace(fitting, reserve=fitting.reserve + 1)
        if most_blocks(fitting.holders or n_devices, fitting.colluders + 1, fitting.reserve) < fitting.blocks:
            return
    if scheme.blocks == 1 or not narrow:
        yield fitting
    if narrow:
        yield replace(fitting, narrow=True)


def _epochs_to_target(
    entry: Entry, totals: CentralTotals, at: Conditions, search: Search, outcome: Planning
) -> int | None:
    """Epochs to the target; None for a scheme that cannot run here or never gets there, which is then named."""
    scheme, solver, target = entry.scheme, entry.solver, outcome.target
    takes_solver = scheme.exact and not scheme.reveals_gram
    limit = EPOCHS_TRIED * solver_kind(solver).default_epochs if takes_solver or not scheme.exact else 1
    try:
        models = entry.models(totals, limit, search.regularisation, at, np.random.default_rng(search.seed))
        run = trajectory(models, totals, max_epochs=limit, target=target, beyond_target=1.0)
    except InvalidInput as error:
        outcome.unreached.append(f"{scheme.label} cannot run: {error}")
        return None
    reached = run.epochs_to(target)
    if reached is None:
        name = f"{models_key(scheme)} gradients" if models_key(scheme) == "exact" else scheme.label
        with_ = solver_kind(solver).name
        if run.diverged:
            outcome.unreached.append(f"{name} with {with_} diverges")
        else:
            best = float(run.scores.max())
            outcome.unreached.append(f"{name} with {with_} reached {best:.4f} only")
            outcome.highest = best if outcome.highest is None else max(best, outcome.highest)
    return reached
