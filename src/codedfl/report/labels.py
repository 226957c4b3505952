"""Labels and units in place of the names of columns, wherever a table, a figure or a sentence of a result has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from codedfl.typing import Unchecked

_NAMED = frozenset({"name", "column", "target", "group_by"})  # keys whose text is a column or a coefficient
_BY_NAME = frozenset({"references", "differences", "tests", "steps", "filled", "values"})  # objects by column


def labelled(result: Unchecked) -> Unchecked:
    """A result with "Age, years" in place of "age"; what programs read, as coefficients.csv, keeps the names.

    Examples
    --------
    >>> from codedfl.report.labels import labelled
    >>> said = {"labels": {"age": {"label": "Age", "unit": "years"}, "arm": {"label": "Arm", "unit": ""}}}
    >>> found = labelled({**said, "coefficients": [{"name": "age:arm = high"}], "steps": {"age": 1.0}})
    >>> found["coefficients"][0]["name"], found["steps"]
    ('Age, years:Arm = high', {'Age, years': 1.0})
    """
    texts = {
        name: ", ".join(filter(None, (said["label"] or name, said["unit"])))
        for name, said in (result.get("labels") or {}).items()
    }
    if not texts:
        return result
    models = [_renamed(one, texts, top=True) for one in result.get("models", ())]
    rest = {key: one for key, one in result.items() if key not in ("models", "name", "labels", "owners", "nested")}
    kept = {key: result[key] for key in ("name", "labels", "owners", "nested") if key in result}
    axis = {"target_label": texts[result["target"]]} if result.get("target") in texts else {}
    return {**kept, **axis, **_renamed(rest, texts), **({"models": models} if "models" in result else {})}


def _renamed(value: Unchecked, texts: Mapping[str, str], *, top: bool = False) -> Unchecked:
    """top: of a model, whose name is its own, and no column's."""
    if isinstance(value, list):
        return [_renamed(one, texts) for one in value]
    if not isinstance(value, dict):
        return value
    found = dict[str, Any]()
    for key, one in value.items():
        if key in _NAMED and isinstance(one, str) and not (top and key == "name"):
            found[key] = label_of(one, texts)
        elif key in _BY_NAME and isinstance(one, dict):
            found[key] = {label_of(name, texts): inside for name, inside in one.items()}
        elif key == "method" and isinstance(one, str):
            found[key] = _sentence(one, texts)
        else:
            found[key] = _renamed(one, texts)
    return found


def label_of(name: str, texts: Mapping[str, str]) -> str:
    """Of a coefficient, which may be a level, a mark of missing values or a product of columns.

    Examples
    --------
    >>> from codedfl.report.labels import label_of
    >>> label_of("ward = eye", {"ward": "Ward"}), label_of("crp missing", {"crp": "CRP, mg/l"}), label_of("f(x)", {})
    ('Ward = eye', 'CRP, mg/l missing', 'f(x)')
    """
    if name in texts:
        return texts[name]
    parts = []
    for part in name.split(":"):
        column, sign, level = part.partition(" = ")
        bare = column.removesuffix(" missing")
        parts.append(f"{texts.get(bare, bare)}{column[len(bare) :]}{sign}{level}")
    return ":".join(parts)


def _sentence(text: str, texts: Mapping[str, str]) -> str:
    """A sentence begins with what is modelled."""
    found = re.match(r"The (?:odds of|outcome|count|hazard over) (.+?)(?= (?:=|was|were) )", text)
    if found is None or found[1] not in texts:
        return text
    return f"{text[: found.start(1)]}{texts[found[1]]}{text[found.end(1) :]}"
