"""Every table that comes with scikit-learn, as a problem on four devices."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from sklearn import datasets as tables

from codedfl.data.task import Task
from codedfl.run.sums_in_process import secure_moments_in_process
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.problem import make_problem

TABLES = ("breast_cancer", "diabetes", "digits", "iris", "wine")


@lru_cache(maxsize=16)
def table_totals(name: str, features: str) -> CentralTotals:
    X, y = getattr(tables, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    task: Task = "regression" if name == "diabetes" else "classification"
    y = y.astype(np.float64 if task == "regression" else np.int64)
    data = Dataset(name, X[:-30], y[:-30], X[-30:], y[-30:], task)
    problem = make_problem(
        data, n_devices=4, features=features, n_features=100, secure_moments=secure_moments_in_process
    )
    return CentralTotals(problem)
