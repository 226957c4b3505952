"""Coefficients as papers print them: ratios with intervals, and reference levels among them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from codedfl.typing import Unchecked

NOTHING = "\u2014"


@dataclass(frozen=True)
class Effect:
    """One coefficient, or a reference level, which has none.

    name: as the model has it. column, level: of a category, else the name and "".
    per: how far its column varies, roughly; figures show effects per this much.
    estimate, low, high: a ratio where the model has ratios, else the coefficient; None where there are none.
    """

    name: str
    column: str
    level: str = ""
    per: float = 1.0
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    is_reference: bool = False

    @property
    def label(self) -> str:
        """In one line."""
        return f"{self.column} = {self.level}" if self.level else self.column

    @property
    def text(self) -> str:
        """The estimate with its interval."""
        return "reference" if self.is_reference else estimate_text(self.estimate, self.low, self.high)

    def per_spread(self, *, ratio: bool) -> Effect:
        """Per about one deviation of its column, so that effects can be compared."""
        if self.per == 1.0 or self.estimate is None:
            return self
        ends = [one and (math.exp(math.log(one) * self.per) if ratio else one * self.per) for one in self.ends]
        estimate, low, high = ends
        return Effect(self.name, f"{self.column}, per {self.per:g}", self.level, 1.0, estimate, low, high, self.p)

    @property
    def ends(self) -> tuple[float | None, float | None, float | None]:
        """Estimate, low and high."""
        return self.estimate, self.low, self.high


def effects_of(found: Unchecked) -> list[Effect]:
    """Of what has coefficients in result.json; constants and thresholds are none.

    >>> row = {"name": "ward = eye", "coefficient": 0.7, "low": 0.0, "high": 1.4, "p": 0.05, "effect": True}
    >>> found = {"references": {"ward": "surgery"}, "coefficients": [{"name": "constant", "effect": False}, row]}
    >>> [(one.label, one.text) for one in effects_of(found)]
    [('ward = surgery', 'reference'), ('ward = eye', '0.70 (0.00 to 1.40)')]
    """
    return list(_effects(found))


def _effects(found: Unchecked) -> Iterator[Effect]:
    waiting = dict(found.get("references") or {})
    keys = ("ratio", "ratio_low", "ratio_high") if found.get("ratio") else ("coefficient", "low", "high")
    known = dict(waiting)
    for row in found["coefficients"]:
        if not row.get("effect"):
            continue
        column, _, level = row["name"].partition(" = ")
        if column not in known or ":" in level:
            column, level = row["name"], ""
        if column in waiting:
            yield Effect(f"{column} = {waiting[column]}", column, str(waiting.pop(column)), is_reference=True)
        estimate, low, high = (row.get(one) for one in keys)
        yield Effect(row["name"], column, level, row.get("per", 1.0), estimate, low, high, row.get("p"))


def estimate_text(estimate: float | None, low: float | None, high: float | None) -> str:
    """With as many digits as give the interval's width two.

    >>> estimate_text(1.00321, 1.00172, 1.0047), estimate_text(1204.4, 1054.2, 1354.8), estimate_text(2.5, None, None)
    ('1.0032 (1.0017 to 1.0047)', '1204 (1054 to 1355)', '2.50')
    >>> estimate_text(-0.004, -0.056, 0.046)  # a zero has no sign
    '0.00 (-0.06 to 0.05)'
    """
    if estimate is None:
        return NOTHING
    if low is None or high is None:
        return f"{estimate:#.3g}".rstrip(".")
    width = high - low
    digits = 2 if width <= 0 else min(6, max(0, 1 - math.floor(math.log10(width))))
    if digits < 2 and abs(estimate) < 10:
        digits += 1
    return f"{estimate:z.{digits}f} ({low:z.{digits}f} to {high:z.{digits}f})"


def p_text(p: float | None) -> str:
    """As papers print it.

    >>> p_text(0.00004), p_text(0.0432), p_text(0.58)
    ('<0.001', '0.043', '0.58')
    """
    if p is None:
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
