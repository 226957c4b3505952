"""A training on a problem of this process, whose devices reply over any engine of this process."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from codedfl.crypto.sealed import Identity
from codedfl.engines.in_process import InProcess
from codedfl.errors import InvalidInput
from codedfl.exact.row_noise import RowNoise
from codedfl.solve.solver import Solver
from codedfl.sum.asking import Engine, Patience
from codedfl.sum.device import Device
from codedfl.sum.events import Event
from codedfl.sum.in_memory import InMemory
from codedfl.typing import Floats, RandomBytes
from codedfl_lab.parties.making import Parties, Rows, SecureSums, TrainingRoster
from codedfl_lab.parties.statistic import RowsStatistic
from codedfl_lab.problems.problem import Problem
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.training.train import train

SERVER = "server"
# Nobody waits in virtual time: a request is never sent again, and another holder is asked at once.
PATIENCE = Patience(join=1e7, upload=1e7, reply=1e7, retry=1e8, hedge=1e-3, lasts=5e6)


def simulated_identity(name: str) -> Identity:
    """Stands for the long-term key of a party that does not exist."""
    return Identity(hashlib.sha256(f"codedfl laboratory {name}".encode()).digest())


def statistic_of(
    scheme: CodedScheme, problem: Problem, precision: int | None = None, noise: RowNoise | None = None
) -> RowsStatistic:
    """What the devices of a problem sum by a scheme."""
    scheme.check(problem.n_devices)
    if noise is not None and noise.honest + getattr(scheme, "colluders", 0) > problem.n_devices:
        most = problem.n_devices - getattr(scheme, "colluders", 0)
        raise InvalidInput(
            f"honest must be at most the number of devices less the colluders ({most}), got {noise.honest}"
        )
    return RowsStatistic.of(
        problem.bounds,
        n_features=problem.n_features,
        n_outputs=problem.n_outputs,
        n_devices=problem.n_devices,
        ring_sizes=scheme.ring_sizes(problem.n_devices),
        narrow=scheme.narrow,
        precision=precision,
        reveals_gram=scheme.reveals_gram,
        noise=noise,
        about=problem.recipe.digest(),
    )


@dataclass
class Simulated:
    """All parties of one training in this process.

    names: of the devices in the run's order. devices: by the names they have in the run, in the same order.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import BlockKrylov
    >>> from codedfl_lab import Dataset, make_problem
    >>> from codedfl_lab import CodedPadded
    >>> from codedfl_lab.training.in_process import Simulated
    >>> X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    >>> rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 24.0))
    >>> problem = make_problem(rows, n_devices=4, features="linear")
    >>> simulated = Simulated.of(CodedPadded(alpha=2), problem)
    >>> model = simulated.train(BlockKrylov(epochs=5))
    >>> model.shape
    (3, 2)
    """

    parties: Parties
    statistic: RowsStatistic
    names: tuple[str, ...]
    devices: Mapping[str, Device]
    random_bytes: RandomBytes

    @classmethod
    def of(
        cls,
        scheme: CodedScheme,
        problem: Problem,
        *,
        precision: int | None = None,
        masks: bool = True,
        order: Sequence[int] | None = None,
        noise: RowNoise | None = None,
        random_bytes: RandomBytes = secrets.token_bytes,
    ) -> Simulated:
        """masks: off only to show what they prevent. order: which device of the problem takes which place."""
        order = range(problem.n_devices) if order is None else order
        statistic = statistic_of(scheme, problem, precision, noise)
        names = tuple(problem.device_names[i] for i in order)
        seats = [seat(place, name) for place, name in enumerate(names)] if scheme.dealt_by_name else names
        keys = {one: simulated_identity(one).public for one in seats}
        parties = scheme.parties(statistic, TrainingRoster(simulated_identity(SERVER).public, keys), masks=masks)
        devices = {
            one: parties.device(
                one,
                simulated_identity(one),
                _rows_of(problem, i),
                InMemory(),
                noise_seed=random_bytes(32) if noise is not None else b"",
                now=lambda: 0.0,
                random_bytes=random_bytes,
            )
            for one, i in zip(seats, order, strict=True)
        }
        return cls(parties, statistic, names, devices, random_bytes)

    def sums(self, engine: Engine | None = None, tell: Callable[[Event], None] = lambda _event: None) -> SecureSums:
        """The server on an engine; without one, every device replies at once."""
        engine = engine or InProcess({name: device.reply for name, device in self.devices.items()})
        return self.parties.server(
            engine,
            simulated_identity(SERVER),
            patience=PATIENCE,
            tell=tell,
            wall=lambda: 0.0,
            random_bytes=self.random_bytes,
        )

    def train(self, solver: Solver, engine: Engine | None = None) -> Floats:
        """To the end."""
        return train(self.sums(engine), self.statistic, solver)


def seat(place: int, name: str) -> str:
    """The name of a device with its place in front: names then ascend as places do."""
    return f"{place:05d} {name}"


def _rows_of(problem: Problem, device: int) -> Rows:
    rows = problem.rows_of(device)
    return lambda: (problem.X[rows], problem.Y[rows])
