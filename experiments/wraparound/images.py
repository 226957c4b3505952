"""MNIST, or strokes that stand in for it where it is not at hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl_lab import datasets

# The paper's experiment (section V).
IMAGES = 60_000
CLASSES = 10


def synthetic_images(count: int, rng: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Strokes of four segments on 28 x 28 pixels, ten shapes, each image with its joints moved a little.

    They stand in for MNIST where it is not at hand: mostly black, as much ink, alike within a class, and far enough
    apart for the paper's step to converge.
    """
    row, column = (axis.reshape(-1) for axis in np.mgrid[0:28, 0:28].astype(np.float64))
    joints = rng.uniform(3.0, 25.0, size=(CLASSES, 5, 2))
    labels = rng.integers(CLASSES, size=count)
    images = np.empty((count, len(row)), dtype=np.float32)
    for block in np.array_split(np.arange(count), -(-count // 500)):
        # Corners last, so that each coordinate is a column that broadcasts over the pixels.
        moved = joints[labels[block]] + rng.normal(0.0, 1.5, size=(len(block), 5, 2))
        squares = []
        for start, end in zip(moved.swapaxes(0, 1)[:-1], moved.swapaxes(0, 1)[1:], strict=True):
            (y, x), (dy, dx) = start.T[..., None], (end - start).T[..., None]
            # The point of the segment nearest to a pixel, as a share of the way from its start to its end.
            share = np.clip(((row - y) * dy + (column - x) * dx) / (dy * dy + dx * dx), 0.0, 1.0)
            squares.append((row - y - share * dy) ** 2 + (column - x - share * dx) ** 2)
        images[block] = np.clip(2.0 - np.sqrt(np.min(squares, axis=0)), 0.0, 1.0)
    return images, labels


def load_images(name: str | None, seed: int) -> tuple[str, NDArray[Any], NDArray[Any]]:
    """The training images of ``name``; None takes MNIST if its files are on this machine, else synthetic ones."""
    if name != "synthetic":
        try:
            data = datasets.load("mnist", use_network=name is not None)
            return data.name, data.X_train, data.y_train
        except datasets.DataUnavailable:
            if name is not None:
                raise
    return ("synthetic", *synthetic_images(IMAGES, np.random.default_rng(seed)))
