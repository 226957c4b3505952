"""Groups of options as dataclasses: a command names the groups it takes, and gets one object of each.

Typer reads options off a function's parameters and knows no groups. ``command`` gives it a function whose parameters
are the fields of the groups, in their order; and ``--set`` where some are settings.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

from codedfl.cli.panels import PANEL, SET


def command(function: Callable[..., None]) -> Callable[..., None]:
    """What typer takes for ``function``, whose dataclass parameters are groups; the others are options themselves."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    flat: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            flat += _options(groups[parameter.name])
        else:
            flat.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))

    if any(_declares_setting(parameter.annotation) for parameter in flat):
        from codedfl.cli.settings import SetOption

        flat.append(inspect.Parameter(SET, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=SetOption))

    @functools.wraps(function)
    def flattened(**given: Any) -> None:
        given.pop(SET, None)  # by now it is in what nobody typed
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in fields(group)})
        function(**given)

    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    flattened.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return flattened


def _declares_setting(annotation: Any) -> bool:
    """Whether a parameter's annotation is one of ``settings.in_settings``."""
    return any(getattr(one, "rich_help_panel", None) == PANEL for one in getattr(annotation, "__metadata__", ()))


def _options(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is MISSING else one.default,
            annotation=hints[one.name],
        )
        for one in fields(group)
    ]
