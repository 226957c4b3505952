"""Flat configuration as Flower has it: kebab-case keys, one value each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codedfl.errors import InvalidInput

Config = Mapping[str, Any]


def setting(config: Config, key: str, kind: type, default: Any = None) -> Any:
    """One value, checked; without a default it must be there.

    >>> setting({"devices": 3}, "devices", int)
    3
    """
    value = config.get(key, default)
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise InvalidInput(f"{key} must be of type {kind.__name__} in the configuration, got {value!r}")
    return value
