"""Who takes part in a training, and how each is made from what it knows: a device from its rows, the server from none.

The same parties run in one process, in virtual time, and as processes on a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto.sealed import Identity
from codedfl.sum.asking import Engine, Patience
from codedfl.sum.device import Device, Memory
from codedfl.sum.events import Event
from codedfl.sum.terms import Terms
from codedfl.typing import RandomBytes


@dataclass(frozen=True)
class TrainingRoster:
    """Long-term keys: the server's, and the devices' in the order of the run."""

    server: bytes
    keys: Mapping[str, bytes]


class SecureSums(Protocol):
    """What a server makes of its devices: a ``Session`` of ``codedfl.sum``, or a ``CodedSession``."""

    def sum(self, ask: bytes) -> list[int]:
        """The sum of a statistic's vector, in whole numbers."""

    def product(self, ask: bytes, e: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.object_]:
        """The sum of its matrix times e, in whole numbers."""

    def close(self) -> None:
        """The keys that could open anything are deleted."""


Rows = Callable[[], tuple[NDArray[Any], NDArray[Any]]]
"""A device's X and Y, when they are asked for."""


class Parties(Protocol):
    """Devices and server of one training by one scheme."""

    @property
    def terms(self) -> Terms:
        """Who takes part."""

    def device(
        self,
        name: str,
        identity: Identity,
        rows: Rows,
        memory: Memory,
        *,
        noise_seed: bytes = b"",
        now: Callable[[], float],
        random_bytes: RandomBytes,
    ) -> Device:
        """One device."""

    def server(
        self,
        engine: Engine,
        identity: Identity,
        *,
        patience: Patience,
        tell: Callable[[Event], None],
        wall: Callable[[], float],
        random_bytes: RandomBytes,
    ) -> SecureSums:
        """The server."""
