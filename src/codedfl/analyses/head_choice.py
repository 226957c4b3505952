"""The best head of a classification: all follow from the total that is there, and held-out rows choose."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from codedfl.analyses.analysis import Finding, Totals, register_analysis
from codedfl.analyses.heads import Head, all_heads
from codedfl.analyses.scoring import ClassScore, ask_score
from codedfl.contract.models.heads import HeadsModel
from codedfl.data.model import TrainedModel
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.typing import JsonObject


@dataclass(frozen=True, eq=False)
class HeadsFinding:
    """Every head that was tried, and the one with the most right predictions on held-out rows.

    heads, scores: in the order in which they were tried. best: the place of the one that was chosen.
    model: the best one.

    Examples
    --------
    >>> from codedfl.analyses.head_choice import HeadsFinding
    >>> [one for one in HeadsFinding.__dataclass_fields__]
    ['name', 'heads', 'scores', 'best', 'model']
    """

    name: str
    heads: tuple[Head, ...]
    scores: tuple[ClassScore, ...]
    best: int
    model: TrainedModel

    @property
    def score(self) -> ClassScore:
        """Of the best one, which is the best of several on these rows: rows that nobody saw are a little worse."""
        return self.scores[self.best]

    def to_dict(self) -> JsonObject:
        """For JSON; the model has a file of its own."""
        tried: list[JsonObject] = [
            {"head": head.name, "weight": head.weight, "accuracy": score.accuracy}
            for head, score in zip(self.heads, self.scores, strict=True)
        ]
        known: JsonObject = {"name": self.name, "kind": HeadsModel.kind, "best": self.heads[self.best].name}
        return {**known, "tried": tried, "score": self.score.to_dict()}

    def lines(self) -> list[str]:
        """A line per head."""
        pairs = enumerate(zip(self.heads, self.scores, strict=True))
        return [
            f"{head.name:<16} weight {head.weight:<10.3g} {score.shown_accuracy()}{'  chosen' * (place == self.best)}"
            for place, (head, score) in pairs
        ]


@register_analysis(HeadsModel.kind)
def heads(totals: Totals, model: HeadsModel) -> Generator[Ask, Any, Finding]:
    """One score on held-out rows per head; nothing is uploaded again.

    Examples
    --------
    See ``HeadsFinding``, in which it ends.
    """
    linear = totals.linear(model.columns)
    tried, scores = all_heads(linear.class_sums())[: model.candidates], list[ClassScore]()
    for head in tried:
        if len(totals.asked) >= totals.study.most_points:
            raise InvalidInput(f"points must be more than {totals.study.most_points} for all heads to be scored")
        point = linear.on_design(linear.head_theta(head.slopes, head.constants)).ravel()
        totals.asked.append(point)
        score, why = yield from ask_score(totals.final, totals.merged, point)
        if not isinstance(score, ClassScore):
            raise InvalidInput(f"held_out must leave rows for heads to be chosen by: {why}")
        scores.append(score)
    best = max(range(len(tried)), key=lambda place: scores[place].accuracy)
    theta = linear.head_theta(tried[best].slopes, tried[best].constants)
    about = {"model": model.name, "head": tried[best].name, "weight": tried[best].weight}
    return HeadsFinding(model.name, tuple(tried), tuple(scores), best, linear.trained(theta, **about))
