"""Seeds and keys leave the disk when they leave the memory, and old runs when nobody hears of them any more."""

from __future__ import annotations

import logging
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgpack
import pytest
from study_calls import Called, called, memory_of, pod_of_three

from approved_studies import Federation, federation
from codedfl.crypto.sealed import RunKey
from codedfl.engine.calls import Hello, Refused
from codedfl.engine.device_host import EXPIRY_SECONDS, KEEP_SECONDS, DeviceHost
from codedfl.engine.letters import Letter, Parcel
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.state_folder import INDEX, StateFolder
from codedfl.mqtt import joining
from codedfl.protocol.messages import VERSION, Commitments, Kind, Message, Update
from codedfl.protocol.schemes.role_keys.device import RoleDeviceSharing
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from codedfl.statistics.statistic import Ask

pytestmark = pytest.mark.usefixtures("no_power_cuts")
NAME = "clinic-0"
HOSTS = pytest.mark.parametrize("kind", [DeviceHost, ResidentHost], ids=["each call a process", "resident"])


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[bytes]]:
    """Every seed and run key that a device has ever held, by its name."""
    held: dict[str, set[bytes]] = defaultdict(set)
    take, generate = RoleDeviceSharing._take_seed, RunKey.generate.__func__

    def noted(self: RoleDeviceSharing, owner: int, seed: bytes, commitments: Commitments) -> None:
        take(self, owner, seed, commitments)
        held[self._session.name].add(seed)

    def drawn(cls: type[RunKey], *args: Any) -> RunKey:
        key = generate(cls, *args)
        held["keys"].add(key.secret)
        return key

    monkeypatch.setattr(RoleDeviceSharing, "_take_seed", noted)
    monkeypatch.setattr(RunKey, "generate", classmethod(drawn))
    return held


def on_disk(of: Federation, name: str, secrets: set[bytes]) -> int:
    """How many of the secrets are in a byte of the device's folder, in whichever file."""
    content = b"\n".join(memory_of(of, name).values())
    return sum(secret in content for secret in secrets)


def is_question(call: Any) -> bool:
    return bool(call.parcel.newest) and bool(Update.decode(Message.decode(call.parcel.newest).body).packed)


@HOSTS
def test_the_end_of_a_run_counts_behind_a_letter_that_is_refused(tmp_path: Path, seeds: Any, kind: type[DeviceHost]):
    """It comes again with every call and is refused again: secrets must not wait behind it for the day they expire."""
    of = pod_of_three("rbf", tmp_path)
    run = called(of, Ask("products"), kind)
    up_to_the_first_question(run)
    assert on_disk(of, NAME, seeds[NAME] | seeds["keys"]) > 0
    run.lines[NAME].put(Letter(b"no message"))
    for _ in range(100):
        for name in set(run.hosts) - {NAME}:
            run.deliver(name)
    assert run.over
    reply = run.deliver(NAME)
    assert isinstance(reply, Parcel) and reply.refusal == DOES_NOT_TAKE_PART
    assert on_disk(of, NAME, seeds[NAME] | seeds["keys"]) == 0


def up_to_the_first_question(run: Called) -> None:
    """The next call brings the first update with numbers; the epoch of the constant is decoded."""
    for _ in range(50):
        run.until_step(Kind.UPDATE, NAME)
        if is_question(run.step(NAME)):
            return
        run.turn()
    raise AssertionError("there must be a question")


@HOSTS
def test_seeds_are_in_no_byte_after_the_first_answer_to_an_update(
    tmp_path: Path, kind: type[DeviceHost], seeds: dict[str, set[bytes]]
):
    of = pod_of_three("rbf", tmp_path / "x", held_out=0.0)
    run = called(of, Ask("products"), kind)
    up_to_the_first_question(run)
    assert len(seeds[NAME]) == 3
    assert on_disk(of, NAME, seeds[NAME]) == 3  # that the test can fail
    former = [path.open("rb") for path in (of.folder / NAME / "runs").rglob("*") if path.is_file()]
    run.deliver(NAME)
    assert on_disk(of, NAME, seeds[NAME]) == 0
    for stream in former:  # what is still open was overwritten, if it is not in use any more
        with stream:
            assert not any(seed in stream.read() for seed in seeds[NAME])
    run.turn()
    for name in of.names:
        assert on_disk(of, name, seeds[name]) == 0
    run.finish()


