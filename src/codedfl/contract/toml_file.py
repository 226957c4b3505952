"""The study as a TOML file, read with one-line errors.

Every key that nobody reads is refused: in an agreement a misspelt wish must not pass for a granted one.
"""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

from codedfl.contract.models import GCV, MODELS, StudyModel, SubModel
from codedfl.contract.study import ClassTarget, NumberTarget, Study, StudyColumn
from codedfl.contract.study_columns import no_step
from codedfl.data.columns import CategoryColumn, DerivedColumn, NumberColumn, as_text
from codedfl.data.derived import Factor
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.typing import Unchecked

FORMAT = "codedfl-study-2"
_OLD = "codedfl-study-1"
_LARGEST = 1 << 20
_MOST_COLUMNS = 1 << 14  # of a matrix
_MOST_FACTORS = 6

# Section of the file -> key -> field of ``Study``; what is not said takes the field's default.
SECTIONS: dict[str, dict[str, str]] = {
    "": {name: name for name in ("name", "purpose", "edition", "id", "formula", "complete_cases", "site_effects")},
    "features": {
        "kind": "features",
        "count": "n_features",
        "components": "components",
        "encoder": "encoder",
        "bound": "encoder_bound",
        "gamma": "gamma",
        "seed": "seed",
    },
    "protection": {
        name: name
        for name in (
            *("colluders", "holders", "roster", "server_key", "least_participants", "max_rows", "max_rows_per_device"),
            *("smallest_cell", "least_rows", "points"),
        )
    },
    "training": {"solver": "solver", "epochs": "epochs", "regularisation": "regularisation"},
    "result": {name: name for name in ("held_out", "inference", "most_clipped")},
}
_TYPES: dict[str, type] = {
    **dict.fromkeys(("name", "purpose", "id", "formula", "features", "encoder", "roster", "server_key", "solver"), str),
    **dict.fromkeys(("gamma", "encoder_bound", "held_out", "most_clipped"), float),
    **dict.fromkeys(("inference", "complete_cases", "site_effects"), bool),
}
COLUMN_KEYS = {
    "number": ("name", "kind", "range", "step", "scale", "missing", "indicator", "missing_codes", "in_model"),
    "category": ("name", "kind", "levels", "missing", "other", "missing_codes", "in_model"),
    "derived": ("name", "kind", "factors", "range", "step", "scale"),
}
_MATRIX = ("columns", "range", "step")
_WEIGHT = "regularisation"
_NOISE: dict[str, type] = {"epsilon": float, "delta": float, "honest": int, "clip_norm": float}
_REQUIRED = ("name", "max_rows", "max_rows_per_device", "least_participants")


def load_study(path: Path | str) -> Study:
    """Read a study file; what is wrong is said in one line with the name of the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from codedfl import load_study
    >>> from codedfl.contract.draft import draft_study
    >>> from codedfl.data.tables import as_raw_table
    >>> table = {"age": np.array([34.0, 58.0, 71.0]), "days": np.array([3.5, 6.2, 7.1])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "study.toml")
    ...     _ = path.write_text(draft_study(as_raw_table(table, "ward.csv"), "days", "ward"))
    ...     study = load_study(path)
    >>> study.name, study.design_names, study.target.name
    ('ward', ('age',), 'days')
    >>> load_study("no-such.toml")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the study file must exist, got 'no-such.toml'
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInput(f"the study file must exist, got {str(path)!r}")
    if path.stat().st_size > _LARGEST:
        raise InvalidInput(f"the study file must have at most {_LARGEST} bytes, got {path.stat().st_size}")
    try:
        text = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise InvalidInput(f"{path.name} must be text in UTF-8, got {error}") from error
    return parse_study(text, path.name)


def parse_study(text: str, where: str = "the study") -> Study:
    """A study from the text of its file; ``where`` names it in errors.

    >>> parse_study('format = "codedfl-study-2"')
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the study: name must be said, got nothing
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"{where} must be TOML, got an error: {error}") from error
    try:
        return _study(content)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def _study(content: Unchecked) -> Study:
    said_format = content.get("format")
    if said_format == _OLD:
        raise InvalidInput(
            f"format must be {FORMAT!r}, got {_OLD!r}: draft it anew with codedfl study new, which gives every number a"
            " range and a step, and have it approved again"
        )
    if said_format != FORMAT:
        raise InvalidInput(f"format must be {FORMAT!r}, got {said_format!r}")
    others = {"format", "column", "matrix", "target", "model", "noise"}
    _known("the file", content, {*others, *SECTIONS[""], *filter(None, SECTIONS)})
    said: dict[str, Any] = {}
    for section, keys in SECTIONS.items():
        part = _section(content, section) if section in content else {} if section else content
        if section:
            _known(f"[{section}]", part, set(keys))
        for key, name in keys.items():
            if key in part:
                what = f"{section}.{key}" if section else key
                said[name] = (
                    _weight(what, part[key]) if key == _WEIGHT else _typed(what, part[key], _TYPES.get(name, int))
                )
    for name in _REQUIRED:
        if name not in said:
            raise InvalidInput(f"{name} must be said, got nothing")
    if ("column" in content) == ("matrix" in content):
        raise InvalidInput("columns must be listed as [[column]], or counted in [matrix], one of the two")
    # Means and deviations are wanted for the penalty of a linear model, and cost a total; noise allows none.
    scale = "moments" if said.get("features", "linear") == "linear" and "noise" not in content else "range"
    if "matrix" in content:
        columns = _matrix(_section(content, "matrix"))
    else:
        columns = tuple(_column(one, scale) for one in _sections(content, "column"))
    target = _target(_section(content, "target"))
    models = tuple(map(_model, _sections(content, "model"))) if "model" in content else ()
    noise = _noise(_section(content, "noise")) if "noise" in content else None
    return Study(columns=columns, target=target, models=models, noise=noise, **said)


