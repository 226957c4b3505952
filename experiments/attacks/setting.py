"""The data that are attacked: three splits of one data set, with the images behind the features.

* sorted: cut by label as in the paper; a device has one to three classes.
* shuffled: all devices alike.
* few: the first devices have ten samples each, one of each class; the rest are shuffled over the others.

The attacker has the test images as public data of the same kind. The yardstick is given them as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from codedfl.data.dataset import Dataset
from codedfl.data.features import RandomFourierFeatures
from codedfl.data.partition import at_random, by_sorted_label
from codedfl.data.problem import Problem, make_problem
from codedfl_lab import datasets
from codedfl_lab.fleet.fleet import Fleet

Floats = NDArray[np.float64]

SPLITS = ("sorted", "shuffled", "few")
FEW_DEVICES = 5  # enough for a small standard error of a score over their classes
# A class mean of fewer samples is as good as a single image; those are the split "few".
LEAST_SAMPLES = 10
# A device that holds all of a class has the population's mean: nothing is left to find out.
MOST_SHARE = 0.9
MOST_TARGETS = 50  # evenly chosen; enough for a standard error of a few hundredths


@dataclass(frozen=True)
class Size:
    """How large the attack is run: training rows used, devices, features."""

    rows: int
    devices: int
    features: int


SIZES = {"mnist": Size(12_000, 25, 1000), "digits": Size(1_437, 15, 200)}


@dataclass(frozen=True)
class Target:
    """A class of a device: its mean image is what the attacker wants."""

    device: int
    label: int


@dataclass(frozen=True, eq=False)
class Setting:
    """A problem, its training images in the problem's order, their classes, and the public images."""

    split: str
    problem: Problem
    images: Floats
    labels: NDArray[np.int64]
    public: Floats
    fleet: Fleet

    @property
    def feature_map(self) -> RandomFourierFeatures:
        assert isinstance(self.problem.feature_map, RandomFourierFeatures)
        return self.problem.feature_map

    @property
    def side(self) -> int:
        return round(self.images.shape[1] ** 0.5)

    def targets(self) -> list[Target]:
        """Every class of every device that has enough of it, and not all; in "few", those of the small devices."""
        found = []
        for device in range(self.problem.n_devices):
            for label in range(self.problem.n_outputs):
                count = len(self.rows(Target(device, label)))
                share = count / int(np.count_nonzero(self.labels == label))
                wanted = device < FEW_DEVICES if self.split == "few" else count >= LEAST_SAMPLES
                if wanted and count and share <= MOST_SHARE:
                    found.append(Target(device, label))
        return found[:: -(-len(found) // MOST_TARGETS)]

    def rows(self, target: Target, among: slice | None = None) -> NDArray[np.int64]:
        """The problem's rows of a device (or of ``among``) with one label."""
        part = among or self.problem.rows_of(target.device)
        return part.start + np.flatnonzero(self.labels[part] == target.label)

    def mean_image(self, target: Target, among: slice | None = None) -> Floats:
        mean: Floats = self.images[self.rows(target, among)].mean(axis=0)
        return mean

    def population_mean(self, label: int) -> Floats:
        mean: Floats = self.images[self.labels == label].mean(axis=0)
        return mean


@lru_cache(maxsize=2)
def _loaded(dataset: str) -> Dataset:
    return datasets.load(dataset)


def make_setting(dataset: str, split: str, seed: int = 0, size: Size | None = None) -> Setting:
    """One split of a data set; ``size`` None takes that of ``SIZES``."""
    data, size = _loaded(dataset), size or SIZES[dataset]
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(data.X_train))[: size.rows]
    X, y = data.X_train[chosen], data.y_train[chosen]
    if split == "sorted":
        parts = by_sorted_label(y, size.devices)
    elif split == "shuffled":
        parts = at_random(len(y), size.devices, rng)
    else:
        of_class = [np.flatnonzero(y == label) for label in np.unique(y)]
        small = [np.array([rows[device] for rows in of_class]) for device in range(FEW_DEVICES)]
        others = np.setdiff1d(np.arange(len(y)), np.concatenate(small))
        parts = [*small, *(others[part] for part in at_random(len(others), size.devices - FEW_DEVICES, rng))]
    order = np.concatenate(parts)
    device = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    grouped = replace(data, X_train=X[order], y_train=y[order], device=device)
    problem = make_problem(
        grouped, n_devices=size.devices, partition_name="device", n_features=size.features, seed=seed
    )
    fleet = Fleet.load("paper").scaled_to(size.devices)
    images, public = (np.asarray(part, dtype=np.float64) for part in (grouped.X_train, data.X_test))
    return Setting(split, problem, images, y[order], public, fleet)
