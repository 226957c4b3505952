"""Every kind of analysis through a broker that loses, delays and doubles: what its rehearsal finds, bit for bit.

Rows are held out, so that scores and calibrations are over the same ones. A kind that is not listed here fails.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_broker import FaultyBroker
from test_studies_at_a_broker import Fleet

from approved_studies import NAMES, Federation, same_findings
from codedfl.analyses.analysis import NotFound
from codedfl.contract.models import MODELS, StudyModel
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table

pytestmark = pytest.mark.usefixtures("quick_disk")

TIMES = tuple(map(float, range(4, 61, 8)))
COLUMNS = (
    NumberColumn("age", (20.0, 90.0), 0.01),
    CategoryColumn("ward", ("a", "b")),
    CategoryColumn("sex", ("f", "m")),
    NumberColumn("crp", (0.0, 10.0), 0.01),
    NumberColumn("died", (0.0, 1.0), 1.0, in_model=False),
    NumberColumn("drug", (0.0, 1.0), 1.0, in_model=False),
    NumberColumn("family", (0.0, 999.0), 1.0, in_model=False),
)
# What a kind says beside its name and these columns.
SAYS: dict[str, dict[str, Any]] = {
    "gee": {"cluster": "family"},
    "random-intercept": {"cluster": "family"},
    "conditional-logit": {"strata": "family"},
    "cox": {"event": "died", "times": TIMES},
    "survival": {"columns": ("ward",), "event": "died", "times": TIMES},
    "iptw": {"columns": ("age", "crp"), "treatment": "drug"},
    "iptw-cox": {"columns": ("age", "crp"), "treatment": "drug", "event": "died", "times": TIMES},
    "anova": {"columns": ("ward",)},
    "chi2": {"columns": ("ward", "sex")},
    "table": {"columns": ("ward", "sex")},
    "linear": {"inference": True},
    "describe": {"columns": ("age", "sex", "crp"), "by": "ward"},
}
OF_NUMBERS = (
    *("anova", "correlation", "cox", "describe", "gamma", "gee", "iptw", "iptw-cox", "linear", "negative-binomial"),
    *("pca", "poisson", "quasi-poisson", "random-intercept", "residuals", "robust", "survival", "table"),
)
OF_TWO = ("chi2", "conditional-logit", "gee", "iptw", "logistic", "table")
OF_THREE = ("proportional-odds", "heads")
STUDIES: dict[str, tuple[NumberTarget | ClassTarget, tuple[str, ...]]] = {
    "numbers": (NumberTarget("visits", (1.0, 60.0), 1.0), OF_NUMBERS),
    "two classes": (ClassTarget("ill", ("no", "yes")), OF_TWO),
    "three classes": (ClassTarget("stage", ("I", "II", "III")), OF_THREE),
}


def model(kind: str) -> StudyModel:
    """All columns, unless a kind wants others."""
    said = {"columns": ("age", "ward", "sex", "crp"), **SAYS.get(kind, {})}
    return MODELS[kind](kind, **said)


def table(number: int) -> RawTable:
    """Families of two and three; with rows held out each size is still that of many."""
    rng = np.random.default_rng(number)
    family = np.repeat(np.arange(70.0), np.tile([2, 3], 35))
    n = len(family)
    age, crp = np.round(rng.uniform(20, 90, n), 2), np.round(rng.uniform(0, 10, n), 2)
    ward, sex = rng.choice(["a", "b"], n), rng.choice(["f", "m"], n)
    level = 0.02 * (age - 55) + 0.1 * crp + 0.5 * (ward == "b") + rng.normal(0, 0.5, 70)[family.astype(int)]
    drug = (rng.random(n) < 1 / (1 + np.exp(-0.02 * (age - 55)))).astype(float)
    visits = np.clip(1 + rng.negative_binomial(2, 1 / (1 + np.exp(1.2 + 0.5 * level))), 1, 60)
    latent = level + rng.logistic(size=n)
    values = {"age": age, "crp": crp, "ward": ward, "sex": sex, "drug": drug, "family": family}
    values |= {"died": (rng.random(n) < 0.6).astype(float), "visits": visits.astype(float)}
    values |= {
        "ill": np.where(latent > 0.3, "yes", "no"),
        "stage": np.array(["I", "II", "III"])[np.digitize(latent, [0, 1.5])],
    }
    return as_raw_table(values, f"{NAMES[number]}.csv")


def made(name: str, folder: Path) -> Federation:
    """All clinics have approved it."""
    target, kinds = STUDIES[name]
    study = Study("every-kind", COLUMNS, target, 2048, 256, 3, held_out=0.25, models=tuple(map(model, kinds)))
    found = Federation(replace(study, most_clipped=1.0), folder, approved=())
    for number, clinic in enumerate(NAMES):
        found.approve(clinic, None, table(number), "points")
    return found


def test_no_kind_is_missing() -> None:
    assert {kind for _, kinds in STUDIES.values() for kind in kinds} | {"linear"} == set(MODELS)


@pytest.mark.parametrize("name", STUDIES)
def test_every_analysis_at_a_bad_broker_is_its_rehearsal(name: str, tmp_path: Path) -> None:
    rng = random.Random(2)

    def fault(*_: object) -> str:
        return rng.choice(["lose", "twice", "late"]) if rng.random() < 0.02 else ""

    fleet = Fleet(made(name, tmp_path / "x"), FaultyBroker(fault))
    found = fleet.serve()
    assert [one.why for one in found.models if isinstance(one, NotFound)] == []
    same_findings(found, fleet.of.rehearsed())
