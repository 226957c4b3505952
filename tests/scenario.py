"""Runs to test with: servers and devices on small random data, a network that records and can be told what to do."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

import oracle
from codedfl.crypto import sealed
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.exact.fixed_point import FixedPoint
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Agreement, Invitation, Member, Parameters, seated
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.events import Event, Turn
from codedfl.protocol.messages import SERVER, Kind, Message, Share, Update
from codedfl.protocol.owner_list import OwnerList
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server import Server
from codedfl.protocol.server_events import AnsweredLate, Ignored, RunFailed
from codedfl.protocol.terms import Terms
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, StepSchedule
from codedfl.solve.solver import Solver
from codedfl.typing import Planes

Floats = NDArray[np.float64]
RandomBytes = Callable[[int], bytes]

STEP = StepSchedule(0.3)
# What only the machines of role keys say to each other.
KEY_KINDS = {Kind.ROLE_KEY_WANTED, Kind.ROLE_KEY, Kind.ROLE_KEY_HELD, Kind.ROLE_KEYS}
ROLE_KINDS = KEY_KINDS | {Kind.ROLL_CALL, Kind.HOLDS, Kind.OWNERS, Kind.SIGNATURE, Kind.CERTIFICATE}


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
    narrow: bool = False
    masks: bool = True
    groups: int = 1
    colluders: int = 0
    owners: int = 0  # for how many the scales are made; 0 is those of the agreement
    bounds: Bounds | None = None
    seed: int = 7
    scheme: SharingScheme = CODED_PADDED
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
            scheme=self.scheme.name,
            alpha=self.alpha,
            n_features=self.d,
            n_outputs=self.c,
            bounds=self.bounds,
            precision=self.precision,
            narrow=self.narrow,
            samples=(self.claimed_samples or sum(self.sizes)) if self.public_samples else None,
            masks=self.masks,
            groups=self.groups,
            colluders=self.colluders,
            owners=self.owners,
            reveals_gram=self.scheme.reveals_gram,
        )

    @cached_property
    def run_keys(self) -> list[bytes]:
        """Keys that seat device i at position i of the code, where few enough devices allow to search for them."""
        run = self._draws("server")[32:48]
        drawn = random.Random(self.seed)
        pool = {RunKey(secret).public: secret for secret in (drawn.randbytes(32) for _ in range(4 * self.n_devices))}
        for _ in range(20_000):
            chosen = drawn.sample(sorted(pool), self.n_devices)
            members = [Member(name, b"", key, b"") for name, key in zip(self.names, chosen, strict=True)]
            if list(seated(members, run, self.groups)) == members:
                break
        return [pool[key] for key in chosen]

    def _draws(self, party: str) -> bytes:
        """What a party draws first: its identity, and the server then the run's id."""
        source = repeatable(f"{party} {self.seed}")
        return source(32) + source(16)

    @property
    def plan(self) -> RunPlan:
        return RunPlan(self.scheme, self.parameters, tuple(self.names))

    def server(self, solver: Solver | None = None, **options: Any) -> Server:
        """With options of the server, or of its plan."""
        usual: dict[str, Any] = {"initial_model": self.initial, "random_bytes": repeatable(f"server {self.seed}")}
        plan, rest = changed(self.plan, options)
        return Server(plan, solver or descent(), **usual | rest)

    def device(self, index: int, **options: Any) -> Device:
        """With options of the device, or of its plan."""
        usual: dict[str, Any] = {"random_bytes": self.source(index)}
        plan, rest = changed(self.plan, options)
        return Device(plan, self.names[index], rest.pop("contribution", self.rows(index)), **usual | rest)

    def rows(self, index: int) -> Rows:
        return Rows(*self.data[index])

    def source(self, index: int) -> RandomBytes:
        """The device's secrets, the same in every test: identity, the run key that decides where it sits, others."""
        draw = repeatable(f"device {index} {self.seed}")
        first = iter((draw(32), self.run_keys[index]))
        return lambda count: next(first, b"") or draw(count)

    def devices(self, **options: Any) -> list[Device]:
        return [self.device(i, **options) for i in range(self.n_devices)]

    @property
    def roster(self) -> dict[str, bytes]:
        return {name: Identity(self._draws(f"device {i}")[:32]).public for i, name in enumerate(self.names)}

    def terms(self, server: Server, pods: Sequence[Collection[str]] = (), **changes: Any) -> Terms:
        """What everybody agrees to who takes part in this server's run; one pod of all unless told otherwise."""
        together = tuple(map(frozenset, pods or [self.names]))
        return replace(Terms(server.parameters, server.identity.public, self.roster, together), **changes)

    def agreement(self) -> Agreement:
        """What the parties of this scenario agree on, but for the keys."""
        invitation = Invitation(bytes(16), bytes(32), bytes(32), self.parameters)
        return Agreement.freeze(invitation, [joined(invitation, name) for name in self.names], self.initial)

    def only(self, names: Collection[str]) -> Scenario:
        """The data of these devices alone, on the scales that all agreed on."""
        agreement, kept = self.agreement(), replace(self)
        kept.data = [rows for name, rows in zip(self.names, self.data, strict=True) if name in names]
        kept.sizes = tuple(len(X) for X, _ in kept.data)
        kept.agreement = lambda: agreement  # type: ignore[method-assign]
        return kept

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


