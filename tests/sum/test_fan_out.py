"""Whom a session asks, and how long it waits: few holders for a sum, all for an epoch, each with other rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from codedfl.engines.virtual_time import VirtualTime
from codedfl.errors import WrongAnswers
from codedfl.sum import events, wire
from codedfl.sum.device import Device
from codedfl.sum.keys import GenerationKeys
from codedfl.sum.layout import Layout
from codedfl.sum.session import Patience, Session
from federations import SERVER, MadeUp, devices_of, terms_of

ASK = b"gram"
LAYOUT = Layout(64, 1, 2, 10**6, 8, columns=1, room=1000)
NAMES = [f"d{i}" for i in range(10)]
E = np.arange(8).reshape(8, 1)
PATIENCE = Patience(join=60.0, upload=60.0, reply=600.0, retry=20.0, hedge=1.0)


Seconds = Callable[[str, str, bytes], float | None]


@pytest.fixture(autouse=True)
def _single_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight rows to be dealt out."""
    for module in ("layout", "session"):
        monkeypatch.setattr(f"codedfl.sum.{module}.TILE", 1)


def numbers(name: str, ask: bytes) -> tuple[list[int], list[int]]:
    del ask
    return [NAMES.index(name), 1], list(range(36))


class Counted(VirtualTime):
    """Counts what it sends, by device and kind."""

    def __init__(self, devices: Mapping[str, Callable[[bytes], bytes]], seconds: Seconds) -> None:
        super().__init__(devices, lambda name, request, reply: seconds(name, _kind(request), reply))
        self.asked = Counter[tuple[str, str]]()

    def send(self, device: str, request: bytes) -> None:
        self.asked[device, _kind(request)] += 1
        super().send(device, request)


def _kind(request: bytes) -> str:
    return wire.decode(request, wire.Request, "a request").kind


class Timed:
    """A federation on a clock of its own; ``seconds`` says how long a device takes to reply to a kind of request."""

    def __init__(self, seconds: Seconds, spare: int = 0, row_blocks: int = 1) -> None:
        self.terms, layouts = terms_of([NAMES], 1), {ASK: LAYOUT, b"other": LAYOUT}
        self.devices = devices_of(self.terms, layouts, numbers)
        self.engine = Counted({name: self._replies_as(name) for name in NAMES}, seconds)
        self.asked, self.told = self.engine.asked, list[events.Event]()
        self.session = Session(
            self.engine,
            MadeUp(self.terms, layouts),
            SERVER,
            patience=PATIENCE,
            tell=self.told.append,
            spare=spare,
            row_blocks=row_blocks,
        )

    def _replies_as(self, name: str) -> Callable[[bytes], bytes]:
        return lambda data: self.devices[name].reply(data)

    def kinds(self) -> Counter[str]:
        return Counter({kind: sum(n for (_, one), n in self.asked.items() if one == kind) for _, kind in self.asked})

    def took(self, do: Callable[[], object]) -> float:
        begun = self.engine.now()
        do()
        return self.engine.now() - begun


def test_a_sum_asks_each_owner_and_one_holder_of_each_role_once() -> None:
    timed = Timed(lambda name, kind, reply: 0.1)
    timed.session.sum(ASK)
    assert timed.kinds() == {"enrol": 10, "draw": 2, "upload": 10, "answer": 2}
    timed.asked.clear()
    assert timed.took(lambda: timed.session.sum(b"other")) == pytest.approx(0.2), "two round trips"
    assert timed.kinds() == {"upload": 10, "answer": 2}


def test_what_was_prepared_needs_one_round_trip() -> None:
    timed = Timed(lambda name, kind, reply: 0.1)
    timed.session.prepare(ASK, b"other", seconds=10.0)
    timed.asked.clear()
    assert timed.took(lambda: timed.session.sum(ASK)) == pytest.approx(0.1)
    assert timed.kinds() == {"answer": 2}


def test_what_is_prepared_in_no_time_is_sent_and_taken_when_it_comes() -> None:
    timed = Timed(lambda name, kind, reply: 0.1)
    timed.session.enrol()
    timed.session.prepare(ASK)
    assert timed.kinds()["upload"] == 10
    timed.session.sum(ASK)
    assert timed.kinds()["upload"] == 10


