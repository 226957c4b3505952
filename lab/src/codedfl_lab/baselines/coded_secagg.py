"""CodedSecAgg, the journal version's secure scheme, as a timed row: Shamir shares of the Gram matrix in groups.

Device i of each group of n holds one share of everybody's X'X and X'Y and multiplies; the groups' devices i add up
along a tree, and any k of the n sums decode. Up to z of a group learn nothing. It is timed by the formulas of the
authors' simulation, which do not charge the making of shares; it has no state machines here, so no planner proposes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from codedfl.errors import InvalidInput
from codedfl.typing import Seconds
from codedfl_lab.baselines.light_secagg import SecretShared
from codedfl_lab.code.quorum import Quorum
from codedfl_lab.costs.times import (
    Conditions,
    DeviceCosts,
    Draws,
    EpochLoad,
    WorkShape,
    device_costs,
    end_times,
    epoch_costs,
    epoch_load,
    stragglers,
)
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import authors_sharing_time, ring_macs
from codedfl_lab.privacy.views import Views


@dataclass(frozen=True)
class CodedSecAgg(SecretShared):
    """z: how many devices may collude. groups: how many groups of D / groups devices there are; it must divide D.

    number_bits: bits of a share's number on the wire; 72 in the authors' code, 48 to compare like with like.
    awaited: sums awaited beyond z; z + 1 decode, and the authors' code takes z + 2.
    """

    groups: int = 1
    number_bits: int = 72
    awaited: int = 2
    name: ClassVar[str] = "coded-secagg"
    exact: ClassVar[bool] = True
    shares_gram: ClassVar[bool] = True

    @property
    def label(self) -> str:
        groups = f", {self.groups} groups" if self.groups > 1 else ""
        return f"CodedSecAgg, z = {self.z}{groups}, {self.number_bits} bits"

    @property
    def parameters(self) -> dict[str, float]:
        return {"z": self.z, "groups": self.groups, "number_bits": self.number_bits, "awaited": self.awaited}

    @property
    def grouped(self) -> bool:
        return self.groups > 1

    def views(self, n_devices: int) -> Views | None:
        """The exposure of one group; what sums along the tree show to whom is not worked out."""
        return None if self.grouped else super().views(n_devices)

    def check(self, n_devices: int) -> None:
        super().check(n_devices)
        if self.groups < 1 or n_devices % self.groups:
            raise InvalidInput(f"groups must divide the number of devices ({n_devices}), got {self.groups}")
        most = n_devices // self.groups - self.awaited
        if not 0 <= self.z <= most:
            raise InvalidInput(f"z must be between 0 and a group's size less {self.awaited} ({most}), got {self.z}")


@stragglers.register(CodedSecAgg)
def sums_not_needed(scheme: CodedSecAgg, shape: WorkShape, fleet: Fleet) -> int:
    """Whoever they are: each spoils one of the n sums."""
    del shape
    return fleet.n_devices // scheme.groups - scheme.z - scheme.awaited


@epoch_load.register(CodedSecAgg)
def shares_load(scheme: CodedSecAgg, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """d^2 c MACs on shares; a sum goes up to the server or up and down along the tree."""
    bits = shape.model_numbers * scheme.number_bits
    macs = ring_macs(shape.n_features * shape.model_numbers, scheme.number_bits)
    return EpochLoad(macs, bits, bits, Quorum.all_but(fleet.n_devices, sums_not_needed(scheme, shape, fleet)))


@device_costs.register(CodedSecAgg)
def shares_costs(scheme: CodedSecAgg, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
    """n - 1 shares each way before the epochs, and one share held."""
    others = at.fleet.n_devices // scheme.groups - 1
    share = shape.bulk_numbers * scheme.number_bits / 8
    held = shape.n_features**2 * scheme.number_bits / 8
    costs = epoch_costs(scheme, shape, at, epochs, memory_bytes=held)
    return costs.plus(upload_bytes=others * share, download_bytes=others * share)


@end_times.register(CodedSecAgg)
def shares_end_times(
    scheme: CodedSecAgg, shape: WorkShape, at: Conditions, epochs: int, draws: Draws
) -> tuple[Seconds, Seconds]:
    """The authors' formulas, with the times of ``at``; its sharing convention and policy are not read."""
    count, rng = draws.count, draws.epochs_rng or draws.rng  # nothing is drawn before the epochs
    times, size = at.times, at.fleet.n_devices // scheme.groups
    load = epoch_load(scheme, shape, at.fleet)
    start = np.full(count, authors_sharing_time(times, shape.bulk_numbers * scheme.number_bits, size - 1))
    hops = int(np.log2(scheme.groups)) + 1
    both_ways = times.mean_transfer_times(load.bits_up, "up") + times.mean_transfer_times(load.bits_down, "down")
    decoding = (
        shape.model_numbers * size * (2 * (size - scheme.z - scheme.awaited) - 1.5 + 1.5 * np.ceil(np.log2(size)))
    )
    after = hops * both_ways.max() + ring_macs(decoding, scheme.number_bits) / at.fleet.server_mac_rate
    slowest_of_group = [
        times.compute_times(load.macs, count, rng).reshape(count, size, scheme.groups).max(axis=2)
        for _ in range(epochs)
    ]
    wanted = scheme.z + scheme.awaited - 1
    lengths = np.stack([np.partition(one, wanted, axis=1)[:, wanted] for one in slowest_of_group], axis=1) + after
    return start, start[:, None] + lengths.cumsum(axis=1)
