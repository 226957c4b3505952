"""The stages of a study on real machines: moments, training, inference and score, each a run of the same protocol.

A stage is a run over another problem: sums of columns, then of squares about the mean; the rows themselves; the rows
with the target as a column; counts on held-out rows. What earlier stages found is public, travels with the first call
of the run, and is bound by a digest in the run's parameters, together with the study's. All stages of one run of a
study share a ``series`` and the first stage's list of owners: totals over one list and others over another would show
who is in one of them only. The score alone may be over fewer: it is of held-out rows, which are in no other total.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from codedfl.data.features import Principal
from codedfl.data.preprocessing import Moments
from codedfl.data.recipe import Recipe
from codedfl.data.studies.study import Study
from codedfl.data.studies.sums import SCORE, SQUARES, SUMS
from codedfl.errors import MessageRefused
from codedfl.protocol.messages import check_types, pack_list, unpack_list
from codedfl.typing import Floats

COVARIANCE, TRAINING, INFERENCE = "covariance", "training", "inference"
SERIES_BYTES = 16
_FORMAT = "codedfl stage v1"


def stage_kinds(study: Study) -> tuple[str, ...]:
    """The stages of a study, in their order."""
    moments = (SUMS, SQUARES) if study.needs_moments else ()
    covariance = (COVARIANCE,) if study.needs_covariance else ()
    inference = (INFERENCE,) if study.inference else ()
    score = (SCORE,) if study.held_out > 0 else ()
    return (*moments, *covariance, TRAINING, *inference, *score)


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage, with what the stages before it found.

    series: the same for all stages of one run of a study.
    mean, variance: of each column of X over all rows; empty before they are known, or where nobody needs them.
    principal: centre and components of the scaled columns, flat; empty before they are known, or not needed.
    theta: of the trained model, flat; empty before it is known.
    """

    kind: str
    series: bytes
    mean: Floats
    variance: Floats
    principal: Floats
    theta: Floats

    @property
    def _values(self) -> tuple[Floats, ...]:
        return self.mean, self.variance, self.principal, self.theta

    def encode(self) -> bytes:
        """As it travels."""
        values = (np.ascontiguousarray(one, dtype="<f8").tobytes() for one in self._values)
        return pack_list([_FORMAT, self.kind, self.series, *values])

    @classmethod
    def decode(cls, data: bytes, study: Study) -> Stage:
        """Refuses what is no stage of this study."""
        if not data:
            raise MessageRefused("a run must be a stage of the study on this node, got a training by itself")
        types = (str, str, bytes, bytes, bytes, bytes, bytes)
        format_, kind, series, *values = check_types(unpack_list(data, "a stage"), types, "a stage")
        if format_ != _FORMAT or kind not in stage_kinds(study) or len(series) != SERIES_BYTES:
            raise MessageRefused(f"a stage must be one of {', '.join(stage_kinds(study))}, got {str(kind)[:40]!r}")
        if any(len(one) % 8 for one in values):
            raise MessageRefused("a stage must hold whole numbers of floats: it does not")
        stage = cls(kind, series, *(np.frombuffer(one, dtype="<f8") for one in values))
        stage._check(study)
        return stage

    def _check(self, study: Study) -> None:
        width, after = study.table_columns.width, stage_kinds(study).index(self.kind)
        known = study.needs_moments * after
        expected = (width * (known > 0), width * (known > 1))
        if (len(self.mean), len(self.variance)) != expected:
            raise MessageRefused(
                f"a stage {self.kind} must come with {expected[0]} means and {expected[1]} variances, got"
                f" {len(self.mean)} and {len(self.variance)}"
            )
        known = COVARIANCE in stage_kinds(study)[:after]
        wanted = width * (1 + (study.components or 0)) if known else 0
        if self.principal.size != wanted:
            raise MessageRefused(
                f"a stage {self.kind} must come with {wanted} numbers of components, got {self.principal.size}"
            )
        finite = all(np.isfinite(one).all() for one in self._values)
        if not finite or (self.variance < 0).any():
            raise MessageRefused("what a stage comes with must be finite, and variances not negative: it is not")

    def digest(self, study: Study) -> bytes:
        """What the parameters of the stage's run carry: the study, and everything that was found before."""
        return hashlib.sha256(pack_list([_FORMAT, study.digest(), self.encode()])).digest()

    def recipe(self, study: Study) -> Recipe:
        """From the moments on: how rows become X and Y."""
        principal = None
        if study.needs_covariance:
            centre, components = np.split(self.principal, [study.table_columns.width])
            principal = Principal(centre, components.reshape(len(centre), -1))
        return study.recipe(self.moments(study), principal)

    def moments(self, study: Study) -> Moments | None:
        """Of the columns, if the study needs them; nobody needs the count."""
        return Moments(0, self.mean, self.variance) if study.needs_moments else None

    def model(self, recipe: Recipe) -> Floats:
        """Theta as a matrix."""
        if self.theta.size != recipe.n_features * recipe.n_outputs:
            raise MessageRefused(
                f"a model must have {recipe.n_features} x {recipe.n_outputs} numbers, got {self.theta.size}"
            )
        return self.theta.reshape(recipe.n_features, recipe.n_outputs)
