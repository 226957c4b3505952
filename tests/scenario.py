"""Runs to test with: servers and devices on small random data, a network that records and can be told what to do."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

import oracle
from codedfl.crypto.sealed import Identity
from codedfl.exact.fixed_point import Bounds, FixedPoint
from codedfl.protocol import Agreement, Device, Parameters, Server
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, StepSchedule
from codedfl.solve.solver import Solver

Floats = NDArray[np.float64]
RandomBytes = Callable[[int], bytes]

STEP = StepSchedule(0.3)


def repeatable(seed: int | str) -> RandomBytes:
    """A source of "secrets" that is the same in every run of the tests."""
    return random.Random(seed).randbytes


def descent(epochs: int = 4) -> GradientDescent:
    return GradientDescent(epochs, regularisation=1e-3, step=STEP)


def names_of(count: int) -> list[str]:
    return [f"device-{i}" for i in range(count)]


@dataclass
class Scenario:
    """D devices with ``sizes`` samples each of d features in [-1, 1] and c labels in [-1, 1]."""

    sizes: Sequence[int] = (3, 5, 2, 4)
    alpha: int = 2
    d: int = 4
    c: int = 2
    initial: Floats | None = None
    public_samples: bool = True
    claimed_samples: int | None = None  # another m than the true one
    precision: int | None = None
    masks: bool = True
    groups: int = 1
    bounds: Bounds | None = None
    seed: int = 7
    server_type: type[Server] = PaddedServer
    device_type: type[Device] = PaddedDevice
    data: list[tuple[Floats, Floats]] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.data = [(rng.uniform(-1, 1, (n, self.d)), rng.uniform(-1, 1, (n, self.c))) for n in self.sizes]
        if self.bounds is None:
            self.bounds = Bounds(1.0, 1.0, sum(self.sizes), max(self.sizes))

    @property
    def n_devices(self) -> int:
        return len(self.sizes)

    @property
    def names(self) -> list[str]:
        return names_of(self.n_devices)

    @property
    def parameters(self) -> Parameters:
        assert self.bounds is not None
        return Parameters(
            scheme=self.server_type.scheme,
            alpha=self.alpha,
            n_features=self.d,
            n_outputs=self.c,
            bounds=self.bounds,
            precision=self.precision,
            samples=(self.claimed_samples or sum(self.sizes)) if self.public_samples else None,
            masks=self.masks,
            groups=self.groups,
            reveals_gram=self.device_type.reveals_gram,
        )

    def server(self, solver: Solver | None = None, **options: Any) -> Server:
        options = {"initial_model": self.initial, "random_bytes": repeatable(f"server {self.seed}")} | options
        return self.server_type(self.parameters, self.names, solver or descent(), **options)

    def device(self, index: int, **options: Any) -> Device:
        options = {
            "random_bytes": repeatable(f"device {index} {self.seed}"),
            "allow_unmasked": not self.masks,
        } | options
        return self.device_type(self.names[index], *self.data[index], **options)

    def devices(self, **options: Any) -> list[Device]:
        return [self.device(i, **options) for i in range(self.n_devices)]

    def agreement(self) -> Agreement:
        """What the parties of this scenario agree on, but for the keys."""
        members = {name: Identity.generate(repeatable(name)).public for name in self.names}
        return Agreement.freeze(self.parameters, bytes(16), bytes(64), members, self.initial)

    def totals(self, agreement: Agreement | None = None) -> oracle.Totals:
        agreement = agreement or self.agreement()
        format_ = agreement.fixed_point
        return oracle.Totals(
            self.data,
            feature_bits=format_.feature_bits,
            label_bits=format_.label_bits,
            gram_bits=format_.gram_bits,
            constant_bits=format_.constant_bits,
            initial=agreement.initial_model.tolist(),
        )

    def expected_models(self, solver: Solver) -> list[Floats]:
        """The model after each epoch by the oracle: ``solver`` fed with products in Python integers."""
        agreement = self.agreement()
        totals, format_ = self.totals(agreement), agreement.fixed_point
        room = format_.ring.modulus // 8 // gram_limit(format_)
        constant = np.array(oracle.reals(totals.constant, totals.constant_bits))
        if isinstance(solver, ClosedForm):
            solver.take_gram(np.array(oracle.reals(totals.gram, totals.gram_bits))[np.triu_indices(self.d)])
        solver.start(agreement.initial_model, constant, sum(self.sizes))
        models = []
        while True:
            assert solver.model is not None
            models.append(solver.model.copy())
            update = solver.request()
            if update is None:
                return models
            integers, bits = oracle.update_on_grid(update.tolist(), room)
            product = oracle.reals(oracle.product(totals.gram, integers), totals.gram_bits + bits)
            solver.receive(np.array(oracle.reals(integers, bits)), np.array(product))


def gram_limit(format_: FixedPoint) -> int:
    """|entry of sum_i X_i'X_i| <= m ceil(bound 2^f)^2 in units of 2^-2f, and half a unit more for each rounding."""
    grid = ceil(Fraction(format_.bounds.features) * Fraction(2) ** format_.feature_bits)
    units = Fraction(2) ** (format_.gram_bits - 2 * format_.feature_bits)
    return ceil(format_.bounds.samples * grid * grid * units) + format_.n_devices


