"""Server and devices at a broker that loses, repeats and reorders, and is itself restarted: the model is the same."""

from __future__ import annotations

import itertools
import logging
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_broker import STUDY, FakeBroker, Fleet

from codedfl.engine.conductor import Patience
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.state_folder import INDEX
from codedfl.errors import NotEnoughDevices
from codedfl.mqtt import topics
from codedfl.mqtt.frames import Envelope, Fetch, Piece, read_frame
from codedfl.protocol.messages import VERSION
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import run_in_process
from lab_party import LabParty
from scenario import Scenario, descent

SCHEMES: dict[str, SharingScheme] = {
    "coded-padded": CODED_PADDED,
    "coded-keys": CODED_KEYS,
}


LONG = Patience(5, 5, 600.0, 600.0, 600.0)


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Waiting for the disk is most of the time these tests take."""
    caplog.set_level(logging.INFO, "codedfl")
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda handle: None)


@pytest.fixture(params=SCHEMES)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    scheme = SCHEMES[request.param]
    return Scenario(sizes=(3, 5, 2, 4, 3), alpha=3, d=40, scheme=scheme)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bulk of a few kilobytes then goes in many pieces."""
    for module in ("frames", "fetching"):
        monkeypatch.setattr(f"codedfl.mqtt.{module}.PIECE_BYTES", 300)


def took_part_and_forgot(host: ResidentHost) -> bool:
    """Whether its run is over: it has brought its rows, and keeps nothing of it."""
    assert isinstance(host.party, LabParty)
    return "rows" in host.party.asked and not any(host.folder.glob(f"*/{INDEX}"))


def expected(scenario: Scenario, epochs: int = 4) -> np.ndarray:
    return run_in_process(scenario.server(descent(epochs)), scenario.devices())


def test_the_model_is_the_one_of_the_in_process_run(scenario: Scenario, tmp_path: Path):
    fleet = Fleet(scenario, tmp_path, FakeBroker())
    epochs: list[int] = []
    model = fleet.conductor(descent, on_epoch=epochs.append).run()
    assert np.array_equal(model, expected(scenario))
    assert epochs == [1, 2, 3, 4]
    assert fleet.leftovers() == []
    assert fleet.broker.now < 3.0


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(4))
def test_lost_repeated_and_reordered_deliveries_change_nothing(scenario: Scenario, tmp_path: Path, seed: int):
    rng = random.Random(seed)
    broker = FakeBroker(
        fault=lambda *_: rng.choice(["", "", "", "", "", "lose", "twice", "late"]),
        work=lambda device: rng.uniform(0.01, 0.4),
    )
    fleet = Fleet(scenario, tmp_path, broker, patience=LONG)
    model = fleet.conductor(descent).run()
    assert np.array_equal(model, expected(scenario))
    assert fleet.leftovers() == []


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(3))
def test_connections_that_break_at_any_moment_change_nothing(scenario: Scenario, tmp_path: Path, seed: int):
    rng = random.Random(seed)
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    turns = itertools.count()

    def tick() -> None:
        if next(turns) % 9 == 0 and broker.now < 40:
            broker.cut(rng.choice(broker.links), rng.uniform(0.1, 2.0))

    broker.tick = tick
    model = fleet.conductor(lambda: descent(12)).run()
    assert np.array_equal(model, expected(scenario, 12))
    assert fleet.leftovers() == []


@pytest.mark.parametrize("when", [0.12, 0.5, 1.2])
def test_a_broker_that_is_killed_and_restarted_loses_nothing(scenario: Scenario, tmp_path: Path, when: float):
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    broker.at(when, broker.restart)
    broker.at(when + 6.0, broker.restart)
    model = fleet.conductor(lambda: descent(30)).run()
    assert np.array_equal(model, expected(scenario, 30))
    assert broker.now > when + 1.0
    assert fleet.leftovers() == []


@pytest.mark.parametrize("when", [0.15, 0.45, 1.2])
def test_a_device_that_is_killed_and_restarted_goes_on(scenario: Scenario, tmp_path: Path, when: float):
    """alpha = 1: nobody can be spared, so the run ends only if it comes back with its state."""
    scenario.alpha = 1
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    broker.at(when, lambda: fleet.kill("device-2"))
    broker.at(when + 5.0, lambda: fleet.start("device-2"))
    model = fleet.conductor(lambda: descent(20)).run()
    assert np.array_equal(model, expected(scenario, 20))
    assert broker.now > when + 5.0
    assert fleet.leftovers() == []


