"""An ONNX file by its hash, run by onnxruntime on one core, in the same order on every machine."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput

ENCODERS_VARIABLE = "CODEDFL_ENCODERS"


def open_session(model: str, folder: Path | None = None) -> Any:
    """A session of onnxruntime for the file ``MODEL.onnx`` of this SHA-256; another content is refused.

    folder: where it is looked for before the folder that CODEDFL_ENCODERS names.
    """
    try:
        import onnxruntime  # an extra
    except ImportError:
        message = "onnxruntime must be installed for onnx features: pip install 'codedfl[encoder]'"
        raise InvalidInput(message) from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # sums in the same order on every machine
    options.log_severity_level = 4  # what is wrong is raised
    # Weights beside the file would not be in its hash: there is nothing in this folder.
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
    content = model_content(model, folder)
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's have no base of their own
        raise InvalidInput(f"the encoder must be one whole ONNX file, got an error: {first_line(error)}") from None


def model_content(model: str, folder: Path | None) -> bytes:
    """The file of this hash; another content is refused."""
    path = _path(model, folder)
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != model:
        raise InvalidInput(f"the encoder must have the SHA-256 {model}, got {found}")
    return content


def _path(model: str, folder: Path | None) -> Path:
    if folder is not None and (folder / f"{model}.onnx").is_file():
        return folder / f"{model}.onnx"
    named = os.environ.get(ENCODERS_VARIABLE)
    if not named:
        raise InvalidInput(f"{ENCODERS_VARIABLE} must name the folder that has {model}.onnx, got nothing")
    path = Path(named) / f"{model}.onnx"
    if not path.is_file():
        raise InvalidInput(f"the encoder must be in the folder {ENCODERS_VARIABLE}, got no {str(path)!r}")
    return path


def run_session(session: Any, inputs: list[NDArray[Any]], width: int) -> NDArray[Any]:
    """The first output for these inputs, as rows of ``width`` finite numbers; anything else is refused."""
    entries = session.get_inputs()
    if len(entries) != len(inputs):
        raise InvalidInput(f"the encoder must have {len(inputs)} inputs, got {len(entries)}")
    rows = len(inputs[0])
    try:
        found = session.run(None, {entry.name: values for entry, values in zip(entries, inputs, strict=True)})[0]
    except Exception as error:
        raise InvalidInput(f"the encoder must run on rows, got an error: {first_line(error)}") from None
    found = np.asarray(found)
    if found.size != rows * width or found.shape[:1] != (rows,):
        raise InvalidInput(f"the encoder must give {width} features per row, got shape {found.shape} of {rows} rows")
    if not np.isfinite(found).all():
        raise InvalidInput("the encoder must give finite features, got other values")
    return found.reshape(rows, width)


def first_line(error: Exception) -> str:
    """What an error says, at most 200 characters of it."""
    return str(error).partition("\n")[0][:200]
