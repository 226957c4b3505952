"""Devices at a broker make their pads while nobody calls: when they upload nothing is left to expand."""

from __future__ import annotations

from pathlib import Path

import pytest
from study_fleet import fleet_of

from approved_studies import NAMES, same_findings
from codedfl.engine.calls import Call, Reply, Step
from codedfl.engine.letters import Parcel
from codedfl.engine.resident_host import ResidentHost
from codedfl.protocol.messages import Kind, Message
from expansions import counted_expansions

pytestmark = pytest.mark.usefixtures("quick_disk")


@pytest.mark.parametrize("kind", ["rbf", "pca-rbf"])
@pytest.mark.parametrize("prepares", [True, False])
def test_an_upload_at_a_broker_expands_nothing(
    tmp_path: Path, kind: str, prepares: bool, monkeypatch: pytest.MonkeyPatch
):
    spent: dict[tuple[str, int], int] = {}  # segments by device and size of its upload
    handle = ResidentHost.handle
    if not prepares:
        monkeypatch.setattr(ResidentHost, "prepare", lambda host: None)
    with counted_expansions() as count:

        def counting(host: ResidentHost, call: Call) -> Reply:
            before = count.segments
            reply = handle(host, call)
            for letter in reply.letters if isinstance(call, Step) and isinstance(reply, Parcel) else ():
                if Message.decode(letter.head).kind is Kind.SHARES:
                    spent.setdefault((host.name, len(letter.bulk)), count.segments - before)
            return reply

        monkeypatch.setattr(ResidentHost, "handle", counting)
        fleet = fleet_of(kind, tmp_path / "x")
        fleet.broker.advance(5.0, lambda: False)
        found = fleet.serve()
    same_findings(found, fleet.of.rehearsed())
    largest = max(size for _, size in spent)
    large = {name: segments for (name, size), segments in spent.items() if size == largest}
    assert set(large) == set(NAMES)
    assert {segments == 0 for segments in large.values()} == {prepares}
