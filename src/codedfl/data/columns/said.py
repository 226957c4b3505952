"""A column as files say it: the study file, and the model file, whose recipe has columns too."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from codedfl.data.columns.category import CategoryColumn
from codedfl.data.columns.number import DerivedColumn, NumberColumn
from codedfl.data.columns.values import as_text
from codedfl.errors import InvalidInput
from codedfl.typed import only, record, typed
from codedfl.typing import Unchecked

Column = NumberColumn | CategoryColumn
COLUMN_KEYS = {
    "number": ("name", "kind", "range", "step", "scale", "missing", "indicator", "missing_codes", "in_model"),
    "category": ("name", "kind", "levels", "missing", "other", "missing_codes", "in_model"),
    "derived": ("name", "kind", "factors", "range", "step", "scale", "in_model"),
}
_MOST_FACTORS = 6
_CODES = tuple[float | str, ...]


def column_of(said: Unchecked, usual_scale: str = "moments", more: Collection[str] = ()) -> Column:
    """The column that a section describes; a key that its kind does not have, nor ``more``, is refused.

    >>> column_of({"name": "ward", "kind": "category", "levels": ["ear", "eye"]}).design_names
    ('ward = eye',)
    """
    name = typed("name of a column", said.get("name"), str)
    kind = said.get("kind")
    if not isinstance(kind, str) or kind not in COLUMN_KEYS:
        raise InvalidInput(f"kind of column {name!r} must be {' or '.join(COLUMN_KEYS)}, got {kind!r}")
    only(f"column {name!r}", said, (*COLUMN_KEYS[kind], *more))
    called = f"{{}} of column {name!r}".format
    if "missing_codes" in said:
        said = {**said, "missing_codes": gap_codes(called("missing_codes"), said["missing_codes"])}
    if kind == "category":  # a level is written as a text
        said = {**said, "missing_codes": [as_text(one) for one in said.get("missing_codes", ())]}
        return CategoryColumn(**record(CategoryColumn, said, called))
    if kind == "number":
        return NumberColumn(**record(NumberColumn, {"scale": usual_scale, **said}, called))
    factors = said.get("factors")
    if not isinstance(factors, list) or not 1 <= len(factors) <= _MOST_FACTORS:
        raise InvalidInput(
            f"{called('factors')} must be a list of 1 to {_MOST_FACTORS}, got"
            f" {'nothing' if factors is None else f'{factors!r:.80}'}"
        )
    from codedfl.data.derived import Factor  # most studies derive no column

    made = tuple(Factor.from_dict(one) for one in factors)
    plain = {"scale": usual_scale, **{key: value for key, value in said.items() if key != "factors"}}
    return DerivedColumn(**record(NumberColumn, plain, called), factors=made)


def gap_codes(what: str, said: Any) -> tuple[float | str, ...]:
    """What stands for a missing value; a number that is none would equal nothing."""
    codes: tuple[float | str, ...] = typed(what, said, _CODES)
    if any(one != one for one in codes):
        raise InvalidInput(f"{what} must be a list of numbers or texts, got {said!r:.80}")
    return codes