def _section(content: Unchecked, name: str) -> Unchecked:
    part = content.get(name)
    if not isinstance(part, dict):
        raise InvalidInput(f"[{name}] must be a section, got {'nothing' if part is None else repr(part)}")
    return part


def _sections(content: Unchecked, name: str) -> list[Unchecked]:
    parts = content[name]
    if not isinstance(parts, list) or not parts or not all(isinstance(one, dict) for one in parts):
        raise InvalidInput(f"each {name} must be listed as [[{name}]], got {parts!r:.80}")
    return parts


def _noise(said: Unchecked) -> Budget:
    """[noise] with epsilon and honest, and delta and clip_norm if they are not to be the usual."""
    _known("[noise]", said, set(_NOISE))
    for key in ("epsilon", "honest"):
        if key not in said:
            raise InvalidInput(f"noise.{key} must be said, got nothing")
    return Budget(**{key: _typed(f"noise.{key}", said[key], kind) for key, kind in _NOISE.items() if key in said})


def _model(said: Unchecked) -> StudyModel:
    name = _typed("name of a model", said.get("name"), str)
    kind = said.get("kind", SubModel.kind)
    if not isinstance(kind, str) or kind not in MODELS:
        raise InvalidInput(f"kind of the model {name!r} must be {' or '.join(sorted(MODELS))}, got {kind!r:.80}")
    keys = {one.name: str(one.type) for one in fields(MODELS[kind])}
    _known(f"model {name!r}", said, {"kind", *keys})
    columns = _texts(f"columns of the model {name!r}", said.get("columns"))
    rest = {key: _key(f"{key} of the model {name!r}", said[key], keys[key]) for key in keys if key in said}
    return MODELS[kind](**{**rest, "name": name, "columns": columns})


def _key(what: str, value: Any, kind: str) -> Any:
    """A value of the type that a field of a model has."""
    if kind == "tuple[float, ...]":
        if not isinstance(value, list):
            raise InvalidInput(f"{what} must be a list of numbers, got {value!r:.80}")
        return tuple(_typed(what, one, float) for one in value)
    if kind == "float | str":
        return _weight(what, value)
    types: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
    return _texts(what, value) if kind == "tuple[str, ...]" else _typed(what, value, types[kind])


def _matrix(said: Unchecked) -> tuple[StudyColumn, ...]:
    """Pixels and the like: number columns x0, x1, ... of one range and step, not scaled by their moments."""
    _known("[matrix]", said, set(_MATRIX))
    count = _typed("matrix.columns", said.get("columns"), int)
    if not 1 <= count <= _MOST_COLUMNS:
        raise InvalidInput(f"matrix.columns must be between 1 and {_MOST_COLUMNS}, got {count}")
    ends = _range("matrix.range", said.get("range"))
    if "step" not in said:
        raise InvalidInput(no_step("[matrix]"))
    step = _typed("matrix.step", said["step"], float)
    return tuple(StudyColumn(NumberColumn(f"x{place}"), ends, step, "range") for place in range(count))


