"""Role keys in time: one upload an owner, then pads of all owners expanded by key holders (``protocol.schemes``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from codedfl.code.quorum import Quorum, QuorumPart
from codedfl.code.roles import NO_ROLE, RoleCode
from codedfl.errors import InvalidInput
from codedfl.exact.ring import Ring
from codedfl.privacy.exposure import Exposure
from codedfl.privacy.views import Views, role_views
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes import ROLE_KEYS
from codedfl_lab.costs.coded import CodedScheme
from codedfl_lab.costs.padded_uploads import macs_of_pad, uploads_and_pads
from codedfl_lab.costs.scheme import Conditions, DeviceCosts, Sharing, WorkShape

MANY_DEVICES = 50  # beyond so many, not everybody holds keys
HOLDERS_A_ROLE = 12  # then so many of the fastest hold each role
LEAST_FOR_ONE_COLLUDER = 4  # below, a colluder leaves too few to hide among
_COLLUDERS_TRIED = (1, 2, 4, 9)


@dataclass(frozen=True)
class RoleKeys(CodedScheme):
    """Any ``colluders`` devices and the server together learn the total only.

    Parameters
    ----------
    colluders : int
        z. There are z + 1 roles, and an epoch needs one answer of each. 0 lets nobody collude: every holder has all
        keys.
    holders : int
        How many devices hold keys, the first in the run's order (the fastest where times are known); 0 is all of them.
    spare : int
        Answers beyond the first that are waited for in each role: 1 detects a wrong one, 2t outvote t liars.
    """

    colluders: int = 1
    holders: int = 0
    spare: int = 0
    name: ClassVar[str] = ROLE_KEYS.name
    sharing_scheme: ClassVar[SharingScheme] = ROLE_KEYS

    @classmethod
    def from_options(cls, *, alpha: int, groups: int, colluders: int, spare: int) -> RoleKeys:
        del alpha, groups
        return cls(colluders, spare=spare)

    @classmethod
    def default_for(cls, n_devices: int) -> RoleKeys:
        """z = 1 where there are four devices at least; of many devices a dozen hold each role."""
        colluders = int(n_devices >= LEAST_FOR_ONE_COLLUDER)
        return cls(colluders, 0 if n_devices <= MANY_DEVICES else HOLDERS_A_ROLE * (colluders + 1))

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[RoleKeys]:
        for colluders in _COLLUDERS_TRIED:
            yield from cls.tolerating(colluders, n_devices)

    @classmethod
    def tolerating(cls, colluders: int, n_devices: int) -> Iterator[RoleKeys]:
        """With two holders a role at least."""
        if 2 * (colluders + 1) <= n_devices:
            holders = 0 if n_devices <= MANY_DEVICES else min(n_devices, HOLDERS_A_ROLE * (colluders + 1))
            yield cls(colluders, holders)

    @property
    def agreed(self) -> dict[str, Any]:
        return {"alpha": 1, "colluders": self.colluders}

    def holders_among(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(names[: self.holders])

    @property
    def label(self) -> str:
        holders = f", {self.holders} holders" if self.holders else ""
        return f"{self.name}, z = {self.colluders}" + holders + (f", {self.spare} spare" if self.spare else "")

    @property
    def parameters(self) -> dict[str, float]:
        return {"z": self.colluders, "holders": self.holders, "spare": self.spare}

    @property
    def grouped(self) -> bool:
        """Roles are dealt by speed, and the fastest hold keys."""
        return True

    def check(self, n_devices: int) -> None:
        super().check(n_devices)
        if self.colluders < 0:
            raise InvalidInput(f"colluders must be at least 0, got {self.colluders}")
        if n_devices < self.colluders + 2:
            raise InvalidInput(
                f"the number of devices must be at least colluders + 2 ({self.colluders + 2}), got {n_devices}"
            )
        holders, roles = self._n_holders(n_devices), self.colluders + 1
        if self.holders > n_devices:
            raise InvalidInput(f"holders must be at most the number of devices ({n_devices}), got {self.holders}")
        if not self.spare >= 0 or holders // roles < self.spare + 1:
            raise InvalidInput(
                f"every role must have {self.spare + 1} holder(s) for {self.spare} spare answers, got {holders} holders"
                f" for {roles} roles"
            )

    def _n_holders(self, n_devices: int) -> int:
        return self.holders or n_devices

    def quorum(self, n_devices: int) -> Quorum:
        """The first answer of each role; position i has role i mod (z + 1)."""
        roles, holders = self.colluders + 1, self._n_holders(n_devices)
        parts = tuple(QuorumPart(tuple(range(role, holders, roles)), 1) for role in range(roles))
        return Quorum(parts).with_spare(self.spare)

    def exposure(self, n_devices: int) -> Exposure:
        """Nobody, up to z colluders; one of each role and the server know everything."""
        return Exposure.beyond(self.colluders, n_devices)

    def views(self, n_devices: int) -> Views:
        roles, holders = self.colluders + 1, self._n_holders(n_devices)
        dealt = [position % roles if position < holders else NO_ROLE for position in range(n_devices)]
        code = RoleCode(dealt, roles, Ring.for_group_sizes([n_devices]).primes)
        return role_views(code, whole_answers=self.reveals_gram)

    def device_costs(self, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
        """Of a holder: the pads of all owners are expanded and added up."""
        costs = super().device_costs(shape, at, epochs)
        return costs.plus(macs=at.fleet.n_devices * macs_of_pad(shape, at))

    def sharing(self, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
        """One sealed upload each, all of which the server needs; meanwhile holders expand the seeds they get.

        Then the list of owners and its certificate, which are small: of their transfer the messages' latency is
        counted, twice both ways.
        """
        empty, n_devices = at.times.mean_transfer_times, at.fleet.n_devices
        uploaded, expanded = uploads_and_pads(shape, at, n_devices, draws, rng, own_seeds=self.colluders + 1)
        agreeing = 2 * float(np.median(empty(0, "down") + empty(0, "up")))
        begun = np.maximum(uploaded.max(axis=1), self.quorum(n_devices).time(expanded)) + agreeing
        return Sharing(begun, expanded + agreeing)
