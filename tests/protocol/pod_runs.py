"""Runs on terms: owners in pods, a roster, helpers, and devices that hold the server to what was agreed to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from codedfl.crypto.sealed import Identity
from codedfl.exact.row_noise import RowNoise
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Contribution
from codedfl.protocol.device import Device
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.role_keys import ROLE_KEYS, ROLE_SUMS
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.protocol.terms import Terms
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.solver import Solver
from scenario import Network, Scenario, descent, repeatable

SERVERS_IDENTITY = Identity(bytes([7]) * 32)
KINDS: dict[str, Any] = {
    "role-keys": {"scheme": ROLE_KEYS},
    "role-sums": {"scheme": ROLE_SUMS},
}


@dataclass
class PodScenario(Scenario):
    """Nine owners in three pods; ``helpers`` hold keys and have no data. Scales are made for all owners, always."""

    sizes: Sequence[int] = (2, 1, 7, 3, 1, 4, 2, 3, 1)
    alpha: int = 1
    colluders: int = 1
    public_samples: bool = False
    scheme: SharingScheme = ROLE_KEYS
    pod_sizes: Sequence[int] = (3, 3, 3)
    least_owners: int = 3
    helpers: tuple[str, ...] = ()
    epochs: int = 4
    noise: RowNoise | None = None
    changes: dict[str, Any] = field(default_factory=dict)  # of the parameters

    @property
    def everybody(self) -> list[str]:
        return [*self.names, *self.helpers]

    @property
    def pods(self) -> tuple[frozenset[str], ...]:
        ends = np.cumsum(self.pod_sizes)
        return tuple(frozenset(self.names[end - n : end]) for end, n in zip(ends, self.pod_sizes, strict=True))

    def pod_of(self, name: str) -> frozenset[str]:
        return next(pod for pod in self.pods if name in pod)

    @property
    def parameters(self) -> Parameters:
        fixed: dict[str, Any] = {"owners": self.n_devices, "epochs": self.solver().epochs, "noise": self.noise}
        return replace(super().parameters, **fixed | self.changes)

    def identity(self, name: str) -> Identity:
        return Identity(bytes([self.everybody.index(name) + 32]) * 32)

    @property
    def roster(self) -> dict[str, bytes]:
        return {name: self.identity(name).public for name in self.everybody}

    @property
    def agreed_to(self) -> Terms:
        return Terms(self.parameters, SERVERS_IDENTITY.public, self.roster, self.pods, self.least_owners)

    @property
    def plan(self) -> RunPlan:
        helpers = frozenset(self.helpers)
        return RunPlan(self.scheme, self.parameters, tuple(self.everybody), helpers=helpers, terms=self.agreed_to)

    def contribution(self, name: str) -> Contribution | None:
        return None if name in self.helpers else super().rows(self.names.index(name))

    def party(self, name: str, salt: object = "", **options: Any) -> Device:
        """A device; another ``salt`` is another source of randomness, as of another run."""
        source = repeatable(f"{name} {salt}")
        seed = f"noise of {name:>23}".encode() if self.noise else b""
        usual: dict[str, Any] = {"identity": self.identity(name), "random_bytes": source, "noise_seed": seed}
        return Device(self.plan, name, options.pop("contribution", self.contribution(name)), **usual | options)

    def solver(self) -> Solver:
        return ClosedForm(1e-3) if self.scheme.reveals_gram else descent(self.epochs)

    def network(self, salt: object = "", solver: Solver | None = None, **options: Any) -> Network:
        """Everybody has been invited."""
        source = repeatable(f"server {salt}")
        server = Server(self.plan, solver or self.solver(), identity=SERVERS_IDENTITY, random_bytes=source)
        network = Network(server, [self.party(name, salt, **options) for name in self.everybody])
        network.send(server.invite())
        return network

    def expected(self, listed: Collection[str]) -> Any:
        """The oracle's model of these owners, on the scales of all."""
        kept = Scenario(self.sizes, 1, self.d, self.c, public_samples=False, bounds=self.bounds, seed=self.seed)
        kept.scheme = self.scheme
        return kept.only(listed).expected_models(self.solver())[-1]


def drive(network: Network, silent: Callable[[], Collection[str]] = tuple, joined: Collection[str] = ()) -> None:
    """To the end without the silent ones, as a driver would: no links to them, and the server is told.

    joined: who joins at all; everybody if nobody is named.
    """
    server, names = network.server, list(network.devices)

    def flow(present: Collection[str]) -> None:
        while links := [link for link in network.pending() if link[1] in present and link[1] not in silent()]:
            network.deliver(links[0])

    flow(joined or names)
    if server.phase is Phase.JOINING:
        network.send(server.freeze())
    for _ in range(2 * len(names)):
        flow(joined or names)
        if server.phase is Phase.FINISHED:
            return
        gone = set(silent()) | (set(names) - set(joined or names))
        network.send(server.go_on_without([name for name in names if name in gone]))
    raise AssertionError(f"the run stopped: {server!r}")