def test_a_server_killed_anywhere_goes_on_from_its_checkpoint(scenario: Scenario, tmp_path: Path):
    class Killed(Exception):
        pass

    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    rng, budget, starts, runs = random.Random(3), 0, 0, set()

    def tick() -> None:
        nonlocal budget
        budget -= 1
        if budget < 0:
            raise Killed

    broker.tick = tick
    while True:
        budget, starts = rng.randrange(10, 40), starts + 1
        conductor = fleet.conductor(lambda: descent(10))
        try:
            model = conductor.run()
            break
        except Killed:
            if conductor.server is not None and conductor.server.phase is not Phase.JOINING:
                runs.add(conductor.server.run)
    assert starts > 3
    assert len(runs) == 1
    assert np.array_equal(model, expected(scenario, 10))


def pieces_sent(broker: FakeBroker, device: str) -> list[int]:
    """Of its largest message."""
    sent = [payload for sender, topic, payload in broker.sent if sender == device and topic.endswith("/out")]
    pieces = [frame for payload in sent if isinstance(frame := read_frame(payload), Piece)]
    upload = max(pieces, key=lambda piece: piece.index, default=None)
    return [piece.index for piece in pieces if upload is not None and piece.digest == upload.digest]


@pytest.mark.usefixtures("small_pieces")
def test_an_upload_cut_in_the_middle_goes_on_where_it_stopped(tmp_path: Path):
    scenario = Scenario((3, 5, 2, 4, 3), alpha=3, d=60, scheme=CODED_KEYS)
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    cut = False

    def fault(sender: str, topic: str, payload: bytes) -> str:
        nonlocal cut
        if not cut and sender == "device-1" and len(pieces_sent(broker, "device-1")) == 15:
            cut = True
            broker.at(0.0, lambda: broker.cut(fleet.devices["device-1"], 2.0))
        return ""

    broker.fault = fault
    model = fleet.conductor(descent).run()
    assert np.array_equal(model, expected(scenario))
    assert cut
    indices = pieces_sent(broker, "device-1")
    whole = max(indices) + 1
    assert whole > 30
    assert set(indices) == set(range(whole))
    assert len(indices) <= whole + 8  # what was on the way, and nothing that was here


@pytest.mark.usefixtures("small_pieces")
def test_no_more_pieces_are_on_the_way_than_agreed(tmp_path: Path):
    scenario = Scenario((2,) * 12, alpha=3, d=60, scheme=CODED_KEYS)
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    on_the_way: dict[str, int] = {}
    most: list[tuple[int, int]] = []

    def fault(sender: str, topic: str, payload: bytes) -> str:
        frame = read_frame(payload)
        if isinstance(frame, Fetch) and sender == "server":
            device = topics.device_of(topic)
            on_the_way[device] = on_the_way.get(device, 0) + len(frame.pieces)
        elif isinstance(frame, Piece) and sender != "server":
            on_the_way[sender] -= 1
        if on_the_way:
            most.append((max(on_the_way.values()), sum(on_the_way.values())))
        return ""

    broker.fault = fault
    fleet.conductor(descent).run()
    assert max(each for each, _ in most) == 8
    assert 50 < max(in_all for _, in_all in most) <= 64 + 12  # a piece counts as come when the server has taken it


def test_a_device_that_is_away_is_sent_nothing(scenario: Scenario, tmp_path: Path):
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    broker.at(0.8, lambda: fleet.kill("device-4"))
    inbox = topics.inbox(STUDY, "device-4")
    fleet.conductor(lambda: descent(40)).run()
    times = [index for index, (_, topic, _) in enumerate(broker.sent) if topic == inbox]
    gone = next(
        i for i, (_, topic, load) in enumerate(broker.sent) if topic == topics.presence(STUDY, "device-4") and not load
    )
    assert times and sum(index > gone for index in times) <= 1  # one may have crossed the news
    assert inbox not in broker.retained


