"""A driver for tests: the totals of a study, added up in memory, and devices to add them up over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codedfl.analyses.study_analysis import StudyFindings, conduct
from codedfl.contract.census import Census, Decision, parts_of
from codedfl.contract.merging import Merged
from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import Study
from codedfl.data.tables import RawTable
from codedfl.statistics.statistic import Ask, contribution, statistic_of


def total_of(study: Study, ask: Ask, snapshots: Sequence[Snapshot]) -> list[int]:
    statistic = statistic_of(study, Ask.decode(ask.encode(), study))
    total = np.zeros(statistic.length, dtype=object)
    for rows in snapshots:
        total += contribution(study, ask, rows).astype(object)
    integers = total.tolist()
    assert max(map(abs, integers)) <= statistic.limit
    return integers


def conducted(
    study: Study, snapshots: Sequence[Snapshot], products: Callable[[Ask], np.ndarray] | None = None
) -> StudyFindings:
    run = conduct(study)
    ask = next(run)
    answer: Any
    while True:
        if ask.statistic == "census":
            answer = census_of(study, snapshots)
        else:
            answer = products(ask) if ask.statistic == "products" else total_of(study, ask, snapshots)
        try:
            ask = run.send(answer)
        except StopIteration as end:
            return end.value


def census_of(study: Study, snapshots: Sequence[Snapshot]) -> Decision:
    """What a census of these owners decides, in as many disclosure groups as there can be."""
    if not study.needs_census:
        return Decision()
    n_groups = max(1, len(snapshots) // (study.colluders + 2))
    groups = [list(one) for one in np.array_split(np.arange(len(snapshots)), n_groups)]
    parts = [
        [place for number in part for place in groups[number]] for part in parts_of(range(n_groups), study.colluders)
    ]
    merged: Merged = ()
    rounds: list[list[list[int]]] = []
    while True:
        ask = Ask("census", merged)
        rounds.append([total_of(study, ask, [snapshots[place] for place in part]) for part in parts])
        census = Census(study, [len(part) for part in parts], rounds)
        merged = census.merged
        if census.is_over:
            return Decision((), merged, b"", census.refused())


def dealt(study: Study, table: RawTable, n_devices: int = 4, seed: int = 0) -> list[Snapshot]:
    """One snapshot per device, of rows dealt out at random."""
    parts = np.array_split(np.random.default_rng(seed).permutation(len(table)), n_devices)
    return [take_snapshot(study, table.rows(part), bytes(31) + bytes([place])) for place, part in enumerate(parts)]


def pooled(snapshots: Sequence[Snapshot], held_out: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Codes and target codes of all training rows, or of all held-out rows."""
    parts = [one.part(held_out) for one in snapshots]
    return np.concatenate([one.codes for one in parts]), np.concatenate([one.target for one in parts])
