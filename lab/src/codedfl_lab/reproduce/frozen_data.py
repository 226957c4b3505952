"""CIFAR-10 as embeddings of a frozen encoder: computed once, kept in the user's cache, and read from it afterwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from codedfl.data.encoders import Encoded, Encoder, Items, encode
from codedfl.files import cache_folder
from codedfl.typing import Progress
from codedfl_lab.datasets.cifar import load_pictures
from codedfl_lab.reproduce.frozen import Embedded, FrozenResults, Sizes, reproduce_frozen
from codedfl_lab.reproduce.scope import Scope

QUICK = Sizes(seeds=1, rounds=5, tuning_rounds=2, devices=(25,), rates=(0.01,), pulls=(0.01,), draws=20)
QUICK_EVERY = 20  # of which rows one is taken


def frozen_on_cifar(encoder: Encoder, scope: Scope, quick: bool, say: Progress) -> FrozenResults:
    """The benchmark on CIFAR-10; a quick look takes every 20th row."""
    pictures, every = load_pictures(scope.data_dir), QUICK_EVERY if quick else 1

    def embedded(X: NDArray[np.uint8], y: NDArray[np.int64], part: str) -> Encoded:
        return _encoded(encoder, X[::every], y[::every], lambda done: say(f"embeddings, {part} rows", done))

    train, test = (
        embedded(pictures.X_train, pictures.y_train, "training"),
        embedded(pictures.X_test, pictures.y_test, "test"),
    )
    data = Embedded(
        "cifar-10",
        train.values,
        pictures.y_train[::every],
        test.values,
        pictures.y_test[::every],
        encoder.low,
        encoder.high,
        encoder.step,
    )
    sizes = QUICK if quick else Sizes(seeds=len(scope.seeds), draws=scope.draws)
    return reproduce_frozen(data, sizes, say, scope.command)


def _encoded(encoder: Encoder, X: NDArray[np.uint8], y: NDArray[np.int64], done: Callable[[float], None]) -> Encoded:
    names = [f"picture {place}" for place in range(len(X))]
    return encode(encoder, Items(X, names, y), cache_folder() / "embeddings", lambda part, of: done(part / of))
