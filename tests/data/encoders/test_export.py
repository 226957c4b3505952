"""Exports that need no torch; what a missing package is told as. The others are compared with torch as they export."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from codedfl.data.encoders import Items, TextEncoder, encode, load_encoder
from codedfl.errors import InvalidInput
from codedfl_lab.encoders import export_encoder
from codedfl_lab.encoders.export import Exported, hash_of, without_marks
from codedfl_lab.encoders.wordllama import mean_of_rows


def test_an_exported_encoder_is_found_by_its_hashes(tmp_path: Path):
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    content = without_marks(mean_of_rows(table))
    encoder = TextEncoder(hash_of(content), 3, 0.0, 16.0, 0.5, tokenizer=hash_of(b"{}"))
    path = Exported("means", encoder, {"onnx": content, "json": b"{}"}).write(tmp_path)
    again = load_encoder(path)
    assert again == encoder
    np.testing.assert_array_equal(again.run([[0, 2], [3]]), [[3, 4, 5], [9, 10, 11]])


def test_what_an_exporter_notes_about_a_machine_is_not_in_the_file():
    clean = without_marks(mean_of_rows(np.zeros((2, 2), dtype=np.float32)))
    marked = mean_of_rows(np.zeros((2, 2), dtype=np.float32))
    helper.set_model_props(marked, {"made": "at home"})
    marked.graph.node[0].doc_string = "File /home/somebody/model.py"
    marked.producer_version = "9"
    assert without_marks(marked) == clean


def test_a_source_that_needs_a_package_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    message = r"^timm must be installed to export timm: pip install 'codedfl-lab\[export\]' timm; no device needs it$"
    with pytest.raises(InvalidInput, match=message):
        export_encoder("timm:resnet18", tmp_path)


def test_oriented_gradients_are_those_of_a_plain_loop(tmp_path: Path):
    pictures = np.random.default_rng(0).integers(0, 256, size=(3, 28, 28), dtype=np.uint8)
    pictures[0] = 7  # no edges but those of the frame
    pictures[2] = 0  # none at all
    encoder = load_encoder(export_encoder("oriented-gradients:30", tmp_path))
    found = encode(encoder, Items(pictures, ["a", "b", "c"])).values
    random = np.random.RandomState(0)
    weights, offsets = random.normal(size=(128, 30)), random.uniform(0, 2 * np.pi, 30)
    for picture, numbers in zip(pictures, found, strict=True):
        framed = np.pad(picture / 255, 1)
        means = np.zeros((8, 4, 4))
        for direction, i, j in np.ndindex(8, 28, 28):
            across, down = framed[i + 1, j + 2] - framed[i + 1, j], framed[i + 2, j + 1] - framed[i, j + 1]
            part = (np.cos(np.pi * direction / 4) * across + np.sin(np.pi * direction / 4) * down) / 2
            means[direction, i // 7, j // 7] += max(part, 0) / 49
        roots = np.sqrt(means).ravel()
        expected = np.cos(roots / max(np.linalg.norm(roots), 1e-6) @ weights + offsets)
        np.testing.assert_allclose(numbers, expected, atol=2.0**-7 + 1e-3)
    assert not np.allclose(found[0], found[1], atol=0.1)


def test_oriented_gradients_want_a_number(tmp_path: Path):
    with pytest.raises(InvalidInput, match=r"^oriented-gradients must be followed by a number of features, got 'x'$"):
        export_encoder("oriented-gradients:x", tmp_path)


@pytest.mark.parametrize("name", ["smells", "timm", "wordllama:large"])
def test_an_unknown_encoder_is_refused(tmp_path: Path, name: str):
    with pytest.raises(InvalidInput, match=r"^encoder must be efficientnet-lite0, efficientnet-lite0-96, "):
        export_encoder(name, tmp_path)
