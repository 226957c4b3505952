"""A daemon of the package takes the frames of the broker's vectors, and sends theirs byte for byte."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

from codedfl.crypto.sealed import Identity
from codedfl.engine.resident_host import ResidentHost
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.daemon import DeviceDaemon
from codedfl.mqtt.link import Event, Received
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads
from codedfl.protocol.schemes.role_keys import ROLE_KEYS
from spec import make_vectors

(CASE,) = json.loads((make_vectors.FOLDER / "broker.json").read_text(encoding="utf-8"))["cases"]


def secret(label: str, count: int = 32) -> bytes:
    return hashlib.shake_256(label.encode()).digest(count)


class OneParty:
    """The device of the case, for whatever ask."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._case, self._numbered = case, itertools.count()
        self.asks: list[bytes] = []
        self.questions = 0

    def check_approved(self) -> None:
        """It is."""

    def begin(self, ask: bytes, run: bytes) -> None:
        del run
        self.asks.append(ask)

    def device(self, ask: bytes, *, used: bool, pads: PreparedPads | None) -> Device:
        del ask, pads  # its secrets are drawn by number, nothing beforehand
        case, name = self._case, self._case["name"]
        return Device(
            RunPlan(ROLE_KEYS, Parameters.decode(bytes.fromhex(case["parameters"])), tuple(case["pods"][0]), blocks=2),
            name,
            None if used else Rows(case["X"], case["Y"]),
            identity=Identity(secret(name)),
            random_bytes=lambda count: secret(f"{name} {next(self._numbered)}", count),
        )

    def pad_layout(self) -> PadLayout | None:
        return None

    def keep(self, ask: bytes, device: Device) -> None:
        del ask
        self.questions = len(device.questions)


class Wire:
    """A connection on which one frame comes in at a time."""

    def __init__(self) -> None:
        self.comes: list[Event] = []
        self.sent: list[bytes] = []

    def subscribe(self, *topics: str) -> None:
        """Nothing is retained here."""

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        assert topic == topics.outbox(CASE["study"], CASE["name"]) and not retain
        self.sent.append(payload)

    def events(self, seconds: float) -> list[Event]:
        del seconds
        found, self.comes = self.comes, []
        return found


def test_frames(tmp_path: Path) -> None:
    party, line, name = OneParty(CASE), Wire(), CASE["name"]
    host = ResidentHost(name, Identity(secret(name)), tmp_path / "runs", bytes.fromhex(CASE["server"]), party)
    daemon = DeviceDaemon(line, host, CASE["study"], bytes(32))
    for frame in CASE["frames"]:
        line.comes, line.sent = [Received(topics.inbox(CASE["study"], name), bytes.fromhex(frame["receives"]))], []
        daemon.turn(0.0)
        assert [one.hex() for one in line.sent] == frame["sends"], frame["what"]
    assert (party.asks, party.questions) == ([bytes.fromhex(CASE["ask"])], 2)
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.is_file() and path.stat().st_size]


def test_the_client_id(tmp_path: Path) -> None:
    key = tmp_path / "device.key"
    key.write_bytes(bytes.fromhex(CASE["key_file"]))
    address = BrokerAddress("localhost", 8883, tls=True, certificate=key, key=key)
    assert address.client_id(f"{CASE['name']}-{CASE['study']}") == CASE["client_id"]
