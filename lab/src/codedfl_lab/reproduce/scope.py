"""How much of a study of the paper's data is run, and what all of these studies share."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import get_args

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.version import __version__
from codedfl_lab import datasets
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import Settings
from codedfl_lab.comparing.paper import Experiment
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import SharingConvention
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.problem import Problem, make_problem

CONVENTIONS: tuple[SharingConvention, ...] = get_args(SharingConvention)


@dataclass(frozen=True)
class ClaimScope:
    """How much is run, on which devices and files. Fewer features or rows than the paper's make a quick look.

    seeds: the seeds of the random features.
    draws: latencies drawn for each scheme.
    n_features: d.
    rows: about how many training rows are taken; None takes all.
    fleet: who the devices are.
    data_dir: where the files of the data sets may be.
    command: what was typed, for the report.
    """

    seeds: Sequence[int] = range(5)
    draws: int = 200
    n_features: int = paper.FEATURES
    rows: int | None = None
    fleet: Fleet = field(default_factory=lambda: Fleet.load(paper.FLEET))
    data_dir: Path | None = None
    command: str = ""

    @property
    def quick(self) -> bool:
        """The paper's numbers cannot be reached with so little."""
        return self.n_features < paper.FEATURES or self.rows is not None

    def data(self, experiment: Experiment) -> Dataset:
        """The experiment's data set, every n-th training row of it."""
        found = datasets.load(experiment.dataset, self.data_dir)
        if self.rows is None or self.rows >= len(found.y_train):
            return found
        if self.rows < 1:
            raise InvalidInput(f"rows must be at least 1, got {self.rows}")
        keep = np.linspace(0, len(found.y_train) - 1, self.rows).astype(np.int64)
        return replace(found, X_train=found.X_train[keep], y_train=found.y_train[keep])

    def problems(self, data: Dataset, experiment: Experiment, partition: str) -> Callable[[int], Problem]:
        """From a feature seed to its problem, made when it is asked for."""
        return lambda seed: make_problem(
            data,
            n_devices=self.fleet.n_devices,
            partition_name=partition,
            n_features=self.n_features,
            gamma=experiment.gamma,
            seed=seed,
        )

    def settings(self, experiment: Experiment, targets: tuple[float, ...]) -> Settings:
        """The paper's experiment, by all three conventions of sharing."""
        return Settings(
            Conditions(self.fleet),
            targets,
            conventions=CONVENTIONS,
            draws=self.draws,
            max_epochs=experiment.max_epochs,
        )


def without_price(settings: Settings) -> Settings:
    """Settings with pads and sealing for nothing, as the paper has it."""
    free = replace(settings.at.fleet, pad_macs_per_number=0.0, seal_macs_per_number=0.0)
    return replace(settings, at=replace(settings.at, fleet=free))


def software_versions() -> dict[str, str]:
    """What the numbers were made with."""
    return {
        "python": platform.python_version(),
        "codedfl": __version__,
        **{name: version(name) for name in ("numpy", "scikit-learn")},
    }
