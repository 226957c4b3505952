"""Rehearsals for tests: a study on tables of this machine, by the real protocol in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import Study
from codedfl.data.tables import RawTable
from codedfl.run.rehearsal import Rehearsal, Rehearsed, dealt_out, made_up_roster, rehearsal_key, rehearse


def snapshots_of(study: Study, tables: Mapping[str, RawTable]) -> dict[str, Snapshot]:
    return {name: take_snapshot(study, table, rehearsal_key(name)) for name, table in tables.items()}


def rehearsed(study: Study, tables: Mapping[str, RawTable], seed: int = 0, **options: Any) -> Rehearsal:
    """All devices have a table."""
    ready = Rehearsed(study, made_up_roster(study, tables), snapshots_of(study, tables))
    return rehearse(ready, np.random.default_rng(seed), **options)


def parts_of(table: RawTable, n_devices: int) -> dict[str, RawTable]:
    """Dealt out at random, and the same each time."""
    return dealt_out(table, n_devices, np.random.default_rng(0))
