"""Texts by the package wordllama (MIT): the mean of one vector per piece. Needs neither torch nor its code."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from codedfl.data.encoders import TextEncoder
from codedfl_lab.encoders.export import Exported, hash_of, without_marks

_WEIGHTS, _WORDS = "l2_supercat_256.safetensors", "l2_supercat_tokenizer_config.json"
# Of means over few pieces; the step leaves 32 bits for a hundred thousand texts.
_LIMIT, _STEP = 4.0, 0.0625


def export() -> Exported:
    """By the files of the installed package."""
    weights, words = _file(_WEIGHTS), json.loads(_file(_WORDS).read_text(encoding="utf-8"))
    words["post_processor"] = None  # the package adds no marks of beginning and end
    tokenizer = json.dumps(words, sort_keys=True).encode()
    (vectors,) = load_file(weights).values()
    content = without_marks(mean_of_rows(vectors.astype(np.float32)))
    encoder = TextEncoder(
        hash_of(content),
        vectors.shape[1],
        -_LIMIT,
        _LIMIT,
        _STEP,
        source="wordllama, l2_supercat",
        licence="MIT",
        tokenizer=hash_of(tokenizer),
        most_pieces=1024,
    )
    return Exported("wordllama", encoder, {"onnx": content, "json": tokenizer})


def _file(name: str) -> Path:
    try:
        found = [one for one in files("wordllama") or () if one.name == name]
    except PackageNotFoundError:
        raise ImportError(name="wordllama") from None
    if not found:
        raise ImportError(name=f"wordllama with {name}")
    return Path(str(found[0].locate()))


def mean_of_rows(table: Any) -> Any:
    """A graph that takes the mean of a table's rows, of those places that are there."""
    nodes = [
        helper.make_node("Gather", ["table", "pieces"], ["rows"]),
        helper.make_node("Cast", ["there"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["rows", "wide"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "middle"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["wide", "middle"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["embeddings"]),
    ]
    entries = [helper.make_tensor_value_info(name, TensorProto.INT64, ["rows", "size"]) for name in ("pieces", "there")]
    constants = {"table": table, "last": np.array([2]), "middle": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "mean",
        entries,
        [helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["rows", table.shape[1]])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
