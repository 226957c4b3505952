"""A study from its first question to its findings: a generator that asks for totals, whoever makes them.

Every driver runs this one generator, in process, in virtual time or on real machines, and ends with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from codedfl.analyses.analysis import Finding, Totals, analyse, register_analysis
from codedfl.analyses.cells import Clipping, no_score, unmarked
from codedfl.analyses.inference import Inference
from codedfl.analyses.kept import NOTHING_KEPT, KeptSum
from codedfl.analyses.kernel import conduct_kernel
from codedfl.analyses.linear import by_level_of
from codedfl.analyses.nested import nested
from codedfl.analyses.scoring import NumberScore, Score, ask_score
from codedfl.contract.census import Decision
from codedfl.contract.merging import Merged
from codedfl.contract.study import NO_FEATURES, Study, SubModel
from codedfl.data.model import TrainedModel
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.typing import Floats, JsonObject

Answer = list[int] | Floats | Decision
"""Integers of a total; for ``products`` Theta as its solver found it; for ``census`` what follows from it."""

NO_ROWS = "the study holds no rows out"
CLIPPED = "clipped to the ranges, which moves coefficients and can hide that columns depend on each other"


@dataclass(frozen=True, eq=False)
class LinearFinding:
    """One linear model that was read from a total.

    name: as the study calls it; "" is the study's own model.
    columns: the columns of the table that are in it.
    model, no_model: the ridge, or why there is none.
    score: on held-out rows of a number to predict; None where there are none, and for classes.
    inference: without a penalty; None where nobody asked for it, or where it cannot be made.
    no_inference: why it cannot be made; "" if it was.
    clipped: how many values of its columns and of the target lay beyond their ranges, in words.

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
    clipped: str = ""

    @property
    def none(self) -> str:
        """Why there is none; "" where there is one."""
        return self.no_model

    def unless_clipped(self, study: Study, clipped: Clipping) -> LinearFinding:
        """With its clipped values, and without inference where they are more than the study allows."""
        found = replace(self, clipped=clipped.words(study.smallest_cell))
        objection = clipped.objection(study, self.columns) if self.inference is not None else ""
        return replace(found, inference=None, no_inference=objection) if objection else found

    def to_dict(self) -> JsonObject:
        """For JSON; a model has a file of its own."""
        return {
            "name": self.name,
            "columns": list(self.columns),
            "regularisation": regularisation_of(self.model),
            "no_model": self.no_model,
            "score": None if self.score is None else self.score.to_dict(),
            "inference": None if self.inference is None else self.inference.to_dict(),
            "no_inference": self.no_inference,
            "clipped": self.clipped,
        }

    def lines(self) -> list[str]:
        """For people."""
        found = [f"columns: {', '.join(self.columns)}"]
        if (weight := regularisation_of(self.model)) is not None:
            found.append(f"regularisation {weight:.4g}")
        if self.score is not None:
            found.append(f"R^2 {self.score.r_squared:.4f} on {self.score.rows} held-out rows")
        if self.inference is not None:
            found += self.inference.summary().splitlines()
            found += [f"{CLIPPED}: {self.clipped}"] if self.clipped else []
        return found + [f"none: {why}" for why in (self.no_model, self.no_inference) if why]


def regularisation_of(model: TrainedModel | None) -> float | None:
    """The weight of a linear model's penalty as a number, also where cross-validation chose it; else None.

    Examples
    --------
    >>> from codedfl.analyses.study_analysis import regularisation_of
    >>> regularisation_of(None) is None
    True
    """
    return None if model is None else model.provenance.get("regularisation")


@dataclass(frozen=True, eq=False)
class StudyFindings:
    """What a study found.

    model: the model of all columns, with the study's penalty; None of a study without features.
    score, no_score: on held-out rows, or why there is none.
    inference, no_inference: coefficients without a penalty, or why there are none; None and "" if nobody asked.
    rows: training rows of all devices; None with noise, where nobody knows it exactly.
    models: what the further models that the study names ended in.
    total: the integers of ``gram``. Whoever keeps them can ``refit`` without asking an owner again; empty if none were
        asked for.
    merged: rare levels that were merged, and marks of missing values that were dropped.
    clipped: how many values lay beyond the ranges.
    unmarked: columns with missing values of which the mark was dropped.
    left_out: rows that complete cases, or a target, left out for missing values; "few" where that is a small count.
    before: the total of others to which this study has added; rows, model, clipped values and ``total`` are over both,
        the score is over rows of those who came later.

    Examples
    --------
    See ``conduct``, which ends in it.
    """

    model: TrainedModel | None
    score: Score | None
    no_score: str
    inference: Inference | None
    no_inference: str
    rows: int | None
    models: tuple[Finding, ...]
    total: list[int]
    merged: Merged
    clipped: Clipping = Clipping()  # noqa: RUF009 - frozen
    unmarked: tuple[str, ...] = ()
    left_out: int | str = 0
    before: KeptSum = NOTHING_KEPT

    def to_dict(self) -> JsonObject:
        """For JSON, without counts that people are not shown; model and total have files of their own."""
        return {
            "rows": self.rows,
            "left_out": self.left_out,
            "regularisation": regularisation_of(self.model),
            "score": None if self.score is None else self.score.to_dict(),
            "no_score": self.no_score,
            "inference": None if self.inference is None else self.inference.to_dict(),
            "no_inference": self.no_inference,
            "models": [one.to_dict() for one in self.models],
            "nested": [one.to_dict() for one in nested(self.models)],
            "merged": [list(one) for one in self.merged],
        }


