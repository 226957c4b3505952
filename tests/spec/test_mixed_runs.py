"""Devices of the specification and of the package in one federation, in every mix, with either server, bit for bit."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from mixed import NOW, SERVER, Federation, OfPackage, secret

from codedfl.engines.in_process import InProcess
from codedfl.sum.layout import Layout
from codedfl.sum.session import Session
from spec import device as of_spec
from spec import server as spec_server

VECTOR, MATRIX, CERTIFIED = b"vector", b"matrix", b"certified"
LAYOUTS = {
    VECTOR: Layout.of_vector(5, 10**6),
    MATRIX: Layout(48, 1, 3, 10**6, size=7, columns=2, room=10**4),
    CERTIFIED: Layout.of_vector(4, 1000, certified=True),
}
GROUPS = {0: ["a", "b", "c"], 3: ["d", "e", "é"]}
SMALL = Federation({0: ["a", "b", "c", "d"]}, 1, LAYOUTS)
E = [[3, -1], [0, 5], [7, 0], [0, 0], [-9, 2], [1, 1], [0, -4]]

Line = Callable[[bytes], bytes]


def both_same(federation: Federation, name: str) -> Line:
    """Both kinds of device, that must reply the same bytes to every request."""
    package, spec = federation.package_device(name), federation.spec_device(name)

    def reply(request: bytes) -> bytes:
        found = package.reply(request)
        package._sums.clear()  # the specification keeps no lists either
        assert of_spec.reply(spec, request) == found
        return found

    return reply


def lines(federation: Federation, of_specification: set[str]) -> dict[str, Line]:
    def line(name: str) -> Line:
        if name not in of_specification:
            return federation.package_device(name).reply
        device = federation.spec_device(name)
        return lambda request: of_spec.reply(device, request)

    return {name: line(name) for name in federation.terms.by_name}


def session(federation: Federation, devices: dict[str, Line]) -> Session:
    return Session(InProcess(devices), OfPackage(federation), SERVER, wall=lambda: NOW)


def product_of(federation: Federation, ask: bytes, e: list[list[int]]) -> list[list[int]]:
    matrices = [federation.rows(name, ask)[1] for name in federation.terms.owners]
    total = [[sum(cell) for cell in zip(*rows, strict=True)] for rows in zip(*matrices, strict=True)]
    columns = range(len(e[0]))
    return [[sum(v * e[j][c] for j, v in enumerate(row)) for c in columns] for row in total]


def all_of(federation: Federation, devices: dict[str, Line]) -> None:
    """Everything that there is to ask for, and the oracle's results."""
    asks, owners = session(federation, devices), federation.terms.owners
    assert asks.sum(VECTOR) == federation.expected(VECTOR, owners)
    assert asks.sum(MATRIX) == federation.expected(MATRIX, owners)
    for sign in (1, -1):
        e = [[sign * v for v in row] for row in E]
        found = asks.product(MATRIX, np.array(e))
        assert found.tolist() == product_of(federation, MATRIX, e)
    [total] = asks.certified(CERTIFIED)
    total.check(federation.terms)
    layout = LAYOUTS[CERTIFIED]
    assert layout.numbers_of(layout.from_bytes(total.numbers, 4)) == federation.expected(CERTIFIED, owners)
    asks.close()


@pytest.mark.parametrize("of_specification", [set(mix) for n in range(5) for mix in itertools.combinations("abcd", n)])
def test_every_mix_of_devices_makes_the_sums_of_plain_integers(of_specification: set[str]) -> None:
    all_of(SMALL, lines(SMALL, of_specification))


@pytest.mark.parametrize("z", [0, 1])
@pytest.mark.parametrize("key_only", [(), ("k", "l", "m")])
@pytest.mark.parametrize("holders", [None, 4])
def test_every_reply_is_the_same_bytes(z: int, key_only: tuple[str, ...], holders: int | None) -> None:
    federation = Federation(GROUPS, z, LAYOUTS, key_only, holders)
    all_of(federation, {name: both_same(federation, name) for name in federation.terms.by_name})


@pytest.mark.parametrize(
    ("bits", "words", "size"), [(32, 1, 300), (48, 1, 1), (48, 1, 256), (64, 1, 300), (64, 2, 300)]
)
def test_replies_of_large_matrices_are_the_same_bytes(bits: int, words: int, size: int) -> None:
    layout = Layout(bits, words, 2, 10**5 if words == 1 else 2**70, size=size, columns=1, room=100)
    federation = Federation({0: ["a", "b"]}, 0, {MATRIX: layout})
    devices = {name: both_same(federation, name) for name in "ab"}
    asks = Session(InProcess(devices), OfPackage(federation), SERVER, wall=lambda: NOW, row_blocks=2)
    asks.sum(MATRIX)
    e = [[0]] * (size - 1) + [[-99]]
    assert [[int(v) for v in row] for row in asks.product(MATRIX, np.array(e))] == product_of(federation, MATRIX, e)


def test_a_fixed_list_of_groups() -> None:
    federation = Federation(GROUPS, 1, LAYOUTS, fixed={VECTOR: {3}})
    asks = session(federation, {name: both_same(federation, name) for name in federation.terms.by_name})
    assert asks.sum(VECTOR) == federation.expected(VECTOR, GROUPS[3])


@pytest.mark.parametrize("of_specification", [set(), set("abc"), set("bdeé")])
def test_the_server_of_the_specification(of_specification: set[str]) -> None:
    federation = Federation(GROUPS, 1, LAYOUTS)
    devices, study = lines(federation, of_specification), federation.study
    server = spec_server.Server(
        study, secret("server"), (study.digest, 7), secret("server key"), lambda name, request: devices[name](request)
    )
    spec_server.begin(server, sorted(study.key), int(NOW) + 100)
    assert spec_server.total(server, VECTOR, "ab") == federation.expected(VECTOR, study.owners)
    assert spec_server.total(server, MATRIX, "cd") == federation.expected(MATRIX, study.owners)
    flat = spec_server.product_with(server, MATRIX, E, "ed")
    assert flat == [v for row in product_of(federation, MATRIX, E) for v in row]
    by_role = [[name for name in study.key if study.role[name] == role] for role in range(2)]
    found = spec_server.certified(server, CERTIFIED, by_role, "ad")
    signatures = {name: one["signature"] for name, one in zip("ad", found, strict=True)}
    assert len({one["numbers"] for one in found}) == 1
    entries = spec_server.wire.encode(server.lists[CERTIFIED])
    spec_server.check_certified(study, CERTIFIED, entries, found[0]["numbers"], signatures)
    layout = LAYOUTS[CERTIFIED]
    total = layout.numbers_of(layout.from_bytes(found[0]["numbers"], 4))
    assert total == federation.expected(CERTIFIED, study.owners)
    spec_server.close(server)
    with pytest.raises(AssertionError, match="refused generation"):
        spec_server.total(server, VECTOR, "ab")


def test_an_absent_device_costs_its_group() -> None:
    federation = Federation(GROUPS, 1, LAYOUTS)
    devices, study = lines(federation, set("abcd")), federation.study
    server = spec_server.Server(
        study, secret("server"), (study.digest, 7), secret("server key"), lambda name, request: devices[name](request)
    )
    spec_server.begin(server, ["a", "b", "c", "d"], int(NOW) + 100)
    assert spec_server.total(server, VECTOR, "ab") == federation.expected(VECTOR, GROUPS[0])
