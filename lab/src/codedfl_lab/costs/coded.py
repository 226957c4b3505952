"""What the schemes that run as requests and replies cost: an epoch's load, and what comes before the first.

Where time begins is a matter of the conditions. **From the call** what needs no bulk of numbers to travel was done
before: keys were exchanged, pads expanded and added up, uploads padded and sealed (the Gram matrix is always made
offline, as in paper V). **From zero** devices enrol, roles have their keys drawn, uploads are padded, hashed and sealed
and travel, and holders check the list and expand the pads that they need. ``work`` counts what each of these steps is.

In a scheme of roles with K blocks a holder keeps d/K rows of its role's sum, one tile at least: it expands as much of
every owner's pad, multiplies and answers as many rows.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple, get_args

import numpy as np

from codedfl.sum.layout import TILE
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
from codedfl_lab.costs.work import (
    CODED_REQUEST_HASHED,
    REQUEST_HASHED,
    drawing,
    enrolling,
    opening_envelopes,
    replying,
    sharing_codewords,
    summing_pads,
    taking_data,
    taking_the_list,
    uploading,
)
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import (
    Bulk,
    Direction,
    pad_macs,
    planes_of,
    ring_macs,
    seal_macs,
    sharing_times,
    upload_times,
)
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import CodedScheme, Scheme
from codedfl_lab.schemes.gradient_coded import GradientCoded
from codedfl_lab.schemes.role_keys import RoleKeyed, RoleKeys, RoleSums

CODED_QUESTION_BITS = 64  # of a number of e as coded devices hash it; on the link it counts as the paper has it


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
        return EpochLoad(replying(bits).macs(fleet) + masks, 0, bits, quorum)
    answer = rows_held(scheme, shape, fleet.n_devices) * shape.n_outputs
    bits = answer * shape.number_bits
    product = shape.n_features * answer
    roles, down = isinstance(scheme, RoleKeyed), shape.model_numbers * shape.number_bits
    multiple = shape.ring_multiple if roles else None
    macs = ring_macs(product, shape.number_bits) if multiple is None else multiple * product
    hashed = (down, REQUEST_HASHED) if roles else (shape.model_numbers * CODED_QUESTION_BITS, CODED_REQUEST_HASHED)
    reply = replying(bits, *hashed)
    return EpochLoad(macs + reply.macs(fleet) + masks, down, bits, quorum)


def rows_held(scheme: Scheme | RoleKeyed, shape: WorkShape, n_devices: int) -> Floats:
    """By position: of the d rows of a sum, those that a device keeps and answers; all but with blocks of rows."""
    if not isinstance(scheme, RoleKeyed):
        return np.full(n_devices, float(shape.n_features))
    shares = np.array([scheme.rows_of(i) for i in range(n_devices)])
    # Rows are dealt out in tiles: nobody has fewer than those of one, or none.
    rows = np.maximum(np.ceil(shape.n_features * shares - 1e-9), min(TILE, shape.n_features))
    return np.where(shares > 0, rows, 0.0)


def held_numbers(scheme: Scheme | RoleKeyed, shape: WorkShape, n_devices: int) -> Floats:
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
    return _streams(scheme, fleet.n_devices) * (
        pad_macs(fleet, shape.model_numbers * shape.number_bits) + ring_macs(shape.model_numbers, shape.number_bits)
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
    return pad_macs(at.fleet, numbers * shape.number_bits) + ring_macs(numbers, shape.number_bits)


def partners_of(scheme: CodedScheme, n_devices: int) -> int:
    """The devices that one deals with: in a gradient code with masks those of its own column and of the next one."""
    return _streams(scheme, n_devices) - 1 if isinstance(scheme, GradientCoded) else n_devices - 1


def _streams(scheme: GradientCoded, n_devices: int) -> int:
    return min(scheme.alpha + 1 if scheme.groups == 1 else 2 * scheme.alpha, n_devices)


def added_macs(shape: WorkShape, numbers: Floats | float) -> Floats:
    """To add numbers to a sum."""
    return ring_macs(np.asarray(numbers, dtype=float), shape.number_bits)


class Clock:
    """Steps of a sharing phase, one after the other: a request down, work, a reply up."""

    def __init__(self, at: Conditions, draws: int, rng: np.random.Generator) -> None:
        self._at, self._draws, self._rng = at, draws, rng
        self._down, self._up = (at.times.mean_transfer_times(0, direction) for direction in get_args(Direction))
        self.now = np.zeros(draws)

    def _done(self, macs: Floats | float) -> Seconds:
        """(draws, D) times at which each device has done what it is asked now."""
        return self.now[:, None] + self._down + self._at.times.compute_times(macs, self._draws, self._rng)

    def reply(self, macs: Floats | float) -> Seconds:
        """(draws, D) times at which each device has replied to what it is asked now."""
        return self._done(macs) + self._up

    def all(self, macs: Floats | float) -> None:
        """Everybody is waited for."""
        self.now = self.reply(macs).max(axis=1)

    def uploaded(self, bits: float, macs: Floats | float = 0.0) -> Seconds:
        """(draws, D) times of each device's bulk, sent when it has been made; without MACs it was made before."""
        bulk = Bulk(bits, self._at.sharing, chunk_bits=self._at.chunk_bits)
        sent = upload_times(self._at.times, bulk, self._draws, self._rng)
        return self._done(macs) + sent


class Step(NamedTuple):
    """A step of the secure sum before its first epoch, and the MACs it takes at each position of the run."""

    words: str
    macs: Floats


