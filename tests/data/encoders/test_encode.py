"""From pictures and texts to embeddings: by the recipe, on the grid, from the cache, and never with a crash."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from codedfl.data.encoders import Items, encode, load_encoder, pictures_of, texts_of
from codedfl.data.encoders.encode import BLOCK
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from made_up_encoders import PIECES, SIDE, WEIGHTS, WIDTH, picture_encoder, text_encoder

PICTURES = np.random.default_rng(0).integers(0, 256, size=(BLOCK + 40, SIDE, SIDE, 3), dtype=np.uint8)
HALF_STEP = 2.0**-11


def expected(pictures: np.ndarray) -> np.ndarray:
    scaled = (pictures.astype(np.float64) / 255 - 0.5) / 0.5
    return np.clip(scaled.transpose(0, 3, 1, 2).reshape(len(pictures), -1) @ WEIGHTS, -4, 4)


def items(pictures: np.ndarray = PICTURES) -> Items:
    return Items(pictures, [f"picture {place}" for place in range(len(pictures))])


def folder_of(path: Path) -> Path:
    for label in ("cat", "dog"):
        (path / label).mkdir(parents=True)
        for place in range(3):
            Image.fromarray(PICTURES[place]).save(path / label / f"{place}.png")
    return path


def test_pictures_become_what_the_recipe_and_the_model_say(tmp_path: Path):
    found = encode(picture_encoder(tmp_path), items())
    assert found.values.shape == (len(PICTURES), WIDTH) and found.damaged == () and found.clipped == 0
    np.testing.assert_allclose(found.values, expected(PICTURES), atol=HALF_STEP + 1e-5)


def test_outputs_lie_on_the_grid_and_those_beyond_it_are_counted(tmp_path: Path):
    encoder = replace(picture_encoder(tmp_path), low=-0.5, high=0.5, step=0.25).beside(tmp_path)
    found = encode(encoder, items())
    assert set(np.unique(found.values)) == {-0.5, -0.25, 0.0, 0.25, 0.5}
    assert found.clipped == int((np.abs(expected(PICTURES)) > 0.5).sum()) > 0


def test_a_picture_is_resized_by_its_shorter_side_and_cropped_at_the_centre(tmp_path: Path):
    encoder = picture_encoder(tmp_path, resize=SIDE + 2, resample="nearest")
    wide = np.random.default_rng(1).integers(0, 256, size=(SIDE + 2, SIDE + 6, 3), dtype=np.uint8)
    found = encode(encoder, Items([wide], ["wide"]))
    middle = wide[1 : 1 + SIDE, 3 : 3 + SIDE]
    np.testing.assert_allclose(found.values, expected(middle[None]), atol=HALF_STEP + 1e-5)


def test_grey_pictures_have_three_equal_colours(tmp_path: Path):
    found = encode(picture_encoder(tmp_path), items(PICTURES[:5, :, :, 0]))
    np.testing.assert_allclose(found.values, expected(PICTURES[:5, :, :, :1].repeat(3, 3)), atol=HALF_STEP + 1e-5)


def test_a_damaged_picture_is_named_and_counted_and_costs_the_others_nothing(tmp_path: Path):
    folder = folder_of(tmp_path / "pictures")
    (folder / "cat" / "1.png").write_bytes((folder / "cat" / "1.png").read_bytes()[:40])
    (folder / "dog" / "2.png").write_text("no picture")
    encoder = picture_encoder(tmp_path)
    cache = tmp_path / "cache"
    for _ in range(2):  # the second time from the cache
        found = encode(encoder, pictures_of(folder), cache)
        assert [one.name for one in found.damaged] == ["cat/1.png", "dog/2.png"]
        assert all(one.reason for one in found.damaged)
        assert found.labels.tolist() == ["cat", "cat", "dog", "dog"] and found.kept.tolist() == [0, 2, 3, 4]
        np.testing.assert_allclose(found.values, expected(PICTURES[[0, 2, 0, 1]]), atol=HALF_STEP + 1e-5)


def test_a_bomb_is_a_damaged_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    folder = folder_of(tmp_path / "pictures")
    with pytest.raises(InvalidInput, match=r"^items must have one that is whole, got cat/0\.png: Decompression"):
        encode(picture_encoder(tmp_path), pictures_of(folder))


def test_the_cache_is_read_for_the_same_pictures_and_recipe_alone(tmp_path: Path):
    encoder, cache = picture_encoder(tmp_path), tmp_path / "cache"
    first = encode(encoder, items(), cache)
    files = sorted(cache.rglob("*.npy"))
    assert len(files) == 2  # blocks
    np.save(files[0], np.full_like(np.load(files[0]), 1.0))
    again = encode(encoder, items(), cache)
    assert (again.values == 1.0).all(axis=1).sum() == len(np.load(files[0]))
    files[0].write_bytes(b"damaged")
    assert np.array_equal(encode(encoder, items(), cache).values, first.values)
    other = replace(encoder, mean=(0.4, 0.5, 0.5)).beside(tmp_path)
    assert not np.array_equal(encode(other, items(), cache).values, first.values)
    coarser = replace(encoder, step=0.5).beside(tmp_path)  # the grid comes after the cache
    assert set(np.unique(encode(coarser, items(), cache).values * 2) % 1) == {0.0}
    changed = PICTURES.copy()
    changed[0, 0, 0, 0] ^= 128
    assert not np.array_equal(encode(encoder, items(changed), cache).values[0], first.values[0])


def test_progress_is_told_block_by_block(tmp_path: Path):
    told: list[tuple[int, int]] = []
    encode(picture_encoder(tmp_path), items(), progress=lambda done, of: told.append((done, of)))
    assert told == [(BLOCK, len(PICTURES)), (len(PICTURES), len(PICTURES))]


def test_texts_are_cut_into_pieces_and_cut_off(tmp_path: Path):
    table = as_raw_table({"note": ["p0 p1", "p2", "p0 p1 p2 p3 p4 p4"], "y": ["a", "b", "a"]}, "t.csv")
    found = encode(text_encoder(tmp_path), texts_of(table, "note", "y"))
    means = [PIECES[[0, 1]].mean(axis=0), PIECES[2], PIECES[:4].mean(axis=0)]
    np.testing.assert_allclose(found.values, means, atol=HALF_STEP + 1e-6)
    assert found.labels.tolist() == ["a", "b", "a"]
    assert list(found.columns("y")) == ["x0", "x1", "x2", "x3", "x4", "y"]


def test_an_empty_text_is_named(tmp_path: Path):
    found = encode(text_encoder(tmp_path), Items(["p1", " "], ["t.csv, row 1", "t.csv, row 2"]))
    assert [(one.name, one.reason) for one in found.damaged] == [("t.csv, row 2", "it has no text")]


def test_an_encoder_is_read_from_its_file_with_its_model_beside_it(tmp_path: Path):
    encoder = picture_encoder(tmp_path)
    encoder.save(tmp_path / "encoder.toml")
    again = load_encoder(tmp_path / "encoder.toml")
    assert again == encoder and again.digest() == encoder.digest()
    assert np.array_equal(encode(again, items()).values, encode(encoder, items()).values)
    assert replace(encoder, resample="bilinear").digest() != encoder.digest() != replace(encoder, step=0.5).digest()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "pictures"', 'kind = "smells"', "e.toml must be of format 'codedfl-encoder-1' and of kind pictures or"
         " texts, got 'smells'"),
        ("side = 4", "side = 9", "e.toml: resize must be at least 9, got 4"),
        ("side = 4", "sides = 4", "e.toml must hold only deviation, high, kind, licence, low, mean, model, resample,"
         " resize, side, source, step, width, got 'sides'"),
        ('"bicubic"', '"best"', "e.toml: resample must be bicubic or bilinear or lanczos or nearest, got 'best'"),
        ("width = 5", 'width = "5"', "e.toml: width must be a whole number, got '5'"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_encoder(tmp_path: Path, old: str, new: str, message: str):
    picture_encoder(tmp_path).save(tmp_path / "e.toml")
    text = (tmp_path / "e.toml").read_text()
    assert old in text
    (tmp_path / "e.toml").write_text(text.replace(old, new))
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        load_encoder(tmp_path / "e.toml")


def test_what_are_no_pictures(tmp_path: Path):
    np.savez(tmp_path / "a.npz", X=np.zeros((2, 4, 4)))
    message = "X of a.npz must be n x height x width (x 3) of uint8, got (2, 4, 4) of float64"
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        pictures_of(tmp_path / "a.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match=r"must hold pictures \(.*\), got none$"):
        pictures_of(tmp_path / "empty")
    with pytest.raises(InvalidInput, match=r"^pictures must be in a folder or an \.npz file, got 'nowhere'$"):
        pictures_of("nowhere")
