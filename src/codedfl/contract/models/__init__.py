"""What a study may say in a ``[[model]]``: a kind of analysis is a dataclass, and its fields are the keys of the file.

A kind says which totals its analysis asks for, so that a device knows them from the study alone. The analysis itself is
a generator of the same name in ``analyses``. A further kind is a file of this folder, found by being there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, TypeVar

from codedfl.data.columns import CategoryColumn, ClassTarget, Column, NumberTarget
from codedfl.data.columns import Target as Target
from codedfl.errors import InvalidInput
from codedfl.on_demand import Register
from codedfl.typing import Integers, JsonObject

GCV = "gcv"  # a weight that is chosen by generalised cross-validation, from the total
Named = Mapping[str, Column]


@dataclass(frozen=True)
class StudyModel:
    """One more analysis of the rows of a study; the kinds are in ``MODELS``.

    name: the model's name.
    columns: names of columns of the table that are in the model.

    kind: the word in the file.
    totals: the statistics of which the analysis asks for one total.
    counted: what the census counts for it beside its columns (``COUNTED``).
    needs_gram: whether the analysis begins with the study's Gram matrix.
    at_points: the statistics of which it asks for totals at numbers that the server chooses, as far as ``statistics``
        has them, and points: how many of these it may need at most.
    of_held_out: those of them that are asked for only where the study holds rows out.
    iterates: whether totals at many coefficients may tell combinations of its columns apart.
    discordant: whether only clusters with several values of the target are in its sums.
    all_columns: whether a file that names no columns means all.
    """

    name: str
    columns: tuple[str, ...]

    kind: ClassVar[str]
    totals: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[frozenset[str]] = frozenset()
    needs_gram: ClassVar[bool] = True
    at_points: ClassVar[tuple[str, ...]] = ()
    of_held_out: ClassVar[tuple[str, ...]] = ()
    points: ClassVar[int] = 0
    iterates: ClassVar[bool] = False
    discordant: ClassVar[bool] = False
    all_columns: ClassVar[bool] = False

    @property
    def statistics(self) -> tuple[str, ...]:
        """All that are asked for this model alone, in order."""
        return (*self.totals, *self.at_points)

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


COUNTED = frozenset({"combinations", "times", "clusters"})
"""What a model's sums may tell apart that the census counts model by model."""
NO_MODEL = StudyModel("", ())  # stands for the study itself where a model may be named
MODELS = Register[type[StudyModel]]("codedfl.contract.models")
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
    """Table 1 over all devices: rows, missing values, mean, SD and quantiles of numbers, counts of levels; the target.

    by: a category of the study beside these columns, by whose levels all of it is reported too, with the standardised
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


def check_number(name: str, target: Target) -> None:
    """Refuse classes."""
    if not isinstance(target, NumberTarget):
        raise InvalidInput(
            f"the target {target.name!r} must be a number for the model {name!r}, got classes: of 0 and"
            " 1 write range = [0, 1] and step = 1"
        )


def check_zero_or_one(key: str, model: str, said: Column) -> None:
    """Refuse a column that says yes or no by anything else, such as by words."""
    if said.range != (0.0, 1.0) or said.step != 1.0 or said.missing is not None:
        words = ", and 0 and 1 for its words in every table" if isinstance(said, CategoryColumn) else ""
        raise InvalidInput(
            f"{key} of the model {model!r} must be 0 or 1 without missing values, got {said.name!r}: give it"
            f" range = [0, 1] and step = 1{words}"
        )


@dataclass(frozen=True)
class TimedModel(StudyModel):
    """A model of times until an event, on a public grid. The target is the time.

    event: a column of numbers that is 1 where the time ended with the event, and 0 where it was censored.
    times: the public grid, ascending. A time counts as the next one of these that ends an interval, and one beyond the
        last as censored. Intervals in which too few people of a group have the event, or are censored, are joined with
        the next by the census. One grid for all models of a study.
    """

    event: str
    times: tuple[float, ...]

    totals: ClassVar[tuple[str, ...]] = ("survival",)
    counted: ClassVar[frozenset[str]] = frozenset({"times"})

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
        check_zero_or_one("event", self.name, columns[self.event])
        if not 1 <= len(self.times) <= _MOST_TIMES or list(self.times) != sorted(set(self.times)) or self.times[0] < 0:
            raise InvalidInput(
                f"times of the model {self.name!r} must be 1 to {_MOST_TIMES} ascending numbers from 0, got"
                f" {list(self.times)!r:.80}"
            )


_MOST_TIMES = 1000
