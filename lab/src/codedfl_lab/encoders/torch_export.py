"""A torch module as ONNX bytes, and what torch's models of pictures have in common."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch
from torch import nn

from codedfl.data.encoders import PictureEncoder
from codedfl.errors import InvalidInput
from codedfl_lab.encoders.export import Exported, hash_of, without_marks

_OPSET = 18
_TOLERANCE = 1e-3
# Features beyond it are clipped: what ends in a ReLU6 has none, and others hardly any.
_LOW, _HIGH, _STEP = -8.0, 8.0, 0.0625


def onnx_of(module: nn.Module, examples: Sequence[Any], names: Sequence[str], sizes: Sequence[dict[int, str]]) -> bytes:
    """One ONNX file with everything in it.

    names: of the inputs. sizes: of each input, the axes whose sizes are free, and what they are called.
    """
    free = {name: torch.export.Dim(name) for one in sizes for name in one.values()}
    shapes = [{axis: free[name] for axis, name in one.items()} for one in sizes]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        path = Path(folder, "model.onnx")
        torch.onnx.export(
            module.eval(),
            tuple(examples),
            path,
            input_names=list(names),
            output_names=["embeddings"],
            dynamo=True,
            dynamic_shapes=shapes,
            external_data=False,
            opset_version=_OPSET,
            verbose=False,
        )
        content = without_marks(onnx.load(path))
    _compare(content, module, examples)
    return content


def _compare(content: bytes, module: nn.Module, examples: Sequence[Any]) -> None:
    """An export that computes something else than the model is refused: a mask left out shows in no error."""
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    got = session.run(None, {name: one.numpy() for name, one in zip(names, examples, strict=True)})[0]
    with torch.no_grad():
        expected = module.eval()(*examples).numpy()
    off = float(abs(got - expected).max() / max(1e-6, abs(expected).max()))
    if not off < _TOLERANCE:
        raise InvalidInput(f"the export must compute what the model does, got outputs that are off by {off:.1e}")


def exported_pictures(name: str, module: nn.Module, side: int, **said: Any) -> Exported:
    """An encoder of square pictures in three colours; ``said`` is what else its recipe says."""
    example = torch.linspace(-1, 1, 2 * 3 * side * side).reshape(2, 3, side, side)
    with torch.no_grad():
        width = int(module.eval()(example).shape[1])
    content = onnx_of(module, [example], ["pictures"], [{0: "rows"}])
    values = {"low": _LOW, "high": _HIGH, "step": _STEP, **said}
    encoder = PictureEncoder(hash_of(content), width, side=side, **values)
    return Exported(name, encoder, {"onnx": content})
