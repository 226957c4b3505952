"""Nightly: a thousand devices, and uploads of 12 MB, at the small broker; server and devices stay small."""

from __future__ import annotations

import pytest
from experiments.house import fleet_memory, large_study
from experiments.mqtt_load import goals, measure

from codedfl.mqtt.broker_folder import SMALL

pytestmark = [pytest.mark.nightly, pytest.mark.xdist_group("mqtt")]

MOST_OF_A_DEVICE = 160  # MB, whose own words, sums of pads and replies are 12 to 16 MB each


def test_a_device_with_large_uploads_is_light() -> None:
    assert fleet_memory(large_study)[1] <= MOST_OF_A_DEVICE


@pytest.mark.parametrize(("devices", "features"), [(1000, 50), (40, 2000)])
def test_many_devices_and_large_uploads(devices: int, features: int) -> None:
    found = measure(devices, features, SMALL)
    assert goals(devices, found) == dict.fromkeys(goals(devices, found), True)
