"""Small worlds of real devices: what each of them is made to say is written down as linear equations.

A world has two studies of the same rows, owners in disclosure groups, key-only participants, colluders, and asks of
which some have the same numbers behind them. Devices are ``codedfl.sum.device.Device``, with every rule that is in
force (``rules_left_out`` takes one away). Of each reply that they give, ``World.equations`` has the unknowns: a pad by
its key, an honest owner's number by owner, vector and place. That the reply is nothing else is checked bit for bit.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto.sealed import Identity
from codedfl.sum import device as device_module
from codedfl.sum import pad_sums, wire
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.keys import Scope
from codedfl.sum.layout import Layout, Words
from codedfl.sum.pads import add_pads
from codedfl.sum.terms import Participant, Terms
from codedfl.sum.wire import Refused

ROOM = 1 << 12
SERVER = Identity(hashlib.sha256(b"server").digest())


def identity(name: str) -> Identity:
    return Identity(hashlib.sha256(name.encode()).digest())


@dataclass(frozen=True)
class Choice:
    """What a world may be like. one_too_many: a colluder of each role. complete: small enough to ask for all."""

    one_too_many: bool = False
    groups_differ: bool = False
    versions: str = ""  # "changed": rows change under an ask; "permuted": the same numbers in another order
    complete: bool = False
    fixed: bool = False
    file_order: bool = False


@dataclass
class Equation:
    """A number that the adversary has: pads (by key and place) and numbers of owners add up to it."""

    pads: dict[tuple[bytes, int], int] = field(default_factory=dict)
    numbers: dict[tuple[str, int, int, int], int] = field(default_factory=dict)

    def add(self, pads: Sequence[bytes], place: int, factor: int) -> None:
        for key in pads:
            self.pads[key, place] = self.pads.get((key, place), 0) + factor


@dataclass
class Rows:
    """The contract of one device in one study; ``version`` is which of its numbers it has now."""

    world: World
    terms: Terms
    name: str
    version: int = 0

    def layout(self, ask: bytes) -> Layout:
        if ask not in self.world.vectors:
            raise Refused("request", "no such statistic")
        return self.world.layout

    def groups(self, ask: bytes) -> Collection[int]:
        return self.world.fixed.get(ask, ())

    def needs(self, ask: bytes) -> Collection[bytes]:
        del ask
        return ()

    def words(self, ask: bytes) -> Words:
        size = self.world.layout.total_words
        words = self.world.numbers(self.name, self.world.vectors[ask], 0 if self._permuted else self.version)
        if self._permuted and self.version:
            words = words[::-1].copy()
        assert len(words) == size
        return words

    @property
    def _permuted(self) -> bool:
        return self.world.choice.versions == "permuted"

    def symbol(self, ask: bytes, place: int) -> tuple[str, int, int, int]:
        """Which number stands at this place of an upload."""
        vector, size = self.world.vectors[ask], self.world.layout.total_words
        if self._permuted:
            return self.name, vector, 0, size - 1 - place if self.version else place
        return self.name, vector, self.version, place


class World:
    """Devices, and the equations that they give away."""

    def __init__(self, rng: random.Random, choice: Choice) -> None:
        self.rng, self.choice = rng, choice
        self.z = z = rng.choice([1, 1, 2]) if not choice.complete else 1
        n_groups = rng.choice([1, 2, 2]) if z < 2 else rng.choice([1, 2])
        if choice.fixed or choice.groups_differ:
            n_groups = 2
        sizes = [z + 2 + rng.choice([0, 0, 1]) * (not choice.complete) for _ in range(n_groups)]
        names = [f"{number:06}" for number in rng.sample(range(10**6), sum(sizes))]
        self.groups = [[names.pop() for _ in range(size)] for size in sizes]
        key_only = [f"key-only-{i}" for i in range(rng.choice([0, 0, 1]))]
        self.terms = [self._terms(study, key_only) for study in range(1 if choice.complete else rng.choice([1, 2]))]
        if choice.groups_differ:
            flat = [name for group in self.groups for name in group]
            rng.shuffle(flat)
            other = [[flat.pop() for _ in group] for group in self.groups]
            self.terms = [self.terms[0], self._terms(1, key_only, other)]
        self.names = list(self.terms[0].by_name)
        self.layout = Layout(32, 1, rng.choice([0, 1, 2]), 1 << 20, rng.choice([1, 2]), columns=1, room=ROOM)
        self.vectors = {b"ask %d" % i: rng.randrange(2) for i in range(1 if choice.complete else rng.randint(1, 3))}
        self.fixed = dict.fromkeys(self.vectors, (0, 1)) if choice.fixed else {}
        self.bad = self._colluders()
        self.devices: dict[tuple[int, str], list[Device]] = {}
        self.rows: dict[tuple[int, str], list[Rows]] = {}
        self.roots: dict[tuple[int, str], list[InMemory]] = {}
        for study in range(len(self.terms)):
            for name in self.names:
                self.start(study, name)
        self.equations: list[Equation] = []
        self._said: list[tuple[str, tuple[Any, ...]]] = []
        self.kappas: dict[bytes, list[tuple[Any, ...]]] = {}
        self.pads: dict[bytes, list[tuple[Any, ...]]] = {}

    def _terms(self, study: int, key_only: Sequence[str], groups: Sequence[Sequence[str]] | None = None) -> Terms:
        people = [
            Participant(name, identity(name).public, number)
            for number, group in enumerate(groups or self.groups)
            for name in group
        ]
        people += [Participant(name, identity(name).public, None) for name in key_only]
        self.rng.shuffle(people)
        return Terms(hashlib.sha256(b"study %d" % study).digest(), SERVER.public, tuple(people), self.z)

    def _colluders(self) -> set[str]:
        if not self.choice.one_too_many:
            return set(self.rng.sample(self.names, self.rng.choice([self.z, self.z, self.rng.randint(0, self.z)])))
        return {self.rng.choice(self.terms[0].holders_of(role)) for role in range(self.z + 1)}

    def start(self, study: int, name: str) -> None:
        """A device, or another one on a disk of before it drew anything: a clone with other keys."""
        terms = self.terms[study]
        if self.choice.file_order:  # each device has the roster in another order
            people = list(terms.participants)
            self.rng.shuffle(people)
            terms = Terms(terms.study, terms.server, tuple(people), terms.colluders)
        rows, memory = Rows(self, terms, name), InMemory()
        one = Device(name, identity(name), rows, memory, now=lambda: 0.0, random_bytes=self.rng.randbytes)
        self.devices.setdefault((study, name), []).append(one)
        self.rows.setdefault((study, name), []).append(rows)
        self.roots.setdefault((study, name), []).append(memory)

    def numbers(self, name: str, vector: int, version: int) -> Words:
        seed = hashlib.sha256(f"{name} {vector} {version}".encode()).digest()
        return np.random.default_rng(list(seed)).integers(0, 1 << 20, self.layout.total_words).astype(np.uint64)

    def honest(self, name: str) -> bool:
        return name not in self.bad

    def scope(self, study: int) -> Scope:
        return Scope(self.terms[study].study, 1)

    # -- what devices say, as equations

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Notes what goes into replies while devices work; rows of the matrix are dealt out one by one."""
        whole, product = pad_sums.PadSum.vector, pad_sums.PadSum.product

        def vector(made: pad_sums.PadSum) -> Words:
            self._said.append(("whole", (made._keys,)))
            return whole(made)

        def multiplied(made: pad_sums.PadSum, e: NDArray[np.int64], first: int, last: int) -> list[Words]:
            self._said.append(("product", (made._keys, e[:, 0].tolist(), first, last)))
            return product(made, e, first, last)

        def padded(total: Words, pads: Sequence[bytes], width: int, first: int = 0) -> None:
            self._said.append(("upload", (list(pads),)))
            add_pads(total, pads, width, first)

        self.make_kappa, self.make_pad_key = device_module.kappa, device_module.pad_key
        with ExitStack() as stack:
            enter = stack.enter_context
            enter(mock.patch("codedfl.sum.layout.TILE", 1))
            enter(mock.patch.object(pad_sums.PadSum, "vector", vector))
            enter(mock.patch.object(pad_sums.PadSum, "product", multiplied))
            enter(mock.patch.object(device_module, "add_pads", padded))
            enter(mock.patch.object(device_module, "kappa", self._noted(device_module.kappa, self.kappas)))
            enter(mock.patch.object(device_module, "pad_key", self._noted(device_module.pad_key, self.pads)))
            yield

    @staticmethod
    def _noted(make: Callable[..., bytes], where: dict[bytes, list[tuple[Any, ...]]]) -> Callable[..., bytes]:
        def noted(secret: bytes, *more: object) -> bytes:
            found = make(secret, *more)
            where.setdefault(found, []).append((secret, *more))
            return found

        return noted

    def ask(self, study: int, name: str, which: int, request: bytes) -> wire.Reply:
        """A device's reply; what it says is noted where it is not a refusal."""
        self._said.clear()
        reply = wire.decode(self.devices[study, name][which].reply(request), wire.Reply, "a reply")
        if reply.kind != "ok":
            self._said.clear()
        return reply

    def note(self, rows: Rows, ask: bytes, found: wire.Uploaded | wire.Answered) -> None:
        """The equations of the last reply; they must be all that it is made of."""
        ((kind, what),) = self._said
        made = self._uploaded(rows, ask, *what) if kind == "upload" else self._answered(kind, *what)
        if self.honest(rows.name):
            assert self._valued(made) == self.layout.from_bytes(found.numbers, len(made)).tolist()
            self.equations += made

    def _uploaded(self, rows: Rows, ask: bytes, pads: Sequence[bytes]) -> list[Equation]:
        made = []
        for place in range(self.layout.total_words):
            one = Equation(numbers={rows.symbol(ask, place): 1})
            one.add(pads, place, 1)
            made.append(one)
        return made

    def _answered(self, kind: str, pads: Sequence[bytes], *more: Any) -> list[Equation]:
        if kind == "whole":
            made = [Equation() for _ in range(self.layout.vector_words)]
            for place, one in enumerate(made):
                one.add(pads, place, 1)
            return made
        e, first, last = more
        at = {(a, b): self.layout.vector_words + start for a, b, start, _ in self.layout.tiles()}
        made = [Equation() for _ in range(first, last)]
        for row, one in zip(range(first, last), made, strict=True):
            for column, factor in enumerate(e):
                if factor:
                    one.add(pads, at[min(row, column), max(row, column)], factor)
        return made

    def _valued(self, made: Sequence[Equation]) -> list[int]:
        width = self.layout.bits // 8
        streams = {}
        for one in made:
            for key, _ in one.pads:
                if key not in streams:
                    streams[key] = np.zeros(self.layout.total_words, dtype=np.uint64)
                    add_pads(streams[key], [key], width)
        found = []
        for one in made:
            value = sum(factor * int(streams[key][place]) for (key, place), factor in one.pads.items())
            for (name, vector, version, place), factor in one.numbers.items():
                value += factor * int(self.numbers(name, vector, version)[place])
            found.append(value % (1 << self.layout.bits))
        return found
