"""A study from its first question to its findings: a generator that asks for totals, whoever makes them.

Every driver runs this one generator, in process, in virtual time or on real machines, and ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from codedfl.analyses.analysis import Finding, Totals, analyse, register_analysis
from codedfl.analyses.cells import merge_rare, no_score
from codedfl.analyses.inference import Inference
from codedfl.analyses.kernel import conduct_kernel
from codedfl.analyses.scoring import NumberScore, Score, ask_score
from codedfl.contract.merging import Merged
from codedfl.contract.study import Study, SubModel
from codedfl.data.model import TrainedModel
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject

Answer = list[int] | Floats
"""Integers of a total; for ``products`` Theta as its solver found it."""

NO_ROWS = "the study holds no rows out"


@dataclass(frozen=True, eq=False)
class LinearFinding:
    """One linear model that was read from a total.

    name: as the study calls it; "" is the study's own model.
    columns: the columns of the table that are in it.
    model, no_model: the ridge, or why there is none.
    score: on held-out rows of a number to predict; None where there are none, and for classes.
    inference: without a penalty; None where nobody asked for it, or where it cannot be made.
    no_inference: why it cannot be made; "" if it was.

    Examples
    --------
    See ``refit``, which makes it.
    """

    name: str
    columns: tuple[str, ...]
    model: TrainedModel | None
    no_model: str
    score: NumberScore | None
    inference: Inference | None
    no_inference: str

    def to_dict(self) -> JsonObject:
        """For JSON; a model has a file of its own."""
        return {
            "name": self.name,
            "columns": list(self.columns),
            "no_model": self.no_model,
            "score": None if self.score is None else self.score.to_dict(),
            "coefficients": None if self.inference is None else self.inference.to_dicts(),
            "no_inference": self.no_inference,
        }

    def lines(self) -> list[str]:
        """For people."""
        found = [f"columns: {', '.join(self.columns)}"]
        if self.score is not None:
            found.append(f"R^2 {self.score.r_squared:.4f} on {self.score.rows} held-out rows")
        if self.inference is not None:
            found += self.inference.summary().splitlines()
        return found + [f"none: {why}" for why in (self.no_model, self.no_inference) if why]


@dataclass(frozen=True, eq=False)
class StudyFindings:
    """What a study found.

    model: the model of all columns, with the study's penalty.
    score, no_score: on held-out rows, or why there is none.
    inference, no_inference: coefficients without a penalty, or why there are none; None and "" if nobody asked.
    rows: training rows of all devices; None with noise, where nobody knows it exactly.
    models: what the further models that the study names ended in.
    total: the integers of ``gram``. Whoever keeps them can ``refit`` without asking an owner again; empty if none were
        asked for.
    merged: rare levels that were merged, and marks of gaps that were dropped.

    Examples
    --------
    See ``conduct``, which ends in it.
    """

    model: TrainedModel
    score: Score | None
    no_score: str
    inference: Inference | None
    no_inference: str
    rows: int | None
    models: tuple[Finding, ...]
    total: list[int]
    merged: Merged

    def to_dict(self) -> JsonObject:
        """For JSON, without counts that people are not shown; model and total have files of their own."""
        return {
            "rows": self.rows,
            "score": None if self.score is None else self.score.to_dict(),
            "no_score": self.no_score,
            "coefficients": None if self.inference is None else self.inference.to_dicts(),
            "no_inference": self.no_inference,
            "models": [one.to_dict() for one in self.models],
            "merged": [list(one) for one in self.merged],
        }


def conduct(study: Study) -> Generator[Ask, Any, StudyFindings]:
    """Ask for the totals of a study, one after the other, and end in what they say.

    Examples
    --------
    A driver adds up what the devices contribute and sends the total.

    >>> from codedfl.analyses import conduct
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    >>> run = conduct(study)
    >>> next(run)
    <Ask for cells>
    >>> run.send([30, 0, 30, 3, 0, 3, 0, 0, 0, 0, 0, 0, 3, 3])
    <Ask for gram>
    >>> try:
    ...     run.send([30, 0, 0, 2000, 2000, 2000])
    ... except StopIteration as end:
    ...     print(end.value.rows, end.value.no_score)
    30 the study holds no rows out
    """
    if study.noise is not None:
        model, _, why, _ = yield from conduct_kernel(study, (), NO_ROWS)
        return StudyFindings(model, None, why, None, "", None, (), [], ())
    cells: list[int] = yield Ask("cells")
    merged = merge_rare(study, cells)
    if study.takes_whole_rows:  # such features have no columns of their own that could pick out people
        merged = ()
    totals = Totals(study, cells, merged, ())
    why = no_score(study, totals.counts) if study.held_out else NO_ROWS
    if study.features != "linear":
        model, score, why, total = yield from conduct_kernel(study, merged, why)
        return StudyFindings(model, score, why, None, "", cells[0], (), total, merged)
    integers: list[int] = yield Ask("gram", merged)
    totals = replace(totals, gram=integers)
    found = refit(study, integers, merged, inference=study.inference)
    if found.model is None:
        raise InvalidInput(found.no_model)
    score = found.score
    if "score" in study.statistics and not why:
        point = totals.linear().on_design(found.model.theta).ravel()
        totals.asked.append(point)
        score, why = yield from ask_score(totals.final, merged, point)
    models = []
    for one in study.models:
        models.append((yield from analyse(totals, one)))
    return StudyFindings(
        found.model, score, why, found.inference, found.no_inference, integers[0], tuple(models), integers, merged
    )


@register_analysis(SubModel.kind)
def _linear(totals: Totals, model: SubModel) -> Generator[Ask, Any, Finding]:
    """Nobody is asked: the total is there."""
    yield from ()
    of_total = (totals.study, totals.gram, totals.merged)
    return refit(*of_total, model.columns, model.regularisation, model.inference, model.name)


def refit(
    study: Study,
    total: Sequence[int],
    merged: Sequence[Sequence[int]] = (),
    columns: Iterable[str] | None = None,
    regularisation: float | None = None,
    inference: bool = False,
    name: str = "",
    level: float = 0.95,
) -> LinearFinding:
    """One more linear model of a total that is there already: no device is asked for anything.

    total, merged: as ``StudyFindings`` has them.
    columns: the columns of the table that the model has; None takes all. Columns that were merged away are left out.
    regularisation: None is the study's.
    inference: whether standard errors and p values are made, at this ``level`` of the confidence intervals.

    Examples
    --------
    >>> from codedfl.analyses import refit
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    >>> found = refit(study, [3, 0, 0, 200, 200, 201], inference=True)
    >>> found.inference.coefficients.round(6)
    array([-30.,   1.])
    """
    linear = Totals(study, (), tuple(map(tuple, merged)), total).linear(None if columns is None else tuple(columns))
    names = tuple(one.column.name for one in linear.study.columns)
    about = {"digest": study.digest().hex(), **({"model": name} if name else {})}
    model, no_model = _or_why_not(lambda: linear.model(regularisation, **about))
    found, no_inference = _or_why_not(lambda: linear.ols(level=level)) if inference else (None, "")
    score = None if model is None else linear.score(model.theta)
    return LinearFinding(name, names, model, no_model, score, found, no_inference)


_Result = TypeVar("_Result")


def _or_why_not(make: Callable[[], _Result]) -> tuple[_Result | None, str]:
    """Columns that depend on each other cost what they make impossible, and nothing else of the total."""
    try:
        return make(), ""
    except InvalidInput as error:
        return None, str(error)
