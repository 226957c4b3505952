"""What the schemes with state machines cost: an epoch's load, the one upload of each device, and pads from seeds.

Own pads are drawn before the run, like the Gram matrix (paper V: preprocessing is offline), unless the conditions
charge them. Seeds are 32 bytes: of their transfer only the messages' latency is counted, up with the call that asks for
them and down to those who expand them.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.schemes.gradient_coded import GradientCoded
from codedfl.protocol.schemes.role_keys import RoleKeyed
from codedfl.typing import Seconds
from codedfl_lab.costs.times import (
    Conditions,
    DeviceCosts,
    EpochLoad,
    Sharing,
    WorkShape,
    device_costs,
    epoch_costs,
    epoch_load,
    sharing,
)
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import Bulk, crypto_macs, planes_of, ring_macs, sharing_times, upload_times


@epoch_load.register(CodedScheme)
def coded_load(scheme: CodedScheme, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """d^2 c MACs and d c numbers each way; the answer is sealed.

    Where the answer is X'X itself there is nothing to compute but masks, and the bulk to send: an almost empty request
    comes down.
    """
    shape = shape.on_ring_of(scheme)
    quorum, masks = scheme.quorum(fleet.n_devices), mask_macs(scheme, shape, fleet)
    if scheme.reveals_gram:
        bits = shape.bulk_bits
        masks *= shape.bulk_numbers / shape.model_numbers
        return EpochLoad(crypto_macs(fleet, sealed_bits=bits) + masks, 0, bits, quorum)
    bits = shape.model_bits
    product = ring_macs(shape.n_features * shape.model_numbers, shape.number_bits)
    return EpochLoad(product + crypto_macs(fleet, sealed_bits=bits) + masks, bits, bits, quorum)


@singledispatch
def mask_macs(_scheme: object, _shape: WorkShape, _fleet: Fleet) -> float:
    """What masks cost in an epoch; none unless the scheme has a gradient code."""
    return 0.0


@mask_macs.register(GradientCoded)
def stream_macs(scheme: GradientCoded, shape: WorkShape, fleet: Fleet) -> float:
    """What it costs to expand and add the streams that masks are made of.

    Streams of d c numbers are bound to the update, so they cannot be made ahead. There is one per
    device answered for and one of each one's successor, who belongs to another group where there are groups.
    """
    streams = min(scheme.alpha + 1 if scheme.groups == 1 else 2 * scheme.alpha, fleet.n_devices)
    return streams * (crypto_macs(fleet, pad_bits=shape.model_bits) + ring_macs(shape.model_numbers, shape.number_bits))


def pads_expanded(scheme: CodedScheme, n_devices: int) -> int:
    """How many devices' pads one device expands from seeds: those it answers for, or everybody's in a role."""
    return scheme.alpha if isinstance(scheme, GradientCoded) else n_devices


@device_costs.register(CodedScheme)
def coded_costs(scheme: CodedScheme, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
    """A float32 plane of d x d for each prime, the shared bulk once on its way up, and the pads it expands."""
    shape = shape.on_ring_of(scheme)
    planes = planes_of(shape.number_bits)
    bulk = shape.bulk_bits / 8
    memory = 4.0 * planes * shape.n_features**2 + bulk
    costs = epoch_costs(scheme, shape, at, epochs, memory).plus(upload_bytes=bulk)
    if isinstance(scheme, CodedPadded):
        return costs.plus(**_padded_costs(scheme, shape, at))
    return costs.plus(macs=pads_expanded(scheme, at.fleet.n_devices) * macs_of_pad(shape, at))


def _padded_costs(scheme: CodedPadded, shape: WorkShape, at: Conditions) -> dict[str, float]:
    """The bulk of alpha - 1 others comes down; conventions other than multicast also pay for each upload."""
    bulk, shares = shape.bulk_bits / 8, scheme.alpha - 1
    more_uploads = max(0, shares - 1) if at.sharing != "multicast" else 0
    return {"upload_bytes": more_uploads * bulk, "download_bytes": shares * bulk, "macs": macs_of_pad(shape, at)}


def macs_of_pad(shape: WorkShape, at: Conditions) -> float:
    """To expand the pad of one device and add it."""
    return crypto_macs(at.fleet, pad_bits=shape.bulk_bits) + ring_macs(shape.bulk_numbers, shape.number_bits)


@sharing.register(CodedScheme)
def coded_sharing(
    scheme: CodedScheme, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator
) -> Sharing:
    """One sealed upload each, all of which the server needs; meanwhile devices expand the seeds they hold.

    In a scheme of roles the list of owners and its certificate follow, which are small: of their transfer the
    messages' latency is counted, twice both ways.
    """
    shape = shape.on_ring_of(scheme)
    n_devices, empty = at.fleet.n_devices, at.times.mean_transfer_times
    roles = isinstance(scheme, RoleKeyed)
    own_seeds = scheme.colluders + 1 if isinstance(scheme, RoleKeyed) else 1
    uploaded, expanded = _uploads_and_pads(shape, at, pads_expanded(scheme, n_devices), draws, rng, own_seeds)
    agreeing = 2 * float(np.median(empty(0, "down") + empty(0, "up"))) if roles else 0.0
    begun = np.maximum(uploaded.max(axis=1), scheme.quorum(n_devices).time(expanded)) + agreeing
    return Sharing(begun, expanded + agreeing)


def _uploads_and_pads(
    shape: WorkShape, at: Conditions, pads: int, draws: int, rng: np.random.Generator, own_seeds: int
) -> tuple[Seconds, Seconds]:
    """(draws, D) each: when a device's sealed upload is here, and when it has expanded the pads of ``pads`` devices.

    ``own_seeds`` is how many seeds its own pad is the sum of.
    """
    own_pads = own_seeds * macs_of_pad(shape, at) if at.own_pads_charged else 0.0
    empty = at.times.mean_transfer_times
    asked = empty(0, "down")
    seeds_here = (asked + empty(0, "up")).max() + empty(0, "down")
    work = crypto_macs(at.fleet, sealed_bits=shape.bulk_bits) + own_pads
    bulk = Bulk(shape.bulk_bits, at.sharing, macs_to_send=work, chunk_bits=at.chunk_bits)
    uploaded = asked + upload_times(at.times, bulk, draws, rng)
    return uploaded, seeds_here + at.times.compute_times(pads * macs_of_pad(shape, at), draws, rng)


@sharing.register(CodedPadded)
def padded_sharing(
    scheme: CodedPadded, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator
) -> Sharing:
    """Padded data to the alpha - 1 others of the column, sealed once under a content key (the paper's scheme).

    The device's own pads and their sealing come before the first byte, opening and adding up after it. Training
    starts when enough devices are ready to decode, as the state machines do. The message with the pad's seed
    opens the phase: its latency counts, its 32 bytes do not.
    """
    fleet, bits = at.fleet, shape.bulk_bits
    shares = scheme.alpha - 1
    one_sum = ring_macs(shape.bulk_numbers, shape.number_bits)
    bulk = Bulk(
        bits,
        at.sharing,
        recipients=shares,
        groups=scheme.groups,
        macs_to_send=crypto_macs(fleet, pad_bits=bits, sealed_bits=bits if shares else 0),
        macs_to_receive=shares * (crypto_macs(fleet, sealed_bits=bits) + one_sum),
        chunk_bits=at.chunk_bits,
    )
    ready = at.times.mean_transfer_times(0, "down") + sharing_times(at.times, bulk, draws, rng)
    return Sharing(scheme.quorum(fleet.n_devices).time(ready), ready)
