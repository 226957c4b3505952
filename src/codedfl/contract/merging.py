"""What a census merges and leaves out for all sums alike: the study that is left, and its rows.

It only makes columns coarser. Every device computes it from the census by itself (``contract.census``).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from codedfl.contract.models import TimedModel
from codedfl.contract.study import Study, factors_of
from codedfl.data.columns import Column
from codedfl.errors import InvalidInput
from codedfl.typing import Integers

Merged = tuple[tuple[int, ...], ...]
"""For each column the places of the levels that become "other" (a category), or (0,) to drop the mark of missing values
and (1,) to drop the column (a number), or () to leave it; then the places of the times that end no interval; then (1,)
where held-out rows have a score and no products, and (2,) where they are in no sum. The empty tuple leaves all."""


def times_place(study: Study) -> int:
    """Where the times stand in ``Merged``."""
    return len(study.columns)


def held_out_place(study: Study) -> int:
    """Where it stands whether rows are held out."""
    return len(study.columns) + 1


def merged_study(study: Study, merged: Merged) -> Study:
    """The study with rare levels counted as "other" and rare marks of missing values dropped.

    A column of which fewer than two levels are left goes, also from the models; a model goes that has none left, or of
    which another column that it uses is gone, or was merged where that may not be.
    """
    if not merged:
        return study
    columns = tuple(one for one, _ in _merges(study, merged) if one is not None)
    names = {one.name for one in columns}
    models = tuple(replace(one, columns=tuple(name for name in one.columns if name in names)) for one in study.models)
    gone = set(merged[times_place(study)])
    times = tuple(time for place, time in enumerate(study.time_grid) if place not in gone)
    models = tuple(
        replace(one, times=times) if gone and isinstance(one, TimedModel) else one
        for one in models
        if times or not isinstance(one, TimedModel)
    )
    kept = merged[held_out_place(study)]
    held_out, at_point = 0.0 if kept == (2,) else study.held_out, study.scored_at_point or kept == (1,)
    width = sum(one.width for one in columns)
    components = None if study.components is None else min(study.components, width)
    same = {one.name for one in columns if one in study.columns}
    models = tuple(
        one for one in models if one.columns and same.issuperset(one.unmerged) and names.issuperset(one.uses)
    )
    return replace(
        study, columns=columns, models=models, components=components, held_out=held_out, scored_at_point=at_point
    )


def places_left(study: Study, merged: Merged) -> list[int]:
    """The places of the columns that are left; without any there is no study."""
    if not merged:
        return list(range(len(study.columns)))
    return [place for place, (one, _) in enumerate(_merges(study, merged)) if one is not None]


def recoded(study: Study, codes: Integers, merged: Merged) -> Integers:
    """Codes of this study as the merged one has them."""
    if not merged:
        return codes
    kept = [
        codes[:, place] if isinstance(study.columns[place].range, tuple) else new[codes[:, place]]
        for place, (column, new) in enumerate(_merges(study, merged))
        if column is not None
    ]
    return np.stack(kept, axis=1)


def _merges(study: Study, merged: Merged) -> list[tuple[Column | None, Integers]]:
    if len(merged) != held_out_place(study) + 1:
        expected = held_out_place(study) + 1
        raise InvalidInput(f"merged must have one entry per column and two ({expected}), got {len(merged)}")
    found = [one.coarser(gone) for one, gone in zip(study.columns, merged, strict=False)]
    # What a derived column is made of stays beside the model, since predictions need it; a level that is gone does not.
    needed = {factor.column for one, _ in found if one is not None for factor in factors_of(one) if not factor.level}
    return [
        (old.beside(), codes) if new is None and old.name in needed else (new, codes)
        for old, (new, codes) in zip(study.columns, found, strict=True)
    ]
