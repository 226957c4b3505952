"""What DataSHIELD's analyst sees of every site of Fed-Heart, beside what our server sees of all of them.

``glmDS2`` returns of each site X'WX, the score and the deviance to ``ds.glm`` in every iteration
(https://github.com/datashield/dsBase). At the first, where all coefficients are 0, these are a quarter of X'X and the
sum of y - 1/2: exact counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from codedfl.analyses.glm import GlmFinding
from codedfl.contract.snapshot import take_snapshot
from codedfl.run.rehearsal import rehearsal_key
from codedfl.statistics.newton import Newton
from experiments.benchmarks.flamby import fitted, heart_rows


class Seen(NamedTuple):
    """Of one site: rows, and those with the disease, as its first score has them; of ours, totals and numbers."""

    sites: dict[str, tuple[int, int]]
    numbers: int
    iterations: int


def seen(data_dir: Path | None = None) -> Seen:
    """From the sums that a site would send."""
    study, tables, _ = heart_rows(data_dir)
    found = fitted(study, tables).found
    assert isinstance(found, GlmFinding)
    model, sites, numbers = study.models[0], {}, 0
    for name, table in tables.items():
        statistic = Newton(study, np.zeros(Newton.point_length(study, model)), model)
        sums = statistic.reals(statistic.vector(take_snapshot(study, table, rehearsal_key(name))).tolist())
        rows, score, numbers = sums[0], sums[3], len(sums)
        sites[name] = (round(rows), round(score + rows / 2))
    return Seen(sites, numbers, found.fit.iterations)
