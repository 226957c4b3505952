"""Contents that asks name by their digest: a server puts them, and nothing that it puts is taken for another one."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from weather import Odds, Weather

from by_hand import ByHand
from codedfl.contract.ledger_base import LedgerBase
from codedfl.engines.in_process import InProcess
from codedfl.sum import wire
from codedfl.sum.device import Device
from codedfl.sum.in_memory import InMemory
from codedfl.sum.keys import digest
from codedfl.sum.layout import Layout
from codedfl.sum.memory import MOST_CONTENT, MOST_CONTENTS
from codedfl.sum.session import Patience, Session
from codedfl.sum.wire import CertifiedSum
from federations import SERVER, MadeUp, identity, terms_of

ASK, FREE = b"names a content", b"names none"
CONTENT = b"certified totals"
NEEDED = {ASK: [digest(CONTENT)]}
LAYOUTS = {ASK: Layout.of_vector(2, 1000), FREE: Layout.of_vector(2, 1000)}
NUMBERS: dict[bytes, tuple[list[int], list[int]]] = dict.fromkeys(LAYOUTS, ([1, 2], []))
TERMS = terms_of([["a", "b", "c", "d"]], 1, ["k"])


def devices(memories: dict[str, InMemory] | None = None) -> dict[str, Device]:
    found = {}
    for name in TERMS.by_name:
        mine: dict[bytes, tuple[list[int], list[int]]] = (
            dict.fromkeys(LAYOUTS, ([1, 2], [])) if name in TERMS.owners else {}
        )
        memory = InMemory()
        if memories is not None:
            memories[name] = memory
        contract = MadeUp(TERMS, LAYOUTS, mine, needed=NEEDED)
        found[name] = Device(name, identity(name), contract, memory, now=lambda: 0.0)
    return found


class Lying(ByHand):
    """A server that asks for what needs a content, and puts whatever it likes."""

    def __init__(self) -> None:
        self.memories: dict[str, InMemory] = {}
        super().__init__(TERMS, devices(self.memories))
        self.members = {name: self.enrolled(name) for name in TERMS.by_name}
        self.keys = [self.drawn(TERMS.holders_of(role)[0], [])[0] for role in (0, 1)]

    def put(self, name: str, content: bytes) -> wire.Reply:
        return self.reply(name, "put", wire.Common(*self.ids), wire.PutOwn(content))

    def said(self, ask: bytes) -> set[tuple[str, str, bool]]:
        """Of an upload, an answer and a total: kind and code of the reply, and whether anything is in it."""
        entries = [self.entry(self.members[name]) for name in sorted(TERMS.owners)]
        drawer = self.keys[0].drawer
        listed = wire.encode_list(tuple(entries))
        common = wire.CertifyCommon(*self.ids, ask, digest(listed))
        sums = tuple(CertifiedSum(key, b"", ()) for key in self.keys)
        replies = [
            self.upload("a", ask, self.keys),
            self.answer(drawer, ask, self.keys[0], entries),
            self.reply("k", "certify", common, wire.CertifyOwn(listed, (), sums)),
        ]
        return {(one.kind, one.code, bool(one.body)) for one in replies}

    def to_all(self, content: bytes) -> None:
        for name in TERMS.by_name:
            self.put(name, content)


MISSING = {("missing", digest(CONTENT).hex(), False)}


def test_whoever_never_puts_it_gets_nothing_of_what_needs_it() -> None:
    server = Lying()
    for _ in range(3):
        assert server.said(ASK) == MISSING
    assert ("ok", "", True) in server.said(FREE), "of what needs nothing it gets what there is"


@pytest.mark.parametrize("other", [b"", CONTENT[:-1], CONTENT + b"\0", digest(CONTENT)])
def test_whoever_puts_something_else_gets_nothing_either(other: bytes) -> None:
    server = Lying()
    server.to_all(other)
    assert server.said(ASK) == MISSING
    server.to_all(CONTENT)
    assert MISSING.isdisjoint(server.said(ASK)) and ("ok", "", True) in server.said(ASK)


def test_whoever_puts_very_many_fills_nothing_and_the_right_one_can_still_be_put() -> None:
    server = Lying()
    server.to_all(CONTENT)
    for number in range(60):
        assert server.put("a", b"%d" % number).kind == "ok"
    assert server.upload("a", ASK, server.keys).code == digest(CONTENT).hex()
    memory = server.memories["a"]
    for number in range(10**6):
        memory.put(b"%d" % number)
    assert len(memory._contents) == MOST_CONTENTS
    server.put("a", CONTENT)
    assert server.upload("a", ASK, server.keys).kind == "ok"


def test_a_content_is_bounded() -> None:
    server = Lying()
    assert server.put("a", bytes(MOST_CONTENT)).kind == "ok"
    assert server.put("a", bytes(MOST_CONTENT + 1)).code == "request"


def test_a_reply_does_not_depend_on_what_else_is_there_or_was() -> None:
    server = Lying()
    server.put("a", CONTENT)
    first = server.upload("a", ASK, server.keys)
    for number in range(MOST_CONTENTS):
        server.put("a", b"%d" % number)
    assert server.upload("a", ASK, server.keys).kind == "missing"
    server.put("a", CONTENT)
    assert server.upload("a", ASK, server.keys) == first


def test_a_session_puts_it_on_whoever_misses_it_and_on_nobody_else() -> None:
    asked: list[str] = []

    def noted(one: Device, request: bytes) -> bytes:
        asked.append(wire.kind_of(request))
        return one.reply(request)

    lines = {name: lambda request, one=one: noted(one, request) for name, one in devices().items()}
    session = Session(InProcess(lines), MadeUp(TERMS, LAYOUTS, needed=NEEDED), SERVER, wall=lambda: 0.0)
    assert session.sum(FREE) == [4, 8]
    assert "put" not in asked
    assert session.offer(CONTENT) == digest(CONTENT)
    assert session.sum(ASK) == [4, 8]
    assert asked.count("put") <= len(TERMS.by_name)
    asked.clear()
    session.close()
    assert session.sum(FREE) == [4, 8]
    assert "put" not in asked


def test_it_is_put_before_the_first_ask_that_needs_it_and_again_where_it_was_lost() -> None:
    said: list[str] = []
    memories: dict[str, InMemory] = {}

    def noted(one: Device, request: bytes) -> bytes:
        reply = one.reply(request)
        said.append(wire.decode(reply, wire.Reply, "a reply").kind)
        return reply

    lines = {name: lambda request, one=one: noted(one, request) for name, one in devices(memories).items()}
    session = Session(InProcess(lines), MadeUp(TERMS, LAYOUTS, needed=NEEDED), SERVER, wall=lambda: 0.0)
    session.offer(CONTENT)
    assert session.sum(ASK) == [4, 8]
    assert said.count("missing") <= 1, "of the one that holds a role and has no rows"
    for memory in memories.values():
        memory._contents.clear()
    session.close()
    said.clear()
    session._store.clear("total")
    assert session.sum(ASK) == [4, 8]
    assert "missing" in said


class Liar:
    """Says for ever that something is missing, and that it has taken it."""

    def __init__(self, device: Device, asked: list[str]) -> None:
        self._device, self._asked = device, asked

    def reply(self, request: bytes) -> bytes:
        kind = wire.kind_of(request)
        self._asked.append(kind)
        reply = wire.decode(self._device.reply(request), wire.Reply, "a reply")
        if kind in ("upload", "answer"):
            reply = wire.Reply("missing", reply.request, reply.enrolment, digest(CONTENT).hex(), b"")
        return wire.encode(reply)


def test_a_device_that_misses_it_for_ever_is_asked_no_faster_than_others_and_left_out() -> None:
    terms = terms_of([["a", "b", "c"], ["d", "e", "f"]], 1)
    asked: list[str] = []

    def start(name: str, memory: object) -> Device | Liar:
        contract = MadeUp(terms, LAYOUTS, NUMBERS, needed=NEEDED)
        one = Device(name, identity(name), contract, memory, now=lambda: weather.now())  # type: ignore[arg-type]
        return Liar(one, asked) if name == "b" else one

    weather = Weather(terms.by_name, start, random.Random(1), Odds())  # type: ignore[arg-type]
    patience = Patience(join=1000.0, upload=200.0, reply=200.0, retry=5.0, hedge=1.0)
    session = Session(weather, MadeUp(terms, LAYOUTS, needed=NEEDED), SERVER, patience=patience)
    session.offer(CONTENT)
    assert session.sum(ASK) == [3, 6]
    assert session.members()[ASK] == ("d", "e", "f")
    assert 2 <= asked.count("put") <= 2 + 200 / 5.0
    assert asked.count("upload") <= 2 + 2 * 200 / 5.0


def test_a_ledger_keeps_the_newest_of_each_study_over_a_restart(tmp_path: Path) -> None:
    base = LedgerBase(tmp_path / "clinic")
    for number in range(40):
        content = b"%d" % number
        base.put(b"one", digest(content), content, MOST_CONTENTS)
    base.put(b"other", digest(b"0"), b"0", MOST_CONTENTS)
    base.close()
    base = LedgerBase(tmp_path / "clinic")
    assert [n for n in range(40) if base.content(b"one", digest(b"%d" % n)) == b"%d" % n] == [*range(32, 40)]
    assert base.content(b"other", digest(b"0")) == b"0"
    assert base.content(b"other", digest(b"39")) is None


def test_a_root_that_is_gone_is_in_no_file_of_the_ledger_nor_after_a_kill(tmp_path: Path) -> None:
    folder, study = tmp_path / "clinic", b"study"
    roots = [hashlib.sha256(b"%d" % number).digest() for number in range(3)]

    def left() -> list[int]:
        files = [one.read_bytes() for one in folder.iterdir()]
        return [number for number, root in enumerate(roots) if any(root in one for one in files)]

    base = LedgerBase(folder)
    for number, root in enumerate(roots):
        base.keep(study, number, root, 10)
        assert left() == [number]
    base.keep(study, 3, b"", 0)
    assert left() == [] and base.generation(study) == (3, b"", 0)
    base.put(study, bytes(32), b"what was put is there after the next transaction", MOST_CONTENTS)
    killed = tmp_path / "killed"
    shutil.copytree(folder, killed)  # as a process that is killed leaves it
    assert LedgerBase(killed).content(study, bytes(32)) is not None
    assert {one.stat().st_mode & 0o077 for one in folder.iterdir()} == {0}
    base.close()
    assert [one.name for one in folder.iterdir()] == ["ledger.sqlite"]


def random_words(name: str) -> list[int]:
    data = hashlib.shake_256(name.encode()).digest(8 * 50)
    return [int(one) for one in np.frombuffer(data, dtype="<u8")]


def certified_words(words: dict[str, list[int]], names: Collection[str]) -> list[int]:
    terms = terms_of([sorted(names)], 1)
    layout = Layout.of_uniform_words(50)
    lines = {}
    for name in names:
        contract = MadeUp(terms, {ASK: layout}, {ASK: (words[name], [])})
        lines[name] = Device(name, identity(name), contract, InMemory(), now=lambda: 0.0).reply
    session = Session(InProcess(lines), MadeUp(terms, {ASK: layout}), SERVER, wall=lambda: 0.0)
    [total] = session.certified(ASK)
    total.check(terms)
    return [one % 2**64 for one in layout.numbers_of(layout.from_bytes(total.numbers, layout.vector_words))]


def test_certified_sums_of_words_that_may_be_anything_are_those_of_plain_integers() -> None:
    names = "abcde"
    words = {name: random_words(name) for name in names}
    words["a"][:3], words["b"][:3] = [2**63, 2**64 - 1, 0], [2**63, 1, 2**63]
    plain = [sum(column) % 2**64 for column in zip(*words.values(), strict=True)]
    assert certified_words(words, names) == plain
    assert max(plain) > 2**63, "beyond what any other layout allows"
