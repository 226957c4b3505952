"""What noise costs and what it hides: accuracy against epsilon, membership tests, and a lower bound on epsilon.

Rows of random features on the paper's 25 devices, noise made for 20 honest ones; both ways of solving: the closed form
on the cleared spectrum (role-sums), and AdaSSP's ridge alone, which is all that products allow (role-keys). The totals
are those of the protocol (``noisy_totals``). Membership is tested in two ways: by somebody with the model, who looks at
how well it fits a row, and by the strongest adversary there is (``noise_audit``).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from codedfl.privacy.budget import DELTA, Budget
from codedfl.privacy.calibration import advantage
from codedfl.typing import Floats, Progress
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.paper import EXPERIMENTS
from codedfl_lab.comparing.results import Claim, Written
from codedfl_lab.planning.noisy_totals import NoisyTotals, plain_ridge
from codedfl_lab.problems.problem import Problem
from codedfl_lab.reproduce.noise_audit import FAULTS, AuditRow, audit
from codedfl_lab.reproduce.scope import ClaimScope, software_versions

EPSILONS = (1.0, 3.0, 8.0)
HONEST = 20
FEATURES = (1000, 2000)
AUDITED = 3.0  # the epsilon at which a few hundred thousand runs can tell half the noise from the whole

# What was measured before there was this code, with continuous noise and an analytic calibration (test accuracy in
# per cent, two or three seeds): without noise, then for each epsilon AdaSSP's ridge alone and with shrinking.
REFERENCE: dict[tuple[str, int], tuple[float, dict[float, tuple[float, float]]]] = {
    ("mnist", 1000): (93.8, {1.0: (83.4, 90.8), 3.0: (87.6, 92.3), 8.0: (90.4, 92.8)}),
    ("mnist", 2000): (95.6, {1.0: (82.1, 91.4), 3.0: (86.5, 93.3), 8.0: (90.1, 94.5)}),
    ("fashion-mnist", 1000): (84.0, {1.0: (73.9, 80.6), 3.0: (76.6, 82.6), 8.0: (79.1, 83.5)}),
    ("fashion-mnist", 2000): (85.8, {1.0: (73.2, 80.4), 3.0: (76.0, 83.0), 8.0: (78.8, 84.4)}),
}


@dataclass(frozen=True)
class NoiseRow:
    """One data set, number of features and epsilon; None is no noise. Numbers are means over the seeds.

    Attributes
    ----------
    ridge, shrunken : float
        Test accuracy with AdaSSP's ridge alone, and with the spectrum cleared; the same without noise.
    lowest, highest : float
        Of ``shrunken`` over the seeds.
    membership, bound : float
        Advantage of a membership test by the fit of a row, and the most that epsilon allows.
    shortened : float
        Share of the rows that were longer than the clip norm.
    expected : float or None
        ``shrunken`` as it was measured before.
    """

    dataset: str
    n_features: int
    epsilon: float | None
    ridge: float
    shrunken: float
    lowest: float
    highest: float
    membership: float
    bound: float
    shortened: float
    expected: float | None


@dataclass(frozen=True)
class NoiseResults(Written):
    """The outcome of the study."""

    rows: tuple[NoiseRow, ...]
    audits: tuple[AuditRow, ...]
    delta: float
    honest: int
    n_devices: int
    seeds: tuple[int, ...]
    quick: bool
    command: str
    seconds: float
    versions: dict[str, str]

    name: str = "noise"

    @property
    def claims(self) -> list[Claim]:
        """What the study set out to show, and whether it does."""
        near = [row for row in self.rows if row.expected is not None and row.epsilon is not None]
        far = max((abs(100 * row.shrunken - row.expected) for row in near if row.expected is not None), default=None)
        sound = [row for row in self.audits if row.fault == FAULTS[0]]
        broken = [row for row in self.audits if row.fault != FAULTS[0]]
        found = [
            (
                "a membership test by the fit of a row stays below the bound of epsilon",
                all(row.membership <= row.bound for row in self.rows if row.epsilon is not None),
                ", ".join(f"{row.membership:.3f} of {row.bound:.3f}" for row in self.rows if row.epsilon is not None),
            ),
            (
                "the strongest adversary stays below the bound, and shows no epsilon above the stated one",
                all(row.advantage <= row.bound and not row.caught for row in sound),
                ", ".join(f"{row.shown:.2f} of {row.epsilon:g}" for row in sound),
            ),
            (
                "it catches planted faults",
                all(row.caught for row in broken),
                ", ".join(f"{row.fault} ({row.shown:.2f})" for row in broken),
            ),
        ]
        if far is not None and not self.quick:
            before = "accuracy is within one point of what was measured before"
            found.insert(0, (before, far <= 1.0, f"{far:.1f} at most"))
        return [Claim(words, "all", None, "holds" if holds else "fails", why) for words, holds, why in found]


def reproduce_noise(
    scope: ClaimScope,
    progress: Progress | None = None,
    *,
    features: Sequence[int] = FEATURES,
    audit_runs: int = 200_000,
) -> NoiseResults:
    """Run the study; ``features`` other than the usual, or fewer rows, make a quick look."""
    began, say = time.perf_counter(), progress or (lambda *_: None)
    steps = len(EXPERIMENTS) * len(scope.seeds) * len(features)
    found: list[_Measured] = []
    for name, experiment in EXPERIMENTS.items():
        data = scope.data(experiment)
        for seed in scope.seeds:
            for d in features:
                say(f"{name}, {d} features, seed {seed}", len(found) / (steps + 1))
                problem = replace(scope, n_features=d).problems(data, experiment, "sorted")(seed)
                found.append(_measured(name, problem, seed))
    say("audit", steps / (steps + 1))
    budget = Budget(AUDITED, honest=2)
    return NoiseResults(
        rows=tuple(_rows(found)),
        audits=tuple(audit(budget, fault, audit_runs) for fault in FAULTS),
        delta=DELTA,
        honest=HONEST,
        n_devices=scope.fleet.n_devices,
        seeds=tuple(scope.seeds),
        quick=tuple(features) != FEATURES or scope.rows is not None,
        command=scope.command,
        seconds=time.perf_counter() - began,
        versions=software_versions(),
    )


@dataclass(frozen=True)
class _Measured:
    """One problem: by epsilon (None: no noise) the two accuracies and the membership advantage."""

    dataset: str
    n_features: int
    shortened: float
    by_epsilon: dict[float | None, tuple[float, float, float]]


def _measured(name: str, problem: Problem, seed: int) -> _Measured:
    d, m = problem.n_features, problem.n_samples
    budgets = {epsilon: Budget(epsilon, HONEST) for epsilon in EPSILONS}
    noises = {epsilon: one.noise(d, problem.feature_map.bound) for epsilon, one in budgets.items()}
    totals = NoisyTotals(problem, noises[EPSILONS[0]])
    exact = totals.exact()
    plain = plain_ridge(exact.gram(), exact.cross, paper.REGULARISATION * m)
    score = problem.score(plain)
    found: dict[float | None, tuple[float, float, float]] = {None: (score, score, membership(problem, plain))}
    for epsilon, noise in noises.items():
        key = hashlib.sha256(f"study of noise, {name}, {d}, {seed}, {epsilon}".encode()).digest()
        ridge, shrunken = totals.models(noise, key)
        found[epsilon] = problem.score(ridge), problem.score(shrunken), membership(problem, shrunken)
    return _Measured(name, d, totals.shortened / m, found)


def membership(problem: Problem, theta: Floats) -> float:
    """Advantage of the best threshold on the squared error of a row: members found less others taken for members."""
    model = theta.astype(np.float32)
    targets = problem.recipe.labels.encode(problem.y_test)
    errors = [
        np.sort(np.square(X @ model - Y).sum(axis=1)) for X, Y in ((problem.X, problem.Y), (problem.X_test, targets))
    ]
    at = np.concatenate(errors)
    below = [np.searchsorted(one, at, side="right") / len(one) for one in errors]
    return float(max(0.0, (below[0] - below[1]).max()))


def _rows(found: Sequence[_Measured]) -> list[NoiseRow]:
    rows = []
    for name, d in dict.fromkeys((one.dataset, one.n_features) for one in found):
        mine = [one for one in found if (one.dataset, one.n_features) == (name, d)]
        for epsilon in mine[0].by_epsilon:
            numbers = np.array([one.by_epsilon[epsilon] for one in mine])
            ridge, shrunken, member = numbers.mean(axis=0).tolist()
            none, expected = REFERENCE.get((name, d), (None, {}))
            rows.append(
                NoiseRow(
                    dataset=name,
                    n_features=d,
                    epsilon=epsilon,
                    ridge=ridge,
                    shrunken=shrunken,
                    lowest=float(numbers[:, 1].min()),
                    highest=float(numbers[:, 1].max()),
                    membership=member,
                    bound=1.0 if epsilon is None else advantage(epsilon, DELTA),
                    shortened=float(np.mean([one.shortened for one in mine])),
                    expected=none if epsilon is None else expected.get(epsilon, (None, None))[1],
                )
            )
    return rows
