"""The study as a TOML file: read with one-line errors, and written again without its comments.

Every key that nobody reads is refused: in an agreement a misspelt wish must not pass for a granted one.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from codedfl.data.columns import CategoryColumn, NumberColumn
from codedfl.data.studies.study import ClassTarget, NumberTarget, Study, StudyColumn
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget

FORMAT = "codedfl-study-1"
_LARGEST = 1 << 20

# Section of the file -> key -> field of ``Study``; what is not said takes the field's default.
SECTIONS: dict[str, dict[str, str]] = {
    "": {"name": "name", "purpose": "purpose"},
    "features": {
        "kind": "features",
        "count": "n_features",
        "components": "components",
        "encoder": "encoder",
        "bound": "encoder_bound",
        "gamma": "gamma",
        "seed": "seed",
        "deviations": "deviations",
    },
    "protection": {
        "scheme": "scheme",
        "alpha": "alpha",
        "colluders": "colluders",
        "holders": "holders",
        "least_participants": "least_participants",
        "max_rows": "max_rows",
        "max_rows_per_device": "max_rows_per_device",
    },
    "training": {"solver": "solver", "epochs": "epochs", "regularisation": "regularisation"},
    "result": {"held_out": "held_out", "inference": "inference"},
}
_TYPES: dict[str, type] = {
    **dict.fromkeys(("name", "purpose", "features", "encoder", "scheme", "solver"), str),
    **dict.fromkeys(("gamma", "encoder_bound", "deviations", "regularisation", "held_out"), float),
    "inference": bool,
}
COLUMN_KEYS = {
    "number": ("name", "kind", "range", "scale", "missing", "indicator"),
    "category": ("name", "kind", "levels", "missing", "other"),
}
_NOISE: dict[str, type] = {"epsilon": float, "delta": float, "honest": int, "clip_norm": float}
_REQUIRED = ("name", "max_rows", "max_rows_per_device", "least_participants")


def load_study(path: Path) -> Study:
    """Read a study file; what is wrong is said in one line with the name of the file."""
    if not path.is_file():
        raise InvalidInput(f"the study file must exist, got {str(path)!r}")
    if path.stat().st_size > _LARGEST:
        raise InvalidInput(f"the study file must have at most {_LARGEST} bytes, got {path.stat().st_size}")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path.name} must be text in UTF-8, got {error}") from error
    return parse_study(text, path.name)


def parse_study(text: str, where: str = "the study") -> Study:
    """The same from text; ``where`` names it in errors."""
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInput(f"{where} must be TOML, got an error: {error}") from error
    try:
        return _study(content)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def _study(content: dict[str, Any]) -> Study:
    if content.get("format") != FORMAT:
        raise InvalidInput(f"format must be {FORMAT!r}, got {content.get('format')!r}")
    _known("the file", content, {"format", "column", "target", "noise", *SECTIONS[""], *filter(None, SECTIONS)})
    said: dict[str, Any] = {}
    for section, keys in SECTIONS.items():
        part = content if not section else content.get(section, {})
        if not isinstance(part, dict):
            raise InvalidInput(f"[{section}] must be a section, got {part!r}")
        if section:
            _known(f"[{section}]", part, set(keys))
        for key, name in keys.items():
            if key in part:
                said[name] = _typed(f"{section}.{key}" if section else key, part[key], _TYPES.get(name, int))
    for name in _REQUIRED:
        if name not in said:
            raise InvalidInput(f"{name} must be said, got nothing")
    columns = content.get("column")
    if not isinstance(columns, list) or not columns or not all(isinstance(one, dict) for one in columns):
        raise InvalidInput("columns must be listed as [[column]], got none")
    target = content.get("target")
    if not isinstance(target, dict):
        raise InvalidInput("the target must be said as [target], got none")
    noise = _noise(content["noise"]) if "noise" in content else None
    return Study(columns=tuple(_column(one) for one in columns), target=_target(target), noise=noise, **said)


def _noise(said: Any) -> Budget:
    """[noise] with epsilon and honest, and delta and clip_norm if they are not to be the usual."""
    if not isinstance(said, dict):
        raise InvalidInput(f"[noise] must be a section, got {said!r}")
    _known("[noise]", said, set(_NOISE))
    for key in ("epsilon", "honest"):
        if key not in said:
            raise InvalidInput(f"noise.{key} must be said, got nothing")
    return Budget(**{key: _typed(f"noise.{key}", said[key], kind) for key, kind in _NOISE.items() if key in said})


def _column(said: dict[str, Any]) -> StudyColumn:
    name = _typed("name of a column", said.get("name"), str)
    kind = said.get("kind")
    if kind == "number":
        _known(f"column {name!r}", said, set(COLUMN_KEYS[kind]))
        missing = None if "missing" not in said else _typed(f"missing of column {name!r}", said["missing"], float)
        indicator = _typed(f"indicator of column {name!r}", said.get("indicator", True), bool)
        ends = _range(f"range of column {name!r}", said["range"]) if "range" in said else None
        scale = _typed(f"scale of column {name!r}", said.get("scale", "moments" if ends is None else "range"), str)
        return StudyColumn(NumberColumn(name, missing, indicator), ends, scale)
    if kind == "category":
        _known(f"column {name!r}", said, set(COLUMN_KEYS[kind]))
        levels = _texts(f"levels of column {name!r}", said.get("levels"))
        rest = {key: _typed(f"{key} of column {name!r}", said[key], str) for key in ("missing", "other") if key in said}
        return StudyColumn(CategoryColumn(name, levels, **rest))
    raise InvalidInput(f"kind of column {name!r} must be number or category, got {kind!r}")


def _target(said: dict[str, Any]) -> NumberTarget | ClassTarget:
    name = _typed("name of the target", said.get("name"), str)
    _known("[target]", said, {"name", "range", "classes"})
    if ("range" in said) == ("classes" in said):
        raise InvalidInput(f"the target {name!r} must have either a range or classes")
    if "range" in said:
        return NumberTarget(name, _range(f"range of the target {name!r}", said["range"]))
    classes = said["classes"]
    if isinstance(classes, list) and classes and all(type(one) is int for one in classes):
        return ClassTarget(name, tuple(classes))
    return ClassTarget(name, _texts(f"classes of the target {name!r}", classes))


def _range(what: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInput(f"{what} must be [low, high], got {value!r}")
    return _typed(what, value[0], float), _typed(what, value[1], float)


def _texts(what: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidInput(f"{what} must be a list of texts, got {value!r}")
    return tuple(value)


def _typed(what: str, value: Any, kind: type) -> Any:
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InvalidInput(f"{what} must be {names[kind]}, got {value!r}")
    return value


def _known(where: str, said: dict[str, Any], known: set[str]) -> None:
    strange = sorted(set(said) - known)
    if strange:
        raise InvalidInput(f"{where} must hold only {', '.join(sorted(known))}, got {strange[0]!r}")
