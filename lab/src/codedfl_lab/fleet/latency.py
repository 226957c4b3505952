"""How long things take on a fleet (paper III-B): computing, sending, an epoch, the sharing phase.

``LatencyModel`` is what everything else asks: replace it (``Conditions(latency=...)``) to time a fleet by another law.
``FleetLatency`` is the paper's: computing rho MACs takes rho / tau + Exp(mean setup_factor rho / tau); a message of b
bits takes its latency and N b (1 + header) / gamma with N geometric.

Every draw comes from the generator passed in, vectorised as (draws, D) arrays of seconds. Devices are full duplex and
have orthogonal channels to the central server, which relays between devices without delay. The central server's own
computing is not counted here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from codedfl.errors import InvalidInput
from codedfl.typing import Floats, Seconds
from codedfl_lab.fleet.fleet import RATED_BITS, Fleet

Direction = Literal["up", "down"]
Now = float | Seconds
"""When something begins, in simulated seconds since the start of the run."""
SharingConvention = Literal["authors", "per-message", "multicast"]
"""How the bulk data of a sharing phase travels and is timed.

``authors``: the formula of the authors' simulation, every message at its mean time and no chance.
``per-message``: every message is uploaded on its own and relayed to its recipient, each with its own
retransmissions. ``multicast``: a device uploads its bulk once and the central server relays it to every
recipient.
"""

_MESSAGES_AT_ONCE = 1_000_000  # relayed messages held in memory: some 30 MB


@dataclass(frozen=True, eq=False)
class RoundTrip:
    """What a device does between an update and its answer: one number for all, or one per device."""

    macs: float | Floats
    bits_down: float
    bits_up: float | Floats


@dataclass(frozen=True, eq=False)
class Bulk:
    """What every device sends in a sharing phase, and how.

    bits: of one upload; d(d+1)/2 + d c numbers in the paper.
    recipients: how many others get it, alpha - 1 in the paper; 0 where the central server keeps it.
    groups: recipients are in the device's own group, and every ``groups``-th device is of one.
    macs_to_send, macs_to_receive: padding and sealing; opening (:func:`pad_macs`, :func:`seal_macs`).
    """

    bits: float
    convention: SharingConvention
    recipients: int = 0
    groups: int = 1
    macs_to_send: float | Floats = 0
    macs_to_receive: float | Floats = 0
    chunk_bits: float | None = None


class LatencyModel(Protocol):
    """How long the devices of a fleet take.

    Amounts are one number or one per device. ``now`` is when it begins, in simulated seconds since the start of the
    run, and broadcasts to (draws, D): a model may know the time of day. All draws come from ``rng``.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl_lab import Fleet, FleetLatency, LatencyModel
    >>> model: LatencyModel = FleetLatency(Fleet.load("paper"))
    >>> model.compute_times(1e6, draws=3, rng=np.random.default_rng(0)).shape  # one time per draw and device
    (3, 25)
    """

    def compute_times(self, macs: ArrayLike, draws: int, rng: np.random.Generator, now: Now = 0.0) -> Seconds:
        """(draws, D) times to compute ``macs`` MACs; 0 MACs should take no time."""
        ...

    def transfer_times(
        self,
        bits: ArrayLike,
        direction: Direction,
        draws: int,
        rng: np.random.Generator,
        chunk_bits: float | None = None,
        now: Now = 0.0,
    ) -> Seconds:
        """(draws, D) times of one message of ``bits`` payload bits; with ``chunk_bits`` chunks fail on their own."""
        ...

    def mean_compute_times(self, macs: ArrayLike) -> Seconds:
        """(D,) expectations of ``compute_times``."""
        ...

    def mean_transfer_times(self, bits: ArrayLike, direction: Direction) -> Seconds:
        """(D,) expectations of ``transfer_times``; 0 bits: what a message takes at least."""
        ...


@dataclass(frozen=True)
class FleetLatency:
    """The fleet's own model, of its classes' parameters. The time of day changes nothing.

    Examples
    --------
    >>> from codedfl_lab import Fleet, FleetLatency
    >>> FleetLatency(Fleet.load("paper")).mean_compute_times(25e6)[[0, -1]].tolist()  # seconds, fastest and slowest
    [1.5, 30.0]
    """

    fleet: Fleet

    def compute_times(self, macs: ArrayLike, draws: int, rng: np.random.Generator, now: Now = 0.0) -> Seconds:
        """(draws, D) times to compute ``macs`` MACs; 0 MACs take no time.

        Paper: III-B. Shown by ``pytest tests/fleet/test_latency.py -k shifted_exponential``.
        """
        del now
        _check_draws(draws)
        fleet, amount = self.fleet, self._per_device("macs", macs)
        setup = rng.standard_exponential((draws, fleet.n_devices))
        return amount / fleet.mac_rate * (1 + fleet.setup_factor * setup)

    def mean_compute_times(self, macs: ArrayLike) -> Seconds:
        return self._per_device("macs", macs) / self.fleet.mac_rate * (1 + self.fleet.setup_factor)

    def transfer_times(
        self,
        bits: ArrayLike,
        direction: Direction,
        draws: int,
        rng: np.random.Generator,
        chunk_bits: float | None = None,
        now: Now = 0.0,
    ) -> Seconds:
        """(draws, D) times of one message.

        A failed transmission repeats everything, or with ``chunk_bits`` only its chunk: n chunks then need a
        negative binomial number of transmissions. The mean is the same. A chunk as large as the payload changes
        nothing.

        Paper: III-B. Shown by ``pytest tests/fleet/test_latency.py -k geometric``.
        """
        del now
        _check_draws(draws)
        fleet, amount = self.fleet, self._per_device("bits", bits)
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
        return sent * self._seconds_per_bit(direction) + fleet.latency

    def mean_transfer_times(self, bits: ArrayLike, direction: Direction) -> Seconds:
        """(D,) expectations of ``transfer_times``, in chunks or not."""
        amount = self._per_device("bits", bits)
        times = amount * self._seconds_per_bit(direction) / (1 - self.fleet.failure_probability)
        return times + self.fleet.latency

    def _seconds_per_bit(self, direction: Direction) -> Seconds:
        if direction not in get_args(Direction):
            raise InvalidInput(f"direction must be up or down, got {direction!r}")
        rate = self.fleet.uplink_rate if direction == "up" else self.fleet.downlink_rate
        return (1 + self.fleet.header_overhead) / rate

    def _per_device(self, name: str, values: ArrayLike) -> Seconds:
        count = self.fleet.n_devices
        array: NDArray[Any] = np.asarray(values, dtype=np.float64)
        if array.shape not in ((), (count,)):
            raise InvalidInput(f"{name} must be one number or one per device ({count}), got shape {array.shape}")
        if not (np.isfinite(array) & (array >= 0)).all():
            raise InvalidInput(f"{name} must be zero or positive, got {array}")
        return array if array.ndim else np.full(count, array)


@dataclass(frozen=True, eq=False)
class RunLatency:
    """Another model with the devices in a run's order: its position i is device ``order[i]``."""

    model: LatencyModel
    order: NDArray[np.intp]

    def compute_times(self, macs: ArrayLike, draws: int, rng: np.random.Generator, now: Now = 0.0) -> Seconds:
        return self.model.compute_times(self._by_device(macs), draws, rng, self._by_device(now))[..., self.order]

    def mean_compute_times(self, macs: ArrayLike) -> Seconds:
        return self.model.mean_compute_times(self._by_device(macs))[..., self.order]

    def transfer_times(
        self,
        bits: ArrayLike,
        direction: Direction,
        draws: int,
        rng: np.random.Generator,
        chunk_bits: float | None = None,
        now: Now = 0.0,
    ) -> Seconds:
        amount, begins = self._by_device(bits), self._by_device(now)
        return self.model.transfer_times(amount, direction, draws, rng, chunk_bits, begins)[..., self.order]

    def mean_transfer_times(self, bits: ArrayLike, direction: Direction) -> Seconds:
        return self.model.mean_transfer_times(self._by_device(bits), direction)[..., self.order]

    def _by_device(self, values: ArrayLike) -> Seconds:
        """Values by position, in the model's own order; one value for all stays one."""
        given = np.asarray(values, dtype=np.float64)
        if given.shape[-1:] != self.order.shape:
            return given
        return given[..., np.argsort(self.order)]


