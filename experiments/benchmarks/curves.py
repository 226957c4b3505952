"""Kaplan-Meier at 500 sites beside what threshold CKKS costs (arXiv 2412.20495, Veeraragavan, Boudko, Nygård).

Their first version tells 8 to 19 times the time of the plain run, up to 50 sites; their second has 500 sites and 60 000
rows, curves like those of pooled rows to numerical precision. Ours is timed in one process, by its
processor: every device, the server, all messages, without a network; plain is the sum of the same counts by the same
code, without pads or signatures.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from codedfl.contract.models.survival import SurvivalModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study
from codedfl.report.event_log import EVENTS_FILE, Finished
from codedfl.run.rehearsal import Rehearsed, made_up_roster, rehearsal_key, rehearse
from codedfl.statistics.statistic import Ask, contribution
from experiments.statistics.cases import Case

SITES, ROWS = 500, 60_000
TIMES = tuple(map(float, range(30, 3601, 30)))
RUNS = 3


class Curves(NamedTuple):
    """What one run came to.

    difference: the largest of a share from that of pooled rows on the grid. ratios: of the time of the plain sum.
    """

    difference: float
    ratios: list[float]
    seconds: float
    bytes_per_site: float
    numbers: int


def made_up() -> Case:
    """Two arms; a third of the times is cut short."""
    rng = np.random.default_rng(0)
    arm = rng.choice(["a", "b"], ROWS)
    time_of = rng.exponential(np.where(arm == "a", 1800.0, 2400.0))
    until = rng.uniform(300, 5000, ROWS)
    days = np.clip(np.ceil(np.minimum(time_of, until)), 1, 4000)
    values: dict[str, Any] = {"arm": arm, "died": (time_of <= until).astype(np.float64), "days": days}
    return Case(values, "days", {"died": 1.0, "days": 1.0}, beside=("died",))


def plain(study: Study, rows: list[Any]) -> tuple[float, int]:
    """Seconds to add up the counts of a study in the clear, and how many they are."""
    began, ask = time.process_time(), Ask("survival", model=study.models[0].name)
    total = np.sum([contribution(study, ask, one) for one in rows], axis=0)
    return time.process_time() - began, len(total)


def shares(
    time_of: np.ndarray[Any, Any], died: np.ndarray[Any, Any], grid: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """By definition: times count as the next one of the grid; who is cut short leaves after the events."""
    place = np.searchsorted(grid, time_of)
    events = np.bincount(place[died == 1], minlength=len(grid) + 1)[:-1]
    left = np.bincount(place, minlength=len(grid) + 1)
    at_risk = len(time_of) - np.concatenate(([0], np.cumsum(left)[:-2]))
    return np.asarray(np.cumprod(1.0 - events / np.maximum(at_risk, 1)))


def curves() -> Curves:
    """Several runs of one study."""
    case = made_up()
    study = case.study(SurvivalModel("m", ("arm",), "died", TIMES), features="none")
    order = np.array_split(np.random.default_rng(1).permutation(ROWS), SITES)
    tables = {f"site-{k:03d}": case.table.rows(np.sort(part)) for k, part in enumerate(order)}
    rows = {name: take_snapshot(study, one, rehearsal_key(name)) for name, one in tables.items()}
    ready = Rehearsed(study, made_up_roster(study, tables), rows)
    ratios, seconds, told = list[float](), list[float](), 0
    for run in range(RUNS):
        in_clear, numbers = plain(study, list(rows.values()))
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            (found,) = rehearse(ready, np.random.default_rng(run), folder=Path(folder)).findings.models
            seconds.append(time.process_time() - began)
            told = _bytes((Path(folder) / EVENTS_FILE).read_text(encoding="utf-8"))
        ratios.append(seconds[-1] / in_clear)
    result: Any = found.to_dict()
    off = 0.0
    for one in result["curves"]:
        grid = np.array([row["time"] for row in one["curve"] if row["time"] > 0])
        share = np.array([row["share"] for row in one["curve"] if row["time"] > 0])
        here = case.values["arm"] == one["group"]
        off = max(off, float(np.abs(share - shares(case.values["days"][here], case.values["died"][here], grid)).max()))
    return Curves(off, ratios, float(np.median(seconds)), told / SITES, numbers)


def _bytes(log: str) -> int:
    """What all devices sent and got."""
    ended = [event for event in map(json.loads, log.splitlines()) if event["event"] == Finished.event]
    return int(ended[-1]["received"] + ended[-1]["sent"])
