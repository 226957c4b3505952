"""Studies through a broker that loses, delays and doubles: what a rehearsal finds, bit for bit; and who is absent."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faulty_broker import FaultyBroker, FaultyLink

from approved_studies import Federation, federation, same_findings
from codedfl.analyses.study_analysis import StudyFindings
from codedfl.crypto.key_files import load_identity
from codedfl.errors import NotEnoughDevices
from codedfl.run.serving import Serving, serve_study
from codedfl.sum.asking import Patience

pytestmark = pytest.mark.usefixtures("quick_disk")


class Fleet:
    """A federation at a broker; ``asked`` is told every request before its device replies."""

    def __init__(self, of: Federation, broker: FaultyBroker, absent: tuple[str, ...] = ()) -> None:
        self.of, self.broker = of, broker
        self.asked: Callable[[str, bytes], None] = lambda _name, _request: None
        self.links: dict[str, FaultyLink] = {}
        for name in of.names:
            if name not in absent:
                self.start(name)

    def start(self, name: str) -> None:
        reply = self.of.device(name).reply

        def answer(request: bytes) -> bytes:
            self.asked(name, request)
            return reply(request)

        self.links[name] = self.broker.device(name, {self.of.study.digest(): answer})

    def kill(self, name: str, back_after: float | None) -> None:
        self.broker.cut(self.links.pop(name), None)
        if back_after is not None:
            self.broker.at(back_after, lambda: self.start(name))

    def serve(self, **patience: float) -> StudyFindings:
        study = self.of.study
        engine = self.broker.server(study.digest(), list(self.of.roster.keys))
        waits = Patience(**{"join": 300.0, "retry": 3.0, **patience})
        output = self.of.folder / "out"
        return serve_study(engine, study, Serving(output, load_identity(self.of.server_key), self.of.roster, waits))


@pytest.mark.parametrize("kind", ["linear", "glm", "pca-rbf"])
def test_a_study_at_a_bad_broker_is_its_rehearsal(kind: str, tmp_path: Path) -> None:
    rng = random.Random(1)

    def fault(*_: object) -> str:
        return rng.choice(["lose", "twice", "late"]) if rng.random() < 0.1 else ""

    fleet = Fleet(federation(kind, tmp_path / "x"), FaultyBroker(fault))
    same_findings(fleet.serve(), fleet.of.rehearsed())


def test_an_absent_device_costs_its_disclosure_group_and_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = federation("linear", tmp_path / "x")
    fleet = Fleet(made, FaultyBroker(), absent=("clinic-5",))
    found = fleet.serve(join=20.0)
    same_findings(found, made.rehearsed(("clinic-0", "clinic-1", "clinic-2", "clinic-3")))
    assert "absent (start codedfl site join there, or the SuperNode): clinic-5" in caplog.text
    assert "left out with their disclosure groups: clinic-4, clinic-6" in caplog.text
    assert fleet.broker.now < 40.0


def test_without_enough_groups_it_ends_with_one_line_and_goes_on_when_they_are_there(tmp_path: Path) -> None:
    fleet = Fleet(federation("linear", tmp_path / "x"), FaultyBroker(), absent=("clinic-0", "clinic-5"))
    with pytest.raises(NotEnoughDevices, match=r"clinic-0, clinic-5.*continues where it was$"):
        fleet.serve(join=20.0)
    for name in ("clinic-0", "clinic-5"):
        fleet.start(name)
    same_findings(fleet.serve(), fleet.of.rehearsed())


@pytest.mark.parametrize("statistic", ["score", "newton"])
def test_an_iteration_waits_for_an_owner_that_is_away(tmp_path: Path, statistic: str) -> None:
    """All totals of a model are over the same rows."""
    fleet, gone = Fleet(federation("glm", tmp_path / "x"), FaultyBroker()), False

    def asked(name: str, request: bytes) -> None:
        nonlocal gone
        if not gone and statistic.encode() in request and name != "clinic-5":
            gone = True
            fleet.broker.at(0.0, lambda: fleet.kill("clinic-5", 100.0))

    fleet.asked = asked
    same_findings(fleet.serve(), fleet.of.rehearsed())
    assert gone and fleet.broker.now > 100.0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_is_full_or_read_only_stops_its_device_and_loses_nothing(tmp_path: Path, code: int) -> None:
    """The process ends without a reply; when the disk is mended the same command goes on, with the same findings."""
    fleet, ended = Fleet(federation("linear", tmp_path / "x"), FaultyBroker()), list[str]()

    def asked(name: str, request: bytes) -> None:
        if name == "clinic-5" and not ended and b"gram" in request:
            ended.append(name)
            raise OSError(code, "the disk")

    fleet.asked = asked
    turn = fleet.broker._turn

    def guarded(link: Any) -> None:
        try:
            turn(link)
        except OSError:  # codedfl site join ends with one line
            fleet.kill("clinic-5", 2.0)

    setattr(fleet.broker, "_turn", guarded)  # noqa: B010 - a method is replaced
    same_findings(fleet.serve(), fleet.of.rehearsed())
    assert ended == ["clinic-5"]
