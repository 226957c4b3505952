"""A trained model: predicts from raw columns, scores, saves and loads (safetensors; no pickle anywhere).

The file carries everything a prediction needs, and where the model came from: Theta, the recipe, and a provenance
record.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from codedfl.data.clipped import ClippedWarning
from codedfl.data.recipe import Recipe
from codedfl.data.saved_labels import MeanLabels
from codedfl.data.score import score_of
from codedfl.errors import InvalidInput
from codedfl.files import write_bytes
from codedfl.typing import Floats

if TYPE_CHECKING:
    from codedfl.data.encoders import Encoder

FORMAT = "codedfl-model-2"


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """y = x Theta on features of preprocessed columns.

    Examples
    --------
    A model with known slopes, without a training:

    >>> import numpy as np
    >>> from codedfl import Recipe, TrainedModel
    >>> from codedfl.data.features.linear import LinearFeatures
    >>> from codedfl.data.labels import Labels
    >>> from codedfl.data.preprocessing import Preprocessing
    >>> columns = Preprocessing.from_range(0, 10, n_columns=1)
    >>> recipe = Recipe(columns, LinearFeatures(1, columns.bound), Labels.for_targets(0, 20))
    >>> model = TrainedModel(np.array([[-1.0], [2.0]]), recipe)  # columns are scaled to [0, 1], targets to [-1, 1]
    >>> model
    <TrainedModel regression, 1 columns, 2 features, 1 outputs>
    >>> model.predict(np.array([[0.0], [5.0], [10.0]])).round(6).tolist()
    [0.0, 10.0, 20.0]
    """

    theta: Floats
    recipe: Recipe
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = (self.recipe.n_features, self.recipe.n_outputs)
        if self.theta.shape != shape:
            raise InvalidInput(f"theta must have shape {shape}, got {self.theta.shape}")

    def __repr__(self) -> str:
        d, c = self.theta.shape
        return f"<TrainedModel {self.task}, {self.recipe.n_columns} columns, {d} features, {c} outputs>"

    @property
    def task(self) -> str:
        return self.recipe.task

    def scores(self, X: Any) -> Floats:
        """n x c real scores of raw rows: a matrix, or a table whose columns are found by name, whatever their order."""
        found, clipped = self.recipe.scores(self.theta, self.recipe.matrix(X))
        if clipped:
            names = self.recipe.column_names
            warnings.warn(f"beyond the range of the training: {clipped.words(names)}", ClippedWarning, stacklevel=2)
        return found

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels as the training data had them: numbers, text, or targets in their own unit."""
        return self.recipe.decode(self.scores(X))

    def score(self, X: Any, y: NDArray[Any]) -> float:
        """Accuracy, or R^2 for regression."""
        return score_of(self.predict(X), np.asarray(y), self.task)

    def to_sklearn(self) -> Any:
        """The model as a fitted scikit-learn pipeline, for those who have no codedfl.

        It takes a matrix of the columns in order, and clips what lies beyond the training's range as this model does,
        without a warning. Columns must be numbers without missing values, and the model linear.
        """
        self._check_linear("to_sklearn")
        try:
            from codedfl.data.sklearn_export import as_pipeline  # scikit-learn takes a second to import
        except ImportError:
            raise InvalidInput(
                "scikit-learn must be installed for to_sklearn: pip install 'codedfl[estimators]'"
            ) from None
        return as_pipeline(self.theta, self.recipe)

    def to_onnx(self, encoder: Encoder | None = None) -> Any:
        """The model as an ``onnx.ModelProto``, in double precision (``pip install 'codedfl[onnx]'``).

        Its input X is a matrix of the columns in order, categories and marks of missing values as 0 and 1
        (``recipe.column_names``, also in its metadata; ``recipe.matrix`` makes it of a table). It clips as this model
        does. Outputs are ``label``, a class or a number, and ``scores``. The model must be linear in its features.

        encoder: of whose embeddings the columns are. Then the file holds encoder and model, and its input is what the
            encoder's model takes; of pictures X is bytes, rows x side x side x 3, resized and cropped already.
        """
        self._check_linear("to_onnx")
        try:
            from codedfl.data.onnx_export import as_onnx  # an extra
        except ImportError:
            raise InvalidInput("onnx must be installed for to_onnx: pip install 'codedfl[onnx]'") from None
        return as_onnx(self.theta, self.recipe, encoder)

    def _check_linear(self, method: str) -> None:
        if isinstance(self.recipe.labels, MeanLabels):
            raise InvalidInput(
                f"{method} must have a linear model, got the {self.recipe.labels.mean_of}: take coefficients.csv"
            )

    def save(self, path: str | Path) -> None:
        """Write atomically: a crash leaves the old file or the new one."""
        tensors = {"theta": np.ascontiguousarray(self.theta)}
        header = {"recipe": self.recipe.to_dict(), "provenance": self.provenance}
        metadata = {"format": FORMAT, "model": json.dumps(_split_arrays(header, tensors))}
        write_bytes(Path(path), _in_order(save(tensors, metadata=metadata)))

    @classmethod
    def load(cls, path: str | Path) -> TrainedModel:
        try:
            with safe_open(str(path), framework="numpy") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except FileNotFoundError:
            raise InvalidInput(f"the model file must exist, got {str(path)!r}") from None
        except (SafetensorError, OSError) as error:
            raise InvalidInput(f"the model file must be a codedfl model, got {str(path)!r} ({error})") from None
        written = metadata.get("format")
        if written != FORMAT:
            raise InvalidInput(f"the model file must have format {FORMAT}, got {written!r}")
        try:
            header = _join_arrays(json.loads(metadata["model"]), tensors)
            recipe, theta, provenance = header["recipe"], tensors["theta"], dict(header["provenance"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"the model file must be complete, got {str(path)!r} without {error}") from None
        return cls(theta, Recipe.from_dict(recipe), provenance)


def _in_order(file: bytes) -> bytes:
    """The file with its header sorted: safetensors shuffles the metadata, and equal models must have equal files."""
    end = 8 + int.from_bytes(file[:8], "little")
    header = json.dumps(json.loads(file[8:end]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # numbers begin at a multiple of eight
    return len(header).to_bytes(8, "little") + header + file[end:]


def _split_arrays(value: Any, tensors: dict[str, NDArray[Any]]) -> Any:
    """``value`` with each array moved into ``tensors`` and its name left in its place."""
    if isinstance(value, np.ndarray):
        name = f"array-{len(tensors)}"
        tensors[name] = np.ascontiguousarray(value)
        return {"$array": name}
    if isinstance(value, dict):
        return {key: _split_arrays(entry, tensors) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_split_arrays(entry, tensors) for entry in value]
    return value


def _join_arrays(value: Any, tensors: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        if set(value) == {"$array"}:
            return tensors[value["$array"]]
        return {key: _join_arrays(entry, tensors) for key, entry in value.items()}
    if isinstance(value, list):
        return [_join_arrays(entry, tensors) for entry in value]
    return value
