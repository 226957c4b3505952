"""What the schemes with a gradient code share: who answers for whom, whom an epoch waits for, and what that shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from codedfl.errors import InvalidInput
from codedfl_lab.code.gradient_code import Code, coded_quorum, group_sizes, make_code
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.coded.form import CodedForm
from codedfl_lab.coded.study import CodedStudy
from codedfl_lab.parties.coded import CodedParties
from codedfl_lab.parties.making import Parties, TrainingRoster
from codedfl_lab.parties.statistic import RowsStatistic
from codedfl_lab.primes.ring import Ring
from codedfl_lab.privacy.exposure import Exposure, coded_exposure

if TYPE_CHECKING:
    from codedfl_lab.privacy.views import Views

_ONE_GROUP = 50  # up to this number of devices one code serves all
_GROUP_SIZE = 25
_ALPHAS_TRIED = 14


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
    form: ClassVar[CodedForm]

    @classmethod
    def from_options(cls, *, alpha: int, groups: int, colluders: int, spare: int) -> Self:
        del colluders
        return cls(alpha, groups, spare)

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
        from codedfl_lab.privacy.views import coded_views

        return coded_views(self.code(n_devices), padded=self.form.holds_uploads, whole_answers=self.reveals_gram)

    def ring_sizes(self, n_devices: int) -> tuple[int, ...]:
        return tuple(group_sizes(n_devices, self.alpha, self.groups))

    def parties(self, statistic: RowsStatistic, roster: TrainingRoster, *, masks: bool = True) -> Parties:
        sizes, ring = statistic.sizes, statistic.scales.ring
        study = CodedStudy(
            self.form, self.alpha, self.groups, roster.server, roster.keys, ring, sizes, masks, statistic.digest
        )
        return CodedParties(study, statistic, self.spare)

    def code(self, n_devices: int) -> Code:
        """Who answers for whom."""
        sizes = group_sizes(n_devices, self.alpha, self.groups)
        return make_code(n_devices, self.alpha, Ring.for_group_sizes(sizes).primes, self.groups)
