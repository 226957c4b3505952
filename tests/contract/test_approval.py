"""Approving: judged in order, recorded before rows are frozen, never twice with other rows; and contributing."""

from __future__ import annotations

import math
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import msgspec
import pytest
from clinics import AGE, DAYS, NAMES, ROSTER, STUDY, Columns, K, agreed, identity, joined, patients, some, table

from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.ledger import Approval, most_different
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.survival import SurvivalModel
from codedfl.contract.policy import Policy
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.contract.words import Section, explain, printable
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import Budget
from codedfl.private_files import make_private_folder
from codedfl.statistics.statistic import words_of

BASE = patients(100)
NAME = NAMES[1]
CONTRACT = agreed(STUDY)


def strangers() -> Columns:
    """A hundred other people, none of whom has the values of another table's by chance."""
    return {**patients(100, seed=7), "days": [40 + i % 20 for i in range(100)]}


CENSUS_FIRST = ("census", "cells", "gram")
ALL = "a finding must be accepted by who approves, got one that is not: "


@pytest.fixture
def folder(tmp_path: Path) -> DeviceFolder:
    return DeviceFolder.of(tmp_path / "state", NAME)


def approved(folder: DeviceFolder, study: Study = CONTRACT, columns: Any = BASE, **options: Any) -> Approval:
    said = {"roster": ROSTER, "name": NAME, "key": identity(NAME).public, "who": "Ada", "when": "today", **options}
    deciding = Deciding(said.pop("who"), said.pop("when"), said.pop("policy", Policy()), said.pop("accept", {}))
    party = (said.pop("roster"), said.pop("name"), said.pop("key"), columns and table(columns), folder)
    return approve(study, *party, deciding, **said)


def refusal(folder: DeviceFolder, study: Study = CONTRACT, columns: Any = BASE, **options: Any) -> str:
    with folder.ledger() as ledger:
        before = ledger.approvals, ledger.contributions
    with pytest.raises(InvalidInput) as raised:
        approved(folder, study, columns, **options)
    with folder.ledger() as ledger:
        assert (ledger.approvals, ledger.contributions) == before, "a refusal records nothing"
    return str(raised.value)


def test_an_approval_freezes_the_rows(folder: DeviceFolder):
    found = approved(folder)
    assert (found.digest, found.name, found.edition, found.who, found.when) == (
        CONTRACT.digest(),
        "stay",
        1,
        "Ada",
        "today",
    )
    assert (found.pod, found.statistics, found.rho, found.width) == (frozenset(NAMES), CENSUS_FIRST, None, 4)
    assert len(folder.snapshot(CONTRACT.digest())) == found.rows == 100
    for path in (folder.path, *folder.path.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert approved(folder, columns={k: v[::-1] for k, v in BASE.items()}, who="Bob", when="later") == found
    other = joined(BASE, patients(3 * K, seed=1))
    assert refusal(folder, columns=other) == (
        "this study was approved with other rows: what changed since then needs a new version of the study"
    )
    assert approved(folder, replace(CONTRACT, edition=2), other).rows == 100 + 3 * K


def test_killed_before_the_rows_are_frozen(folder: DeviceFolder, monkeypatch: pytest.MonkeyPatch):
    def killed(_: DeviceFolder, snapshot: Snapshot) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeviceFolder, "save_snapshot", killed)
        with pytest.raises(KeyboardInterrupt):
            approved(folder)
    assert folder.snapshot(CONTRACT.digest()) is None
    assert approved(folder, when="again").when == "today"
    assert folder.snapshot(CONTRACT.digest()) is not None


