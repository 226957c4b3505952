"""Roles instead of a gradient code: every holder of a role says the same, and one answer of each role is enough.

The answers of z + 1 roles add up to the total (``schemes.role_keys.server``). Rows may be dealt out as well: cell
(r, k) are the holders of role r that keep block k of its rows, and an epoch then takes one answer of each cell. The
reserve of a role keeps all rows, so it counts in each of the role's cells. Within a cell the answers are a codeword of
the simplest Reed-Solomon code, a constant polynomial: spare answers check each other as in a gradient code.

Invariant: a holder has one role only. Any z devices therefore miss the seeds of at least one role, and what they miss
is uniform to them: this is why z devices and the server together learn the total only. Blocks change nothing in it:
every answer is a function of the role's sum.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from codedfl.errors import InvalidInput
from codedfl_lab.code.gradient_code import GradientCode, GroupedCode
from codedfl_lab.code.quorum import Quorum, QuorumPart

Residues = NDArray[np.int64]

NO_ROLE = -1
ALL_ROWS = -1  # in place of a block: the reserve of a role
Holder = TypeVar("Holder", bound=Hashable)


class Cell(NamedTuple):
    """What one holder keeps: a role's sum, and of it one block of rows or ``ALL_ROWS``."""

    role: int
    block: int


class Replication:
    """One cell: ``n_devices`` holders whose answers for a block of rows are equal, so any single one decodes."""

    answers_needed = 1

    def __init__(self, n_devices: int, primes: Sequence[int], block: int = 0) -> None:
        self.n_devices = n_devices
        self.primes = tuple(primes)
        self.block = block
        # A constant polynomial has the same value everywhere, so any points will do as long as they differ.
        self.points = [list(range(1, n_devices + 1)) for _ in primes]


class RoleCode:
    """Who holds which role, and which of its rows.

    Parameters
    ----------
    roles : sequence of int
        The role of each position, 0 to z; ``NO_ROLE`` for one that holds none and is never asked.
    n_roles : int
        z + 1; each must have a holder. 1 is replication: everybody holds everything.
    primes : sequence of int
        Those of the ring.
    blocks : sequence of int
        The block of rows of each position, 0 to K - 1; ``ALL_ROWS`` for the reserve, and where there is no role. Empty
        is K = 1: every holder keeps all rows.
    """

    def __init__(self, roles: Sequence[int], n_roles: int, primes: Sequence[int], blocks: Sequence[int] = ()) -> None:
        if not all(role == NO_ROLE or 0 <= role < n_roles for role in roles):
            raise InvalidInput(f"a role must be between 0 and {n_roles - 1}, or {NO_ROLE} for none, got {list(roles)}")
        self.n_blocks = max(blocks, default=0) + 1
        if blocks and (len(blocks) != len(roles) or self.n_blocks < 2 or min(blocks) < ALL_ROWS):
            raise InvalidInput(f"blocks must be one per device, two different ones at least, got {list(blocks)!r:.80}")
        self.roles = tuple(roles)
        self.blocks = tuple(blocks) or tuple(0 if role != NO_ROLE else ALL_ROWS for role in roles)
        self.n_roles = n_roles
        self.n_devices = len(self.roles)
        self.primes = tuple(primes)
        self._holders: list[list[int]] = [[] for _ in range(n_roles)]
        self._cells: dict[Cell, list[int]] = {}
        for i, cell in enumerate(map(Cell, self.roles, self.blocks)):
            if cell.role != NO_ROLE:
                self._holders[cell.role].append(i)
                self._cells.setdefault(cell, []).append(i)
            elif cell.block != ALL_ROWS:
                raise InvalidInput(f"a device without a role must keep no rows, got block {cell.block}")
        for role, holders in enumerate(self._holders):
            if not holders:
                raise InvalidInput(f"every role must have a holder, got none for role {role} of {n_roles}")
        for cell in self.cells:
            if cell not in self._cells:
                raise InvalidInput(
                    f"every block of a role must have a holder of its own, got none for block {cell.block} of role"
                    f" {cell.role}"
                )

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(holders)) for holders in self._holders)
        dealt = f", {self.n_blocks} blocks of rows" if self.n_blocks > 1 else ""
        return f"<RoleCode of {self.n_roles} roles with {sizes} holders{dealt}, tolerates {self.n_roles - 1} colluders>"

    @property
    def cells(self) -> list[Cell]:
        """All of them, role after role."""
        return [Cell(role, block) for role in range(self.n_roles) for block in range(self.n_blocks)]

    @property
    def answers_needed(self) -> int:
        """The number of answers that are enough, where no reserve stands in: one per cell."""
        return self.n_roles * self.n_blocks

    @cached_property
    def quorum(self) -> Quorum:
        """One part per cell, which needs one answer."""
        return Quorum(tuple(QuorumPart(tuple(self.members(cell)), 1) for cell in self.cells))

    @cached_property
    def parts(self) -> list[tuple[Replication, list[int]]]:
        """Each cell with those who can answer for it."""
        members = [(cell.block, self.members(cell)) for cell in self.cells]
        return [(Replication(len(holders), self.primes, block), holders) for block, holders in members]

    def members(self, cell: Cell) -> list[int]:
        """Positions of those who can answer for a cell: its holders, then the reserve of its role."""
        return self._cells[cell] + self._cells.get(Cell(cell.role, ALL_ROWS), [])

    def holders(self, role: int) -> list[int]:
        """Positions of those who have this role."""
        return self._holders[role]

    def decoding_vector(self, survivors: Sequence[int]) -> Residues:
        """1 for the first survivor of each role, 0 for the others; shape (P, len(survivors)).

        They all have answered for the block of rows that is decoded.
        """
        vector = np.zeros((len(self.primes), len(survivors)), dtype=np.int64)
        first = {self.roles[i]: place for place, i in reversed(list(enumerate(survivors)))}
        if set(first) != set(range(self.n_roles)):
            raise InvalidInput(f"decoding needs one answer of each of {self.n_roles} roles, got {list(survivors)}")
        vector[:, list(first.values())] = 1
        return vector


AnswerCode = GradientCode | GroupedCode | RoleCode  # whatever the server decodes answers by


def deal_cells(holders: Sequence[Holder], n_roles: int, blocks: int = 1, reserve: int = 0) -> dict[Holder, Cell]:
    """Deal roles round and round, and blocks within each role; ``reserve`` holders of each role keep all rows.

    With holders in the order of speed, each cell gets fast and slow ones alike, and the reserve are the fastest.

    >>> deal_cells(["a", "b", "c", "d", "e", "f"], n_roles=2, blocks=2, reserve=1)["f"]
    Cell(role=1, block=1)
    """
    if len(holders) // n_roles < blocks + reserve:
        raise InvalidInput(
            f"there must be {blocks + reserve} holder(s) for each of {n_roles} roles, got {len(holders)} in all"
        )
    dealt = {}
    for place, name in enumerate(holders):
        turn = place // n_roles - reserve
        dealt[name] = Cell(place % n_roles, turn % blocks if turn >= 0 else ALL_ROWS)
    return dealt


def most_blocks(n_holders: int, n_roles: int, reserve: int = 0, spare: int = 0) -> int:
    """The largest number of blocks of rows for which every cell has a holder of its own and ``spare`` answers more.

    >>> most_blocks(25, n_roles=2), most_blocks(25, n_roles=2, reserve=2), most_blocks(25, n_roles=2, spare=1)
    (12, 10, 6)
    """
    return (n_holders // n_roles - reserve) // max(1, spare + 1 - reserve)
