"""Commands as people type them: what they print, write and refuse. They share a folder and one small trained model."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from command_runner import SMALL, Run, invoke


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in an empty folder, on a machine without the user's data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CODEDFL_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ours = logging.getLogger("codedfl")
    for name in ("handlers", "level", "propagate"):  # which commands change for their own process
        monkeypatch.setattr(ours, name, getattr(ours, name))
    return invoke


@pytest.fixture(scope="session")
def digits_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file of six epochs on digits."""
    folder = tmp_path_factory.mktemp("digits")
    assert invoke("lab", "train", "digits", *SMALL, "--out", folder).exit_code == 0
    return folder / "model.safetensors"
