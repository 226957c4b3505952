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
