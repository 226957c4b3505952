"""What page, tables, figures and text of a result have in common: its models, and names of their files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from codedfl.typing import Unchecked


class NamedPart(Protocol):
    """A table or a figure."""

    @property
    def name(self) -> str:
        """Of its files."""


def models_of(result: Unchecked) -> list[Unchecked]:
    """The study's own model, and then those that the study names, without those whose estimates stand beside others."""
    beside = {name for names in (result.get("crude") or {}).values() for name in names}
    return [{**result, "name": ""}, *(one for one in result["models"] if one["name"] not in beside)]


def named(model: str, what: str) -> str:
    """For titles.

    >>> named("odds", "effects"), named("", "effects")
    ('odds, effects', 'Effects')
    """
    return f"{model}, {what}" if model else what.capitalize()


def slugs(found: Iterable[NamedPart]) -> list[str]:
    """Names of files, no two alike.

    >>> from codedfl.report.tables import Table
    >>> slugs([Table(one, "", (), ()) for one in ("forest odds/1", "forest odds 1", "forest ")])
    ['forest-odds-1', 'forest-odds-1-2', 'forest']
    """
    taken = list[str]()
    for one in found:
        plain = name = re.sub(r"[^a-z0-9]+", "-", one.name.lower()).strip("-")
        number = 1
        while name in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.append(name)
    return taken