def _column(said: Unchecked, usual_scale: str) -> StudyColumn:
    name = _typed("name of a column", said.get("name"), str)
    kind = said.get("kind")
    if not isinstance(kind, str) or kind not in COLUMN_KEYS:
        raise InvalidInput(f"kind of column {name!r} must be {' or '.join(COLUMN_KEYS)}, got {kind!r}")
    _known(f"column {name!r}", said, set(COLUMN_KEYS[kind]))
    in_model = _typed(f"in_model of column {name!r}", said.get("in_model", True), bool)
    codes = f"missing_codes of column {name!r}"
    if kind == "category":
        levels = _texts(f"levels of column {name!r}", said.get("levels"))
        rest = {key: _typed(f"{key} of column {name!r}", said[key], str) for key in ("missing", "other") if key in said}
        texts = tuple(map(as_text, _codes(codes, said)))
        return StudyColumn(CategoryColumn(name, levels, **rest, missing_codes=texts, in_model=in_model))
    missing = _optional(f"missing of column {name!r}", said, "missing", float)
    indicator = _typed(f"indicator of column {name!r}", said.get("indicator", True), bool)
    ends = _range(f"range of column {name!r}", said["range"]) if "range" in said else None
    step = _optional(f"step of column {name!r}", said, "step", float)
    scale = _typed(f"scale of column {name!r}", said.get("scale", usual_scale), str)
    if kind == "derived":
        return StudyColumn(DerivedColumn(name, factors=_factors(name, said.get("factors"))), ends, step, scale)
    return StudyColumn(NumberColumn(name, missing, indicator, _codes(codes, said), in_model), ends, step, scale)


def _factors(name: str, value: Any) -> tuple[Factor, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_FACTORS:
        raise InvalidInput(f"factors of column {name!r} must be a list of 1 to {_MOST_FACTORS}, got {value!r:.80}")
    return tuple(map(Factor.from_dict, value))


def _codes(what: str, said: Unchecked) -> tuple[str | float, ...]:
    """What stands for a gap: texts or numbers."""
    value = said.get("missing_codes", [])
    if not isinstance(value, list) or not all(type(one) in (str, int, float) and one == one for one in value):
        raise InvalidInput(f"{what} must be a list of numbers or texts, got {value!r:.80}")
    return tuple(one if isinstance(one, str) else _typed(what, one, float) for one in value)


def _target(said: Unchecked) -> NumberTarget | ClassTarget:
    name = _typed("name of the target", said.get("name"), str)
    _known("[target]", said, {"name", "range", "step", "classes", "missing_codes"})
    what = f"missing_codes of the target {name!r}"
    codes = _codes(what, said)
    if ("range" in said) == ("classes" in said) or {"step", "classes"} <= set(said):
        raise InvalidInput(f"the target {name!r} must have either a range and a step, or classes")
    if "range" in said:
        ends = _range(f"range of the target {name!r}", said["range"])
        if "step" not in said:
            raise InvalidInput(no_step(f"the target {name!r}"))
        return NumberTarget(name, ends, _typed(f"step of the target {name!r}", said["step"], float), codes)
    classes = said["classes"]
    if isinstance(classes, list) and classes and all(type(one) is int and abs(one) < 2**53 for one in classes):
        return ClassTarget(name, tuple(classes), codes)
    return ClassTarget(name, _texts(f"classes of the target {name!r}", classes), codes)


def _range(what: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInput(f"{what} must be [low, high], got {value!r}")
    return _typed(what, value[0], float), _typed(what, value[1], float)


def _texts(what: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidInput(f"{what} must be a list of texts, got {value!r}")
    return tuple(value)


def _weight(what: str, value: Any) -> float | str:
    weight: float | str = value if value == GCV else _typed(what, value, float)
    return weight


def _optional(what: str, said: Unchecked, key: str, kind: type) -> Any:
    return _typed(what, said[key], kind) if key in said else None


def _typed(what: str, value: Any, kind: type) -> Any:
    if kind is float and type(value) is int and abs(value) < 2**1000:
        value = float(value)
    if type(value) is not kind:
        names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        raise InvalidInput(f"{what} must be {names[kind]}, got {'nothing' if value is None else repr(value)}")
    return value


def _known(where: str, said: Unchecked, known: set[str]) -> None:
    strange = sorted(set(said) - known)
    if strange:
        raise InvalidInput(f"{where} must hold only {', '.join(sorted(known))}, got {strange[0]!r}")
