"""How long things take on a fleet (paper III-B): computing, sending, an epoch, a training, the sharing phase.

Every draw comes from the generator passed in, vectorised as (draws, D) arrays of seconds. Computing rho MACs
takes rho / tau + Exp(mean setup_factor rho / tau); sending b bits takes N b (1 + header) / gamma with N
geometric. Devices are full duplex and have orthogonal channels to the central server, which relays between
devices without delay. Classes with measured times draw those instead. The central server's own computing is
not counted here.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codedfl.errors import InvalidInput
from codedfl.fleet.fleet import RATED_BITS, Fleet, MeasuredKind
from codedfl.typing import Seconds

Direction = Literal["up", "down"]
SharingConvention = Literal["authors", "per-message", "multicast"]
"""How the bulk data of a sharing phase travels and is timed.

``authors``: the formula of the authors' simulation, every message at its mean time and no chance.
``per-message``: every message is uploaded on its own and relayed to its recipient, each with its own
retransmissions. ``multicast``: a device uploads its bulk once and the central server relays it to every
recipient.
"""

_MESSAGES_AT_ONCE = 1_000_000  # relayed messages held in memory: some 30 MB


def compute_times(fleet: Fleet, macs: ArrayLike, draws: int, rng: np.random.Generator) -> Seconds:
    """(draws, D) times to compute ``macs`` MACs, one number or one per device; 0 MACs take no time."""
    _check_draws(draws)
    amount = _per_device("macs", macs, fleet)
    setup = rng.standard_exponential((draws, fleet.n_devices))
    times = amount / fleet.mac_rate * (1 + fleet.setup_factor * setup)
    return _with_measured(times, fleet, "compute", amount, rng)


def mean_compute_times(fleet: Fleet, macs: ArrayLike) -> Seconds:
    """(D,) expectations of :func:`compute_times`."""
    amount = _per_device("macs", macs, fleet)
    times = amount / fleet.mac_rate * (1 + fleet.setup_factor)
    return _with_measured_means(times, fleet, "compute", amount)


def transfer_times(
    fleet: Fleet,
    bits: ArrayLike,
    direction: Direction,
    draws: int,
    rng: np.random.Generator,
    chunk_bits: float | None = None,
) -> Seconds:
    """(draws, D) times to send ``bits`` payload bits, one number or one per device; 0 bits take no time.

    A failed transmission repeats everything, or with ``chunk_bits`` only its chunk: n chunks then need a
    negative binomial number of transmissions. The mean is the same. A chunk as large as the payload changes
    nothing, and neither does one on a link with measured times, which have their retransmissions in them.
    """
    _check_draws(draws)
    amount = _per_device("bits", bits, fleet)
    success = 1 - fleet.failure_probability
    shape = (draws, fleet.n_devices)
    if chunk_bits is None:
        sent = rng.geometric(success, shape) * amount
    else:
        if not chunk_bits > 0:
            raise InvalidInput(f"chunk_bits must be positive, got {chunk_bits}")
        whole_chunks = np.maximum(np.ceil(amount / chunk_bits) - 1, 0)
        sent = rng.geometric(success, shape) * (amount - whole_chunks * chunk_bits)
        some = np.flatnonzero(whole_chunks)  # the negative binomial of no chunks is not defined
        failures = rng.negative_binomial(whole_chunks[some], success[some], (draws, some.size))
        sent[:, some] += (whole_chunks[some] + failures) * chunk_bits
    times = sent * _seconds_per_bit(fleet, direction)
    return _with_measured(times, fleet, _kind(direction), amount, rng)


def mean_transfer_times(fleet: Fleet, bits: ArrayLike, direction: Direction) -> Seconds:
    """(D,) expectations of :func:`transfer_times`, in chunks or not."""
    amount = _per_device("bits", bits, fleet)
    times = amount * _seconds_per_bit(fleet, direction) / (1 - fleet.failure_probability)
    return _with_measured_means(times, fleet, _kind(direction), amount)


def epoch_arrivals(
    fleet: Fleet,
    macs: ArrayLike,
    bits_down: ArrayLike,
    bits_up: ArrayLike,
    draws: int,
    rng: np.random.Generator,
    chunk_bits: float | None = None,
) -> Seconds:
    """(draws, D) times from the start of an epoch to each device's answer: download, compute, upload."""
    down = transfer_times(fleet, bits_down, "down", draws, rng, chunk_bits)
    compute = compute_times(fleet, macs, draws, rng)
    return down + compute + transfer_times(fleet, bits_up, "up", draws, rng, chunk_bits)


