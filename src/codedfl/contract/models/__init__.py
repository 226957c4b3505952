"""What a study may say in a ``[[model]]``: a kind of analysis is a dataclass, and its fields are the keys of the file.

A kind says which totals its analysis asks for, so that a device knows them from the study alone. The analysis itself is
a generator of the same name in ``analyses``. A further kind is a file of this folder, found by being there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, TypeVar

from codedfl.contract.study_columns import ClassTarget, NumberTarget, StudyColumn
from codedfl.errors import InvalidInput
from codedfl.on_demand import load_all
from codedfl.typing import Integers, JsonObject

GCV = "gcv"  # a weight that is chosen by generalised cross-validation, from the total
Target = NumberTarget | ClassTarget
Named = Mapping[str, StudyColumn]


@dataclass(frozen=True)
class StudyModel:
    """One more analysis of the rows of a study; the kinds are in ``MODELS``.

    name: the model's name.
    columns: names of columns of the table that are in the model.

    kind: the word in the file.
    totals: the statistics of which the analysis asks for one total.
    needs_gram: whether the analysis begins with the study's Gram matrix.
    at_points: the statistics of which it asks for totals at numbers that the server chooses, as far as ``statistics``
        has them, and points: how many of these it may need at most.
    of_held_out: those of them that are asked for only where the study holds rows out.
    all_columns: whether a file that names no columns means all.
    """

    name: str
    columns: tuple[str, ...]

    kind: ClassVar[str]
    totals: ClassVar[tuple[str, ...]] = ()
    needs_gram: ClassVar[bool] = True
    at_points: ClassVar[tuple[str, ...]] = ()
    of_held_out: ClassVar[tuple[str, ...]] = ()
    points: ClassVar[int] = 0
    all_columns: ClassVar[bool] = False

    @property
    def statistics(self) -> tuple[str, ...]:
        """All that are asked for this model alone, in order."""
        return (*self.totals, *self.at_points)

    @property
    def iterates(self) -> bool:
        """Whether it asks for totals at coefficients of columns whose combinations, if few, are counted first."""
        return "crosstable" in self.totals and bool(self.at_points)

    @property
    def most_points(self) -> int:
        """How many numbers of the server's choice this model may need."""
        return self.points

    @property
    def uses(self) -> tuple[str, ...]:
        """Columns that it needs beside ``columns``."""
        return ()

    @property
    def unmerged(self) -> tuple[str, ...]:
        """Those of them of which no levels may be merged."""
        return self.uses

    def check(self, columns: Named, target: Target) -> None:
        """Refuse what does not fit the study, which has these columns by name and this target."""
        del target
        if not self.columns or len(set(self.columns)) < len(self.columns) or not columns.keys() >= set(self.columns):
            raise InvalidInput(
                f"columns of the model {self.name!r} must be different columns of the study, got {list(self.columns)}"
            )
        for name in self.uses:
            if name not in columns or name in self.columns:
                raise InvalidInput(
                    f"{name!r} of the model {self.name!r} must be a column of the study beside the model's columns"
                )

    def objection(self, codes: Mapping[str, Integers], points: int, smallest: int) -> str:
        """Why a device's training rows must not be in the model's totals; "" if they may be.

        codes: by column. points: how many numbers of its choice the server has. smallest: the study's smallest cell.
        """
        del codes, points, smallest
        return ""

    def to_dict(self) -> JsonObject:
        """The whole meaning in plain values."""
        return {"kind": self.kind, **asdict(self)}


NO_MODEL = StudyModel("", ())  # stands for the study itself where a model may be named
MODELS: dict[str, type[StudyModel]] = {}
_Kind = TypeVar("_Kind", bound=type[StudyModel])


def register_model(kind: _Kind) -> _Kind:
    """Make a kind of model known to the study file; serves as a decorator.

    >>> sorted(MODELS)[0] in MODELS
    True
    """
    MODELS[kind.kind] = kind
    return kind


@register_model
@dataclass(frozen=True)
class SubModel(StudyModel):
    """One more linear model of the same total, on some of the study's columns: nobody sends anything for it.

    regularisation: the weight of |Theta|^2 against the mean squared error, or "gcv".
    inference: whether standard errors and p values are wanted.

    >>> SubModel("age only", ("age",)).inference
    False
    """

    regularisation: float | str = 0.0
    inference: bool = False

    kind: ClassVar[str] = "linear"

    def check(self, columns: Named, target: Target) -> None:
        """Inference is for numbers."""
        super().check(columns, target)
        if self.regularisation != GCV:
            check_penalty(self.name, self.regularisation)
        if self.inference and isinstance(target, ClassTarget):
            raise InvalidInput(f"inference of the model {self.name!r} must go with a number to predict, got classes")