def test_states_that_only_grow_keep_every_seed(
    tmp_path: Path, seeds: dict[str, set[bytes]], monkeypatch: pytest.MonkeyPatch
):
    """A6 on the old rule, as a mutant: what changed is appended, and nothing is written anew for what was forgotten."""
    keep = DeviceHost._keep
    monkeypatch.setattr(DeviceHost, "_keep", lambda host, hosted, forgot: keep(host, hosted, forgot=False))
    of = pod_of_three("rbf", tmp_path / "x", held_out=0.0)
    run = called(of, Ask("products"), ResidentHost)
    up_to_the_first_question(run)
    run.deliver(NAME)
    assert on_disk(of, NAME, seeds[NAME]) == 3


@HOSTS
@pytest.mark.parametrize(("study", "ask"), [("linear", "gram"), ("rbf", "products"), ("noise", "products")])
def test_nothing_secret_is_left_at_the_end_of_a_run(
    tmp_path: Path, kind: type[DeviceHost], study: str, ask: str, seeds: dict[str, set[bytes]]
):
    names = tuple(f"clinic-{i}" for i in range(5 if study == "noise" else 3))
    of = federation(study, tmp_path / "x", names=names, held_out=0.0)
    run = called(of, Ask(ask), kind)
    run.until(lambda: len(seeds[NAME]) == len(names))
    assert on_disk(of, NAME, seeds[NAME]) == len(names)
    assert on_disk(of, NAME, seeds["keys"]) == 2  # its own, and that of its role
    run.finish()
    for name in names:
        assert on_disk(of, name, seeds[name] | seeds["keys"]) == 0
        assert not list((of.folder / name / "runs").iterdir())


@HOSTS
def test_seeds_of_owners_that_are_left_out_go_with_the_list(
    tmp_path: Path, kind: type[DeviceHost], seeds: dict[str, set[bytes]]
):
    """clinic-5 never uploads, so its pod is left out: what clinic-4 and clinic-6 shared must not be kept."""
    of = federation("linear", tmp_path / "x")
    run = called(of, Ask("gram"), kind)
    run.until_step(Kind.AGREEMENT, "clinic-5")
    hosts = run.hosts
    run.hosts = {name: host for name, host in hosts.items() if name != "clinic-5"}
    run._put(run.server.go_on_without(["clinic-5"]))  # others draw the key of its role
    for _ in range(6):
        run.turn()
    assert on_disk(of, NAME, seeds[NAME]) == len(seeds[NAME]) == 6
    run._put(run.server.go_on_without(["clinic-5"]))
    run.until_step(Kind.UPDATE, NAME)
    assert on_disk(of, NAME, seeds[NAME]) == 4
    run.finish()
    assert on_disk(of, NAME, seeds[NAME]) == 0


# -- runs that nobody hears of any more


def left_alone(of: Federation, kind: type[DeviceHost] = ResidentHost) -> Called:
    run = called(of, Ask("gram"), kind)
    run.until_step(Kind.UPDATE, NAME)
    return run


def age(folder: Path, seconds: float) -> None:
    """As if everything below had been written so long ago."""
    then = time.time() - seconds
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


@pytest.mark.parametrize(("days_more", "wiped"), [(1, True), (-1, False)])
def test_a_process_that_starts_wipes_what_is_old_before_any_call(
    tmp_path: Path, days_more: int, wiped: bool, seeds: dict[str, set[bytes]], caplog: pytest.LogCaptureFixture
):
    of = pod_of_three("linear", tmp_path / "x")
    left_alone(of)
    age(of.folder, KEEP_SECONDS + 86400 * days_more)
    assert on_disk(of, NAME, seeds[NAME] | seeds["keys"]) > 0
    with caplog.at_level(logging.WARNING):
        assert joining._until(of.host(NAME, ResidentHost), lambda: False)() is False
    assert (on_disk(of, NAME, seeds[NAME] | seeds["keys"]) == 0) is wiped
    assert (f"{NAME}: a run not heard of for 30 days is wiped" in caplog.messages) is wiped


