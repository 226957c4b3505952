"""What an epoch asks, and from what the server decodes to what its solver is told (paper IV-C).

Pads off, bounds checked, back to reals.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from codedfl.errors import RangeExceeded
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.messages import Update
from codedfl.solve.solver import GramSolver, Solver
from codedfl.state import Codec
from codedfl.typing import Floats, Planes


class Question(NamedTuple):
    """X'X e for this e, in integers with ``fraction_bits`` bits after the point; or, with e = 0, the constant part."""

    constant: bool
    integers: Floats
    fraction_bits: int

    @property
    def digest(self) -> bytes:
        """Equal for equal questions, whenever they are asked."""
        return hashlib.sha256(b"" if self.constant else self.integers.tobytes()).digest()

    def update(self, ring: Ring, epoch: int) -> Update:
        packed = b"" if self.constant else ring.pack(ring.from_integers(self.integers))
        return Update(epoch, self.fraction_bits, packed)


QUESTION = Codec(list, lambda fields: Question(*fields))


@dataclass(frozen=True)
class EpochTotal:
    """A decoded total within its bounds: G^(1) or X'X e, or whole numbers (dtype object).

    With G^(1) come m, and X'X if the scheme shows it.
    """

    numbers: Floats
    digest: bytes  # of the total on the ring
    samples: int = 0
    gram: Floats | None = None


def without_offset(
    ring: Ring, decoded: Planes, constant: Planes | None, matrix: Planes, integers: Floats, sign: int
) -> Planes:
    """sign * (decoded - constant - matrix e); e in ``integers``, the constant where it was asked for."""
    total = ring.zeros(decoded.shape[1])
    ring.add_scaled(total, [[sign]] * len(ring.primes), [decoded])
    if constant is not None:
        ring.add_scaled(total, [[-sign]] * len(ring.primes), [constant])
    if np.any(integers):
        product = ring.product(matrix, ring.from_integers(integers))
        ring.add_scaled(total, [[-sign]] * len(ring.primes), [product.reshape(len(ring.primes), -1)])
    return total


def read_total(agreed: Agreement, question: Question, total: Planes, least_samples: int) -> EpochTotal:
    """Back to reals; raises ``RangeExceeded`` outside the proven bounds."""
    p = agreed.parameters
    if p.total_limit:
        return _whole_numbers(agreed.ring, total, p.total_limit)
    format_ = agreed.fixed_point
    length = p.n_features * p.n_outputs
    matrix = total[:, :length].reshape(-1, p.n_features, p.n_outputs)
    digest = hashlib.sha256(agreed.ring.pack(total)).digest()
    if not question.constant:
        return EpochTotal(format_.planes_of_product(matrix, question.integers, question.fraction_bits), digest)
    gradient = format_.planes_of_constant(matrix, agreed.initial_integers)
    summed = total[:, length : length + 1]
    samples = p.samples or p.bounds.samples  # with noise the public bound stands for m: it is a scale and no more
    if p.counts_rows:
        samples = int(format_.ring.to_integers(summed)[0])
    if not least_samples <= samples <= p.bounds.samples:
        raise RangeExceeded(
            f"the summed sample count must be between {least_samples} and {p.bounds.samples}, got {samples}"
        )
    triangle = agreed.answer_rows.blocks.row_by_row(total[:, p.constant_length :])
    gram = format_.planes_of_gram(triangle) if p.reveals_gram else None
    return EpochTotal(gradient, digest, samples, gram)


def _whole_numbers(ring: Ring, total: Planes, limit: int) -> EpochTotal:
    integers = ring.to_integers(total).astype(object)
    largest = int(max(abs(integers.max(initial=0)), abs(integers.min(initial=0))))
    if largest > limit:
        raise RangeExceeded(f"a decoded total must stay within +-{limit}, got {largest}: a corrupted answer, not used")
    return EpochTotal(integers[None, :], hashlib.sha256(ring.pack(total)).digest())


def tell_solver(solver: Solver, agreed: Agreement, question: Question, total: EpochTotal) -> None:
    """The constant starts it; later ones are X'X e for the e that was sent."""
    if not question.constant:
        solver.receive(np.ldexp(question.integers, -question.fraction_bits), total.numbers)
        return
    if isinstance(solver, GramSolver):
        assert total.gram is not None
        solver.take_gram(total.gram)
    solver.start(agreed.initial_model, total.numbers, total.samples)
