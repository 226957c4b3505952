"""Who is absent or does not take part costs its pod, is named with what to do, and holds nobody up."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_broker import FakeLink
from study_fleet import PATIENCE, StudyFleet, fleet_of

from approved_studies import NAMES, same_findings, tables
from codedfl.analyses.study_analysis import StudyFindings
from codedfl.contract.approval import approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.words import explain
from codedfl.crypto.sealed import Identity, fingerprint
from codedfl.engine.approved_party import ApprovedParty
from codedfl.crypto.key_files import DEVICE_KEY, load_identity
from codedfl.engine.resident_host import ResidentHost
from codedfl.engine.study_run import RESULT_FILE
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from codedfl.report.run_state import RunState
from codedfl.statistics.statistic import Ask
from totals import total_of

pytestmark = [pytest.mark.usefixtures("quick_disk"), pytest.mark.hospitals]
FIRST, SECOND = NAMES[:4], NAMES[4:]  # the pods


ABSENT = "absent (start codedfl join there, or the SuperNode): "
DECLINED = "refused (their own logs say why, and codedfl join --check there): "


def owners_of(fleet: StudyFleet) -> list[str]:
    """Over whom every total is; they may not differ."""
    of_totals = json.loads((fleet.output / RESULT_FILE).read_text())["owners"]
    assert tuple(of_totals) == fleet.of.study.statistics
    (owners,) = {tuple(one) for one in of_totals.values()}
    return list(owners)


def refused(fleet: StudyFleet) -> str:
    """The one line that the operator of the server reads."""
    with pytest.raises(NotEnoughDevices) as raised:
        fleet.serve()
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_an_absent_device_costs_its_pod_and_nobody_else(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture):
    fleet = fleet_of(kind, tmp_path / "x")
    fleet.kill("clinic-5")
    same_findings(fleet.serve(), fleet.of.rehearsed(FIRST))
    assert owners_of(fleet) == list(FIRST)
    line = ABSENT + "clinic-5; left out with their pods: clinic-4, clinic-6"
    assert caplog.record_tuples.count(("codedfl.engine.server", logging.WARNING, line)) == 1  # not for every total
    assert fleet.broker.now < 2 * PATIENCE.join_seconds  # nor is it waited for in every total


def test_too_few_whole_pods_are_told_in_one_line_and_the_same_command_goes_on(tmp_path: Path):
    fleet = fleet_of("linear", tmp_path / "x")
    for name in ("clinic-1", "clinic-6"):
        fleet.kill(name)
    assert refused(fleet) == (
        "after 20 s at least 3 owners in whole pods must take part (least_participants of the study file), got 0;"
        " absent (start codedfl join there, or the SuperNode): clinic-1, clinic-6; left out with their pods:"
        " clinic-0, clinic-2, clinic-3, clinic-4, clinic-5."
        " Start the same command again when that is mended: it goes on where it was"
    )
    for name in ("clinic-1", "clinic-6"):
        fleet.start(name)
    same_findings(fleet.serve(), fleet.of.rehearsed())


@pytest.mark.parametrize("statistic", ["gram", "score"])
def test_devices_that_go_between_totals_can_come_back(tmp_path: Path, statistic: str):
    fleet = fleet_of("classes", tmp_path / "x")
    gone = ("clinic-0", "clinic-4")
    fleet.when_asked(statistic, lambda: fleet.kill(*gone))
    words = refused(fleet)
    assert words.endswith(
        f"; {ABSENT}clinic-0, clinic-4; left out with their pods: clinic-1, clinic-2, clinic-3, clinic-5, clinic-6."
        " Start the same command again when that is mended: it goes on where it was"
    )
    asked = len(fleet.asked)
    fleet.broker.tick = lambda: None
    for name in gone:
        fleet.start(name)
    same_findings(fleet.serve(), fleet.of.rehearsed())
    assert "cells" not in {one for _, one in fleet.asked[asked:]}  # what is known is not asked for again


def test_an_iteration_waits_for_its_owners(tmp_path: Path):
    """A pod that is gone costs no other total anything; the steps of a model are over the same rows."""
    fleet = fleet_of("glm", tmp_path / "x")

    def tick() -> None:
        with fleet.of.contract_folder("clinic-0").ledger() as ledger:
            if sum(one.statistic == "newton" for one in ledger.contributions) > 1:
                fleet.kill("clinic-5")  # after it has joined

    fleet.broker.tick = tick
    more = (
        ": all its totals are over the same rows; absent (start codedfl join there, or the SuperNode): clinic-5; left"
        " out with their pods: clinic-4, clinic-6. Start the same command again when that is mended: it goes on where"
        " it was"
    )
    assert refused(fleet) == f"the model 'all' waits for clinic-4, clinic-5, clinic-6{more}"
    assert refused(fleet) == f"after 20 s the model 'all' waits for clinic-5{more}"
    fleet.broker.tick = lambda: None
    fleet.start("clinic-5")
    same_findings(fleet.serve(), fleet.of.rehearsed())


def test_a_device_that_goes_between_totals_for_good_costs_its_pod(tmp_path: Path):
    """The counts were over both pods, the model is over one, and says of how many rows."""
    fleet = fleet_of("linear", tmp_path / "x")
    fleet.when_asked("gram", lambda: fleet.kill("clinic-6"))
    found, rows = fleet.serve(), list(fleet.of.snapshots(FIRST).values())
    of_totals = json.loads((fleet.output / RESULT_FILE).read_text())["owners"]
    assert of_totals == {"cells": list(NAMES), "gram": list(FIRST)}
    assert found.total == total_of(fleet.of.study, Ask("gram", found.merged), rows)
    assert found.rows == sum(int((~one.held_out).sum()) for one in rows)


def test_owners_may_go_when_they_have_uploaded(tmp_path: Path):
    """One holder of each role is enough; the epochs of random features need no owner."""
    fleet = fleet_of("rbf", tmp_path / "x", held_out=0.0)

    def tick() -> None:
        with fleet.of.contract_folder("clinic-0").ledger() as ledger:
            if len(ledger.questions) > 3:
                for name in ("clinic-2", "clinic-3", "clinic-4", "clinic-5", "clinic-6"):
                    fleet.kill(name)

    fleet.broker.tick = tick
    same_findings(fleet.serve(), fleet.of.rehearsed())
    assert sorted(fleet.devices) == ["clinic-0", "clinic-1"]


def test_an_owner_that_goes_before_it_uploads_costs_its_pod(tmp_path: Path):
    fleet = fleet_of("linear", tmp_path / "x")
    fleet.kills = {"clinic-6": {3: "before"}}  # the hello, the invitation, and then the agreement
    start = fleet.start
    fleet.start = lambda name, *more: None if name == "clinic-6" else start(name, *more)  # type: ignore[method-assign]
    same_findings(fleet.serve(), fleet.of.rehearsed(FIRST))
    assert owners_of(fleet) == list(FIRST)


# -- who does not take part


def without_approval(fleet: StudyFleet, name: str) -> ResidentHost:
    """A process that was started all the same: ``codedfl join`` would have refused."""
    of = fleet.of
    identity = load_identity(of.folder / name / DEVICE_KEY)
    party = ApprovedParty(name, of.study, of.roster, identity, of.contract_folder(name))
    return ResidentHost(name, identity, of.folder / name / "runs", bytes.fromhex(of.study.server_key), party)


def test_a_device_that_has_not_approved_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    fleet = fleet_of("linear", tmp_path / "x", approved=FIRST)
    digest = fleet.of.study.digest().hex()[:16]
    words = f"the study 'stays' must be approved on this device, got no approval of {digest}: codedfl study approve"
    with pytest.raises(InvalidInput, match=f"^{words} records one$"):
        fleet.start("clinic-4")
    for name in SECOND:
        fleet.start(name, without_approval(fleet, name))
    same_findings(fleet.serve(), fleet.of.rehearsed(FIRST))
    assert ("codedfl.engine.device", logging.ERROR, f"clinic-4 refuses: {words} records one") in caplog.record_tuples
    told = [text for name, _, text in caplog.record_tuples if name == "codedfl.engine.server"]
    assert f"clinic-4 cannot take part: {DOES_NOT_TAKE_PART}" in told
    assert DECLINED + "clinic-4, clinic-5, clinic-6" in told
    assert not any("approv" in text for text in told)
    with fleet.of.contract_folder("clinic-4").ledger() as ledger:
        assert len(ledger) == 0
    fleet.of.approve("clinic-4")  # and then it takes part, in the next study's command at the latest
    assert isinstance(fleet.of.host("clinic-4", ResidentHost), ResidentHost)


def test_a_device_with_a_renewed_key_and_the_server_say_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Its state folder was lost, and it has joined with a roster of its own: both logs have the one command."""
    fleet = fleet_of("linear", tmp_path / "x")
    fleet.kill("clinic-6")
    identity = Identity(bytes(32))
    own = fleet.of.roster.renewed("clinic-6", identity.public)
    study = replace(fleet.of.study, roster=own.digest().hex())
    folder = fleet.of.contract_folder("clinic-6")
    with pytest.raises(InvalidInput, match=r"codedfl roster renew names the new one$"):  # with the roster of all
        ApprovedParty("clinic-6", fleet.of.study, fleet.of.roster, identity, folder)
    approve(study, own, "clinic-6", identity.public, tables()["clinic-6"], folder, who="Ada", when="today")
    party = ApprovedParty("clinic-6", study, own, identity, folder)
    server = bytes.fromhex(study.server_key)
    fleet.start("clinic-6", ResidentHost("clinic-6", identity, tmp_path / "runs", server, party))
    same_findings(fleet.serve(), fleet.of.rehearsed(FIRST))
    line = (
        f"clinic-6 cannot take part: the key of 'clinic-6' must be the one on the roster, got"
        f" {fingerprint(identity.public)}: codedfl roster renew puts a new key there"
    )
    told = {name for name, level, text in caplog.record_tuples if text == line and level == logging.ERROR}
    assert told == {"codedfl.engine.server", "codedfl.engine.device"}
    assert any(text.startswith(DECLINED + "clinic-6; ") for text in caplog.messages)