def epoch_arrivals(
    latency: LatencyModel,
    trip: RoundTrip,
    draws: int,
    rng: np.random.Generator,
    chunk_bits: float | None = None,
    now: Now = 0.0,
) -> Seconds:
    """(draws, D) times from the start of an epoch to each device's answer.

    ``now`` is when each device begins.
    """
    passed = latency.transfer_times(trip.bits_down, "down", draws, rng, chunk_bits, now)
    passed = passed + latency.compute_times(trip.macs, draws, rng, now + passed)
    return passed + latency.transfer_times(trip.bits_up, "up", draws, rng, chunk_bits, now + passed)


def mean_arrivals(latency: LatencyModel, trip: RoundTrip) -> Seconds:
    """(D,) expectations of :func:`epoch_arrivals`."""
    down, up = latency.mean_transfer_times(trip.bits_down, "down"), latency.mean_transfer_times(trip.bits_up, "up")
    return down + latency.mean_compute_times(trip.macs) + up


def planes_of(number_bits: int) -> int:
    """Primes of a ring: three in 72 bits, two in 48 and in 32, where they are shorter.

    >>> [planes_of(bits) for bits in (32, 48, 72)]
    [2, 2, 3]
    """
    return 3 if number_bits > RATED_BITS else 2


Amount = TypeVar("Amount", float, Floats)


