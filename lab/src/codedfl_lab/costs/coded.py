"""What the schemes with state machines cost: an epoch's load, the one upload of each device, and pads from seeds.

Own pads are drawn before the run, like the Gram matrix (paper V: preprocessing is offline), unless the conditions
charge them; so are public-key operations. Seeds are 32 bytes: of their transfer only the messages' latency is counted,
up with the call that asks for them and down to those who expand them.

In a scheme of roles with K blocks a holder keeps d/K rows of its role's sum: it expands as much of every owner's pad,
multiplies and answers as many rows.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from codedfl.typing import Floats, Seconds
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
from codedfl_lab.fleet.fleet import EXCHANGE_MACS, SIGNING, VERIFICATION_MACS, Fleet
from codedfl_lab.fleet.latency import Bulk, pad_macs, planes_of, ring_macs, seal_macs, sharing_times, upload_times
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import CodedScheme, Scheme
from codedfl_lab.schemes.gradient_coded import GradientCoded
from codedfl_lab.schemes.role_keys import RoleKeyed


@epoch_load.register(CodedScheme)
def coded_load(scheme: CodedScheme, shape: WorkShape, fleet: Fleet) -> EpochLoad:
    """d^2 c MACs and d c numbers each way; the answer is sealed.

    Where the answer is X'X itself there is nothing to compute but masks, and the bulk to send: an almost empty request
    comes down.
    """
    shape = shape.on_ring_of(scheme)
    quorum, masks = scheme.quorum(fleet.n_devices), mask_macs(scheme, shape, fleet)
    if scheme.reveals_gram:
        bits = held_numbers(scheme, shape, fleet.n_devices) * shape.number_bits
        masks *= shape.bulk_numbers / shape.model_numbers
        return EpochLoad(seal_macs(fleet, bits) + masks, 0, bits, quorum)
    answer = rows_held(scheme, shape, fleet.n_devices) * shape.n_outputs
    bits = answer * shape.number_bits
    product = ring_macs(shape.n_features * answer, shape.work_bits)
    return EpochLoad(product + seal_macs(fleet, bits) + masks, shape.model_numbers * shape.number_bits, bits, quorum)


def rows_held(scheme: Scheme, shape: WorkShape, n_devices: int) -> Floats:
    """By position: of the d rows of a sum, those that a device keeps and answers; all but with blocks of rows."""
    shares = [scheme.rows_of(i) for i in range(n_devices)] if isinstance(scheme, RoleKeyed) else np.ones(n_devices)
    return np.ceil(shape.n_features * np.asarray(shares) - 1e-9)


def held_numbers(scheme: Scheme, shape: WorkShape, n_devices: int) -> Floats:
    """By position: what its rows need of a pad. Of a symmetric matrix d^2/K (1 - 1/2K), and rows of the constant."""
    rows = rows_held(scheme, shape, n_devices)
    return rows * (shape.n_features - (rows - 1) / 2 + shape.n_outputs)


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
    return streams * (
        pad_macs(fleet, shape.model_numbers * shape.number_bits) + ring_macs(shape.model_numbers, shape.work_bits)
    )


def pads_expanded(scheme: CodedScheme, n_devices: int) -> int:
    """How many devices' pads one device expands from seeds: those it answers for, or everybody's in a role."""
    return scheme.alpha if isinstance(scheme, GradientCoded) else n_devices


@device_costs.register(CodedScheme)
def coded_costs(scheme: CodedScheme, shape: WorkShape, at: Conditions, epochs: int) -> DeviceCosts:
    """A float32 plane of d x d for each prime, the shared bulk once on its way up, and the pads it expands."""
    shape = shape.on_ring_of(scheme)
    planes = planes_of(shape.number_bits)
    bulk = shape.bulk_bits / 8
    rows = rows_held(scheme, shape, at.fleet.n_devices).max()
    costs = epoch_costs(scheme, shape, at, epochs, 4.0 * planes * rows * shape.n_features + bulk)
    costs = costs.plus(upload_bytes=bulk)
    if isinstance(scheme, CodedPadded):
        return costs.plus(**_padded_costs(scheme, shape, at))
    return costs.plus(macs=pads_expanded(scheme, at.fleet.n_devices) * macs_of_pad(scheme, shape, at).max())


def _padded_costs(scheme: CodedPadded, shape: WorkShape, at: Conditions) -> dict[str, float]:
    """The bulk of alpha - 1 others comes down; conventions other than multicast also pay for each upload."""
    bulk, shares = shape.bulk_bits / 8, scheme.alpha - 1
    more_uploads = max(0, shares - 1) if at.sharing != "multicast" else 0
    return {"upload_bytes": more_uploads * bulk, "download_bytes": shares * bulk}


def macs_of_pad(scheme: Scheme, shape: WorkShape, at: Conditions) -> Floats:
    """By position: to expand what a device holds of another's pad, and add it."""
    numbers = held_numbers(scheme, shape, at.fleet.n_devices)
    return pad_macs(at.fleet, numbers * shape.number_bits) + ring_macs(numbers, shape.work_bits)


