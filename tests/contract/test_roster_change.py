"""Other disclosure groups: all owners of the groups that change sign, or a device refuses rows of earlier studies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from clinics import STUDY, agreed, patients, table

from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.ledger import Approval
from codedfl.contract.policy import Policy
from codedfl.contract.roster import Member, Roster
from codedfl.contract.roster_change import RosterChange, computable, load_change, save_change
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.device.approved import LedgerMemory
from codedfl.device.study_sums import StudySums
from codedfl.errors import InvalidInput
from codedfl.statistics.statistic import Ask
from codedfl.sum.wire import Refused

NAMES = ("v", "u1", "u2", "w1", "w2", "x1", "x2", "y1", "y2")
KEYS = {name: Identity(bytes([70 + place] * 32)) for place, name in enumerate(NAMES)}
ROWS = table(patients(60))


def roster(*groups: str) -> Roster:
    """Of the names that begin with these letters."""
    return Roster(
        tuple(
            Member(name, KEYS[name].public, number)
            for number, group in enumerate(groups)
            for name in NAMES
            if name[0] in group
        )
    )


OLD, NEW = roster("vuw", "xy"), roster("ux", "wy")


def signed(change: RosterChange, *names: str) -> RosterChange:
    for name in names:
        change = change.signed(KEYS[name])
    return change


def second(folder: DeviceFolder, *changes: RosterChange, to: Roster = NEW, name: str = "u1") -> Approval:
    """The same rows are in a study over the old groups, and are approved for one over others."""
    party = (name, KEYS[name].public, ROWS, folder)
    approve(agreed(STUDY, OLD), OLD, *party, Deciding("Ada", "today"))
    return approve(agreed(STUDY, to), to, *party, Deciding("Ada", "today", changes=changes))


@pytest.fixture
def folder(tmp_path: Path) -> DeviceFolder:
    return DeviceFolder(tmp_path / "state")


def test_what_becomes_computable_is_the_hospital_that_nobody_asks():
    found = {tuple(sorted(owners)): alone for owners, alone in computable((OLD, NEW))}
    assert found == {
        ("v",): True, ("u1", "u2"): False, ("w1", "w2"): False, ("x1", "x2"): False, ("y1", "y2"): False,
    }  # fmt: skip
    assert dict(computable((OLD, OLD))) == {frozenset(pod): True for pod in OLD.pods}, "groups alone, as promised"
    # The same four groups in two rosters each that leave somebody out.
    alone = [owners for owners, it in computable((roster("vuw"), roster("ux", "wy"), roster("xy"))) if it]
    assert frozenset({"v"}) in alone


def test_all_owners_of_touched_groups_are_asked_also_who_is_not_on_the_new_roster():
    assert set(RosterChange(OLD, NEW).touched.values()) == set(NAMES)
    kept = RosterChange(roster("vu", "wx"), roster("vu", "wxy"))
    assert set(kept.touched.values()) == {"w1", "w2", "x1", "x2", "y1", "y2"}, "a group that stays is not touched"
    assert RosterChange(OLD, OLD).touched == {} and RosterChange(OLD, OLD).missing == ()


def test_another_group_is_refused_without_a_change(folder: DeviceFolder):
    with pytest.raises(InvalidInput, match=r"our disclosure group has other owners than in stay.*\(on-groups\)"):
        second(folder)


def test_a_missing_signature_of_the_one_who_is_singled_out_is_refused(folder: DeviceFolder):
    change = signed(RosterChange(OLD, NEW), *(one for one in NAMES if one != "v"))
    assert change.missing == ("v",)
    with pytest.raises(InvalidInput, match=r"must be signed by all owners of the groups .* no signature of v: codedfl"):
        second(folder, change)


def test_a_complete_change_passes_and_is_on_record(folder: DeviceFolder):
    found = second(folder, signed(RosterChange(OLD, NEW), *NAMES))
    assert found.accepted == (
        (
            "groups",
            "our disclosure group has other owners than in stay",
            "all owners of the groups that changed",
            "signed by all (roster change)",
        ),
    )
    assert found.changed == (agreed(STUDY, OLD).digest(),)
    with folder.ledger() as ledger:
        assert ledger.approvals[-1] == found


@pytest.mark.parametrize("of", [(NEW, OLD), (OLD, roster("uy", "wx")), (roster("vux", "wy"), NEW)])
def test_a_change_between_other_rosters_is_none(folder: DeviceFolder, of: tuple[Roster, Roster]):
    other = RosterChange(*of)
    with pytest.raises(InvalidInput, match=r"\(on-groups\)"):
        second(folder, signed(other, *other.touched.values()))


@pytest.mark.parametrize("name", ["u1", "w1"], ids=["whose group stays", "whose group changes"])
def test_sums_after_a_signed_change_have_the_groups_that_stay_as_before(folder: DeviceFolder, name: str):
    """At the gate through which every upload goes: the difference is of those who signed, and of nobody else."""
    old, new = roster("vu", "wx"), roster("vu", "wxy")
    change = RosterChange(old, new)
    before, after = agreed(STUDY, old), replace(agreed(STUDY, new), edition=2)
    unsigned = replace(after, edition=9)
    party = (name, KEYS[name].public, ROWS, folder)
    policy = Policy(on_groups="ask")
    for one, to, changes in ((before, old, ()), (after, new, (signed(change, *change.touched.values()),))):
        approve(one, to, *party, Deciding("Ada", "today", changes=changes))
    approve(unsigned, new, *party, Deciding("Ada", "today", policy, accept={"groups": "a test"}))

    def objection(one: Study, *groups: int) -> str:
        ask = Ask("gram", groups=groups)
        try:
            sums = StudySums(one, old if one is before else new)
            LedgerMemory(sums, folder.base, lambda: "now").contribute(ask.encode(), b"pinned")
        except Refused as refused:
            return str(refused)
        return ""

    assert objection(before, 0, 1) == ""
    assert "must be over the disclosure groups of before" in objection(after, 1), "without the group that stays"
    assert "must be over the disclosure groups of before" in objection(unsigned, 0, 1)
    assert objection(after, 0, 1) == ""


def divided(*groups: str) -> Roster:
    """Of owners by their places in ``NAMES``."""
    places = {NAMES[int(place)]: number for number, group in enumerate(groups) for place in group}
    return Roster(tuple(Member(name, KEYS[name].public, places[name]) for name in NAMES))


def test_three_rosters_that_single_an_owner_out_only_together_are_refused(folder: DeviceFolder):
    """Of each two nobody reads that anybody's own sum can be computed; all three give that of one hospital."""
    rosters = [divided("0356", "12478"), divided("012578", "346"), divided("045", "126", "378")]
    pairs = [(rosters[one], rosters[other]) for one, other in ((0, 1), (0, 2), (1, 2))]
    assert not any(len(owners) < 3 for pair in pairs for owners, alone in computable(pair) if alone)
    assert (frozenset({NAMES[4]}), True) in computable(rosters)
    changes = [signed(one, *one.touched.values()) for one in (RosterChange(*pair) for pair in pairs)]
    party = ("v", KEYS["v"].public, ROWS, folder)
    for place, one in enumerate(rosters[:2]):
        approve(agreed(replace(STUDY, name=f"study-{place}"), one), one, *party, Deciding("A", "t", changes=changes))
    with pytest.raises(InvalidInput, match=rf"^rosters of studies on the same rows .*{NAMES[4]}.* these 3: take other"):
        approve(agreed(STUDY, rosters[2]), rosters[2], *party, Deciding("A", "t", changes=changes))


