"""A fleet file from measurements: what the nodes of a federation really compute and transfer (paper III-B).

Every node is measured alone, by calls like those of a training. Its MAC rate is that of our own ring product, the
work of an epoch. Its links are measured by the difference of calls with and without a payload, so that whatever else a
call takes, above all the start of a process, falls out; that is the latency of the call's two messages, half of it
each. A link whose payload makes no measurable difference gets the rate it has at least.
"""

from __future__ import annotations

import logging
import math
import secrets
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from codedfl.engine.calls import Measured, Post, Probe
from codedfl.engine.directory import Clock, Contact, Directory
from codedfl.engine.learning import Config, setting
from codedfl.engine.logs import one_line
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.exact.ring import Ring
from codedfl.fleet.fleet import DeviceClass, Fleet
from codedfl.typing import Planes

log = logging.getLogger("codedfl.engine.server")

FLEET_LINE = "the fleet as JSON: "  # in the log, before the text of the fleet file
_WAIT_SECONDS = 0.02
# 8 bytes a number on the two planes of the ring: 256 MB in all. What a product has beside the d x d matrix takes less
# than four times its d x c numbers: e, its columns for the kernel in single and double precision, and the result.
_MOST_NUMBERS = 2**25
_MOST_PRODUCTS = 1000
_MOST_BYTES = 100_000_000
# Seconds: a smaller difference between two calls may be chance, since a SuperNode looks for messages every 3 s.
_NOTICEABLE = 3.0


@dataclass(frozen=True)
class ProbeConfig:
    """What to measure with: the shape of a product, the payload of a transfer, and how often.

    Keys and defaults: devices; join-seconds (300); probe-features (1000) and probe-outputs (10), the shape of the
    product; probe-products (20) in one call; probe-megabytes (4.0); probe-calls (3) of each kind; fleet-file
    ("fleet.toml"; empty writes none: the fleet is in the log anyway); fleet-name ("probed").
    """

    devices: int
    join_seconds: float
    n_features: int
    n_outputs: int
    products: int
    payload_bytes: int
    calls: int
    file: Path | None
    name: str

    @classmethod
    def from_config(cls, config: Config) -> ProbeConfig:
        file = setting(config, "fleet-file", str, "fleet.toml")
        made = cls(
            setting(config, "devices", int),
            setting(config, "join-seconds", float, 300.0),
            setting(config, "probe-features", int, 1000),
            setting(config, "probe-outputs", int, 10),
            setting(config, "probe-products", int, 20),
            int(setting(config, "probe-megabytes", float, 4.0) * 1e6),
            setting(config, "probe-calls", int, 3),
            Path(file).absolute() if file else None,
            setting(config, "fleet-name", str, "probed"),
        )
        for key in ("devices", "n_features", "n_outputs", "products", "payload_bytes", "calls"):
            if getattr(made, key) < 1:
                raise InvalidInput(f"{key} of a probe must be at least 1, got {getattr(made, key)}")
        return made


def time_products(n_features: int, n_outputs: int, count: int) -> list[float]:
    """Seconds of each of ``count`` ring products of a d x d and a d x c matrix, after one that is not counted."""
    ring = Ring.for_group_sizes([1])
    matrix, update = _random(ring, n_features, n_features), _random(ring, n_features, n_outputs)
    ring.product(matrix, update)  # loads the compiled kernel
    seconds = []
    for _ in range(count):
        began = time.perf_counter()
        ring.product(matrix, update)
        seconds.append(time.perf_counter() - began)
    return seconds


def _random(ring: Ring, rows: int, columns: int) -> Planes:
    """Row by row: in the integers they come from, the whole matrix would take three times as much memory."""
    rng = np.random.default_rng(0)
    planes = ring.zeros(rows, columns)
    for row in range(rows):
        planes[:, row] = ring.from_integers(rng.integers(-(2**40), 2**40, columns))
    return planes


def mac_rate_and_setup(seconds: Sequence[float], macs: int) -> tuple[float, float]:
    """tau and setup factor of III-B: the fastest product is the deterministic part, what others take more is setup."""
    fastest = min(seconds)
    return macs / fastest, statistics.fmean(seconds) / fastest - 1


def link_rate(payload_bytes: int, loaded: float, empty: float) -> float:
    """bit/s from the seconds of a call with the payload and of one without; at least what would be noticeable."""
    return 8 * payload_bytes / max(loaded - empty, _NOTICEABLE)


