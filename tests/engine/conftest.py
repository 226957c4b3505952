"""The conductor's scenario, under both schemes that train in rounds."""

from __future__ import annotations

import pytest

from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from scenario import Scenario

SCHEMES = {"coded-padded": (PaddedServer, PaddedDevice), "coded-keys": (KeysServer, KeysDevice)}


@pytest.fixture
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is most of the time these tests take."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture(params=SCHEMES)
def scenario(request: pytest.FixtureRequest, no_power_cuts: None) -> Scenario:
    server_type, device_type = SCHEMES[request.param]
    return Scenario(sizes=(3, 5, 2, 4, 3), alpha=3, d=40, server_type=server_type, device_type=device_type)
