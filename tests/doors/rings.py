"""A data set from outside: rings around the origin, a class each."""

from pathlib import Path

import numpy as np

from codedfl.typing import FileProgress
from codedfl_lab import Dataset
from codedfl_lab.datasets import NamedDataset


def load(data_dir: Path | None, progress: FileProgress | None, use_network: bool) -> Dataset:
    """Two thousand points; nothing is fetched."""
    rng = np.random.default_rng(0)
    ring, angle = rng.integers(0, 3, 2000), rng.uniform(0, 2 * np.pi, 2000)
    X = (ring + 1 + rng.normal(0, 0.15, 2000))[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    X, test = np.clip(X / 4, -1, 1), 400
    return Dataset("rings", X[test:], ring[test:], X[:test], ring[:test], "classification", public_range=(-1.0, 1.0))


RINGS = NamedDataset("rings", "2 000 points on three rings, made here", "public domain", load)