def role_steps(scheme: RoleKeyed, shape: WorkShape, fleet: Fleet) -> list[Step]:
    """What roles need before they can answer, in its order. Whoever draws a role's key seals it to all its holders."""
    shape, owners, roles = shape.on_ring_of(scheme), fleet.n_devices, scheme.colluders + 1
    positions = np.arange(owners)
    holds = positions < (scheme.holders or owners)
    held, bits = held_numbers(scheme, shape, owners), shape.bulk_bits
    drawer = drawing(len(range(0, scheme.holders or owners, roles)))
    padding = roles * added_macs(shape, shape.bulk_numbers)
    summing = summing_pads(owners, held * shape.number_bits).macs(fleet) + owners * added_macs(shape, held)
    return [
        Step("enrol", np.full(owners, enrolling().macs(fleet))),
        Step("draw a role's key", np.where(positions < roles, drawer.macs(fleet), 0.0)),
        Step("pad, hash and seal the upload", np.full(owners, uploading(scheme.colluders, bits).macs(fleet) + padding)),
        Step("check the list, derive its secrets", np.where(holds, taking_the_list(owners).macs(fleet), 0.0)),
        Step("sum the pads of a role", np.asarray(summing)),
    ]


@singledispatch
def uploads_there(_scheme: object, uploaded: Seconds) -> Seconds:
    """(draws,) when there are enough of these uploads, (draws, D): all of them, unless a scheme begins with fewer."""
    found: Seconds = uploaded.max(axis=1)
    return found


def role_uploads(scheme: RoleKeyed, shape: WorkShape, at: Conditions, clock: Clock) -> Seconds:
    """(draws, D) times of the uploads: padded before the call, or from zero when roles have their keys."""
    bits = shape.on_ring_of(scheme).bulk_bits
    if at.begins == "call":
        return clock.uploaded(bits)
    enrol, draw, upload, *_ = (one.macs for one in role_steps(scheme, shape, at.fleet))
    clock.all(enrol)
    clock.now = clock.reply(draw)[:, : scheme.colluders + 1].max(axis=1)  # the first of each role
    return clock.uploaded(bits, upload)


@sharing.register(RoleKeys)
@sharing.register(RoleSums)
def role_sharing(scheme: RoleKeyed, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator) -> Sharing:
    """The secure sum: from the call one upload each; then, from zero, what holders do before they can answer."""
    clock = Clock(at, draws, rng)
    clock.now = uploads_there(scheme, role_uploads(scheme, shape, at, clock))
    if at.begins == "call":
        return Sharing(clock.now, np.zeros((draws, at.fleet.n_devices)))
    _, _, _, *hold = (one.macs for one in role_steps(scheme, shape, at.fleet))
    return Sharing(clock.now, clock.reply(sum(hold)))


@sharing.register(CodedScheme)
def keyed_sharing(
    scheme: CodedScheme, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator
) -> Sharing:
    """One upload each; seeds are expanded by those who answer for a device, before the call or after the uploads."""
    devices, clock = at.fleet.n_devices, Clock(at, draws, rng)
    if at.begins == "call":
        clock.now = clock.uploaded(shape.bulk_bits).max(axis=1)
        return Sharing(clock.now, np.zeros((draws, devices)))
    partners, fleet = partners_of(scheme, devices), at.fleet
    clock.all(enrolling().macs(fleet))
    one_sum = added_macs(shape, shape.bulk_numbers)
    sharing_work = sharing_codewords(partners, devices, shape.bulk_bits, padded=False).macs(fleet)
    clock.now = clock.uploaded(shape.bulk_bits, sharing_work + one_sum).max(axis=1)
    pads = pads_expanded(scheme, devices)
    expanding = opening_envelopes(partners) + summing_pads(pads, shape.bulk_bits)
    return Sharing(clock.now, clock.reply(expanding.macs(fleet) + pads * one_sum))


@sharing.register(CodedPadded)
def padded_sharing(
    scheme: CodedPadded, shape: WorkShape, at: Conditions, draws: int, rng: np.random.Generator
) -> Sharing:
    """Padded data to the alpha - 1 others of the column, sealed once under a content key (the paper's scheme).

    Sealing comes before the first byte, opening and adding up after it. Training starts when enough devices are ready
    to decode, as the server does.
    """
    fleet, bits, devices = at.fleet, shape.bulk_bits, at.fleet.n_devices
    shares, clock = scheme.alpha - 1, Clock(at, draws, rng)
    one_sum = float(added_macs(shape, shape.bulk_numbers))
    before, after = (
        seal_macs(fleet, bits if shares else 0),
        float(taking_data(shares, bits).macs(fleet)) + shares * one_sum,
    )
    if at.begins == "zero":
        clock.all(enrolling().macs(fleet))
        partners = partners_of(scheme, devices)
        before = float(sharing_codewords(partners, devices, bits, padded=True).macs(fleet)) + one_sum
        after += float(opening_envelopes(partners).macs(fleet))
    bulk = Bulk(
        bits,
        at.sharing,
        recipients=shares,
        groups=scheme.groups,
        macs_to_send=before,
        macs_to_receive=after,
        chunk_bits=at.chunk_bits,
    )
    ready = clock.now[:, None] + at.times.mean_transfer_times(0, "down") + sharing_times(at.times, bulk, draws, rng)
    return Sharing(scheme.quorum(devices).time(ready), ready)