@register_model
@dataclass(frozen=True)
class TableOne(StudyModel):
    """Table 1 over all devices: rows, gaps, mean, deviation and quantiles of numbers, counts of levels; and the target.

    by: a category of the study beside these columns, by whose levels all of it is told too, with the standardised
        differences of these arms; "" tells all together.

    >>> TableOne("table 1", ("age", "ward")).statistics
    ('histogram',)
    """

    by: str = ""

    kind: ClassVar[str] = "describe"
    totals: ClassVar[tuple[str, ...]] = ("histogram", "arms")
    needs_gram: ClassVar[bool] = False

    @property
    def statistics(self) -> tuple[str, ...]:
        """By arm only where somebody asks."""
        return self.totals if self.by else self.totals[:1]

    @property
    def uses(self) -> tuple[str, ...]:
        """The arms."""
        return tuple(filter(None, (self.by,)))

    @property
    def unmerged(self) -> tuple[str, ...]:
        """Arms may be joined."""
        return ()

    def check(self, columns: Named, target: Target) -> None:
        """Arms are a category."""
        super().check(columns, target)
        if self.by and columns[self.by].range is not None:
            raise InvalidInput(f"by of the model {self.name!r} must be a category, got {self.by!r}")


def check_penalty(name: str, regularisation: float | str) -> None:
    """Refuse a penalty below 0, or none that is a finite number."""
    if isinstance(regularisation, str) or not 0 <= regularisation < float("inf"):
        raise InvalidInput(f"regularisation of the model {name!r} must be at least 0, got {regularisation}")


@dataclass(frozen=True)
class GlmModel(StudyModel):
    """A generalised linear model, by iterations over totals at coefficients that the server names.

    regularisation: the weight of half the squared coefficients, of columns scaled as for a linear model, against the
        mean log-likelihood; the constant is not penalised. With it there are no standard errors.
    weights: a column of numbers that says how often each row counts; "" counts every row once.
    offset: a column of numbers that is added to the linear predictor.
    bound: the linear predictor is at most this large in size for all that the columns' ranges allow: a device refuses
        coefficients beyond. Above 10 a server that lies may tell single rows apart by steep coefficients.
    errors: "model" for standard errors that rest on the family's variance; "HC0" or "HC1" for ones that hold whatever
        the variance; "cluster" for rows that depend on each other within clusters. All but the first ask for one more
        total.
    cluster: for the last, the column that says which cluster a row is in; no cluster is on two devices.

    dispersed: whether the family's variance is known but for a factor, the dispersion, which is estimated.
    """

    regularisation: float = 0.0
    weights: str = ""
    offset: str = ""
    bound: float = 10.0
    errors: str = "model"
    cluster: str = ""

    totals: ClassVar[tuple[str, ...]] = ("crosstable",)
    at_points: ClassVar[tuple[str, ...]] = ("newton", "sandwich")
    points: ClassVar[int] = 13
    family: ClassVar[str] = "poisson"
    dispersed: ClassVar[bool] = False

    @property
    def statistics(self) -> tuple[str, ...]:
        """The middle of the sandwich only where something is made of it."""
        known = self.family == "binomial" and self.errors == "model"
        return tuple(one for one in super().statistics if not (known and one == "sandwich"))

    @property
    def most_points(self) -> int:
        """Likewise."""
        return self.points - ("sandwich" not in self.statistics)

    @property
    def uses(self) -> tuple[str, ...]:
        """Weights, offset and clusters."""
        return tuple(filter(None, (self.weights, self.offset, self.cluster)))

    def check(self, columns: Named, target: Target) -> None:
        """Weights are not negative, and every column is in the model."""
        super().check(columns, target)
        check_penalty(self.name, self.regularisation)
        check_bound(self.name, self.bound)
        for name in self.columns:
            if not columns[name].width:
                raise InvalidInput(f"columns of the model {self.name!r} must be in_model, got {name!r}, which is not")
        for key in ("weights", "offset"):
            name = getattr(self, key)
            if name and (columns[name].range is None or columns[name].column.missing is not None):
                raise InvalidInput(f"{key} of the model {self.name!r} must be a number without gaps, got {name!r}")
        if self.weights and columns[self.weights].grid.range[0] < 0:
            raise InvalidInput(f"weights of the model {self.name!r} must be from 0, got {self.weights!r} below")
        check_errors(self.name, self.errors, self.cluster, GLM_ERRORS)
        if self.regularisation and (self.errors != "model" or self.dispersed):
            raise InvalidInput(
                f"regularisation of the model {self.name!r} must be 0 for standard errors, got {self.regularisation:g}"
            )


