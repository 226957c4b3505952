"""Role keys and role sums as values: the product's secure sum (``codedfl.sum``) runs them.

Role sums are role keys whose holders say S_r itself, so that the server gets the total of X'X once and solves at once.
For linear regression X'X and X'Y are all there is to know, so one answer of each role is enough. The price is that the
server learns the whole total Gram matrix, as in one-shot; single devices stay as well hidden as with role keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from codedfl.errors import InvalidInput
from codedfl.sum.layout import TILE
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.code.roles import ALL_ROWS, NO_ROLE, Cell, RoleCode, deal_cells, most_blocks
from codedfl_lab.parties.making import Parties, TrainingRoster
from codedfl_lab.parties.roles import RoleParties
from codedfl_lab.parties.statistic import RowsStatistic
from codedfl_lab.primes.ring import NARROW, Ring
from codedfl_lab.privacy.exposure import Exposure
from codedfl_lab.schemes.descriptor import CodedScheme

if TYPE_CHECKING:
    from codedfl_lab.privacy.views import Views

MANY_DEVICES = 50  # beyond this number, not everybody holds keys
HOLDERS_PER_ROLE = 12  # then this number of the fastest hold each role
LEAST_FOR_ONE_COLLUDER = 4  # below, a colluder leaves too few to hide among
MOST_BLOCKS = -(-2000 // TILE)  # rows are dealt out in tiles: of the paper's 2000 features
_PER_CELL = 10  # of many devices, these of the fastest hold each block
_COLLUDERS_TRIED = (1, 2, 4, 9)


@dataclass(frozen=True)
class RoleKeyed:
    """What schemes of roles share: any ``colluders`` devices and the server together learn the total only.

    Parameters
    ----------
    colluders : int
        z. There are z + 1 roles, and an epoch needs one answer of each. 0 lets nobody collude: every holder has all
        keys.
    holders : int
        How many devices hold keys, the first in the run's order (the fastest where times are known); 0 is all of them.
    spare : int
        Answers beyond the first that are waited for in each role: 1 detects a wrong one, 2t outvote t
        malicious devices.
    narrow : bool
        A ring of 32 bits instead of 48: enough for a target with random features, two thirds of the upload.
    blocks : int
        K. A role's rows are dealt out among its holders in this number of blocks, and an epoch needs one answer of each
        cell (role, block): a holder expands, multiplies and answers its rows only. 1 leaves all rows to every holder.
        A run with fewer tiles of rows, or fewer holders, has as many blocks as they allow.
    reserve : int
        Holders per role, the fastest, that keep all rows: they stand in for any cell of their role that dies.
    """

    colluders: int = 1
    holders: int = 0
    spare: int = 0
    narrow: bool = False
    blocks: int = 1
    reserve: int = 0
    name: ClassVar[str]
    reveals_gram: ClassVar[bool]
    adds_noise: ClassVar[bool] = True
    dealt_by_name: ClassVar[bool] = True

    @classmethod
    def from_options(cls, *, alpha: int, groups: int, colluders: int, spare: int) -> Self:
        del alpha, groups
        return cls(colluders, spare=spare)

    @classmethod
    def default_for(cls, n_devices: int) -> Self:
        """z = 1 where there are four devices at least; of many devices a dozen hold each role."""
        colluders = int(n_devices >= LEAST_FOR_ONE_COLLUDER)
        return cls(colluders, 0 if n_devices <= MANY_DEVICES else HOLDERS_PER_ROLE * (colluders + 1))

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[Self]:
        for colluders in _COLLUDERS_TRIED:
            yield from cls.tolerating(colluders, n_devices)

    @classmethod
    def tolerating(cls, colluders: int, n_devices: int) -> Iterator[Self]:
        """With two holders per role at least; then with blocks of two and a half, five or ten holders per cell."""
        roles = colluders + 1
        if n_devices < 2 * roles:
            return
        yield cls(colluders, 0 if n_devices <= MANY_DEVICES else min(n_devices, HOLDERS_PER_ROLE * roles))
        for blocks in sorted({min(MOST_BLOCKS, part * n_devices // (5 * roles)) for part in (1, 2)}):
            if blocks > 1:
                holders = 0 if n_devices <= MANY_DEVICES else min(n_devices, _PER_CELL * roles * blocks)
                yield cls(colluders, holders, blocks=blocks)

    def ring_sizes(self, n_devices: int) -> tuple[int, ...]:
        """Roles need no code; the scales are those of every other scheme, so that models agree bit for bit."""
        return (n_devices,)

    def parties(self, statistic: RowsStatistic, roster: TrainingRoster, *, masks: bool = True) -> Parties:
        del masks  # there are none: holders hold sums alone
        return RoleParties.of(statistic, roster, self.colluders, self.holders, self.spare, self.blocks)

    @property
    def label(self) -> str:
        holders = f", {self.holders} holders" if self.holders else ""
        blocks = f", K = {self.blocks}" if self.blocks > 1 else ""
        reserve = f", {self.reserve} in reserve" if self.reserve else ""
        spare = f", {self.spare} spare" if self.spare else ""
        dealt = f"{self.name}, z = {self.colluders}{holders}{blocks}{reserve}{spare}"
        return dealt + (", 32 bits" if self.narrow else "")

    @property
    def parameters(self) -> dict[str, float]:
        dealt = {"z": self.colluders, "holders": self.holders, "blocks": self.blocks, "reserve": self.reserve}
        return {**dealt, "spare": self.spare, "narrow": self.narrow}

    @property
    def grouped(self) -> bool:
        """Roles are dealt by speed, and the fastest hold keys."""
        return True

    def check(self, n_devices: int) -> None:
        if self.colluders < 0:
            raise InvalidInput(f"colluders must be at least 0, got {self.colluders}")
        if n_devices < self.colluders + 2:
            raise InvalidInput(
                f"the number of devices must be at least colluders + 2 ({self.colluders + 2}), got {n_devices}"
            )
        if self.holders > n_devices:
            raise InvalidInput(f"holders must be at most the number of devices ({n_devices}), got {self.holders}")
        if self.blocks < 1:
            raise InvalidInput(f"blocks must be at least 1, got {self.blocks}")
        if self.reserve < 0 or (self.reserve and self.blocks == 1):
            raise InvalidInput(f"reserve must be 0, or more where there are blocks of rows, got {self.reserve}")
        holders, roles = self.holders or n_devices, self.colluders + 1
        most = most_blocks(holders, roles, self.reserve, self.spare)
        if not self.spare >= 0 or most < 1:
            raise InvalidInput(
                f"every role must have {self.spare + 1} holder(s) for {self.spare} spare answers, got {holders} holders"
                f" for {roles} roles"
            )
        if self.blocks > most:
            raise InvalidInput(f"blocks must be at most {most} with {holders} holders, got {self.blocks}")

    def _cells(self, n_devices: int) -> dict[int, Cell]:
        """By position: the run's order is that of speed."""
        return deal_cells(range(self.holders or n_devices), self.colluders + 1, self.blocks, self.reserve)

    def _code(self, n_devices: int) -> RoleCode:
        cells, nothing = self._cells(n_devices), Cell(NO_ROLE, ALL_ROWS)
        dealt = [cells.get(position, nothing) for position in range(n_devices)]
        primes = (NARROW if self.narrow else Ring.for_group_sizes([n_devices])).primes
        blocks = [cell.block for cell in dealt] if self.blocks > 1 else []
        return RoleCode([cell.role for cell in dealt], self.colluders + 1, primes, blocks)

    def quorum(self, n_devices: int) -> Quorum:
        """The first answer of each cell."""
        return self._code(n_devices).quorum.with_spare(self.spare)

    def rows_of(self, position: int) -> float:
        """The share of all rows that a position multiplies and answers; 0 where it holds no keys."""
        if self.holders and position >= self.holders:
            return 0.0
        return 1.0 if position // (self.colluders + 1) < self.reserve else 1 / self.blocks

    def exposure(self, n_devices: int) -> Exposure:
        """Nobody, up to z colluders; one of each role and the server know everything."""
        return Exposure.beyond(self.colluders, n_devices)

    def views(self, n_devices: int) -> Views:
        from codedfl_lab.privacy.views import role_views

        return role_views(self._code(n_devices), whole_answers=self.reveals_gram)


class RoleKeys(RoleKeyed, CodedScheme):
    """One upload per owner; z + 1 roles hold the seeds of everybody's pads.

    Examples
    --------
    >>> from codedfl_lab import RoleKeys
    >>> RoleKeys(colluders=2).exposure(10).words
    'no device is exposed by 2 colluders'
    """

    name: ClassVar[str] = "role-keys"


class RoleSums(RoleKeyed, CodedScheme):
    """Role keys with one epoch: the first answer of each role is its whole sum of pads.

    Examples
    --------
    >>> from codedfl_lab import RoleSums
    >>> RoleSums(colluders=1).reveals_gram, RoleSums(colluders=1).exposure(10).words
    (True, 'no device is exposed by one colluder')
    """

    name: ClassVar[str] = "role-sums"
    reveals_gram: ClassVar[bool] = True
    server_sees: ClassVar[str] = "the total Gram matrix"
