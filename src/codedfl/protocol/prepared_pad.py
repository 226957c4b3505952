"""The pads of an upload, and where a process keeps those that it made before the server called.

Pads are expanded from seeds that know of no run (``crypto.pads``), so an owner makes them while it waits, and an upload
then costs X'X, an addition and the link.

A pad is used once, whatever happens to the device. So pads made beforehand are in the memory of one process and in no
checkpoint: started again, or set back to an old copy of its disk, a device makes fresh ones. A counter on the disk
would be set back with the disk, and the same pad used for two tables.
"""

from __future__ import annotations

import secrets as system_random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codedfl.crypto import pads
from codedfl.crypto.pads import SEED_BYTES
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.answer_rows import AnswerRows
from codedfl.protocol.contribution import OnRing
from codedfl.typing import Planes, RandomBytes

if TYPE_CHECKING:
    from codedfl.protocol.plan import RunPlan

GRAM, CONSTANT = "gram", "constant"  # what pads are for


@dataclass(frozen=True)
class PadLayout:
    """What a pad must have been made for, to fit an upload.

    ring: its primes.
    rows: d, c and the blocks of rows, by which the upload is laid out.
    seeds: how many the pad is the sum of: z + 1.
    """

    ring: Ring
    rows: AnswerRows
    seeds: int

    @classmethod
    def of(cls, agreed: Agreement) -> PadLayout:
        """That of an agreement."""
        return cls(agreed.ring, agreed.answer_rows, agreed.parameters.colluders + 1)

    @classmethod
    def expected(cls, plan: RunPlan) -> PadLayout:
        """That of the agreement that a plan leads to if all its devices come, and no model to begin with is given.

        >>> from codedfl import Bounds, Parameters
        >>> from codedfl.protocol.plan import RunPlan
        >>> from codedfl.protocol.schemes.role_keys import ROLE_KEYS
        >>> bounds = Bounds(features=1.0, labels=1.0, samples=1000, samples_per_device=300)
        >>> parameters = Parameters("role-keys", 1, n_features=20, n_outputs=1, bounds=bounds, colluders=1)
        >>> layout = PadLayout.expected(RunPlan(ROLE_KEYS, parameters, tuple("abcdef"), blocks=5))
        >>> layout.seeds, layout.rows.blocks  # three holders per role: more blocks than they can keep are not dealt out
        (2, RowBlocks(size=20, count=3))
        """
        p = plan.parameters
        holders = plan.holders or plan.names
        ring = p.ring(len(set(plan.names) - plan.helpers))
        return cls(ring, p.answer_rows(plan.blocks_among(len(holders))), p.colluders + 1)

    @property
    def numbers(self) -> int:
        """Numbers in the triangle of X'X."""
        return self.rows.blocks.size * (self.rows.blocks.size + 1) // 2


class UploadPad:
    """The pads of one upload, summed up and in its own form: the triangle packed by pairs of row blocks.

    Invariant: it pads one table. ``padded`` turns its memory into the upload, and there is no second time.

    seeds: what it is the sum of.
    """

    def __init__(self, layout: PadLayout, seeds: Sequence[bytes]) -> None:
        self.layout, self.seeds = layout, list(seeds)
        ring, rows, blocks = layout.ring, layout.rows, layout.rows.blocks
        signed = [(1, seed) for seed in seeds]
        self._gram: bytearray | None = bytearray(layout.numbers * ring.bytes_per_number)
        for block in rows.all:
            place, pieces = blocks.strip(block), blocks.pieces(blocks.pairs_from([block]))
            strip = ring.zeros(place.stop - place.start)
            pads.add_pieces(ring, strip, pieces, signed, GRAM)
            ring.pack_into(self._gram, strip, place.start, layout.numbers)
            del strip  # before the next one is made
        constants = rows.constant_pieces(rows.all)
        self._constant: Planes = ring.zeros(max(piece.stop for piece in constants.values()))
        pads.add_pieces(ring, self._constant, constants, signed, CONSTANT)

    def padded(self, own: OnRing) -> bytes:
        """These numbers plus the pads, packed; one block of rows after the other, so that X'X is never there whole."""
        packed, self._gram = self._gram, None
        if packed is None:
            raise RuntimeError("a pad must be used once, got a second upload for it")
        ring, rows, blocks, count = self.layout.ring, self.layout.rows, self.layout.rows.blocks, self.layout.numbers
        for block in rows.all:
            strip, start = blocks.by_pairs(own.gram(blocks.rows(block)), block), blocks.strip(block).start
            ring.add_packed(strip, packed, start, count)
            ring.pack_into(packed, strip, start, count)
            del strip
        constant = ring.add(self._constant, own.constant)
        del self._constant
        return b"".join([packed, ring.pack(constant)])


class PreparedPads:
    """The pad of a process's next upload, made before it is wanted; of an upload of another layout it is made then.

    Invariant: a pad is taken out in the turn that uses it, before the upload is made, and is in memory only.

    random_bytes: source of seeds; replaced only in tests and simulations that must be repeatable.
    """

    def __init__(self, random_bytes: RandomBytes = system_random.token_bytes) -> None:
        self._random_bytes = random_bytes
        self._pad: UploadPad | None = None

    def prepare(self, layout: PadLayout) -> bool:
        """Make the pad of an upload of this layout, unless it is there; says whether it was made."""
        if self._pad is not None and self._pad.layout == layout:
            return False
        self._pad = None  # before the next one is made
        self._pad = self._made(layout)
        return True

    def take(self, layout: PadLayout) -> UploadPad:
        """A pad that nobody else ever gets: the one that is there, if it fits, or a fresh one."""
        pad = self._pad
        if pad is None or pad.layout != layout:
            return self._made(layout)
        self._pad = None
        return pad

    def _made(self, layout: PadLayout) -> UploadPad:
        return UploadPad(layout, [self._random_bytes(SEED_BYTES) for _ in range(layout.seeds)])
