"""Data of the benchmark as embeddings: computed once, kept in the user's cache, and read from it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.encoders import Encoder, Items, TextEncoder, encode
from codedfl.files import cache_folder
from codedfl.typing import Progress
from codedfl_lab.datasets.cifar import CLASSES, load_pictures
from codedfl_lab.datasets.mails import load_mails
from codedfl_lab.reproduce.frozen import reproduce_frozen
from codedfl_lab.reproduce.frozen_kernels import kernel_rows
from codedfl_lab.reproduce.frozen_results import FrozenResults, FrozenSizes
from codedfl_lab.reproduce.frozen_rows import Embedded
from codedfl_lab.reproduce.parts import Parts
from codedfl_lab.reproduce.scope import ClaimScope

QUICK = FrozenSizes(seeds=1, rounds=5, devices=(25,), rates=(0.01,), pulls=(0.01,), draws=20)
QUICK_EVERY = 20  # of which rows one is taken
_TEST_SHARE = 5  # of mails, which have no test part of their own: one in five


def frozen_on(
    encoder: Encoder,
    scope: ClaimScope,
    sizes: FrozenSizes | None,
    say: Progress,
    kept: Path | None = None,
    narrower: Sequence[Encoder] = (),
) -> FrozenResults:
    """The benchmark on CIFAR-10 and the paper's two data sets, or on mails where the encoder takes texts.

    sizes: None is a quick look at every 20th row. kept: a folder for finished parts.
    narrower: encoders of the same rows to fewer numbers.
    """
    made, every = mails if isinstance(encoder, TextEncoder) else cifar, 1 if sizes else QUICK_EVERY
    data, *fewer = (made(one, scope, every, say) for one in (encoder, *narrower))
    found = reproduce_frozen(data, sizes or QUICK, say, scope.command, Parts(kept, data.digest), fewer)
    if isinstance(encoder, TextEncoder):
        return found
    parts = Parts(kept)
    kernels = kernel_rows(scope, (sizes or QUICK).draws, parts, say)
    return replace(found, kernels=kernels, seconds=found.seconds + parts.seconds)


def cifar(encoder: Encoder, scope: ClaimScope, every: int, say: Progress) -> Embedded:
    """Pictures, with the test part that the data set has."""
    pictures = load_pictures(scope.data_dir)
    X = _encoded(encoder, pictures.X_train[::every], lambda done: say("embeddings, training rows", done))
    X_test = _encoded(encoder, pictures.X_test[::every], lambda done: say("embeddings, test rows", done))
    y, y_test = pictures.y_train[::every], pictures.y_test[::every]
    return Embedded("cifar-10", CLASSES, X, y, X_test, y_test, encoder.low, encoder.high, encoder.step)


def mails(encoder: Encoder, scope: ClaimScope, every: int, say: Progress) -> Embedded:
    """Texts, of which every fifth in a random order that is always the same is a test row."""
    table = load_mails(scope.data_dir)
    order = np.random.default_rng(0).permutation(len(table))[::every]
    texts, groups = table.column("text")[order], table.column("group")[order]
    X = _encoded(encoder, texts.tolist(), lambda done: say("embeddings of mails", done))
    classes, y = np.unique(groups, return_inverse=True)
    test = np.arange(len(y)) % _TEST_SHARE == 0
    names = tuple(map(str, classes.tolist()))
    return Embedded("mails", names, X[~test], y[~test], X[test], y[test], encoder.low, encoder.high, encoder.step)


def _encoded(encoder: Encoder, rows: Any, done: Callable[[float], None]) -> NDArray[np.float32]:
    items = Items(rows, [f"row {place}" for place in range(len(rows))])
    return encode(encoder, items, cache_folder() / "embeddings", lambda part, of: done(part / of)).values
