"""A study on tables: the learning problem of its devices, as a rehearsal on one machine has it.

The recipe is made as the devices would make it, moments by secure sums; the rows that each device holds out are
the test set here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from codedfl.data.features import covariance_rows, principal_of
from codedfl.data.held_out import held_out_rows
from codedfl.data.problem import Problem, SecureMoments
from codedfl.data.studies.study import Study
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput
from codedfl.exact.fixed_point import Bounds
from codedfl.typing import Floats, Rows

# Sums X'X over the devices' rows within public bounds.
SecureGram = Callable[[list[Floats], Bounds], Floats]


def study_problem(
    study: Study,
    tables: Mapping[str, RawTable],
    secure_moments: SecureMoments,
    secure_gram: SecureGram | None = None,
) -> Problem:
    """The problem of the devices that hold these tables, by the devices' names.

    Who holds out which rows is decided by a key made of the device's name here: a rehearsal has no device's own key.

    secure_gram: for studies that need a covariance.
    """
    if len(tables) < study.least_participants:
        raise InvalidInput(
            f"the study must have at least {study.least_participants} devices (least_participants), got {len(tables)}"
        )
    names = sorted(tables)
    rows = (device_rows(study, tables[name], rehearsal_key(name)) for name in names)
    matrices, targets, masks = zip(*rows, strict=True)
    moments = None
    if study.needs_moments:
        moments = secure_moments([study.clipped(X[~mask]) for X, mask in zip(matrices, masks, strict=True)])
    principal = None
    if study.needs_covariance:
        if secure_gram is None:
            raise InvalidInput("secure_gram must be given for this study, got None")
        scaling = study.preprocessing(moments)
        scaled = [covariance_rows(scaling.apply(X[~mask])[0]) for X, mask in zip(matrices, masks, strict=True)]
        principal = principal_of(secure_gram(scaled, study.covariance_bounds(moments)), study.components or 0)
    recipe = study.recipe(moments, principal)
    X, y, held = np.concatenate(matrices), np.concatenate(targets), np.concatenate(masks)
    train = recipe.rows(X[~held], y[~held])
    return Problem(
        name=study.name,
        X=train.X,
        Y=train.Y,
        offsets=np.cumsum([0, *(int((~mask).sum()) for mask in masks)]),
        device_names=tuple(names),
        X_test=recipe.features(X[held])[0],
        y_test=y[held],
        recipe=recipe,
        clipped=train.clipped,
        row_limits=(study.max_rows, study.max_rows_per_device),
        provenance={"study": study.name, "digest": study.digest().hex(), "devices": len(names)},
    )


def device_rows(study: Study, table: RawTable, key: bytes) -> tuple[Floats, Rows, NDArray[np.bool_]]:
    """A device's numbers, its targets, and which rows it holds out by its own key; at least one row trains."""
    if not 1 <= len(table) <= study.max_rows_per_device:
        raise InvalidInput(f"{table.name} must have between 1 and {study.max_rows_per_device} rows, got {len(table)}")
    X, y = study.table_columns.matrix(table), study.target_values(table)
    held_out = held_out_rows(X, y, study.held_out, key)
    held_out[0] &= not held_out.all()
    return X, y, held_out


def rehearsal_key(device: str) -> bytes:
    """Stands for the device's own hold-out key, so that a rehearsal holds out the same rows every time."""
    return hashlib.sha256(f"codedfl rehearsal {device}".encode()).digest()
