"""How long one upload, and a round of a gradient method, take on the paper's fleet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from codedfl.typing import Floats
from codedfl_lab.baselines.gradient_heads import GradientHead
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import Bulk, FleetLatency, RoundTrip, epoch_arrivals, pad_macs, upload_times

WORD_BITS = 32  # of a number of the secure sum, which its range needs (8 rows step^2 below 2^32)
FLOAT_BITS = 32
COLLUDERS = 1
_CHUNK = 1 << 16  # bits of a message that are sent again when they are lost


@dataclass(frozen=True)
class FrozenTimes:
    """Seconds on the paper's fleet."""

    fleet: Fleet
    draws: int

    def ours(self, numbers: int, gram: Floats, clear: bool = False) -> tuple[float, float]:
        """Of one upload by everybody, and of one reply of each role, without and with X'X; means of draws."""
        latency, rng = FleetLatency(self.fleet), np.random.default_rng(0)
        bits = float(WORD_BITS * numbers)
        pads = 0.0 if clear else (COLLUDERS + 1) * pad_macs(self.fleet, bits)
        found = []
        for work in (np.zeros_like(gram), gram):
            bulk = Bulk(bits, "per-message", macs_to_send=pads, chunk_bits=_CHUNK)
            computed = latency.compute_times(work, self.draws, rng)
            ended = (computed + upload_times(latency, bulk, self.draws, rng)).max(axis=1)
            if not clear:  # holders expand a pad for each owner; the first of each role counts
                reply = RoundTrip(self.fleet.n_devices * pad_macs(self.fleet, bits), 256.0 * self.fleet.n_devices, bits)
                replies = np.sort(epoch_arrivals(latency, reply, self.draws, rng, _CHUNK), axis=1)
                ended = ended + replies[:, COLLUDERS]
            found.append(float(ended.mean()))
        return found[0], found[1]

    def per_round(self, head: GradientHead, numbers: int, rows: Floats) -> float:
        """Of a round: models down, one pass over the rows, models up, and the server waits for all."""
        bits = float(FLOAT_BITS * numbers * head.models_sent)
        trip = RoundTrip(2.0 * numbers * rows, bits, bits)  # a product for the scores, one for the gradient
        found = epoch_arrivals(FleetLatency(self.fleet), trip, self.draws, np.random.default_rng(0), _CHUNK)
        return float(found.max(axis=1).mean())
