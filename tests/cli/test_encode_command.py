"""``codedfl site encode``: a folder of pictures becomes a table, and damaged pictures are named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_runner import invoke
from PIL import Image

from codedfl.data.tables import read_file
from codedfl_lab.encoders import SOURCES
from made_up_encoders import SIDE, WIDTH, picture_encoder, text_encoder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def pictures(folder: Path) -> Path:
    random = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (folder / label).mkdir(parents=True)
        for place in range(3):
            pixels = random.integers(0, 256, size=(SIDE, SIDE, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{place}.png")
    return folder


def test_pictures_become_a_table(tmp_path: Path):
    folder = pictures(tmp_path / "pictures")
    (folder / "dog" / "1.png").write_bytes(b"no picture")
    encoder = picture_encoder(tmp_path)
    encoder.save(tmp_path / "e.toml")
    out = tmp_path / "table.npz"
    done = invoke(
        "site", "encode", folder, "--encoder", tmp_path / "e.toml", "--out", out, "--label", "animal", "--json", "-"
    )
    assert done.exit_code == 0
    assert f'encoder = "{encoder.digest()}"' in done.stderr
    assert "left out: dog/1.png: UnidentifiedImageError" in done.stderr
    said = json.loads(done.stdout)
    assert said["encoder"] == encoder.digest() and said["rows"] == 5
    assert [one["name"] for one in said["damaged"]] == ["dog/1.png"]
    table = read_file(out)
    assert len(table) == 5 and table.column(f"x{WIDTH - 1}").dtype == np.float64
    assert table.encoder == encoder.digest()
    assert table.column("animal").tolist() == ["cat"] * 3 + ["dog"] * 2
    assert list((tmp_path / "cache" / "codedfl" / "embeddings").rglob("*.npy"))


def test_texts_of_a_table_become_a_table(tmp_path: Path):
    text_encoder(tmp_path).save(tmp_path / "e.toml")
    (tmp_path / "notes.csv").write_text("note,y\np0 p1,a\np2,b\n")
    arguments = ("--encoder", tmp_path / "e.toml", "--out", tmp_path / "t.npz", "--text", "note", "--label", "y")
    assert invoke("site", "encode", tmp_path / "notes.csv", *arguments).exit_code == 0
    assert read_file(tmp_path / "t.npz").column("y").tolist() == ["a", "b"]


def test_a_table_must_end_in_npz(tmp_path: Path):
    done = invoke("site", "encode", tmp_path, "--encoder", tmp_path / "e.toml", "--out", tmp_path / "t.csv")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --out must end in .npz, got ")


def test_the_command_lists_the_sources():
    shown = invoke("lab", "data", "encoder")
    assert shown.exit_code == 0
    assert all(name in shown.stdout for name in SOURCES)