def ring_macs(macs: Amount, number_bits: int) -> Amount:
    """``macs`` MACs on ring numbers, in the fleet's unit, by their bits: 72 take half as long again as 48."""
    return macs * number_bits / RATED_BITS


def pad_macs(fleet: Fleet, bits: Amount) -> Amount:
    """MACs charged for expanding pads of ``bits``.

    The fleet's factors are per number of ``RATED_BITS``; ciphers go by the byte, so a float of 32 bits costs two
    thirds of one and a number of three primes one and a half.
    """
    return bits * fleet.pad_macs_per_number / RATED_BITS


def seal_macs(fleet: Fleet, bits: Amount) -> Amount:
    """The same for sealing or opening."""
    return bits * fleet.seal_macs_per_number / RATED_BITS


def hash_macs(fleet: Fleet, bits: Amount) -> Amount:
    """The same for hashing."""
    return bits * fleet.hash_macs_per_number / RATED_BITS


def upload_times(latency: LatencyModel, bulk: Bulk, draws: int, rng: np.random.Generator) -> Seconds:
    """(draws, D) times at which device i's one upload has reached the central server.

    Coded keys upload their padded data so, CodedFedL its parity. ``authors`` takes the mean time; the other
    two conventions differ only in relaying and agree here. ``macs_to_send`` run while earlier numbers are in the
    air: the later of both counts.
    """
    work = latency.compute_times(bulk.macs_to_send, draws, rng)
    if bulk.convention == "authors":
        return np.maximum(work, latency.mean_transfer_times(bulk.bits, "up"))
    return np.maximum(work, latency.transfer_times(bulk.bits, "up", draws, rng, bulk.chunk_bits))