def test_a_slow_holder_is_hedged_and_a_lost_reply_asked_for_again() -> None:
    slow = Timed(lambda name, kind, reply: 50.0 if kind == "answer" and name in ("d0", "d1") else 0.1)
    slow.session.prepare(ASK, seconds=10.0)
    slow.session._known.latency.clear()  # or the slow would be asked last
    assert slow.took(lambda: slow.session.sum(ASK)) == pytest.approx(PATIENCE.hedge + 0.1)

    lost = Counter[str]()

    def first_is_lost(name: str, kind: str, reply: bytes) -> float | None:
        lost[name] += kind == "upload"
        return None if kind == "upload" and name == "d3" and lost[name] == 1 else 0.1

    again = Timed(first_is_lost)
    assert again.took(lambda: again.session.sum(ASK)) == pytest.approx(PATIENCE.retry + 0.4)
    assert again.asked["d3", "upload"] == 2


def test_an_epoch_asks_all_holders_and_takes_the_fastest() -> None:
    fast = {"d4": 0.1, "d7": 0.2}
    timed = Timed(lambda name, kind, reply: fast.get(name, 5.0) if kind == "answer" else 0.1)
    timed.session.sum(ASK)
    for e in (E, 2 * E, 3 * E):
        timed.asked.clear()
        begun = timed.engine.now()
        timed.session.product(ASK, e)
        assert timed.engine.now() - begun <= 0.2 + 0.2
        assert timed.kinds()["answer"] >= 8


def test_holders_share_the_rows_of_a_product_among_themselves() -> None:
    def by_size(name: str, kind: str, reply: bytes) -> float:
        return len(reply) - 300 if kind == "answer" else 0.0  # seconds for what is beyond the envelope

    times = []
    for blocks in (1, 4):
        timed = Timed(by_size, row_blocks=blocks)
        timed.session.sum(ASK)
        timed.session.product(ASK, E)  # lists are sent
        begun = timed.engine.now()
        timed.session.product(ASK, 2 * E)
        times.append(timed.engine.now() - begun)
    whole, shared = times
    assert shared < whole - 30, "a quarter of the numbers is left for each of the first four holders"


def test_a_product_that_is_known_is_not_asked_for_again() -> None:
    timed = Timed(lambda name, kind, reply: 0.1)
    first = timed.session.product(ASK, E)
    timed.asked.clear()
    assert (timed.session.product(ASK, E) == first).all()
    assert not timed.asked


class Wrong(Device):
    """Replies with other numbers than it has made."""

    def _answer(self, keys: GenerationKeys, common: wire.AnswerCommon, own: wire.AnswerOwn) -> bytes:
        found = wire.decode(super()._answer(keys, common, own), wire.Answered, "an answer")
        return wire.encode(wire.Answered(found.numbers[::-1], found.signature))


def lie(timed: Timed, name: str) -> None:
    one = timed.devices[name]
    timed.devices[name] = Wrong(name, one._identity, one._contract, one._memory, now=lambda: 0.0)


def test_two_spare_replies_outvote_a_holder_that_replies_wrongly() -> None:
    timed = Timed(lambda name, kind, reply: 0.1 + 0.01 * int(name[1]), spare=1)
    timed.session.sum(b"other")
    lie(timed, "d0")
    assert timed.session.sum(ASK)[1] == 10
    timed.session.product(ASK, E)
    assert timed.session.excluded == {"d0"}
    assert [one.device for one in timed.told if isinstance(one, events.WrongReply)] == ["d0"]


def test_a_late_reply_that_contradicts_ends_the_session_with_both_named() -> None:
    timed = Timed(lambda name, kind, reply: 1.0 if name == "d8" and kind == "answer" else 0.1)
    timed.session.sum(ASK)
    lie(timed, "d8")
    timed.session.product(ASK, E)
    message = "late replies must be equal to those that were used, those of d8 were not"
    with pytest.raises(WrongAnswers, match=message):
        _many_products(timed)


def _many_products(timed: Timed) -> None:
    for factor in range(2, 20):
        timed.session.product(ASK, factor * E)
