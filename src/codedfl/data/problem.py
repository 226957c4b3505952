"""A learning problem spread over devices: features, labels, who holds what (paper V).

From a data set to what the schemes need: one preprocessing step shared by all devices, the feature map, encoded
labels, the partition. Everything a device computes on its own data is here as arrays per device; nothing here knows
about schemes, rings or time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.datasets import Dataset
from codedfl.data.features import FeatureMap, LinearFeatures, RandomFourierFeatures, default_gamma
from codedfl.data.labels import Labels
from codedfl.data.partition import partition
from codedfl.data.preprocessing import Moments, Preprocessing
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds
from codedfl.typing import Floats

Features = NDArray[np.float32]

# Mean and variance of columns, from the rows of each device.
SecureMoments = Callable[[list[NDArray[Any]]], Moments]

PAPER_REGULARISATION = 9e-6
PAPER_FEATURES = 2000
MINI_BATCHES = 5
_BLOCK = 4096  # rows whose features are in float64 at once


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Training rows grouped by device, and a test set to score models on.

    ``X`` and ``Y`` hold the rows of device 0, then of device 1, ...; ``offsets`` are the D + 1 boundaries. Features
    are float32 (half the memory; the ring's grid is of the same fineness), never outside ``feature_map.bound``.
    """

    name: str
    X: Features
    Y: Floats
    offsets: NDArray[np.int64]
    device_names: tuple[str, ...]
    X_test: Features
    y_test: NDArray[Any]
    feature_map: FeatureMap
    labels: Labels
    preprocessing: Preprocessing
    task: str
    clipped: int = 0
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"<Problem {self.name!r}: {self.n_samples} samples of {self.n_features} features"
            f" and {self.n_outputs} outputs on {self.n_devices} devices>"
        )

    @property
    def n_devices(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_samples(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_outputs(self) -> int:
        return int(self.Y.shape[1])

    @property
    def samples_of_device(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    @property
    def bounds(self) -> Bounds:
        """Public bounds; the largest device's size is rounded up to a power of two so as not to give it away."""
        per_device = 1 << (int(self.samples_of_device.max()) - 1).bit_length()
        samples = max(self.n_samples, per_device)
        return Bounds(self.feature_map.bound, self.labels.bound, samples, per_device)

    def rows_of(self, device: int) -> slice:
        return slice(int(self.offsets[device]), int(self.offsets[device + 1]))

    def without(self, names: Collection[str]) -> Problem:
        """The same problem without the data of some devices; at least two must be left."""
        unknown = sorted(set(names) - set(self.device_names))
        if unknown:
            raise InvalidInput(f"devices to leave out must be among those of the problem, got {', '.join(unknown)}")
        kept = [i for i, name in enumerate(self.device_names) if name not in names]
        if len(kept) < 2:
            raise InvalidInput(f"at least two devices must be left, got {len(kept)}")
        rows = np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in kept])
        return replace(
            self,
            X=self.X[rows],
            Y=self.Y[rows],
            offsets=np.concatenate(([0], np.cumsum(self.samples_of_device[kept]))),
            device_names=tuple(self.device_names[i] for i in kept),
            provenance={**self.provenance, "missing": sorted(names)},
        )

    def mini_batch(self, device: int, batch: int, batches: int = MINI_BATCHES) -> slice:
        """Rows of one of ``batches`` nearly equal parts of a device's data."""
        start, stop = int(self.offsets[device]), int(self.offsets[device + 1])
        size = stop - start
        return slice(start + size * batch // batches, start + size * (batch + 1) // batches)

    def score(self, theta: Floats) -> float:
        """Test accuracy; R^2 for regression."""
        return self.scores([theta])[0]

    def scores(self, thetas: Sequence[Floats]) -> list[float]:
        """The same for several models: one product with the test rows, which costs little more than for one model."""
        stacked = np.concatenate([theta.astype(np.float32) for theta in thetas], axis=1)
        outputs = np.hsplit((self.X_test @ stacked).astype(np.float64), len(thetas))
        return [score_of(self.labels.decode(part), self.y_test, self.task) for part in outputs]


def score_of(predicted: NDArray[Any], truth: NDArray[Any], task: str) -> float:
    """Accuracy, or R^2 = 1 - (squared error)/(variance) for regression; 0 where the truth is constant."""
    if task == "classification":
        return float(np.mean(predicted == truth))
    spread = float(np.sum((truth - truth.mean()) ** 2))
    return 1.0 - float(np.sum((truth - predicted) ** 2)) / spread if spread > 0 else 0.0


def make_problem(
    data: Dataset,
    *,
    n_devices: int,
    partition_name: str | None = None,
    features: str = "rbf",
    n_features: int = PAPER_FEATURES,
    gamma: float | None = None,
    seed: int = 0,
    concentration: float | None = None,
    secure_moments: SecureMoments | None = None,
    target_range: tuple[float, float] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Problem:
    """Prepare a data set for training.

    partition_name: "sorted" (the paper's), "dirichlet", "random", "device"; None takes the data's device column if
        it has one, else "sorted".
    features: "rbf" (random Fourier features, ``n_features`` of them, kernel width ``gamma`` or the public default
        rule) or "linear" (the columns themselves and an intercept).
    secure_moments: mean and variance of columns over the devices (``secure_sum.secure_moments_in_process``), which
        show nobody's own; needed where the data have no public range.
    target_range: public range of a regression target; None takes mean -+ 4 standard deviations, securely summed.
    """
    say = progress or (lambda _: None)
    name = partition_name or ("device" if data.device is not None else "sorted")
    rng = np.random.default_rng(seed)
    parts = partition(name, data.y_train, n_devices, rng, concentration, data.device)
    say("preprocessing")
    preprocessing = _preprocessing(data, parts, secure_moments)
    order = np.concatenate(parts)
    train, clipped = preprocessing.apply(data.X_train)
    test, _ = preprocessing.apply(data.X_test)
    labels = _labels(data, parts, secure_moments, target_range)
    feature_map: FeatureMap
    if features == "rbf":
        width = gamma if gamma is not None else default_gamma(data.n_columns, preprocessing.width)
        feature_map = RandomFourierFeatures(data.n_columns, n_features, width, seed)
    elif features == "linear":
        feature_map = LinearFeatures(data.n_columns, preprocessing.bound, intercept=True)
    else:
        raise InvalidInput(f"features must be rbf or linear, got {features!r}")
    say("features")
    y = data.y_train[order]
    names = tuple(f"device-{i:0{len(str(len(parts) - 1))}d}" for i in range(len(parts)))
    if name == "device" and data.device is not None:
        names = tuple(str(data.device[part[0]]) for part in parts)
    return Problem(
        name=data.name,
        X=bounded_features(feature_map, train[order]),
        Y=labels.encode(y),
        offsets=np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64),
        device_names=names,
        X_test=bounded_features(feature_map, test),
        y_test=data.y_test,
        feature_map=feature_map,
        labels=labels,
        preprocessing=preprocessing,
        task=data.task,
        clipped=int(clipped.sum()) + labels.count_clipped(y),
        provenance={"dataset": data.name, "partition": name, "seed": seed, "devices": len(parts)},
    )


def bounded_features(feature_map: FeatureMap, raw: NDArray[Any]) -> Features:
    """Features as float32, clipped to the largest float32 within the bound: rounding must not step over it.

    Some rows at a time: in float64 the features of MNIST alone would take a gigabyte.
    """
    limit = np.float32(feature_map.bound)
    if float(limit) > feature_map.bound:
        limit = np.nextafter(limit, np.float32(0))
    features = np.empty((len(raw), feature_map.n_features), dtype=np.float32)
    for start in range(0, len(raw), _BLOCK):
        part = features[start : start + _BLOCK]
        part[...] = feature_map.transform(raw[start : start + _BLOCK])
        np.clip(part, -limit, limit, out=part)
    return features


def _preprocessing(data: Dataset, parts: Sequence[NDArray[Any]], secure_moments: SecureMoments | None) -> Preprocessing:
    if data.public_range is not None:
        return Preprocessing.from_range(*data.public_range, n_columns=data.n_columns)
    if secure_moments is None:
        raise InvalidInput(f"data set {data.name!r} has no public range: secure_moments must be given, got None")
    return Preprocessing.from_moments(secure_moments([data.X_train[part] for part in parts]))


def _labels(
    data: Dataset,
    parts: Sequence[NDArray[Any]],
    secure_moments: SecureMoments | None,
    target_range: tuple[float, float] | None,
) -> Labels:
    if data.task == "classification":
        # The list of classes is public: every device must use the same columns.
        return Labels.for_classes(np.concatenate((data.y_train, data.y_test)))
    if target_range is None:
        if secure_moments is None:
            raise InvalidInput("a regression target needs target_range or secure_moments, got neither")
        low, high = secure_moments([data.y_train[part][:, None] for part in parts]).range()
        target_range = float(low[0]), float(high[0])
    return Labels.for_targets(*target_range)
