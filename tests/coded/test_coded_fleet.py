"""The schemes of the laboratory as real processes at a broker: stragglers, kills, and the model bit for bit."""

from __future__ import annotations

import pytest

from experiments import coded_fleet


@pytest.mark.deployment
@pytest.mark.parametrize("scheme", ["coded-padded", "coded-keys"])
def test_killed_and_slow_devices_change_no_bit_of_the_model(scheme: str, capsys: pytest.CaptureFixture[str]):
    assert coded_fleet.main(["--scheme", scheme]) == 0
    said = capsys.readouterr().out
    assert "killed device-4, device-5 for good" in said, "alpha - 1 of them"
    assert "so nobody waited for device-0: True" in said
    assert "bit for bit that of one process: True; the centralised fit: True" in said