def answer_probe(call: Probe) -> Measured:
    """The node's part. Sizes are limited: a probe must not be able to fill a node's memory."""
    d, c = call.n_features, call.n_outputs
    if min(d, c) < 0 or d * (d + 4 * c) > _MOST_NUMBERS:
        raise MessageRefused(
            f"a probe's product must be of at most {_MOST_NUMBERS} numbers (d d + 4 d c), got d = {d} and c = {c}"
        )
    if not (0 <= call.products <= _MOST_PRODUCTS and 0 <= call.reply_bytes <= _MOST_BYTES):
        raise MessageRefused(
            f"a probe must ask for at most {_MOST_PRODUCTS} products and {_MOST_BYTES} bytes,"
            f" got {call.products} and {call.reply_bytes}"
        )
    seconds = time_products(call.n_features, call.n_outputs, call.products) if call.products else []
    return Measured(tuple(seconds), secrets.token_bytes(call.reply_bytes))


def _fits(reply: Measured, call: Probe) -> bool:
    """Whether a node's word can be put into a fleet: as much as was asked for, and times that can be divided by."""
    usable = all(math.isfinite(seconds) and seconds > 0 for seconds in reply.seconds)
    return usable and len(reply.seconds) == call.products and len(reply.payload) == call.reply_bytes


class FleetProbe:
    """Measures the nodes behind a ``Post``, one after the other."""

    def __init__(
        self,
        post: Post,
        config: ProbeConfig,
        clock: Clock = time.monotonic,
    ) -> None:
        self._post = post
        self._config = config
        self._clock = clock
        self._directory = Directory(post, None, clock)

    def run(self) -> Fleet:
        """The fleet of all nodes that are there; a node that fails is left out, with a line in the log."""
        contacts = self._gather()
        classes = [found for contact in contacts if (found := self._measure(contact)) is not None]
        if not classes:
            raise NotEnoughDevices("at least one device must let itself be measured, got none", ())
        config = self._config
        macs = config.n_features**2 * config.n_outputs
        server, _ = mac_rate_and_setup(time_products(config.n_features, config.n_outputs, config.products), macs)
        return Fleet(config.name, tuple(classes), server)

    def _gather(self) -> list[Contact]:
        until = self._clock() + self._config.join_seconds
        contacts = self._directory.contacts
        while len(contacts) < self._config.devices and self._clock() < until:
            self._directory.look()
            for number, reply in self._post.pull(self._directory.calls):
                self._directory.take(number, reply)
            self._post.wait(_WAIT_SECONDS)
        return [contacts[name] for name in sorted(contacts)]

    def _measure(self, contact: Contact) -> DeviceClass | None:
        config = self._config
        payload = secrets.token_bytes(config.payload_bytes)  # random: nothing on the way can compress it
        computing: list[float] = []
        calls = {
            "empty": Probe(0, 0, 0),
            "down": Probe(0, 0, 0, payload=payload),
            "up": Probe(0, 0, 0, reply_bytes=len(payload)),
            "compute": Probe(config.n_features, config.n_outputs, config.products),
        }
        seconds: dict[str, float] = {}
        for kind, call in calls.items():
            times = []
            for _ in range(config.calls):
                began = self._clock()
                reply = self._answer(contact, call)
                if reply is None:
                    return None
                times.append(self._clock() - began)
                computing += reply.seconds
            seconds[kind] = min(times)  # the call that had to wait least
        rate, setup = mac_rate_and_setup(computing, config.n_features**2 * config.n_outputs)
        down, up = (link_rate(len(payload), seconds[kind], seconds["empty"]) for kind in ("down", "up"))
        try:
            found = DeviceClass(contact.name, 1, rate, setup, up, down, 0.0, 0.0, latency=seconds["empty"] / 2)
        except InvalidInput as error:
            log.error("%s cannot be measured: %s", contact.name, one_line(error))
            return None
        log.info(
            "%s: %.3g MAC/s, up %.3g bit/s, down %.3g bit/s; a call takes %.2f s of its own",
            *(contact.name, rate, up, down, seconds["empty"]),
        )
        return found

    def _answer(self, contact: Contact, call: Probe) -> Measured | None:
        assert contact.node is not None
        (number,) = self._post.push([(contact.node, call)])
        while number is not None:
            for _, reply in self._post.pull({number}):
                if isinstance(reply, Measured) and _fits(reply, call):
                    return reply
                reason = getattr(reply, "reason", "got another reply than asked for")
                log.error("%s cannot be measured: %s", contact.name, one_line(reason))
                return None
            self._post.wait(_WAIT_SECONDS)
        log.error("%s cannot be measured: it is not connected any more", contact.name)
        return None
