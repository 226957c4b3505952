"""The IDX format on small files, and the real MNIST files where this machine has them."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from codedfl_lab.datasets import load
from codedfl_lab.datasets.idx import read_idx


def idx(values: np.ndarray) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4)])
@pytest.mark.parametrize("packed", [True, False])
def test_what_was_written_is_read(tmp_path: Path, shape: tuple[int, ...], packed: bool) -> None:
    values = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(idx(values)) if packed else idx(values))
    assert np.array_equal(read_idx(path), values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "f must be an IDX file of unsigned bytes, got  at its start"),
        (b"\x00\x00\x0d\x01", "f must be an IDX file of unsigned bytes, got 00000d01 at its start"),
        (b"\x00\x00\x08\x02\x00", "f must hold a header of 12 bytes, got 5"),
        (idx(np.zeros(4, np.uint8))[:-1], "f must hold 4 values for its shape (4,), got 3"),
        (
            b"\x00\x00\x08\x03" + struct.pack(">3I", 2**31, 2**31, 4),
            f"f must hold {2**64} values for its shape ({2**31}, {2**31}, 4), got 0",
        ),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(content)
    with pytest.raises(ValueError) as raised:  # noqa: PT011, the whole message is compared
        read_idx(path)
    assert str(raised.value) == message


@pytest.mark.mnist
@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_real_files(name: str) -> None:
    data = load(name, use_network=False)
    assert repr(data) == f"<Dataset {name}: 60000 + 10000 rows, 784 columns, 10 classes>"
    assert data.X_train.dtype == np.float32
    assert (data.X_train.min(), data.X_train.max()) == (0.0, 1.0)
    assert data.public_range == (0.0, 1.0)
    # First labels as published, and every class of the test part has its known number.
    assert data.y_train[:5].tolist() == ([5, 0, 4, 1, 9] if name == "mnist" else [9, 0, 0, 3, 0])
    assert np.bincount(data.y_test)[0] == (980 if name == "mnist" else 1000)
