"""Devices of the package and of the specification, as the vectors describe them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from spec.study import Study

from codedfl.crypto.sealed import Identity
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.layout import Layout, Words
from codedfl.sum.terms import Participant, Terms
from codedfl.sum.wire import Refused
from spec import device as of_spec
from spec import make_vectors, numbers

Case = dict[str, Any]


def cases(part: str) -> list[Case]:
    found: list[Case] = json.loads((make_vectors.FOLDER / f"{part}.json").read_text(encoding="utf-8"))["cases"]
    return found


def whole(texts: list[str]) -> np.ndarray[Any, Any]:
    return np.array([int(one) for one in texts], dtype=object)


def fields_of(layout: dict[str, Any]) -> dict[str, Any]:
    return {**layout, "limit": int(layout["limit"]), "room": int(layout["room"])}


def layout_of(told: dict[str, Any]) -> Layout:
    return Layout(**fields_of(told))


class Contract:
    """What a case says of a device's study and rows."""

    def __init__(self, case: Case) -> None:
        study = case["study"]
        group_of = {name: int(number) for number, names in study["group"].items() for name in names}
        roster = (Participant(name, bytes.fromhex(key), group_of.get(name)) for name, key in study["key"].items())
        digest, server = (bytes.fromhex(study[name]) for name in ("digest", "server"))
        self._layouts = {ask: layout_of(one) for ask, one in study["layout"].items()}
        self._rows, self._fixed, self._needs = case["rows"], study["fixed"], study["needs"]
        self.terms = Terms(digest, server, tuple(roster), study["colluders"], study["least_owners"], study["holders"])

    def layout(self, ask: bytes) -> Layout:
        if ask.hex() not in self._layouts:
            raise Refused("request", "no such statistic")
        return self._layouts[ask.hex()]

    def groups(self, ask: bytes) -> Collection[int]:
        found: list[int] = self._fixed.get(ask.hex(), [])
        return found

    def needs(self, ask: bytes) -> Collection[bytes]:
        return [bytes.fromhex(one) for one in self._needs.get(ask.hex(), [])]

    def words(self, ask: bytes) -> Words:
        matrix = self._rows[ask.hex()]["matrix"]
        triangle = [value for i, row in enumerate(matrix) for value in row[i:]]
        return self.layout(ask).words_of(whole(self._rows[ask.hex()]["vector"]), whole(triangle))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def package_device(case: Case, clock: Clock) -> Device:
    roots = iter(case["roots"])
    memory = InMemory(case["arguments"], case["directions"])
    identity = Identity(bytes.fromhex(case["secret"]))
    return Device(
        *(case["name"], identity, Contract(case), memory), now=clock, random_bytes=lambda _: bytes.fromhex(next(roots))
    )


def spec_device(case: Case, clock: Clock) -> of_spec.Device:
    """From the file too: it holds all that the specification needs."""
    given, roots = case["study"], iter(case["roots"])
    layouts = {bytes.fromhex(ask): numbers.Layout(**fields_of(one)) for ask, one in given["layout"].items()}
    key, group = ({name: bytes.fromhex(one) for name, one in given["key"].items()}, given["group"])
    study = Study(
        *(bytes.fromhex(given["digest"]), bytes.fromhex(given["server"]), key),
        *({int(number): names for number, names in group.items()}, given["colluders"], given["least_owners"]),
        *(given["holders"], layouts, {bytes.fromhex(ask): set(of) for ask, of in given["fixed"].items()}),
        {bytes.fromhex(ask): {*map(bytes.fromhex, of)} for ask, of in given["needs"].items()},
    )
    words = {
        bytes.fromhex(ask): numbers.words_of(
            layouts[bytes.fromhex(ask)], [*map(int, one["vector"])], [[*map(int, row)] for row in one["matrix"]]
        )
        for ask, one in case["rows"].items()
    }
    memory = of_spec.Memory(case["arguments"], case["directions"])
    secret = bytes.fromhex(case["secret"])
    return of_spec.Device(case["name"], secret, study, words, memory, clock, lambda _: bytes.fromhex(next(roots)))


def package_reply(case: Case, clock: Clock) -> Callable[[bytes], bytes]:
    return package_device(case, clock).reply


def spec_reply(case: Case, clock: Clock) -> Callable[[bytes], bytes]:
    device = spec_device(case, clock)
    return lambda request: of_spec.reply(device, request)
