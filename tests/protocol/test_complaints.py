"""Secrets that their sender sealed and nobody can use: the sender is named, and not those who wait for them in vain."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from crafted import refused

from codedfl.errors import MessageRefused, NotEnoughDevices
from codedfl.protocol.device_session import DeviceSession
from codedfl.protocol.device_sharing import CodedDeviceSharing
from codedfl.protocol.messages import SERVER, Complaint, Kind, Message, Secrets, Unusable
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server_events import Ignored
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import run_in_process
from scenario import Network, Scenario, descent
from wording import exactly

SCHEMES: dict[str, SharingScheme] = {
    "coded-padded": CODED_PADDED,
    "coded-keys": CODED_KEYS,
}
pytestmark = pytest.mark.usefixtures("no_power_cuts")
GUILTY = "device-1"


@pytest.fixture(params=SCHEMES)
def scenario(request: pytest.FixtureRequest) -> Scenario:
    scheme = SCHEMES[request.param]
    return Scenario(sizes=(3, 2, 4, 2), alpha=3, scheme=scheme)


@pytest.fixture
def spoilt(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    """device-1 seals nothing at all to everybody."""
    honest = DeviceSession.seal_for

    def seal_for(self: DeviceSession, position: int, plaintext: bytes, kind: Kind = Kind.SHARE) -> bytes:
        return honest(self, position, Secrets().encode() if self.name == GUILTY else plaintext, kind)

    monkeypatch.setattr(DeviceSession, "seal_for", seal_for)
    return scenario


def refuse(self: Complaint) -> bytes:
    """The rule as it was."""
    raise MessageRefused(f"the share of {self.accused!r} must be usable, got {self.reason}")


def test_under_the_old_rule_honest_receivers_look_lost(spoilt: Scenario, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Complaint, "encode", refuse)
    network = Network.of(spoilt)
    while links := network.pending():
        with suppress(MessageRefused):
            network.deliver(links[0])
    lost = [name for name in spoilt.names if name not in network.server.ready_devices]
    with pytest.raises(NotEnoughDevices) as caught:
        network.server.go_on_without(lost)
    assert GUILTY not in caught.value.missing
    assert set(caught.value.missing) == {"device-0", "device-2", "device-3"}


def test_the_sender_is_named(spoilt: Scenario):
    server = spoilt.server(descent())
    message = (
        "epoch 0 needs 2 answers (D - alpha + 1) but only 1 devices are alive: 1 more needed,"
        " unusable are the shares of device-1 (say device-3, device-2, device-0)"
    )
    with pytest.raises(NotEnoughDevices, match=exactly(message)) as caught:
        run_in_process(server, spoilt.devices())
    assert caught.value.missing == (GUILTY,)
    assert server.sharing.complaints == {GUILTY: dict.fromkeys(["device-0", "device-2", "device-3"], "no mask seed")}


def test_where_enough_others_are_ready_a_complaint_stops_nothing(scenario: Scenario, monkeypatch: pytest.MonkeyPatch):
    """device-3 alone cannot use what it got: the run goes on without its answers."""
    honest = CodedDeviceSharing._take

    def take(self: CodedDeviceSharing, sender: int, *arguments: Any) -> Unusable | None:
        session = self._session
        if session.name == "device-3" and session.agreed.names[sender] == GUILTY:
            return Unusable.NO_DATA
        return honest(self, sender, *arguments)

    monkeypatch.setattr(CodedDeviceSharing, "_take", take)
    server = scenario.server(descent())
    model = run_in_process(server, scenario.devices())
    assert np.array_equal(model, scenario.expected_models(descent())[-1])
    assert list(server.sharing.complaints) == [GUILTY]
    assert "device-3" not in server.ready_devices


def test_who_gets_ready_after_all_takes_the_complaint_back(sharing: Network):
    """What was damaged on the way comes again."""
    server = sharing.server
    accuse(sharing, "device-0", "device-1")
    accuse(sharing, "device-3", "device-1")
    assert list(server.sharing.complaints["device-1"]) == ["device-0", "device-3"]
    sharing.run_until(Kind.UPDATE, Kind.FINISH)
    assert server.sharing.complaints == {}
    assert server.phase is Phase.TRAINING
    turn = server.receive(complaint(sharing, "device-0", "device-1"))
    assert turn.events == [Ignored("device-0", "complaint of a device that is ready")]
    assert server.sharing.complaints == {}


def accuse(network: Network, accuser: str, accused: str) -> None:
    assert network.server.receive(complaint(network, accuser, accused)).outgoing == []


def complaint(network: Network, accuser: str, accused: str, signer: str = "") -> bytes:
    server = network.server
    header = Message(Kind.COMPLAINT, server.run, server.agreement.hash, accuser, SERVER)
    author = network.run_keys[signer or accuser]
    return header.with_body(
        network.sealed(header, SERVER, Complaint(accused, Unusable.NO_MASK).encode(), author)
    ).encode()  # fmt: skip


def test_complaints_are_authentic_and_about_shares_that_were_relayed(sharing: Network, shares_sent: Network):
    rule = "a complaint must be about a share that was relayed to 'device-0', got one about "
    for accused in ("device-0", "device-3"):  # its own, and one that is not for it under this code
        refused(sharing.server, complaint(sharing, "device-0", accused), f"{rule}{accused!r}")
    refused(shares_sent.server, complaint(shares_sent, "device-0", "device-1"), f"{rule}'device-1'")
    stranger = "the device must be one of the 4 of this run, got 'mallory'"
    refused(sharing.server, complaint(sharing, "device-0", "mallory"), stranger)
    with pytest.raises(MessageRefused, match=r"^a sealed message must open with the key of its sender"):
        sharing.server.receive(complaint(sharing, "device-0", "device-1", signer="device-2"))
    assert sharing.server.sharing.complaints == {}
