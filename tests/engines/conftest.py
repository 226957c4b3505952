"""Studies at a broker, real and in virtual time: the rehearsal's bits, whatever is lost, doubled, late or killed."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Waiting for the disk is most of the time that these tests take; and everything is in the log."""
    caplog.set_level(logging.INFO, "codedfl")
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", lambda handle: None)
