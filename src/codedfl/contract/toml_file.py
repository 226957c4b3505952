"""The study as a TOML file, read with one-line errors.

Every key that nobody reads is refused: in an agreement a misspelt wish must not pass for a granted one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
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
    "": {
        name: name
        for name in ("name", "purpose", "edition", "id", "formula", "constant_by", "complete_cases", "site_effects")
    },
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
            *("colluders", "holders", "row_blocks", "number_bits", "spare_replies", "roster", "server_key"),
            *("least_participants", "max_rows"),
            *("max_rows_per_device", "smallest_cell", "least_rows", "points"),
        )
    },
    "training": {"solver": "solver", "epochs": "epochs", "regularisation": "regularisation"},
    "result": {name: name for name in ("held_out", "inference", "most_clipped")},
}
COLUMN_KEYS = {
    "number": ("name", "kind", "range", "step", "scale", "missing", "indicator", "missing_codes", "in_model"),
    "category": ("name", "kind", "levels", "missing", "other", "missing_codes", "in_model"),
    "derived": ("name", "kind", "factors", "range", "step", "scale", "in_model"),
}
_MATRIX = ("columns", "range", "step", "encoder")
_REQUIRED = ("name", "max_rows", "max_rows_per_device", "least_participants")


def load_study(path: Path | str) -> Study:
    """Read a study file; what is wrong is said in one line with the name of the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from codedfl import load_study
    >>> from codedfl.authoring.draft import draft_of_table, study_text
    >>> from codedfl.data.tables import as_raw_table
    >>> table = {"age": np.array([34.0, 58.0, 71.0]), "days": np.array([3.5, 6.2, 7.1])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "study.toml")
    ...     _ = path.write_text(study_text(draft_of_table(as_raw_table(table, "ward.csv"), "days", "ward")))
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
    types, said = {one.name: str(one.type) for one in fields(Study)}, dict[str, Any]()
    for section, keys in SECTIONS.items():
        part = _section(content, section) if section in content else {} if section else content
        if section:
            _known(f"[{section}]", part, set(keys))
        for key, name in keys.items():
            if key in part:
                said[name] = _value(f"{section}.{key}" if section else key, part[key], types[name])
    for name in _REQUIRED:
        if name not in said:
            raise InvalidInput(f"{name} must be said, got nothing")
    if ("column" in content) == ("matrix" in content):
        raise InvalidInput("columns must be listed as [[column]], or counted in [matrix], one of the two")
    # Means and deviations are wanted for the penalty of a linear model, and cost a total; noise allows none.
    scale = "moments" if said.get("features", "linear") == "linear" and "noise" not in content else "range"
    if "matrix" in content:
        columns = _matrix(_section(content, "matrix"))
        said["embedded_by"] = _value("matrix.encoder", content["matrix"].get("encoder", ""), "str")
    else:
        columns = tuple(_column(one, scale) for one in _sections(content, "column"))
    target = _target(_section(content, "target"))
    models = (
        tuple(_model(one, [column.column.name for column in columns]) for one in _sections(content, "model"))
        if "model" in content
        else ()
    )
    noise = _noise(_section(content, "noise")) if "noise" in content else None
    by = said.get("constant_by", "")
    if by and not any(one.column.name == by and one.range is None and one.width for one in columns):
        raise InvalidInput(f"constant_by must be a category that is in_model, got {by!r}")
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
    _known("[noise]", said, {one.name for one in fields(Budget)})
    for key in ("epsilon", "honest"):
        if key not in said:
            raise InvalidInput(f"noise.{key} must be said, got nothing")
    return Budget(**_fields(Budget, said, before="noise."))


def _model(said: Unchecked, names: list[str]) -> StudyModel:
    """``names`` are those of all columns, for kinds that take them where none are said."""
    name = _value("name of a model", said.get("name"), "str")
    kind = said.get("kind", SubModel.kind)
    if not isinstance(kind, str) or kind not in MODELS:
        raise InvalidInput(f"kind of the model {name!r} must be {' or '.join(sorted(MODELS))}, got {kind!r:.80}")
    columns = names if MODELS[kind].all_columns else None
    _known(f"model {name!r}", said, {"kind", *(one.name for one in fields(MODELS[kind]))})
    return MODELS[kind](**_fields(MODELS[kind], {"columns": columns, **said}, after=f" of the model {name!r}"))


def _matrix(said: Unchecked) -> tuple[StudyColumn, ...]:
    """Pixels and the like: number columns x0, x1, ... of one range and step, not scaled by their moments."""
    _known("[matrix]", said, set(_MATRIX))
    count = _value("matrix.columns", said.get("columns"), "int")
    if not 1 <= count <= _MOST_COLUMNS:
        raise InvalidInput(f"matrix.columns must be between 1 and {_MOST_COLUMNS}, got {count}")
    if "step" not in said:
        raise InvalidInput(no_step("[matrix]"))
    grid = _fields(StudyColumn, {"range": None, **said}, before="matrix.")
    return tuple(StudyColumn(NumberColumn(f"x{place}"), **grid, scale="range") for place in range(count))