def ring_macs(macs: float, number_bits: int) -> float:
    """``macs`` MACs on ring numbers, in the fleet's unit: three primes take half as long again as two."""
    return macs * number_bits / RATED_BITS


def crypto_macs(fleet: Fleet, *, pad_bits: float = 0, sealed_bits: float = 0) -> float:
    """MACs charged for expanding pads of ``pad_bits`` and for sealing or opening ``sealed_bits``.

    The fleet's factors are per number of ``RATED_BITS``; ciphers go by the byte, so a float of 32 bits costs two
    thirds of one and a number of three primes one and a half.
    """
    return (pad_bits * fleet.pad_macs_per_number + sealed_bits * fleet.seal_macs_per_number) / RATED_BITS


def upload_times(
    fleet: Fleet,
    numbers: ArrayLike,
    bits_per_number: float,
    convention: SharingConvention,
    draws: int,
    rng: np.random.Generator,
    *,
    macs: ArrayLike = 0,
    chunk_bits: float | None = None,
) -> Seconds:
    """(draws, D) times at which device i's one upload of ``numbers`` numbers has reached the central server.

    Coded keys upload their padded data so, CodedFedL its parity. ``authors`` takes the mean time; the other
    two conventions differ only in relaying and agree here. ``macs`` of padding and sealing run while earlier
    numbers are in the air: the later of both counts.
    """
    _check_convention(convention)
    bits = _per_device("numbers", numbers, fleet) * bits_per_number
    work = compute_times(fleet, macs, draws, rng)
    if convention == "authors":
        return np.maximum(work, mean_transfer_times(fleet, bits, "up"))
    return np.maximum(work, transfer_times(fleet, bits, "up", draws, rng, chunk_bits))


def authors_sharing_time(fleet: Fleet, numbers: float, bits_per_number: float, recipients: int) -> float:
    """Seconds of the sharing phase by the authors' formula: recipients b (1 + header) / (1 - p) 2 / gamma.

    b = numbers bits_per_number are the bits for one recipient and gamma is the mean of the two link rates:
    messages go up and down one after the other, each at its mean number of transmissions. On unequal links
    the slowest device counts. The paper's fleet and size (d = 2000, c = 10, 48 bits) take 31.6 s per
    recipient.
    """
    up, down = (mean_transfer_times(fleet, 1.0, direction) for direction in get_args(Direction))
    mean_rate = (1 / up + 1 / down) / 2  # of payload bits, retransmissions and headers taken off
    return float(recipients * numbers * bits_per_number * 2 / mean_rate.min())


