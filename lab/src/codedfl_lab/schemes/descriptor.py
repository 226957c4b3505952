"""What a scheme is to those who choose one: its name and parameters, what it shows to whom, whom an epoch waits for.

Nothing here knows fleets or times: what a scheme costs is computed about its descriptor (``codedfl_lab.costs``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from codedfl.errors import InvalidInput
from codedfl.solve.solver import Solver
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.parties.making import Parties, TrainingRoster
from codedfl_lab.parties.statistic import RowsStatistic
from codedfl_lab.privacy.exposure import Exposure

if TYPE_CHECKING:
    from codedfl_lab.privacy.rows import PrivacyRow
    from codedfl_lab.privacy.views import Views


class Scheme(ABC):
    """One scheme with its parameters. Subclasses are frozen dataclasses; their fields are the parameters.

    Examples
    --------
    >>> from codedfl_lab import RoleKeys, Scheme
    >>> scheme: Scheme = RoleKeys.default_for(25)
    >>> scheme.name, scheme.exposure(25).words
    ('role-keys', 'no device is exposed by one colluder')
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = False  # gives the exact total gradient, so any solver can be used
    private: ClassVar[bool] = True  # the server sees no single device's gradient or data
    server_sees: ClassVar[str] = "the total only"  # in words
    reveals_gram: ClassVar[bool] = False  # the server learns the whole total of X'X

    @classmethod
    def default_for(cls, n_devices: int) -> Scheme:
        """The variant to take on ``n_devices`` when nothing else is known; a scheme without parameters is one."""
        del n_devices
        return cls()

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[Scheme]:
        """The variants that a planner should try on ``n_devices``."""
        yield cls.default_for(n_devices)

    @classmethod
    def tolerating(cls, colluders: int, n_devices: int) -> Iterator[Scheme]:
        """The variants to try where ``colluders`` may collude; none unless the scheme can choose that."""
        del colluders, n_devices
        return iter(())

    @property
    @abstractmethod
    def label(self) -> str:
        """As it stands in tables and figures."""

    @property
    def grouped(self) -> bool:
        """Whether it matters which device has which position."""
        return False

    @property
    def parameters(self) -> dict[str, float]:
        """``alpha`` or ``delta`` or ..., for results files."""
        return {}

    @property
    def default_solver(self) -> str:
        """What its server runs unless said otherwise: descent where gradients are not exact."""
        from codedfl.solve.registry import CLOSED_FORM, DEFAULT_SOLVER  # the server's alone

        if self.reveals_gram:
            return CLOSED_FORM
        return DEFAULT_SOLVER if self.exact else "gd"

    def solvers(self, wanted: Sequence[str | Solver]) -> Sequence[str | Solver]:
        """Which of these solvers it can run: any with exact gradients, otherwise its own only."""
        return wanted if self.exact and not self.reveals_gram else (self.default_solver,)

    def exposure(self, n_devices: int) -> Exposure:
        """Whom the server exposes by itself and with colluding devices: with one everybody, unless the scheme knows."""
        return Exposure.beyond(0, n_devices) if self.private else Exposure.everybody(n_devices)

    def privacy_rows(self, n_devices: int) -> list[PrivacyRow]:
        """Per party what it sees and what follows: computed from the views, else by ``exposure`` alone."""
        from codedfl_lab.privacy.rows import MOST_DEVICES, plain_rows, privacy_rows  # which a device never computes

        self.check(n_devices)
        views = self.views(n_devices) if n_devices <= MOST_DEVICES else None
        if views is None:
            return plain_rows(self.server_sees, self.exposure(n_devices), n_devices)
        return privacy_rows(views)

    def views(self, n_devices: int) -> Views | None:
        """What every party of a run reads, as linear forms; None where a scheme does not say."""
        del n_devices
        return None

    def check(self, n_devices: int) -> None:
        """Refuse parameters that do not fit the number of devices."""
        if n_devices < 2:
            raise InvalidInput(f"the number of devices must be at least 2, got {n_devices}")


class CodedScheme(Scheme):
    """A scheme that runs as requests and replies and gives exact sums.

    Subclasses are frozen dataclasses with a field ``spare``: answers beyond those that decode, to find wrong ones by.

    Examples
    --------
    >>> from codedfl_lab import CodedKeys, CodedScheme
    >>> scheme: CodedScheme = CodedKeys(alpha=3, spare=1)
    >>> scheme.check(5)
    >>> scheme.quorum(5).answers_needed  # three decode, and one is spare
    4
    """

    exact: ClassVar[bool] = True
    adds_noise: ClassVar[bool] = False  # whether its sums can hide single rows
    dealt_by_name: ClassVar[bool] = False  # whether what a device does follows from the order of names
    spare: int
    narrow: bool = False  # a ring of 32 bits

    @classmethod
    @abstractmethod
    def from_options(cls, *, alpha: int, groups: int, colluders: int, spare: int) -> CodedScheme:
        """By what a user can say on the command line; a scheme takes what it has a use for."""

    @classmethod
    @abstractmethod
    def default_for(cls, n_devices: int) -> CodedScheme:
        """The variant to take on ``n_devices`` when nothing else is known."""

    def with_spare(self, spare: int) -> CodedScheme:
        """The same scheme with another number of spare answers."""
        itself: Any = self  # a dataclass, which the type of this base cannot say
        changed: CodedScheme = replace(itself, spare=spare)
        return changed

    @abstractmethod
    def ring_sizes(self, n_devices: int) -> tuple[int, ...]:
        """What the ring's primes must be 1 modulo, so that the scheme's code exists."""

    @abstractmethod
    def parties(self, statistic: RowsStatistic, roster: TrainingRoster, *, masks: bool = True) -> Parties:
        """How the devices and the server of a training are made, each from what it knows."""

    @abstractmethod
    def quorum(self, n_devices: int) -> Quorum:
        """Which answers end an epoch: the server's own rule."""
