"""Labels as a model file has them, of all kinds; one that only predicts is the mean of a generalised linear model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.checks import check_vector
from codedfl.data.labels import ClassLabels, Labels, TargetLabels
from codedfl.errors import InvalidInput
from codedfl.typing import Floats, JsonObject, Unchecked


@dataclass(frozen=True)
class MeanLabels(Labels):
    """A mean on its own scale, from the score of a generalised linear model.

    link: "logit" for the chance of a class, "log" for an expected count.
    mean_of: what it is, for people.
    """

    link: str
    mean_of: str

    def __post_init__(self) -> None:
        if self.link not in ("logit", "log"):
            raise InvalidInput(f"link must be logit or log, got {self.link!r}")

    @property
    def n_outputs(self) -> int:
        return 1

    def encode(self, y: NDArray[Any]) -> Floats:
        """What was seen, on the scale of the mean: 0 or 1 for a chance, numbers from 0 for a count."""
        check_vector("y", y)
        allowed, rule = (np.isin(y, (0, 1)), "0 or 1") if self.link == "logit" else (y >= 0, "at least 0")
        if not allowed.all():
            raise InvalidInput(f"y must be {rule} beside the {self.mean_of}, got {y[~allowed][0]:g}")
        return y.reshape(-1, 1).astype(np.float64)

    def decode(self, scores: Floats) -> NDArray[Any]:
        """By the inverse of the link."""
        self._check_scores(scores)
        return 1.0 / (1.0 + np.exp(-scores[:, 0])) if self.link == "logit" else np.exp(scores[:, 0])

    def to_dict(self) -> JsonObject:
        return {"kind": "means", "link": self.link, "mean_of": self.mean_of}


def labels_from_dict(saved: Unchecked) -> Labels:
    """The labels that `to_dict` described.

    >>> labels_from_dict({"kind": "classes", "classes": ["no", "yes"]}).n_outputs
    2
    """
    kind = saved.get("kind")
    if kind == "classes" and isinstance(saved.get("classes"), list):
        return ClassLabels(tuple(saved["classes"]))
    if kind == "targets" and all(isinstance(saved.get(end), float) for end in ("low", "high")):
        return TargetLabels(saved["low"], saved["high"], str(saved.get("function", "")))
    if kind == "means" and all(isinstance(saved.get(key), str) for key in ("link", "mean_of")):
        return MeanLabels(saved["link"], saved["mean_of"])
    raise InvalidInput(f"saved labels must hold classes, low and high of the targets, or a link, got {saved}")
