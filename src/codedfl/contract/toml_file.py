"""The study as a TOML file: sections become dataclasses by their types (``typed``), with one-line errors."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec

from codedfl.contract.models import MODELS, StudyModel, SubModel
from codedfl.contract.study import Study
from codedfl.data.columns import (
    ClassTarget,
    Column,
    NumberColumn,
    NumberTarget,
    Target,
    column_of,
    gap_codes,
    no_step,
)
from codedfl.data.features import FEATURE_MAPS
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.typed import only, record, typed, types_of
from codedfl.typing import Unchecked

FORMAT = "codedfl-study-2"
_OLD = "codedfl-study-1"
_LARGEST = 1 << 20
_MOST_COLUMNS = 1 << 14  # of a matrix

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
_MATRIX = ("columns", "range", "step", "encoder")
_TARGET = ("name", "range", "step", "classes", "missing_codes", "function")
_LABELS, _MOST_LABEL = ("label", "unit"), 80
_REQUIRED = ("name", "max_rows", "max_rows_per_device", "least_participants")


def load_study(path: Path | str) -> Study:
    """Read a study file; what is wrong is said in one line with the name of the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from codedfl import load_study
    >>> from codedfl.authoring.from_sample import draft_of_table
    >>> from codedfl.authoring.study_text import study_text
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
            f"format must be {FORMAT!r}, got {_OLD!r}: draft it again with codedfl study new, which gives every number"
            " a range and a step, and have it approved again"
        )
    if said_format != FORMAT:
        raise InvalidInput(f"format must be {FORMAT!r}, got {said_format!r}")
    others = {"format", "column", "matrix", "target", "model", "noise"}
    only("the file", content, {*others, *SECTIONS[""], *filter(None, SECTIONS)})
    types, said = types_of(Study), dict[str, Any]()
    for section, keys in SECTIONS.items():
        part = (_section(content, section) if section in content else {}) if section else content
        if section:
            own = _own_keys(part) if section == "features" else ()
            only(f"[{section}]", part, {*keys, *own})
            said |= {"feature_keys": tuple((key, part[key]) for key in own if key in part)} if own else {}
        for key, name in keys.items():
            if key in part:
                said[name] = typed(f"{section}.{key}" if section else key, part[key], types[name])
    for name in _REQUIRED:
        if name not in said:
            raise InvalidInput(f"{name} must be said, got nothing")
    if ("column" in content) == ("matrix" in content):
        raise InvalidInput("columns must be listed as [[column]], or counted in [matrix], one of the two")
    # Means and deviations are wanted for the penalty of a linear model, and cost a total; noise allows none.
    scale = "moments" if said.get("features", "linear") == "linear" and "noise" not in content else "range"
    if "matrix" in content:
        columns = _matrix(_section(content, "matrix"))
        said["embedded_by"] = typed("matrix.encoder", content["matrix"].get("encoder", ""), str)
    else:
        said["labels"] = tuple(map(_label, _sections(content, "column")))
        columns = tuple(column_of(_plain(one), scale) for one in _sections(content, "column"))
    said["labels"] = (*said.get("labels", ()), _label(_section(content, "target")))
    target = _target(_plain(_section(content, "target")))
    models = (
        tuple(_model(one, [column.name for column in columns]) for one in _sections(content, "model"))
        if "model" in content
        else ()
    )
    noise = _noise(_section(content, "noise")) if "noise" in content else None
    by = said.get("constant_by", "")
    if by and not any(one.name == by and one.range is None and one.width for one in columns):
        raise InvalidInput(f"constant_by must be a category that is in_model, got {by!r}")
    return Study(columns=columns, target=target, models=models, noise=noise, **said)


def _label(said: Unchecked) -> tuple[str, str, str]:
    """Name, label and unit of a column, of which no device reads the last two."""
    name = typed("name of a column", said.get("name"), str)
    label, unit = (typed(f"{key} of {name!r}", said.get(key, ""), str) for key in _LABELS)
    if len(label + unit) > _MOST_LABEL or not (label + unit).isprintable():
        raise InvalidInput(f"label and unit of {name!r} must be printable, of at most {_MOST_LABEL} characters")
    return name, label, unit


def _plain(said: Unchecked) -> Unchecked:
    return {key: one for key, one in said.items() if key not in _LABELS}


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


def _own_keys(said: Unchecked) -> tuple[str, ...]:
    """The keys of [features] that its map has of its own."""
    kind = said.get("kind")
    if not isinstance(kind, str) or kind not in FEATURE_MAPS:
        return ()
    return tuple(one.name for one in msgspec.structs.fields(FEATURE_MAPS[kind].Keys))


def _noise(said: Unchecked) -> Budget:
    """[noise] with epsilon and honest, and delta and clip_norm if they are not to be the usual."""
    only("[noise]", said, types_of(Budget))
    return Budget(**record(Budget, said, "noise.{}".format))


def _model(said: Unchecked, names: list[str]) -> StudyModel:
    """``names`` are those of all columns, for kinds that take them where none are said."""
    name = typed("name of a model", said.get("name"), str)
    word = said.get("kind", SubModel.kind)
    if not isinstance(word, str) or word not in MODELS:
        raise InvalidInput(f"kind of the model {name!r} must be {' or '.join(sorted(MODELS))}, got {word!r:.80}")
    kind = MODELS[word]
    only(f"model {name!r}", said, {"kind", *types_of(kind)})
    said = {"columns": names, **said} if kind.all_columns else said
    return kind(**record(kind, said, f"{{}} of the model {name!r}".format))


def _matrix(said: Unchecked) -> tuple[Column, ...]:
    """Pixels and the like: number columns x0, x1, ... of one range and step, not scaled by their moments."""
    only("[matrix]", said, _MATRIX)
    count = typed("matrix.columns", said.get("columns"), int)
    if not 1 <= count <= _MOST_COLUMNS:
        raise InvalidInput(f"matrix.columns must be between 1 and {_MOST_COLUMNS}, got {count}")
    if "step" not in said:
        raise InvalidInput(no_step("[matrix]"))
    types = types_of(NumberColumn)
    grid = {key: typed(f"matrix.{key}", said.get(key), types[key]) for key in ("range", "step")}
    return tuple(NumberColumn(f"x{place}", **grid, scale="range") for place in range(count))


def _target(said: Unchecked) -> Target:
    name = typed("name of the target", said.get("name"), str)
    only("[target]", said, _TARGET)
    called = f"{{}} of the target {name!r}".format
    if ("range" in said) == ("classes" in said) or {"step", "classes"} <= set(said):
        raise InvalidInput(f"the target {name!r} must have either a range and a step, or classes")
    if "range" in said and "step" not in said:
        raise InvalidInput(no_step(f"the target {name!r}"))
    codes = gap_codes(called("missing_codes"), said.get("missing_codes", []))
    if "range" in said:
        return NumberTarget(**{**record(NumberTarget, said, called), "missing_codes": codes})
    if "function" in said:
        raise InvalidInput(f"{called('function')} must go with a range and a step, got classes")
    classes = typed(called("classes"), said["classes"], tuple[int | str, ...])
    if len(set(map(type, classes))) != 1 or any(type(one) is int and abs(one) >= 2**53 for one in classes):
        raise InvalidInput(f"{called('classes')} must be texts, or whole numbers, got {list(classes)!r:.80}")
    return ClassTarget(name, classes, codes)
