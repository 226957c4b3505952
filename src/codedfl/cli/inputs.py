"""From what the user typed to data, devices and defaults; the rules are those the help states."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from codedfl.cli.screen import Screen
from codedfl.data import datasets
from codedfl.data.datasets import Dataset
from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import Fleet
from codedfl.study import paper

# Below this many training rows the kernel matrix has no use for the paper's 2000 features.
FEW_ROWS = 10_000
FEATURES_FOR_FEW_ROWS = 500
# The paper's 9e-6 is for labels without noise; a small data set with a noisy target is then fitted to its noise.
REGRESSION_REGULARISATION = 1e-3


def load_data(
    screen: Screen,
    name: str,
    data_dir: Path | None = None,
    *,
    label: str | None = None,
    device: str | None = None,
    task: datasets.Task | None = None,
    test_fraction: float | None = None,
) -> Dataset:
    with screen.fetching() as progress:
        return datasets.load(
            name, data_dir, label=label, device=device, task=task, test_fraction=test_fraction, progress=progress
        )


def choose_fleet(name: str, data: Dataset, partition: str | None, devices: int | None) -> Fleet:
    """The fleet with D devices: what the device column says, or --devices, or as many as the fleet has."""
    fleet = Fleet.load(name)
    return fleet.scaled_to(_count_devices(data, partition, devices, fleet.n_devices))


def _count_devices(data: Dataset, partition: str | None, devices: int | None, size: int) -> int:
    if partition == "device" and data.device is None:
        raise InvalidInput("--device must name a column for --partition device, got none")
    if data.device is not None and partition in (None, "device"):
        if devices is not None:
            raise InvalidInput(f"--devices must be left out where a device column says who holds what, got {devices}")
        found = len(np.unique(data.device))
        if found < 2:
            raise InvalidInput(f"the device column must name at least two devices, got {found}")
        return found
    wanted = size if devices is None else devices
    rows = len(data.y_train)
    if not 2 <= wanted <= rows:
        raise InvalidInput(f"--devices must be between 2 and the number of training rows ({rows}), got {wanted}")
    return wanted


def count_features(data: Dataset, n_features: int | None) -> int:
    if n_features is not None:
        return n_features
    return FEATURES_FOR_FEW_ROWS if len(data.y_train) < FEW_ROWS else paper.FEATURES


def choose_regularisation(data: Dataset, regularisation: float | None) -> float:
    if regularisation is not None:
        return regularisation
    return paper.REGULARISATION if data.task == "classification" else REGRESSION_REGULARISATION