def test_what_is_judged_in_which_order(folder: DeviceFolder):
    """Each of these has all the faults of those below it."""
    stranger = Roster.draft({f"x-{i}": bytes([40 + i] * 32) for i in range(4)}, 1)
    few = patients(2)
    strict = Policy(colluders=2, most_total_epsilon=1.0)
    options: dict[str, Any] = {"columns": few, "policy": strict}
    assert (
        refusal(folder, STUDY, **options)
        == "roster and server_key must be said in a study that is approved, got nothing"
    )
    assert refusal(folder, roster=stranger, **options).startswith("the roster must be the one that the study names, ")
    two = Roster(tuple(replace(one, pod=i // 2) for i, one in enumerate(ROSTER.members)))
    assert refusal(folder, agreed(STUDY, two), roster=two, **options).startswith("each pod must have at least")
    crowd = agreed(replace(STUDY, least_participants=5))
    assert refusal(folder, crowd, **options) == ("owners on the roster must be at least least_participants (5), got 4")
    assert refusal(folder, name="x", **options) == "the device must be on the roster, got 'x'"
    assert refusal(folder, key=bytes(32), **options).startswith("key of 'clinic-1' on the roster must be this device's")
    approved(folder)
    one_more = joined(BASE, patients(1, seed=1))
    assert refusal(folder, columns=one_more, policy=strict).startswith("this study was approved with other rows")
    later = replace(CONTRACT, edition=2)
    assert refusal(folder, later, one_more, policy=strict) == (
        "epsilon over all approved studies must be at most 1 at delta = 1e-05 by this device's policy, got no noise"
        " with this one"
    )
    assert refusal(folder, later, one_more, policy=Policy(colluders=2)) == (
        "colluders must be at least 2 by this device's policy, got 1"
    )
    assert refusal(folder, later, one_more) == (
        f"{ALL}1 row(s) of this table are in the sums of this study and of no other: sums could be subtracted until"
        " they alone are left (fewer than 5); accept it with --accept rows='why', wait for more rows, or ask for"
        " another study"
    )


def test_few_rows_and_rare_values_of_one_device_are_no_ground_to_refuse(folder: DeviceFolder):
    """The census decides over all devices; 12 rows of a hospital are as welcome as any."""
    assert approved(folder, columns={**patients(12), "crp": [5.0] * 11 + [80.0]}).rows == 12


def test_what_was_accepted_is_on_record(folder: DeviceFolder):
    approved(folder)
    later, one_more = replace(CONTRACT, edition=2), joined(BASE, patients(1, seed=1))
    assert "on-rows" in refusal(folder, later, one_more, policy=Policy(on_rows="refuse"), accept={"rows": "why not"})
    assert ALL in refusal(folder, later, one_more, accept={"columns": "of another kind"})
    found = approved(folder, later, one_more, accept={"rows": "she has consented"})
    ((kind, words, who, why),) = found.accepted
    assert (kind, who, why) == ("rows", "Ada", "she has consented") and words.startswith("1 row(s) of this table")
    with DeviceFolder(folder.path).ledger() as ledger:
        assert ledger.approvals[-1].accepted == found.accepted
    allowed = approved(folder, replace(CONTRACT, edition=3), policy=Policy(on_rows="allow"))
    assert {one[3] for one in allowed.accepted} == {"allowed by the policy"}
    tried = approved(folder, replace(CONTRACT, edition=4), joined(BASE, patients(2, seed=2)), dry_run=True)
    assert tried.accepted and tried.accepted[0][3] == "", "a trial shows what would be asked"
    with folder.ledger() as ledger:
        assert [one.edition for one in ledger.approvals] == [1, 2, 3]


def test_nothing_is_recorded_where_the_last_question_is_answered_by_no(folder: DeviceFolder):
    def no() -> None:
        raise InvalidInput("no")

    assert refusal(folder, confirm=no) == "no" and folder.snapshot(CONTRACT.digest()) is None


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (Policy(allow_gram=False), "the server must not learn the whole total of X'X by this device's policy"),
        (Policy(smallest_cell=10), "smallest_cell must be at least 10 by this device's policy, got 5"),
        (Policy(least_rows=40), "least_rows must be at least 40 by this device's policy, got 6"),
        (Policy(most_outputs=1), "columns of the target must be at most 1 by this device's policy, got 2"),
        (Policy(most_epsilon=1.0), "epsilon must be at most 1 at delta = 1e-05 by this device's policy, got no noise"),
    ],
)
def test_the_operators_own_limits(folder: DeviceFolder, policy: Policy, message: str):
    classes = replace(CONTRACT, target=ClassTarget("sex", ("f", "m")), columns=(AGE,))
    assert refusal(folder, classes, policy=policy).startswith(message)


def test_two_grids_of_survival_times_do_not_show_who_is_between(folder: DeviceFolder):
    died = NumberColumn("died", (0.0, 1.0), 1.0, in_model=False)
    rows = {**BASE, "died": [i % 2 for i in range(100)]}
    first = replace(CONTRACT, id="nr", columns=(*CONTRACT.columns, died))
    model = SurvivalModel("m", ("sex",), "died", (10.0, 20.0, 40.0))
    first = replace(first, models=(model,))
    approved(folder, first, rows)
    line = (
        f"{ALL}'days' is divided at other numbers than by stay: differences of their sums are about the rows between"
        " (11, 20, 40) and (10, 20, 40); accept it with --accept marks='why', wait for more rows, or ask for another"
        " study"
    )
    moved = replace(first, edition=2, models=(replace(model, times=(11.0, 20.0, 40.0)),))
    assert refusal(folder, moved, rows) == line
    assert approved(folder, replace(first, edition=2), rows).accepted == ()
    assert approved(folder, moved, {**strangers(), "died": rows["died"]}).edition == 2


# -- who is asked


def test_nobody_is_asked_while_the_ledger_is_held(folder: DeviceFolder):
    """A device of the machine that joins meanwhile need not wait for a person; what it changes is judged again."""
    approved(folder, agreed(STUDY))
    fewer = some(BASE, slice(2, None))
    asked: list[str] = []

    def ask(finding: DisclosureFinding) -> str:
        with DeviceFolder(folder.path).ledger() as ledger:  # waits for good where it is held
            assert len(ledger) == 1
        asked.append(finding.words)
        if len(asked) == 1:
            approved(DeviceFolder(folder.path), agreed(replace(STUDY, edition=7)))
        return "a test"

    deciding = Deciding("Ada", "today", ask=ask)
    party = (NAME, identity(NAME).public, table(fewer), folder)
    with pytest.raises(InvalidInput, match=r"^the ledger must be as it was when the study was judged, got a change"):
        approve(agreed(replace(STUDY, edition=2)), ROSTER, *party, deciding)
    with folder.ledger() as ledger:
        assert [one.edition for one in ledger.approvals] == [1, 7]
    approve(agreed(replace(STUDY, edition=2)), ROSTER, *party, replace(deciding, ask=lambda _finding: "a test"))


# -- disclosure groups


def test_other_owners_in_the_group_are_a_finding_that_only_a_policy_lets_pass(folder: DeviceFolder):
    by_id = replace(STUDY, id="nr")
    approved(folder, agreed(by_id))
    members = (*ROSTER.members, *Roster.draft({"z": bytes([9] * 32), "y": bytes([8] * 32)}, 0).members)
    grown = Roster(members)
    other = agreed(replace(by_id, edition=2), grown)
    said = refusal(folder, other, roster=grown, accept={"groups": "they have joined"})
    assert said == (
        f"{ALL}our disclosure group has other owners than in stay, which has rows of ours: sums over both could be"
        " subtracted until single hospitals are left; all owners of the groups that change have to sign (codedfl roster"
        " change); where these are other people that look alike, name an id column, or say on-groups = 'ask' in the"
        " policy and accept it; the policy refuses it (on-groups)"
    )
    assert refusal(folder, other, joined(patients(100, seed=7), patients(1)), roster=grown).startswith(ALL)
    assert approved(folder, other, strangers(), roster=grown).pod == grown.pods[0], "none of the rows before"
    noisy = agreed(replace(STUDY, columns=(replace(AGE, scale="range"),), noise=Budget(1.0, 3)), grown)
    assert approved(folder, noisy, roster=grown).pod == grown.pods[0]
    asking = {"policy": Policy(on_groups="ask"), "accept": {"groups": "all have signed"}}
    signed = approved(folder, replace(other, edition=3), roster=grown, **asking)
    assert [one[0] for one in signed.accepted] == ["groups"]


NINE = {f"clinic-{i}": identity(f"clinic-{i}").public if i < 4 else bytes([50 + i] * 32) for i in range(9)}


def test_sums_of_the_same_rows_are_over_the_same_groups_or_somebody_accepts_others(folder: DeviceFolder):
    """One missing hospital takes its group out of a sum; a sum with it later shows that group alone."""
    roster = Roster.draft(NINE, colluders=1)
    assert len(roster.pods) == 3
    study = agreed(replace(STUDY, id="nr"), roster)
    later = replace(study, edition=2)
    others = replace(study, edition=3)
    for one, columns in ((study, BASE), (later, BASE), (others, strangers())):
        approved(folder, one, columns, roster=roster)
    with folder.ledger() as ledger:
        assert ledger.contribute(study, Ask("census", b"1", (0, 1, 2)), b"", "now") == "", "no sum yet"
        assert ledger.contribute(study, Ask("cells", b"1", (0, 1)), b"", "now") == ""
        refused = ledger.may_contribute(study, Ask("cells", b"2", (0, 1, 2)))
        assert refused == (
            "sums of rows that are in 'stay' must be over the disclosure groups of before, got 0 group(s) fewer and 1"
            " more: the difference of both is about those alone; codedfl site accept lets it pass, on record"
        )
        assert ledger.may_contribute(later, Ask("gram", b"", (0, 1, 2))) == refused, "another study of the same rows"
        assert "1 group(s) fewer and 0 more" in ledger.may_contribute(later, Ask("gram", b"", (0,)))
        for one, groups in ((study, (0, 1)), (later, (0, 1)), (others, (0, 1, 2))):
            assert ledger.may_contribute(one, Ask("gram", b"", groups)) == ""
        found = ledger.accept_groups(later.digest().hex()[:12], (0, 1, 2), "Ada", "clinic-8 is back", "now")
        assert (found.who, found.why) == ("Ada", "clinic-8 is back")
        with pytest.raises(InvalidInput, match=r"^groups must be disclosure groups of the study's roster, got 7$"):
            ledger.accept_groups(later.digest().hex()[:12], (0, 7), "Ada", "why", "now")
        with pytest.raises(InvalidInput, match=r"^digest must begin that of one approval of this device"):
            ledger.accept_groups("zz", (0,), "Ada", "why", "now")
    with DeviceFolder(folder.path).ledger() as ledger:
        assert ledger.may_contribute(later, Ask("gram", b"", (0, 1, 2))) == ""
        assert ledger.may_contribute(study, Ask("gram", b"", (0, 1, 2))) == refused, "accepted for one study"


def test_a_helper_has_no_rows(folder: DeviceFolder):
    roster = Roster.draft(ROSTER.keys, 1, helpers=[NAME])
    study = agreed(STUDY, roster)
    refused = refusal(folder, study, roster=roster)
    assert refused.startswith("table must be left out for a key-only participant, got <RawTable")
    assert approved(folder, study, None, roster=roster).rows == 0
    assert refusal(folder, columns=None) == "table must be given, got None"


def test_noise_is_counted_and_not_compared(folder: DeviceFolder):
    """Rows that would stand alone between exact totals do not between noisy ones; the budget is what limits those."""
    columns = tuple(replace(one, scale="range") if isinstance(one, NumberColumn) else one for one in STUDY.columns)
    noisy = agreed(replace(STUDY, columns=columns, noise=Budget(1.0, 3), least_participants=4))
    policy = Policy(most_total_epsilon=1.6)
    first = approved(folder, noisy, policy=policy)
    assert 0 < first.rho < 1
    approved(folder, replace(noisy, edition=2), joined(BASE, patients(1, seed=1)), policy=policy)
    assert refusal(folder, replace(noisy, edition=3), policy=policy).startswith(
        "epsilon over all approved studies must be"
    )
    with folder.ledger() as ledger:
        assert ledger.rho_with(ledger.approvals[0]) == pytest.approx(2 * first.rho)
        ledger.approve(replace(first, digest=b"x", rho=None), None)
        assert math.isinf(ledger.rho_with(first))
        raise_nothing = ledger.may_contribute(noisy, Ask("products"))
        ledger.contribute(noisy, Ask("products"), b"run", "now")
        assert (raise_nothing, ledger.may_contribute(noisy, Ask("products"))) == ("", "")
        ledger.approvals.pop()
        ledger.rows.clear()


# -- contributions


@dataclass(frozen=True)
class Ask:
    statistic: str
    point: bytes = b""
    groups: tuple[int, ...] = ()

    def digest(self, study: Study) -> bytes:
        return study.digest() + self.statistic.encode() + self.point + bytes(self.groups)


def test_a_device_contributes_to_what_it_approved_and_no_further(folder: DeviceFolder):
    classes = replace(STUDY, target=ClassTarget("sex", ("f", "m")), columns=(AGE,), held_out=0.3, points=2)
    study = agreed(classes)
    with folder.ledger() as ledger:
        assert ledger.may_contribute(study, Ask("cells")).startswith("the study must be approved on this device")
    approved(folder, study)
    asks = [Ask("cells"), Ask("gram", b"m"), Ask("score", b"1"), Ask("score", b"2")]
    assert most_different(study, "gram") == (frozenset({"gram"}), 1)
    assert most_different(study, "census") == (frozenset({"census"}), 256)
    assert most_different(study, "score") == (frozenset({"score"}), 2)
    for ask in asks:
        with folder.ledger() as ledger:
            assert ledger.may_contribute(study, ask) == ""
            ledger.contribute(study, ask, b"run", "now")
    with folder.ledger() as ledger:
        assert [ledger.may_contribute(study, ask) for ask in asks] == [""] * 4, "the same again is free"
        assert ledger.may_contribute(study, Ask("gram", b"n")).startswith("arguments of gram must be at most 1 over")
        assert ledger.may_contribute(study, Ask("score", b"3")) == (
            "arguments of score must be at most 2 over the life of the study, got one more: what the server asked for"
            " before it may ask for again, anything else needs a new edition of the study"
        )
        assert ledger.may_contribute(study, Ask("products")) == (
            "the statistic must follow from the study (census, cells, gram, score), got 'products'"
        )
        assert ledger.may_contribute(replace(study, edition=2), asks[0]).startswith("the study must be approved")


def test_points_are_counted_over_all_statistics_and_models(folder: DeviceFolder):
    """A server that lies cannot have more coefficients answered by asking for another model, or another statistic."""
    models = (LogisticModel("one", ("age",)), LogisticModel("two", ("age",)))
    classes = replace(
        STUDY, target=ClassTarget("sex", ("f", "m")), columns=(AGE,), held_out=0.3, models=models, points=3
    )
    study = agreed(classes)
    approved(folder, study)
    with folder.ledger() as ledger:
        for ask in (Ask("newton", b"one"), Ask("newton", b"two"), Ask("calibration", b"two")):
            assert ledger.may_contribute(study, ask) == ""
            ledger.contribute(study, ask, b"run", "now")
        for ask in (Ask("newton", b"three"), Ask("score", b"1")):
            assert ledger.may_contribute(study, ask) == (
                "arguments of calibration and calibration-line and newton and score must be at most 3 over the life of"
                " the study, got one"
                " more: what the server asked for before it may ask for again, anything else needs a new edition of the"
                " study"
            )
    assert replace(study, points=None).most_points == 2 * 13 + 1


def test_questions_are_remembered_over_all_runs(folder: DeviceFolder):
    study = agreed(replace(STUDY, features="rbf", n_features=20, epochs=3, least_rows=12))
    approved(folder, study)
    for question in (b"e1", b"e2", b"e1"):
        with folder.ledger() as ledger:
            ledger.answer(study, question)
    with folder.ledger() as ledger:
        assert len(ledger.questions) == 2


def test_a_ledger_comes_back_from_the_disk(folder: DeviceFolder):
    approved(folder)
    with folder.ledger() as ledger:
        assert ledger.contribute(CONTRACT, Ask("cells"), b"pinned", "now") == ""
        kept = list(ledger.approvals), list(ledger.contributions)
    with DeviceFolder(folder.path).ledger() as again:
        assert (again.approvals, again.contributions) == kept
        assert again.contribute(CONTRACT, Ask("cells"), b"pinned", "later") == ""
        assert again.contribute(CONTRACT, Ask("cells"), b"other", "later").startswith(
            "a statistic must have the numbers"
        )
    with folder.ledger() as ledger:
        assert ledger.contributions == kept[1]
    with suppress(RuntimeError), folder.ledger() as ledger:
        ledger.contribute(CONTRACT, Ask("gram"), b"run", "now")
        raise RuntimeError
    with folder.ledger() as ledger:
        assert len(ledger.contributions) == 1, "what was not judged to its end is not recorded"
    next((folder.path / "rows").iterdir()).unlink()
    assert (
        refusal(folder, replace(CONTRACT, edition=2))
        == "the hashes of the rows of every approval must be there, got none of 'stay'"
    )
    folder.base.close()
    (folder.path / "ledger.sqlite").write_bytes(b"x" * 4096)
    with (
        pytest.raises(InvalidInput, match=r"^the ledger must be readable, got a damaged"),
        DeviceFolder(folder.path).ledger(),
    ):
        pass


def test_the_ledger_of_0_3_goes_on_counting(folder: DeviceFolder):
    approved(folder)
    with folder.ledger() as ledger:
        (old,) = ledger.approvals
    folder.base.close()
    (folder.path / "ledger.sqlite").unlink()
    numbers: Any = ([], old.width, old.rows, old.held_out, "days", [10.0, 20.0])
    who = (old.digest, old.name, old.edition, old.who, old.when, sorted(old.pod), list(old.statistics))
    given = [[old.digest, "gram", b"a" * 32, b"run 1", "then"], [old.digest, "gram", b"a" * 32, b"run 2", "then"]]
    asked = [[old.digest, b"e" * 32]]
    saved = msgspec.msgpack.encode(["codedfl-ledger-1", [[*who, *numbers]], given, asked])
    (folder.path / "ledger").write_bytes(saved)
    (folder.path / "ledger").chmod(0o600)
    for _ in range(2):
        with DeviceFolder(folder.path).ledger() as ledger:
            assert ledger.approvals == [replace(old, groups=(), group="")]
            assert [one.argument for one in ledger.contributions] == [b"a" * 32], "two runs, one argument"
            assert ledger.questions == [(old.digest, b"e" * 32)]
    (folder.path / "ledger").write_bytes(saved[:-1])
    (folder.path / "ledger").chmod(0o600)
    with pytest.raises(InvalidInput, match=r"^the ledger of 0.3 must be one that codedfl 0.3 wrote"), folder.ledger():
        pass


def test_a_ledger_of_0_2_is_one_line_with_what_to_do(folder: DeviceFolder):
    """It lay beside the runs; a device that did not look would forget what it gave to those totals."""
    former = folder.path.parent / "ledger"
    make_private_folder(former.parent)
    former.write_bytes(b"codedfl-ledger")
    for _ in range(2):
        with pytest.raises(InvalidInput) as raised:
            approved(folder)
        assert str(raised.value) == (
            f"the device's folder must have no ledger of codedfl 0.2, got {str(former)!r}: what it counted cannot be"
            " compared with studies; move it away once only rows that are not in it, or studies with noise, are"
            " approved here"
        )
    former.rename(former.with_name("ledger-of-0.2"))
    assert approved(folder).rows == 100


@pytest.mark.parametrize("name", ["", "..", "a/b"])
def test_a_name_that_is_no_folder_is_refused(tmp_path: Path, name: str):
    with pytest.raises(
        InvalidInput, match=r"^the device's name must (be printable, without spaces|have 1 to 64 bytes)"
    ):
        DeviceFolder.of(tmp_path, name)


# -- words


QUESTIONS = [
    "What is it for?",
    "What was found about few rows of this table?",
    "What of a table is used?",
    "What leaves this machine?",
    "Who sees what?",
    "Whose rows are added to ours?",
    "How few people may a number be about?",
    "What was approved here before?",
    "What is not protected?",
]


def test_the_screen_is_shown_before_anything_is_judged(folder: DeviceFolder):
    seen: list[tuple[Section, ...]] = []
    approved(folder, show=seen.append, words=words_of(CONTRACT))
    fewer = {name: values[2:] for name, values in BASE.items()}
    refusal(folder, replace(CONTRACT, edition=2), fewer, show=seen.append)
    first, second = ({one.question: " | ".join(one.answers) for one in shown} for shown in seen)
    assert list(first) == QUESTIONS
    nothing = "nothing: no way is known by which these sums and earlier ones would tell of few rows"
    assert first["What was found about few rows of this table?"].startswith(nothing)
    assert second["What was found about few rows of this table?"].startswith(
        "rows (to be accepted by you): 2 row(s) of this table are in the sums of stay and of no other"
    )
    assert "ours is clinic-0, clinic-1, clinic-2, clinic-3" in first["Whose rows are added to ours?"]
    assert (
        "BEFORE YOU APPROVE telephone at least 2 of clinic-0, clinic-2, clinic-3, at numbers that you had before"
        in first["Whose rows are added to ours?"]
    )
    assert (
        "gram: the products of the columns" in first["What leaves this machine?"]
        and "21 numbers, once" in first["What leaves this machine?"]
    )
    assert first["What was approved here before?"] == "nothing"
    assert second["What was approved here before?"] == "stay, version 1, by Ada on today, 0 upload(s)"
    assert "gram: Over few rows it is the rows themselves" in first["What is not protected?"]
    assert first["What is not protected?"].startswith("proved: only sums over whole groups can be read;")


def test_what_becomes_of_a_finding_is_on_the_screen(folder: DeviceFolder):
    seen: list[tuple[Section, ...]] = []
    approved(folder)
    fewer = {name: values[2:] for name, values in BASE.items()}
    for said, words in (("refuse", "refused by the policy"), ("allow", "allowed by the policy")):
        with suppress(InvalidInput):
            approved(
                folder, replace(CONTRACT, edition=2), fewer, policy=Policy(on_rows=said), show=seen.append, dry_run=True
            )
        assert seen[-1][1].answers[0].startswith(f"rows ({words}): 2 row(s)")


def test_the_screen_of_a_usual_study_has_two_pages(folder: DeviceFolder):
    """80 x 40 each, with findings, held-out rows and standard errors."""
    seen: list[tuple[Section, ...]] = []
    study = replace(CONTRACT, purpose="How long patients stay, by age and inflammation", held_out=0.1, inference=True)
    approved(folder, study)
    fewer = {name: values[2:] for name, values in BASE.items()}
    approved(
        *(folder, replace(study, edition=2), fewer), accept={"rows": "two have left"}, show=seen.append,
        words=words_of(study),
    )  # fmt: skip
    lines = sum(2 + sum(len(wrap(one, 76, break_on_hyphens=False)) for one in part.answers) for part in seen[0])
    assert 60 < lines + 2 <= 80


@pytest.mark.parametrize("pods", [1, 2])
def test_the_screen_says_where_a_changed_program_can_lie(pods: int):
    many = {f"x-{i}": bytes([40 + i] * 32) for i in range(3 * pods)}
    (few,) = (
        one.answers[0]
        for one in explain(CONTRACT, Roster.draft(many, 1), "x-1")
        if one.question == "How few people may a number be about?"
    )
    assert few.startswith("5 people over all devices (smallest_cell); each row is a person, since there is no id.")
    ends = {
        1: "With 1 disclosure group a device with a changed program can make rare ones look common",
        2: "This holds whatever 1 device may invent",
    }
    assert few.endswith(ends[pods])


def test_a_smallest_cell_of_one_counts_nothing_and_the_policy_vetoes_it(folder: DeviceFolder):
    study = replace(CONTRACT, smallest_cell=1)
    (few,) = (one.answers[0] for one in explain(study) if one.question == "How few people may a number be about?")
    assert few == "one: smallest_cell is 1, so there is no census, and nothing is merged"
    assert refusal(folder, study) == "smallest_cell must be at least 5 by this device's policy, got 1"


@pytest.mark.parametrize("rows", [30, 300])
def test_the_screen_says_how_many_rows_are_kept_for_the_score(folder: DeviceFolder, rows: int):
    seen: list[tuple[Section, ...]] = []
    study = replace(CONTRACT, held_out=0.1)
    kept = approved(DeviceFolder(folder.path, bytes(16)), study, patients(rows), show=seen.append).held_out
    (said,) = (one.answers[-1] for one in seen[0] if one.question == "What of a table is used?")
    assert said == (
        f"10% of the rows ({kept} of {rows} here), drawn by a key of this machine, are held out for the score, or"
        " are in no sum where the census finds too few people"
    )


def test_columns_that_pick_out_a_person_together_are_told(folder: DeviceFolder):
    """Age and year of birth, clipped so that many are above each, and only one person between."""
    ages = [80 if i == 0 else 50 + i % 30 if i < 70 else 85 for i in range(100)]
    columns = {**BASE, "age": ages, "crp": [2000 - one for one in ages]}
    two = (
        NumberColumn("age", (79.0, 80.0), 1.0),
        NumberColumn("crp", (1919.0, 1920.0), 1.0),
    )
    seen: list[tuple[Section, ...]] = []
    found = approved(folder, replace(CONTRACT, columns=two), columns, show=seen.append, accept={"columns": "a test"})
    assert [kind for kind, *_ in found.accepted] == ["columns"], "they are one column but for that person"
    (said,) = (one.answers[-1] for one in seen[0] if one.question.startswith("What was found"))
    assert said.endswith("up to 100% (leverage): some combination of columns is about one person of this table")


def test_no_text_of_a_study_writes_on_the_screen():
    evil = "x\x1b[2J\r\n\u202ey\u2028\u200b\x00"
    ward = CategoryColumn(f"ward{evil}", ("a", f"b{evil}"))
    study = replace(
        STUDY,
        purpose=f"p{evil}",
        columns=(AGE, ward),
        target=replace(DAYS, name=f"d{evil}"),
        id=f"i{evil}",
    )
    lines = [line for one in explain(study) for line in (one.question, *one.answers)]
    assert all(line.isprintable() for line in lines)
    assert sum("[2J" in line for line in lines) >= 3, "the texts are there all the same"
    assert printable(evil) == "x\ufffd[2J\ufffd\ufffd\ufffdy\ufffd\ufffd\ufffd"


def test_an_approval_that_was_not_used_is_withdrawn_and_its_rows_are_free(folder: DeviceFolder):
    """A mistake in a study file must not bind the rows for good; what may have left does."""
    first, mended = CONTRACT, agreed(replace(STUDY, edition=2))
    fewer = {name: values[1:] for name, values in BASE.items()}
    start = approved(folder, first).digest.hex()[:8]
    assert refusal(folder, mended, fewer).startswith(f"{ALL}1 row(s) of this table are in the sums of stay and of no")
    assert folder.withdraw(start).digest == first.digest()
    assert folder.snapshot(first.digest()) is None and not list((folder.path / "rows").iterdir())
    found = approved(folder, mended, fewer)
    with pytest.raises(InvalidInput, match=r"^digest must begin that of one approval of this device, got 'xy' of 0"):
        folder.withdraw("xy")
    with folder.ledger() as ledger:
        ledger.contribute(mended, Ask("cells"), bytes(16), "today")
    with pytest.raises(InvalidInput, match=r"^an approval to be withdrawn must have no contributions, got some to"):
        folder.withdraw(found.digest.hex())
    assert folder.frozen(found.digest) is not None
