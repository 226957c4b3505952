"""The conductor's scenario, under both schemes that train in rounds."""

from __future__ import annotations

import pytest

from codedfl.protocol import Device, Server
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from scenario import Scenario

SCHEMES: dict[str, tuple[type[Server], type[Device]]] = {
    "coded-padded": (PaddedServer, PaddedDevice),
    "coded-keys": (KeysServer, KeysDevice),
}


@pytest.fixture(params=SCHEMES)
def scenario(request: pytest.FixtureRequest, no_power_cuts: None) -> Scenario:
    server_type, device_type = SCHEMES[request.param]
    return Scenario(sizes=(3, 5, 2, 4, 3), alpha=3, d=40, server_type=server_type, device_type=device_type)
