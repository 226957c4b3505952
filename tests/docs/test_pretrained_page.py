"""docs/pretrained.md as a reader types it, on small pictures; with an encoder that needs no network trained before."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
from experiments.docs_blocks import Block, a_reader, blocks, page_text
from PIL import Image
from sklearn.datasets import load_digits

from codedfl.data.encoders import load_encoder
from codedfl_lab.encoders import export_encoder

PAGE, NEEDS = "pretrained.md", "needs a pretrained network"
ENCODER, OTHER = "efficientnet-lite0-layers", "oriented-gradients-40"
SITES = ("north", "east", "south", "west")


def test_study_and_estimator_have_ten_lines():
    study, estimator = (next(one.text for one in typed() if word in one.text) for word in ("matrix =", "Embed("))
    assert all(len(list(filter(None, text.splitlines()))) <= 10 for text in (study, estimator))


def test_a_reader_gets_from_a_network_to_a_model(tmp_path: Path):
    with a_reader(tmp_path) as reader:
        folder = tmp_path / "here"
        photos(folder)
        export_encoder(OTHER.replace("-40", ":40"), folder / "encoders")
        for block in typed():
            title = block.title if block.is_file else ""
            reader.type(replace(block, text=adapted(block.text, folder), title=title))
        result = json.loads((folder / "rehearsal" / "result.json").read_text())
        (best,) = (one for one in result["models"] if one["name"] == "best")
        assert best["score"]["accuracy"] > 0.95 and len(best["tried"]) == 7
        session = onnxruntime.InferenceSession(folder / "animals.onnx")
        assert session.get_inputs()[0].shape[1] == 28
        tables = [np.load(folder / "tables" / f"{site}.npz") for site in SITES]
        assert sum(len(one["X"]) for one in tables) == 4 * len(load_digits(n_class=2).target)
        assert len((folder / "predictions.csv").read_text().splitlines()) == 1 + len(tables[0]["X"])


def typed() -> list[Block]:
    """What a reader types or writes."""
    return [one for one in blocks(page_text(PAGE)) if one.title in (NEEDS, "study.toml")]


def photos(folder: Path) -> None:
    """Zeros and ones, each in four places, as cats and dogs, and a damaged one."""
    data = load_digits(n_class=2)
    moved = np.concatenate([np.pad(data.images, ((0, 0), (i, 2 - i), (j, 2 - j))) for i, j in np.ndindex(2, 2)])
    for place, (picture, label) in enumerate(zip(moved, np.tile(data.target, 4), strict=True)):
        path = folder / "photos" / SITES[place % 4] / ("cat", "dog")[label] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((picture * 15).astype(np.uint8)).save(path)
    (folder / "photos" / "north" / "cat" / "torn.png").write_bytes(b"\x89PNG torn")


def adapted(text: str, folder: Path) -> str:
    encoder = load_encoder(folder / "encoders" / f"{OTHER}.toml")
    for old, new in (
        (ENCODER, OTHER),
        ("columns = 1024", f"columns = {encoder.width}"),
        ("range = [-4, 4]", f"range = [{encoder.low}, {encoder.high}]"),
        ("step = 0.0625", f"step = {encoder.step}"),
    ):
        text = text.replace(old, new)
    return re.sub('encoder = "[0-9a-f]{64}"', f'encoder = "{encoder.digest()}"', text)
