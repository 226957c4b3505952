"""The race's latencies a second time, in plain numpy and from docs/methods.md alone: nothing of codedfl is imported.

One loop a device's message, no shared helpers with the package, so that a mistake would have to be made twice.
``seconds(scheme, ...)`` gives the mean end of the sharing phase and of later epochs on the paper's fleet at its size:
d = 2000 features, c = 10 classes, 60 000 rows. Stragglers drop their work when the next update comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.floating[Any]]
Ended = Callable[[Times], Times]  # from (draws, D) times of answers to when an epoch is over

D, FEATURES, CLASSES, ROWS = 25, 2000, 10, 60_000
MAC_RATE = np.array([25e6] * 10 + [5e6] * 5 + [2.5e6] * 5 + [1.25e6] * 5)
UP, DOWN, FAILS, HEADER, SETUP, PACKET = 5e6, 10e6, 0.1, 0.1, 0.5, 12_000
MODEL = FEATURES * CLASSES  # numbers of an update or an answer
BULK = FEATURES * (FEATURES + 1) // 2 + MODEL  # numbers that a device shares
FLOAT, RING = 32, 48  # bits of a number
TILE = 256  # rows that are dealt out at once
Load = tuple[float, float, float]  # MACs, bits down and bits up of an epoch


class Prices(NamedTuple):
    """MACs: of a pad number, of sealing and of hashing one (of 48 bits); of a signature, its check, an exchange."""

    pad: float = 0.0
    seal: float = 0.0
    hash: float = 0.0
    sign: float = 0.0
    verify: float = 0.0
    exchange: float = 0.0


# A Cortex-M4 of 80 MHz by wolfSSL's table, six cycles a MAC: MiB a second of streams, milliseconds of operations.
PUBLISHED = Prices(
    *(80e6 / (rate * 2**20) * 6 / 6 for rate in (2.894, 1.775, 6.763)),
    *(spent * 80e3 / 6 for spent in (16.047, 36.571, 31.625)),
)


class Model:
    """One convention for all schemes. ``zero`` charges what was done before the call otherwise."""

    def __init__(self, sharing: str, prices: Prices, *, packets: bool, draws: int, seed: int, zero: bool) -> None:
        self.sharing, self.prices, self.packets, self.draws, self.zero = sharing, prices, packets, draws, zero
        self.rng = np.random.default_rng(seed)

    def computing(self, macs: float) -> Times:
        """Deterministic time plus an exponential setup time of half of it."""
        certain = macs / MAC_RATE
        return certain + self.rng.exponential(np.broadcast_to(SETUP * certain, (self.draws, D)))

    def sending(self, bits: float, rate: float) -> Times:
        """A message is repeated as a whole until it arrives, or packet by packet."""
        if not self.packets:
            return self.rng.geometric(1 - FAILS, (self.draws, D)) * bits * (1 + HEADER) / rate
        whole, rest = divmod(bits, PACKET)
        lost = self.rng.negative_binomial(whole, 1 - FAILS, (self.draws, D)) if whole else 0
        last = self.rng.geometric(1 - FAILS, (self.draws, D)) * rest
        return ((whole + lost) * PACKET + last) * (1 + HEADER) / rate

    # -- sharing phases: when the server can begin, and when each device can answer

    def no_sharing(self) -> tuple[Times, Times]:
        return np.zeros(self.draws), np.zeros((self.draws, D))

    def enrolled(self) -> Times:
        """A key pair and a secret with the server, a signature; the request is checked. All are waited for."""
        price = self.prices
        if not self.zero:
            return np.zeros(self.draws)
        return self.computing(2 * price.exchange + price.sign + price.verify).max(axis=1)

    def shares(self, alpha: int) -> Times:
        """coded-padded: padded data to alpha - 1 others; (draws, D) times at which a device has summed all it gets."""
        price, others, partners, bits = self.prices, alpha - 1, min(alpha, D - 1), BULK * RING
        making, taking = price.seal * BULK, others * (price.seal + 2 * price.hash + 1) * BULK
        if self.zero:  # its pad, a second seal, six rounds of hashing; keys of those it deals with
            making += (price.pad + 1 + price.seal + 6 * price.hash) * BULK
            making += (1 + min(2 * partners + 1, D)) * price.verify + (partners + 1) * price.exchange
            taking += partners * price.exchange
        begun = self.enrolled()[:, None]
        prepared = self.computing(making)
        work = prepared + self.computing(taking)  # opening and adding what comes
        if self.sharing == "authors":  # means: one message after the other, up and down, at the mean of both rates
            link = others * 2 * bits * (1 + HEADER) / (1 - FAILS) / ((UP + DOWN) / 2)
            return begun + np.maximum(work, np.maximum(link, prepared.max(axis=1, keepdims=True)))
        inbox = np.zeros((self.draws, D, others))
        once = np.maximum(self.sending(bits, UP), prepared)
        sent = np.zeros((self.draws, D))
        for k in range(1, others + 1):  # the k-th message of device j goes to device j - k
            sent = sent + self.sending(bits, UP)
            at_server = once if self.sharing == "multicast" else np.maximum(sent, prepared * k / others)
            inbox[:, :, k - 1] = np.roll(at_server, -k, axis=1)
        inbox.sort(axis=2)
        clock = np.zeros((self.draws, D))
        for k in range(others):  # a downlink serves what has come, first come first served
            clock = np.maximum(clock, inbox[:, :, k]) + self.sending(bits, DOWN)
        return begun + np.maximum(work, clock)

    def uploaded(self, begun: Times, macs: float, width: int) -> Times:
        """When everybody's bulk is with the server; it is made first, unless it was made before the call."""
        bits = BULK * width
        mean = bits * (1 + HEADER) / (1 - FAILS) / UP
        link = np.full((self.draws, D), mean) if self.sharing == "authors" else self.sending(bits, UP)
        return (begun[:, None] + (self.computing(macs) if self.zero else 0.0) + link).max(axis=1)

    def keyed(self, alpha: int) -> tuple[Times, Times]:
        """coded-keys: one upload each; alpha seeds are expanded by everybody, before the call or after the uploads."""
        price, partners = self.prices, min(alpha, D - 1)
        making = (price.pad + 1 + price.seal + 4 * price.hash) * BULK
        making += (1 + min(2 * partners + 1, D)) * price.verify + partners * price.exchange
        start = self.uploaded(self.enrolled(), making, RING)
        expanding = partners * price.exchange + alpha * (price.pad + 1) * BULK
        return start, start[:, None] + self.computing(expanding) if self.zero else np.zeros((self.draws, D))

    def roles(self, z: int, held: float, width: int) -> tuple[Times, Times]:
        """role-keys: roles draw keys, everybody uploads under z + 1 pads, holders take the list and sum pads."""
        price, roles, short = self.prices, z + 1, width / RING
        begun = self.enrolled()
        if self.zero:  # the first of each role draws, and seals to all who hold it
            members = -(-D // roles)
            macs = (1 + members) * price.verify + members * price.exchange + price.sign
            begun = begun + self.computing(macs)[:, :roles].max(axis=1)
        making = (roles * (price.pad + 1) + 3 * price.hash + price.seal) * BULK * short
        making += (1 + roles) * price.verify + roles * price.exchange
        start = self.uploaded(begun, making, width)
        taking = D * price.verify + (D + 1) * price.exchange + D * (price.pad + 1) * held * short
        return start, start[:, None] + self.computing(taking) if self.zero else np.zeros((self.draws, D))

    # -- training

    def epoch_ends(self, start: Times, ready: Times, load: Load, ended: Ended, epochs: int) -> Times:
        macs, down, up = load
        ends, now = np.empty((self.draws, epochs)), start
        for epoch in range(epochs):
            begin = np.maximum(now[:, None], ready)
            now = ended(begin + self.sending(down, DOWN) + self.computing(macs) + self.sending(up, UP))
            ends[:, epoch] = now
        return ends

    def run(self, scheme: str, parameter: int, epochs: int, blocks: int = 1, width: int = RING) -> tuple[Times, Times]:
        """(draws,) when the server begins and (draws, epochs) the ends of epochs.

        ``blocks`` and ``width``, the bits of a number, are for role-keys, whose parameter is z.
        """

        def first(count: int) -> Ended:
            return lambda answers: np.sort(answers, axis=1)[:, count - 1]

        def roles(answers: Times) -> Times:
            order = np.argsort(-MAC_RATE, kind="stable")  # dealt by speed
            cells = (parameter + 1) * blocks
            return np.max([answers[:, order[cell::cells]].min(axis=1) for cell in range(cells)], axis=0)

        price = self.prices
        batch = 2 * (ROWS // D // 5) * MODEL + price.seal * MODEL * FLOAT / RING  # X Theta, X' residual, sealing
        if scheme in ("conventional", "drop-slowest"):
            start, ready = self.no_sharing()
            load = batch, MODEL * FLOAT, MODEL * FLOAT
            return start, self.epoch_ends(start, ready, load, first(D - parameter), epochs)
        # The Gram matrix times the update; the answer is hashed and sealed, the question's 64 bits hashed four times.
        product = FEATURES * MODEL + (price.seal + price.hash) * MODEL + price.verify
        product += 4 * price.hash * MODEL * 64 / RING
        masks = min(parameter + 1, D) * (price.pad + 1) * MODEL
        load = product + masks, MODEL * RING, MODEL * RING
        if scheme == "coded-padded":
            ready, ended = self.shares(parameter), first(D - parameter + 1)
            start = ended(ready)
        elif scheme == "coded-keys":
            ended, (start, ready) = first(D - parameter + 1), self.keyed(parameter)
        else:
            rows, ended, short = max(FEATURES // blocks, TILE), roles, width / RING
            numbers = sum(FEATURES - row for row in range(rows)) + rows * CLASSES
            start, ready = self.roles(parameter, numbers, width)
            work = FEATURES * rows * CLASSES + (price.seal + price.hash) * rows * CLASSES + 3 * price.hash * MODEL
            load = work * short + price.verify, MODEL * width, rows * CLASSES * width
        return start, self.epoch_ends(start, ready, load, ended, epochs)
