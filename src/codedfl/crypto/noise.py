"""Noise from a 32-byte seed: exact discrete Gaussians on the words of a ChaCha20 stream.

As with pads (``pads``), the key is derived from (seed, label): the same seed for another purpose gives unrelated noise,
and for the same purpose the very same noise again, in every run. Noise that was drawn anew for every repetition of a
message would average away.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from codedfl.crypto.pads import stream_key
from codedfl.exact import discrete_gaussian
from codedfl.exact.scales import Scales
from codedfl.typing import Integers


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
