"""The loop of a training: a solver asks for products, secure sums answer (paper III-A and IV-C)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codedfl.errors import NotEnoughDevices
from codedfl.exact.totals import product_to_reals, round_update
from codedfl.solve.solver import GramSolver, Solver
from codedfl.typing import Floats
from codedfl_lab.parties.making import SecureSums
from codedfl_lab.parties.statistic import ASK, RowsStatistic


def train(
    sums: SecureSums,
    statistic: RowsStatistic,
    solver: Solver,
    *,
    before_epoch: Callable[[int], None] = lambda _epoch: None,
    on_epoch: Callable[[int, Floats], None] = lambda _epoch, _theta: None,
    stop_when: Callable[[Floats], bool] | None = None,
) -> Floats:
    """Train from Theta^(1) = 0 to the end and return the model; bit for bit what ``costs.central`` computes.

    before_epoch: called with the number of each epoch, from 1 on, that is about to begin.
    on_epoch: called with epoch and model.
    stop_when: whether a model is good enough.
    """
    d, c, epoch = statistic.scales.n_features, statistic.n_outputs, 1
    before_epoch(epoch)
    try:
        totals = statistic.read(sums.sum(ASK))
        if isinstance(solver, GramSolver):
            assert totals.gram is not None, "a solver that needs X'X itself must have a scheme that reveals it"
            solver.take_gram(totals.gram)
        solver.start(np.zeros((d, c)), totals.constant, totals.samples)
        while True:
            assert solver.model is not None
            on_epoch(epoch, solver.model)
            direction = None if stop_when is not None and stop_when(solver.model) else solver.request()
            if direction is None:
                return solver.model
            epoch += 1
            before_epoch(epoch)
            _product(sums, statistic, solver, direction)
    except NotEnoughDevices as error:
        raise NotEnoughDevices(str(error), error.missing, solver.model) from None


def _product(sums: SecureSums, statistic: RowsStatistic, solver: Solver, direction: Floats) -> None:
    integers, bits = round_update(statistic.scales, direction)
    product = sums.product(ASK, integers.astype(np.int64))
    solver.receive(np.ldexp(integers, -bits), product_to_reals(statistic.scales, product, integers, bits))
