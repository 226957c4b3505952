"""Exports that need no torch; what a missing package is told as. The others are compared with torch as they export."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from codedfl.data.encoders import TextEncoder, load_encoder
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


@pytest.mark.parametrize("name", ["smells", "timm", "wordllama:large"])
def test_an_unknown_encoder_is_refused(tmp_path: Path, name: str):
    with pytest.raises(InvalidInput, match=r"^encoder must be efficientnet-lite0, efficientnet-lite0-96, "):
        export_encoder(name, tmp_path)
