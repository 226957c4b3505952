"""What the schemes with state machines share beyond the protocol: the epoch's load, and models whoever straggles.

Such a scheme is one file with a subclass of ``CodedScheme``, or of ``GradientCoded``, that names how it shares.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from codedfl.code.gradient_code import Code, coded_quorum, group_sizes, make_code
from codedfl.code.quorum import Quorum
from codedfl.errors import InvalidInput
from codedfl.exact.ring import BYTES_PER_RESIDUE, Ring
from codedfl.privacy.exposure import Exposure, coded_exposure
from codedfl.protocol.scheme import SharingScheme
from codedfl_lab.costs.scheme import Conditions, DeviceCosts, EpochLoad, ExactScheme, WorkShape
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import crypto_macs, ring_macs

_ONE_GROUP = 50  # up to so many devices one code serves all
_GROUP_SIZE = 25
_ALPHAS_TRIED = 14


def usual_alpha(n_devices: int, groups: int = 1) -> int:
    """The devices of a group less 2, the paper's best; 1, which is no coding, where that leaves nobody."""
    return max(1, n_devices // groups - 2)


class CodedScheme(ExactScheme):
    """A scheme that runs as state machines and gives exact totals: how it shares, and what the parties agree on.

    Subclasses are frozen dataclasses with a field ``spare``: answers beyond those that decode, to find wrong ones by.
    """

    spare: int
    sharing_scheme: ClassVar[SharingScheme]

    @classmethod
    @abstractmethod
    def from_options(cls, *, alpha: int, groups: int, colluders: int, spare: int) -> CodedScheme:
        """By what a user can say on the command line; a scheme takes what it has a use for."""

    @classmethod
    @abstractmethod
    def default_for(cls, n_devices: int) -> CodedScheme:
        """The variant to take on so many devices when nothing else is known."""

    def with_spare(self, spare: int) -> CodedScheme:
        """The same with so many spare answers."""
        itself: Any = self  # a dataclass, which the type of this base cannot say
        changed: CodedScheme = replace(itself, spare=spare)
        return changed

    @property
    @abstractmethod
    def agreed(self) -> dict[str, Any]:
        """What of ``protocol.Parameters`` this scheme decides, by name."""

    def holders_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """Who of the devices, in the run's order, holds keys in a scheme of roles; none is everybody."""
        del names
        return ()

    @abstractmethod
    def quorum(self, n_devices: int) -> Quorum:
        """Which answers end an epoch: the server's own rule."""

    def device_costs(self, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
        """A float32 plane of d x d for each prime, the shared bulk once on its way up, and what the scheme adds."""
        planes = shape.number_bits // (8 * BYTES_PER_RESIDUE)
        bulk = shape.bulk_bits / 8
        memory = 4.0 * planes * shape.n_features**2 + bulk
        return self._epoch_costs(shape, at, epochs, memory).plus(upload_bytes=bulk)

    def epoch_load(self, shape: WorkShape, fleet: Fleet) -> EpochLoad:
        """d^2 c MACs and d c numbers each way; the answer is sealed."""
        bits = shape.model_bits
        product = ring_macs(shape.n_features * shape.model_numbers, shape.number_bits)
        macs = product + crypto_macs(fleet, sealed_bits=bits) + self._mask_macs(shape, fleet)
        return EpochLoad(macs, bits, bits, self.quorum(fleet.n_devices))

    def _mask_macs(self, shape: WorkShape, fleet: Fleet) -> float:
        """What masks cost in an epoch; none unless the scheme has them."""
        del shape, fleet
        return 0.0


@dataclass(frozen=True)
class GradientCoded(CodedScheme):
    """A scheme with a gradient code and masks.

    Parameters
    ----------
    alpha : int
        How many devices' data each device can answer for. 1 is uncoded, D is replication.
    groups : int
        That many groups with a code each; alpha then counts within a group.
    spare : int
        Answers beyond D - alpha + 1 that the server waits for, in each group, to find wrong ones.
    """

    alpha: int
    groups: int = 1
    spare: int = 0

    @classmethod
    def from_options(cls, *, alpha: int, groups: int, colluders: int, spare: int) -> GradientCoded:
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
    def default_for(cls, n_devices: int) -> GradientCoded:
        """alpha = D - 2, the paper's best; of many devices groups of about 25: a device's work must not grow with D."""
        groups = 1 if n_devices <= _ONE_GROUP else round(n_devices / _GROUP_SIZE)
        return cls(usual_alpha(n_devices, groups), groups)

    @classmethod
    def candidates(cls, n_devices: int) -> Iterator[GradientCoded]:
        """alpha from 1 to a group's size; one group for all if a device can bear D pads, else of about 25 and 50."""
        counts = {1} if n_devices <= _ONE_GROUP else {round(n_devices / size) for size in (_GROUP_SIZE, _ONE_GROUP)}
        for groups in sorted(counts):
            size = n_devices // groups
            for alpha in sorted({round(x) for x in np.linspace(1, size, min(_ALPHAS_TRIED, size))}):
                yield cls(alpha, groups)

    def exposure(self, n_devices: int) -> Exposure:
        return coded_exposure(n_devices, self.alpha, self.groups)

    def code(self, n_devices: int) -> Code:
        """Who answers for whom."""
        sizes = group_sizes(n_devices, self.alpha, self.groups)
        return make_code(n_devices, self.alpha, Ring.for_group_sizes(sizes).primes, self.groups)

    def check(self, n_devices: int) -> None:
        group_sizes(n_devices, self.alpha, self.groups)
        if not 0 <= self.spare < self.alpha:
            raise InvalidInput(f"spare must be between 0 and alpha - 1 ({self.alpha - 1}), got {self.spare}")

    def quorum(self, n_devices: int) -> Quorum:
        """All but alpha - 1 stragglers in each group, and the spare answers."""
        return coded_quorum(n_devices, self.alpha, self.groups).with_spare(self.spare)

    def _mask_macs(self, shape: WorkShape, fleet: Fleet) -> float:
        """Streams of d c numbers are expanded and added: bound to the update, they cannot be made ahead.

        One a device answered for and one of each one's successor, who belongs to another group where there are groups.
        """
        streams = min(self.alpha + 1 if self.groups == 1 else 2 * self.alpha, fleet.n_devices)
        return streams * (
            crypto_macs(fleet, pad_bits=shape.model_bits) + ring_macs(shape.model_numbers, shape.number_bits)
        )
