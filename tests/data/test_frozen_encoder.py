"""Features of a frozen encoder: found by its hash, clipped to its bound, refused where it is not what was agreed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from codedfl.analyses.scoring import NumberScore
from codedfl.authoring.check import check_table
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.contract.words import explain
from codedfl.data.features import feature_map_from_dict
from codedfl.data.features.onnx import FrozenEncoder
from codedfl.data.model import TrainedModel
from codedfl.data.onnx_session import ENCODERS_VARIABLE
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import words_of
from rehearsals import parts_of, rehearsed

WEIGHTS = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
ROWS = np.random.default_rng(1).uniform(size=(300, 4))  # more than a block
ANY_ROWS = "rows"
STUDY = """
format = "codedfl-study-2"
name = "encoded"
[[column]]
name = "a"
kind = "number"
range = [0, 1]
step = 0.0000152587890625
[[column]]
name = "b"
kind = "number"
range = [0, 1]
step = 0.0000152587890625
[[column]]
name = "c"
kind = "number"
range = [0, 1]
step = 0.0000152587890625
[[column]]
name = "d"
kind = "number"
range = [0, 1]
step = 0.0000152587890625
[target]
name = "y"
range = [-2, 2]
step = 0.00006103515625
[features]
kind = "onnx"
count = 6
encoder = "HASH"
bound = 1
[protection]
least_participants = 3
max_rows = 512
max_rows_per_device = 128
"""


def graph(last: str = "Tanh", shape: Sequence[int | str] = (ANY_ROWS, 4), kind: int = TensorProto.FLOAT) -> Any:
    """x -> last(x W), of rows that are flattened first."""
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "W"], ["product"]),
        helper.make_node(last, ["product"], ["y"]),
    ]
    inputs = prod(one for one in shape[1:] if isinstance(one, int))
    weights = np.resize(WEIGHTS, (inputs, 6)).astype(helper.tensor_dtype_to_np_dtype(kind))
    return helper.make_model(
        helper.make_graph(
            nodes,
            "encoder",
            [helper.make_tensor_value_info("x", kind, shape)],
            [helper.make_tensor_value_info("y", kind, [shape[0], 6])],
            [numpy_helper.from_array(weights, "W")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ENCODERS_VARIABLE, str(tmp_path))
    return tmp_path


def kept(folder: Path, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()
    (folder / f"{digest}.onnx").write_bytes(content)
    return digest


def made(folder: Path, n_features: int = 6, bound: float = 1.0, **of_graph: Any) -> FrozenEncoder:
    return FrozenEncoder(4, n_features, bound, kept(folder, graph(**of_graph).SerializeToString()))


@pytest.mark.parametrize("shape", [(ANY_ROWS, 4), (ANY_ROWS, 1, 2, 2)])
@pytest.mark.parametrize("kind", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_features_are_what_the_encoder_gives(folder: Path, shape: Sequence[int | str], kind: int):
    features = made(folder, shape=shape, kind=kind).transform(ROWS)
    assert features.dtype == np.float64
    np.testing.assert_allclose(features, np.tanh(ROWS @ WEIGHTS), atol=1e-6)


def test_what_lies_beyond_the_bound_is_clipped_and_counted(folder: Path):
    expected = ROWS @ WEIGHTS
    beyond = int((np.abs(expected) > 0.5).sum())
    assert beyond > 0
    with pytest.warns(UserWarning, match=rf"^beyond the encoder's bound 0\.5: {beyond} of 1800 features, clipped$"):
        features = made(folder, bound=0.5, last="Identity").transform(ROWS)
    np.testing.assert_allclose(features, np.clip(expected, -0.5, 0.5), atol=1e-6)
    assert np.abs(features).max() == 0.5


def test_a_map_is_made_again_from_its_file_without_the_encoder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(ENCODERS_VARIABLE, raising=False)
    first = FrozenEncoder(4, 6, 2.0, "0a" * 32)
    again = feature_map_from_dict(first.to_dict())
    assert again == first and again.definition() == first.definition()
    assert replace(first, encoder="0b" * 32).definition() != first.definition()
    message = f"CODEDFL_ENCODERS must name the folder that has {'0a' * 32}.onnx, got nothing"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        again.transform(ROWS)


def test_only_the_file_of_the_hash_is_taken(folder: Path):
    encoder = made(folder)
    file = folder / f"{encoder.encoder}.onnx"
    other = graph(last="Sin").SerializeToString()
    file.write_bytes(other)
    message = f"the encoder must have the SHA-256 {encoder.encoder}, got {hashlib.sha256(other).hexdigest()}"
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        encoder.transform(ROWS)
    file.unlink()
    message = f"the encoder must be in the folder CODEDFL_ENCODERS, got no {str(file)!r}"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        encoder.transform(ROWS)


def test_weights_outside_of_the_hashed_file_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    onnx.save_model(graph(), "e.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    assert (folder / "weights").is_file()
    encoder = FrozenEncoder(4, 6, 1.0, kept(folder, (folder / "e.onnx").read_bytes()))
    with pytest.raises(InvalidInput, match=r"^the encoder must be one whole ONNX file, got an error: .*External data"):
        encoder.transform(ROWS)


@pytest.mark.parametrize(
    ("of_graph", "n_features", "message"),
    [
        ({"shape": (2, 4)}, 6, "the encoder must take any number of rows of 4 columns, got shape [2, 4]"),
        ({"shape": (ANY_ROWS, 5)}, 6, "the encoder must take any number of rows of 4 columns, got shape ['rows', 5]"),
        ({"kind": TensorProto.INT64, "last": "Abs"}, 6,
         "the encoder must have one input, of float32 or float64, got tensor(int64)"),
        ({}, 5, "the encoder must give 5 features per row, got shape (256, 6) of 256 rows"),
        ({"last": "Log"}, 6, "the encoder must give finite features, got other values"),
    ],
)  # fmt: skip
def test_an_encoder_that_does_not_fit(folder: Path, of_graph: dict[str, Any], n_features: int, message: str):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        made(folder, n_features, **of_graph).transform(ROWS)


def test_what_is_no_encoder(folder: Path):
    with pytest.raises(InvalidInput, match=r"^the encoder must be one whole ONNX file, got an error: "):
        FrozenEncoder(4, 6, 1.0, kept(folder, b"no graph")).transform(ROWS)
    with pytest.raises(InvalidInput, match=r"^encoder must be a SHA-256 of 64 hexadecimal digits, got '\.\./x'$"):
        FrozenEncoder(4, 6, 1.0, "../x")
    with pytest.raises(InvalidInput, match=r"^bound must be a positive number, got 0\.0$"):
        FrozenEncoder(4, 6, 0.0, "0a" * 32)
    with pytest.raises(InvalidInput, match=r"^n_features must be at least 1, got 0$"):
        FrozenEncoder(4, 0, 1.0, "0a" * 32)
    with pytest.raises(InvalidInput, match=r"^a saved encoder must be complete, got KeyError"):
        FrozenEncoder.from_dict({"kind": "frozen-encoder"})


# -- in a study


def table() -> RawTable:
    columns = {name: ROWS[:, j] for j, name in enumerate("abcd")}
    return as_raw_table({**columns, "y": np.tanh(ROWS @ WEIGHTS) @ np.linspace(-0.5, 0.5, 6)}, "t.csv")


def study_of(folder: Path) -> Study:
    return parse_study(STUDY.replace("HASH", kept(folder, graph().SerializeToString())))


def test_a_study_learns_what_the_encoder_sees(folder: Path):
    done = rehearsed(study_of(folder), parts_of(table(), 4)).findings
    assert isinstance(done.score, NumberScore)
    assert done.score.r_squared > 0.999  # the target is linear in the encoder's outputs, and not in the columns
    file = folder / "model.safetensors"
    done.model.save(file)
    again = TrainedModel.load(file)
    assert np.array_equal(again.predict(table()), done.model.predict(table()))


def test_a_device_is_told_before_a_run_that_it_has_no_encoder(folder: Path):
    study = study_of(folder)
    small = parts_of(table(), 4)["device-0"]
    assert check_table(study, small).usable
    (file,) = folder.glob("*.onnx")
    file.unlink()
    found = check_table(study, small)
    assert found.objections == (f"the encoder must be in the folder CODEDFL_ENCODERS, got no {str(file)!r}",)
    assert not found.usable


def test_an_encoder_shows_no_more_than_other_features_of_that_number(folder: Path):
    encoded = study_of(folder)
    random = replace(encoded, features="rbf", encoder=None, encoder_bound=None)
    seen, seen_of_random = (explain(one, words=words_of(one))[2:4] for one in (encoded, random))
    # Its outputs are counted by the census, which those of random features need not be: nothing else differs.
    counted = [one for section in seen for one in section.answers]
    drawn = [one for section in seen_of_random for one in section.answers]
    assert [one for one in counted if "census" not in one] == [one for one in drawn if "census" not in one]
    assert any(f"6 outputs of the encoder {encoded.encoder}" in one for one in explain(encoded)[1].answers)
    assert encoded.digest() != replace(encoded, encoder="0a" * 32).digest() != random.digest()
    assert encoded.digest() != replace(encoded, encoder_bound=2.0).digest()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('encoder = "HASH"\n', "", "encoder must be said for onnx features, got nothing"),
        ("bound = 1\n", "", "encoder_bound must be said for onnx features, got nothing"),
        ("bound = 1\n", "bound = -1\n", "bound must be a positive number, got -1.0"),
        ("HASH", "0A", "encoder must be a SHA-256 of 64 hexadecimal digits, got '0A'"),
        ('"onnx"', '"rbf"', "encoder must be left out with rbf features, got HASH"),
    ],
)
def test_a_study_that_does_not_say_which_encoder(old: str, new: str, message: str):
    assert old in STUDY
    text = STUDY.replace(old, new).replace("HASH", "HASH" if "HASH" in message else "0a" * 32)
    with pytest.raises(InvalidInput, match=f"^s: {re.escape(message)}$"):
        parse_study(text, "s")
