"""A trained model: predicts from raw columns, scores, saves and loads (safetensors; no pickle anywhere).

The file carries everything a prediction needs, and where the model came from: Theta, the feature map, the scaling,
the labels, and a provenance record.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from codedfl.data.features import FeatureMap, feature_map_from_dict
from codedfl.data.labels import Labels
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.problem import Problem, score_of
from codedfl.errors import InvalidInput
from codedfl.files import write_whole
from codedfl.typing import Floats

FORMAT = "codedfl-model-1"


@dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
    """y = x Theta on features of preprocessed columns."""

    theta: Floats
    feature_map: FeatureMap
    preprocessing: Preprocessing
    labels: Labels
    task: str
    provenance: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, theta: Floats, **provenance: Any) -> TrainedModel:
        """The model that training on ``problem`` gave; ``provenance`` is kept beside the problem's own."""
        record = {**problem.provenance, **provenance}
        return cls(theta, problem.feature_map, problem.preprocessing, problem.labels, problem.task, record)

    def __repr__(self) -> str:
        d, c = self.theta.shape
        return f"<TrainedModel {self.task}, {self.preprocessing.n_columns} columns, {d} features, {c} outputs>"

    def scores(self, X: NDArray[Any]) -> Floats:
        """n x c real scores of raw rows."""
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.preprocessing.n_columns:
            raise InvalidInput(f"X must have {self.preprocessing.n_columns} columns, got shape {rows.shape}")
        prepared, _ = self.preprocessing.apply(rows)
        return np.asarray(self.feature_map.transform(prepared) @ self.theta)

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Labels as the training data had them: numbers, text, or targets in their own unit."""
        return self.labels.decode(self.scores(X))

    def score(self, X: NDArray[Any], y: NDArray[Any]) -> float:
        """Accuracy, or R^2 for regression."""
        return score_of(self.predict(X), np.asarray(y), self.task)

    def save(self, path: str | Path) -> None:
        """Write atomically: a crash leaves the old file or the new one."""
        tensors = {"theta": np.ascontiguousarray(self.theta)}
        header = {
            "features": self.feature_map.to_dict(),
            "preprocessing": self.preprocessing.to_dict(),
            "labels": self.labels.to_dict(),
            "task": self.task,
            "provenance": self.provenance,
        }
        metadata = {"format": FORMAT, "model": json.dumps(_split_arrays(header, tensors))}
        write_whole(Path(path), lambda partial: save_file(tensors, partial, metadata=metadata))

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
        if metadata.get("format") != FORMAT:
            raise InvalidInput(f"the model file must have format {FORMAT}, got {metadata.get('format')!r}")
        try:
            header = _join_arrays(json.loads(metadata["model"]), tensors)
            model = cls(
                theta=tensors["theta"],
                feature_map=feature_map_from_dict(header["features"]),
                preprocessing=Preprocessing.from_dict(header["preprocessing"]),
                labels=Labels.from_dict(header["labels"]),
                task=str(header["task"]),
                provenance=dict(header["provenance"]),
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise InvalidInput(f"the model file must be complete, got {str(path)!r} without {error}") from None
        shape = (model.feature_map.n_features, model.labels.n_outputs)
        if model.theta.shape != shape:
            raise InvalidInput(f"theta in the model file must have shape {shape}, got {model.theta.shape}")
        return model


def _split_arrays(value: Any, tensors: dict[str, NDArray[Any]]) -> Any:
    """The same structure with each array moved into ``tensors`` and its name left in its place."""
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
