"""Nightly: a thousand devices, and uploads of 12 MB, at the small broker; the server stays below 500 MB."""

from __future__ import annotations

import pytest
from experiments.mqtt_load import goals, measure

from codedfl.mqtt.broker_folder import SMALL

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("mqtt")]


@pytest.mark.parametrize(("devices", "features"), [(1000, 50), (40, 2000)])
def test_many_devices_and_large_uploads(devices: int, features: int) -> None:
    found = measure(devices, features, SMALL)
    assert goals(devices, found) == dict.fromkeys(goals(devices, found), True)
