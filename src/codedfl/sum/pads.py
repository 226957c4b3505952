"""Pads are raw ChaCha20 key streams taken as words of k bits: seekable, and any part of one can be made by itself."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from codedfl.sum.layout import Words, words_from

_BLOCK = 64  # bytes of ChaCha20's blocks
_CHUNK = 1 << 15  # words at a time: stream and total stay in the cache
_ZEROS = bytes(8 * _CHUNK + _BLOCK)


def add_pads(total: Words, keys: Sequence[bytes], width: int, first: int = 0) -> None:
    """``total`` += the words ``first``, ``first`` + 1, ... of the stream of every key.

    width: bytes of a word. Whatever is above them in ``total`` is undefined.

    >>> import numpy as np
    >>> from codedfl.sum.pads import add_pads
    >>> whole, part = np.zeros(5, dtype=np.uint64), np.zeros(2, dtype=np.uint64)
    >>> add_pads(whole, [bytes(32)], 6); add_pads(part, [bytes(32)], 6, first=3)
    >>> bool((whole[3:] == part).all())
    True
    """
    # Addition modulo 2^64, of which the low k bits are the sum modulo 2^k: any order of keys gives the same words.
    for key in keys:
        for start in range(0, len(total), _CHUNK):
            piece = total[start : start + _CHUNK]
            piece += _stream(key, (first + start) * width, len(piece) * width, width)


def _stream(key: bytes, start: int, count: int, width: int) -> Words:
    # Invariant: a pad is far shorter than the 2^32 blocks after which the counter would run into the nonce, and every
    # key is of one pad only (``keys.pad_key``): no byte of a stream is ever used for two numbers.
    block, skipped = divmod(start, _BLOCK)
    cipher = Cipher(algorithms.ChaCha20(key, block.to_bytes(8, "little") + bytes(8)), mode=None)
    made = cipher.encryptor().update(memoryview(_ZEROS)[: skipped + count])
    return words_from(memoryview(made)[skipped:], width)
