"""Small trainings by any scheme of the laboratory, with rows that are made up, and what an oracle makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import oracle
from codedfl.engines.in_process import InProcess
from codedfl.exact.scales import Bounds
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.solver import Solver
from codedfl.sum.asking import Engine
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.typing import Floats, RandomBytes
from codedfl_lab.parties.making import Parties, TrainingRoster
from codedfl_lab.parties.statistic import RowsStatistic
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.training.in_process import PATIENCE, SERVER, simulated_identity
from codedfl_lab.training.train import train


def repeatable(seed: int | str) -> RandomBytes:
    """A source of "secrets" that is the same in every run of the tests."""
    return random.Random(seed).randbytes


MakeEngine = Callable[[dict[str, Callable[[bytes], bytes]]], Engine]


@dataclass
class Small:
    """Devices with so many rows each; d features and c outputs, all within 1."""

    sizes: tuple[int, ...] = (5, 3, 7, 4)
    d: int = 4
    c: int = 2
    seed: int = 7
    precision: int | None = None
    bounds: Bounds | None = None
    data: list[tuple[Floats, Floats]] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.data = [(rng.uniform(-1, 1, (n, self.d)), rng.uniform(-1, 1, (n, self.c))) for n in self.sizes]
        self.bounds = self.bounds or Bounds(1.0, 1.0, sum(self.sizes), max(self.sizes))

    @property
    def names(self) -> list[str]:
        return [f"device-{i}" for i in range(len(self.sizes))]

    def statistic(self, scheme: CodedScheme) -> RowsStatistic:
        assert self.bounds is not None
        return RowsStatistic.of(
            self.bounds,
            n_features=self.d,
            n_outputs=self.c,
            n_devices=len(self.sizes),
            ring_sizes=scheme.ring_sizes(len(self.sizes)),
            narrow=scheme.narrow,
            precision=self.precision,
            reveals_gram=scheme.reveals_gram,
        )

    def parties(self, scheme: CodedScheme, *, masks: bool = True) -> Parties:
        keys = {name: simulated_identity(name).public for name in self.names}
        roster = TrainingRoster(simulated_identity(SERVER).public, keys)
        return scheme.parties(self.statistic(scheme), roster, masks=masks)

    def devices(self, parties: Parties) -> dict[str, Device]:
        return {
            name: parties.device(
                name,
                simulated_identity(name),
                partial(_same, rows),
                InMemory(),
                now=lambda: 0.0,
                random_bytes=np.random.default_rng(self.seed + place).bytes,
            )
            for place, (name, rows) in enumerate(zip(self.names, self.data, strict=True))
        }

    def models(
        self, scheme: CodedScheme, solver: Solver, engine: MakeEngine = InProcess, *, masks: bool = True
    ) -> list[Floats]:
        """The model after each epoch of a real training."""
        parties = self.parties(scheme, masks=masks)
        made = engine({name: one.reply for name, one in self.devices(parties).items()})
        sums = parties.server(
            made,
            simulated_identity(SERVER),
            patience=PATIENCE,
            tell=lambda _event: None,
            wall=lambda: 0.0,
            random_bytes=np.random.default_rng(self.seed).bytes,
        )
        found: list[Floats] = []
        train(sums, self.statistic(scheme), solver, on_epoch=lambda _epoch, theta: found.append(theta.copy()))
        return found

    def expected(self, scheme: CodedScheme, solver: Solver) -> list[Floats]:
        """By the oracle: ``solver`` fed with products in Python integers."""
        scales = self.statistic(scheme).scales
        totals = oracle.Totals(
            self.data,
            feature_bits=scales.feature_bits,
            label_bits=scales.label_bits,
            gram_bits=scales.gram_bits,
            constant_bits=scales.constant_bits,
            initial=np.zeros((self.d, self.c)).tolist(),
        )
        room = scales.modulus // 8 // scales.gram_limit
        if isinstance(solver, ClosedForm):
            solver.take_gram(np.array(oracle.reals(totals.gram, totals.gram_bits))[np.triu_indices(self.d)])
        constant = np.array(oracle.reals(totals.constant, totals.constant_bits))
        solver.start(np.zeros((self.d, self.c)), constant, sum(self.sizes))
        models = []
        while True:
            assert solver.model is not None
            models.append(solver.model.copy())
            update = solver.request()
            if update is None:
                return models
            integers, bits = oracle.update_on_grid(update.tolist(), room)
            product = oracle.reals(oracle.product(totals.gram, integers), totals.gram_bits + bits)
            solver.receive(np.array(oracle.reals(integers, bits)), np.array(product))


def _same(rows: Any) -> Any:
    return rows
