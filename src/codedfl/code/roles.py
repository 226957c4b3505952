"""Roles instead of a gradient code: every holder of a role says the same, and one answer of each role is enough.

The answers of z + 1 roles add up to the total (``protocol.schemes.role_server``). Within a role the answers are a
codeword of the simplest Reed-Solomon code, a constant polynomial: spare answers check each other as in a gradient
code.

Invariant: a holder has one role only. Any z devices therefore miss the seeds of at least one role, and what they miss
is uniform to them: this is why z devices and the server together learn the total only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from codedfl.code.gradient_code import GradientCode, GroupedCode
from codedfl.code.quorum import Quorum, QuorumPart
from codedfl.errors import InvalidInput

Residues = NDArray[np.int64]

NO_ROLE = -1


class Replication:
    """One role: ``n_devices`` holders whose answers are equal, so any single one decodes."""

    answers_needed = 1

    def __init__(self, n_devices: int, primes: Sequence[int]) -> None:
        self.n_devices = n_devices
        self.primes = tuple(primes)
        # A constant polynomial has the same value everywhere, so any points will do as long as they differ.
        self.points = [list(range(1, n_devices + 1)) for _ in primes]


class RoleCode:
    """Who holds which role.

    Parameters
    ----------
    roles : sequence of int
        The role of each position, 0 to z; ``NO_ROLE`` for one that holds none and is never asked.
    n_roles : int
        z + 1; each must have a holder. 1 is replication: everybody holds everything.
    primes : sequence of int
        Those of the ring.
    """

    def __init__(self, roles: Sequence[int], n_roles: int, primes: Sequence[int]) -> None:
        if not all(role == NO_ROLE or 0 <= role < n_roles for role in roles):
            raise InvalidInput(f"a role must be between 0 and {n_roles - 1}, or {NO_ROLE} for none, got {list(roles)}")
        self.roles = tuple(roles)
        self.n_roles = n_roles
        self.n_devices = len(self.roles)
        self.primes = tuple(primes)
        self._holders = [[i for i, one in enumerate(self.roles) if one == role] for role in range(n_roles)]
        for role, holders in enumerate(self._holders):
            if not holders:
                raise InvalidInput(f"every role must have a holder, got none for role {role} of {n_roles}")

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(holders)) for holders in self._holders)
        return f"<RoleCode of {self.n_roles} roles with {sizes} holders, tolerates {self.n_roles - 1} colluders>"

    @property
    def answers_needed(self) -> int:
        """The least number of answers that can be enough: one per role."""
        return self.n_roles

    @cached_property
    def quorum(self) -> Quorum:
        """One part per role, which needs one answer."""
        return Quorum(tuple(QuorumPart(tuple(holders), 1) for holders in self._holders))

    @cached_property
    def parts(self) -> list[tuple[Replication, list[int]]]:
        """Each role with its holders."""
        return [(Replication(len(holders), self.primes), holders) for holders in self._holders]

    def holders(self, role: int) -> list[int]:
        """Positions of those who have this role."""
        return self._holders[role]

    def decoding_vector(self, survivors: Sequence[int]) -> Residues:
        """1 for the first survivor of each role, 0 for the others; shape (P, len(survivors))."""
        if not self.quorum.complete(survivors):
            raise InvalidInput(f"decoding needs one answer of each of {self.n_roles} roles, got {list(survivors)}")
        vector = np.zeros((len(self.primes), len(survivors)), dtype=np.int64)
        for holders in self._holders:
            vector[:, next(place for place, i in enumerate(survivors) if i in holders)] = 1
        return vector


AnswerCode = GradientCode | GroupedCode | RoleCode  # whatever the server decodes answers by


def deal_roles(holders: Sequence[str], n_roles: int) -> dict[str, int]:
    """Deal roles round and round: with holders in the order of speed, each role gets fast and slow ones alike."""
    if len(holders) < n_roles:
        raise InvalidInput(f"there must be a holder for each of {n_roles} roles, got {len(holders)}")
    return {name: place % n_roles for place, name in enumerate(holders)}