def conduct(study: Study, before: KeptSum = NOTHING_KEPT) -> Generator[Ask, Any, StudyFindings]:
    """Ask for the totals of a study, one after the other, and end in what they say.

    before: a total of others to which these are added (``KeptSum.check``); what is rare is judged without it.

    Examples
    --------
    A driver adds up what the devices contribute and sends the total.

    >>> from codedfl.analyses.study_analysis import conduct
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    >>> run = conduct(study)
    >>> next(run)
    <Ask for census>
    >>> run.send(Decision())
    <Ask for cells>
    >>> run.send([30, 0, 0, 0, 0])
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
    decision: Decision = yield Ask("census")
    if objection := decision.objection():
        raise InvalidInput(objection)
    merged = decision.merged
    cells: list[int] = yield Ask("cells", merged)
    totals = Totals(study, cells, merged, (), before, refused=decision.refused)
    seen = (totals.clipped, unmarked(study, merged), totals.counts.left_out)
    why = no_score(study, totals.final) if study.held_out else NO_ROWS
    if study.features == NO_FEATURES:
        described = yield from _models(totals)
        return StudyFindings(None, None, why, None, "", cells[0], described, [], merged, *seen)
    if study.features != "linear":
        model, score, why, total = yield from conduct_kernel(study, merged, why)
        return StudyFindings(model, score, why, None, "", cells[0], (), total, merged, *seen)
    own: list[int] = yield Ask("gram", merged)
    integers = before.added(own, merged)
    totals = replace(totals, gram=integers)
    found = refit(study, integers, merged).unless_clipped(study, totals.clipped)
    if found.model is None:
        raise InvalidInput(found.no_model)
    score = found.score
    if not why and not totals.final.holds_out_gram:
        point = totals.linear().on_design(found.model.theta).ravel()
        totals.asked.append(point)
        score, why = yield from ask_score(totals.final, merged, point)
    models = yield from _models(totals)
    of_model = (found.model, score, why, found.inference, found.no_inference)
    return StudyFindings(*of_model, integers[0], models, integers, merged, *seen, before)


def _models(totals: Totals) -> Generator[Ask, Any, tuple[Finding, ...]]:
    found = []
    for one in totals.study.models:
        found.append((yield from analyse(totals, one)))
    return tuple(found)


@register_analysis(SubModel.kind)
def _linear(totals: Totals, model: SubModel) -> Generator[Ask, Any, Finding]:
    """Nobody is asked: the total is there."""
    yield from ()
    found = refit(totals.study, totals.gram, totals.merged, model)
    return found.unless_clipped(totals.study, totals.clipped)


def refit(
    study: Study,
    total: Sequence[int],
    merged: Sequence[Sequence[int]] = (),
    wanted: SubModel | None = None,
    level: float = 0.95,
) -> LinearFinding:
    """One more linear model of a total that is there already: no device is asked for anything.

    total, merged: as ``StudyFindings`` has them.
    wanted: the model; None is the study's own. Columns that were merged away are left out.
    level: of the confidence intervals.

    Examples
    --------
    >>> from codedfl.analyses.study_analysis import refit
    >>> from codedfl.contract.study import Study, SubModel
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, held_out=0.0)
    >>> found = refit(study, [3, 0, 0, 200, 200, 201], wanted=SubModel("age", ("age",), inference=True))
    >>> found.inference.coefficients.round(6)
    array([-30.,   1.])
    """
    linear = Totals(study, (), tuple(map(tuple, merged)), total).linear(wanted.columns if wanted else None)
    wanted = wanted or SubModel("", study.table_columns.names, study.regularisation, study.inference)
    names = tuple(one.name for one in linear.study.columns)
    about = {"digest": study.digest().hex(), **({"model": wanted.name} if wanted.name else {})}
    model, no_model = _or_why_not(lambda: linear.model(wanted.regularisation, **about))
    found, no_inference = (
        _or_why_not(lambda: by_level_of(linear.study, linear.without_empty().ols(level=level)))
        if wanted.inference
        else (None, "")
    )
    # Of times until an event a linear model says nothing, and its R^2 would be taken for the survival model's.
    score = None if model is None or study.time_grid else linear.score(model.theta)
    return LinearFinding(wanted.name, names, model, no_model, score, found, no_inference)


_Result = TypeVar("_Result")


def _or_why_not(make: Callable[[], _Result]) -> tuple[_Result | None, str]:
    """Columns that depend on each other cost what they make impossible, and nothing else of the total."""
    try:
        return make(), ""
    except InvalidInput as error:
        return None, str(error)