def own_pad_macs(scheme: Scheme, shape: WorkShape, at: Conditions) -> float:
    """To draw and add a device's own pads, one for each of its seeds, where they are not made before the run."""
    seeds = scheme.colluders + 1 if isinstance(scheme, RoleKeyed) else 1
    return seeds * (pad_macs(at.fleet, shape.bulk_bits) + ring_macs(shape.bulk_numbers, shape.work_bits))


def public_key_macs(scheme: CodedScheme, at: Conditions) -> tuple[float, float]:
    """MACs before a device's seeds leave, and before it answers.

    First everybody's signed join, and an envelope to every role or to every device that answers for it; then the
    envelopes of those whose pads it expands, and with roles the signatures of the list, by half of the devices.
    """
    count = at.fleet.n_devices
    sealed = opened = pads_expanded(scheme, count)
    signers = 0.0
    if isinstance(scheme, RoleKeyed):
        sealed, signers = scheme.colluders + 1, count / 2
    before = count * VERIFICATION_MACS + sealed * EXCHANGE_MACS
    return before, signers * VERIFICATION_MACS + opened * EXCHANGE_MACS


@singledispatch
def uploads_there(_scheme: object, uploaded: Seconds) -> Seconds:
    """(draws,) when there are enough of these uploads, (draws, D): all of them, unless a scheme begins with fewer."""
    found: Seconds = uploaded.max(axis=1)
    return found


@sharing.register(CodedScheme)
def coded_sharing(
    scheme: CodedScheme, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator
) -> Sharing:
    """One upload each, all of which the server needs; meanwhile devices expand what they hold of everybody's seeds.

    The upload is sealed, or signed alone where it tells nothing to anybody (roles with z >= 1). In a scheme of roles
    the list of owners and its certificate follow, which are small: of their transfer the messages' latency is counted,
    twice both ways.
    """
    shape = shape.on_ring_of(scheme)
    n_devices, empty = at.fleet.n_devices, at.times.mean_transfer_times
    keys_before, keys_after = public_key_macs(scheme, at) if at.public_keys_charged else (0.0, 0.0)
    signed = isinstance(scheme, RoleKeyed) and scheme.colluders > 0
    closing = seal_macs(at.fleet, shape.bulk_bits) * (SIGNING if signed else 1.0)
    work = closing + (own_pad_macs(scheme, shape, at) if at.own_pads_charged else 0.0)
    bulk = Bulk(shape.bulk_bits, at.sharing, macs_to_send=work, chunk_bits=at.chunk_bits)
    asked = empty(0, "down")
    uploaded = asked + upload_times(at.times, bulk, draws, rng)
    pads = pads_expanded(scheme, n_devices) * macs_of_pad(scheme, shape, at)
    expanding = at.times.compute_times(pads + keys_after, draws, rng)
    seeds_up = asked + empty(0, "up")
    if keys_before:
        seeds_up = seeds_up + at.times.compute_times(keys_before, draws, rng)
    expanded = seeds_up.max(axis=-1, keepdims=True) + empty(0, "down") + expanding
    agreeing = 2 * float(np.median(empty(0, "down") + empty(0, "up"))) if isinstance(scheme, RoleKeyed) else 0.0
    begun = np.maximum(uploads_there(scheme, uploaded), scheme.quorum(n_devices).time(expanded)) + agreeing
    return Sharing(begun, expanded + agreeing)


@sharing.register(CodedPadded)
def padded_sharing(
    scheme: CodedPadded, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator
) -> Sharing:
    """Padded data to the alpha - 1 others of the column, sealed once under a content key (the paper's scheme).

    Sealing comes before the first byte, opening and adding up after it. Training starts when enough devices are ready
    to decode, as the state machines do. The message with the pad's seed opens the phase: its latency counts, its
    32 bytes do not.
    """
    fleet, bits = at.fleet, shape.bulk_bits
    shares = scheme.alpha - 1
    keys_before, keys_after = public_key_macs(scheme, at) if at.public_keys_charged else (0.0, 0.0)
    own = own_pad_macs(scheme, shape, at) if at.own_pads_charged else 0.0
    one_sum = ring_macs(shape.bulk_numbers, shape.work_bits)
    sealing = seal_macs(fleet, bits if shares else 0)
    bulk = Bulk(
        bits,
        at.sharing,
        recipients=shares,
        groups=scheme.groups,
        macs_to_send=sealing + own + keys_before,
        macs_to_receive=shares * (seal_macs(fleet, bits) + one_sum) + keys_after,
        chunk_bits=at.chunk_bits,
    )
    ready = at.times.mean_transfer_times(0, "down") + sharing_times(at.times, bulk, draws, rng)
    return Sharing(scheme.quorum(fleet.n_devices).time(ready), ready)
