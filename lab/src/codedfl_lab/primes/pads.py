"""One-time pads and masks, expanded from 32-byte seeds (paper IV-B: Delta_i, Xi_i; footnote 1).

A seed travels, never a pad. The stream is ChaCha20 under a key derived from (seed, label, plane), so one seed gives
unrelated streams for two purposes. That a pad is used once is a rule about seeds, which follow from the very numbers
that are padded (``coded.device``). What many answers are masked with has the question in its label. Residues are drawn
by rejection, hence exactly uniform on the ring *given* a uniform stream: the privacy of pads is computational
(ChaCha20), not Shannon's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from codedfl.crypto.noise import stream_key
from codedfl_lab.primes import kernels
from codedfl_lab.primes.planes import Planes
from codedfl_lab.primes.ring import Ring

# A pad is a row of segments, each a ChaCha20 stream of its own (the segment's index is the nonce), so that pads can
# be expanded and added up segment by segment: 192 KiB of stream and 256 KiB of residues stay in the cache.
SEGMENT = 65536
_SEEDS_PER_PASS = 4  # four segments at a time are added in one pass over the total
_SPARE = 64
_ZEROS = memoryview(bytes(kernels.residue_bytes(2**24) * (SEGMENT + _SPARE)))


class SegmentExpander:
    """Writes any segment of the residue stream of one key modulo one prime; scratch memory may be shared.

    Invariant: which residues a segment holds depends on (key, prime, segment) alone: not on the order in which segments
    are asked for, nor on their lengths, nor on whether they are written or added. Two parties that expand the same seed
    therefore hold the same pad, whatever pieces each of them works in.
    """

    def __init__(self, key: bytes, prime: int, scratch: NDArray[np.uint8] | None = None) -> None:
        self._prime, self._width = prime, kernels.residue_bytes(prime)
        self._bytes = new_scratch() if scratch is None else scratch
        self._writable = self._bytes.data
        self._encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()

    def write(self, segment: int, out: NDArray[np.float32]) -> None:
        """``out`` holds at most SEGMENT numbers; a shorter one gets the beginning of the segment."""
        out.view(np.uint8).fill(0)  # bytes are what numpy fills fastest
        self.add(segment, 1, out)

    def add(self, segment: int, sign: int, total: NDArray[np.float32]) -> None:
        """``total`` += sign (1 or -1) times what ``write`` would write, straight from the stream without a copy."""
        self._go_to(segment)
        filled = 0
        while filled < len(total):
            stream = self._more(len(total) - filled)
            filled = kernels.add_residues_from_stream(stream, self._prime, sign, total, filled)

    def _go_to(self, segment: int) -> None:
        # Block counter 0 and a 96-bit nonce. Invariant: no two segments share a nonce under one key, and a segment is
        # far shorter than the 2^32 blocks after which the counter would run into the nonce: no stream byte comes twice.
        self._encryptor.reset_nonce(bytes(4) + segment.to_bytes(12, "little"))

    def _more(self, numbers: int) -> NDArray[np.uint8]:
        """The stream's next bytes, with a few candidates to spare, which nearly always replace those rejected."""
        size = -(-(min(SEGMENT, numbers) + _SPARE) // 4) * 4 * self._width  # the kernel's unit is four numbers
        if size == len(_ZEROS):  # nearly always: slices take time
            self._encryptor.update_into(_ZEROS, self._writable)
            return self._bytes
        self._encryptor.update_into(_ZEROS[:size], self._writable[:size])
        return self._bytes[:size]


def new_scratch() -> NDArray[np.uint8]:
    """Memory for the bytes of one segment's stream. Expanders of one thread may share it, those of two may not."""
    return np.empty(len(_ZEROS), dtype=np.uint8)


def _segments(count: int) -> Iterator[tuple[int, slice]]:
    for segment in range(-(-count // SEGMENT)):
        yield segment, slice(segment * SEGMENT, min(count, (segment + 1) * SEGMENT))


def expand(ring: Ring, seed: bytes, label: str, count: int) -> Planes:
    """``count`` uniform ring numbers, shape (P, count)."""
    planes = ring.zeros(count)
    for k, prime in enumerate(ring.primes):
        expander = SegmentExpander(stream_key(seed, f"{label}|{k}"), prime)
        for segment, where in _segments(count):
            expander.write(segment, planes[k, where])
    return planes


def add_expanded(
    ring: Ring,
    total: Planes,
    coefficients: Sequence[Sequence[int]],
    seeds: Sequence[bytes],
    label: str,
) -> None:
    """total (P, n) += sum_j coefficients[prime][j] * expand(seeds[j]); no whole pad is ever held.

    It goes segment by segment, so that what is being added to stays in the cache.
    """
    count = total.shape[1]
    signs = {x for row in coefficients for x in row}
    if signs <= {1, -1} and all(list(row) == list(coefficients[0]) for row in coefficients):
        add_signed(ring, total, list(zip(coefficients[0], seeds, strict=True)), label)
        return
    scratch = new_scratch()
    buffers: list[NDArray[np.float32]] = []
    for k, prime in enumerate(ring.primes):
        expanders = [SegmentExpander(stream_key(seed, f"{label}|{k}"), prime, scratch) for seed in seeds]
        factors = [int(x) % prime for x in coefficients[k]]
        buffers = buffers or [kernels.aligned_zeros(min(SEGMENT, count)) for _ in seeds[:_SEEDS_PER_PASS]]
        for segment, where in _segments(count):
            terms = [buffer[: where.stop - where.start] for buffer in buffers]
            for first in range(0, len(seeds), _SEEDS_PER_PASS):
                batch = expanders[first : first + _SEEDS_PER_PASS]
                for expander, term in zip(batch, terms, strict=False):  # the last batch may be smaller
                    expander.write(segment, term)
                passed = factors[first : first + len(batch)]
                kernels.add_product(total[k, where], passed, terms[: len(batch)], prime)


def add_signed(ring: Ring, total: Planes, signed: Sequence[tuple[int, bytes]], label: str) -> None:
    """total (P, n) += what seeds expand to, each times its sign (1 or -1), straight from the streams.

    >>> from codedfl_lab.primes.pads import add_signed, expand
    >>> from codedfl_lab.primes.ring import Ring
    >>> ring, seed = Ring.for_group_sizes([5]), bytes(32)
    >>> total = expand(ring, seed, "gram", 6)
    >>> add_signed(ring, total, [(-1, seed)], "gram")
    >>> bool(total.any())
    False
    """
    scratch = new_scratch()
    for k, prime in enumerate(ring.primes):
        expanders = [(sign, SegmentExpander(stream_key(seed, f"{label}|{k}"), prime, scratch)) for sign, seed in signed]
        for segment, where in _segments(total.shape[1]):
            for sign, expander in expanders:
                expander.add(segment, sign, total[k, where])
