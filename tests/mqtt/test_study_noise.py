"""A study with noise over a broker: it trains, devices record what they spent, and hold the server to the study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_study_stages import StudyFleet, no_listeners_left, no_power_cuts, study_of

from codedfl.data.studies import Study
from codedfl.data.tables import RawTable
from codedfl.engine.ledger_file import LedgerFile
from codedfl.errors import NotEnoughDevices
from codedfl.exact.row_noise import RowNoise
from codedfl.privacy.budget import Budget
from codedfl.privacy.calibration import epsilon_of
from codedfl.schemes.noise import noise_of_run
from codedfl.solve.noise_level import NoiseLevel

__all__ = ["no_listeners_left", "no_power_cuts"]  # fixtures that every test here uses


def noisy_study() -> tuple[Study, dict[str, RawTable]]:
    study, tables = study_of()
    columns = tuple(replace(one, scale="range") for one in study.columns)
    changes: dict[str, Any] = {
        "features": "rbf",
        "n_features": 20,
        "scheme": "role-sums",
        "held_out": 0.0,
        "least_participants": 4,
    }
    return replace(study, columns=columns, noise=Budget(8.0, 4), **changes), tables


def test_a_study_with_noise_trains_and_every_device_records_it(tmp_path: Path):
    study, tables = noisy_study()
    fleet = StudyFleet(study, tables, tmp_path)
    done = fleet.serve()
    assert len(done.owners) == 5 and done.score is None
    assert done.model.theta.shape == (20, 1) and 0 < abs(done.model.theta).max() < 10
    for name in tables:
        (ledger,) = (file for file in (tmp_path / name).rglob("*ledger*") if file.suffix != ".lock")
        with LedgerFile(ledger).open() as runs:
            assert runs.rho is not None and len(runs.entries) == 1
            assert epsilon_of(runs.rho, 1e-5) == pytest.approx(8.0)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"multiplier": 0.5}, "epsilon must be at most 8 at delta = 1e-05 by this device's policy, got 16."),
        ({"honest": 5}, "honest must be at most 4 by this device's policy, got 5"),
        ({}, "epsilon must be at most 8 at delta = 1e-05 by this device's policy, got no noise"),
    ],
    ids=["less noise", "more honest devices", "no noise"],
)
def test_devices_hold_the_server_to_the_study(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    change: dict[str, Any],
    why: str,
):
    def other_noise(*arguments: Any) -> tuple[RowNoise | None, NoiseLevel | None]:
        noise, level = noise_of_run(*arguments)
        return replace(noise, **change) if noise is not None and change else None, level

    study, tables = noisy_study()
    monkeypatch.setattr("codedfl.engine.stage_problem.noise_of_run", other_noise)
    fleet = StudyFleet(study, tables, tmp_path)
    with pytest.raises(NotEnoughDevices, match=r"^at least 3 devices must join, got 0"):
        fleet.serve()
    assert sum(f"cannot take part: {why}" in message for message in caplog.messages) == 10  # here, and at the server
