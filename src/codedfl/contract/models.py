"""What a study may say in a ``[[model]]``: a kind of analysis is a dataclass, and its fields are the keys of the file.

A kind says which totals its analysis asks for, so that a device knows them from the study alone. The analysis itself is
a generator of the same name in ``analyses``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, TypeVar

from codedfl.contract.study_columns import ClassTarget, NumberTarget, StudyColumn
from codedfl.errors import InvalidInput
from codedfl.typing import JsonObject

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
    at_points: the statistics of which it asks for totals at numbers that the server chooses, and points: how many of
        these it may need.
    """

    name: str
    columns: tuple[str, ...]

    kind: ClassVar[str]
    totals: ClassVar[tuple[str, ...]] = ()
    at_points: ClassVar[tuple[str, ...]] = ()
    points: ClassVar[int] = 0

    @property
    def statistics(self) -> tuple[str, ...]:
        """All that are asked for this model alone, in order."""
        return (*self.totals, *self.at_points)

    @property
    def uses(self) -> tuple[str, ...]:
        """Columns that it needs beside ``columns``."""
        return ()

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

    def to_dict(self) -> JsonObject:
        """The whole meaning in plain values."""
        return {"kind": self.kind, **asdict(self)}


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


def check_penalty(name: str, regularisation: float | str) -> None:
    """Refuse a penalty below 0, or none that is a finite number."""
    if isinstance(regularisation, str) or not 0 <= regularisation < float("inf"):
        raise InvalidInput(f"regularisation of the model {name!r} must be at least 0, got {regularisation}")
