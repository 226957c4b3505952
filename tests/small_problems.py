"""Small problems on real data for the tests of simulator, comparison and planner."""

from __future__ import annotations

from functools import lru_cache

from codedfl_lab import datasets
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.problems.problem import Problem, make_problem


@lru_cache(maxsize=8)
def digits(n_devices: int = 10, n_features: int = 60, seed: int = 0, partition: str = "sorted") -> Problem:
    data = datasets.load("digits")
    return make_problem(data, n_devices=n_devices, n_features=n_features, seed=seed, partition_name=partition)


@lru_cache(maxsize=8)
def totals(n_devices: int = 10, n_features: int = 60, seed: int = 0, partition: str = "sorted") -> CentralTotals:
    return CentralTotals(digits(n_devices, n_features, seed, partition))