@pytest.mark.parametrize(("study", "ask"), [("linear", "gram"), ("noise", "products")])
def test_expiry_that_waits_for_a_step_keeps_everything(
    tmp_path: Path, study: str, ask: str, seeds: dict[str, set[bytes]], monkeypatch: pytest.MonkeyPatch
):
    """A13 on the old rule, as a mutant, for role keys and role sums: no step comes, and nothing goes."""
    names = tuple(f"clinic-{i}" for i in range(5 if study == "noise" else 3))
    of = federation(study, tmp_path / "x", names=names, held_out=0.0)
    run = called(of, Ask(ask))
    run.until(lambda: len(seeds[NAME]) == len(names))
    age(of.folder, 3 * KEEP_SECONDS)
    held = seeds[NAME] | seeds["keys"]
    with monkeypatch.context() as former:
        former.setattr(ResidentHost, "expire", lambda host: None)
        joining._until(of.host(NAME, ResidentHost), lambda: False)()
        assert on_disk(of, NAME, held) == len(names) + 2  # its run key and that of its role
    joining._until(of.host(NAME, ResidentHost), lambda: False)()
    assert on_disk(of, NAME, held) == 0


def test_a_process_that_stays_looks_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: dict[str, set[bytes]]
):
    of = pod_of_three("linear", tmp_path / "x")
    run = left_alone(of)
    host = run.hosts[NAME]
    assert isinstance(host, ResidentHost) and host._memory.run is not None
    now = [1000.0]
    monkeypatch.setattr(joining.time, "monotonic", lambda: now[0])
    done = joining._until(host, lambda: False)
    done()
    age(of.folder, KEEP_SECONDS + 1)
    for hours, gone in ((12, False), (25, True)):
        now[0] = 1000.0 + hours * EXPIRY_SECONDS / 24
        assert done() is False
        assert (on_disk(of, NAME, seeds[NAME] | seeds["keys"]) == 0) is gone
        assert (host._memory.run is None) is gone
    # The server that comes back after all is refused: it would get answers that nobody remembers.
    assert host.handle(run.step(NAME)) == Refused(DOES_NOT_TAKE_PART)


def test_what_was_approved_and_contributed_never_expires(tmp_path: Path):
    of = pod_of_three("linear", tmp_path / "x")
    left_alone(of)
    before = {path: data for path, data in memory_of(of, NAME).items() if "/runs/" not in path}
    age(of.folder, 100 * KEEP_SECONDS)
    of.host(NAME, ResidentHost).expire()
    assert memory_of(of, NAME) == before
    with of.contract_folder(NAME).ledger() as ledger:
        assert len(ledger.contributions) == 1


# -- what another version left


@HOSTS
def test_a_state_of_another_version_is_one_line(
    tmp_path: Path, kind: type[DeviceHost], caplog: pytest.LogCaptureFixture
):
    of = pod_of_three("linear", tmp_path / "x")
    run = left_alone(of, kind)
    (folder,) = (path.parent for path in (of.folder / NAME / "runs").glob(f"*/{INDEX}"))
    state = StateFolder(folder)
    with pytest.MonkeyPatch.context() as former:
        former.setattr("codedfl.engine.state_folder._FORMAT", "codedfl-state-3")
        state.save({"run": run.server.run, "device": {}})
    assert msgpack.unpackb((folder / INDEX).read_bytes()[32:])["format"] == "codedfl-state-3"
    run.hosts[NAME] = of.host(NAME, kind)
    caplog.clear()
    assert run.hosts[NAME].handle(run.step(NAME)) == Refused(DOES_NOT_TAKE_PART)
    assert caplog.messages == [
        f"{NAME} refuses: a saved state must have format codedfl-state-4, got 'codedfl-state-3': it is of another"
        f" version; delete {str(folder)!r} and start a new run"
    ]


@HOSTS
def test_a_server_of_another_version_is_one_line(
    tmp_path: Path, kind: type[DeviceHost], caplog: pytest.LogCaptureFixture
):
    of = pod_of_three("linear", tmp_path / "x")
    rule = "the protocol version must be 3 on this node, got 2"
    assert VERSION == 3
    hello = Hello(b"challenge", bytes.fromhex(of.study.server_key), 2)
    assert of.host(NAME, kind).handle(hello) == Refused(rule)
    assert caplog.messages == [f"{NAME} refuses: {rule}"]
