"""The part of the range in which the median is, from counts."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.statistics.statistic import Ask
from codedfl.typing import JsonObject


@dataclass(frozen=True)
class MedianFinding:
    name: str
    part: int
    counts: tuple[int, ...]

    def to_dict(self) -> JsonObject:
        return {"name": self.name, "kind": "median", "part": self.part}

    def lines(self) -> list[str]:
        return [f"the median is in part {self.part} of {len(self.counts)}"]


@register_analysis("median")
def median(totals: Totals, model: Any) -> Generator[Ask, Any, Finding]:
    counts = yield totals.ask("parts", model)
    part = int(np.searchsorted(np.cumsum(counts), sum(counts) / 2))
    return MedianFinding(model.name, part, tuple(map(int, counts)))