def test_a_device_with_another_edition_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    fleet = fleet_of("linear", tmp_path / "x")
    other = replace(fleet.of.study, edition=2)
    fleet.kill("clinic-6")
    fleet.of.approve("clinic-6", other)
    fleet.start("clinic-6", fleet.of.membership("clinic-6").host(other, ResidentHost), other.digest())
    same_findings(fleet.serve(), fleet.of.rehearsed(FIRST))
    told = [text for name, _, text in caplog.record_tuples if name == "codedfl.engine.server"]
    assert DECLINED + "clinic-6; left out with their pods: clinic-4, clinic-5" in told
    reason = f"the study must be {fleet.of.study.digest().hex()[:16]} as the server has it"
    assert any(text.startswith(f"clinic-6 cannot take part: {reason}") for text in told)
    on_page = {one.name: (one.state, one.in_total) for one in RunState(fleet.output).look().devices}
    assert len(on_page) == len(fleet.of.roster.owners) and on_page["clinic-6"] == ("gone", False)


def test_the_study_file_s_own_bound_is_named_and_who_refused_is_not_called_missing(tmp_path: Path):
    """4 + 3 hospitals with least_participants = 5: said beforehand, and when it happens."""
    fleet = fleet_of("linear", tmp_path / "x", least_participants=5, approved=(*FIRST, "clinic-4"))
    said = (
        "nobody may be absent when a total is asked for: without a pod at most 4 of 7 owners are left, and 5 are"
        " needed; least_participants = 4 or least_participants = 3 would change that"
    )
    assert said in [line for part in explain(fleet.of.study, fleet.of.roster) for line in part.answers]
    fleet.start("clinic-5", without_approval(fleet, "clinic-5"))
    assert refused(fleet) == (
        "after 20 s at least 5 owners in whole pods must take part (least_participants of the study file), got 4: with"
        f" least_participants = 4 there, approved anew by all, these would do; {ABSENT}clinic-6; {DECLINED}clinic-5;"
        " left out with their pods: clinic-4. Start the same command again when that is mended: it goes on where it was"
    )


