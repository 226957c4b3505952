"""What a study says, checked: the one agreement of all parties, from which every parameter of every run follows.

All parties have the same study: its ``digest`` is what they agree to. Rows become whole numbers here (``codes``, then
``design``); what is summed of them is in ``statistics``, what follows from the sums in ``analyses``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from codedfl.contract.models import GCV, StudyModel, SubModel, TableOne, TimedModel
from codedfl.contract.names import checked_name
from codedfl.data.canonical import canonical_digest
from codedfl.data.columns import (
    ClassTarget,
    Column,
    Columns,
    DerivedColumn,
    NumberTarget,
    Target,
    Units,
    gaps,
    without_codes,
)
from codedfl.data.features import FEATURE_MAPS, FeatureChoice, FeatureMap, Principal, choose_features, own_keys
from codedfl.data.preprocessing import Preprocessing
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.typing import Floats, Integers, JsonObject, Rows

if TYPE_CHECKING:  # with the first recipe: reading a study needs none
    from codedfl.data.derived import Factor
    from codedfl.data.model import TrainedModel
    from codedfl.data.recipe import Recipe
    from codedfl.exact.scales import Bounds, Scales

__all__ = ["GCV", "Study", "StudyModel", "SubModel"]

NO_FEATURES = "none"
_FINEST, _MOST_DEMEANED = 12, 2**24  # bits of a step, and the largest integer in size, of a column less a device's mean
_MOST_BITS = 72  # of a sum of products
_LEAST_BITS = 2  # of an update's entries, and of the rows' grid in units of a column
_MOST_TEXT = {"purpose": 4000, "formula": 1000}  # characters: what people read must fit a screen
_MOST = 1 << 53
_MOST_FEATURES = 1 << 16  # outputs and columns: a device makes them of each row


@dataclass(frozen=True)
class Study:
    """One study. The names are those of the file (``toml_file``), and so are the defaults.

    name: what people know it by, in every log and on every page.
    purpose: what it is for, in a sentence, as people read it before they approve.
    columns: the columns of every device's table, by name.
    target: the column that is predicted.
    max_rows: a public bound on the rows of all devices together, from which the ring's range follows.
    max_rows_per_device: a public bound on the rows of one device, from which the range of its numbers follows.
    least_participants: the least number of participants, itself included, with which a device takes part.
    edition: counts the times that the same study is made again on newer rows.
    id: a column that tells rows apart, such as a patient's number. It never leaves the device and is no feature.
    formula: what the author wrote, such as "days ~ age * C(ward)"; for people: what counts is the list of columns.
    constant_by: a category of which, in tables of linear models, every level has a constant of its own, in place of one
        constant and differences from it, as ``C(ward) - 1`` means it; the fit is the same.
    complete_cases: whether rows are left out that lack the target, or the value of a column without ``missing``.
    site_effects: whether every device has a constant of its own: it subtracts its means from all columns before it
        sums, so that coefficients are those within sites and no site's mean is shown.
    colluders: z, the number of devices that may help the server without learning more than the sums over
        disclosure groups.
    holders: how many devices hold seeds and answer; None is all up to 50, then a dozen per role.
    row_blocks: K, in how many blocks the rows of X'X are dealt out among the holders of a role where products are asked
        for; the server takes fewer where features or holders are fewer. The model is the same with any. Above 1 one
        holder per role keeps all rows: it stands in for whoever dies.
    number_bits: in how many bits a number of a sum of products is: 32, 48 or 64; None is 48, or 64 where a column's
        range asks for it.
    spare_replies: how many further replies of a role must agree with the first: 1 shows a wrong one, 2t outvote t
        devices.
    roster: SHA-256 of the roster's meaning, in hex, as codedfl roster show says it; "" is for rehearsals only.
    server_key: the server's public key, in hex, as codedfl study kit fills it in; "" is for rehearsals only.
    smallest_cell: k, how many people there must be over all devices of every level, missing value, class, interval and
        held-out part, or it is merged with others before anything is summed (``census``).
    least_rows: rows to train on that all devices together must have; None is ``least_alike``.
    points: how many arguments of its own choice a server may send over all statistics that take any (a score's Theta,
        the coefficients of an iteration); None is what the analyses need.
    features: what a row becomes: "linear", "rbf" (random features of a Gaussian kernel), "pca-rbf" (those of the first
        principal components), "onnx" (outputs of a frozen encoder) or "scattering" (wavelet coefficients of pictures);
        "none" makes no model of its own, for a study that only describes.
    n_features: how many random features, or outputs of the encoder; linear ones are as many as the design columns.
    gamma: in the kernel exp(-gamma ||x - y||^2); None takes a public rule from the number of columns.
    seed: public, of the random features: all devices draw the same.
    components: how many principal components "pca-rbf" takes.
    encoder: of "onnx": the SHA-256 of the file that every machine has.
    encoder_bound: of "onnx": its outputs are clipped to plus and minus this.
    feature_keys: what [features] says beside these, for a feature map that has keys of its own.
    embedded_by: of a matrix of embeddings the digest of the encoder (codedfl site encode) that made them; a table of
        another encoder, or of none, is refused. "" takes any.
    solver: how the server finds Theta from products with X'X, where features are random.
    epochs: in at most how many exchanges.
    regularisation: the weight of |Theta|^2 against the mean squared error; "gcv" has linear models choose it by
        generalised cross-validation.
    held_out: share of each device's rows kept out of training, for the score.
    inference: whether standard errors and p values are wanted.
    most_clipped: the share of a column's values that may lie beyond its range where coefficients with standard errors
        are made: clipped tails move them.
    models: more analyses of the same rows; a linear one is of the same total.
    scored_at_point: after a census that found few people of some level among the held-out rows: nothing is summed of
        them but a score. It is in no file.
    labels: name, label and unit of columns and target, which tables and figures have in place of names. They are not in
        the digest: no sum depends on them, and a word may be corrected after everybody has approved.
    noise: what hides single rows; None is none. With noise nothing else may be summed over rows: no moments, no score,
        no standard errors.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 4)
    >>> study.design(np.array([[61], [55]])).tolist(), study.statistics
    ([[6], [0]], ('census', 'cells', 'gram', 'score'))
    """

    name: str
    columns: tuple[Column, ...]
    target: Target
    max_rows: int
    max_rows_per_device: int
    least_participants: int
    purpose: str = ""
    edition: int = 1
    id: str | None = None
    formula: str = ""
    constant_by: str = ""
    complete_cases: bool = False
    site_effects: bool = False
    colluders: int = 1
    holders: int | None = None
    row_blocks: int = 1
    number_bits: int | None = None
    spare_replies: int = 0
    roster: str = ""
    server_key: str = ""
    smallest_cell: int = 5
    least_rows: int | None = None
    points: int | None = None
    features: str = "linear"
    n_features: int = 500
    gamma: float | None = None
    seed: int = 0
    components: int | None = None
    encoder: str | None = None
    encoder_bound: float | None = None
    embedded_by: str = ""
    solver: str = "block-krylov"
    epochs: int = 50
    regularisation: float | str = 1e-4
    held_out: float = 0.2
    inference: bool = False
    most_clipped: float = 0.0
    models: tuple[StudyModel, ...] = ()
    noise: Budget | None = None
    scored_at_point: bool = False
    feature_keys: tuple[tuple[str, bool | int | float | str], ...] = ()
    labels: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        self._check_columns()
        self._check_numbers()
        self._check_features()
        self._check_models()
        if self.noise is not None:
            self._check_noise(self.noise)
        elif "gram" in self.statistics:
            self._check_room()

    def _check_columns(self) -> None:
        names = self.table_columns.names
        for one in self.columns:
            _ = one.units  # a number without a range or a step has none
        if self.target.name in names:
            raise InvalidInput(f"the target must not be a column too, got {self.target.name!r}")
        if self.id is not None and self.id in (*names, self.target.name):
            raise InvalidInput(f"id must be a column that the study does not use, got {self.id!r}")
        for name, most in _MOST_TEXT.items():
            if len(getattr(self, name)) > most:
                raise InvalidInput(f"{name} must have at most {most} characters, got {len(getattr(self, name))}")
        checked_name(self.name, "name of the study")
        if not self.design_names:
            raise InvalidInput("columns must have at least one that is in_model, got none")
        self._check_derived()
        self.target.labels()
        _ = self.target_units

    def _check_derived(self) -> None:
        """A derived column must not clip: a range that does would pick out rows."""
        ends = {one.name: one.range for one in self.columns if not isinstance(one, DerivedColumn)}
        for one in self.columns:
            if isinstance(one, DerivedColumn):
                low, high = one.reach(ends)
                room = one.grid.step / 2
                if not one.grid.range[0] <= low + room or not high - room <= one.grid.range[1]:
                    raise InvalidInput(
                        f"range of column {one.name!r} must hold what its factors give, [{low:g}, {high:g}],"
                        f" got {list(one.grid.range)}"
                    )

    def _check_numbers(self) -> None:
        if self.least_participants < max(3, self.colluders + 2):
            raise InvalidInput(
                "least_participants must be at least 3 and colluders + 2, or a device learns another's sums from the"
                f" total, got {self.least_participants}"
            )
        least = {"colluders": 0, "holders": self.colluders + 1, "least_rows": self.least_alike, "seed": 0}
        least |= {"row_blocks": 1, "spare_replies": 0}
        if self.number_bits not in (None, 32, 48, 64):
            raise InvalidInput(f"number_bits must be 32, 48 or 64, got {self.number_bits!r}")
        ones = ("n_features", "epochs", "max_rows", "max_rows_per_device", "edition", "smallest_cell", "points")
        for name, lowest in {**dict.fromkeys(ones, 1), **least}.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise InvalidInput(f"{name} must be at least {lowest}, got {value}")
            if value is not None and value > _MOST:
                raise InvalidInput(f"{name} must be at most 2**53, got {value:.3e}")
        if (most := max(self.n_features, len(self.columns))) > _MOST_FEATURES:
            raise InvalidInput(f"n_features and columns must be at most {_MOST_FEATURES}, got {most}")
        if self.max_rows_per_device > self.max_rows:
            raise InvalidInput(
                f"max_rows_per_device must be at most max_rows ({self.max_rows}), got {self.max_rows_per_device}"
            )
        weight = self.regularisation
        if weight != GCV and (isinstance(weight, str) or not 0 <= weight < np.inf):
            raise InvalidInput(f"regularisation must be {GCV!r} or a number of at least 0, got {weight!r}")
        if self.regularisation == GCV and (self.features != "linear" or self.noise is not None):
            raise InvalidInput(f"regularisation must be a number but for linear features without noise, got {GCV!r}")
        for name, high in (("held_out", 0.9), ("most_clipped", 1)):
            if not 0 <= getattr(self, name) <= high:
                raise InvalidInput(f"{name} must be between 0 and {high:g}, got {getattr(self, name)}")
        for name in ("roster", "server_key", "embedded_by"):
            value = getattr(self, name)
            if value and (len(value) != 64 or set(value) - set("0123456789abcdef")):
                raise InvalidInput(f"{name} must be 64 hexadecimal digits, got {value[:80]!r}")

    def _check_features(self) -> None:
        if self.features != NO_FEATURES and self.features not in FEATURE_MAPS:
            raise InvalidInput(f"features must be {' or '.join((*FEATURE_MAPS, NO_FEATURES))}, got {self.features!r}")
        required = () if self._map is None else self._map.required
        for name in ("components", "encoder", "encoder_bound"):
            said = getattr(self, name)
            if said is None and name in required:
                raise InvalidInput(f"{name} must be said for {self.features} features, got nothing")
            if said is not None and name not in required:
                raise InvalidInput(f"{name} must be left out with {self.features} features, got {said}")
        if self._map is not None:
            own_keys(self._map.name, self._map.Keys, dict(self.feature_keys))
        _ = self.feature_count
        if self.features == NO_FEATURES and self.held_out:
            raise InvalidInput(f"held_out must be 0 without features: there is nothing to score, got {self.held_out}")
        if self.inference and self.features != "linear":
            raise InvalidInput(f"inference must go with linear features, got {self.features!r}")
        if self.inference and isinstance(self.target, ClassTarget):
            raise InvalidInput("inference must go with a number to predict, got classes: give the target a range")

    def _check_models(self) -> None:
        names = [one.name for one in self.models]
        of_gram = [one.name for one in self.models if one.needs_gram]
        if self.noise is not None or self.features != "linear":
            refused = of_gram if self.noise is None and self.features == NO_FEATURES else names
            if refused:
                raise InvalidInput(f"models must go with linear features without noise, got {refused[0]!r}")
        if len(set(names)) < len(names):
            raise InvalidInput(f"models must have different names, got {max(names, key=names.count)!r} twice")
        if self.site_effects:
            self._check_site_effects()
        of_function = ("linear", "robust", "residuals")
        if getattr(self.target, "function", "") and (
            odd := [one for one in self.models if one.kind not in of_function]
        ):
            raise InvalidInput(
                f"models of {self.target.title} must be {' or '.join(of_function)}, got {odd[0].name!r}: of kind"
                f" {odd[0].kind!r}, which has a function of its own, or none"
            )
        for one in self.models:
            one.check({column.name: column for column in self.columns}, self.target)
        timed = [one for one in self.models if isinstance(one, TimedModel)]
        for one in timed:
            if one.times != timed[0].times:
                raise InvalidInput(
                    f"times of the model {one.name!r} must be those of {timed[0].name!r}, got {list(one.times)!r:.80}:"
                    " curves that differ by one time show single people"
                )

    def _check_site_effects(self) -> None:
        if self.features != "linear" or self.noise is not None or isinstance(self.target, ClassTarget):
            raise InvalidInput("site_effects must go with linear features and a number to predict, without noise")
        if self.held_out:
            raise InvalidInput(
                f"held_out must be 0 with site_effects: rows of an unknown site have no score, got {self.held_out}"
            )
        others = [one.name for one in self.models if one.kind not in (SubModel.kind, TableOne.kind)]
        if others:
            raise InvalidInput(f"models must be linear with site_effects, got {others[0]!r}")

    def _check_noise(self, noise: Budget) -> None:
        by_moments = [one.name for one in self.columns if any(unit.by_moments for unit in one.units)]
        if by_moments:
            raise InvalidInput(
                f"scale of column {by_moments[0]!r} must be range with noise: a mean is a sum over rows, got moments"
            )
        if self.needs_covariance:
            raise InvalidInput(f"features must not be {self.features} with noise: a covariance is a sum over rows")
        if self.held_out:
            raise InvalidInput(f"held_out must be 0 with noise: a score is an exact sum over rows, got {self.held_out}")
        if self.inference:
            raise InvalidInput("inference must be false with noise: standard errors would be those of exact sums")
        if noise.honest > self.least_participants:
            raise InvalidInput(
                f"honest must be at most least_participants ({self.least_participants}), got {noise.honest}"
            )

    def _check_room(self) -> None:
        """Sums of products of integers must fit, with the sums' headroom."""
        from codedfl.exact.scales import HEADROOM

        limits = np.array(self.gram_limits)
        largest = int(limits.max())
        if HEADROOM * self.max_rows * largest**2 > 1 << _MOST_BITS:
            name = (*self.design_names, *[self.target.name] * len(self.target.units))[int(limits.argmax())]
            raise InvalidInput(
                f"steps of column {name!r} must leave room for {self.max_rows} rows, got {2 * largest}: take a coarser"
                " step, a narrower range, or fewer max_rows"
            )

    def __repr__(self) -> str:
        return f"<Study {self.name!r}: {len(self.columns)} columns to {self.target.name!r}, {self.digest().hex()[:16]}>"

    @property
    def time_grid(self) -> tuple[float, ...]:
        """The times of the survival models, which are the same in all of them; empty without such a model."""
        return next((tuple(map(float, one.times)) for one in self.models if isinstance(one, TimedModel)), ())

    # -- identity

    def to_dict(self) -> JsonObject:
        """The whole meaning in plain values."""
        apart = ("columns", "target", "models", "noise", "constant_by", "feature_keys", "scored_at_point", "labels")
        return {
            **{one.name: getattr(self, one.name) for one in fields(self) if one.name not in apart},
            **({"constant_by": self.constant_by} if self.constant_by else {}),
            **({"feature_keys": dict(self.feature_keys)} if self.feature_keys else {}),
            "columns": [one.to_dict() for one in self.columns],
            "target": self.target.to_dict(),
            "models": [one.to_dict() for one in self.models],
            "noise": None if self.noise is None else asdict(self.noise),
        }

    def digest(self) -> bytes:
        """What the parties agree to: two files with the same digest mean the same."""
        return self._digest

    @cached_property
    def _digest(self) -> bytes:  # asked for in every epoch, and a matrix has thousands of columns
        return canonical_digest("codedfl study 4", self.to_dict())

    # -- what leaves a device

    @property
    def statistics(self) -> tuple[str, ...]:
        """The totals that the study takes, in order; a device contributes to no other."""
        if self.noise is not None:
            return ("products",)
        taken = {
            "census": True,
            "cells": True,
            "gram": self.needs_moments or self.needs_covariance,
            "products": self.features not in ("linear", NO_FEATURES),
            "score": self.held_out > 0 and self.features != NO_FEATURES,
        }
        own = (name for name, needed in taken.items() if needed)
        return tuple(dict.fromkeys((*own, *(name for model in self.models for name in self._asked_for(model)))))

    def _asked_for(self, model: StudyModel) -> Iterator[str]:
        return (name for name in model.statistics if self.held_out or name not in model.of_held_out)

    @property
    def most_points(self) -> int:
        """How many arguments of the server's choice a device answers over the life of the study."""
        if self.points is not None:
            return self.points
        return max(1, ("score" in self.statistics) + sum(model.most_points for model in self.models))

    @property
    def at_points(self) -> frozenset[str]:
        """The statistics whose arguments are counted by ``most_points``, all together."""
        return frozenset({"score"}.union(*(set(model.at_points) & {*self._asked_for(model)} for model in self.models)))

    def most_asks(self, statistic: str) -> int:
        """How many different arguments a statistic has that is not asked for at points: one per model that needs it."""
        return max(1, sum(statistic in model.totals for model in self.models))

    @property
    def least_alike(self) -> int:
        """How many rows all devices together must have at least, where the study does not say.

        The exact X'X of as many rows as columns *is* the rows (lattice reduction finds them); columns of the target
        count, since they are in the same total. Counts of a description need no more than a cell.
        """
        if self.features == NO_FEATURES:
            return self.smallest_cell
        return max(self.smallest_cell, 2 * (self.width + len(self.target.units)))

    @property
    def honest(self) -> int:
        """Owners of every pod that are assumed honest: two, or with noise those that add theirs."""
        return 2 if self.noise is None else max(2, self.noise.honest)

    @property
    def least_owners(self) -> int:
        """How many owners, in whole disclosure groups, a sum has at least."""
        return max(self.least_participants, self.colluders + self.honest)

    @property
    def least_pod_rows(self) -> int:
        """Rows that every total over a pod must have."""
        return self.least_alike if self.least_rows is None else self.least_rows

    @property
    def holds_out_gram(self) -> bool:
        """Whether held-out rows have a Gram matrix of their own; classes are scored by counts instead."""
        of_number = self.features == "linear" and isinstance(self.target, NumberTarget)
        return self.held_out > 0 and of_number and not self.scored_at_point

    # -- from a table to whole numbers

    @property
    def only_describes(self) -> bool:
        """Whether there is nothing but Table 1: a missing value is then counted, and nothing is filled."""
        return self.features == NO_FEATURES and all(isinstance(one, TableOne) for one in self.models)

    @property
    def table_columns(self) -> Columns:
        return Columns(self.columns)

    @property
    def needs_census(self) -> bool:
        """Noise hides single rows, a smallest cell of 1 hides nobody: then nothing is counted, and nothing merged."""
        return self.noise is None and self.smallest_cell > 1

    @property
    def task(self) -> str:
        return "classification" if isinstance(self.target, ClassTarget) else "regression"

    @property
    def design_names(self) -> tuple[str, ...]:
        """Names of the design columns without the constant: numbers, marks of missing values, levels but the first."""
        return self.table_columns.design_names

    @property
    def width(self) -> int:
        """How many design columns there are."""
        return len(self.design_names)

    @cached_property
    def units(self) -> Units:
        """What the integers of the design columns stand for."""
        return Units.of(*self.columns)

    @cached_property
    def target_units(self) -> Units:
        """Likewise of the target: one column, or one for each class."""
        return Units.of(self.target)

    @property
    def gram_scales(self) -> Integers:
        """Of each design and target column: the parts of a step in which the Gram matrix counts it, 1 unless demeaned.

        A device's mean is a fraction. A value less that mean is rounded to 2^-12 of a step, or less finely in a
        column of very many steps, so that its integers fit.
        """
        limits = np.concatenate([self.units.limit, self.target_units.limit])
        if not self.site_effects:
            return np.ones_like(limits)
        return 2 ** np.clip(np.floor(np.log2(_MOST_DEMEANED / (2 * limits))), 0, _FINEST).astype(np.int64)

    @property
    def gram_limits(self) -> list[int]:
        """The largest integer in size of each column of the Gram matrix beside the constant."""
        limits = np.concatenate([self.units.limit, self.target_units.limit])
        return [int(one) for one in (2 * limits * self.gram_scales if self.site_effects else limits)]

    def codes(self, table: RawTable) -> tuple[Integers, Integers]:
        """n x n_columns whole numbers of a table, and how many values of each column were clipped.

        A table that cannot be used is refused with the first reason.
        """
        self.check_embedded(table)
        codes = np.empty((len(table), len(self.columns)), dtype=np.int64)
        clipped = np.zeros(len(self.columns), dtype=np.int64)
        seen: dict[str, Rows] = {}
        for place, one in enumerate(self.columns):
            values = one.product(seen) if isinstance(one, DerivedColumn) else table.column(one.name)
            codes[:, place], report = one.codes(values, table.name)
            objection = report.objection(table.name)
            if objection is not None:
                raise InvalidInput(objection)
            clipped[place] = 0 if isinstance(one, DerivedColumn) else report.n_clipped
            if one.name in self.inputs:
                seen[one.name] = one.values(codes[:, place])
        return codes, clipped

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Names of the columns that derived ones are made of."""
        return frozenset(factor.column for one in self.columns for factor in factors_of(one))

    def check_embedded(self, table: RawTable) -> None:
        """Raises unless the table was made by the encoder that the study names, if it names one."""
        if self.embedded_by and table.encoder != self.embedded_by:
            raise InvalidInput(
                f"{table.name} must be embeddings by the encoder {self.embedded_by}, got"
                f" {table.encoder or 'a table of none'}: make it by codedfl site encode"
            )

    def count_objection(self, table: RawTable) -> str:
        """Why a table has too few or too many rows for the study; "" if it has not."""
        if 1 <= len(table) <= self.max_rows_per_device:
            return ""
        helps = ": a site without rows can take part as a helper (codedfl roster new --helper NAME)"
        return (
            f"{table.name} must have between 1 and {self.max_rows_per_device} rows, got {len(table)}"
            f"{helps if not len(table) else ''}"
        )

    def complete(self, table: RawTable) -> RawTable:
        """The rows that the study takes of a table: all, or those without missing values where it takes complete cases.

        A column that says what a missing value becomes leaves none out.
        """
        if not self.complete_cases:
            return table
        gap = gaps(without_codes(table.column(self.target.name, "the target"), self.target.missing_codes))
        for one in self.columns:
            if one.missing is None and not isinstance(one, DerivedColumn):
                gap = gap | gaps(without_codes(table.column(one.name), one.missing_codes))
        return table.rows(~gap)

    def only(self, names: Collection[str]) -> Study:
        """The study with these columns in its model; what derived ones are made of stays beside it."""
        kept = [one for one in self.columns if one.name in names]
        inputs = {factor.column for one in kept for factor in factors_of(one)}
        beside = [one.beside() for one in self.columns if one.name in inputs - set(names)]
        return replace(self, columns=(*beside, *kept), models=())

    def design(self, codes: Integers) -> Integers:
        """n x width integers, of which totals are made. Missing values take the code of ``missing``."""
        return np.hstack([one.design(codes[:, place]) for place, one in enumerate(self.columns)])

    def matrix(self, codes: Integers) -> Floats:
        """Real values of the design columns, for random features and predictions."""
        values: Floats = self.units.zero + self.units.step * self.design(codes)
        return values

    # -- the recipe

    @property
    def needs_moments(self) -> bool:
        """Linear features are centred by the server, so that the constant need not be shrunk.

        Random features are made on the device, by the public ranges: a mean that a server announces could be a lie.
        With noise nothing is centred: the means would be exact.
        """
        return self.noise is None and self.features == "linear"

    @property
    def needs_covariance(self) -> bool:
        """Whether the covariance of the columns is summed before features can be made."""
        return self._map is not None and self._map.needs_covariance

    def recipe(self, principal: Principal | None = None) -> Recipe:
        """How rows become X and Y, by the public ranges alone.

        principal: components of the scaled columns over all devices, if the study needs their covariance.
        """
        from codedfl.data.recipe import Recipe

        if self.needs_covariance and principal is None:
            raise InvalidInput("principal must be given for this study, got None")
        preprocessing = self.preprocessing()
        features = choose_features(self.features, preprocessing, self._choice(principal))
        return Recipe(preprocessing, features, self.target.labels(), self.table_columns)

    @property
    def takes_whole_rows(self) -> bool:
        """Whether the features are made of all columns at once, none of which can be left out: pictures, encoders."""
        return self._map is not None and self._map.whole_rows

    @property
    def feature_count(self) -> int:
        """d in the paper: how many features a row becomes."""
        return 0 if self._map is None else self._map.choose(self._any_ranges, self._choice()).n_features

    def load_features(self) -> None:
        """Raises where the features need what this machine does not have: an encoder's file, or a package."""
        if self._map is not None:
            self._map.choose(self._any_ranges, self._choice()).load()

    @property
    def _map(self) -> type[FeatureMap] | None:
        return None if self.features == NO_FEATURES else FEATURE_MAPS[self.features]

    @property
    def _any_ranges(self) -> Preprocessing:
        """The number of features depends on that of the columns, and not on their ranges."""
        return Preprocessing.from_range(0.0, 1.0, self.width)

    def _choice(self, principal: Principal | None = None) -> FeatureChoice:
        return FeatureChoice(
            n_features=self.n_features,
            gamma=self.gamma,
            seed=self.seed,
            components=self.components,
            principal=principal,
            encoder=self.encoder,
            encoder_bound=self.encoder_bound,
            keys=dict(self.feature_keys),
        )

    def model(self, recipe: Recipe, theta: Floats, **provenance: Any) -> TrainedModel:
        """The model of a Theta that a solver found; the intercept of linear features is not penalised."""
        from codedfl.data.model import TrainedModel  # which a device never makes

        about = {"study": self.name, "digest": self.digest().hex(), "label": self.target.name, **provenance}
        if self.noise is None:
            theta = recipe.unshrunk(theta, float(self.regularisation))
        return TrainedModel(theta, recipe, about)

    def bounds(self, recipe: Recipe) -> Bounds:
        return recipe.bounds(self.max_rows, self.max_rows_per_device)

    def scales(self, recipe: Recipe, n_owners: int) -> Scales:
        """The grids on which products are summed, with what noise there is: every party derives the same.

        A column whose range is many times its deviation takes 64 bits, or updates would be rounded away; one whose
        range is thousands of times that is refused. ``number_bits`` is the author's own choice.
        """
        from codedfl.exact.scales import Scales

        bounds, refusal = self.bounds(recipe), None
        for bits in (self.number_bits,) if self.number_bits else (48, 64):
            plain = Scales.on(1 << bits, bounds, recipe.n_features, n_owners)
            if self.noise is None:
                if plain.update_bits >= _LEAST_BITS and plain.feature_bits >= _LEAST_BITS:
                    return plain
                continue
            try:
                return plain.with_noise(self.noise.noise(recipe.n_features, recipe.feature_map.bound), recipe.n_outputs)
            except InvalidInput as error:
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        reach = np.maximum(np.abs(recipe.preprocessing.low), np.abs(recipe.preprocessing.high))
        widest = int(np.argmax(np.broadcast_to(reach, recipe.n_columns)))
        raise InvalidInput(
            f"ranges must leave digits for the training in {bits} bits, got one of column {self.design_names[widest]!r}"
            f" that reaches {np.max(reach):.2g} times its unit: narrow it, give fewer max_rows, or more number_bits"
        )

    def preprocessing(self) -> Preprocessing:
        """The scaling of the columns of X: their public ranges become [0, 1]."""
        return Preprocessing.from_range(self.units.low, self.units.high, len(self.units.low))


def factors_of(one: Column) -> tuple[Factor, ...]:
    """What a derived column is the product of; of any other column nothing."""
    return one.factors if isinstance(one, DerivedColumn) else ()
