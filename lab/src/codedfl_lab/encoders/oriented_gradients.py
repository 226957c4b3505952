"""Small pictures in one colour by where their edges lead: no weights, nothing learnt, and few numbers.

The gradient of each pixel is split over eight directions, its part in each is averaged over squares of seven pixels,
and random Fourier features of the square roots of these means, as a vector of length 1, stand for the picture.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from codedfl.data.encoders import PictureEncoder
from codedfl.errors import InvalidInput
from codedfl_lab.encoders.export import Exported, hash_of, without_marks

SIDE, _CELL, _DIRECTIONS = 28, 7, 8
_GAMMA = 0.5  # of the kernel exp(-gamma |x - x'|^2) of vectors of length 1
_STEP = 2.0**-6


def export(width: str) -> Exported:
    """width: how many random features, such as "400"."""
    if not width.isdecimal() or not int(width):
        raise InvalidInput(f"oriented-gradients must be followed by a number of features, got {width!r}")
    return made(int(width))


def made(width: int, seed: int = 0) -> Exported:
    """The encoder of this number of features, drawn by a public seed."""
    content = without_marks(_graph(width, seed))
    encoder = PictureEncoder(
        hash_of(content),
        width,
        *(-1.0, 1.0, _STEP),
        source=f"oriented gradients, seed {seed}",
        side=SIDE,
        resize=SIDE,
        mean=(0.0,) * 3,
        deviation=(1.0,) * 3,
    )
    return Exported(f"oriented-gradients-{width}", encoder, {"onnx": content})


def _graph(width: int, seed: int) -> helper.ModelProto:
    angles = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    across = np.zeros((3, 3))
    across[1] = -0.5, 0.0, 0.5
    filters = np.cos(angles)[:, None, None] * across + np.sin(angles)[:, None, None] * across.T
    cells = _DIRECTIONS * (SIDE // _CELL) ** 2
    random = np.random.RandomState(seed)  # its draws never change
    weights, offsets = random.normal(size=(cells, width)), random.uniform(0, 2 * np.pi, width)
    constants = {
        "filters": filters[:, None].astype(np.float32),
        "weights": ((2 * _GAMMA) ** 0.5 * weights).astype(np.float32),
        "offsets": offsets.astype(np.float32),
        "least": np.array([1e-6], dtype=np.float32),  # of a length: a picture of one colour has no edges
        "colours": np.array([1]),
    }
    nodes = [
        helper.make_node("ReduceMean", ["pictures", "colours"], ["grey"], keepdims=1),
        helper.make_node("Conv", ["grey", "filters"], ["slopes"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["slopes"], ["parts"]),
        helper.make_node("AveragePool", ["parts"], ["means"], kernel_shape=[_CELL] * 2, strides=[_CELL] * 2),
        helper.make_node("Sqrt", ["means"], ["roots"]),
        helper.make_node("Flatten", ["roots"], ["rows"]),
        helper.make_node("ReduceL2", ["rows", "colours"], ["length"], keepdims=1),
        helper.make_node("Max", ["length", "least"], ["divisor"]),
        helper.make_node("Div", ["rows", "divisor"], ["unit"]),
        helper.make_node("Gemm", ["unit", "weights", "offsets"], ["turned"]),
        helper.make_node("Cos", ["turned"], ["embeddings"]),
    ]
    graph = helper.make_graph(
        nodes,
        "oriented gradients",
        [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["rows", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["rows", width])],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
