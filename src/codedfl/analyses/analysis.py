"""What an analysis is: a generator that asks for totals for one ``[[model]]`` of a study, registered by its kind.

A new analysis is a file in ``contract/models`` (a dataclass: what a study says of it), a file here, and a statistic if
it needs one that is not there. They are found by being there; nothing else knows of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from codedfl.analyses.cells import CellCounts, Clipping
from codedfl.analyses.kept import NOTHING_KEPT, KeptSum, sum_of_clipping
from codedfl.analyses.linear import LinearTotal
from codedfl.contract.merging import Merged, merged_study
from codedfl.contract.models import TimedModel
from codedfl.contract.study import Study, StudyModel
from codedfl.errors import InvalidInput
from codedfl.on_demand import Register
from codedfl.statistics.statistic import NOTHING, Ask, statistic_of
from codedfl.typing import Floats, Integers, JsonObject

_Model = TypeVar("_Model", bound=StudyModel)


@dataclass(frozen=True, eq=False)
class Totals:
    """What is known before the first model is made.

    study: as it was approved.
    cells, gram: the integers of these totals.
    merged: what the census merged. refused: for each model that it forbids, why.
    before: a total of others that was kept; it is in ``gram``, and in nothing else.
    asked: the points that were asked for so far.

    Examples
    --------
    See ``codedfl.analyses.study_analysis.conduct``, which makes it.
    """

    study: Study
    cells: Sequence[int]
    merged: Merged
    gram: Sequence[int]
    before: KeptSum = NOTHING_KEPT
    asked: list[Floats] = field(default_factory=list)
    refused: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def final(self) -> Study:
        """The study with its rare levels merged."""
        return merged_study(self.study, self.merged)

    @cached_property
    def counts(self) -> CellCounts:
        """The counts by name, of the merged study."""
        return CellCounts(self.final, self.cells)

    def final_of(self, model: _Model) -> _Model:
        """A model as its columns are then."""
        found = next(one for one in self.final.models if one.name == model.name)
        assert isinstance(found, type(model))
        return found

    @property
    def clipped(self) -> Clipping:
        """Of all rows that are in ``gram``."""
        return sum_of_clipping((self.before.clipped, self.counts.clipped))

    def linear(self, columns: Sequence[str] | None = None) -> LinearTotal:
        """The Gram matrix of some columns of the table; those that were merged away are left out."""
        total = LinearTotal(self.final, self.gram)
        if columns is None:
            return total
        known, left = ({one.name for one in study.columns} for study in (self.study, self.final))
        return total.only(set(columns) - (known - left))

    def present(self, columns: Sequence[str]) -> tuple[LinearTotal, Spread]:
        """The same without levels that nobody has; and what puts its coefficients among those that devices know."""
        whole = self.linear(columns)
        part, names = whole.without_empty(), whole.study.design_names
        place = np.array([0, *(1 + names.index(name) for name in part.study.design_names)])
        return part, Spread(place, 1 + len(names))

    def refuse_clipped(self, columns: Sequence[str]) -> None:
        """Refuse an analysis of columns of which more values than the study allows lay beyond their ranges."""
        if objection := self.counts.clipped.objection(self.study, columns):
            raise InvalidInput(objection)

    def check_left(self, model: StudyModel) -> None:
        """Refuse a model of which the census leaves too little."""
        if all(one.name != model.name for one in self.final.models):
            raise InvalidInput(
                f"columns and times of the model {model.name!r} must be left after merging, got too few: they vary in"
                " too few people, or a column that may not be merged was"
            )

    def ask(self, statistic: str, model: StudyModel, point: Floats = NOTHING) -> Ask:
        """An ask for a model; refused where the study's points are used up, or nothing of the model is left."""
        self.check_left(model)
        if objection := self.refused.get(model.name):
            raise InvalidInput(objection)
        if statistic in self.study.at_points:
            if len(self.asked) >= self.study.most_points:
                raise InvalidInput(
                    f"points must be more than {self.study.most_points} for the model {model.name!r} to be finished"
                )
            self.asked.append(point)
        ask = Ask(statistic, self.merged, point, model.name)
        statistic_of(self.study, ask)  # what no device would accept costs this model, and no other
        return ask


@dataclass(frozen=True, eq=False)
class Spread:
    """Coefficients of some columns among those of ``width``, where all others are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl.analyses.analysis import Spread
    >>> Spread(np.array([0, 2]), 3)(np.array([5.0, 7.0]))
    array([5., 0., 7.])
    """

    place: Integers
    width: int

    def __call__(self, values: Floats) -> Floats:
        """A vector, or a matrix, of all."""
        found = np.zeros((self.width,) * values.ndim)
        found[np.ix_(*[self.place] * values.ndim)] = values
        return found

    def only(self, values: Floats) -> Floats:
        """What is of the columns, of a vector or a matrix of all."""
        return values[np.ix_(*[self.place] * values.ndim)]


class Finding(Protocol):
    """What an analysis ends in.

    Examples
    --------
    See ``NotFound``, which is one.
    """

    @property
    def name(self) -> str:
        """The model's name."""

    def to_dict(self) -> JsonObject:
        """For JSON, without counts that people are not shown."""

    def lines(self) -> list[str]:
        """For people, a line each."""


@dataclass(frozen=True)
class NotFound:
    """That a model could not be made, and why.

    Examples
    --------
    >>> from codedfl.analyses.analysis import NotFound
    >>> NotFound("ill", "logistic", "classes must be two, got 3").lines()
    ['none: classes must be two, got 3']
    """

    name: str
    kind: str
    why: str

    @property
    def none(self) -> str:
        """Why there is none."""
        return self.why

    def to_dict(self) -> JsonObject:
        """For JSON."""
        return {"name": self.name, "kind": self.kind, "why_none": self.why}

    def lines(self) -> list[str]:
        """One."""
        return [f"none: {self.why}"]


Analysis = Callable[[Totals, Any], Generator[Ask, Any, Finding]]
ANALYSES = Register[Analysis]("codedfl.analyses")


def register_analysis(kind: str) -> Callable[[Analysis], Analysis]:
    """Make a generator the analysis of a kind of model; serves as a decorator.

    Examples
    --------
    >>> "cox" in ANALYSES
    True
    """

    def register(analysis: Analysis) -> Analysis:
        if kind in ANALYSES.known:
            raise InvalidInput(f"the kind of an analysis must be new, got {kind!r} again")
        ANALYSES[kind] = analysis
        return analysis

    return register


def analysis_of(model: StudyModel) -> Analysis:
    """What is registered for a model's kind; a server that calls it before it waits for devices has it loaded then.

    It is looked for in the file of the kind's name first, then in those named as the files of the model's classes are:
    what several kinds share is in one file, as their classes share one.

    Examples
    --------
    >>> from codedfl.contract.models.logistic import LogisticModel
    >>> analysis_of(LogisticModel("ill", ("age",))).__module__
    'codedfl.analyses.glm'
    """
    ANALYSES.look_in(model.kind, model.kind, *(one.__module__.rpartition(".")[2] for one in type(model).__mro__))
    return ANALYSES[model.kind]


def analyse(totals: Totals, model: StudyModel) -> Generator[Ask, Any, Finding]:
    """One model; what cannot be made costs no other model anything.

    Examples
    --------
    See ``codedfl.analyses.study_analysis.conduct``, which makes one after the other.
    """
    try:
        if not isinstance(model, TimedModel):  # says itself what became of its times
            totals.check_left(model)
        return (yield from analysis_of(model)(totals, model))
    except InvalidInput as error:
        return NotFound(model.name, model.kind, str(error))
