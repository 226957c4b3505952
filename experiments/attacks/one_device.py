"""The server goes after one device: its mean image per class, or its single images if it has few samples.

What the server works with, by scheme:

* gradients (conventional, drop the slowest): the first one, at Theta = 0, is -X'Y, the sum of features per class;
* parity rows (CodedFedL): X~ = H X and Y~ = H Y with the same unknown H, so the least-squares fit of X~ to Y~ is the
  mean of features per class; exact where the device has one sample a class;
* role keys: the total; the device's own upload less the sums of pads; with a colluding device, less the pads whose
  seeds that one holds;
* a colluding device in the coded schemes: pads and padded data of the devices it answers for;
* coded answers: the total; the device's own answer less the pads the server knows ("own answer"); and all answers
  together by lattice reduction and by small sparse solves (``short_vectors``), which bring single devices back when
  masks are off and nothing when they are on.

Every attempt ends in the same decoder and the same score, and the best attempt on a scheme counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from codedfl.data.problem import Problem
from codedfl.protocol.messages import SERVER
from codedfl.protocol.schemes.coded_keys import CodedKeys, OneShot
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.descriptor import CodedScheme, Scheme
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl.solve.descent import STEP_PAPER
from codedfl_lab.baselines.coded_fedl import CodedFedL
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.costs.times import Descent, WorkShape
from experiments.attacks import roles
from experiments.attacks.coded_run import class_sum, coded_sums, column, decoded_total, run_recorded, seat_of
from experiments.attacks.collusion import unpadded
from experiments.attacks.decoder import Decoder
from experiments.attacks.scoring import Score, residual_correlation
from experiments.attacks.setting import Setting, Target
from experiments.attacks.short_vectors import Grid, ShortVectors
from experiments.baseline_views import parity_uploads, processed_gradient, sent_gradients
from experiments.views import View

Floats = NDArray[np.float64]

WITH_COLLUDER = "what the colluder holds"
_DESCENT = Descent(STEP_PAPER, 9e-6)


@dataclass(frozen=True)
class Case:
    """A scheme to attack; ``masks`` only concerns coded ones. ``colluder``: the last device helps the server."""

    scheme: Scheme
    masks: bool = True
    colluder: bool = False

    @property
    def label(self) -> str:
        return self.scheme.label + ("" if self.masks else ", masks off") + (", one colluder" if self.colluder else "")

    @property
    def claims_privacy(self) -> bool:
        if self.colluder:
            return isinstance(self.scheme, RoleKeys) and self.scheme.colluders > 0
        return isinstance(self.scheme, CodedScheme) and self.masks


@dataclass(frozen=True, eq=False)
class Attempt:
    """One way to get at single devices: the sum of features (in any scale) it finds for each target, or None.

    ``rows``: what part of a device's data it is about, where that is not all.
    """

    name: str
    found: dict[Target, Floats | None]
    rows: dict[int, slice]


@dataclass(frozen=True, eq=False)
class Finding:
    """An attempt on a case, scored; ``pictures`` are what it shows of each target."""

    case: Case
    attempt: str
    score: Score
    pictures: dict[Target, Floats]


def cases_for(n_devices: int) -> list[Case]:
    """Every scheme; the coded ones with a small and with a large alpha, with and without masks.

    Role keys as users get them, alone and with a colluding device; beside it the paper's scheme with one, at the alpha
    that is its default.
    """
    few, many = max(2, n_devices // 4), n_devices - 2
    baselines = (Conventional(), ConventionalFullBatch(), DropSlowest(n_devices // 5), CodedFedL(0.1), CodedFedL(0.8))
    ours = (CodedPadded(few), CodedPadded(many), CodedKeys(few), CodedKeys(many), OneShot(few))
    bare = (CodedPadded(few), CodedPadded(many), CodedKeys(few), OneShot(few))
    default = RoleKeys.default_for(n_devices)
    return [
        *(Case(scheme) for scheme in (*baselines, *ours, default)),
        *(Case(scheme, masks=False) for scheme in bare),
        *(Case(scheme, colluder=True) for scheme in (CodedPadded(many), default)),
    ]


@lru_cache(maxsize=1)
def server_view(case: Case, setting: Setting) -> View:
    """What the server of a coded scheme sees; kept for the next attack on the same case."""
    assert isinstance(case.scheme, CodedScheme)
    only = [SERVER]
    return run_recorded(case.scheme, setting.problem, masks=case.masks, only=only, curious_requests=True).server


def attempts_on(case: Case, setting: Setting, rng: np.random.Generator) -> Iterator[Attempt]:
    targets = setting.targets()
    if case.colluder:
        yield from _with_colluder(case, setting)
    elif isinstance(case.scheme, RoleKeys):
        yield from _on_uploads(server_view(case, setting), setting.problem, targets)
    elif isinstance(case.scheme, CodedScheme):
        yield from _on_coded(server_view(case, setting), setting.problem, targets)
    elif isinstance(case.scheme, CodedFedL):
        yield from _on_parity(case.scheme, setting, targets, rng)
    else:
        sent = sent_gradients(case.scheme, setting.problem, setting.fleet, _DESCENT, 1, rng)
        first = {one.device: one for one in sent}
        found = {
            target: -first[target.device].gradient[:, target.label].astype(np.float64)
            for target in targets
            if target.device in first and len(setting.rows(target, first[target.device].rows))
        }
        yield Attempt("first gradient", dict(found), {device: one.rows for device, one in first.items()})


def _on_parity(
    scheme: CodedFedL, setting: Setting, targets: list[Target], rng: np.random.Generator
) -> Iterator[Attempt]:
    problem = setting.problem
    chosen = scheme.allocation(WorkShape.of(problem), setting.fleet)
    means, partial, rows = {}, {}, {}
    for device in sorted({target.device for target in targets}):
        uploads = parity_uploads(scheme, problem, chosen, device, rng)
        X, Y = (np.vstack([getattr(upload, part) for upload in uploads]) for part in ("X", "Y"))
        means[device] = np.linalg.lstsq(Y, X, rcond=None)[0].astype(np.float64)
        partial[device] = processed_gradient(problem, chosen, device)
        rows[device] = partial[device].rows
    yield Attempt("parity rows", {target: means[target.device][target.label] for target in targets}, {})
    seen = [target for target in targets if len(setting.rows(target, rows[target.device]))]
    if seen:
        found = {one: -partial[one.device].gradient[:, one.label].astype(np.float64) for one in seen}
        yield Attempt("first gradient", dict(found), rows)


def _on_uploads(view: View, problem: Problem, targets: list[Target]) -> Iterator[Attempt]:
    total = roles.decoded_total(view, epoch=1)
    yield Attempt("decoded total", {one: class_sum(view, column(view, total, one.label)) for one in targets}, {})
    uploads, less = view.uploads(), roles.uploads_less_answers(view, epoch=1)
    alone: dict[Target, Floats | None] = {}
    rest: dict[Target, Floats | None] = {}
    for target in targets:
        alone[target] = class_sum(
            view, column(view, uploads[problem.device_names[target.device]].constant, target.label)
        )
        seat = seat_of(view, problem, target.device)
        rest[target] = class_sum(view, column(view, np.ascontiguousarray(less[:, seat]), target.label))
    yield Attempt("own upload", alone, {})
    yield Attempt("own upload less the sums of pads", rest, {})


def _with_colluder(case: Case, setting: Setting) -> Iterator[Attempt]:
    """The server with all that the last device draws and receives; that device's own rows are no target."""
    assert isinstance(case.scheme, CodedScheme)
    problem = setting.problem
    colluder = problem.n_devices - 1
    name = problem.device_names[colluder]
    recording = run_recorded(case.scheme, problem, only=[SERVER, name])
    view = recording.server
    held = (roles.less_known_pads if isinstance(case.scheme, RoleKeys) else unpadded)(recording, [name])
    found: dict[Target, Floats | None] = {}
    for target in setting.targets():
        if target.device != colluder:
            one = held.get(seat_of(view, problem, target.device))
            found[target] = None if one is None else class_sum(view, column(view, one.constant, target.label))
    yield Attempt(WITH_COLLUDER, found, {})