def changed(plan: RunPlan, options: dict[str, Any]) -> tuple[RunPlan, dict[str, Any]]:
    """A plan with those of the options that are its own, and the others."""
    own = {one.name for one in fields(RunPlan)}
    return (
        replace(plan, **{name: value for name, value in options.items() if name in own}),
        {name: value for name, value in options.items() if name not in own},
    )


def wire(turn: Turn) -> list[bytes]:
    """What a party sends, as it travels."""
    return [outgoing.data for outgoing in turn.outgoing]


def kinds(turn: Turn) -> list[Kind]:
    return [outgoing.kind for outgoing in turn.outgoing]


def tamper(device: Device, change: Callable[[Update, Planes], object]) -> None:
    """From now on this happens to every answer of a device before it is sealed."""
    honest = device.epochs._answer

    def answer(update: Update, digest: bytes) -> Planes:
        planes = honest(update, digest)
        change(update, planes)
        return planes

    device.epochs._answer = answer  # type: ignore[method-assign]


def joined(invitation: Invitation, name: str, seed: object = "") -> Member:
    """A device's join, properly signed."""
    draw = repeatable(f"{name} {seed}")
    identity, run_key = Identity.generate(draw), draw(32)
    return Member(name, identity.public, run_key, identity.sign(invitation.join_statement(name, run_key)))


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
        self.events: list[Event] = []  # of the server
        self.device_saw: dict[str, list[bytes]] = {name: [] for name in self.devices}
        self.before: Callable[[Server | Device, bytes], None] = lambda _receiver, _data: None
        self.run_keys: dict[str, RunKey] = {}  # of all parties; a machine forgets its own when the run ends

    @classmethod
    def of(cls, scenario: Scenario, solver: Solver | None = None, **server_options: Any) -> Network:
        network = cls(scenario.server(solver, **server_options), scenario.devices())
        network.send(network.server.invite())
        return network

    def send(self, turn: Turn) -> None:
        """Take a turn of the server; raises what it failed of, as drivers do."""
        self.events += turn.events
        for outgoing in turn.outgoing:
            for name in outgoing.receivers:
                self.down[name].append(outgoing.data)
        for event in turn.events:
            if isinstance(event, RunFailed):
                raise event.error

    @property
    def ignored(self) -> Counter[str]:
        """Why the server ignored messages, and how often."""
        ignored = Counter(event.reason for event in self.events if isinstance(event, Ignored))
        return ignored + Counter("late answer" for event in self.events if isinstance(event, AnsweredLate))

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
        self._note_key(SERVER, self.server)
        if direction == "down":
            self.before(self.devices[name], data)
            self.device_saw[name].append(data)
            self.up[name].extend(wire(self.devices[name].receive(data)))
            self._note_key(name, self.devices[name])
        else:
            self.before(self.server, data)
            self.server_saw.append(data)
            self.send(self.server.receive(data))

    def _note_key(self, name: str, party: Server | Device) -> None:
        if party._session.key is not None:
            self.run_keys[name] = party._session.key

    def opened(self, message: Message, receiver: str = SERVER) -> bytes:
        """What a sealed message, or the envelope of a share, says to its receiver; opened with the receiver's key."""
        body = Share.decode(message.body).envelope if message.kind is Kind.SHARE else message.body
        return sealed.open_sealed(
            self.run_keys[receiver], self.run_keys[message.sender].public, message.context(), body
        )

    def sealed(self, message: Message, receiver: str, plaintext: bytes, author: RunKey | None = None) -> bytes:
        """An envelope with a content of the test's choice, sealed by the message's sender unless told otherwise."""
        key = author or self.run_keys[message.sender]
        return sealed.seal(key, self.run_keys[receiver].public, message.context(), plaintext, repeatable(3))

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
    if isinstance(value, (Agreement, Invitation, OwnerList)):
        return value.encoded  # not its cached properties, which come and go
    if isinstance(value, (Identity, RunKey)):
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
