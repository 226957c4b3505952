"""A study over a broker is its rehearsal bit for bit, whatever is killed, lost or late on the way."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from codedfl.analyses.study_plan import prepared_layout
from fake_broker import FakeBroker
from study_fleet import StudyFleet, fleet_of

from approved_studies import NAMES, same_findings, studies, tables
from codedfl.analyses.analysis import NotFound
from codedfl.analyses.driving import TOTAL_FILE, read_total
from codedfl.analyses.study_analysis import StudyFindings, refit
from codedfl.contract.study import SubModel
from codedfl.data.model import TrainedModel
from codedfl.engine.run_watch import RunWatch
from codedfl.engine.study_run import MODEL_FILE, RESULT_FILE
from codedfl.protocol.contribution import OnRing
from codedfl.protocol.prepared_pad import UploadPad
from codedfl.report.study_files import RESULT_PAGE
from codedfl.statistics.statistic import Ask
from totals import total_of

pytestmark = pytest.mark.usefixtures("quick_disk")
KINDS = tuple(studies())


def files_of_runs(fleet: StudyFleet) -> list[Path]:
    """What a run leaves that must not stay when it is over."""
    places = (fleet.of.folder.glob("*/runs/*/*"), fleet.output.glob("checkpoint*"), fleet.output.glob("answers*"))
    return [path for place in places for path in place]


def check_same(fleet: StudyFleet, found: StudyFindings) -> None:
    expected = fleet.of.rehearsed()
    same_findings(found, expected)
    saved = TrainedModel.load(fleet.output / MODEL_FILE)
    assert np.array_equal(saved.theta, expected.model.theta)
    owners = json.loads((fleet.output / RESULT_FILE).read_text())["owners"]
    assert owners == {statistic: list(NAMES) for statistic in fleet.of.study.statistics}
    assert all(not isinstance(one, NotFound) for one in found.models)
    assert files_of_runs(fleet) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_study_at_a_broker_is_its_rehearsal(tmp_path: Path, kind: str):
    fleet = fleet_of(kind, tmp_path / "x")
    check_same(fleet, fleet.serve())
    study = fleet.of.study
    for name in fleet.devices:
        with fleet.of.contract_folder(name).ledger() as ledger:
            assert {one.statistic for one in ledger.contributions} == set(study.statistics)
            assert bool(ledger.questions) == (kind in ("rbf", "pca-rbf"))


def test_what_is_written_says_all_that_was_found(tmp_path: Path):
    fleet = fleet_of("linear", tmp_path / "x")
    found = fleet.serve()
    told = json.loads((fleet.output / RESULT_FILE).read_text())
    assert "What was revealed to whom" in (fleet.output / RESULT_PAGE).read_text()
    assert found.score is not None
    assert (told["rows"], told["score"]) == (found.rows, found.score.to_dict())
    assert [one["name"] for one in told["inference"]["coefficients"]][:2] == ["constant", "age"]
    assert [one["name"] for one in told["models"]] == ["age alone"]
    assert told["merged"] == [[], [], [2, 3]]
    events = [json.loads(line) for line in (fleet.output / "events.jsonl").read_text().splitlines()]
    assert [event["stage"] for event in events if event["event"] == "stage"] == ["cells", "gram"]
    assert events[-1]["outcome"] == "complete"


def test_a_study_with_helpers_is_its_rehearsal(tmp_path: Path):
    fleet = fleet_of("rbf", tmp_path / "x", helpers=("helper-0", "helper-1"))
    check_same(fleet, fleet.serve())


def test_rows_are_dealt_out_as_the_study_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The server deals them out, the model is that of one block, and the prepared pads fit."""
    dealt: set[tuple[int, int]] = set()
    padded = UploadPad.padded

    def noted(pad: UploadPad, own: OnRing) -> bytes:
        dealt.add((pad.layout.rows.blocks.size, pad.layout.rows.blocks.count))
        return padded(pad, own)

    monkeypatch.setattr(UploadPad, "padded", noted)
    fleet = fleet_of("rbf", tmp_path / "x", row_blocks=2)
    fleet.broker.advance(5.0, lambda: False)
    check_same(fleet, fleet.serve())
    layout = prepared_layout(fleet.of.study, fleet.of.roster)
    assert layout is not None and layout.rows.blocks.count == 2
    assert dealt == {(1, 1), (layout.rows.blocks.size, 2)}
    whole = fleet_of("rbf", tmp_path / "y").of.rehearsed()
    assert np.array_equal(fleet.of.rehearsed().model.theta, whole.model.theta)


@pytest.mark.parametrize("name", NAMES)
def test_one_device_may_die_where_rows_are_dealt_out(tmp_path: Path, name: str):
    """For all of training, whoever it is: the holder of its role that keeps all rows stands in. It is back to score."""
    fleet = fleet_of("rbf", tmp_path / "x", row_blocks=2)

    class Watch(RunWatch):
        def ended(self, epoch: int, score: float | None) -> None:
            if epoch == 2:
                fleet.kill(name)
            elif epoch == fleet.of.study.epochs:
                assert name not in fleet.devices
                fleet.start(name)
            super().ended(epoch, score)

    check_same(fleet, fleet.serve(watch=Watch()))