class Network:
    """First-in first-out links between the server and each device; keeps what every party has seen.

    ``before`` is called with the receiver and the bytes before each delivery; tests put their attacks there.
    """

    def __init__(self, server: Server, devices: Sequence[Device]) -> None:
        self.server = server
        self.devices = {device.name: device for device in devices}
        self.down: dict[str, deque[bytes]] = {name: deque() for name in self.devices}
        self.up: dict[str, deque[bytes]] = {name: deque() for name in self.devices}
        self.server_saw: list[bytes] = []
        self.device_saw: dict[str, list[bytes]] = {name: [] for name in self.devices}
        self.before: Callable[[Server | Device, bytes], None] = lambda _receiver, _data: None

    @classmethod
    def of(cls, scenario: Scenario, solver: Solver | None = None, **server_options: Any) -> Network:
        network = cls(scenario.server(solver, **server_options), scenario.devices())
        network.send(network.server.invite())
        return network

    def send(self, outgoing: Any) -> None:
        for receivers, data in outgoing:
            for name in receivers:
                self.down[name].append(data)

    def pending(self) -> list[tuple[str, str]]:
        """Links with something on them, as ("down" or "up", device)."""
        links = [("down", name) for name, queue in self.down.items() if queue]
        return links + [("up", name) for name, queue in self.up.items() if queue]

    def next_on(self, link: tuple[str, str]) -> bytes:
        direction, name = link
        return (self.down if direction == "down" else self.up)[name][0]

    def deliver(self, link: tuple[str, str]) -> None:
        direction, name = link
        queue = (self.down if direction == "down" else self.up)[name]
        data = queue.popleft()
        if direction == "down":
            self.before(self.devices[name], data)
            self.device_saw[name].append(data)
            self.up[name].extend(self.devices[name].receive(data))
        else:
            self.before(self.server, data)
            self.server_saw.append(data)
            self.send(self.server.receive(data))

    def run(self, until: Callable[[bytes], bool] = lambda _data: False) -> None:
        """Deliver in a fixed order until nothing is left, or until only messages that ``until`` names are."""
        while links := [link for link in self.pending() if not until(self.next_on(link))]:
            self.deliver(links[0])

    def run_until(self, *kinds: Kind) -> None:
        """Stop with the messages of these kinds on the links, undelivered."""
        self.run(lambda data: Message.decode(data).kind in kinds)


def snapshot(value: Any) -> Any:
    """Everything a state machine remembers, in a form that can be compared."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, Agreement):
        return value.encoded  # not its cached properties, which come and go
    if isinstance(value, Identity):
        return value.public
    if isinstance(value, dict):
        return tuple((snapshot(k), snapshot(v)) for k, v in value.items())
    if isinstance(value, (list, tuple, deque)):
        return tuple(map(snapshot, value))
    if isinstance(value, (set, frozenset)):
        return frozenset(map(snapshot, value))
    if isinstance(value, Enum) or callable(value):
        return id(value)
    if hasattr(value, "__dict__"):
        return type(value).__name__, snapshot(vars(value))
    return value


def decoded(messages: Sequence[bytes], kind: Kind) -> Iterator[Message]:
    """Those of one kind."""
    for data in messages:
        message = Message.decode(data)
        if message.kind is kind:
            yield message
