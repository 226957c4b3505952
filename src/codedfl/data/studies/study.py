"""What a study says, checked; from it the recipe follows, once the moments that it asks for have been summed securely.

All parties have the same study: its ``digest`` is what they agree to. It names schemes and solvers by text only; who
runs them looks them up.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from codedfl.data.canonical import canonical_digest
from codedfl.data.columns import CategoryColumn, Columns, NumberColumn, as_levels
from codedfl.data.features import (
    FEATURE_MAPS,
    FeatureChoice,
    FeatureMap,
    FrozenEncoder,
    Principal,
    PrincipalFourierFeatures,
    RandomFourierFeatures,
    choose_features,
    default_gamma,
)
from codedfl.data.labels import Labels
from codedfl.data.model import TrainedModel
from codedfl.data.preprocessing import DEFAULT_CLIP, Moments, Preprocessing
from codedfl.data.recipe import Clipped, Recipe
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds, FixedPoint
from codedfl.privacy.budget import Budget
from codedfl.typing import Floats, Rows

_CONSTANT = 1e-12
_LEAST_BITS = 2  # of an update's entries, and of the rows' grid in units of a column


@dataclass(frozen=True)
class StudyColumn:
    """One column of the table and how its numbers are scaled.

    column: its name, and what its gaps and levels become.
    range: of a number, public, [low, high]: values beyond are clipped to it and counted. None needs ``scale`` =
        "moments".
    scale: "range" divides by the width of the range; "moments" by the standard deviation over all devices, which is
        summed securely. Without a range it is clipped at the study's ``deviations``. Categories and marks of gaps stay
        0 and 1.
    """

    column: NumberColumn | CategoryColumn
    range: tuple[float, float] | None = None
    scale: str = "range"

    def __post_init__(self) -> None:
        name = self.column.name
        if isinstance(self.column, CategoryColumn):
            if self.range is not None or self.scale != "range":
                raise InvalidInput(f"column {name!r} must have no range and no scale, being a category")
            return
        if self.scale not in ("range", "moments"):
            raise InvalidInput(f"scale of column {name!r} must be range or moments, got {self.scale!r}")
        if self.range is None and self.scale == "range":
            raise InvalidInput(f'column {name!r} must have a range, or scale = "moments", got neither')
        if self.range is not None and not -np.inf < self.range[0] < self.range[1] < np.inf:
            raise InvalidInput(f"range of column {name!r} must be [low, high] with low < high, got {list(self.range)}")
        missing = self.column.missing
        if self.range is not None and missing is not None and not self.range[0] <= missing <= self.range[1]:
            raise InvalidInput(f"missing of column {name!r} must lie within its range, got {missing:g}")

    def ranges(self) -> list[tuple[float, float]]:
        """Of each column of X that it becomes; infinite where nothing is known."""
        marks = [(0.0, 1.0)] * len(self.column.design_names)
        if isinstance(self.column, NumberColumn):
            marks[0] = (-np.inf, np.inf) if self.range is None else self.range
        return marks

    def by_moments(self) -> list[bool]:
        first = isinstance(self.column, NumberColumn) and self.scale == "moments"
        return [first, *([False] * (len(self.column.design_names) - 1))]

    def to_dict(self) -> dict[str, Any]:
        of_number = {"range": self.range, "scale": self.scale} if isinstance(self.column, NumberColumn) else {}
        return {**self.column.to_dict(), **of_number}


@dataclass(frozen=True)
class NumberTarget:
    """A number to predict.

    name: of the column.
    range: public, [low, high]: what lies beyond is clipped to it in training, and counted.
    """

    name: str
    range: tuple[float, float]

    def labels(self) -> Labels:
        return Labels.for_targets(*self.range)


@dataclass(frozen=True)
class ClassTarget:
    """One of some public classes to predict.

    name: of the column.
    classes: all there may be: text, or whole numbers.
    """

    name: str
    classes: tuple[str, ...] | tuple[int, ...]

    def labels(self) -> Labels:
        return Labels.for_classes(self.classes)


@dataclass(frozen=True)
class Study:
    """One study. The names are those of the file; the defaults are those of ``toml_file``.

    name: of the study, in every log and page.
    purpose: what the model is for; people read it before they approve.
    columns: of every device's table, by name.
    target: the column that is predicted.
    features: what a row becomes: "linear", "rbf" (random features of a Gaussian kernel), "pca-rbf" (the same of the
        first principal components), "onnx" (outputs of a frozen encoder) or "scattering" (wavelet coefficients of
        pictures).
    n_features: how many random features, or outputs of the encoder; linear ones are as many as the columns.
    gamma: of the kernel exp(-gamma ||x - y||^2); None takes a public rule from the number of columns.
    seed: public, of the random features: all devices draw the same.
    components: of "pca-rbf": so many principal components, for which the covariance of the columns is summed over the
        devices, and the server learns it.
    encoder: of "onnx": the SHA-256 of the file that every machine has.
    encoder_bound: of "onnx": larger outputs are clipped; room to spare costs digits.
    deviations: columns without a range are clipped at so many standard deviations.
    scheme: how the training is protected.
    alpha: of a coded scheme: so many devices can answer for each one; None is the scheme's own rule.
    colluders: of role keys: so many devices together with the server learn the total only; None is 1 from four devices
        on, else 0.
    holders: of role keys: so many devices hold seeds and answer; None is all up to 50, then a dozen a role.
    solver: how the server finds Theta from what it gets.
    epochs: at most so many exchanges.
    regularisation: weight of |Theta|^2 against the mean squared error.
    least_participants: a device takes part only with so many, itself included.
    max_rows: public bound on the rows of all devices, from which the exact ring gets its range.
    max_rows_per_device: public bound on the rows of one device.
    held_out: share of each device's rows kept out of training, for the score.
    inference: standard errors and p values are wanted, for which the server learns the whole total of X'X.
    noise: what hides single rows; None is none. Every other sum over rows is then refused: moments, a score on held-out
        rows, standard errors.
    """

    name: str
    columns: tuple[StudyColumn, ...]
    target: NumberTarget | ClassTarget
    max_rows: int
    max_rows_per_device: int
    least_participants: int
    purpose: str = ""
    features: str = "linear"
    n_features: int = 500
    gamma: float | None = None
    seed: int = 0
    deviations: float = 8.0
    scheme: str = "role-keys"
    alpha: int | None = None
    colluders: int | None = None
    holders: int | None = None
    solver: str = "block-krylov"
    epochs: int = 50
    regularisation: float = 1e-4
    held_out: float = 0.2
    inference: bool = False
    components: int | None = None
    encoder: str | None = None
    encoder_bound: float | None = None
    noise: Budget | None = None

    def __post_init__(self) -> None:
        names = [one.column.name for one in self.columns]
        if self.target.name in names:
            raise InvalidInput(f"the target must not be a column too, got {self.target.name!r}")
        Columns(tuple(one.column for one in self.columns))
        self.target.labels()
        kinds = (*FEATURE_MAPS, PrincipalFourierFeatures.name, FrozenEncoder.name)
        if self.features not in kinds:
            raise InvalidInput(f"features must be {' or '.join(kinds)}, got {self.features!r}")
        width = self.table_columns.width
        if self.needs_covariance and not 1 <= (self.components or 0) <= width:
            raise InvalidInput(
                f"components must be between 1 and the number of columns ({width}) for pca-rbf, got {self.components}"
            )
        if not self.needs_covariance and self.components is not None:
            raise InvalidInput(f"components must be left out with {self.features} features, got {self.components}")
        for name in ("encoder", "encoder_bound"):
            said = getattr(self, name)
            if said is None and self.features == FrozenEncoder.name:
                raise InvalidInput(f"{name} must be said for onnx features, got nothing")
            if said is not None and self.features != FrozenEncoder.name:
                raise InvalidInput(f"{name} must be left out with {self.features} features, got {said}")
        if self.least_participants < 3:
            raise InvalidInput(
                "least_participants must be at least 3, or a device learns another's sums from the total,"
                f" got {self.least_participants}"
            )
        for name in ("n_features", "epochs", "max_rows", "max_rows_per_device"):
            if getattr(self, name) < 1:
                raise InvalidInput(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_rows_per_device > self.max_rows:
            raise InvalidInput(
                f"max_rows_per_device must be at most max_rows ({self.max_rows}), got {self.max_rows_per_device}"
            )
        for name, low, high in (("deviations", 1, 1000), ("regularisation", 0, np.inf), ("held_out", 0, 0.9)):
            if not low <= getattr(self, name) <= high:
                raise InvalidInput(f"{name} must be between {low} and {high:g}, got {getattr(self, name)}")
        if self.features == FrozenEncoder.name:
            self._frozen_encoder()
        _ = self.feature_count
        if self.inference and self.features != "linear":
            raise InvalidInput(f"inference must go with linear features, got {self.features!r}")
        if self.inference and isinstance(self.target, ClassTarget):
            raise InvalidInput("inference must go with a number to predict, got classes: give the target a range")
        if self.noise is not None:
            self._check_noise(self.noise)

    def _check_noise(self, noise: Budget) -> None:
        by_moments = [one.column.name for one in self.columns if any(one.by_moments())]
        if by_moments:
            raise InvalidInput(
                f"scale of column {by_moments[0]!r} must be range with noise: a mean is a sum over rows, got moments"
            )
        if self.needs_covariance:
            raise InvalidInput(f"features must not be {self.features} with noise: a covariance is a sum over rows")
        if self.held_out:
            raise InvalidInput(f"held_out must be 0 with noise: a score is an exact sum over rows, got {self.held_out}")
        if self.inference:
            raise InvalidInput("inference must be false with noise: standard errors would be those of exact sums")
        if noise.honest > self.least_participants:
            raise InvalidInput(
                f"honest must be at most least_participants ({self.least_participants}), got {noise.honest}"
            )

    def __repr__(self) -> str:
        return f"<Study {self.name!r}: {len(self.columns)} columns to {self.target.name!r}, {self.digest().hex()[:16]}>"

    # -- identity

    def to_dict(self) -> dict[str, Any]:
        """The whole meaning in plain values."""
        apart = ("columns", "target", "noise", "encoder", "encoder_bound")
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in apart}
        # A study without these means what it meant before there were any.
        if self.noise is not None:
            plain["noise"] = asdict(self.noise)
        if self.encoder is not None:
            plain |= {"encoder": self.encoder, "encoder_bound": self.encoder_bound}
        target = self.target
        said = {"range": target.range} if isinstance(target, NumberTarget) else {"classes": target.classes}
        return {**plain, "columns": [one.to_dict() for one in self.columns], "target": {"name": target.name, **said}}

    def digest(self) -> bytes:
        """What the parties agree to: two files with the same digest mean the same."""
        return canonical_digest("codedfl study 1", self.to_dict())

    # -- from a table

    @property
    def table_columns(self) -> Columns:
        return Columns(tuple(one.column for one in self.columns))

    @property
    def task(self) -> str:
        return "classification" if isinstance(self.target, ClassTarget) else "regression"

    def target_values(self, table: RawTable) -> Rows:
        """The target of each row, as ``Recipe.rows`` wants it. Gaps and unknown classes are refused."""
        values = table.column(self.target.name, "the target")
        gap = values == "" if values.dtype.kind == "U" else np.isnan(values)
        if gap.any():
            raise InvalidInput(
                f"the target {self.target.name!r} of {table.name} must have no gaps, got {int(gap.sum())}:"
                " leave those rows out"
            )
        return self._as_classes(values, table.name) if isinstance(self.target, ClassTarget) else values

    def _as_classes(self, values: Rows, table: str) -> Rows:
        """As the classes are written: text, or whole numbers. Others are refused."""
        assert isinstance(self.target, ClassTarget)
        classes = self.target.classes
        named = as_levels(values, [str(one) for one in classes]) if isinstance(classes[0], str) else values
        unknown = ~np.isin(named, classes)
        if unknown.any():
            count = int(unknown.sum())
            raise InvalidInput(
                f"the target {self.target.name!r} of {table} must hold its classes only, got"
                f" {named[unknown][0].item()!r} ({count} such rows): add the class, or leave those rows out"
            )
        return named.astype(np.int64) if named.dtype.kind == "f" else named

    def clipped(self, X: Floats) -> Floats:
        """The columns of X within their public ranges: what the moments are taken of."""
        return np.clip(X, *self._ranges())

    def beyond(self, X: Floats, y: Rows) -> Clipped:
        """How many values of each column of X, and targets, lie beyond their public ranges."""
        low, high = self._ranges()
        return Clipped(((low > X) | (high < X)).sum(axis=0), self.target.labels().count_clipped(y))

    # -- the recipe

    @property
    def needs_moments(self) -> bool:
        """Linear features are centred, so that the constant need not be shrunk; others where a column says so.

        With noise nothing is: the means would be exact.
        """
        if self.noise is not None:
            return False
        return self.features == "linear" or any(flag for one in self.columns for flag in one.by_moments())

    @property
    def needs_covariance(self) -> bool:
        """Whether the covariance of the columns is summed before features can be made."""
        return self.features == PrincipalFourierFeatures.name

    def recipe(self, moments: Moments | None = None, principal: Principal | None = None) -> Recipe:
        """How rows become X and Y.

        moments: of all columns of X over all devices, if the study needs them.
        principal: of the scaled columns over all devices, if the study needs their covariance.
        """
        preprocessing = self.preprocessing(moments)
        gamma = self._gamma(preprocessing.n_columns) if self.gamma is None else self.gamma
        features: FeatureMap
        if self.needs_covariance:
            if principal is None:
                raise InvalidInput("principal must be given for this study, got None")
            n_inputs = principal.components.shape[1]
            random = RandomFourierFeatures(n_inputs, self.n_features, gamma, self.seed)
            features = PrincipalFourierFeatures(principal, random)
        elif self.features == FrozenEncoder.name:
            features = self._frozen_encoder()
        else:
            choice = FeatureChoice(self.n_features, gamma, self.seed)
            features = choose_features(self.features, preprocessing, choice)
        return Recipe(preprocessing, features, self.target.labels(), self.table_columns)

    @property
    def feature_count(self) -> int:
        """d in the paper: how many features a row becomes."""
        return self._named_features().n_features if self.features in FEATURE_MAPS else self.n_features

    def _named_features(self) -> FeatureMap:
        """For columns of any ranges: their number does not depend on those."""
        inputs = Preprocessing.from_range(0.0, 1.0, self.table_columns.width)
        return choose_features(self.features, inputs, FeatureChoice(self.n_features, self.gamma, self.seed))

    def load_features(self) -> None:
        """Raises where the features need what this machine does not have: an encoder's file, or a package."""
        if self.features == FrozenEncoder.name:
            self._frozen_encoder().load()
        elif self.features in FEATURE_MAPS:  # a row shows it, whichever map it is
            self._named_features().transform(np.zeros((1, self.table_columns.width)))

    def model(self, recipe: Recipe, theta: Floats, **provenance: Any) -> TrainedModel:
        """The model of a Theta that a solver found; the intercept of linear features is not penalised."""
        about = {"study": self.name, "digest": self.digest().hex(), "label": self.target.name, **provenance}
        if self.noise is None:
            theta = recipe.unshrunk(theta, self.regularisation)
        return TrainedModel(theta, recipe, about)

    def bounds(self, recipe: Recipe) -> Bounds:
        return recipe.bounds(self.max_rows, self.max_rows_per_device)

    def precision(self, recipe: Recipe, n_devices: int) -> int | None:
        """What the training asks of the ring: None is two primes, as nearly always.

        A column whose range is many times its deviation takes a third, or updates would be rounded away; one whose
        range is thousands of times that is refused.
        """
        bounds = self.bounds(recipe)
        if self.noise is not None:
            return None
        two = FixedPoint.derive(bounds, recipe.n_features, n_devices)
        if two.update_bits >= _LEAST_BITS and two.feature_bits >= _LEAST_BITS:
            return None
        more = FixedPoint.natural_bits(two.ring, bounds, recipe.n_features) + 1
        three = FixedPoint.derive(bounds, recipe.n_features, n_devices, precision=more)
        if three.update_bits >= _LEAST_BITS and three.feature_bits >= _LEAST_BITS:
            return more
        reach = np.maximum(np.abs(recipe.preprocessing.low), np.abs(recipe.preprocessing.high))
        widest = int(np.argmax(np.broadcast_to(reach, recipe.n_columns)))
        name = self.table_columns.design_names[widest]
        raise InvalidInput(
            f"ranges must leave digits for the training, got one of column {name!r} that reaches"
            f" {np.max(reach):.2g} times its unit: narrow it, or give fewer max_rows"
        )

    def covariance_bounds(self, moments: Moments | None) -> Bounds:
        """Of the rows that the covariance is summed of: a 1 and the scaled columns."""
        largest = max(1.0, self.preprocessing(moments).bound)
        return Bounds(largest, 1.0, self.max_rows, self.max_rows_per_device)

    def _ranges(self) -> tuple[Floats, Floats]:
        low, high = np.array([ends for one in self.columns for ends in one.ranges()]).T
        return low, high

    def preprocessing(self, moments: Moments | None) -> Preprocessing:
        """The scaling of the columns of X."""
        if self.needs_moments and moments is None:
            raise InvalidInput("moments must be given for this study, got None")
        low, high = self._ranges()
        by_moments = np.array([flag for one in self.columns for flag in one.by_moments()])
        if moments is None:
            return Preprocessing.from_range(low, high, len(low))
        if len(moments.mean) != len(low):
            raise InvalidInput(f"moments must be of the {len(low)} columns of X, got {len(moments.mean)}")
        deviation = np.sqrt(moments.variance)
        constant = deviation <= _CONSTANT * np.abs(moments.mean)
        with np.errstate(invalid="ignore"):
            scale = np.where(by_moments, np.where(constant, 0.0, deviation), high - low)
        # Random features want ranges in [0, 1], as pixels are; linear ones want every column centred.
        centred = by_moments | (self.features == "linear")
        shift = np.where(centred, moments.mean, np.where(by_moments, 0.0, low))
        divisor = np.where(scale > 0, scale, 1.0)
        lowest, highest = (low - shift) / divisor, (high - shift) / divisor
        lowest = np.where(np.isinf(low), -self.deviations, lowest)
        highest = np.where(np.isinf(high), self.deviations, highest)
        return Preprocessing(shift, scale, lowest, highest)

    def _frozen_encoder(self) -> FrozenEncoder:
        width = self.table_columns.width
        return FrozenEncoder(width, self.n_features, self.encoder_bound or 0.0, self.encoder or "")

    def _gamma(self, n_columns: int) -> float:
        """By the public rule, with 8 as the width of a standardised column wherever it is clipped."""
        low, high = self._ranges()
        by_moments = np.array([flag for one in self.columns for flag in one.by_moments()])
        widths = np.where(by_moments, 2 * DEFAULT_CLIP, high - low)
        return default_gamma(n_columns, float(np.sqrt(np.mean(np.square(widths)))))