def sharing_times(
    fleet: Fleet,
    numbers: float,
    bits_per_number: float,
    recipients: int,
    convention: SharingConvention,
    draws: int,
    rng: np.random.Generator,
    *,
    macs_to_send: ArrayLike = 0,
    macs_to_receive: ArrayLike = 0,
    chunk_bits: float | None = None,
    groups: int = 1,
) -> Seconds:
    """(draws, D) times at which device i has all of its shares (paper IV-B); the phase ends with the last.

    Every device sends ``numbers`` numbers, d(d+1)/2 + d c in the paper, to ``recipients`` = alpha - 1 others:
    along the support of column i of B these are i - 1, .., i - alpha + 1 (cyclic), in this order; with ``groups``,
    every groups-th device counts. A downlink
    serves shares as they reach the central server. No recipients (alpha = 1) leave only the device's own
    work.

    ``macs_to_send`` (padding, sealing) and ``macs_to_receive`` (opening), one number or one per device, run
    beside the links: a message leaves no earlier than its part of the work is done, and a device is done no
    earlier than all its work. See :func:`crypto_macs`.
    """
    _check_convention(convention)
    others = fleet.n_devices - 1
    if not 0 <= recipients <= others:
        raise InvalidInput(f"recipients must be between 0 and the other devices ({others}), got {recipients}")
    if not numbers >= 0:
        raise InvalidInput(f"numbers must be zero or positive, got {numbers}")
    sending = compute_times(fleet, macs_to_send, draws, rng)
    work = sending + compute_times(fleet, macs_to_receive, draws, rng)
    if recipients == 0:
        return work
    if convention == "authors":
        link = authors_sharing_time(fleet, numbers, bits_per_number, recipients)
        received = np.maximum(link, sending.max(axis=1, keepdims=True))
    else:
        bits = numbers * bits_per_number
        at_once = max(1, _MESSAGES_AT_ONCE // (recipients * fleet.n_devices))
        parts = [sending[first : first + at_once] for first in range(0, draws, at_once)]
        received = np.concatenate(
            [_relayed(fleet, bits, recipients, convention, part, rng, chunk_bits, groups) for part in parts]
        )
    done: Seconds = np.maximum(work, received)
    return done


def _relayed(
    fleet: Fleet,
    bits: float,
    recipients: int,
    convention: SharingConvention,
    sending: Seconds,
    rng: np.random.Generator,
    chunk_bits: float | None,
    groups: int,
) -> Seconds:
    """(draws, D) times at which device i has downloaded the last of its shares."""
    draws, n_devices = sending.shape
    shape = (draws, recipients, n_devices)
    if convention == "multicast":
        once = np.maximum(transfer_times(fleet, bits, "up", draws, rng, chunk_bits), sending)
        uploaded = np.broadcast_to(once[:, None, :], shape)
    else:
        each = transfer_times(fleet, bits, "up", draws * recipients, rng, chunk_bits).reshape(shape)
        part_of_work = np.arange(1, recipients + 1)[:, None] / recipients
        uploaded = np.maximum(each.cumsum(axis=1), sending[:, None, :] * part_of_work)
    # The k-th message of device j goes to device j - k, so device i waits for the k-th message of i + k.
    senders = (np.arange(n_devices) + groups * np.arange(1, recipients + 1)[:, None]) % n_devices
    at_server = np.sort(np.take_along_axis(uploaded, senders[None], axis=2), axis=1)
    down = transfer_times(fleet, bits, "down", draws * recipients, rng, chunk_bits).reshape(shape)
    # First come, first served: from some share n on the downlink never pauses; that n gives the latest end.
    rest = down[:, ::-1].cumsum(axis=1)[:, ::-1]
    latest: Seconds = (at_server + rest).max(axis=1)
    return latest


def _kind(direction: Direction) -> MeasuredKind:
    if direction not in get_args(Direction):
        raise InvalidInput(f"direction must be up or down, got {direction!r}")
    return "uplink" if direction == "up" else "downlink"


def _seconds_per_bit(fleet: Fleet, direction: Direction) -> Seconds:
    rate = fleet.uplink_rate if _kind(direction) == "uplink" else fleet.downlink_rate
    return (1 + fleet.header_overhead) / rate


def _with_measured(
    times: Seconds, fleet: Fleet, kind: MeasuredKind, amount: Seconds, rng: np.random.Generator
) -> Seconds:
    for devices, seconds_per_unit in _measured(fleet, kind):
        rows = rng.integers(seconds_per_unit.size, size=(times.shape[0], devices.size))
        times[:, devices] = seconds_per_unit[rows] * amount[devices]
    return times


def _with_measured_means(times: Seconds, fleet: Fleet, kind: MeasuredKind, amount: Seconds) -> Seconds:
    for devices, seconds_per_unit in _measured(fleet, kind):
        times[devices] = seconds_per_unit.mean() * amount[devices]
    return times


def _measured(fleet: Fleet, kind: MeasuredKind) -> list[tuple[NDArray[np.intp], Seconds]]:
    """The devices of each class with measured times of this kind, and those times."""
    return [
        (np.flatnonzero(fleet.class_of_device == i), c.trace.seconds_per_unit[kind])
        for i, c in enumerate(fleet.classes)
        if c.trace is not None and kind in c.trace.seconds_per_unit
    ]


def _per_device(name: str, values: ArrayLike, fleet: Fleet) -> Seconds:
    array: NDArray[Any] = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), (fleet.n_devices,)):
        raise InvalidInput(f"{name} must be one number or one per device ({fleet.n_devices}), got shape {array.shape}")
    if not (np.isfinite(array) & (array >= 0)).all():
        raise InvalidInput(f"{name} must be zero or positive, got {array}")
    return np.broadcast_to(array, (fleet.n_devices,))


def _check_draws(draws: int) -> None:
    if draws < 1:
        raise InvalidInput(f"draws must be a positive integer, got {draws}")


def _check_convention(convention: SharingConvention) -> None:
    if convention not in get_args(SharingConvention):
        raise InvalidInput(f"convention must be one of {', '.join(get_args(SharingConvention))}, got {convention!r}")
