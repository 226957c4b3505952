"""The experiment with institutions' tables, on a small made-up one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from experiments.hospitals import MOST_STANDARD_ERRORS, Partitioned, rehearsed, report


def made_up() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 400
    age, ward = rng.integers(18, 95, n).astype(float), rng.choice(["ward", "icu"], n)
    days = 0.2 * age + 3 * (ward == "icu") + rng.normal(size=n)
    age[rng.random(n) < 0.1] = np.nan
    days[:3] = np.nan
    return pd.DataFrame({"clinic": rng.integers(0, 10, n), "age": age, "ward": ward, "days": days})


def test_from_a_folder_of_tables_to_statsmodels_numbers(tmp_path: Path):
    found = rehearsed(Partitioned("stays", made_up, "clinic", "days", ("age", "ward")), tmp_path)
    assert found.rehearsal.problem.n_devices == 10
    assert found.rehearsal.scored == 6
    assert found.inference.names == ("constant", "age", "age missing", "ward = ward")
    assert 0 < found.furthest < MOST_STANDARD_ERRORS
    assert found.furthest_error < MOST_STANDARD_ERRORS
    text = report("stays", found)
    assert text.startswith(f"stays: {found.inference.rows} training rows on 10 devices, 40 % of them dead after upload")
    assert "held-out rows of 6 of 10 devices" in text
