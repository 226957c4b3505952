"""Sums and products by protocol 4 equal those of plain integers, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from codedfl.engines.in_process import InProcess
from codedfl.engines.virtual_time import VirtualTime
from codedfl.errors import NotEnoughDevices
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.layout import Layout, Words
from codedfl.sum.session import Patience, Session
from codedfl.sum.wire import Refused
from federations import SERVER, MadeUp, devices_of, identity, terms_of

ASK = b"ask"


def _drawn(seed: str, layout: Layout, size: int) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    return (
        [rng.randint(-size, size) for _ in range(layout.length)],
        [rng.randint(-size, size) for _ in range(layout.triangle)],
    )


@pytest.mark.parametrize("z", [0, 1, 2])
@pytest.mark.parametrize("limit", [100, 2**40, 2**60, 2**70])
def test_a_sum_is_that_of_plain_integers(z: int, limit: int) -> None:
    terms = terms_of([[f"a{i}" for i in range(z + 2)], [f"b{i}" for i in range(z + 3)]], z)
    layout = Layout.of_vector(5, limit)
    devices = devices_of(terms, {ASK: layout}, lambda name, _: _drawn(name, layout, limit // 20))
    session = Session(
        InProcess({name: one.reply for name, one in devices.items()}),
        MadeUp(terms, {ASK: layout}),
        SERVER,
        wall=lambda: 0.0,
    )
    expected = [
        sum(column) for column in zip(*(_drawn(name, layout, limit // 20)[0] for name in terms.owners), strict=True)
    ]
    assert session.sum(ASK) == expected


@pytest.mark.parametrize(("bits", "words"), [(32, 1), (48, 1), (64, 1), (64, 2)])
@pytest.mark.parametrize("size", [1, 7, 256, 300, 600])
def test_a_product_is_that_of_plain_integers(bits: int, words: int, size: int) -> None:
    terms = terms_of([["a", "b", "c"]], 1)
    layout = Layout(bits, words, 3, 1000, size, columns=2, room=200)
    devices = devices_of(terms, {ASK: layout}, lambda name, _: _drawn(name, layout, 100))
    session = Session(
        InProcess({name: one.reply for name, one in devices.items()}),
        MadeUp(terms, {ASK: layout}),
        SERVER,
        wall=lambda: 0.0,
        row_blocks=2,
    )
    e = np.zeros((size, 2), dtype=np.int64)
    e[0, 0], e[-1, 1], e[size // 2, 0] = 99, -100, -7
    gram = np.zeros((size, size), dtype=np.int64)
    for name in terms.owners:
        gram[np.triu_indices(size)] += np.array(_drawn(name, layout, 100)[1])
    gram = gram + np.triu(gram, 1).T
    session.sum(ASK)
    for _ in range(2):
        assert (np.asarray(session.product(ASK, e), dtype=np.int64) == gram @ e).all()


def test_a_certified_total_is_that_of_plain_integers_and_a_closed_generation_has_no_keys() -> None:
    terms = terms_of([["a", "b", "c", "d", "e", "f"]], 1)
    layout = Layout.of_vector(4, 1000, certified=True)
    devices = devices_of(terms, {ASK: layout}, lambda name, _: _drawn(name, layout, 10))
    session = Session(
        InProcess({name: one.reply for name, one in devices.items()}),
        MadeUp(terms, {ASK: layout}),
        SERVER,
        wall=lambda: 0.0,
    )
    [total] = session.certified(ASK)
    total.check(terms)
    expected = [sum(column) for column in zip(*(_drawn(name, layout, 10)[0] for name in terms.owners), strict=True)]
    assert layout.numbers_of(layout.from_bytes(total.numbers, 4)) == expected
    session.close()
    assert all(one._memory.generation().root == b"" for one in devices.values())


def test_certified_sums_that_are_asked_for_together_take_the_round_trips_of_one() -> None:
    """Parts of a census: of three disclosure groups each, and the holders share the work."""
    terms = terms_of([[f"{group}{i}" for i in range(6)] for group in "abc"], 1)
    layout, asks = Layout.of_vector(4, 1000, certified=True), [b"part a", b"part b", b"part c"]
    layouts, fixed = dict.fromkeys(asks, layout), {ask: (part,) for part, ask in enumerate(asks)}

    def seconds(*together: tuple[bytes, ...]) -> float:
        devices = devices_of(terms, layouts, lambda name, _: _drawn(name, layout, 10))
        for one in devices.values():
            one._contract.fixed = fixed
        engine = VirtualTime({name: one.reply for name, one in devices.items()}, lambda *_: 1.0)
        study = MadeUp(terms, layouts, fixed=fixed)
        session = Session(engine, study, SERVER, wall=lambda: 0.0, patience=Patience(hedge=100.0))
        found = [total for wanted in together for total in session.certified(*wanted)]
        assert [one.ask for one in found] == asks[: len(found)]
        for total, group in zip(found, "abc", strict=False):
            total.check(terms)
            drawn = [_drawn(name, layout, 10)[0] for name in terms.owners if name[0] == group]
            numbers = layout.numbers_of(layout.from_bytes(total.numbers, 4))
            assert numbers == [sum(column) for column in zip(*drawn, strict=True)]
        return engine.now()

    one, all_three = seconds((asks[0],)), seconds(tuple(asks))
    assert all_three == one < seconds(*((ask,) for ask in asks))


class _Unwilling(MadeUp):
    def words(self, ask: bytes) -> Words:
        raise Refused("rows", "it will not")


def test_an_owner_whose_group_is_left_out_holds_its_role_all_the_same() -> None:
    terms = terms_of([["a0", "a1", "a2"], ["b0", "b1", "b2"]], 1, holders=2)
    assert set(terms.roles) == {"a0", "a1"}
    layout = Layout.of_vector(3, 1000)
    devices = devices_of(terms, {ASK: layout}, lambda name, _: _drawn(name, layout, 10))
    devices["a2"] = Device("a2", identity("a2"), _Unwilling(terms, {ASK: layout}), InMemory(), now=lambda: 0.0)
    engine = InProcess({name: one.reply for name, one in devices.items()})
    session = Session(engine, MadeUp(terms, {ASK: layout}), SERVER, wall=lambda: 0.0)
    expected = [sum(column) for column in zip(*(_drawn(f"b{i}", layout, 10)[0] for i in range(3)), strict=True)]
    assert session.sum(ASK) == expected
    assert session.members()[ASK] == ("b0", "b1", "b2")


def test_a_sum_over_groups_that_are_fixed_is_made_over_them_or_not_at_all() -> None:
    terms = terms_of([["a0", "a1", "a2"], ["b0", "b1", "b2"]], 1)
    layout = Layout.of_vector(3, 1000)
    devices = devices_of(terms, {ASK: layout}, lambda name, _: _drawn(name, layout, 10))
    for one in devices.values():
        one._contract.fixed = {ASK: (1,)}
    engine = InProcess({name: one.reply for name, one in devices.items()})
    session = Session(engine, MadeUp(terms, {ASK: layout}, fixed={ASK: (1,)}), SERVER, wall=lambda: 0.0)
    session.sum(ASK)
    assert session.members()[ASK] == ("b0", "b1", "b2")
    other = Session(engine, MadeUp(terms, {ASK: layout}), SERVER, wall=lambda: 1.0)
    with pytest.raises(NotEnoughDevices, match="replies of 1 of the holders of role"):  # that fixes others: refused
        other.sum(ASK)
    devices["b1"] = Device("b1", identity("b1"), _Unwilling(terms, {ASK: layout}), InMemory(), now=lambda: 0.0)
    engine = InProcess({name: one.reply for name, one in devices.items()})
    last = Session(engine, MadeUp(terms, {ASK: layout}, fixed={ASK: (1,)}), SERVER, wall=lambda: 2.0)
    fixed = "a sum must be over the 3 owners that are fixed for it, got none of b0, b1, b2"
    with pytest.raises(NotEnoughDevices, match=fixed):
        last.sum(ASK)