def test_a_device_that_refuses_in_mid_run_is_not_called_missing(tmp_path: Path):
    """Its snapshot is gone when the total is asked for."""
    fleet = fleet_of("linear", tmp_path / "x", least_participants=5)
    (snapshot,) = (fleet.of.contract_folder("clinic-4").path / "snapshots").iterdir()
    snapshot.unlink()
    words = refused(fleet)
    assert "missing" not in words and "absent" not in words
    assert f"; {DECLINED}clinic-4; left out with their pods: clinic-5, clinic-6. " in words


def test_a_whole_pod_with_another_edition_takes_part_in_neither(tmp_path: Path):
    """Editions of one pod cost the others nothing."""
    fleet = fleet_of("linear", tmp_path / "x")
    other = replace(fleet.of.study, edition=2)
    for name in SECOND:
        fleet.kill(name)
        fleet.of.approve(name, other)
        fleet.start(name, fleet.of.membership(name).host(other, ResidentHost))  # under the same digest of presence
    same_findings(fleet.serve(), fleet.of.rehearsed(FIRST))


# -- when it is over


def test_who_came_for_one_study_leaves_when_it_is_over_and_not_before(tmp_path: Path):
    """``codedfl join --once``: also where the score is skipped, which devices cannot know."""
    fleet = fleet_of("classes", tmp_path / "x", held_out=0.0)
    early: set[str] = set()
    fleet.broker.tick = lambda: early.update(name for name, link in fleet.devices.items() if over(link))
    fleet.serve()
    assert not early
    assert [over(link) for link in fleet.devices.values()] == [False] * len(NAMES)
    fleet.post.leave(over=True)
    fleet.broker.advance(5.0, lambda: False)
    assert [over(link) for link in fleet.devices.values()] == [True] * len(NAMES)
    fleet.start("clinic-0")  # who comes later waits for the next server of the study
    fleet.broker.advance(5.0, lambda: False)
    assert not over(fleet.devices["clinic-0"])


