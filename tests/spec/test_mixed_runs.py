"""Devices of the specification and of the package in one federation, in every mix, with either server."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mixed import SolverForSpec, SpecDeviceInPackage

from codedfl import BlockKrylov, Identity
from codedfl.code.roles import Cell, deal_cells
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.schemes.role_keys import ROLE_KEYS
from codedfl.protocol.server import Server
from codedfl.run.in_process import run_in_process
from spec import coded_padded, fixed_point, parties, role_keys

D, FEATURES, OUTPUTS, EPOCHS = 4, 3, 2, 4
NAMES = [f"device-{i}" for i in range(D)]
MORE = [*NAMES, "device-4", "device-5"]
SECRETS = {name: bytes([i + 1]) * 32 for i, name in enumerate(MORE)}
SERVER_SECRET = b"s" * 32
MIXES = [set(mix) for size in range(D + 1) for mix in itertools.combinations(NAMES, size)]


@dataclass(frozen=True)
class Scheme:
    """One scheme in both implementations."""

    sharing: SharingScheme
    alpha: int
    colluders: int
    receive: Callable[[parties.Device, bytes], list[bytes]]
    run: Callable[[parties.Server, fixed_point.Parameters, SolverForSpec], None]
    names: Sequence[str] = tuple(NAMES)
    blocks: int = 1
    reserve: int = 0

    @property
    def plan(self) -> RunPlan:
        bounds = Bounds(1.0, 1.0, 100, 10)
        parameters = Parameters(
            self.sharing.name, self.alpha, FEATURES, OUTPUTS, bounds, epochs=EPOCHS, colluders=self.colluders
        )
        return RunPlan(self.sharing, parameters, tuple(self.names), blocks=self.blocks, reserve=self.reserve)

    @property
    def parameters(self) -> fixed_point.Parameters:
        name, z = self.sharing.name, self.colluders
        return fixed_point.Parameters(
            name, self.alpha, FEATURES, OUTPUTS, 1.0, 1.0, 100, 10, epochs=EPOCHS, colluders=z
        )

    def package_device(self, name: str) -> Device:
        return Device(self.plan, name, Rows(*rows(name)), identity=Identity(SECRETS[name]))

    def spec_device(self, name: str) -> parties.Device:
        X, Y = rows(name)
        public, drawn = Identity(SERVER_SECRET).public, random.Random(name).randbytes
        roster, pods = {one: Identity(SECRETS[one]).public for one in self.names}, [frozenset(self.names)]
        rows_of = (X.tolist(), Y.tolist(), drawn)
        return parties.Device(name, SECRETS[name], public, self.parameters, roster, pods, 3, *rows_of)

    def package_server(self) -> Server:
        return Server(self.plan, solver(), identity=Identity(SERVER_SECRET))


def dealt(cells: Mapping[str, Cell]) -> tuple[dict[str, int], dict[str, int]]:
    """Roles and blocks by name, as the specification has them: no blocks where there is one."""
    blocks = {name: cell.block for name, cell in cells.items()}
    return {name: cell.role for name, cell in cells.items()}, blocks if max(blocks.values()) > 0 else {}


SCHEMES = {
    "coded-padded": Scheme(
        CODED_PADDED,
        3,
        0,
        coded_padded.receive,
        lambda server, p, asks: coded_padded.run(server, p, asks, stragglers=frozenset(NAMES[:2])),
    ),
    "role-keys": Scheme(
        ROLE_KEYS,
        1,
        1,
        role_keys.receive,
        lambda server, p, asks: role_keys.run(server, p, asks, *dealt(deal_cells(NAMES, 2))),
    ),
    "role-keys in two blocks": Scheme(
        ROLE_KEYS,
        1,
        1,
        role_keys.receive,
        lambda server, p, asks: role_keys.run(server, p, asks, *dealt(deal_cells(NAMES, 2, 2))),
        blocks=2,
    ),
    "role-keys in blocks with a reserve": Scheme(
        ROLE_KEYS,
        1,
        1,
        role_keys.receive,
        lambda server, p, asks: role_keys.run(server, p, asks, *dealt(deal_cells(MORE, 2, 2, 1))),
        MORE,
        blocks=2,
        reserve=1,
    ),
}


def rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(MORE.index(name))
    return drawn.uniform(-1, 1, (5, FEATURES)), drawn.uniform(-1, 1, (5, OUTPUTS))


def solver() -> BlockKrylov:
    return BlockKrylov(EPOCHS, regularisation=1e-3)


@pytest.fixture(scope="module", params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> Scheme:
    return SCHEMES[request.param]


@pytest.fixture(scope="module")
def model(scheme: Scheme) -> np.ndarray:
    return run_in_process(scheme.package_server(), [scheme.package_device(name) for name in scheme.names])


@pytest.mark.parametrize("of_spec", MIXES, ids=lambda mix: f"{len(mix)} of the specification")
def test_the_package_s_server(scheme: Scheme, of_spec: set[str], model: np.ndarray) -> None:
    devices: list[Any] = [
        SpecDeviceInPackage(scheme.spec_device(name), scheme.receive)
        if name in of_spec
        else scheme.package_device(name)
        for name in scheme.names
    ]
    np.testing.assert_array_equal(run_in_process(scheme.package_server(), devices), model)


@pytest.mark.parametrize("of_spec", MIXES, ids=lambda mix: f"{len(mix)} of the specification")
def test_the_specification_s_server(scheme: Scheme, of_spec: set[str], model: np.ndarray) -> None:
    def line(name: str) -> parties.Send:
        if name in of_spec:
            one = scheme.spec_device(name)
            return lambda data: scheme.receive(one, data)
        device = scheme.package_device(name)
        return lambda data: [sent.data for sent in device.receive(data).outgoing]

    server = parties.Server(SERVER_SECRET, {name: line(name) for name in scheme.names}, random.Random(7).randbytes)
    asks = SolverForSpec(solver(), FEATURES, OUTPUTS)
    scheme.run(server, scheme.parameters, asks)
    np.testing.assert_array_equal(asks.solver.model, model)
