"""Small groups of devices whose numbers are made up, and engines that lose, double, reorder and delay."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from codedfl.crypto.sealed import Identity
from codedfl.engines.in_process import InProcess
from codedfl.sum.in_memory import InMemory
from codedfl.sum.session import Patience
from codedfl_lab.coded.device import CodedDevice
from codedfl_lab.coded.form import CodedForm
from codedfl_lab.coded.keys import Keyed
from codedfl_lab.coded.padded import Padded
from codedfl_lab.coded.session import CodedSession
from codedfl_lab.coded.study import CodedStudy, GivenNumbers, Sizes
from codedfl_lab.primes.ring import Ring

FORMS: dict[str, CodedForm] = {"coded-padded": Padded(), "coded-keys": Keyed()}
SERVER = Identity(hashlib.sha256(b"server").digest())
ASK = b"ask"
D, C, LENGTH = 4, 2, 3


def identity(name: str) -> Identity:
    return Identity(hashlib.sha256(name.encode()).digest())


@dataclass
class World:
    """Devices, each with a vector and a symmetric matrix."""

    form: CodedForm
    count: int
    alpha: int
    groups: int = 1
    primes: int = 2
    masks: bool = True
    seed: int = 1
    matrices: list[np.ndarray] = field(init=False)
    vectors: list[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        halves = [rng.integers(-1000, 1000, (D, D)) for _ in range(self.count)]
        self.matrices = [half + half.T for half in halves]
        self.vectors = [rng.integers(-(10**6), 10**6, LENGTH) for _ in range(self.count)]
        names = [f"device-{i}" for i in range(self.count)]
        sizes = sorted({len(range(group, self.count, self.groups)) for group in range(self.groups)})
        ring = Ring.for_group_sizes(sizes, self.primes)
        keys = {name: identity(name).public for name in names}
        shape = Sizes(LENGTH, D, C, room=10**5)
        self.study = CodedStudy(self.form, self.alpha, self.groups, SERVER.public, keys, ring, shape, self.masks)
        self.memories = {name: InMemory() for name in names}
        self.devices = {name: self.started(name) for name in names}

    def started(self, name: str) -> CodedDevice:
        """A process of this device, with what it has kept."""
        place = self.study.position(name)
        numbers = GivenNumbers(self.study, self.vectors[place], self.matrices[place][np.triu_indices(D)])
        return CodedDevice(name, identity(name), numbers, self.memories[name], now=lambda: 0.0)

    def answer(self, name: str) -> Callable[[bytes], bytes]:
        return lambda request: self.devices[name].reply(request)

    def session(self, engine: Any = None, **more: Any) -> CodedSession:
        engine = engine or InProcess({name: self.answer(name) for name in self.study.names})
        patience = Patience(join=1e4, upload=1e4, reply=1e4, retry=10.0, lasts=1e6)
        return CodedSession(engine, self.study, SERVER, wall=lambda: 0.0, patience=patience, **more)

    @property
    def vector(self) -> list[int]:
        return np.sum(self.vectors, axis=0).tolist()

    def product(self, e: np.ndarray) -> np.ndarray:
        return np.sum(self.matrices, axis=0) @ e


class Unreliable:
    """Loses, doubles, reorders and delays, on its own clock; ``before`` each reply something may happen."""

    def __init__(self, world: World, rng: random.Random, before: Callable[[str], None] = lambda name: None) -> None:
        self._world, self._rng, self._before = world, rng, before
        self._due: list[tuple[float, int, str, bytes]] = []
        self._now, self._count = 0.0, 0
        self.silent: Collection[str] = ()

    def here(self) -> Collection[str]:
        return self._world.study.names

    def send(self, device: str, request: bytes) -> None:
        for _ in range(self._rng.choice([0, 1, 1, 1, 2])):
            self._count += 1
            self._due.append((self._now + self._rng.expovariate(1.0), self._count, device, request))

    def replies(self, seconds: float) -> list[tuple[str, bytes]]:
        self._due.sort()
        if not self._due or self._due[0][0] > self._now + seconds:
            self._now += seconds
            return []
        self._now, _, device, request = self._due.pop(0)
        if device in self.silent or self._rng.random() < 0.1:
            return []
        self._before(device)
        return [(device, self._world.devices[device].reply(request))] * self._rng.choice([1, 1, 2])

    def now(self) -> float:
        return self._now
