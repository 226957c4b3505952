"""Made-up tables of one clinic, and studies on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.data.columns import CategoryColumn, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table

KEY = bytes(range(32))
AGE = NumberColumn("age", (0.0, 110.0), 1.0)
CRP = NumberColumn("crp", (0.0, 500.0), 0.1, missing=5.0)
SEX = CategoryColumn("sex", ("f", "m"))
DAYS = NumberTarget("days", (0.0, 60.0), 1.0)
STUDY = Study("stay", (AGE, CRP, SEX), DAYS, 10_000, 2000, 3, held_out=0.0)
K = STUDY.least_alike

Columns = dict[str, list[Any]]


def patients(count: int, seed: int = 0) -> Columns:
    rng = np.random.default_rng(seed)
    return {
        "nr": [1000 * seed + i for i in range(count)],
        "age": rng.integers(20, 90, count).tolist(),
        "crp": np.round(rng.exponential(20.0, count), 1).tolist(),
        "sex": rng.choice(["f", "m"], count).tolist(),
        "bmi": np.round(rng.normal(26, 4, count), 1).tolist(),
        "days": rng.integers(1, 40, count).tolist(),
    }


def joined(*parts: Columns) -> Columns:
    return {name: [value for part in parts for value in part[name]] for name in parts[0]}


def table(columns: Columns) -> RawTable:
    return as_raw_table(columns, "t.csv")


def some(columns: Columns, rows: Any) -> Columns:
    return {name: np.array(values, dtype=object)[rows].tolist() for name, values in columns.items()}


NAMES = tuple(f"clinic-{i}" for i in range(4))


def identity(name: str) -> Identity:
    return Identity(bytes([1 + NAMES.index(name)] * 32))


ROSTER = Roster.draft({name: identity(name).public for name in NAMES}, colluders=1)


def agreed(study: Study, roster: Roster = ROSTER) -> Study:
    """As it stands in a contract: with the roster's digest and a server's key."""
    return replace(study, roster=roster.digest().hex(), server_key="ab" * 32)
