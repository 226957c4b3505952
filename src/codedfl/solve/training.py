"""A model from products X'X e, each a secure sum: what a solver asks for, a session brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from codedfl.errors import InvalidInput
from codedfl.exact.scales import Scales
from codedfl.exact.totals import constant_to_reals, gram_to_reals, product_to_reals, round_update
from codedfl.solve.solver import GramSolver, Solver
from codedfl.sum.keys import digest
from codedfl.sum.session import Session
from codedfl.sum.store import Store
from codedfl.typing import Floats


class Training:
    """Runs a solver on the sums of one request.

    ask: whose vector is X'Y and, behind it, the number of rows and an X'X to multiply with; or X'Y and X'X itself.
    scales: on which they are. shape: of the model. samples: how many rows there are, where the sum does not say it.

    Examples
    --------
    See ``codedfl.run.sums_in_process``, which trains on devices of this process.
    """

    def __init__(
        self,
        session: Session,
        store: Store,
        ask: bytes,
        scales: Scales,
        shape: tuple[int, int],
        on_epoch: Callable[[int], object] = lambda _epoch: None,
    ) -> None:
        self._session, self._store, self._ask = session, store, ask
        self._scales, self._shape, self._on_epoch = scales, shape, on_epoch
        self.epochs = 0

    def model(self, solver: Solver, numbers: list[int], samples: int | None = None) -> Floats:
        """What the solver makes of the request's sum ``numbers`` and of the products that it asks for."""
        scales, size, initial = self._scales, self._shape[0] * self._shape[1], np.zeros(self._shape)
        cross = np.array(numbers[:size], dtype=np.int64).reshape(self._shape)
        if isinstance(solver, GramSolver):
            solver.take_gram(gram_to_reals(scales, np.array(numbers[size : size + _triangle(scales)], dtype=np.int64)))
        solver.start(initial, constant_to_reals(scales, -cross), numbers[-1] if samples is None else samples)
        self._ended()
        while (wanted := solver.request()) is not None:
            integers, bits, product = self._product(wanted)
            solver.receive(np.ldexp(integers, -bits), product_to_reals(scales, product, integers, bits))
            self._ended()
        if solver.model is None:
            raise InvalidInput("the solver must make a model, got none")
        return solver.model

    def _ended(self) -> None:
        self.epochs += 1
        self._on_epoch(self.epochs)

    def _product(self, wanted: Floats) -> tuple[Floats, int, Any]:
        # Invariant: what was sent is sent again, bit for bit, also by a server that was killed: directions are counted.
        key = ("product", digest(self._ask), self.epochs)
        kept = self._store.get(key)
        if kept is None:
            integers, bits = round_update(self._scales, wanted)
            self._store.put(key, msgspec.msgpack.encode((integers.tobytes(), bits)))
        else:
            data, bits = msgspec.msgpack.decode(kept, type=tuple[bytes, int])
            integers = np.frombuffer(data).reshape(wanted.shape)
        return integers, bits, self._session.product(self._ask, integers.astype(np.int64))


def _triangle(scales: Scales) -> int:
    return scales.n_features * (scales.n_features + 1) // 2
