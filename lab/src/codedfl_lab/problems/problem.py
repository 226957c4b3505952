"""A learning problem spread over devices: features, labels, who holds what (paper V).

From a data set to what the schemes need: the recipe shared by all devices, and the partition. Everything a device
computes on its own data is here as arrays per device; nothing here knows about schemes, rings or time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.data.clipped import Clipped
from codedfl.data.features import FeatureChoice, FeatureMap, choose_features
from codedfl.data.labels import Labels
from codedfl.data.model import TrainedModel
from codedfl.data.preprocessing import Moments, Preprocessing
from codedfl.data.recipe import Recipe
from codedfl.data.score import score_of
from codedfl.errors import InvalidInput
from codedfl.exact.scales import Bounds
from codedfl.typing import Floats, Singles
from codedfl_lab.problems.dataset import Dataset
from codedfl_lab.problems.partition import partition

# Mean and variance of columns, from the rows of each device.
SecureMoments = Callable[[list[NDArray[Any]]], Moments]

PAPER_REGULARISATION = 9e-6
PAPER_FEATURES = 2000
MINI_BATCHES = 5


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """Training rows grouped by device, and a test set to score models on.

    ``X`` and ``Y`` hold the rows of device 0, then of device 1, ...; ``offsets`` are the D + 1 boundaries. Features
    are as ``recipe`` makes them: float32, never outside ``feature_map.bound``. ``clipped`` counts what lay beyond its
    public range among the training rows. ``row_limits`` are public limits on the rows in all and on one device; None
    takes the true sizes, rounded up.

    Paper: III. Shown by ``pytest tests/data/test_problem_and_model.py``.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Dataset, make_problem
    >>> X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    >>> rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 24.0))
    >>> problem = make_problem(rows, n_devices=3, features="linear")
    >>> problem.samples_of_device.tolist(), problem.device_names
    ([4, 4, 4], ('device-0', 'device-1', 'device-2'))
    >>> problem.score(np.zeros((problem.n_features, problem.n_outputs)))  # without a model: chance
    0.5
    """

    name: str
    X: Singles
    Y: Floats
    offsets: NDArray[np.int64]
    device_names: tuple[str, ...]
    X_test: Singles
    y_test: NDArray[Any]
    recipe: Recipe
    clipped: Clipped
    row_limits: tuple[int, int] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"<Problem {self.name!r}: {self.n_samples} samples of {self.n_features} features"
            f" and {self.n_outputs} outputs on {self.n_devices} devices>"
        )

    @property
    def feature_map(self) -> FeatureMap:
        return self.recipe.feature_map

    @property
    def task(self) -> str:
        return self.recipe.task

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
        if self.row_limits is not None:
            return self.recipe.bounds(*self.row_limits)
        per_device = 1 << (int(self.samples_of_device.max()) - 1).bit_length()
        return self.recipe.bounds(max(self.n_samples, per_device), per_device)

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
        """The scores of several models: one product with the test rows, which costs little more than for one model."""
        stacked = np.concatenate([theta.astype(np.float32) for theta in thetas], axis=1)
        outputs = np.hsplit((self.X_test @ stacked).astype(np.float64), len(thetas))
        return [score_of(self.recipe.decode(part), self.y_test, self.task) for part in outputs]


def make_problem(
    data: Dataset,
    *,
    n_devices: int,
    partition_name: str | None = None,
    features: str | FeatureMap = "rbf",
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
        rule), "linear" (the columns themselves and an intercept), another registered name, or a feature map itself.
    secure_moments: mean and variance of columns over the devices (``secure_sum.secure_moments_in_process``), which
        show nobody's own; needed where the data have no public range.
    target_range: public range of a regression target; None takes mean -+ 4 standard deviations, securely summed.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Dataset, make_problem
    >>> X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    >>> rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 24.0))
    >>> make_problem(rows, n_devices=3, n_features=50)
    <Problem 'made up': 12 samples of 50 features and 2 outputs on 3 devices>
    """
    say = progress or (lambda _: None)
    name = partition_name or ("device" if data.device is not None else "sorted")
    rng = np.random.default_rng(seed)
    parts = partition(name, data.y_train, n_devices, rng, concentration, data.device)
    say("preprocessing")
    preprocessing = _preprocessing(data, parts, secure_moments)
    labels = _labels(data, parts, secure_moments, target_range)
    choice = FeatureChoice(n_features, gamma, seed)
    recipe = Recipe(preprocessing, choose_features(features, preprocessing, choice), labels, data.columns)
    say("features")
    order = np.concatenate(parts)
    train = recipe.rows(data.X_train[order], data.y_train[order])
    names = tuple(f"device-{i:0{len(str(len(parts) - 1))}d}" for i in range(len(parts)))
    if name == "device" and data.device is not None:
        names = tuple(str(data.device[part[0]]) for part in parts)
    return Problem(
        name=data.name,
        X=train.X,
        Y=train.Y,
        offsets=np.concatenate(([0], np.cumsum([len(part) for part in parts]))).astype(np.int64),
        device_names=names,
        X_test=recipe.features(data.X_test)[0],
        y_test=data.y_test,
        recipe=recipe,
        clipped=train.clipped,
        provenance={"dataset": data.name, "partition": name, "seed": seed, "devices": len(parts)},
    )


def model_of(problem: Problem, theta: Floats, **provenance: Any) -> TrainedModel:
    """The model that training on a problem gave; ``provenance`` is kept beside the problem's own."""
    return TrainedModel(theta, problem.recipe, {**problem.provenance, **provenance})


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
