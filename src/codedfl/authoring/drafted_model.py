"""The further model that a draft asks for: the keys that its kind has, of what a formula says beside the columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields

import numpy as np
import tomli_w

from codedfl.contract.models import MODELS, StudyModel, SubModel
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.data.task import Task
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import STATISTICS
from codedfl.typing import Json

LINEAR = SubModel.kind  # the study's own
_FEWER = (5_000, 2_000, 1_000, 500)  # rows of a device
_NARROWER = (8.0, 7.0, 6.0, 5.0)  # bounds of the linear predictor
_OF_CLASSES = ("logistic", "conditional-logit", "proportional-odds")
_OF_NUMBERS = (LINEAR, "cox", "poisson", "quasi-poisson", "negative-binomial", "gamma", "robust")
_TASKS: Mapping[str, Task] = {
    **dict.fromkeys(_OF_CLASSES, "classification"),
    **dict.fromkeys(_OF_NUMBERS, "regression"),
}
POSITIVE = ("gamma",)  # of a target above 0
_WRITTEN = {"event": "Surv(time, event)", "times": "Surv(time, event)"}


def kind_named(name: str) -> type[StudyModel]:
    """The kind of a further model.

    Examples
    --------
    >>> from codedfl.authoring.drafted_model import kind_named
    >>> kind_named("cox").__name__
    'CoxModel'
    """
    if name not in MODELS:
        raise InvalidInput(f"--model must be one of {', '.join(sorted(MODELS))}, got {name[:40]!r}")
    return MODELS[name]


def task_of(name: str) -> Task | None:
    """What a kind predicts; None where it may be classes or numbers.

    Examples
    --------
    >>> from codedfl.authoring.drafted_model import task_of
    >>> task_of("logistic"), task_of("gamma"), task_of("gee")
    ('classification', 'regression', None)
    """
    kind_named(name)
    return _TASKS.get(name)


def drafted_model(kind: str, name: str, columns: Sequence[str], beside: Mapping[str, Json]) -> dict[str, Json]:
    """The keys of a ``[[model]]``.

    beside: what is said of event, times, entry, strata, offset and cluster; "" is nothing.

    Examples
    --------
    >>> from codedfl.authoring.drafted_model import drafted_model
    >>> drafted_model("logistic", "ill", ["age"], {"cluster": "ward"})["errors"]
    'cluster'
    >>> drafted_model("conditional-logit", "ill", ["age"], {})
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: conditional-logit must have its strata, got none: write strata(x) in the formula
    """
    keys = {one.name: one.default for one in fields(kind_named(kind))}
    said: dict[str, Json] = {"name": name, "kind": kind, "columns": list(columns)}
    for key, value in beside.items():
        if value and key not in keys:
            written = _WRITTEN.get(key, f"{key}(x)")
            raise InvalidInput(
                f"{kind} must have no {key}, got {value!r:.60}: leave {written} out, or take another --model"
            )
        said |= {key: value} if value else {}
    if said.get("cluster") and keys.get("errors") == "model":
        said["errors"] = "cluster"
    for key in (one for one, usual in keys.items() if usual is MISSING and one not in said):
        raise InvalidInput(
            f"{kind} must have its {key}, got none: write {_WRITTEN.get(key, f'{key}(x)')} in the formula"
        )
    return said


def model_text(said: Mapping[str, Json]) -> list[str]:
    """The lines of a ``[[model]]``.

    Examples
    --------
    >>> from codedfl.authoring.drafted_model import model_text
    >>> model_text({"name": "odds", "columns": ["age"]})
    ['[[model]]', 'name = "odds"', 'columns = ["age"]']
    """
    return ["[[model]]", *(f"{key} = {toml_value(value)}" for key, value in said.items())]


def toml_value(value: Json) -> str:
    """A value on one line.

    Examples
    --------
    >>> from codedfl.authoring.drafted_model import toml_value
    >>> toml_value(["a", 1.0])
    '["a", 1.0]'
    """
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    return tomli_w.dumps({"x": value}).partition("=")[2].strip()


def with_room(text: str, rows: int) -> str:
    """The text of a study with as many rows and as wide bounds as its models' sums have room for.

    rows: that a device may have at least. A study that has no room even so is left as it is, for its rule to refuse.

    Examples
    --------
    See ``codedfl.authoring.formula.draft_with_formula``, which ends with it.
    """
    study = parse_study(text, "the drafted study")
    for each in (study.max_rows_per_device, *(one for one in _FEWER if one >= rows)):
        for bound in (0.0, *_NARROWER):
            changed = text
            for key, value in (("max_rows_per_device", each), ("max_rows", each * study.least_participants)):
                changed = re.sub(rf"(?m)^{key} = \d+", f"{key} = {min(value, getattr(study, key))}", changed)
            if bound:
                changed = (
                    changed.rstrip("\n") + f"\nbound = {bound:.1f}  # of the linear predictor: sums have no more room\n"
                )
            if not _narrow(parse_study(changed)):
                return changed
    return text


def _narrow(study: Study) -> bool:
    """Whether some model's sums have no room in a total."""
    for model in study.models:
        for name in model.statistics:
            kind = STATISTICS[name]
            try:
                kind(study, np.zeros(kind.point_length(study, model)), model)
            except InvalidInput:
                return True
    return False
