"""Parties of the specification and of the package in one federation, in process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from spec.parties import Device as SpecDevice

from codedfl.protocol.events import Outgoing, Turn
from codedfl.protocol.messages import Message
from codedfl.solve.solver import Solver


class SolverForSpec:
    """A solver of the package, as the specification's server asks for one."""

    def __init__(self, solver: Solver, d: int, outputs: int) -> None:
        self.solver, self._shape = solver, (d, outputs)

    def __call__(self, e: list[list[float]], total: list[float]) -> list[list[float]] | None:
        if not e:
            *gradient, rows = total
            self.solver.start(np.zeros(self._shape), np.array(gradient).reshape(self._shape), int(rows))
        else:
            self.solver.receive(np.array(e), np.array(total).reshape(self._shape))
        found = self.solver.request()
        return None if found is None else found.tolist()


class SpecDeviceInPackage:
    """A device of the specification, as the package's drivers talk to one."""

    objection = ""

    def __init__(self, device: SpecDevice, receive: Callable[[SpecDevice, bytes], list[bytes]]) -> None:
        self.device, self.name, self._receive = device, device.name, receive

    def receive(self, data: bytes, bulk: bytes = b"") -> Turn:
        return Turn([Outgoing(("",), Message.decode(one)) for one in self._receive(self.device, data)])
