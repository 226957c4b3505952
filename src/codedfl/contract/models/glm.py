"""Generalised linear models: what all kinds of them say, and the rules that further kinds share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from codedfl.contract.models import Named, StudyModel, Target, check_penalty
from codedfl.data.columns import ClassTarget, NumberTarget
from codedfl.errors import InvalidInput

GLM_ERRORS = ("model", "HC0", "HC1", "cluster")
_MOST_BOUND = 500.0  # exp of it is far from the largest float


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

    at_points: ClassVar[tuple[str, ...]] = ("newton", "sandwich")
    counted: ClassVar[frozenset[str]] = frozenset({"clusters"})
    points: ClassVar[int] = 13
    iterates: ClassVar[bool] = True
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
            if name and (columns[name].range is None or columns[name].missing is not None):
                raise InvalidInput(
                    f"{key} of the model {self.name!r} must be a number without missing values, got {name!r}"
                )
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


def check_two_classes(name: str, target: Target) -> None:
    """Refuse another target than two classes."""
    if not isinstance(target, ClassTarget) or len(target.classes) != 2:
        raise InvalidInput(f"the target {target.name!r} must have two classes for the model {name!r}")


def check_counts(name: str, target: Target) -> None:
    """Refuse another target than whole numbers from 0."""
    if not isinstance(target, NumberTarget) or target.range[0] < 0 or target.range[0] % 1 or target.step % 1:
        raise InvalidInput(f"the target {target.name!r} must be whole numbers from 0 for the model {name!r}")
