"""How far estimates are from the truth and from those of pooled rows, as Li et al. (2024, PMC11615161) judge.

They compare seven frameworks on made-up and on emergency department data, by the bias of logistic coefficients. Their
data are not public and their tables were not at hand, so this is their question on data of our own: five unequal sites
whose patients differ, a rare outcome, the true coefficients known. The rivals are the two kinds of framework that they
set against each other, in plain numpy: parameters averaged over rounds (FedAvg), and estimates of sites combined by the
inverse of their variances, both without any protection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from codedfl.analyses.glm import GlmFinding
from codedfl.contract.models.logistic import LogisticModel
from codedfl.typing import Floats
from experiments.statistics.cases import Case, found_by

TRUE = np.array([-2.2, 0.8, -0.5, 0.3, 0.6])
_SIZES = (900, 450, 250, 150, 120)
_NAMES = ("a", "b", "c", "d")
_STEP = 0.01
_STUDENT = 1.96
DRAWS = 40


class Bias(NamedTuple):
    """Of one framework over all draws: the mean of the largest difference of a coefficient, in standard errors.

    pooled: from the estimate of all rows together. truth: mean error of all coefficients; reach: half its interval.
    """

    name: str
    pooled: float
    truth: float
    reach: float


def draw(seed: int) -> dict[str, tuple[Floats, Floats]]:
    """Rows of each site; patients and how often they are ill differ from site to site."""
    rng = np.random.default_rng(seed)
    sites = {}
    for place, size in enumerate(_SIZES):
        middle = rng.normal(0, 0.6, len(_NAMES))
        X = np.clip(np.round(middle + rng.normal(0, 1, (size, len(_NAMES))), 2), -5, 5)
        chance = 1 / (1 + np.exp(-(TRUE[0] + X @ TRUE[1:])))
        sites[f"site-{place}"] = (np.column_stack((np.ones(size), X)), (rng.random(size) < chance).astype(np.float64))
    return sites


def share_ill() -> float:
    """Over all draws."""
    return float(np.mean([whole(draw(seed))[1].mean() for seed in range(DRAWS)]))


def whole(sites: dict[str, tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """The rows of all sites."""
    X, y = (np.concatenate(parts) for parts in zip(*sites.values(), strict=True))
    return X, y


def maximum(X: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Logistic coefficients and X'WX at them."""
    beta = np.zeros(X.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-X @ beta))
        information = (X * (chance * (1 - chance))[:, None]).T @ X
        beta = beta + np.linalg.solve(information, X.T @ (y - chance))
    return beta, information


def averaged(sites: dict[str, tuple[Floats, Floats]], rounds: int = 100, steps: int = 20, rate: float = 0.5) -> Floats:
    """FedAvg: every site takes full-batch steps from the average, which counts rows."""
    beta, rows = np.zeros(len(TRUE)), sum(len(y) for _, y in sites.values())
    for _ in range(rounds):
        following = np.zeros_like(beta)
        for X, y in sites.values():
            own = beta
            for _ in range(steps):
                own = own + rate * X.T @ (y - 1 / (1 + np.exp(-X @ own))) / len(y)
            following += own * len(y) / rows
        beta = following
    return beta


def combined(sites: dict[str, tuple[Floats, Floats]]) -> Floats:
    """Estimates of the sites by the inverse of their variances."""
    found = [maximum(X, y) for X, y in sites.values()]
    whole = np.sum([information for _, information in found], axis=0)
    return np.asarray(np.linalg.solve(whole, np.sum([information @ beta for beta, information in found], axis=0)))


def exact(sites: dict[str, tuple[Floats, Floats]]) -> Floats:
    """Ours: a study, rehearsed by the real protocol."""
    X, y = whole(sites)
    values = {name: X[:, 1 + place] for place, name in enumerate(_NAMES)}
    case = Case({**values, "ill": np.where(y == 1, "yes", "no")}, "ill", dict.fromkeys(_NAMES, _STEP))
    study = case.study(LogisticModel("m", _NAMES, bound=15.0))
    ends = np.cumsum([len(y) for _, y in sites.values()])
    parts = {
        name: case.table.rows(rows) for name, rows in zip(sites, np.split(np.arange(len(y)), ends[:-1]), strict=True)
    }
    (found,) = found_by(study, parts).models
    assert isinstance(found, GlmFinding), found.lines()
    return found.coefficients


def together(sites: dict[str, tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """All rows in one place, in the clear."""
    return maximum(*whole(sites))


FRAMEWORKS: dict[str, Callable[[dict[str, tuple[Floats, Floats]]], Floats]] = {
    "pooled rows, in the clear": lambda sites: together(sites)[0],
    "codedfl": exact,
    "estimates combined by inverse variances": combined,
    "FedAvg, 20 local steps": averaged,
}


def lines(draws: int = DRAWS) -> list[Bias]:
    """Over draws of patients."""
    of_pooled = {name: list[float]() for name in FRAMEWORKS}
    of_truth = {name: list[float]() for name in FRAMEWORKS}
    for seed in range(draws):
        sites = draw(seed)
        truth, information = together(sites)
        errors = np.sqrt(np.diag(np.linalg.inv(information)))
        for name, framework in FRAMEWORKS.items():
            beta = framework(sites)
            of_pooled[name].append(float(np.abs((beta - truth) / errors).max()))
            of_truth[name].append(float(((beta - TRUE) * np.sign(TRUE)).mean()))
    return [
        Bias(
            name,
            float(np.mean(of_pooled[name])),
            float(np.mean(of_truth[name])),
            _STUDENT * float(np.std(of_truth[name], ddof=1)) / draws**0.5,
        )
        for name in FRAMEWORKS
    ]