# -- whatever happens on the way


@pytest.mark.parametrize("kind", ["linear", "classes", "rbf", "noise"])
@pytest.mark.parametrize("where", ["before", "after"])
def test_devices_that_are_killed_at_their_calls_and_restarted_change_nothing(tmp_path: Path, kind: str, where: str):
    """Each at another of its calls: the hello, the invitation, the agreement, shares, the list, and so on."""
    fleet = fleet_of(kind, tmp_path / "x")
    fleet.kills = {name: {number + 1: where, 2 * number + 9: where} for number, name in enumerate(NAMES)}
    check_same(fleet, fleet.serve())
    assert sum(fleet.calls.values()) > 7 * 8


@pytest.mark.parametrize("kind", ["linear", "classes", "rbf", "pca-rbf"])
def test_a_server_that_is_killed_anywhere_goes_on(tmp_path: Path, kind: str):
    """Within a total and between two of them."""
    fleet = fleet_of(kind, tmp_path / "x")
    found, starts = fleet.serve_killed(random.Random(kind), 8, 60)
    assert starts > 3
    check_same(fleet, found)


@pytest.mark.parametrize("seed", range(2))
def test_devices_and_the_server_may_be_killed_by_turns(tmp_path: Path, seed: int):
    rng = random.Random(seed)
    fleet = fleet_of("classes", tmp_path / "x")
    fleet.kills = {
        name: {rng.randrange(1, 25): rng.choice(["before", "after"]) for _ in range(2)} for name in rng.sample(NAMES, 4)
    }
    found, _ = fleet.serve_killed(rng, 40, 150)
    check_same(fleet, found)


@pytest.mark.parametrize("slow", [("clinic-0", "clinic-4"), NAMES[:5]], ids=["few", "most"])
def test_slow_devices_change_nothing(tmp_path: Path, slow: tuple[str, ...]):
    fleet = fleet_of("rbf", tmp_path / "x", FakeBroker(work=lambda device: 2.0 if device in slow else 0.05))
    check_same(fleet, fleet.serve())


def test_what_is_lost_repeated_or_late_changes_nothing(tmp_path: Path):
    rng = random.Random(4)
    broker = FakeBroker(
        fault=lambda *_: rng.choice(["", "", "", "", "", "lose", "twice", "late"]),
        work=lambda device: rng.uniform(0.01, 0.4),
    )
    fleet = fleet_of("classes", tmp_path / "x", broker)
    fleet.patience = fleet.patience.__class__(join_seconds=600.0, gone_seconds=600.0, farewell_seconds=600.0)
    check_same(fleet, fleet.serve())


def test_the_same_study_once_more_is_free_and_finds_the_same(tmp_path: Path):
    """The rows are frozen, and so is the noise: another run with the same arguments shows nothing new."""
    fleet = fleet_of("noise", tmp_path / "x")
    first, again = fleet.serve(), fleet.serve()
    same_findings(again, first)
    with fleet.of.contract_folder("clinic-0").ledger() as ledger:
        assert len({one.argument for one in ledger.contributions}) == 1
        assert len({one.run for one in ledger.contributions}) == 2


def test_another_study_has_another_output_folder(tmp_path: Path):
    fleet = fleet_of("linear", tmp_path / "x")
    fleet.when_asked("gram", lambda: fleet.broker.at(0.0, _stop))
    with pytest.raises(InterruptedError):
        fleet.serve()
    other = fleet_of("classes", tmp_path / "y")
    other.of.folder = fleet.of.folder
    with pytest.raises(Exception, match=r"^--out .* must not hold the answers to another study: choose another or "):
        other.serve()


def _stop() -> None:
    raise InterruptedError


# -- after the upload


def test_further_linear_analyses_need_no_owner(tmp_path: Path):
    """All devices are gone for good: another penalty, fewer columns and inference come from the total on the disk."""
    fleet = fleet_of("linear", tmp_path / "x", inference=False, models=())
    fleet.serve()
    for name in NAMES:
        fleet.kill(name)
    before = len(fleet.broker.sent)
    study = fleet.of.study
    total, merged, _ = read_total(study, json.loads((fleet.output / TOTAL_FILE).read_text()))
    rows = list(fleet.of.snapshots().values())
    assert total == total_of(study, Ask("gram", merged), rows)
    more = SubModel("without ward", ("age", "crp"), 0.5, inference=True)
    again = fleet_of("linear", tmp_path / "y", inference=True, models=(more,), regularisation=0.01)
    expected = again.of.rehearsed()
    found = refit(study, total, merged, SubModel("", study.table_columns.names, 0.01, inference=True))
    assert np.array_equal(found.model.theta, expected.model.theta)
    assert found.inference is not None and expected.inference is not None
    assert np.array_equal(found.inference.standard_errors, expected.inference.standard_errors)
    part, (other,) = refit(study, total, merged, more), expected.models
    assert np.array_equal(part.model.theta, other.model.theta)
    assert part.inference is not None and other.inference is not None
    assert np.array_equal(part.inference.p, other.inference.p)
    table = tables()["clinic-0"]
    assert len(part.model.predict(table)) == len(table)
    assert len(fleet.broker.sent) == before
