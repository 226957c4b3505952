"""The paper's scheme in time: what its sharing phase costs (``protocol.schemes.coded_padded`` has its machines)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from codedfl.privacy.views import Views, coded_views
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes import CODED_PADDED
from codedfl_lab.costs.coded import GradientCoded
from codedfl_lab.costs.scheme import Conditions, DeviceCosts, Sharing, WorkShape
from codedfl_lab.fleet.latency import crypto_macs, ring_macs, sharing_times


class CodedPadded(GradientCoded):
    """The paper's scheme."""

    name: ClassVar[str] = CODED_PADDED.name
    sharing_scheme: ClassVar[SharingScheme] = CODED_PADDED

    def views(self, n_devices: int) -> Views:
        return coded_views(self.code(n_devices), padded=True)

    def device_costs(self, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
        """The bulk of alpha - 1 others comes down; conventions other than multicast also pay for each upload."""
        bulk, shares = shape.bulk_bits / 8, self.alpha - 1
        more_uploads = max(0, shares - 1) if at.sharing != "multicast" else 0
        own_pad = crypto_macs(at.fleet, pad_bits=shape.bulk_bits) + ring_macs(shape.bulk_numbers, shape.number_bits)
        costs = super().device_costs(shape, at, epochs)
        return costs.plus(upload_bytes=more_uploads * bulk, download_bytes=shares * bulk, macs=own_pad)

    def sharing(self, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
        """Padded data to the alpha - 1 others of the column, sealed once under a content key.

        The device's own pads and their sealing come before the first byte, opening and adding up after it. Training
        starts when enough devices are ready to decode, as the state machines do. The message with the pad's seed
        opens the phase: its latency counts, its 32 bytes do not.
        """
        fleet, bits = at.fleet, shape.bulk_bits
        shares = self.alpha - 1
        one_sum = ring_macs(shape.bulk_numbers, shape.number_bits)
        ready = at.times.mean_transfer_times(0, "down") + sharing_times(
            at.times,
            bits,
            shares,
            at.sharing,
            draws,
            rng,
            macs_to_send=crypto_macs(fleet, pad_bits=bits, sealed_bits=bits if shares else 0),
            macs_to_receive=shares * (crypto_macs(fleet, sealed_bits=bits) + one_sum),
            chunk_bits=at.chunk_bits,
            groups=self.groups,
        )
        return Sharing(self.quorum(fleet.n_devices).time(ready), ready)
