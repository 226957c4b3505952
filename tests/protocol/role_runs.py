"""Runs of role keys, for tests: a scenario, who holds what, and who is deaf."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from codedfl.protocol.schemes.role_keys import ROLE_KEYS
from codedfl.protocol.server import Server
from scenario import Network, Scenario, descent

SIZES = (2, 1, 7, 3, 1, 4)


def scenario_of(colluders: int = 1, sizes: Sequence[int] = SIZES, **options: Any) -> Scenario:
    types = {"scheme": ROLE_KEYS} | options
    return Scenario(sizes=sizes, alpha=1, colluders=colluders, public_samples=False, **types)


def first_of_each_role(server: Server, rng: np.random.Generator) -> Callable[[int, Sequence[str]], list[str]]:
    """A different holder of every role in each epoch; nobody else answers."""

    def arrivals(epoch: int, names: Sequence[str]) -> list[str]:
        del epoch
        agreement = server.agreement
        assert agreement is not None
        roles: dict[int, list[str]] = {}
        for name in names:
            roles.setdefault(agreement.roles[agreement.position(name)], []).append(name)
        return [str(rng.choice(holders)) for holders in roles.values()]

    return arrivals


def holders_of(server: Server, role: int) -> list[str]:
    agreement = server.agreement
    assert agreement is not None
    return [name for name, one in zip(agreement.names, agreement.roles, strict=True) if one == role]


def without(scenario: Scenario, *left_out: int) -> np.ndarray:
    """The model of the others, on the scales that all agreed on."""
    kept = [name for i, name in enumerate(scenario.names) if i not in left_out]
    return scenario.only(kept).expected_models(descent())[-1]


def deaf(network: Network, *names: str) -> Callable[[], None]:
    """From now on nothing reaches these devices and nothing comes from them."""

    def run() -> None:
        while links := [link for link in network.pending() if link[1] not in names]:
            network.deliver(links[0])

    return run
