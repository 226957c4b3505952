"""Records as plain values for JSON, and back with every field checked: one rule for all dataclasses of the results.

A record's ``parameters`` stand beside its other fields, as they did in 0.1. Nothing here knows what a record means.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from codedfl.errors import InvalidInput

T = TypeVar("T")


def to_plain(value: Any, leave_out: Sequence[str] = ()) -> Any:
    """Dataclasses as objects, tuples as lists; fields named in ``leave_out`` are those of the outermost record."""
    if is_dataclass(value):
        made = {one.name: to_plain(getattr(value, one.name)) for one in fields(value) if one.name not in leave_out}
        parameters = made.pop("parameters", None)
        return made if parameters is None else {**made, "z": parameters.get("z"), **parameters}
    if isinstance(value, Mapping):
        return {key: to_plain(one) for key, one in value.items()}
    return [to_plain(one) for one in value] if isinstance(value, tuple) else value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def from_plain(kind: type[T], value: Any, where: str) -> T:
    """``value`` as a ``kind`` (a dataclass), or an error that says where it is wrong."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be an object, got {value!r:.60}")
    hints = _hints(cast(Any, kind))
    known = {one.name: one for one in fields(cast(Any, kind))}
    given = {key: one for key, one in value.items() if key in known and key != "parameters"}
    unknown = {key: one for key, one in value.items() if key not in given}
    if "parameters" in known:
        # Beside the fields; z is written for every row and is no parameter where it is null.
        given["parameters"] = {key: one for key, one in unknown.items() if (key, one) != ("z", None)}
    elif unknown:
        raise InvalidInput(f"{where} must hold {', '.join(known)} only, got {next(iter(unknown))!r}")
    # Parameters have no name of their own in the file.
    made = {
        key: _value(hints[key], one, where if key == "parameters" else f"{where}.{key}") for key, one in given.items()
    }
    missing = [name for name in known if name not in made and _required(known[name])]
    if missing:
        raise InvalidInput(f"{where}.{missing[0]} must be given, got nothing")
    return kind(**made)


def _required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (types.UnionType, Union):
        if value is None and type(None) in arguments:
            return None
        choices = [one for one in arguments if one is not type(None)]
        # A goal is a claim with more fields.
        return _value(choices[-1] if isinstance(value, dict) and "goal" in value else choices[0], value, where)
    if is_dataclass(hint):
        return from_plain(cast(type, hint), value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise InvalidInput(f"{where} must be a list, got {value!r:.60}")
        return tuple(_value(arguments[0], one, f"{where}[{index}]") for index, one in enumerate(value))
    if origin is not None:  # Mapping[str, ...]
        if not isinstance(value, dict):
            raise InvalidInput(f"{where} must be an object, got {value!r:.60}")
        return {key: _value(arguments[1], one, f"{where}.{key}") for key, one in value.items()}
    # Truth values are numbers to Python, and whole numbers may stand for real ones.
    if hint is float and type(value) is int:
        return value
    if type(value) is not hint or (hint is float and not math.isfinite(value)):
        raise InvalidInput(f"{where} must be {_KINDS[hint]}, got {value!r:.60}")
    return value


_KINDS = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false"}
