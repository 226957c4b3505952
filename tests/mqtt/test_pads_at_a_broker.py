"""Devices at a broker make their pads while nobody calls: when they upload nothing is left to expand."""

from __future__ import annotations

from pathlib import Path

import pytest
from study_fleet import fleet_of

from approved_studies import NAMES, same_findings
from codedfl.engine.resident_host import ResidentHost
from expansions import counted_uploads

pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.mark.parametrize("kind", ["rbf", "pca-rbf"])
@pytest.mark.parametrize("prepares", [True, False])
def test_an_upload_at_a_broker_expands_nothing(
    tmp_path: Path, kind: str, prepares: bool, monkeypatch: pytest.MonkeyPatch
):
    if not prepares:
        monkeypatch.setattr(ResidentHost, "prepare", lambda host: None)
    with counted_uploads() as uploads:
        fleet = fleet_of(kind, tmp_path / "x")
        fleet.broker.advance(5.0, lambda: False)
        found = fleet.serve()
    same_findings(found, fleet.of.rehearsed())
    largest = max(size for _, size, _ in uploads)
    large = {name: segments for name, size, segments in uploads if size == largest}
    assert set(large) == set(NAMES)
    assert {segments == 0 for segments in large.values()} == {prepares}
