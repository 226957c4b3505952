"""Approving a study on a device: its words are shown, it is judged, and then the rows are frozen.

Everything is judged here, once, before anything leaves; a run only reads what was frozen. What could be learnt of few
rows is a finding (``judgement``): the operator's policy refuses, asks or allows, and what was accepted is on record.
Refusals are for the operator: they name rows and counts, which nobody else may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from codedfl.contract.design_columns import dominated_sums
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.findings import DisclosureFinding
from codedfl.contract.judgement import judged
from codedfl.contract.ledger import Approval, Ledger
from codedfl.contract.models import StudyModel
from codedfl.contract.policy import Policy, policy_objection, shown_directions, spending_objection, study_rho
from codedfl.contract.roster import Roster, groups_of
from codedfl.contract.seen import SeenRows, counted_with, seen_rows
from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import Study
from codedfl.contract.words import Section, Words, explain
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput

if TYPE_CHECKING:
    from codedfl.contract.roster_change import RosterChange


@dataclass(frozen=True)
class Deciding:
    """Who decides about findings, and how.

    who, when: who approves, and the time. policy: the operator's own limits.
    accept: for a kind of finding why it is accepted. ask: asked about any other finding; returns why, or "".
    changes: of disclosure groups; one that all owners of the touched groups have signed is accepted.

    >>> Deciding("Ada", "today").reason(DisclosureFinding("rows", "3 rows")) is None
    True
    """

    who: str
    when: str
    policy: Policy = Policy()  # noqa: RUF009 - frozen
    accept: Mapping[str, str] = field(default_factory=dict)
    ask: Callable[[DisclosureFinding], str] = field(default=lambda _finding: "")
    changes: Sequence[RosterChange] = ()

    def reason(self, finding: DisclosureFinding) -> str | None:
        """Why a finding is accepted; None where it is not."""
        said = self.policy.on(finding.kind)
        if said == "allow":
            return "allowed by the policy"
        if said == "refuse":
            return None
        return self.accept.get(finding.kind) or self.ask(finding) or None


def approve(
    study: Study,
    roster: Roster,
    name: str,
    key: bytes,
    table: RawTable | None,
    folder: DeviceFolder,
    deciding: Deciding,
    *,
    show: Callable[[tuple[Section, ...]], object] = lambda _: None,
    words: Words | None = None,
    dry_run: bool = False,
    confirm: Callable[[], object] = lambda: None,
) -> Approval:
    """Show, judge, record and freeze; again for the same study and rows changes nothing, and mends what a crash left.

    Parameters
    ----------
    study, roster : Study, Roster
        The roster must be the one that the study names.
    name, key : str, bytes
        This device, and its own public key.
    table : RawTable or None
        Its rows; None for a key-only participant, which has none.
    folder : DeviceFolder
        Where the ledger and the frozen rows are kept.
    deciding : Deciding
        Who approves, and what becomes of findings.
    show : callable
        Gets the words of the study before anything is judged.
    words : mapping
        What each statistic lets leave, and what it can show.
    dry_run : bool
        Show and judge only: nothing is recorded, and no rows are frozen.
    confirm : callable
        Called when all is judged, before anything is recorded; what it raises ends the approval.

    Examples
    --------
    >>> import tempfile; from dataclasses import replace; from pathlib import Path
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.data.tables import as_raw_table
    >>> keys = {f"clinic-{i}": bytes([i] * 32) for i in range(3)}
    >>> roster = Roster.draft(keys, colluders=1)
    >>> age = NumberColumn("age", (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 3, held_out=0)
    >>> study = replace(study, roster=roster.digest().hex(), server_key="ab" * 32)
    >>> table = as_raw_table({"age": range(20, 40), "days": [1, 7, 3, 9] * 5})
    >>> folder = DeviceFolder(Path(tempfile.mkdtemp()) / "clinic-1")
    >>> approve(study, roster, "clinic-1", keys["clinic-1"], table, folder, Deciding("Ada", "today")).rows
    20
    """
    helper = _checked_member(study, roster, name, key)
    if helper != (table is None):
        wanted = "left out for a key-only participant" if helper else "given"
        raise InvalidInput(f"table must be {wanted}, got {table!r}")
    if not deciding.who.strip():
        raise InvalidInput("who must say who approves, got nothing")
    own, rows, rows_key = None, None, folder.rows_key() if table is not None else b""
    with folder.ledger(with_rows=True) as ledger:
        if table is not None:
            study.load_features()
            own = take_snapshot(study, table, rows_key)
            earlier = [one.rows for one in ledger.earlier()]
            rows = seen_rows(study, own, table, rows_key)
            if earlier:
                from codedfl.contract.matching import recognised

                rows = recognised(rows, earlier)
        new = _approval(study, roster, name, (own, rows), ledger, deciding)
        new = replace(new, changed=tuple(_changed(roster, new, ledger, deciding)))
        known = ledger.approval(new.digest)
        found = () if rows is None or known else tuple(_findings(study, new, (own, rows), ledger, deciding.policy))
        if (
            table is not None
            and own is not None
            and known is None
            and study.noise is None
            and (former := ledger.earlier_of_0_3())
        ):
            from codedfl.contract.former import former_findings  # of 0.3, which few devices have

            found = (*found, *former_findings(study, own, table, rows_key, former))
        show(explain(study, roster, name, own, ledger, words, found, deciding.policy))
        for objection in (
            ledger.same_again(new.digest, rows) if rows is not None else "",
            _model_objection(study, own) if own else "",
            spending_objection(deciding.policy, ledger.rho_with(new)),
            policy_objection(deciding.policy, study, roster),
        ):
            if objection:
                raise InvalidInput(objection)
        judged_with = [one.digest for one in ledger.approvals]
        new = replace(new, accepted=tuple(_signed(new, ledger)))
    # Invariant: nobody is asked while the ledger is held, for which a device of this machine that joins would wait.
    new = replace(new, accepted=(*new.accepted, *_accepted(found, deciding, dry_run)))
    if dry_run:
        return known or new
    confirm()
    with folder.ledger(with_rows=True) as ledger:
        # Invariant: what is recorded was judged over all that is recorded.
        if [one.digest for one in ledger.approvals] != judged_with:
            raise InvalidInput("the ledger must be as it was when the study was judged, got a change: approve it again")
        ledger.approve(new, rows)
    # The ledger first: killed here, the same approval again freezes the rows.
    if own is not None:
        folder.save_snapshot(own)
    return known or new


def _changed(roster: Roster, new: Approval, ledger: Ledger, deciding: Deciding) -> Iterator[bytes]:
    """Earlier studies of some of the same rows, of whose groups a complete change leads to these."""
    if not deciding.changes:
        return
    from codedfl.contract.roster_change import covering, singled_out  # groups hardly ever change

    found = []
    for past in ledger.approvals:
        groups = frozenset(dict(past.groups).values())
        other = past.group and past.digest in new.related and groups != frozenset(dict(new.groups).values())
        # Invariant: also where our own group stays: sums differ by the groups that change, and those have signed.
        if other and (change := covering(deciding.changes, roster, groups)):
            found.append(change)
            yield past.digest
    if alone := singled_out(found):
        raise InvalidInput(
            "rosters of studies on the same rows must together tell nobody apart whom no signed change names, got"
            f" {', '.join(alone)}, whose own sum can be computed from these {len(set(map(id, found))) + 1}: take other"
            " groups"
        )


def _signed(new: Approval, ledger: Ledger) -> Iterator[tuple[str, str, str, str]]:
    """Another group is recorded as what it is: signed by all whom it concerns."""
    for past in ledger.approvals:
        if past.digest in new.changed:
            whose = "our disclosure group has" if past.group != new.group else "disclosure groups beside ours have"
            words = f"{whose} other owners than in {past.name}"
            yield "groups", words, "all owners of the groups that changed", "signed by all (roster change)"


def _accepted(
    found: tuple[DisclosureFinding, ...], deciding: Deciding, dry_run: bool
) -> Iterator[tuple[str, str, str, str]]:
    for one in found:
        why = deciding.reason(one)
        if why is None and not (dry_run and deciding.policy.on(one.kind) == "ask"):
            how = (
                f"the policy refuses it (on-{one.kind})"
                if deciding.policy.on(one.kind) == "refuse"
                else f"accept it with --accept {one.kind}='why', wait for more rows, or ask for another study"
            )
            raise InvalidInput(f"a finding must be accepted by who approves, got one that is not: {one.words}; {how}")
        yield one.kind, one.words, deciding.who, why or ""


def _findings(
    study: Study, new: Approval, own: tuple[Snapshot | None, SeenRows], ledger: Ledger, policy: Policy
) -> Iterator[DisclosureFinding]:
    snapshot, rows = own
    if study.noise is not None:  # hides single rows by itself; what it costs is counted
        return
    yield from ledger.group_findings(new)
    yield from judged(rows, ledger.earlier(), study.smallest_cell, counted_with(study))
    if snapshot is not None:
        yield from dominated_sums(study, snapshot)
    if (points := ledger.points_with(new)) > policy.most_points:
        yield DisclosureFinding(
            "points", f"servers may choose {points} points over some of these rows, more than {policy.most_points}"
        )
    shown = ledger.directions_with(new)  # over all studies of these rows: other seeds have other directions
    if new.directions and 2 * shown > study.least_pod_rows:
        yield DisclosureFinding(
            "features",
            f"servers may learn {shown} directions of the products of features of these rows, and the study asks for"
            f" {study.least_pod_rows} rows (least_rows): fewer than {2 * shown} rows can be distinguished by them",
        )
    for model in study.models:
        few = _few_combinations(study, model, rows)
        if few:
            yield DisclosureFinding(
                "combinations",
                f"{few} combinations of the columns of the model {model.name!r} have fewer than {study.smallest_cell}"
                " people of this table: the server may learn how many all devices have; a release withholds them",
            )


def _few_combinations(study: Study, model: StudyModel, rows: SeenRows) -> int:
    """Of columns with names or few values, which iterations tell apart."""
    if not model.iterates:
        return 0
    from codedfl.contract.combinations import cell_columns  # of models that iterate

    values = rows.values[:, cell_columns(study, model)]
    if not values.size:
        return 0
    _, cells = np.unique(values, axis=0, return_inverse=True)
    people = rows.ids if len(rows.ids) else rows.rows
    # Invariant: a person counts once in a combination, however many rows of it are there.
    pairs = np.unique(np.stack((cells.reshape(-1).astype(np.uint64), people.astype(np.uint64))), axis=1)
    counts = np.bincount(pairs[0].astype(np.int64))
    return int((counts < study.smallest_cell).sum()) if 2 * len(counts) < len(values) else 0


def _model_objection(study: Study, rows: Snapshot) -> str:
    """A kind of model may have an objection of its own to a table."""
    codes = rows.part(held_out=False).codes
    named = dict(zip(study.table_columns.names, codes.T, strict=True))
    objections = (one.objection(named, study.most_points, study.smallest_cell) for one in study.models)
    return next(filter(None, objections), "")


def _checked_member(study: Study, roster: Roster, name: str, key: bytes) -> bool:
    """Whether this device is a key-only participant; refuses a roster, a device or a key that is not the study's."""
    if not study.roster or not study.server_key:
        raise InvalidInput("roster and server_key must be said in a study that is approved, got nothing")
    roster.check_bound(study)
    if len(roster.owners) < study.least_participants:
        raise InvalidInput(
            f"owners on the roster must be at least least_participants ({study.least_participants}), got"
            f" {len(roster.owners)}"
        )
    member = roster.member(name)
    if member.key != key:
        raise InvalidInput(
            f"key of {name!r} on the roster must be this device's ({key.hex()[:16]}), got {member.key.hex()[:16]}:"
            " codedfl roster renew makes a roster with the new key, for a new edition"
        )
    return member.helper


def _approval(
    study: Study,
    roster: Roster,
    name: str,
    own: tuple[Snapshot | None, SeenRows | None],
    ledger: Ledger,
    deciding: Deciding,
) -> Approval:
    snapshot, seen = own
    rows, held_out = (0, 0) if snapshot is None else (len(snapshot), int(snapshot.held_out.sum()))
    groups = groups_of(roster)
    member = roster.member(name)
    return Approval(
        study.digest(),
        study.name,
        study.edition,
        deciding.who,
        deciding.when,
        roster.pod_of(name),
        study.statistics,
        study_rho(study),
        study.width,
        rows,
        held_out,
        tuple(groups.items()),
        "" if member.helper else groups[member.pod],
        () if seen is None else ledger.related(seen),
        study.most_points if study.at_points & set(study.statistics) else 0,
        directions=shown_directions(study, roster) if "products" in study.statistics and study.noise is None else 0,
    )