def _column(said: Unchecked, usual_scale: str) -> StudyColumn:
    name = _value("name of a column", said.get("name"), "str")
    kind = said.get("kind")
    if not isinstance(kind, str) or kind not in COLUMN_KEYS:
        raise InvalidInput(f"kind of column {name!r} must be {' or '.join(COLUMN_KEYS)}, got {kind!r}")
    _known(f"column {name!r}", said, set(COLUMN_KEYS[kind]))
    of = f" of column {name!r}"
    if kind == "category":
        codes = _value(f"missing_codes{of}", said.get("missing_codes", []), _CODES)  # a level is written as a text
        said = {"levels": None, **said, "missing_codes": [as_text(one) for one in codes]}
        return StudyColumn(CategoryColumn(**_fields(CategoryColumn, said, after=of)))
    grid = _fields(StudyColumn, {"scale": usual_scale, **said}, after=of)
    made = DerivedColumn if kind == "derived" else NumberColumn
    return StudyColumn(
        made(**_fields(made, said if made is NumberColumn else {"factors": None, **said}, after=of)), **grid
    )


def _target(said: Unchecked) -> NumberTarget | ClassTarget:
    name = _value("name of the target", said.get("name"), "str")
    _known("[target]", said, {"name", "range", "step", "classes", "missing_codes", "function"})
    of = f" of the target {name!r}"
    if ("range" in said) == ("classes" in said) or {"step", "classes"} <= set(said):
        raise InvalidInput(f"the target {name!r} must have either a range and a step, or classes")
    if "range" in said and "step" not in said:
        raise InvalidInput(no_step(f"the target {name!r}"))
    if "range" in said:
        return NumberTarget(**_fields(NumberTarget, said, after=of))
    if "function" in said:
        raise InvalidInput(f"function{of} must go with a range and a step, got classes")
    classes = said["classes"]
    if not isinstance(classes, list) or not classes or not all(type(c) is int and abs(c) < 2**53 for c in classes):
        classes = _value(f"classes{of}", classes, "tuple[str, ...]")
    return ClassTarget(name, tuple(classes), _value(f"missing_codes{of}", said.get("missing_codes", []), _CODES))


# -- values by the types of fields
def _fields(kind: type, said: Unchecked, before: str = "", after: str = "") -> dict[str, Any]:
    """What a section says of the fields of a dataclass, each of its field's type; errors name it between two texts."""
    return {
        one.name: _value(f"{before}{one.name}{after}", said[one.name], str(one.type))
        for one in fields(kind)
        if one.name in said
    }


_PLAIN: dict[str, tuple[type, str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "float": (float, "a number"),
    "bool": (bool, "true or false"),
}
_CODES, _CODE = "tuple[float | str, ...]", "what stands for a gap"
# Kind of a list -> its rule in words, the rule, and the kind of its entries.
_LISTS: dict[str, tuple[str, Callable[[list[Any]], bool], str]] = {
    "tuple[float, float]": ("[low, high]", lambda ends: len(ends) == 2, "float"),
    "tuple[float, ...]": ("a list of numbers", lambda _: True, "float"),
    "tuple[str, ...]": ("a list of texts", lambda texts: all(isinstance(one, str) for one in texts), "str"),
    "tuple[Factor, ...]": (f"a list of 1 to {_MOST_FACTORS}", lambda made: 1 <= len(made) <= _MOST_FACTORS, "Factor"),
    _CODES: (
        "a list of numbers or texts",
        lambda codes: all(type(c) in (str, int, float) and c == c for c in codes),
        _CODE,
    ),
}


def _value(what: str, value: Any, kind: str) -> Any:
    """A value of the type that a field has, as its annotation says it; refused where it is of another."""
    kind = kind.removesuffix(" | None")
    if kind in _LISTS:
        rule, fits, each = _LISTS[kind]
        if not isinstance(value, list) or not fits(value):
            raise InvalidInput(f"{what} must be {rule}, got {value!r:.80}")
        return tuple(_value(what, one, each) for one in value)
    if (kind == "float | str" and value == GCV) or (kind == _CODE and isinstance(value, str)):
        return value
    if kind == "Factor":
        return Factor.from_dict(value)
    made, named = _PLAIN[kind if kind in _PLAIN else "float"]
    if made is float and type(value) is int and abs(value) < 2**1000:
        value = float(value)
    if type(value) is not made:
        raise InvalidInput(f"{what} must be {named}, got {'nothing' if value is None else repr(value)}")
    return value


def _known(where: str, said: Unchecked, known: set[str]) -> None:
    strange = sorted(set(said) - known)
    if strange:
        raise InvalidInput(f"{where} must hold only {', '.join(sorted(known))}, got {strange[0]!r}")
