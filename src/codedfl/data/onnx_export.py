"""A trained model as an ONNX graph in double precision: scaling, clipping, features, scores, and labels of them.

Written node by node: skl2onnx has no converter for random Fourier features, and clipping is no part of scikit-learn's
pipeline. ``onnx`` is an extra.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from onnx import TensorProto, checker, compose, helper, numpy_helper

from codedfl.data.encoders import Encoder, PictureEncoder
from codedfl.data.features.linear import LinearFeatures
from codedfl.data.features.pca_rbf import PrincipalFourierFeatures
from codedfl.data.features.rbf import RandomFourierFeatures
from codedfl.data.labels import ClassLabels
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.typing import Floats

INPUT, LABEL, SCORES = "X", "label", "scores"
_OPSET, _IR_VERSION = 17, 8
_SCALED = "scaled"


class _Graph:
    """Nodes in a row: each takes the value before it."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.value = INPUT

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def then(self, kind: str, *operands: Any, output: str | None = None, **attributes: Any) -> None:
        name = output or f"v{len(self.nodes)}"
        names = [self.constant(one) for one in operands]
        self.nodes.append(helper.make_node(kind, [self.value, *names], [name], **attributes))
        self.value = name


def as_onnx(theta: Floats, recipe: Recipe, encoder: Encoder | None = None) -> Any:
    """See ``TrainedModel.to_onnx``."""
    if encoder is None:
        return _as_onnx(theta, recipe, None, (_OPSET, _IR_VERSION))
    if encoder.width != recipe.n_columns:
        raise InvalidInput(f"encoder must give the {recipe.n_columns} columns of the model, got {encoder.width}")
    body = encoder.onnx_model()
    opset = next(one.version for one in body.opset_import if not one.domain)
    head = _as_onnx(theta, recipe, encoder, (opset, body.ir_version))
    body = compose.add_prefix(body, "encoder/")
    whole = compose.merge_models(body, head, io_map=[(body.graph.output[0].name, INPUT)])
    if isinstance(encoder, PictureEncoder):
        first = _of_bytes(encoder, (opset, body.ir_version))
        whole = compose.merge_models(first, whole, io_map=[(_SCALED, body.graph.input[0].name)])
    helper.set_model_props(whole, {"encoder": encoder.digest()})
    checker.check_model(whole)
    return whole


def _of_bytes(encoder: PictureEncoder, versions: tuple[int, int]) -> Any:
    """Pictures as bytes of rows x side x side x 3 to what the encoder takes: scaled, and colours first."""
    graph = _Graph()
    graph.then("Cast", to=TensorProto.FLOAT)
    graph.then("Div", np.float32(255))
    graph.then("Sub", np.array(encoder.mean, dtype=np.float32))
    graph.then("Div", np.array(encoder.deviation, dtype=np.float32))
    graph.then("Transpose", perm=[0, 3, 1, 2], output=_SCALED)
    side = encoder.side
    inputs = [helper.make_tensor_value_info(INPUT, TensorProto.UINT8, ["rows", side, side, 3])]
    outputs = [helper.make_tensor_value_info(_SCALED, TensorProto.FLOAT, ["rows", 3, side, side])]
    made = helper.make_graph(graph.nodes, "pictures", inputs, outputs, graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", versions[0])], ir_version=versions[1])
    return compose.add_prefix(model, "bytes/", rename_inputs=False, rename_outputs=False)


def _as_onnx(theta: Floats, recipe: Recipe, encoder: Encoder | None, versions: tuple[int, int]) -> Any:
    graph = _Graph()
    if encoder is not None:  # its outputs on its grid, as they were summed
        graph.then("Cast", to=TensorProto.DOUBLE)
        graph.then("Max", np.float64(encoder.low))
        graph.then("Min", np.float64(encoder.high))
        graph.then("Sub", np.float64(encoder.low))
        graph.then("Div", np.float64(encoder.step))
        graph.then("Round")
        graph.then("Mul", np.float64(encoder.step))
        graph.then("Add", np.float64(encoder.low))
    scaling = recipe.preprocessing
    graph.then("Sub", scaling.shift)
    graph.then("Div", np.where(scaling.scale > 0, scaling.scale, np.inf))  # a constant column becomes 0
    graph.then("Max", np.asarray(scaling.low))
    graph.then("Min", np.asarray(scaling.high))
    _add_features(graph, recipe, theta)
    graph.then("Identity", output=SCORES)
    labels = recipe.labels
    if isinstance(labels, ClassLabels):
        graph.then("ArgMax", axis=1, keepdims=0)
        places = graph.value
        classes = np.asarray(labels.classes)
        text = classes.dtype.kind == "U"
        known = graph.constant(classes.astype(object) if text else classes.astype(np.int64))
        graph.nodes.append(helper.make_node("Gather", [known, places], [LABEL]))
        kind = TensorProto.STRING if text else TensorProto.INT64
    else:
        low, high = recipe.decode(np.array([[-1.0], [1.0]]))
        graph.then("Mul", np.array([(high - low) / 2]))
        graph.then("Add", np.array([(high + low) / 2]))
        graph.then("Reshape", np.array([-1], dtype=np.int64), output=LABEL)
        kind = TensorProto.DOUBLE
    entry = TensorProto.DOUBLE if encoder is None else TensorProto.FLOAT
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "codedfl",
            [helper.make_tensor_value_info(INPUT, entry, ["rows", recipe.n_columns])],
            [
                helper.make_tensor_value_info(LABEL, kind, ["rows"]),
                helper.make_tensor_value_info(SCORES, TensorProto.DOUBLE, ["rows", recipe.n_outputs]),
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", versions[0])],
        ir_version=versions[1],
        producer_name="codedfl",
    )
    helper.set_model_props(model, {"columns": json.dumps(recipe.column_names)})
    checker.check_model(model)
    return model


def _add_features(graph: _Graph, recipe: Recipe, theta: Floats) -> None:
    feature_map = recipe.feature_map
    if isinstance(feature_map, LinearFeatures):
        at_zero = feature_map.transform(np.zeros((1, recipe.n_columns))) @ theta
        graph.then("MatMul", theta[int(feature_map.intercept) :])
        graph.then("Add", at_zero[0])
    elif isinstance(feature_map, RandomFourierFeatures | PrincipalFourierFeatures):
        if isinstance(feature_map, PrincipalFourierFeatures):
            graph.then("Sub", feature_map.principal.centre)
            graph.then("MatMul", feature_map.principal.components)
            feature_map = feature_map.random
        weights, offsets = feature_map.drawn
        graph.then("MatMul", np.asarray(weights, dtype=np.float64))
        graph.then("Add", np.asarray(offsets, dtype=np.float64))
        graph.then("Cos")
        graph.then("MatMul", feature_map.bound * theta)
    else:
        raise InvalidInput(f"to_onnx must have linear, rbf or pca-rbf features, got {feature_map.name!r}")
