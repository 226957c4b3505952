"""The model is bit for bit the centralised one, whichever devices straggle, drop out or come back, in any order.

The oracle quantises the features with fractions, adds up in Python integers, and feeds the same solver with exact
products; it knows nothing of rings, codes, pads, masks or devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from codedfl.engines.in_process import InProcess, ReplyBytes
from codedfl.solve.descent import GradientDescent, Nesterov, StepSchedule
from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
from codedfl.solve.solver import Solver
from codedfl.sum.wire import Request, decode
from codedfl_lab import CodedKeys, CodedPadded, CodedScheme, RoleKeys
from trainings import Small

EPOCHS = 5
STEP = StepSchedule(0.5, 0.8, (2,))
SOLVERS: dict[str, Callable[[], Solver]] = {
    "descent": lambda: GradientDescent(EPOCHS, 1e-3, STEP),
    "Nesterov": lambda: Nesterov(EPOCHS, regularisation=1e-3, step=StepSchedule(0.2)),
    "conjugate gradient": lambda: ConjugateGradient(EPOCHS, regularisation=1e-3, restart=2),
    "block Krylov": lambda: BlockKrylov(EPOCHS, regularisation=1e-3),
}
FIVE = (2, 1, 7, 3, 1)
TRAININGS: dict[str, tuple[Small, CodedScheme, bool]] = {
    "D = 2, uncoded": (Small((3, 4)), CodedPadded(1), True),
    "D = 2, replication": (Small((3, 4)), CodedPadded(2), True),
    "uncoded": (Small(FIVE), CodedPadded(1), True),
    "coded": (Small(FIVE), CodedPadded(3), True),
    "replication": (Small(FIVE), CodedPadded(5), True),
    "three primes": (Small(FIVE, precision=50), CodedPadded(3), True),
    "one feature, one output": (Small((1, 1, 1), d=1, c=1), CodedPadded(2), True),
    "more outputs than features": (Small((2, 3, 2), d=2, c=7), CodedPadded(2), True),
    "masks off": (Small(FIVE), CodedPadded(3), False),
    "coded keys": (Small(FIVE), CodedKeys(3), True),
    "coded keys, three primes": (Small(FIVE, precision=50), CodedKeys(3), True),
    "groups": (Small((*FIVE, 4, 2)), CodedKeys(2, groups=2), True),
    "role keys": (Small(FIVE), RoleKeys(1), True),
    "role keys, no colluder": (Small(FIVE), RoleKeys(0), True),
    "role keys, 32 bits": (Small(FIVE), RoleKeys(1, narrow=True), True),
    "role keys, a spare reply": (Small(FIVE), RoleKeys(1, spare=1), True),
}


class Straggling(InProcess):
    """In every epoch others are late for good, as many as the scheme can do without; replies come in any order."""

    def __init__(self, devices: Mapping[str, ReplyBytes], late: int, rng: np.random.Generator) -> None:
        super().__init__(devices)
        self._names, self._count, self._rng = list(devices), late, rng
        self._asked: set[bytes] = set()
        self._late: set[str] = set()

    def send(self, device: str, request: bytes) -> None:
        found = decode(request, Request, "a request")
        if found.kind == "answer":
            if found.common not in self._asked:
                self._asked.add(found.common)
                self._late = set(self._rng.choice(self._names, self._count, replace=False).tolist())
            if device in self._late:
                return
        super().send(device, request)

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        found = super().replies(seconds)
        return [found[i] for i in self._rng.permutation(len(found))]


@cache
def expected(name: str, solver: str) -> list[np.ndarray]:
    small, scheme, _ = TRAININGS[name]
    return small.expected(scheme, SOLVERS[solver]())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", TRAININGS)
def test_every_model_is_the_centralised_one(name: str, solver: str):
    """With as many stragglers as the scheme allows, others in every epoch."""
    small, scheme, masks = TRAININGS[name]
    rng, late = np.random.default_rng(len(name)), scheme.quorum(len(small.sizes)).failures_survived
    models = small.models(scheme, SOLVERS[solver](), lambda devices: Straggling(devices, late, rng), masks=masks)
    assert len(models) == len(expected(name, solver))
    for model, truth in zip(models, expected(name, solver), strict=True):
        assert np.array_equal(model, truth)


def test_the_oracle_tells_trainings_and_epochs_apart():
    """Equality above means something: a last bit is a difference, and so are other stragglers' data."""
    coded = expected("coded", "descent")
    assert not any(np.array_equal(one, other) for one, other in pairwise(coded))
    assert not np.array_equal(coded[-1], expected("three primes", "descent")[-1])
    without = Small(FIVE)
    without.data[1] = (np.zeros((1, 4)), np.zeros((1, 2)))
    assert not np.array_equal(coded[-1], without.expected(CodedPadded(3), SOLVERS["descent"]())[-1])


@pytest.mark.parametrize("alpha", [1, 7, 20])
def test_twenty_devices_with_twelve_features(alpha: int):
    small = Small(tuple(1 + i % 5 for i in range(20)), d=12, c=3)
    rng, make = np.random.default_rng(alpha), lambda: GradientDescent(3, 1e-3, STEP)
    models = small.models(CodedPadded(alpha), make(), lambda devices: Straggling(devices, alpha - 1, rng))
    for model, truth in zip(models, small.expected(CodedPadded(alpha), make()), strict=True):
        assert np.array_equal(model, truth)
