"""From what the user typed to data, devices and defaults; the rules are those the help states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from codedfl.cli.options import listed
from codedfl.cli.screen import Screen
from codedfl.data.task import Task
from codedfl.errors import InvalidInput
from codedfl.run.sums_in_process import secure_moments_in_process
from codedfl_lab import datasets
from codedfl_lab.cli.options import DataOptions, FleetOptions, ModelOptions
from codedfl_lab.comparing import paper
from codedfl_lab.datasets.shifted_digits import SHIFTED_DIGITS
from codedfl_lab.datasets.table_file import TableReading
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency_models import latency_of
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.problem import Problem, make_problem

# Below this many training rows the kernel matrix has no use for the paper's 2000 features.
FEW_ROWS = 10_000
FEATURES_FOR_FEW_ROWS = 500
# As many for each row of a device as in the paper, where 25 devices have 2400 rows each, and some more for accuracy.
FEATURES_OF = {SHIFTED_DIGITS.name: 800}
# The paper's 9e-6 is for labels without noise; a small data set with a noisy target is then fitted to its noise.
REGRESSION_REGULARISATION = 1e-3
DEFAULT_CONCENTRATION = 0.5


@dataclass(frozen=True)
class Inputs:
    """A data set and the fleet it is spread over, with the defaults filled in."""

    dataset: Dataset
    fleet: Fleet
    data: DataOptions
    model: ModelOptions

    @property
    def n_features(self) -> int:
        if self.model.n_features is not None:
            return self.model.n_features
        if self.dataset.name in FEATURES_OF:
            return FEATURES_OF[self.dataset.name]
        return FEATURES_FOR_FEW_ROWS if len(self.dataset.y_train) < FEW_ROWS else paper.FEATURES

    @property
    def is_the_paper_s(self) -> bool:
        """Whether this is the paper's own experiment, for which its step is known: its data, features and fleet."""
        as_usual = replace(self.model, n_features=None) == ModelOptions() and self.data.partition in (None, "sorted")
        size = self.n_features, self.fleet.name, self.fleet.n_devices
        its_size = paper.FEATURES, paper.FLEET, paper.DEVICES
        return self.dataset.name in paper.EXPERIMENTS and as_usual and size == its_size

    @property
    def regularisation(self) -> float:
        if self.model.regularisation is not None:
            return self.model.regularisation
        return paper.REGULARISATION if self.dataset.task == "classification" else REGRESSION_REGULARISATION

    @property
    def concentration(self) -> float | None:
        if self.data.partition != "dirichlet":
            return None
        return DEFAULT_CONCENTRATION if self.data.concentration is None else self.data.concentration

    def problem(self, seed: int, progress: Callable[[str], None] | None = None) -> Problem:
        return make_problem(
            self.dataset,
            n_devices=self.fleet.n_devices,
            partition_name=self.data.partition,
            features=self.model.features,
            n_features=self.n_features,
            gamma=self.model.gamma,
            seed=seed,
            concentration=self.concentration,
            secure_moments=secure_moments_in_process,
            progress=progress,
        )


def load_data(screen: Screen, name: str, options: DataOptions) -> Dataset:
    """The data set or table of this name, with progress while it is fetched; a study is sent where it is timed."""
    if name.endswith(".toml"):
        raise InvalidInput(
            f"DATA must be a data set or a table, got {name!r}: a study has its scheme in it, and is timed on a fleet"
            f" by codedfl study rehearse {name} --tables FOLDER --fleet NAME"
        )
    with screen.fetching() as progress:
        reading = TableReading(
            label=options.label,
            device=options.device,
            task=cast("Task | None", options.task),
            test_fraction=options.test_fraction,
            columns=None if options.columns is None else listed(options.columns),
            drop=None if options.drop is None else listed(options.drop),
        )
        found = datasets.load(name, options.data_dir, reading=reading, progress=progress)
    for note in found.notes:
        screen.remark(f"note: {note}")
    if name not in datasets.NAMED and options.task is None:
        _say_what_whole_numbers_are(screen, found)
    return found


def _say_what_whole_numbers_are(screen: Screen, data: Dataset) -> None:
    """Whole numbers may be names of classes or quantities; what was taken is said, and how to change it."""
    labels = np.concatenate((data.y_train, data.y_test))
    if labels.dtype.kind == "U" or not (labels == np.round(labels)).all():
        return
    values = len(np.unique(labels))
    taken, other = ("classes", "regression") if data.task == "classification" else ("a quantity", "classification")
    screen.remark(f"note: the labels are whole numbers, {values} of them, taken for {taken}; --task {other} changes it")


def choose_fleet(dataset: Dataset, data: DataOptions, fleet: FleetOptions) -> Fleet:
    """The fleet with D devices: what the device column says, or --devices, or as many as the fleet has."""
    found, asked, rows = Fleet.load(fleet.fleet_name), fleet.devices, len(dataset.y_train)
    latency_of(found)  # a name that is none is refused before anything is read
    if data.partition == "device" and dataset.device is None:
        raise InvalidInput("--device-column must name a column for --partition device, got none")
    if dataset.device is not None and data.partition in (None, "device"):
        if asked is not None:
            raise InvalidInput(f"--devices must be left out where a device column says who holds what, got {asked}")
        wanted = len(np.unique(dataset.device))
        if wanted < 2:
            raise InvalidInput(f"the device column must name at least two devices, got {wanted}")
    else:
        wanted = found.n_devices if asked is None else asked
        if not 2 <= wanted <= rows:
            raise InvalidInput(f"--devices must be between 2 and the number of training rows ({rows}), got {wanted}")
    return found.scaled_to(wanted)


def results_folder(out: Path | None, command: str, data: str) -> Path:
    """Where a command writes: --out, or a folder of its own for each data set."""
    # The whole name of a file: bc.csv and bc.npz are two data sets.
    return out or Path("results") / f"{command}-{Path(data).name}"
