"""A device derives everything from its study and compares: what differs is refused in one text, and changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study_calls import Called, called, memory_of, pod_of_three, score_at

from approved_studies import Federation, federation
from codedfl.contract.roster import save_roster
from codedfl.crypto.sealed import Identity
from codedfl.engine.calls import Call, Dismissal, Hello, Introduction, Refused, Step
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.letters import Letter, Parcel
from codedfl.engine.resident_host import ResidentHost
from codedfl.errors import InvalidInput
from codedfl.exact.scales import Bounds
from codedfl.protocol.messages import VERSION, Kind, Message, Update
from codedfl.protocol.server import Server
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from codedfl.run.rehearsal import rehearsal_key
from codedfl.statistics.statistic import Ask

pytestmark = pytest.mark.usefixtures("no_power_cuts")
NAME = "clinic-0"
REFUSED = Refused(DOES_NOT_TAKE_PART)
HOSTS = pytest.mark.parametrize("kind", [DeviceHost, ResidentHost], ids=["each call a process", "resident"])


@pytest.fixture
def of(tmp_path: Path) -> Federation:
    return pod_of_three("linear", tmp_path / "x")


def refused_text(reply: object) -> str:
    """What the server reads, whichever way it is said."""
    if isinstance(reply, Refused):
        return reply.reason
    assert isinstance(reply, Parcel)
    texts = [reply.refusal] if reply.refusal else []
    for letter in reply.letters:
        message = Message.decode(letter.head, bulk=letter.bulk)
        assert message.kind is Kind.REFUSAL
        texts.append(message.body.decode())
    (text,) = texts
    return text


# -- the fields of calls


@HOSTS
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"server_public": bytes(32)}, "the server's key must be "),
        ({"server_public": b""}, "the server's key must be "),
        ({"version": VERSION - 1}, f"the protocol version must be {VERSION} on this node, got {VERSION - 1}"),
        ({"version": VERSION + 1}, f"the protocol version must be {VERSION} on this node, got {VERSION + 1}"),
    ],
)
def test_a_hello_that_differs_is_refused(
    of: Federation, kind: type[DeviceHost], change: dict[str, Any], why: str, caplog: pytest.LogCaptureFixture
):
    host = of.host(NAME, kind)
    true = Hello(b"challenge", bytes.fromhex(of.study.server_key))
    assert isinstance(host.handle(true), Introduction)
    before = memory_of(of, NAME)
    reply = host.handle(replace(true, **change))
    assert reply == (Refused(why) if "version" in change else REFUSED)
    assert memory_of(of, NAME) == before
    (line,) = caplog.messages
    assert line.startswith(f"{NAME} refuses: {why}") and "\n" not in line


@HOSTS
@pytest.mark.parametrize("began", [False, True], ids=["at the beginning", "in the middle"])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"run": bytes(16)}, ""),
        ({"name": "clinic-1"}, "the receiver must be 'clinic-0', got 'clinic-1'"),
        ({"version": 2}, f"the protocol version must be {VERSION} on this node, got 2"),
        ({"ask": Ask("gram", ((), (), (0, 1))).encode()}, ""),
        ({"ask": Ask("score").encode()}, ""),
        ({"ask": b"nonsense"}, ""),
    ],
    ids=lambda value: str(*value) if isinstance(value, dict) else "",
)
def test_a_step_that_differs_is_refused_and_the_true_one_is_taken(
    of: Federation,
    kind: type[DeviceHost],
    began: bool,
    change: dict[str, Any],
    why: str,
    caplog: pytest.LogCaptureFixture,
):
    """Whoever writes to the network cannot use up what the study allows the server."""
    run = called(of, Ask("gram"), kind)
    if began:
        run.until_step(Kind.UPDATE, NAME)
    call, before = run.step(NAME), memory_of(of, NAME)
    reply = run.hosts[NAME].handle(replace(call, **change))
    assert refused_text(reply) == (why if "version" in change else DOES_NOT_TAKE_PART)
    assert memory_of(of, NAME) == before
    assert any(text.startswith(NAME) and why in text for text in caplog.messages)
    assert run.finish().server.model is not None


FREE_OF_CALLS = {
    "Hello.challenge": "the device signs whatever it is, with its own name and the server's key beside it",
    "Parcel.refusal": "nobody reads it of a server",
}


def other_calls(run: Called) -> Iterator[tuple[str, Call]]:
    """A true call with one field changed, of it or of what it carries; every field that there is."""
    step, hello = run.step(NAME), Hello(b"challenge", bytes.fromhex(run.of.study.server_key))
    (letter,) = step.parcel.letters
    damaged = letter._replace(head=letter.head[:-1] + bytes([letter.head[-1] ^ 1]))
    hellos: dict[str, Any] = {"challenge": b"another", "server_public": bytes(32), "version": 2}
    steps: dict[str, Any] = {"run": bytes(16), "name": "clinic-1", "version": 2, "ask": Ask("cells").encode()}
    parcels: dict[str, Any] = {"first": 1, "letters": (damaged,), "confirmed": 1}
    asks: dict[str, Any] = {
        **{"statistic": "score", "merged": ((), (), (0, 1)), "point": np.ones(3), "model": "age alone"},
    }
    yield from ((f"Hello.{name}", replace(hello, **{name: value})) for name, value in hellos.items())
    yield from ((f"Step.{name}", replace(step, **{name: value})) for name, value in steps.items())
    carried = {f"Parcel.{name}": replace(step.parcel, **{name: value}) for name, value in parcels.items()}
    carried["Parcel.newest"] = Parcel(0, (), 0, newest=damaged.head)
    carried["Letter.head"] = Parcel(0, (letter._replace(head=b"x"),), 0)
    carried["Letter.bulk"] = Parcel(0, (letter._replace(bulk=b"more"),), 0)
    yield from ((label, replace(step, parcel=parcel)) for label, parcel in carried.items())
    for name, value in asks.items():
        yield f"Ask.{name}", replace(step, ask=replace(run.ask, **{name: value}).encode())
    yield "Dismissal.reason", Dismissal("go away")
    # What is free comes last: the device is in the run then.
    yield "Parcel.refusal", replace(step, parcel=replace(step.parcel, refusal="no"))


@HOSTS
def test_every_field_of_every_call_is_refused_or_free(of: Federation, kind: type[DeviceHost]):
    """As ``tests/protocol/test_terms.py`` for the messages themselves; a field that is new fails here first."""
    run, tried, free = called(of, Ask("gram"), kind), set(), set()
    for label, call in other_calls(run):
        tried.add(label)
        before, reply = memory_of(of, NAME), of.host(NAME, kind).handle(call)
        kinds = [Message.decode(one.head).kind for one in getattr(reply, "letters", ())]
        refused = isinstance(reply, Refused) or (isinstance(reply, Parcel) and bool(reply.refusal))
        if refused or kinds == [Kind.REFUSAL]:
            assert memory_of(of, NAME) == before, label
        else:
            free.add(label)
    carriers: tuple[Any, ...] = (Hello, Step, Parcel, Dismissal, Ask)
    every = {f"{one.__name__}.{field.name}" for one in carriers for field in fields(one)}
    assert tried == (every - {"Step.parcel"}) | {f"Letter.{name}" for name in Letter._fields}
    assert free == set(FREE_OF_CALLS)
    assert run.finish().server.model is not None


@HOSTS
@pytest.mark.parametrize("where", ["head", "newest"])
def test_letters_that_differ_are_refused(of: Federation, kind: type[DeviceHost], where: str):
    run = called(of, Ask("gram"), kind)
    call = run.step(NAME) if where == "head" else run.until_step(Kind.UPDATE, NAME)
    before = memory_of(of, NAME)
    host = run.hosts[NAME]
    parcel = call.parcel
    if where == "head":
        (letter,) = parcel.letters
        other = bytes([letter.head[60] ^ 1])
        changed = Letter(letter.head[:60] + other + letter.head[61:], letter.bulk)
        parcel = replace(parcel, letters=(changed,))
    else:
        parcel = replace(parcel, newest=parcel.newest[:-1] + bytes([parcel.newest[-1] ^ 1]))
    reply = host.handle(replace(call, parcel=parcel))
    assert refused_text(reply) == DOES_NOT_TAKE_PART
    with of.contract_folder(NAME).ledger() as ledger:
        assert len(ledger.contributions) == (where == "newest")
    if where == "head":
        assert memory_of(of, NAME) == before
    assert run.finish().server.model is not None


def test_a_dismissal_is_for_the_devices_own_log(of: Federation, caplog: pytest.LogCaptureFixture):
    assert of.host(NAME, ResidentHost).handle(Dismissal("an edition\nthat is old")) == REFUSED
    (line,) = caplog.messages
    assert line.startswith(f"{NAME} cannot take part: an edition") and "\n" not in line


# -- a server that chooses


@HOSTS
@pytest.mark.parametrize(
    "change",
    [
        {"bounds": Bounds(1.0, 1.0, 2000, 399)},
        {"bounds": Bounds(1.0, 1.0, 1999, 400)},
        {"total_limit": 1 << 40},
        {"recipe": bytes(32)},
        {"epochs": 2},
        {"colluders": 0},
        {"owners": 4},
        {"n_outputs": 5},
        {"masks": False},
    ],
    ids=lambda change: str(*change),
)
def test_parameters_of_the_servers_own_are_refused(
    of: Federation,
    kind: type[DeviceHost],
    change: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
):
    def lie(server: Server) -> None:
        server._session.parameters = replace(server.parameters, **change)

    run, before = called(of, Ask("gram"), kind, change=lie), memory_of(of, NAME)
    assert refused_text(run.hosts[NAME].handle(run.step(NAME))) == DOES_NOT_TAKE_PART
    assert memory_of(of, NAME) == before
    (name,) = change
    assert any(f"{name} must be " in text and "as it follows from the study" in text for text in caplog.messages)


def test_a_server_with_another_key_is_refused(of: Federation):
    run, before = called(of, Ask("gram"), key=Identity(bytes(31) + b"x")), memory_of(of, NAME)
    assert refused_text(run.hosts[NAME].handle(run.step(NAME))) == DOES_NOT_TAKE_PART
    assert memory_of(of, NAME) == before


def test_a_list_that_is_no_union_of_pods_is_not_signed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """A server that forgets about pods gets no signature of anybody."""
    of = federation("linear", tmp_path / "x")

    def forget_pods(server: Server) -> None:
        server.sharing._pods = ()

    names = tuple(name for name in of.roster.keys if name != "clinic-5")
    run = called(of, Ask("gram"), names=names, change=forget_pods)
    for _ in range(12):
        run.turn()
    assert run.server.model is None
    assert {reply.refusal for _, reply in run.replies[-6:] if isinstance(reply, Parcel)} == {DOES_NOT_TAKE_PART}
    words = "refuses a message: a list of owners must have whole pods, got one without 'clinic-5'"
    assert all(f"{name} {words}" in caplog.messages for name in names)


# -- arguments


@HOSTS
def test_a_gram_matrix_is_free_in_every_run_and_merging(of: Federation, kind: type[DeviceHost]):
    """What a server gets with levels merged is a sum of what it gets without."""
    first, again = (called(of, Ask("gram"), kind).finish() for _ in range(2))
    assert np.array_equal(again.server.model, first.server.model)
    called(of, Ask("gram", ((), (), (2, 3))), kind).finish()
    with of.contract_folder(NAME).ledger() as ledger:
        assert [one.statistic for one in ledger.contributions] == ["gram"] * 3


@HOSTS
def test_products_have_one_merging_over_the_life_of_a_study(
    tmp_path: Path, kind: type[DeviceHost], caplog: pytest.LogCaptureFixture
):
    of = pod_of_three("rbf", tmp_path / "x")
    called(of, Ask("products"), kind).finish()
    before = memory_of(of, NAME)
    other = called(of, Ask("products", ((), (), (2, 3))), kind)
    assert other.hosts[NAME].handle(other.step(NAME)) == REFUSED
    assert memory_of(of, NAME) == before
    line = f"{NAME} refuses: arguments of products must be at most 1 over the life of the study, got one more: "
    assert any(one.startswith(line) for one in caplog.messages)


@HOSTS
@pytest.mark.parametrize("points", [1, 2])
def test_so_many_points_for_the_score_as_the_study_says(tmp_path: Path, kind: type[DeviceHost], points: int):
    of = pod_of_three("classes", tmp_path / "x", points=points)
    for number in range(points):
        called(of, score_at(of, number), kind).finish()
    called(of, score_at(of, 0), kind).finish()
    before = memory_of(of, NAME)
    more = called(of, score_at(of, points), kind)
    assert more.hosts[NAME].handle(more.step(NAME)) == REFUSED
    assert memory_of(of, NAME) == before


@HOSTS
def test_a_total_that_the_study_has_not_is_refused(of: Federation, kind: type[DeviceHost]):
    before = memory_of(of, NAME)
    for ask in (Ask("products"), Ask("score"), Ask("other"), Ask("cells", ((), (), (1,)))):
        host = of.host(NAME, kind)
        assert host.handle(Step(bytes(16), NAME, Parcel(0, (), 0), ask=ask.encode())) == REFUSED
    assert memory_of(of, NAME) == before


@HOSTS
def test_questions_count_over_all_runs_of_a_study(tmp_path: Path, kind: type[DeviceHost], caplog: Any):
    """Two runs side by side do not show twice as many directions of X'X."""
    caplog.set_level(logging.ERROR)
    of = pod_of_three("rbf", tmp_path / "x", epochs=4, held_out=0.0, solver="cg")
    first, second = called(of, Ask("products"), kind), called(of, Ask("products"), kind)
    second.until_step(Kind.UPDATE, NAME)
    second.turn()  # the constant
    first.finish()
    with of.contract_folder(NAME).ledger() as ledger:
        assert len(ledger.questions) == 3
    assert refused_text(update_of_its_own(second)) == DOES_NOT_TAKE_PART
    with of.contract_folder(NAME).ledger() as ledger:
        assert len(ledger.questions) == 3
    # A machine that is made anew for each call knows what was answered meanwhile; of one in memory the ledger knows.
    by_machine = f"{NAME} refuses a message: at most 4 different updates were agreed on, got one more"
    by_ledger = f"{NAME} refuses: questions must be at most 3 over the life of the study, got one more"
    assert caplog.messages == [by_ledger if kind is ResidentHost else by_machine]


def update_of_its_own(run: Called) -> object:
    """The server asks for an e that no honest solver would."""
    update = Message.decode(run.until_step(Kind.UPDATE, NAME).parcel.newest)
    asked = Update.decode(update.body)
    assert asked.packed and asked.epoch == 2
    packed = bytes([asked.packed[0] ^ 1]) + asked.packed[1:]
    body = replace(asked, packed=packed).encode()
    newest = update.with_body(body).signed_by(Identity(rehearsal_key(""))).encode()
    call = run.step(NAME)
    return run.hosts[NAME].handle(replace(call, parcel=replace(call.parcel, newest=newest)))


# -- who may start at all


def test_a_device_that_is_not_on_the_roster_with_its_key_does_not_start(of: Federation):
    (of.folder / NAME / "device.key").write_text(bytes(32).hex())
    with pytest.raises(InvalidInput, match=r"^'clinic-0' must be on the roster with this device's key [0-9a-f]{16}"):
        of.host(NAME, ResidentHost)


def test_another_roster_does_not_start(of: Federation):
    save_roster(of.roster.renewed("clinic-1", bytes(32)), of.roster_file)
    with pytest.raises(InvalidInput, match=r"^the roster must be the one that the study names, "):
        of.host(NAME, ResidentHost)
