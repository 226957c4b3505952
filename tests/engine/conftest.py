"""The conductor's scenario, under both schemes that train in rounds."""

from __future__ import annotations

import pytest

from codedfl.protocol.device import Device
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server import Server
from scenario import Scenario

SCHEMES: dict[str, tuple[type[Server], type[Device]]] = {
    "coded-padded": CODED_PADDED,
    "coded-keys": CODED_KEYS,
}


@pytest.fixture(params=SCHEMES)
def scenario(request: pytest.FixtureRequest, no_power_cuts: None) -> Scenario:
    scheme = SCHEMES[request.param]
    return Scenario(sizes=(3, 5, 2, 4, 3), alpha=3, d=40, scheme=scheme)
