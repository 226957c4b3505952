"""Plan files: written by ``codedfl plan``, read by ``codedfl train --plan`` and by federations."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from codedfl.errors import InvalidInput
from codedfl.files import write_text
from codedfl.schemes import (
    CodedScheme,
    coded_scheme,
)
from codedfl.study.planner import (
    Plan,
)

# -- plan files: what ``train`` and the Flower app accept


def save_plan(made: Plan, path: Path, **context: Any) -> None:
    """Write a plan as TOML; ``context`` (data set, target, fleet) goes above it."""
    lines = [
        "# Written by `codedfl plan`; read by `codedfl train --plan` and the Flower app.",
        'format = "codedfl-plan-1"',
    ]
    lines += [f"{key} = {_toml(value)}" for key, value in context.items()]
    lines += ["", "[plan]"] + [f"{key} = {_toml(value)}" for key, value in asdict(made).items() if key != "parameters"]
    write_text(path, "\n".join(lines) + "\n")


def load_plan(path: Path) -> tuple[CodedScheme, str, int]:
    """(scheme, solver, epochs) of a plan file; refuses plans that no coded scheme runs."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput(f"the plan file must exist, got {str(path)!r}") from None
    except (OSError, ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"the plan file must be TOML, got {str(path)!r} ({error})") from None
    made = content.get("plan")
    if content.get("format") != "codedfl-plan-1" or not isinstance(made, dict):
        raise InvalidInput(f"the plan file must have format codedfl-plan-1, got {content.get('format')!r}")
    values = []
    for key, kind in (("scheme", str), ("alpha", int), ("groups", int), ("solver", str), ("epochs", int)):
        if type(made.get(key)) is not kind:  # bool is an int to isinstance
            raise InvalidInput(f"{key} in the plan file must be of type {kind.__name__}, got {made.get(key)!r}")
        values.append(made[key])
    name, alpha, groups, solver, epochs = values
    return coded_scheme(name, alpha, groups), solver, epochs


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return repr(value)
