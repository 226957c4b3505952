"""Everything that is fixed before a run begins, and the one way to make its parties.

Whoever starts a run makes a plan: the laboratory of a problem (``run.parties``), a study of what its parties approved
(``contract``). The parties of both are made here.
"""

from __future__ import annotations

import secrets as system_random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from codedfl.crypto.sealed import Identity
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Contribution
from codedfl.protocol.device import Device
from codedfl.protocol.schemes import Machines
from codedfl.protocol.schemes.role_device import RoleDevice
from codedfl.protocol.schemes.role_server import RoleServer
from codedfl.protocol.server import Server
from codedfl.protocol.terms import Terms
from codedfl.solve.solver import Solver
from codedfl.typing import Floats, RandomBytes


@dataclass(frozen=True)
class RunPlan:
    """One run to be.

    machines: the two parties of its scheme.
    parameters: the public parameters.
    names: the devices, in the run's order.
    spare: answers beyond those that decode, to find wrong ones by.
    holders: who holds keys in a scheme of roles, the fastest first; empty is everybody.
    helpers: devices without data, in a scheme of roles.
    terms: what devices hold the server to; None in simulations, where one process holds everything.
    """

    machines: Machines
    parameters: Parameters
    names: tuple[str, ...]
    spare: int = 0
    holders: tuple[str, ...] = ()
    helpers: frozenset[str] = frozenset()
    terms: Terms | None = None

    def server(
        self,
        solver: Solver,
        *,
        identity: Identity | None = None,
        roster: Mapping[str, bytes] | None = None,
        stop_when: Callable[[Floats], bool] | None = None,
        random_bytes: RandomBytes = system_random.token_bytes,
    ) -> Server:
        """The server of this run; see ``Server``. With terms, their roster is the roster."""
        kind = self.machines.server_type
        of_roles: dict[str, Any] = {}
        if issubclass(kind, RoleServer):
            of_roles = {"holders": self.holders or None, "helpers": self.helpers}
            if self.terms is not None:
                of_roles |= {"pods": self.terms.pods, "least_owners": self.terms.least_owners}
        return kind(
            self.parameters,
            self.names,
            solver,
            identity=identity,
            roster=roster if self.terms is None else self.terms.roster,
            stop_when=stop_when,
            spare=self.spare,
            random_bytes=random_bytes,
            **of_roles,
        )

    def device(
        self,
        name: str,
        contribution: Contribution | None,
        *,
        identity: Identity | None = None,
        noise_seed: bytes = b"",
        answered: Collection[bytes] = (),
        random_bytes: RandomBytes = system_random.token_bytes,
    ) -> Device:
        """A device of this run; see ``Device``."""
        kind = self.machines.device_type
        helper: dict[str, Any] = {"helper": name in self.helpers} if issubclass(kind, RoleDevice) else {}
        return kind(
            name,
            contribution,
            self.terms,
            identity=identity,
            noise_seed=noise_seed,
            answered=answered,
            random_bytes=random_bytes,
            **helper,
        )
