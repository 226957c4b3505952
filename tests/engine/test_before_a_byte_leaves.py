"""Judged and recorded before a byte leaves: killed at any write to its disk, a device has said nothing that its ledger
does not know."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from study_calls import Called, called, pod_of_three

from approved_studies import Federation, federation
from codedfl.contract.ledger import Ledger
from codedfl.engine.approved_party import ApprovedParty
from codedfl.engine.device_host import DeviceHost
from codedfl.engine.letters import Parcel
from codedfl.engine.resident_host import ResidentHost
from codedfl.errors import InvalidInput
from codedfl.protocol.contribution import OnRing
from codedfl.protocol.messages import Kind, Message, Shares, Update
from codedfl.protocol.prepared_pad import UploadPad
from codedfl.statistics.statistic import Ask
from totals import total_of

NAME = "clinic-0"
HOSTS = pytest.mark.parametrize("kind", [DeviceHost, ResidentHost], ids=["each call a process", "resident"])
WRITES = ("fsync", "fdatasync", "write", "replace", "link", "unlink", "rmdir")


class PowerCut(BaseException):
    """Nothing catches it."""


@contextmanager
def power_until(write: int) -> Iterator[None]:
    """The process ends before this write to the disk."""
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == write:
                raise PowerCut
            return real(*args, **options)

        return call

    with pytest.MonkeyPatch.context() as power:
        for name in WRITES:
            power.setattr(os, name, counted(getattr(os, name)))
        yield


class Dying(Called):
    """A run in which one device dies at each of its writes, one after the other, and is started anew each time."""

    kind: type[DeviceHost]
    deaths: int
    uploads: list[tuple[bytes, bytes]]  # of the replies: commitments to the seeds, and all bytes

    def deliver(self, name: str) -> object:
        if name != NAME:
            return super().deliver(name)
        write = 0
        while True:
            write += 1
            said = self.said()
            try:
                with power_until(write):
                    return self.checked(super().deliver(name))
            except PowerCut:
                self.deaths += 1
                assert self.said() == said  # the reply is lost with the process
                self.hosts[NAME] = self.of.host(NAME, self.kind)
                self.check_ledger()

    def said(self) -> int:
        return sum(name == NAME for name, _ in self.replies)

    def checked(self, reply: object) -> object:
        self.check_ledger()
        for letter in reply.letters if isinstance(reply, Parcel) else ():
            message = Message.decode(letter.head)
            if message.kind is Kind.SHARES:  # it may come many times: until the server has said that it has it
                committed = Shares.decode(message.body).commitments.digest
                self.uploads.append((committed, letter.head + letter.bulk))
        return reply

    def check_ledger(self) -> None:
        """What has left is in the ledger on the disk: the contribution with the join, each question with its answer."""
        with self.of.contract_folder(NAME).ledger() as ledger:
            runs = [one.run for one in ledger.contributions]
            assert runs == [self.server.run] or not (runs or self.said())
            known = {question for _, question in ledger.questions}
        answers = [reply for name, reply in self.replies if name == NAME and isinstance(reply, Parcel) and reply.newest]
        assert len(known) >= len(answers) - 1, "one of the answers is the constant"


def dying(of: Federation, ask: Ask, kind: type[DeviceHost]) -> Dying:
    made = called(of, ask, kind)
    made.__class__ = Dying
    assert isinstance(made, Dying)
    made.kind, made.deaths, made.uploads = kind, 0, []
    return made


@HOSTS
def test_a_device_that_dies_at_every_write_has_recorded_what_left(tmp_path: Path, kind: type[DeviceHost]):
    of = pod_of_three("linear", tmp_path / "x", held_out=0.0)
    run = dying(of, Ask("gram"), kind).finish()
    assert run.deaths > 30
    assert run.server.model is not None
    total = [int(one) for one in run.server.model.ravel()]
    assert total == total_of(of.study, Ask("gram"), list(of.snapshots().values()))
    assert not list((of.folder / NAME / "runs").glob("*/*"))


@pytest.mark.parametrize(("study", "ask"), [("linear", "gram"), ("noise", "products")])
def test_a_ledger_that_is_written_after_the_state_lacks_what_left(
    tmp_path: Path, study: str, ask: str, monkeypatch: pytest.MonkeyPatch
):
    """A11, for role keys and role sums. On the old rule, a mutant, a device that dies in between joins unrecorded."""
    names = tuple(f"clinic-{i}" for i in range(5 if study == "noise" else 3))
    of = federation(study, tmp_path / "x", names=names, held_out=0.0)
    begin, keep, late = ApprovedParty.begin, DeviceHost._keep, list[tuple[Any, ...]]()

    def save_first(host: DeviceHost, hosted: Any, **options: Any) -> None:
        keep(host, hosted, **options)
        here = [args for args in late if args[0] is host.party]  # what a process had in mind dies with it
        late.clear()
        for args in here:
            begin(*args)

    with monkeypatch.context() as former:
        former.setattr(ApprovedParty, "begin", lambda *args: late.append(args))
        former.setattr(DeviceHost, "_keep", save_first)
        run = dying(of, Ask(ask), DeviceHost)
        with pytest.raises(AssertionError):
            run.finish()
    of = federation(study, tmp_path / "y", names=names, held_out=0.0)
    run = dying(of, Ask(ask), DeviceHost)
    run.until_step(Kind.AGREEMENT, NAME)
    run.deliver(NAME)
    assert run.deaths > 10


@HOSTS
def test_an_upload_comes_again_byte_for_byte_or_with_fresh_seeds(
    tmp_path: Path, kind: type[DeviceHost], monkeypatch: pytest.MonkeyPatch
):
    """It travels unsealed: another table under the same seeds would tell every listener the difference."""
    drawn: list[bytes] = []
    padded = UploadPad.padded

    def noted(pad: UploadPad, own: OnRing) -> bytes:
        drawn.extend(pad.seeds)
        return padded(pad, own)

    monkeypatch.setattr(UploadPad, "padded", noted)
    run = dying(pod_of_three("linear", tmp_path / "x", held_out=0.0), Ask("gram"), kind).finish()
    assert len(drawn) > 2 * 3, "it must have died between padding and saving"
    assert len(set(drawn)) == len(drawn)
    assert run.uploads
    assert len(set(run.uploads)) == len({committed for committed, _ in run.uploads}) == 1


@HOSTS
def test_questions_are_recorded_before_their_answers_leave(tmp_path: Path, kind: type[DeviceHost]):
    of = pod_of_three("rbf", tmp_path / "x", held_out=0.0, epochs=3, solver="cg", n_features=6)
    run = dying(of, Ask("products"), kind).finish()
    assert run.deaths > 30
    with of.contract_folder(NAME).ledger() as ledger:
        assert len(ledger.questions) == 2
        assert len(ledger.contributions) == 1


def test_an_answer_does_not_leave_if_its_question_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_power_cuts: None
):
    """The ledger is full, or its disk is: the device answers nothing, and is as before."""
    of = pod_of_three("rbf", tmp_path / "x", held_out=0.0, epochs=3, solver="cg", n_features=6)
    run = called(of, Ask("products"))
    message = Message.decode(run.until_step(Kind.UPDATE, NAME).parcel.newest)
    while not question(message):
        run.turn()
        message = Message.decode(run.until_step(Kind.UPDATE, NAME).parcel.newest)
    call = run.step(NAME)

    def full(self: Ledger, *args: Any) -> None:
        raise InvalidInput("the ledger must have room, got a full disk")

    with monkeypatch.context() as disk:
        disk.setattr(Ledger, "answer", full)
        reply = run.hosts[NAME].handle(call)
        assert not isinstance(reply, Parcel)
    with of.contract_folder(NAME).ledger() as ledger:
        assert not ledger.questions
    run.finish()
    with of.contract_folder(NAME).ledger() as ledger:
        assert question(message) in {one for _, one in ledger.questions}


def question(message: Message) -> bytes:
    """What the ledger keeps of an update; empty for the one that asks for the constant."""
    packed = Update.decode(message.body).packed
    return hashlib.sha256(packed).digest() if packed else b""
