"""Small federations of devices whose statistics are made up: the contract is a table of asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from codedfl.crypto.sealed import Identity
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.layout import Layout, Words
from codedfl.sum.terms import Participant, Terms
from codedfl.sum.wire import Refused

SERVER = Identity(hashlib.sha256(b"server").digest())
STUDY = hashlib.sha256(b"study").digest()


def identity(name: str) -> Identity:
    return Identity(hashlib.sha256(name.encode()).digest())


def terms_of(groups: Collection[Collection[str]], z: int = 1, key_only: Collection[str] = (), **more: int) -> Terms:
    people = [Participant(name, identity(name).public, number) for number, group in enumerate(groups) for name in group]
    people += [Participant(name, identity(name).public, None) for name in key_only]
    return Terms(STUDY, SERVER.public, tuple(people), z, **more)


@dataclass
class MadeUp:
    """A contract with the layout and the numbers of each ask written down."""

    terms: Terms
    layouts: Mapping[bytes, Layout]
    numbers: Mapping[bytes, tuple[list[int], list[int]]] = field(default_factory=dict)
    fixed: Mapping[bytes, Collection[int]] = field(default_factory=dict)
    needed: Mapping[bytes, Collection[bytes]] = field(default_factory=dict)

    def layout(self, ask: bytes) -> Layout:
        if ask not in self.layouts:
            raise Refused("request", "no such statistic")
        return self.layouts[ask]

    def groups(self, ask: bytes) -> Collection[int]:
        return self.fixed.get(ask, ())

    def needs(self, ask: bytes) -> Collection[bytes]:
        return self.needed.get(ask, ())

    def words(self, ask: bytes) -> Words:
        vector, triangle = self.numbers[ask]
        return self.layouts[ask].words_of(np.array(vector, dtype=object), np.array(triangle, dtype=object))


def devices_of(
    terms: Terms,
    layouts: Mapping[bytes, Layout],
    numbers: Callable[[str, bytes], tuple[list[int], list[int]]],
    now: Callable[[], float] = lambda: 0.0,
) -> dict[str, Device]:
    found = {}
    for name in terms.by_name:
        mine = {ask: numbers(name, ask) for ask in layouts} if name in terms.owners else {}
        found[name] = Device(name, identity(name), MadeUp(terms, layouts, mine), InMemory(), now=now)
    return found
