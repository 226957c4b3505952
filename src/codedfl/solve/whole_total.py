"""A solver for totals of whole numbers: it takes the one total there is, and is done."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.solve.solver import AtOnce
from codedfl.state import CheckpointFields, Codec, optional
from codedfl.typing import Floats

# Whole numbers of any size, as text: a state holds no integers beyond 64 bits.
_INTEGERS = Codec(lambda total: [str(one) for one in total.ravel()], lambda saved: _as_row([int(one) for one in saved]))


def _as_row(numbers: list[int]) -> Floats:
    total = np.empty((1, len(numbers)), dtype=object)
    total[0, :] = numbers
    return total


class TakesTotal(AtOnce):
    """Keeps the total; ``numbers`` has it as Python integers.

    >>> solver = TakesTotal()
    >>> solver.start(np.zeros((1, 2)), _as_row([3, 2**70]), 0)
    >>> solver.numbers == [3, 2**70]
    True
    """

    checkpoint_fields: ClassVar[CheckpointFields] = {"model": optional(_INTEGERS)}

    @property
    def numbers(self) -> list[int]:
        """The total, once it is there."""
        assert self.model is not None
        return [int(one) for one in self.model.ravel()]

    def start(self, initial: Floats, constant: Floats, samples: int) -> None:
        """See ``Solver``."""
        del initial, samples
        self.model = constant