def over(link: FakeLink) -> bool:
    assert link.owner is not None
    return link.owner.study_over


# -- tables change, snapshots do not


def test_a_table_that_changed_holds_nobody_up(tmp_path: Path):
    """It could deadlock a federation: whoever had one patient more could not go on, and nobody without it."""
    fleet = fleet_of("classes", tmp_path / "x")
    done: list[str] = []

    def change() -> None:
        with pytest.raises(InvalidInput, match=r"^this study was approved with other rows: .* needs a new edition"):
            fleet.of.approve("clinic-2", table=tables()["clinic-2"].rows(np.arange(1, 100)))
        fleet.kill("clinic-2")
        fleet.start("clinic-2")
        done.append("changed")

    fleet.when_asked("gram", change)
    found: StudyFindings = fleet.serve()
    assert done
    same_findings(found, fleet.of.rehearsed())


def test_an_approval_that_was_cut_short_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Killed between ledger and snapshot: the same approval completes it, and the same command goes on."""
    fleet = fleet_of("linear", tmp_path / "x")
    folder: DeviceFolder = fleet.of.contract_folder("clinic-4")
    (snapshot,) = (folder.path / "snapshots").iterdir()
    snapshot.unlink()
    same_findings(fleet.serve(), fleet.of.rehearsed(FIRST))
    line = (
        f"clinic-4 refuses: the rows approved for the study {fleet.of.study.digest().hex()[:16]} must be frozen on this"
        " device, got none: codedfl study approve completes an approval that was cut short"
    )
    assert ("codedfl.engine.device", logging.ERROR, line) in caplog.record_tuples
    fleet.of.approve("clinic-4")
    assert fleet.of.contract_folder("clinic-4").snapshot(fleet.of.study.digest()) is not None
