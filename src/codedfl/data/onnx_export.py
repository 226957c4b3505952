"""A trained model as an ONNX graph in double precision: scaling, clipping, features, scores, and labels of them.

Written node by node: skl2onnx has no converter for random Fourier features, and clipping is no part of scikit-learn's
pipeline. ``onnx`` is an extra.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper

from codedfl.data.features import LinearFeatures, PrincipalFourierFeatures, RandomFourierFeatures
from codedfl.data.labels import ClassLabels
from codedfl.data.recipe import Recipe
from codedfl.errors import InvalidInput
from codedfl.typing import Floats

INPUT, LABEL, SCORES = "X", "label", "scores"
_OPSET, _IR_VERSION = 17, 8


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


def as_onnx(theta: Floats, recipe: Recipe) -> Any:
    """See ``TrainedModel.to_onnx``."""
    graph = _Graph()
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
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "codedfl",
            [helper.make_tensor_value_info(INPUT, TensorProto.DOUBLE, ["rows", recipe.n_columns])],
            [
                helper.make_tensor_value_info(LABEL, kind, ["rows"]),
                helper.make_tensor_value_info(SCORES, TensorProto.DOUBLE, ["rows", recipe.n_outputs]),
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
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