def _on_coded(view: View, problem: Problem, targets: list[Target]) -> Iterator[Attempt]:
    sums = coded_sums(view, epoch=1)
    total = decoded_total(view, sums)
    labels = sorted({target.label for target in targets})
    seat = {target: seat_of(view, problem, target.device) for target in targets}
    totals = {label: class_sum(view, column(view, total, label)) for label in labels}
    yield Attempt("decoded total", {target: totals[target.label] for target in targets}, {})
    yield Attempt("own answer", {target: _own_answer(view, sums, seat[target], target.label) for target in targets}, {})
    attacker, grid = ShortVectors(view), Grid.of_constant(view)
    unit = 2.0**-view.agreed.fixed_point.constant_bits
    solved: dict[str, Callable[..., NDArray[np.int64] | None]] = {
        "lattice reduction": attacker.lattice,
        "sparse solves": attacker.sparse,
    }
    for name, solve in solved.items():
        by_label = {label: solve(column(view, sums, label), grid) for label in labels}
        found: dict[Target, Floats | None] = {}
        for target in targets:
            short = by_label[target.label]
            found[target] = None if short is None else -short[seat[target]] * unit
        yield Attempt(name, found, {})


def _own_answer(view: View, sums: NDArray[np.float32], seat: int, label: int) -> Floats:
    """What the target's answer would say if it were of its own data alone: divided by its own coefficient."""
    ring = view.agreed.fixed_point.ring
    inverse = [[pow(row[0], -1, p)] for row, p in zip(view.agreed.code.coefficients(0), ring.primes, strict=True)]
    mine = column(view, sums[:, seat], label)
    alone = ring.zeros(mine.shape[1])
    ring.add_scaled(alone, inverse, [mine])
    return class_sum(view, alone)


def picture_of(decoder: Decoder, setting: Setting, found: Floats) -> Floats:
    """A mean image, or where a device has one sample a class the image itself."""
    return decoder.image(found) if setting.split == "few" else decoder.mean_image(found)


def score_attempt(case: Case, attempt: Attempt, setting: Setting, decoder: Decoder) -> Finding:
    pictures: dict[Target, Floats] = {}
    correlations: dict[Target, float | None] = {}
    for target, found in attempt.found.items():
        if found is None or not found.any():  # an all-zero sum is no picture
            correlations[target] = None
            continue
        pictures[target] = picture_of(decoder, setting, found)
        truth = setting.mean_image(target, attempt.rows.get(target.device))
        correlations[target] = residual_correlation(pictures[target], truth, setting.population_mean(target.label))
    return Finding(case, attempt.name, Score(correlations), pictures)


def yardstick(setting: Setting, decoder: Decoder) -> Score:
    """The attacker who is given only the total of X'Y."""
    problem = setting.problem
    total = problem.X.T.astype(np.float64) @ problem.Y
    pictures = {label: picture_of(decoder, setting, total[:, label]) for label in range(problem.n_outputs)}
    return Score(
        {
            target: residual_correlation(
                pictures[target.label], setting.mean_image(target), setting.population_mean(target.label)
            )
            for target in setting.targets()
        }
    )


def best_of(findings: list[Finding]) -> Finding:
    """By score; of two that are equal to the third digit, the one that reaches more targets."""
    return max(findings, key=lambda finding: (round(finding.score.mean, 3), finding.score.found))
