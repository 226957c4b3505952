"""The parties of a scheme with a gradient code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from codedfl.crypto.sealed import Identity
from codedfl.sum.asking import Engine
from codedfl.sum.device import Memory
from codedfl.sum.terms import Terms
from codedfl_lab.coded.device import CodedDevice
from codedfl_lab.coded.session import CodedSession
from codedfl_lab.coded.study import CodedStudy
from codedfl_lab.parties.making import Parties, Rows
from codedfl_lab.parties.statistic import Numbers, RowsStatistic
from codedfl_lab.primes.planes import Planes


@dataclass(frozen=True)
class CodedParties(Parties):
    """See ``Parties``."""

    study: CodedStudy
    statistic: RowsStatistic
    spare: int = 0

    @property
    def terms(self) -> Terms:
        return self.study.terms

    def device(
        self, name: str, identity: Identity, rows: Rows, memory: Memory, *, noise_seed: bytes = b"", **more: Any
    ) -> CodedDevice:
        contract = _Contract(self.study, lambda: self.statistic.numbers(*rows(), noise_seed))
        return CodedDevice(name, identity, contract, memory, **more)

    def server(self, engine: Engine, identity: Identity, **more: Any) -> CodedSession:
        return CodedSession(engine, self.study, identity, spare=self.spare, **more)


@dataclass(frozen=True)
class _Contract:
    study: CodedStudy
    make: Callable[[], Numbers]

    def numbers(self, ask: bytes) -> Planes:
        del ask  # there is one statistic
        return self.study.ring.from_integers(np.concatenate(self.make()))
