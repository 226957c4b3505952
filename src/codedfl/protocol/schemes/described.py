"""The descriptors of the schemes of this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from codedfl.code.gradient_code import Code, coded_quorum, group_sizes, make_code
from codedfl.code.quorum import Quorum, QuorumPart
from codedfl.code.roles import NO_ROLE, RoleCode
from codedfl.errors import InvalidInput
from codedfl.exact.ring import Ring
from codedfl.privacy.exposure import Exposure, coded_exposure
from codedfl.privacy.views import Views, coded_views, role_views
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes import CODED_KEYS, CODED_PADDED, ONE_SHOT, ROLE_KEYS, ROLE_SUMS
from codedfl.protocol.schemes.descriptor import CodedScheme

_ONE_GROUP = 50  # up to this number of devices one code serves all
_GROUP_SIZE = 25
_ALPHAS_TRIED = 14
_GRAM_IN_WORDS = "the total Gram matrix"


def usual_alpha(n_devices: int, groups: int = 1) -> int:
    """The devices of a group less 2, the paper's best; 1, which is no coding, where that leaves nobody."""
    return max(1, n_devices // groups - 2)


@dataclass(frozen=True)
class GradientCoded:
    """What schemes with a gradient code and masks share; a scheme has ``CodedScheme`` for its other base.

    Parameters
    ----------
    alpha : int
        How many devices' data each device can answer for. 1 is uncoded, D is replication.
    groups : int
        How many groups there are, with a code each; alpha then counts within a group.
    spare : int
        Answers beyond D - alpha + 1 that the server waits for, in each group, to find wrong ones.
    """

    alpha: int
    groups: int = 1
    spare: int = 0
    name: ClassVar[str]
    reveals_gram: ClassVar[bool]
    padded: ClassVar[bool] = False  # devices hold data of others, under the server's pads

    @classmethod
    def from_options(cls, *, alpha: int, groups: int, colluders: int, spare: int) -> Self:
        del colluders
        return cls(alpha, groups, spare)

    @property
    def agreed(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "groups": self.groups}

    @property
    def label(self) -> str:
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"{self.name}, α = {self.alpha}" + groups + (f", {self.spare} spare" if self.spare else "")

    @property
    def parameters(self) -> dict[str, float]:
        return {"alpha": self.alpha, "groups": self.groups, "spare": self.spare}

    @property
    def grouped(self) -> bool:
        return self.groups > 1

    @classmethod
    def default_for(cls, n_devices: int) -> Self:
        """alpha = D - 2, the paper's best; of many devices groups of about 25: a device's work must not grow with D."""
        groups = 1 if n_devices <= _ONE_GROUP else round(n_devices / _GROUP_SIZE)
        return cls(usual_alpha(n_devices, groups), groups)

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[Self]:
        """alpha from 1 to a group's size; one group for all if a device can bear D pads, else of about 25 and 50."""
        counts = {1} if n_devices <= _ONE_GROUP else {round(n_devices / size) for size in (_GROUP_SIZE, _ONE_GROUP)}
        for groups in sorted(counts):
            size = n_devices // groups
            for alpha in sorted({round(x) for x in np.linspace(1, size, min(_ALPHAS_TRIED, size))}):
                yield cls(alpha, groups)

    def exposure(self, n_devices: int) -> Exposure:
        return coded_exposure(n_devices, self.alpha, self.groups)

    def check(self, n_devices: int) -> None:
        group_sizes(n_devices, self.alpha, self.groups)
        if not 0 <= self.spare < self.alpha:
            raise InvalidInput(f"spare must be between 0 and alpha - 1 ({self.alpha - 1}), got {self.spare}")

    def quorum(self, n_devices: int) -> Quorum:
        """All but alpha - 1 stragglers in each group, and the spare answers."""
        return coded_quorum(n_devices, self.alpha, self.groups).with_spare(self.spare)

    def views(self, n_devices: int) -> Views:
        return coded_views(self.code(n_devices), padded=self.padded, whole_answers=self.reveals_gram)

    def code(self, n_devices: int) -> Code:
        """Who answers for whom."""
        sizes = group_sizes(n_devices, self.alpha, self.groups)
        return make_code(n_devices, self.alpha, Ring.for_group_sizes(sizes).primes, self.groups)


class CodedPadded(GradientCoded, CodedScheme):
    """The paper's scheme.

    Examples
    --------
    >>> from codedfl import CodedPadded
    >>> CodedPadded.default_for(25)  # the paper's best
    CodedPadded(alpha=23, groups=1, spare=0)
    >>> CodedPadded(alpha=23).exposure(25).words
    'one colluder exposes 22 devices to the server'
    """

    name: ClassVar[str] = CODED_PADDED.name
    sharing_scheme: ClassVar[SharingScheme] = CODED_PADDED
    padded: ClassVar[bool] = True


class CodedKeys(GradientCoded, CodedScheme):
    """One upload; seeds are coded instead of data.

    Examples
    --------
    >>> from codedfl import CodedKeys
    >>> CodedKeys(alpha=3, spare=3).check(10)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: spare must be between 0 and alpha - 1 (2), got 3
    """

    name: ClassVar[str] = CODED_KEYS.name
    sharing_scheme: ClassVar[SharingScheme] = CODED_KEYS


class OneShot(GradientCoded, CodedScheme):
    """Coded keys with one epoch, whose answer is the whole coded key: X'X and X'Y summed securely once.

    For linear regression these sums are sufficient, so the server solves in closed form. The price is that it learns
    the whole total Gram matrix; block Krylov on coded keys takes about as long and shows it a few directions.

    Examples
    --------
    >>> from codedfl import OneShot
    >>> OneShot(alpha=3).reveals_gram  # the server learns the total of X'X itself
    True
    """

    name: ClassVar[str] = ONE_SHOT.name
    sharing_scheme: ClassVar[SharingScheme] = ONE_SHOT
    reveals_gram: ClassVar[bool] = True
    server_sees: ClassVar[str] = _GRAM_IN_WORDS


MANY_DEVICES = 50  # beyond this number, not everybody holds keys
HOLDERS_PER_ROLE = 12  # then this number of the fastest hold each role
LEAST_FOR_ONE_COLLUDER = 4  # below, a colluder leaves too few to hide among
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
        Answers beyond the first that are waited for in each role: 1 detects a wrong one, 2t outvote t liars.
    """

    colluders: int = 1
    holders: int = 0
    spare: int = 0
    name: ClassVar[str]
    reveals_gram: ClassVar[bool]

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
        """With two holders a role at least."""
        if 2 * (colluders + 1) <= n_devices:
            holders = 0 if n_devices <= MANY_DEVICES else min(n_devices, HOLDERS_PER_ROLE * (colluders + 1))
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


class RoleKeys(RoleKeyed, CodedScheme):
    """One upload per owner; z + 1 roles hold the seeds of everybody's pads.

    Examples
    --------
    >>> from codedfl import RoleKeys
    >>> RoleKeys(colluders=2).exposure(10).words
    'no device is exposed by 2 colluders'
    """

    name: ClassVar[str] = ROLE_KEYS.name
    sharing_scheme: ClassVar[SharingScheme] = ROLE_KEYS


class RoleSums(RoleKeyed, CodedScheme):
    """Role keys with one epoch: the first answer of each role is its whole sum of pads.

    Examples
    --------
    >>> from codedfl import RoleSums
    >>> RoleSums(colluders=1).reveals_gram, RoleSums(colluders=1).exposure(10).words
    (True, 'no device is exposed by one colluder')
    """

    name: ClassVar[str] = ROLE_SUMS.name
    sharing_scheme: ClassVar[SharingScheme] = ROLE_SUMS
    reveals_gram: ClassVar[bool] = True
    server_sees: ClassVar[str] = _GRAM_IN_WORDS
