"""One run of four devices, stopped at each stage of the protocol."""

from __future__ import annotations

import pytest

from codedfl.protocol.messages import Kind
from scenario import Network, Scenario


def stopped_before(*kinds: Kind) -> Network:
    """Everything is delivered up to the first message of one of these kinds."""
    network = Network.of(Scenario())
    network.run_until(*kinds)
    return network


@pytest.fixture
def joining() -> Network:
    """Joins are on their way, none has arrived."""
    return stopped_before(Kind.JOIN)


@pytest.fixture
def invited() -> Network:
    """All devices have answered the invitation; agreements are on their way."""
    return stopped_before(Kind.AGREEMENT)


@pytest.fixture
def agreed() -> Network:
    """The set is frozen; pad seeds and shares are on their way, device-0's seed undelivered."""
    return stopped_before(Kind.PAD_SEED)


@pytest.fixture
def shares_sent() -> Network:
    """Shares are on their way to the server, none has arrived."""
    return stopped_before(Kind.SHARES)


@pytest.fixture
def sharing() -> Network:
    """Everybody has sent shares, nobody has received any."""
    return stopped_before(Kind.SHARE)


@pytest.fixture
def ready() -> Network:
    """Phase 1 is done and the first update is on its way to all."""
    network = stopped_before(Kind.UPDATE, Kind.FINISH)
    assert all(device.ready for device in network.devices.values())
    return network


@pytest.fixture
def training() -> Network:
    """Answers of epoch 1 are on their way, none has arrived."""
    network = stopped_before(Kind.UPDATE, Kind.FINISH)
    network.run_until(Kind.ANSWER, Kind.FINISH)
    assert len(network.pending()) == 4
    return network
