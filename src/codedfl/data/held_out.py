"""Which rows a device keeps out of training, for the score: by a keyed hash of the row itself.

The key is the device's own and never changes, so a row is always on the same side, wherever it stands in the table and
however often the study is run; rows that are equal stay together. Nobody without the key can tell which they are.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Rows


def held_out_rows(X: Floats, y: Rows, share: float, key: bytes) -> NDArray[np.bool_]:
    """A mask of about ``share`` of the rows; 0 holds out none.

    X: the row's numbers before scaling, missing values filled; y: its target.
    key: 16 to 64 bytes.
    """
    if not 0 <= share < 1:
        raise InvalidInput(f"share must be at least 0 and below 1, got {share}")
    if not 16 <= len(key) <= 64:
        raise InvalidInput(f"key must have 16 to 64 bytes, got {len(key)}")
    limit = int(share * 2.0**64)
    numbers = np.ascontiguousarray(X + 0.0, dtype="<f8")  # + 0.0: minus zero is zero
    labels = [str(one).encode() for one in np.asarray(y).tolist()]
    hashes = (
        hashlib.blake2b(row.tobytes() + label, digest_size=8, key=key).digest()
        for row, label in zip(numbers, labels, strict=True)
    )
    return np.array([int.from_bytes(one, "little") < limit for one in hashes], dtype=np.bool_)
