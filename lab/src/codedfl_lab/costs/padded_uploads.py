"""One padded upload of each device while others expand its pad from a seed: what coded keys and role keys share.

Own pads are drawn before the run, like the Gram matrix (paper V: preprocessing is offline), unless the conditions
charge them. Seeds are 32 bytes: of their transfer only the messages' latency is counted, up with the call that asks for
them and down to those who expand them.
"""

from __future__ import annotations

import numpy as np

from codedfl.typing import Seconds
from codedfl_lab.costs.scheme import Conditions, WorkShape
from codedfl_lab.fleet.latency import crypto_macs, ring_macs, upload_times


def macs_of_pad(shape: WorkShape, at: Conditions) -> float:
    """To expand the pad of one device and add it."""
    return crypto_macs(at.fleet, pad_bits=shape.bulk_bits) + ring_macs(shape.bulk_numbers, shape.number_bits)


def uploads_and_pads(
    shape: WorkShape, at: Conditions, pads: int, draws: int, rng: np.random.Generator, *, own_seeds: int = 1
) -> tuple[Seconds, Seconds]:
    """(draws, D) each: when a device's sealed upload is here, and when it has expanded the pads of so many devices.

    ``own_seeds`` is how many seeds its own pad is the sum of.
    """
    own_pads = own_seeds * macs_of_pad(shape, at) if at.own_pads_charged else 0.0
    empty = at.times.mean_transfer_times
    asked = empty(0, "down")
    seeds_here = (asked + empty(0, "up")).max() + empty(0, "down")
    uploaded = asked + upload_times(
        at.times,
        shape.bulk_bits,
        at.sharing,
        draws,
        rng,
        macs=crypto_macs(at.fleet, sealed_bits=shape.bulk_bits) + own_pads,
        chunk_bits=at.chunk_bits,
    )
    return uploaded, seeds_here + at.times.compute_times(pads * macs_of_pad(shape, at), draws, rng)
