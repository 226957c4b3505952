"""Who holds which training rows (paper V: sorted by label and cut into D equal parts).

Every function returns one array of row numbers per device. Together they are all rows, each once, and no
device is left without rows: a device without data has nothing to hide its neighbours' data behind and no
part in the code.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.checks import check_at_least
from codedfl.errors import InvalidInput

Parts = list[NDArray[np.int64]]

# A draw that leaves a device empty is repeated; when this many in a row do, the wish is taken for impossible.
DIRICHLET_DRAWS = 100


def by_sorted_label(y: NDArray[Any], D: int) -> Parts:
    """Sort the rows by label, keeping the order within a label, and cut them into D parts (paper V).

    The most unequal split there is: a device sees one or two classes. Parts differ by at most one row, the
    longer ones first. D = 1 gives one device everything.

    Paper: V. Shown by ``pytest tests/data/test_partition.py -k papers_split``.
    """
    _check_devices(D, len(y))
    return np.array_split(np.argsort(y, kind="stable"), D)


def at_random(n: int, D: int, rng: np.random.Generator) -> Parts:
    """Shuffle n rows and cut them into D parts that differ by at most one row: devices that are all alike."""
    _check_devices(D, n)
    return np.array_split(rng.permutation(n), D)


def by_dirichlet(y: NDArray[Any], D: int, concentration: float | None, rng: np.random.Generator) -> Parts:
    """Give each device a share of each class, the shares of a class drawn from Dirichlet(concentration, ...).

    concentration: towards 0 each class goes to a single device; 1 draws all ways of sharing alike; towards
        infinity all devices are alike. Small values often leave a device empty: the draw is then repeated, at
        most 100 times.
    """
    if concentration is None or not (concentration > 0 and np.isfinite(concentration)):
        raise InvalidInput(f"concentration must be a positive number, got {concentration}")
    if y.dtype.kind == "f":
        raise InvalidInput(f"y must hold classes for a Dirichlet partition, got {y.dtype} targets")
    _check_devices(D, len(y))
    classes = np.unique(y)
    for _ in range(DIRICHLET_DRAWS):
        pieces: list[Parts] = []
        for one in classes:
            rows = rng.permutation(np.flatnonzero(y == one))
            shares = rng.dirichlet(np.full(D, concentration))
            cuts = np.round(np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
            pieces.append(np.split(rows, cuts))
        parts = [np.concatenate(of_device) for of_device in zip(*pieces, strict=True)]
        if all(len(part) for part in parts):
            return parts
    raise InvalidInput(
        f"concentration must leave no device of {D} without rows, got {concentration}, "
        f"which did in each of {DIRICHLET_DRAWS} draws; take a larger one or fewer devices"
    )


def by_device_column(ids: NDArray[Any] | None) -> Parts:
    """One device per distinct id, in the order of the ids: what the data themselves say."""
    if ids is None:
        raise InvalidInput("ids must name the device of each row, got None: the data have no device column")
    _check_devices(1, len(ids))
    return [np.flatnonzero(ids == one) for one in np.unique(ids)]


PARTITIONS: dict[str, Callable[..., Parts]] = {
    "sorted": by_sorted_label,
    "dirichlet": by_dirichlet,
    "random": at_random,
    "device": by_device_column,
}


def partition(
    name: str,
    y: NDArray[Any],
    D: int,
    rng: np.random.Generator,
    concentration: float | None = None,
    ids: NDArray[Any] | None = None,
) -> Parts:
    """Split the rows by the partition of that name; each takes those arguments that it knows.

    "sorted" takes y and D, "random" D and rng, "dirichlet" y, D, concentration and rng, "device" only ids:
    then D is what the ids say.
    """
    if name not in PARTITIONS:
        raise InvalidInput(f"partition must be one of {', '.join(PARTITIONS)}, got {name!r}")
    rule = PARTITIONS[name]
    known = {"y": y, "n": len(y), "D": D, "rng": rng, "concentration": concentration, "ids": ids}
    return rule(**{parameter: known[parameter] for parameter in inspect.signature(rule).parameters})


def _check_devices(D: int, n: int) -> None:
    check_at_least(1, D=D)
    if n < D:
        raise InvalidInput(f"D must be at most the number of rows ({n}), or a device has none, got {D}")
