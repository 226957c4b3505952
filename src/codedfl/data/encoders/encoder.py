"""What an encoder is to all who take part: the hash of its ONNX file, the recipe of its inputs, the grid of outputs.

A kind of input is a dataclass here or anywhere, under ``@register_encoder``; its fields are the keys of its file.
"""

from __future__ import annotations

import os
import re
import tomllib
from abc import abstractmethod
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import tomli_w
from numpy.typing import NDArray

from codedfl.checks import check_at_least, check_positive
from codedfl.data.canonical import canonical_digest
from codedfl.data.onnx_session import model_content, open_session, run_session
from codedfl.errors import InvalidInput
from codedfl.typing import JsonObject

FORMAT = "codedfl-encoder-1"
_HASH = "[0-9a-f]{64}"
_LARGEST = 1 << 16

Outputs = NDArray[np.float32]


class DamagedItem(Exception):
    """A picture or a text that the encoder cannot take; the message says why."""


@dataclass(frozen=True)
class Encoder:
    """One encoder; the kinds are in ``ENCODERS``.

    model: SHA-256 of the ONNX file, which each machine keeps as ``MODEL.onnx`` beside the encoder's file or in the
        folder that CODEDFL_ENCODERS names.
    width: outputs per row.
    low, high, step: the public grid of the outputs: they are clipped to [low, high] and rounded to ``step`` as they
        are summed. A finer step makes larger numbers to send, and hardly a better model.
    source, licence: where the weights came from, for people.
    """

    model: str
    width: int
    low: float
    high: float
    step: float
    source: str = ""
    licence: str = ""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        check_at_least(1, width=self.width)
        check_positive(step=self.step)
        if not re.fullmatch(_HASH, self.model):
            raise InvalidInput(f"model must be a SHA-256 of 64 hexadecimal digits, got {self.model!r:.80}")
        if not -np.inf < self.low < self.high < np.inf:
            raise InvalidInput(f"low must be below high, got {self.low} and {self.high}")

    def to_dict(self) -> JsonObject:
        """The whole meaning in plain values."""
        return {"format": FORMAT, "kind": self.kind, **asdict(self)}

    def digest(self) -> str:
        """What a study names: the model, the recipe and the grid, in 64 hexadecimal digits."""
        return canonical_digest(FORMAT, self.to_dict()).hex()

    def inputs_digest(self) -> str:
        """Of the model and the recipe of its inputs alone: what outputs before the grid follow from."""
        apart = ("low", "high", "step", "source", "licence")
        return canonical_digest(FORMAT, {key: one for key, one in self.to_dict().items() if key not in apart}).hex()

    def save(self, path: Path) -> None:
        """Write the encoder's file; its ONNX file belongs beside it."""
        path.write_text(tomli_w.dumps(_listed(self.to_dict())), encoding="utf-8")

    def content(self, item: Any) -> bytes:
        """What the cache knows an item by: the bytes of a file, of an array with its shape, or of a text."""
        if isinstance(item, Path):
            return item.read_bytes()
        if isinstance(item, np.ndarray):
            return f"{item.dtype.str}{item.shape}".encode() + np.ascontiguousarray(item).tobytes()
        return str(item).encode(errors="replace")

    @abstractmethod
    def prepared(self, item: Any) -> Any:
        """The model's input for one item, by the recipe; raises ``DamagedItem`` where it cannot be made."""

    @abstractmethod
    def batch(self, inputs: list[Any]) -> list[NDArray[Any]]:
        """The model's inputs for several items, in the order of its entries."""

    def run(self, inputs: list[Any]) -> Outputs:
        """Outputs for prepared items, one row each."""
        if not inputs:
            return np.empty((0, self.width), dtype=np.float32)
        return run_session(self._session, self.batch(inputs), self.width)

    @cached_property
    def _session(self) -> Any:
        return open_session(self.model, self.__dict__.get("_folder"))

    def onnx_model(self) -> Any:
        """The ONNX file as an ``onnx.ModelProto``, its hash checked."""
        from onnx import load_model_from_string  # an extra

        return load_model_from_string(model_content(self.model, self.__dict__.get("_folder")))

    def beside(self, folder: Path) -> Encoder:
        """The same encoder, whose ONNX file is looked for in this folder first."""
        self.__dict__["_folder"] = folder
        return self


ENCODERS: dict[str, type[Encoder]] = {}
_Kind = TypeVar("_Kind", bound=type[Encoder])


def register_encoder(kind: _Kind) -> _Kind:
    """Make a kind of encoder known to encoders' files; serves as a decorator."""
    ENCODERS[kind.kind] = kind
    return kind


def load_encoder(path: Path | str) -> Encoder:
    """Read an encoder's file; what is wrong is said in one line with the name of the file."""
    path = Path(path)
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidInput(f"{path.name} must have at most {_LARGEST} bytes, got {path.stat().st_size}")
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path.name} must be the file of an encoder, got an error: {error}") from None
    kind = said.pop("kind", None)
    if said.pop("format", None) != FORMAT or not isinstance(kind, str) or kind not in ENCODERS:
        known = " or ".join(sorted(ENCODERS))
        raise InvalidInput(f"{path.name} must be of format {FORMAT!r} and of kind {known}, got {kind!r:.80}")
    return _encoder(ENCODERS[kind], said, path).beside(path.parent)


def _encoder(kind: type[Encoder], said: dict[str, Any], path: Path) -> Encoder:
    known = {one.name: str(one.type) for one in fields(kind)}
    names = sorted({*known, "kind"})
    if strange := sorted(set(said) - set(known)):
        raise InvalidInput(f"{path.name} must hold only {', '.join(names)}, got {strange[0]!r}")
    try:
        return kind(**{key: _value(key, value, known[key]) for key, value in said.items()})
    except TypeError as error:
        raise InvalidInput(f"{path.name} must be complete, got an error: {error}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{path.name}: {error}") from None


_TYPES: dict[str, tuple[type, str]] = {
    "int": (int, "a whole number"),
    "float": (float, "a number with a point"),
    "str": (str, "a text"),
    "tuple[float, ...]": (list, "a list of numbers with a point"),
}


def _value(name: str, value: Any, kind: str) -> Any:
    """A value of the type that a field has."""
    made, words = _TYPES[kind]
    wrong = isinstance(value, list) and any(type(one) is not float for one in value)
    if type(value) is not made or wrong:
        raise InvalidInput(f"{name} must be {words}, got {value!r:.80}")
    return tuple(value) if isinstance(value, list) else value


def _listed(values: JsonObject) -> JsonObject:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def beside_or_named(name: str, folder: Path | None, variable: str) -> Path:
    """A file of this name in the folder, or else in the one that the environment variable names."""
    named = os.environ.get(variable)
    folders = [one for one in (folder, Path(named) if named else None) if one is not None]
    for one in folders:
        if (one / name).is_file():
            return one / name
    where = " or ".join(repr(str(one)) for one in folders) or "no folder"
    raise InvalidInput(f"{name} must be beside the encoder's file or in the folder {variable}, got {where} without it")
