"""Both phases of the paper's scheme in its own arithmetic: keys, sharing (IV-B), coded gradients and decoding (IV-C).

Two devices with one feature and one output, alpha = 2: either of them answers for both.

>>> import numpy as np
>>> q, rng = PaperFixedPoint(), np.random.default_rng(1)
>>> system = PaperSystem(TandonCode(2, 2, rng).rounded(q), n_features=1, n_outputs=1)
>>> for device, (gram, gradient) in enumerate([(2.0, -1.0), (3.0, 0.5)]):
...     system.share(device, q.from_reals(np.array([gram])), q.from_reals(np.array([[gradient]])), rng)
>>> update = q.from_reals(np.array([[0.5]]))
>>> [float(q.to_reals(system.decode({i: system.retrieve(i, update)}))[0, 0].round(5)) for i in (0, 1)]
[2.0, 2.0]

That is (2 + 3) 0.5 - 1 + 0.5. What the server may subtract is less clear than the paper has it. It knows B and the
keys, and b (Xi e) is not (b Xi) e in this arithmetic: keys fill the whole range, so that nearly every product of them
wraps. ``retrieve`` favours the paper: it does to the keys what the device did to the padded data, in the same order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl_lab.paper.fixed_point import Integers, PaperFixedPoint
from codedfl_lab.paper.tandon_code import TandonCode


class PaperSystem:
    """Devices and server of one run. Theta^(1) is zero, so that a device's first gradient is -X'Y.

    Parameters
    ----------
    code : TandonCode
        Rounded to the datatype in which everything is computed.
    n_features, n_outputs : int
        d and c.
    answering : collection of int or None
        The devices whose answers will be asked for; only these add up what they are sent. None is all of them.
    """

    def __init__(
        self, code: TandonCode, n_features: int, n_outputs: int, answering: Collection[int] | None = None
    ) -> None:
        if code.datatype is None:
            raise InvalidInput("code must be rounded to the datatype of the system (code.rounded), got one in reals")
        self.code, self.datatype = code, code.datatype
        self.n_features, self.n_outputs = n_features, n_outputs
        self.wrapped = 0  # padded numbers that left the range, counted in the whole matrices
        sums = range(code.n_devices) if answering is None else answering
        # Of each answering device: what it adds up of padded numbers, and what the server adds up of their keys.
        self._coded = {i: _Sum(n_features, n_outputs) for i in sums}
        self._keys = {i: _Sum(n_features, n_outputs) for i in sums}

    def share(self, device: int, gram: Integers, gradient: Integers, rng: np.random.Generator) -> None:
        """Phase 1 of one device: X'X (its upper triangle) and G^(1), padded, go along a column of B (eq. 6 to 9).

        Paper: IV-B, eq. 6, eq. 7, eq. 8, eq. 9. Shown by ``pytest tests/paper/test_paper_system.py -k both_phases``.
        """
        q = self.datatype
        secret = np.concatenate([gram, gradient.reshape(-1)])
        key = q.draw(rng, len(secret))
        padded = q.add(secret, key)
        self.wrapped += int(whole_matrix(padded - key != secret, self.n_features))
        weights = q.from_reals(self.code.B[:, device])
        for i in self._coded:
            if weights[i]:
                q.add_multiple(self._coded[i].numbers, int(weights[i]), padded)
                q.add_multiple(self._keys[i].numbers, int(weights[i]), key)

    def answer(self, device: int, update: Integers) -> Integers:
        """C_i + Cbar_i e: what device i sends in phase 2.

        Paper: IV-C, IV-C (a) to (c). Shown by ``pytest tests/paper/test_paper_system.py -k both_phases``.
        """
        return self._coded[device].gradient(self.datatype, update)

    def retrieve(self, device: int, update: Integers) -> Integers:
        """The answer without its keys (Proposition 2): the device's coded gradient, unless something wrapped.

        Paper: Proposition 2. Shown by ``pytest tests/paper/test_paper_system.py -k retrieve_nothing``.
        """
        return self.datatype.add(self.answer(device, update), -self._keys[device].gradient(self.datatype, update))

    def decode(self, retrieved: Mapping[int, Integers]) -> Integers:
        """The total gradient from the coded ones of any D - alpha + 1 devices (eq. 11).

        Paper: IV-C, eq. 11. Shown by ``pytest tests/paper/test_paper_system.py -k both_phases``.
        """
        q, survivors = self.datatype, sorted(retrieved)
        total = np.zeros(self.n_features * self.n_outputs, dtype=np.int64)
        for weight, i in zip(q.from_reals(self.code.decoding_vector(survivors)), survivors, strict=True):
            q.add_multiple(total, int(weight), retrieved[i].reshape(-1))
        return total.reshape(self.n_features, self.n_outputs)


class _Sum:
    """A triangle of d (d + 1) / 2 numbers and d c numbers behind it; the matrix is made once all is added up."""

    def __init__(self, n_features: int, n_outputs: int) -> None:
        self._shape = n_features, n_outputs
        self.numbers: Integers = np.zeros(n_features * (n_features + 1) // 2 + n_features * n_outputs, dtype=np.int64)

    @cached_property
    def _parts(self) -> tuple[Integers, Integers]:
        d, c = self._shape
        rows, columns = np.triu_indices(d)
        square: Integers = np.empty((d, d), dtype=np.int64)
        square[rows, columns] = square[columns, rows] = self.numbers[: len(rows)]
        return square, self.numbers[len(rows) :].reshape(d, c).copy()

    def gradient(self, datatype: PaperFixedPoint, update: Integers) -> Integers:
        square, constant = self._parts
        return datatype.add(constant, datatype.matmul(square, update))


def whole_matrix(values: NDArray[Any], n_features: int) -> float:
    """The sum over whole matrices of which the triangle is given: what lies off the diagonal stands twice."""
    triangle, diagonal = n_features * (n_features + 1) // 2, np.cumsum([0, *range(n_features, 1, -1)])
    return float(values.sum() + values[:triangle].sum() - values[diagonal].sum())
