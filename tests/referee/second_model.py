"""The race's latencies a second time, in plain numpy and from docs/methods.md alone: nothing of codedfl is imported.

One loop a device's message, no shared helpers with the package, so that a mistake would have to be made twice.
``seconds(scheme, ...)`` gives the mean end of the sharing phase and of later epochs on the paper's fleet at its size:
d = 2000 features, c = 10 classes, 60 000 rows. Stragglers drop their work when the next update comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
VERIFY, EXCHANGE = 0.9e6, 0.28e6  # MACs of a signature's check, and of an envelope
Load = tuple[float, float, float]  # MACs, bits down and bits up of an epoch


class Model:
    """One convention for all schemes; ``price`` is what a pad number, or sealing one number, costs in MACs.

    ``extras`` charges what is free otherwise: a device's own pads, and public-key operations.
    """

    def __init__(self, sharing: str, price: float, *, packets: bool, draws: int, seed: int, extras: bool) -> None:
        self.sharing, self.price, self.packets, self.draws = sharing, price, packets, draws
        self.own_pads = self.public_keys = extras
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

    def shares(self, alpha: int) -> Times:
        """coded-padded: padded data to alpha - 1 others; (draws, D) times at which a device has summed all it gets."""
        others, bits = alpha - 1, BULK * RING
        envelopes = alpha * EXCHANGE if self.public_keys else 0.0
        checks = D * VERIFY if self.public_keys else 0.0
        prepared = self.computing(self.price * BULK + self.own(1, RING) + checks + envelopes)  # sealed once; its pad
        work = prepared + self.computing(others * (self.price + 1) * BULK + envelopes)  # opening and adding what comes
        if self.sharing == "authors":  # means: one message after the other, up and down, at the mean of both rates
            link = others * 2 * bits * (1 + HEADER) / (1 - FAILS) / ((UP + DOWN) / 2)
            return np.maximum(work, np.maximum(link, prepared.max(axis=1, keepdims=True)))
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
        return np.maximum(work, clock)

    def own(self, seeds: int, width: int) -> float:
        """A device's own pads, where they are drawn during the run."""
        return seeds * (self.price + 1) * BULK * width / RING if self.own_pads else 0.0

    def one_upload(self, seeds: int, signed: bool, width: int) -> Times:
        """coded-keys and role-keys: when each device's padded data are with the server; sealing or hashing beside."""
        closing = (0.3 if signed else 1.0) * self.price * BULK * width / RING
        work = self.computing(closing + self.own(seeds, width))
        bits = BULK * width
        mean = bits * (1 + HEADER) / (1 - FAILS) / UP
        return np.maximum(work, mean if self.sharing == "authors" else self.sending(bits, UP))

    def seeds_opened(self, before: float) -> Times:
        """Before a device's seeds leave come the signatures of all joins and its own envelopes; the last counts."""
        return self.computing(before).max(axis=1, keepdims=True) if self.public_keys else np.zeros((self.draws, 1))

    def pads(self, count: int, numbers: float, width: int, keys: float) -> Times:
        """When a device has expanded and added its part of the pads of so many devices, and opened their envelopes."""
        work = count * (self.price + 1) * numbers * width / RING
        return self.computing(work + (keys if self.public_keys else 0.0))

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

        batch = 2 * (ROWS // D // 5) * MODEL + self.price * MODEL * FLOAT / RING  # X Theta, X' residual, sealing
        product = FEATURES * MODEL + self.price * MODEL  # the Gram matrix times the update, sealing
        masks = min(parameter + 1, D) * (self.price + 1) * MODEL
        if scheme in ("conventional", "drop-slowest"):
            start, ready = self.no_sharing()
            load = batch, MODEL * FLOAT, MODEL * FLOAT
            return start, self.epoch_ends(start, ready, load, first(D - parameter), epochs)
        load = product + masks, MODEL * RING, MODEL * RING
        checked, opened = D * VERIFY, EXCHANGE
        if scheme == "coded-padded":
            ready, ended = self.shares(parameter), first(D - parameter + 1)
            start = ended(ready)
        elif scheme == "coded-keys":
            ended, uploaded = first(D - parameter + 1), self.one_upload(1, False, RING)
            expanded = self.pads(parameter, BULK, RING, parameter * opened)
            ready = self.seeds_opened(checked + parameter * EXCHANGE) + expanded
            start = np.maximum(uploaded.max(axis=1), ended(ready))
        else:
            rows, seeds, ended = FEATURES // blocks, parameter + 1, roles
            uploaded = self.one_upload(seeds, parameter > 0, width)
            numbers = sum(FEATURES - row for row in range(rows)) + rows * CLASSES
            expanded = self.pads(D, numbers, width, D * opened + D / 2 * VERIFY)
            ready = self.seeds_opened(checked + seeds * EXCHANGE) + expanded
            start = np.maximum(uploaded.max(axis=1), ended(ready))
            work = (FEATURES * rows * CLASSES + self.price * rows * CLASSES) * width / RING
            load = work, MODEL * width, rows * CLASSES * width
        return start, self.epoch_ends(start, ready, load, ended, epochs)
