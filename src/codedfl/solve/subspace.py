"""What is known of X'X/m after some exact products: its image of an orthonormal basis of all directions asked for.

Directions are asked for on the ring's grid, so they are not quite orthogonal; their products are exact all the same.
Making them orthonormal here, and their products along with them, keeps the two in step to the last digits of a float.
The basis is a list of blocks that never change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codedfl.typing import Floats

# Where less than this part of a direction is new, its product's last digits could not carry what it says.
DEPENDENT = 1e-6


@dataclass(frozen=True, eq=False)
class Subspace:
    """Orthonormal directions and what X'X/m makes of them.

    Attributes
    ----------
    basis, images : tuple of arrays with d rows
        Block by block; X'X/m maps the one on the other.
    inner : tuple of arrays
        For each block the products of all directions up to it with its image: the columns of the upper triangle of
        Q' X'X Q / m.
    """

    basis: tuple[Floats, ...] = ()
    images: tuple[Floats, ...] = ()
    inner: tuple[Floats, ...] = ()

    @property
    def size(self) -> int:
        """The number of directions."""
        return sum(block.shape[1] for block in self.basis)

    def outside(self, block: Floats) -> Floats:
        """An orthonormal basis of what is new in the block's columns, taken as unit vectors."""
        new, _ = self._without_known(unit_columns(block), None)
        left, lengths, _ = np.linalg.svd(new, full_matrices=False)
        return np.ascontiguousarray(left[:, lengths > DEPENDENT])

    def grown(self, sent: Floats, image: Floats) -> Subspace:
        """The subspace with the directions of another block; unchanged if none of them is new."""
        moved = np.linalg.norm(sent, axis=0)
        used = moved > 0
        new, new_image = self._without_known(sent[:, used] / moved[used], image[:, used] / moved[used])
        left, lengths, right = np.linalg.svd(new, full_matrices=False)
        kept = lengths > DEPENDENT
        if not kept.any():
            return self
        block = np.ascontiguousarray(left[:, kept])
        block_image = new_image @ (right[kept].T / lengths[kept])
        strip = np.hstack((*self.basis, block)).T @ block_image
        return Subspace((*self.basis, block), (*self.images, block_image), (*self.inner, strip))

    def narrowed(self, vectors: Floats) -> Subspace:
        """The span of some vectors that lie in it, as one block; no product is needed for their images."""
        basis, images = np.hstack(self.basis), np.hstack(self.images)
        left, lengths, _ = np.linalg.svd(unit_columns(basis.T @ vectors), full_matrices=False)
        kept = left[:, lengths > DEPENDENT]
        block, block_image = basis @ kept, images @ kept
        return Subspace((block,), (block_image,), (block.T @ block_image,))

    def gram(self) -> Floats:
        """Q' X'X Q / m."""
        size, at = self.size, 0
        full = np.zeros((size, size))
        for strip in self.inner:
            high, width = strip.shape
            full[:high, at : at + width] = strip
            full[at : at + width, :at] = strip[:at].T
            at += width
        return (full + full.T) / 2

    def _without_known(self, block: Floats, image: Floats | None) -> tuple[Floats, Floats]:
        """The part of a block that is orthogonal to the basis, and the image of that part."""
        image = np.zeros_like(block) if image is None else image
        if not self.basis:
            return block, image
        basis, images = np.hstack(self.basis), np.hstack(self.images)
        for _ in range(2):  # the second time mends what rounding left of the first
            known = basis.T @ block
            block, image = block - basis @ known, image - images @ known
        return block, image


def unit_columns(block: Floats) -> Floats:
    """The columns that are not zero, as unit vectors."""
    lengths = np.linalg.norm(block, axis=0)
    return np.asarray(block[:, lengths > 0] / lengths[lengths > 0])