def check_bound(name: str, bound: float) -> None:
    """Refuse a bound of the linear predictor that is none, or whose exp is none."""
    if not 0 < bound <= _MOST_BOUND:
        raise InvalidInput(f"bound of the model {name!r} must be above 0 and at most {_MOST_BOUND:g}, got {bound:g}")


def check_errors(name: str, errors: str, cluster: str, known: tuple[str, ...]) -> None:
    """Refuse errors that there are not, and clusters that nobody asked for."""
    if errors not in known:
        raise InvalidInput(
            f"errors of the model {name!r} must be {', '.join(known[:-1])} or {known[-1]}, got {errors!r:.40}"
        )
    if bool(cluster) != (errors == "cluster"):
        raise InvalidInput(f"cluster of the model {name!r} must be said with errors = 'cluster', and only then")


GLM_ERRORS = ("model", "HC0", "HC1", "cluster")
_MOST_BOUND = 500.0  # exp of it is far from the largest float


@register_model
@dataclass(frozen=True)
class LogisticModel(GlmModel):
    """The log odds of the second of two classes.

    >>> LogisticModel("ill", ("age",)).bound
    10.0
    """

    kind: ClassVar[str] = "logistic"
    at_points: ClassVar[tuple[str, ...]] = ("newton", "sandwich", "calibration", "calibration-line")
    of_held_out: ClassVar[tuple[str, ...]] = ("calibration-line",)
    points: ClassVar[int] = GlmModel.points + 1
    family: ClassVar[str] = "binomial"

    def check(self, columns: Named, target: Target) -> None:
        """Two classes."""
        super().check(columns, target)
        check_two_classes(self.name, target)


@register_model
@dataclass(frozen=True)
class PoissonModel(GlmModel):
    """The log of the mean of a count.

    >>> PoissonModel("visits", ("age",), offset="log years").uses
    ('log years',)
    """

    kind: ClassVar[str] = "poisson"

    def check(self, columns: Named, target: Target) -> None:
        """Whole numbers from 0."""
        super().check(columns, target)
        check_counts(self.name, target)


def check_two_classes(name: str, target: Target) -> None:
    """Refuse another target than two classes."""
    if not isinstance(target, ClassTarget) or len(target.classes) != 2:
        raise InvalidInput(f"the target {target.name!r} must have two classes for the model {name!r}")


def check_counts(name: str, target: Target) -> None:
    """Refuse another target than whole numbers from 0."""
    if not isinstance(target, NumberTarget) or target.range[0] < 0 or target.range[0] % 1 or target.step % 1:
        raise InvalidInput(f"the target {target.name!r} must be whole numbers from 0 for the model {name!r}")


@register_model
@dataclass(frozen=True)
class RobustModel(StudyModel):
    """A linear model with standard errors that hold whatever the variance of the residuals, by one more total.

    errors: "HC0", "HC1", "HC2" or "HC3"; "cluster" for rows that depend on each other within clusters.
    cluster: for the last, the column that says which cluster a row is in; no cluster is on two devices.

    >>> RobustModel("stay", ("age",)).errors
    'HC3'
    """

    errors: str = "HC3"
    cluster: str = ""

    kind: ClassVar[str] = "robust"
    at_points: ClassVar[tuple[str, ...]] = ("robust",)
    points: ClassVar[int] = 1

    @property
    def uses(self) -> tuple[str, ...]:
        """The clusters."""
        return tuple(filter(None, (self.cluster,)))

    def check(self, columns: Named, target: Target) -> None:
        """A number to predict, and clusters if they are wanted."""
        super().check(columns, target)
        check_errors(self.name, self.errors, self.cluster, (*HC, "cluster"))
        check_number(self.name, target)


HC = ("HC0", "HC1", "HC2", "HC3")


