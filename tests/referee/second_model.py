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


class Model:
    """One convention for all schemes; ``price`` is what a pad number, or sealing one number, costs in MACs."""

    def __init__(self, sharing: str, price: float, *, packets: bool, draws: int, seed: int) -> None:
        self.sharing, self.price, self.packets, self.draws = sharing, price, packets, draws
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
        prepared = self.computing(2 * self.price * BULK)  # its pad, and sealing the padded data once
        work = prepared + self.computing(others * (self.price + 1) * BULK)  # opening and adding what comes
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

    def one_upload(self) -> Times:
        """coded-keys and role-keys: when each device's padded data are with the server; sealing runs beside."""
        sealing = self.computing(self.price * BULK)
        bits = BULK * RING
        mean = bits * (1 + HEADER) / (1 - FAILS) / UP
        return np.maximum(sealing, mean if self.sharing == "authors" else self.sending(bits, UP))

    def pads(self, count: int) -> Times:
        """When a device has expanded and added the pads of so many devices."""
        return self.computing(count * (self.price + 1) * BULK)

    # -- training

    def epoch_ends(self, start: Times, ready: Times, macs: float, bits: float, ended: Ended, epochs: int) -> Times:
        ends, now = np.empty((self.draws, epochs)), start
        for epoch in range(epochs):
            begin = np.maximum(now[:, None], ready)
            now = ended(begin + self.sending(bits, DOWN) + self.computing(macs) + self.sending(bits, UP))
            ends[:, epoch] = now
        return ends

    def run(self, scheme: str, parameter: int, epochs: int) -> tuple[Times, Times]:
        """(draws,) when the server begins and (draws, epochs) the ends of epochs."""

        def first(count: int) -> Ended:
            return lambda answers: np.sort(answers, axis=1)[:, count - 1]

        def roles(answers: Times) -> Times:
            order = np.argsort(-MAC_RATE, kind="stable")  # dealt by speed
            parts = [answers[:, order[role :: parameter + 1]].min(axis=1) for role in range(parameter + 1)]
            return np.max(parts, axis=0)

        batch = 2 * (ROWS // D // 5) * MODEL + self.price * MODEL * FLOAT / RING  # X Theta, X' residual, sealing
        product = FEATURES * MODEL + self.price * MODEL  # the Gram matrix times the update, sealing
        masks = min(parameter + 1, D) * (self.price + 1) * MODEL
        if scheme in ("conventional", "drop-slowest"):
            start, ready = self.no_sharing()
            return start, self.epoch_ends(start, ready, batch, MODEL * FLOAT, first(D - parameter), epochs)
        if scheme == "coded-padded":
            ready, ended, macs = self.shares(parameter), first(D - parameter + 1), product + masks
            start = ended(ready)
        elif scheme == "coded-keys":
            ready, ended, macs = self.pads(parameter), first(D - parameter + 1), product + masks
            start = np.maximum(self.one_upload().max(axis=1), ended(ready))
        else:  # role-keys: the parameter is z
            ready, ended, macs = self.pads(D), roles, product
            start = np.maximum(self.one_upload().max(axis=1), ended(ready))
        return start, self.epoch_ends(start, ready, macs, MODEL * RING, ended, epochs)
