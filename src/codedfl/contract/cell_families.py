"""A family of cells: sets of rows that a study's sums tell apart (``cells``)."""

from __future__ import annotations

from dataclasses import dataclass

from codedfl.contract.models import TimedModel
from codedfl.contract.study import Study

NOWHERE = -1  # the place of a row that is in no cell of a family


@dataclass(frozen=True, eq=False)
class CellFamily:
    """Cells of one kind, of which a row is in one at most.

    kind: what follows where one has few (``census``). of: the column, or the model, that they belong to.
    count: how many there are. held_out: whether they are of the rows kept for the score.

    >>> CellFamily("level", "ward", 3).count
    3
    """

    kind: str
    of: str
    count: int
    held_out: bool = False


def timed_models(study: Study) -> list[TimedModel]:
    """The models whose times are counted.

    Examples
    --------
    See ``codedfl.contract.model_cells``, which has their cells.
    """
    return [one for one in study.models if "times" in one.counted and isinstance(one, TimedModel)]