def check_number(name: str, target: Target) -> None:
    """Refuse classes."""
    if not isinstance(target, NumberTarget):
        raise InvalidInput(
            f"the target {target.name!r} must be a number for the model {name!r}, got classes: of 0 and"
            " 1 write range = [0, 1] and step = 1"
        )


@register_model
@dataclass(frozen=True)
class TableModel(StudyModel):
    """A logistic or Poisson model of columns with few combinations, from one cross-table: exact, without iterations.

    Two classes make it logistic, counts make it Poisson.

    >>> TableModel("ill", ("ward",)).statistics
    ('crosstable', 'contingency')
    """

    kind: ClassVar[str] = "table"
    totals: ClassVar[tuple[str, ...]] = ("crosstable", "contingency")

    def check(self, columns: Named, target: Target) -> None:
        """Two classes, or whole numbers from 0."""
        super().check(columns, target)
        if isinstance(target, ClassTarget):
            check_two_classes(self.name, target)
        else:
            check_counts(self.name, target)


@dataclass(frozen=True)
class TimedModel(StudyModel):
    """A model of times until an event, on a public grid. The target is the time.

    event: a column of numbers that is 1 where the time ended with the event, and 0 where it was cut short.
    times: the public grid, ascending. A time counts as the next one of these that ends an interval with enough events
        (and times cut short) in every group, and one beyond the last as cut short. One grid for all models of a study.
    """

    event: str
    times: tuple[float, ...]

    totals: ClassVar[tuple[str, ...]] = ("ends",)
    at_points: ClassVar[tuple[str, ...]] = ("survival",)
    points: ClassVar[int] = 1

    @property
    def groups(self) -> str:
        """The category whose levels are counted apart; "" counts all together."""
        return ""

    @property
    def begin(self) -> str:
        """The column that says when a row's time begins; "" where all begin at the start."""
        return ""

    @property
    def uses(self) -> tuple[str, ...]:
        """What says how a time ended."""
        return (self.event,)

    def check(self, columns: Named, target: Target) -> None:
        """Events that are 0 or 1, and times in order."""
        super().check(columns, target)
        check_number(self.name, target)
        event = columns[self.event]
        if event.range != (0.0, 1.0) or event.step != 1.0 or event.column.missing is not None:
            raise InvalidInput(
                f"event of the model {self.name!r} must be 0 or 1 without gaps, got {self.event!r}: give it"
                " range = [0, 1] and step = 1"
            )
        if not 1 <= len(self.times) <= _MOST_TIMES or list(self.times) != sorted(set(self.times)) or self.times[0] < 0:
            raise InvalidInput(
                f"times of the model {self.name!r} must be 1 to {_MOST_TIMES} ascending numbers from 0, got"
                f" {list(self.times)!r:.80}"
            )


@register_model
@dataclass(frozen=True)
class SurvivalModel(TimedModel):
    """Survival curves of the groups of one category (Kaplan and Meier) and the log-rank test. The target is the time.

    >>> SurvivalModel("relapse", ("ward",), "relapsed", (30.0, 60.0, 90.0)).uses
    ('relapsed',)
    """

    kind: ClassVar[str] = "survival"
    needs_gram: ClassVar[bool] = False

    @property
    def groups(self) -> str:
        """The one category."""
        return self.columns[0]

    def check(self, columns: Named, target: Target) -> None:
        """One category."""
        if len(self.columns) == 1 and self.columns[0] in columns and columns[self.columns[0]].range is not None:
            raise InvalidInput(f"columns of the model {self.name!r} must be one category, got {list(self.columns)}")
        super().check(columns, target)
        if len(self.columns) != 1:
            raise InvalidInput(f"columns of the model {self.name!r} must be one category, got {list(self.columns)}")


_MOST_TIMES = 1000


@register_model
@dataclass(frozen=True)
class ResidualsModel(StudyModel):
    """The residuals of a linear model: a histogram in residual deviations, and the points of a normal QQ plot.

    >>> ResidualsModel("stay", ("age",)).statistics
    ('residuals',)
    """

    kind: ClassVar[str] = "residuals"
    at_points: ClassVar[tuple[str, ...]] = ("residuals",)
    points: ClassVar[int] = 1

    def check(self, columns: Named, target: Target) -> None:
        """A number to predict."""
        super().check(columns, target)
        check_number(self.name, target)


load_all(__name__, __path__)