def test_a_straggler_gets_the_newest_update_and_never_a_queue_of_them(scenario: Scenario, tmp_path: Path):
    broker = FakeBroker(work=lambda device: 2.0 if device == "device-1" else 0.02)
    fleet = Fleet(scenario, tmp_path, broker)
    fleet.conductor(lambda: descent(60)).run()
    calls = {
        name: sum(
            topic == topics.inbox(STUDY, name) and isinstance(read_frame(load), Envelope)
            for _, topic, load in broker.sent
        )
        for name in ("device-0", "device-1")
    }
    assert 5 < calls["device-1"] < calls["device-0"] / 4


def test_a_device_that_leaves_with_its_last_reply_was_told(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """``codedfl join --once`` ends as soon as it has replied to the end of the run."""
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)

    def tick() -> None:
        for name, link in fleet.devices.items():
            host = link.owner._host if link.owner is not None else None
            if host is not None and took_part_and_forgot(host) and link.connected:
                link.publish(topics.presence(STUDY, name), b"", retain=True)
                fleet.kill(name)

    broker.latency = 0.0
    broker.tick = tick
    model = fleet.conductor(descent).run()
    assert np.array_equal(model, expected(scenario))
    assert not [text for _, _, text in caplog.record_tuples if text.startswith("not told")]
    assert broker.now < 10.0


# -- who does not belong


def errors(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(name, text) for name, level, text in caplog.record_tuples if level == logging.ERROR]


def test_a_stranger_under_anothers_name_is_turned_away(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """At a broker without access lists: its presence takes the place of the true one's, its signature does not."""
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)
    thief = replace(fleet.host("device-0", "thief.key"), folder=tmp_path / "thief")
    broker.at(0.6, lambda: fleet.start("device-0", thief))
    model = fleet.conductor(lambda: descent(20)).run()
    assert np.array_equal(model, expected(scenario, 20))
    told = [text for name, text in errors(caplog) if name == "codedfl.engine.server"]
    assert any("cannot take part: the key of 'device-0' must be" in text for text in told)
    assert not list((tmp_path / "thief").rglob("*")) if (tmp_path / "thief").exists() else True


def test_a_device_of_another_study_is_told_so_at_both_ends(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker, patience=Patience(5, 5, 5.0))
    fleet.kill("device-4")
    fleet.start("device-4", digest=b"\x01" * 32)
    conductor = fleet.conductor(descent)
    with pytest.raises(NotEnoughDevices, match=r"^after 5 s at least 5 devices must take part, got 4 "):
        conductor.run()
    reason = (
        "device-4 cannot take part: the study must be 0000000000000000 as the server has it, got 0101010101010101:"
        " codedfl study approve there, with the server's file"
    )
    assert errors(caplog) == [("codedfl.engine.server", reason), ("codedfl.engine.device", reason)]


def test_a_device_of_another_version_is_told_so_at_both_ends(
    scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("codedfl.engine.device_host.VERSION", 9)
    fleet = Fleet(scenario, tmp_path, FakeBroker(), patience=Patience(5, 5, 5.0))
    conductor = fleet.conductor(descent)
    with pytest.raises(NotEnoughDevices, match=r"got 0 \(none\)$"):
        conductor.run()
    texts = [text for _, text in errors(caplog)]
    assert f"device-0 refuses: the protocol version must be 9 on this node, got {VERSION}" in texts
    assert sum("cannot take part: the protocol version must be 9 on this node" in text for text in texts) == 5


def test_a_server_that_is_not_there_is_noticed(scenario: Scenario, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    broker = FakeBroker()
    Fleet(scenario, tmp_path, broker)
    broker.advance(15.0, lambda: False)
    expected_line = f"device-0: no server serves the study {STUDY!r} at this broker yet"
    assert ("codedfl.engine.device", logging.WARNING, expected_line) in caplog.record_tuples


@pytest.mark.parametrize("junk", [b"", b"\x93", b"\x91\xa4call", b"\x92\xa5fetch\x01", bytes(1000)])
def test_junk_in_an_outbox_or_inbox_changes_nothing(scenario: Scenario, tmp_path: Path, junk: bytes):
    broker = FakeBroker()
    fleet = Fleet(scenario, tmp_path, broker)

    def throw() -> None:
        for name in scenario.names:
            for topic in (topics.inbox(STUDY, name), topics.outbox(STUDY, name)):
                broker.published("stranger", topic, junk, False)

    for moment in (0.2, 0.5, 0.9):
        broker.at(moment, throw)
    model = fleet.conductor(descent).run()
    assert np.array_equal(model, expected(scenario))
