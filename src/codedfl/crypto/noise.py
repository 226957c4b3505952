"""Noise from a 32-byte seed: exact discrete Gaussians on the words of a ChaCha20 stream.

The key is derived from (seed, label): the same seed for another purpose gives unrelated noise, and for the same purpose
the very same noise again, in every run. Noise that was drawn again for every repetition of a
message would average away.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl.exact import discrete_gaussian
from codedfl.exact.scales import Scales
from codedfl.typing import Integers

SEED_BYTES = 32


def stream_key(seed: bytes, label: str) -> bytes:
    """The ChaCha20 key of one stream: HKDF-SHA256 of a seed, with the purpose as info and no salt (seeds are uniform).

    Invariant: (seed, label) names one stream, and whoever draws one gives it a label of its own.
    """
    if len(seed) != SEED_BYTES:
        raise InvalidInput(f"a seed must have {SEED_BYTES} bytes, got {len(seed)}")
    return HKDF(SHA256(), 32, salt=None, info=b"codedfl pad v2|" + label.encode()).derive(seed)


def draw(seed: bytes, label: str, sigma: int, count: int) -> Integers:
    """``count`` discrete Gaussians with parameter ``sigma``, in units of the grid.

    Invariant: the arguments decide every number. A device that is asked again, or restarted, adds the very same noise.
    """
    key = stream_key(seed, f"noise|{label}")
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()

    def more_words(wanted: int) -> NDArray[np.uint64]:
        return np.frombuffer(encryptor.update(bytes(8 * wanted)), dtype="<u8").astype(np.uint64)

    return discrete_gaussian.sample(sigma, count, more_words)


def gram_noise(scales: Scales, seed: bytes, label: str) -> Integers:
    """For the packed triangle of X'X, in units of the grid; more on the diagonal than off it (``exact.row_noise``)."""
    noise, d = scales.noise, scales.n_features
    assert noise is not None
    drawn = np.empty(d * (d + 1) // 2, dtype=np.int64)
    diagonal = np.zeros(len(drawn), dtype=np.bool_)
    diagonal[diagonal_of_triangle(d)] = True
    drawn[diagonal] = draw(seed, f"{label}|diagonal", noise.diagonal, d)
    drawn[~diagonal] = draw(seed, f"{label}|off the diagonal", noise.off_diagonal, len(drawn) - d)
    return drawn


def cross_noise(scales: Scales, n_outputs: int, seed: bytes, label: str) -> Integers:
    """For X'Y."""
    assert scales.noise is not None
    shape = (scales.n_features, n_outputs)
    drawn = draw(seed, f"{label}|cross", scales.noise.cross, shape[0] * shape[1])
    return drawn.reshape(shape)


def diagonal_of_triangle(size: int) -> Integers:
    """Where the diagonal stands in a packed upper triangle, row by row."""
    rows = np.arange(size, dtype=np.int64)
    return rows * size - rows * (rows - 1) // 2
