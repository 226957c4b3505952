"""Encoders small enough to check by hand: a linear map of pixels, and a mean of rows of a table of pieces."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from codedfl.data.encoders import PictureEncoder, TextEncoder

SIDE, WIDTH = 4, 5
WEIGHTS = np.random.default_rng(3).normal(size=(3 * SIDE * SIDE, WIDTH)).astype(np.float32) / 8
PIECES = np.random.default_rng(4).normal(size=(6, WIDTH)).astype(np.float32)


def kept(folder: Path, content: bytes, ending: str = "onnx") -> str:
    digest = hashlib.sha256(content).hexdigest()
    (folder / f"{digest}.{ending}").write_bytes(content)
    return digest


def graph(nodes: list[Any], inputs: list[Any], constants: dict[str, Any]) -> bytes:
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "encoder",
            inputs,
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", WIDTH])],
            [numpy_helper.from_array(values, name) for name, values in constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    return bytes(model.SerializeToString())


def picture_encoder(folder: Path, **said: Any) -> PictureEncoder:
    """(pixels / 255 - 0.5) / 0.5, flattened, times WEIGHTS."""
    nodes = [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "W"], ["y"])]
    entry = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3, SIDE, SIDE])
    model = kept(folder, graph(nodes, [entry], {"W": WEIGHTS}))
    values = {"low": -4.0, "high": 4.0, "step": 2.0**-10, "side": SIDE, "resize": SIDE, **said}
    made = PictureEncoder(model, WIDTH, **values)
    made.beside(folder)
    return made


def text_encoder(folder: Path) -> TextEncoder:
    """The mean of the rows of PIECES of a text's words; the words are "p0" to "p5"."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({f"p{place}": place for place in range(6)}, unk_token="p5"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    nodes = [
        helper.make_node("Gather", ["T", "pieces"], ["rows"]),
        helper.make_node("Cast", ["there"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["rows", "wide"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "one"], ["sum"], keepdims=0),
        helper.make_node("ReduceSum", ["wide", "one"], ["count"], keepdims=0),
        helper.make_node("Div", ["sum", "count"], ["y"]),
    ]
    entries = [helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "k"]) for name in ("pieces", "there")]
    constants = {"T": PIECES, "one": np.array([1]), "last": np.array([2])}
    model = kept(folder, graph(nodes, entries, constants))
    words = kept(folder, tokenizer.to_str().encode(), "json")
    made = TextEncoder(model, WIDTH, -4.0, 4.0, 2.0**-10, tokenizer=words, most_pieces=4)
    made.beside(folder)
    return made
