"""From what the server decodes to what its solver is told: pads off, bounds checked, back to reals (paper IV-C)."""

from __future__ import annotations

import numpy as np

from codedfl.errors import RangeExceeded
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import Agreement
from codedfl.solve.solver import GramSolver, Solver
from codedfl.typing import Floats, Planes


def unpad(
    ring: Ring, decoded: Planes, constant: Planes | None, linear: Planes, integers: Floats, pad_sign: int
) -> Planes:
    """pad_sign * (decoded - constant - linear e); e in ``integers``, the constant in the first epoch only."""
    total = ring.zeros(decoded.shape[1])
    ring.add_scaled(total, [[pad_sign]] * len(ring.primes), [decoded])
    if constant is not None:
        ring.add_scaled(total, [[-pad_sign]] * len(ring.primes), [constant])
    if np.any(integers):
        product = ring.product(linear, ring.from_integers(integers))
        ring.add_scaled(total, [[-pad_sign]] * len(ring.primes), [product.reshape(len(ring.primes), -1)])
    return total


def start_solver(solver: Solver, agreed: Agreement, total: Planes) -> None:
    """The first epoch's total: G^(1), the sample count unless it is public, and X'X where the scheme shows it."""
    p, ring = agreed.parameters, agreed.fixed_point.ring
    length = p.n_features * p.n_outputs
    gradient = agreed.fixed_point.constant_to_reals(_matrix(agreed, total), agreed.initial_integers)
    samples = p.samples if p.samples is not None else int(ring.to_integers(total[:, length : length + 1])[0])
    if not agreed.n_devices <= samples <= p.bounds.samples:
        raise RangeExceeded(
            f"the summed sample count must be between {agreed.n_devices} and {p.bounds.samples}, got {samples}"
        )
    if isinstance(solver, GramSolver):
        solver.take_gram(agreed.fixed_point.gram_to_reals(total[:, p.constant_length :]))
    solver.start(agreed.initial_model, gradient, samples)


def feed_solver(solver: Solver, agreed: Agreement, total: Planes, integers: Floats, fraction_bits: int) -> None:
    """A later epoch's total: X'X e for the e that was sent."""
    product = agreed.fixed_point.product_to_reals(_matrix(agreed, total), integers, fraction_bits)
    solver.receive(np.ldexp(integers, -fraction_bits), product)


def _matrix(agreed: Agreement, total: Planes) -> Planes:
    d, c = agreed.parameters.n_features, agreed.parameters.n_outputs
    return total[:, : d * c].reshape(-1, d, c)