def authors_sharing_time(latency: LatencyModel, bits: float, recipients: int) -> float:
    """Seconds of the sharing phase by the authors' formula: recipients b (1 + header) / (1 - p) 2 / gamma.

    b are the bits for one recipient and gamma is the mean of the two link rates: messages go up and down one after
    the other, each at its mean time. On unequal links the slowest device counts. The paper's fleet and size
    (d = 2000, c = 10, 48 bits) take 31.6 s per recipient. Nothing to send takes no time.
    """
    up, down = (latency.mean_transfer_times(bits, direction) for direction in get_args(Direction))
    with np.errstate(divide="ignore"):
        both_ways = 4 / (1 / up + 1 / down)
    return float(recipients * both_ways.max())


def sharing_times(latency: LatencyModel, bulk: Bulk, draws: int, rng: np.random.Generator) -> Seconds:
    """(draws, D) times at which device i has all of its shares (paper IV-B); the phase ends with the last.

    Along the support of column i of B the recipients are i - 1, .., i - alpha + 1 (cyclic), in this order; with
    ``groups``, every groups-th device counts. A downlink serves shares as they reach the central server. No recipients
    (alpha = 1) leave only the device's own work.

    ``macs_to_send`` and ``macs_to_receive`` run beside the links: a message leaves no earlier than its part of the work
    is done, and a device is done no earlier than all its work.

    Paper: III-B. Shown by ``pytest tests/fleet/test_latency.py -k sharing``.
    """
    sending = latency.compute_times(bulk.macs_to_send, draws, rng)
    recipients, n_devices = bulk.recipients, sending.shape[1]
    if not 0 <= recipients < n_devices:
        raise InvalidInput(f"recipients must be between 0 and the other devices ({n_devices - 1}), got {recipients}")
    work = sending + latency.compute_times(bulk.macs_to_receive, draws, rng)
    if recipients == 0:
        return work
    if bulk.convention == "authors":
        link = authors_sharing_time(latency, bulk.bits, recipients)
        received = np.maximum(link, sending.max(axis=1, keepdims=True))
    else:
        at_once = max(1, _MESSAGES_AT_ONCE // (recipients * n_devices))
        parts = [sending[first : first + at_once] for first in range(0, draws, at_once)]
        received = np.concatenate([_relayed(latency, bulk, part, rng) for part in parts])
    done: Seconds = np.maximum(work, received)
    return done


def _relayed(latency: LatencyModel, bulk: Bulk, sending: Seconds, rng: np.random.Generator) -> Seconds:
    """(draws, D) times at which device i has downloaded the last of its shares."""
    draws, n_devices = sending.shape
    recipients, groups = bulk.recipients, bulk.groups
    shape = (draws, recipients, n_devices)
    if bulk.convention == "multicast":
        once = np.maximum(latency.transfer_times(bulk.bits, "up", draws, rng, bulk.chunk_bits), sending)
        uploaded = np.broadcast_to(once[:, None, :], shape)
    else:
        each = latency.transfer_times(bulk.bits, "up", draws * recipients, rng, bulk.chunk_bits).reshape(shape)
        part_of_work = np.arange(1, recipients + 1)[:, None] / recipients
        uploaded = np.maximum(each.cumsum(axis=1), sending[:, None, :] * part_of_work)
    # The k-th message of device j goes to device j - k of its group, so device i waits for the k-th message of i + k.
    place, group = np.divmod(np.arange(n_devices), groups)
    sizes = -(-(n_devices - group) // groups)
    senders = (place + np.arange(1, recipients + 1)[:, None]) % sizes * groups + group
    at_server = np.sort(np.take_along_axis(uploaded, senders[None], axis=2), axis=1)
    down = latency.transfer_times(bulk.bits, "down", draws * recipients, rng, bulk.chunk_bits).reshape(shape)
    # First come, first served: from some share n on the downlink never pauses; that n gives the latest end.
    rest = down[:, ::-1].cumsum(axis=1)[:, ::-1]
    latest: Seconds = (at_server + rest).max(axis=1)
    return latest


def _check_draws(draws: int) -> None:
    if draws < 1:
        raise InvalidInput(f"draws must be a positive integer, got {draws}")
