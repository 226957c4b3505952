"""What a study says who wants a median: a kind of ``[[model]]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import StudyModel, register_model


@register_model
@dataclass(frozen=True)
class MedianModel(StudyModel):
    """The median of the target, to a number of parts of its range."""

    parts: int = 8

    kind: ClassVar[str] = "median"
    totals: ClassVar[tuple[str, ...]] = ("parts",)
    needs_gram: ClassVar[bool] = False
