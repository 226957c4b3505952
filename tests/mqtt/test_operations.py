"""What happens to machines in a year: certificates that expire, are renewed or revoked, clocks, disks; on both brokers.

What is tried here is said in docs/deploy-broker.md.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from codedfl.crypto import authority
from codedfl.errors import InvalidInput
from codedfl.mqtt import topics
from codedfl.mqtt.address import BrokerAddress
from codedfl.mqtt.broker_folder import MOSQUITTO, SMALL, BrokerFolder
from codedfl.mqtt.link import BrokerFailed, BrokerLink, LinkUp, Will
from running_broker import HOST, Parties, RunningBroker
from wording import exactly

pytestmark = [
    pytest.mark.hospitals,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),  # connections cut on purpose
]


class Mosquitto:
    """As ``RunningBroker``, with the program itself."""

    def __init__(self, path: Path, devices: list[str]) -> None:
        with socket.socket() as free:
            free.bind((HOST, 0))
            self.port = free.getsockname()[1]
        self.folder = BrokerFolder.create(path, [HOST], self.port, HOST)
        self.parties = Parties(self.folder, path.with_name("parties"), devices)

    def __enter__(self) -> Mosquitto:
        self.start()
        return self

    def start(self) -> None:
        program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program is not None
        log = (self.folder.path / "log").open("ab")
        self._process = subprocess.Popen([program, "-c", str(self.folder.path / "mosquitto.conf")], stderr=log)
        log.close()
        until = time.monotonic() + 20
        while True:
            try:
                socket.create_connection((HOST, self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(10)

    def __exit__(self, *_: object) -> None:
        self.stop()

    def address(self, party: str) -> BrokerAddress:
        return self.parties.address(party, self.port)

    def renew(self, party: str) -> None:
        self.parties.renew(party)


@pytest.fixture(params=[SMALL, MOSQUITTO])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == MOSQUITTO and shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip("mosquitto is not installed")
    with (RunningBroker if request.param == SMALL else Mosquitto)(tmp_path / "b", ["device-0", "device-1"]) as running:
        yield running


def opened(address: BrokerAddress, device: str = "device-0") -> BrokerLink:
    link = BrokerLink(address, device, Will(topics.presence("stays", device)))
    link.open()
    assert link.events(10.0)[:1] == [LinkUp()]
    return link


def issued(broker: Any, monkeypatch: pytest.MonkeyPatch, days: int, begins: timedelta) -> None:
    """A certificate for device-0 whose time begins then, by everybody's clock."""
    with monkeypatch.context() as patch:
        patch.setattr(authority, "_SLACK", -begins)
        patch.setattr("codedfl.mqtt.broker_folder.DAYS", days)
        broker.renew("device-0")


def unchecked(address: BrokerAddress, monkeypatch: pytest.MonkeyPatch) -> BrokerAddress:
    """A device whose clock is wrong does not see it: only the broker does."""
    monkeypatch.setattr(BrokerAddress, "named", lambda self: None)
    return address


@pytest.mark.parametrize(
    ("days", "begins"),
    [(1, timedelta(days=-2)), (365, timedelta(days=1))],
    ids=["expired yesterday", "a clock that is a day late"],
)
def test_a_certificate_that_is_not_valid_now(
    broker: Any, monkeypatch: pytest.MonkeyPatch, days: int, begins: timedelta
):
    issued(broker, monkeypatch, days, begins)
    address = broker.address("device-0")
    message = (
        r"^the certificate must be valid now, [-\d]+ [:\d]+ by this clock, got one from [-\d]+ [:\d]+ to [-\d]+ [:\d]+:"
        r" set the clock, or request another \(codedfl site enrol\)$"
    )
    with pytest.raises(InvalidInput, match=message):
        opened(address)
    let_in = (
        f"the broker at {address} must let this party in, got a closed connection: is its certificate signed by the"
        " broker's authority, in date by the broker's clock, and not revoked?"
    )
    with pytest.raises(BrokerFailed, match=exactly(let_in)):
        opened(unchecked(address, monkeypatch))


def test_the_brokers_own_certificate_expires_and_is_renewed(broker: Any, monkeypatch: pytest.MonkeyPatch):
    """The names stay, and so does the authority: devices notice nothing."""
    with monkeypatch.context() as patch:
        patch.setattr(authority, "_SLACK", timedelta(days=2))
        patch.setattr("codedfl.mqtt.broker_folder.DAYS", 1)
        broker.folder.renew_own()
    broker.stop()
    broker.start()
    message = (
        f"the certificate of the broker at {broker.address('device-0')} must be signed by the kit's authority, be valid"
        " today and carry that name, got certificate has expired"
    )
    with pytest.raises(BrokerFailed, match=exactly(message)):
        opened(broker.address("device-0"))
    broker.folder.renew_own()
    broker.stop()
    broker.start()
    opened(broker.address("device-0")).close()


def test_a_certificate_is_renewed_in_mid_study_and_the_former_revoked(broker: Any):
    """Nobody has to hurry: both let the device in, until it is revoked with all that it followed."""
    former = broker.address("device-0")
    first = opened(former)
    broker.renew("device-0")
    second = opened(broker.address("device-0"))
    assert not first.events(0.5)  # it is still connected
    for link in (first, second):
        link.close()
    broker.folder.revoke("device-0")
    broker.stop()
    broker.start()
    for address in (former, broker.address("device-0")):
        with pytest.raises(BrokerFailed, match=r"and not revoked\?$"):
            opened(address)
    opened(broker.address("device-1"), "device-1").close()
    broker.renew("device-0")
    opened(broker.address("device-0")).close()


def test_the_small_broker_says_whom_it_does_not_let_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, "codedfl")
    with RunningBroker(tmp_path / "b", ["device-0"]) as running:
        issued(running, monkeypatch, 1, timedelta(days=-2))
        with pytest.raises(BrokerFailed):
            opened(unchecked(running.address("device-0"), monkeypatch))
    assert f"{HOST} is not admitted (certificate has expired)" in caplog.messages
