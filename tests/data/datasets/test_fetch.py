"""Ways to the files of a data set, against a server on this machine and clients that are small scripts."""

import gzip
import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codedfl.errors import DataUnavailable
from codedfl.files import cache_folder
from codedfl_lab.datasets import fetch_dataset
from codedfl_lab.datasets.fetch import fetch_files
from codedfl_lab.datasets.source import Source, SourceFile

CONTENT = {"images": os.urandom(150_000), "labels": b"0123456789" * 10}
PACKED = {name: gzip.compress(content, mtime=0) for name, content in CONTENT.items()}
FILES = tuple(SourceFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in CONTENT.items())


class Mirror(http.server.ThreadingHTTPServer):
    """Serves `files`; `cut` ends every answer after 50 000 bytes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = {f"{name}.gz": packed for name, packed in PACKED.items()}
        self.cut = False
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        name = self.path[1:]
        self.server.asked.append(name)
        if name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:50_000] if self.server.cut else content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    with Mirror() as server:
        # Shutting down waits for one poll: half a second of it each time would add up.
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh cache, no folder of the user's, no proxy between the test and its own server."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CODEDFL_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache" / "codedfl" / "toy"


def source(address: str = "http://127.0.0.1:9/") -> Source:
    # Port 9 (discard) refuses connections at once.
    return Source("toy", FILES, "Toy", address, "npm pack toy")


def content_of(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


@pytest.mark.parametrize("below", ["toy", "Toy/raw", "."])
@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("by_variable", [True, False])
def test_a_folder_of_the_users_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: str, packed: bool, by_variable: bool
) -> None:
    folder = tmp_path / "mine" / below
    folder.mkdir(parents=True)
    for name in CONTENT:
        (folder / (f"{name}.gz" if packed else name)).write_bytes(PACKED[name] if packed else CONTENT[name])
    if by_variable:
        monkeypatch.setenv("CODEDFL_DATA", str(tmp_path / "mine"))
    found = fetch_files(source(), None if by_variable else tmp_path / "mine")
    assert {name: content_of(path) for name, path in found.items()} == CONTENT
    assert all(tmp_path / "mine" in path.parents for path in found.values())


def test_a_file_compressed_again_is_the_same_file(tmp_path: Path) -> None:
    for name, content in CONTENT.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content, compresslevel=1, mtime=7))
    assert set(fetch_files(source(), tmp_path)) == set(CONTENT)


def test_the_mirror_fills_the_cache_and_the_cache_then_serves(mirror: Mirror, cache: Path) -> None:
    seen: dict[str, tuple[int, int | None]] = {}
    found = fetch_files(source(mirror.address), progress=lambda name, have, total: seen.update({name: (have, total)}))
    assert found == {name: cache / f"{name}.gz" for name in CONTENT}
    assert seen == {f"{name}.gz": (len(packed), len(packed)) for name, packed in PACKED.items()}
    assert sorted(path.name for path in cache.iterdir()) == ["images.gz", "labels.gz"]
    mirror.asked.clear()
    assert fetch_files(source(mirror.address), use_network=False) == found
    assert mirror.asked == []


def test_a_connection_that_breaks_off_leaves_nothing(mirror: Mirror, cache: Path) -> None:
    mirror.cut = True
    with pytest.raises(DataUnavailable, match=r"images\.gz: images\.gz\.part is a damaged gzip file"):
        fetch_files(source(mirror.address))
    assert list(cache.iterdir()) == []


def test_a_wrong_hash_is_refused_and_not_kept(mirror: Mirror, cache: Path) -> None:
    mirror.files["images.gz"] = gzip.compress(b"y" * 150_000)
    with pytest.raises(DataUnavailable) as raised:
        fetch_files(source(mirror.address))
    wrong = hashlib.sha256(b"y" * 150_000).hexdigest()
    assert raised.value.attempts[-1][1] == (
        f"images.gz: images.gz.part must have content of SHA-256 {FILES[0].sha256}, got {wrong}"
    )
    assert list(cache.iterdir()) == []


def test_a_mirror_that_sends_without_end_is_cut_off(mirror: Mirror, cache: Path) -> None:
    mirror.files["images.gz"] = b"z" * 1_000_000
    with pytest.raises(DataUnavailable, match=r"images\.gz: at most 300000 bytes were expected, got more"):
        fetch_files(source(mirror.address))
    assert list(cache.iterdir()) == []


def test_a_spoiled_cache_is_fetched_anew(mirror: Mirror, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "images.gz").write_bytes(PACKED["images"][:-9])
    (cache / "labels").write_bytes(b"short")
    found = fetch_files(source(mirror.address))
    assert {name: content_of(path) for name, path in found.items()} == CONTENT


def test_only_what_is_missing_is_fetched(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "images").write_bytes(CONTENT["images"])
    found = fetch_files(source(mirror.address), tmp_path)
    assert found["images"] == tmp_path / "images"
    assert mirror.asked == ["labels.gz"]


def test_the_error_lists_what_was_tried_in_order_and_what_helps(
    mirror: Mirror, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.files.clear()
    monkeypatch.setenv("CODEDFL_DATA", str(tmp_path / "nowhere"))
    (tmp_path / "labels").write_bytes(b"short")
    with pytest.raises(DataUnavailable) as raised:
        fetch_files(source(mirror.address), tmp_path)
    assert str(raised.value).splitlines() == [
        "data set toy is not available here: 2 of 2 files missing",
        f"  1. the folder {tmp_path}: images is not there; labels must hold 100 bytes of content, got 5",
        f"  2. CODEDFL_DATA={tmp_path / 'nowhere'}: no such folder",
        f"  3. the cache {cache}: no such folder",
        f"  4. the mirror {mirror.address}: images.gz: HTTP Error 404: Not Found",
        f"  What helps: get images.gz, labels.gz on any machine, for example from {mirror.address} or by npm pack toy, "
        "put them in a folder and name it by --data-dir or CODEDFL_DATA",
    ]


def test_no_network_is_said_and_not_waited_for() -> None:
    with pytest.raises(DataUnavailable, match=r"images\.gz: .*refused"):
        fetch_files(source())


def test_a_server_that_says_nothing_is_given_up(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codedfl_lab.datasets.fetch.TIMEOUT_S", 0.05)
    monkeypatch.setattr(_Handler, "do_GET", lambda _: threading.Event().wait(0.3))
    with pytest.raises(DataUnavailable, match=r"images\.gz: .*timed out"):
        fetch_files(source(mirror.address))


def test_the_cache_lies_where_the_platform_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache" / "codedfl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr("sys.platform", "linux")
    assert cache_folder() == tmp_path / ".cache" / "codedfl"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "codedfl"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "codedfl" / "Cache"


def test_a_cache_that_cannot_be_written_is_a_reason_like_others(mirror: Mirror, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    with pytest.raises(DataUnavailable, match=r"images\.gz: .*Not a directory"):
        fetch_files(source(mirror.address))


def test_fetch_by_name() -> None:
    assert fetch_dataset("digits") == {}
    with pytest.raises(
        ValueError,
        match=r"^data set must be one of digits, digits-shifted, mnist, fashion-mnist, cifar-10, got 'cifar'$",
    ):
        fetch_dataset("cifar")
    with pytest.raises(DataUnavailable, match=r"^data set mnist is not available here: 4 of 4 files missing"):
        fetch_dataset("mnist", use_network=False)
