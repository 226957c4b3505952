"""Records of files by the types of dataclasses: msgspec converts each value, and what is wrong is said in one line.

The types are what a class's annotations mean; nobody reads their text. Every key that no field has is refused: in an
agreement a misspelt wish must not pass for a granted one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields
from functools import reduce
from operator import or_
from types import NoneType
from typing import Any, get_args, get_type_hints

import msgspec

from codedfl.errors import InvalidInput
from codedfl.typing import Unchecked

_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple[float, float]: "[low, high]",
    tuple[float, ...]: "a list of numbers",
    tuple[str, ...]: "a list of texts",
    tuple[float | str, ...]: "a list of numbers or texts",
    tuple[int | str, ...]: "a list of texts or of whole numbers",
}


_TYPES: dict[type, dict[str, Any]] = {}


def types_of(kind: Any) -> dict[str, Any]:
    """The type of each field of a dataclass; what may also be None is said in a file, or left out."""
    if kind not in _TYPES:  # kept, since a file may list thousands of columns
        hints = get_type_hints(kind)
        _TYPES[kind] = {one.name: _said(hints[one.name]) for one in fields(kind)}
    return _TYPES[kind]


def _said(kind: Any) -> Any:
    parts = get_args(kind)
    return reduce(or_, (one for one in parts if one is not NoneType)) if NoneType in parts else kind


def typed(what: str, value: Any, kind: Any) -> Any:
    """A value of a file as a type has it: whole numbers serve as numbers, and nothing else as anything else.

    >>> typed("step of column 'age'", 1, float)
    1.0
    >>> typed("step of column 'age'", True, float)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: step of column 'age' must be a number, got True
    """
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, OverflowError):
        rule = _WORDS.get(kind, "a number or text")
        raise InvalidInput(f"{what} must be {rule}, got {'nothing' if value is None else f'{value!r:.80}'}") from None


def record(kind: Any, said: Unchecked, name: Callable[[str], str]) -> dict[str, Any]:
    """What a section says of the fields of a dataclass, each of its type; a field without a default must be said.

    name: how errors call a field.
    """
    types = types_of(kind)
    for one in fields(kind):
        if one.name not in said and one.default is MISSING and one.default_factory is MISSING:
            raise InvalidInput(f"{name(one.name)} must be said, got nothing")
    return {key: typed(name(key), said[key], types[key]) for key in types if key in said}


def only(where: str, said: Unchecked, known: Collection[str]) -> None:
    """Refuse a key that nobody reads.

    >>> only("[noise]", {"epsilom": 1.0}, ["epsilon", "honest"])
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: [noise] must hold only epsilon, honest, got 'epsilom'
    """
    if strange := sorted(set(said) - set(known)):
        raise InvalidInput(f"{where} must hold only {', '.join(sorted(known))}, got {strange[0]!r}")