def test_a_signature_for_another_change_is_refused(tmp_path: Path, folder: DeviceFolder):
    other = signed(RosterChange(OLD, roster("uy", "wx")), "v")
    forged = signed(RosterChange(OLD, NEW), *(one for one in NAMES if one != "v"))
    forged = replace(forged, signatures={**forged.signatures, **other.signatures})
    save_change(forged, tmp_path / "change.codedfl")
    with pytest.raises(InvalidInput, match=r"^a signature of a roster change must be of this change, .* of 'v'$"):
        load_change(tmp_path / "change.codedfl")
    with pytest.raises(InvalidInput, match=r"^copies of a roster change must be of the same two rosters"):
        forged.with_signatures(other)


def test_a_stranger_cannot_sign(tmp_path: Path):
    change, stranger = RosterChange(OLD, NEW), Identity(bytes([7] * 32))
    with pytest.raises(InvalidInput, match=r"^who signs a roster change must be an owner"):
        change.signed(stranger)
    path = tmp_path / "change.codedfl"
    save_change(replace(change, signatures={stranger.public: stranger.sign(change.signed_bytes)}), path)
    with pytest.raises(InvalidInput, match=r"by an owner that it touches"):
        load_change(path)


def test_signatures_come_together(tmp_path: Path):
    halves = [signed(RosterChange(OLD, NEW), *some) for some in (NAMES[:4], NAMES[4:])]
    for place, one in enumerate(halves):
        save_change(one, tmp_path / f"{place}")
    first, last = (load_change(tmp_path / f"{place}") for place in range(2))
    assert first.missing == tuple(sorted(NAMES[4:])) and first.with_signatures(last).missing == ()


@pytest.mark.parametrize("junk", [b"", b"\x94", b"x" * 100, b"\x94\xa1x\xa0\xa0\x80"])
def test_junk_is_refused_in_one_line(tmp_path: Path, junk: bytes):
    (tmp_path / "change").write_bytes(junk)
    with pytest.raises(InvalidInput, match=r"^a roster change must be what codedfl roster change wrote"):
        load_change(tmp_path / "change")
