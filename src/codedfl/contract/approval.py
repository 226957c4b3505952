"""Approving a study on a device: its words are shown, it is judged, and then the rows are frozen.

Everything is judged here, once, before anything leaves; a run only reads what was frozen. Refusals are for the
operator: they name rows and counts, which nobody else may see.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.ledger import Approval
from codedfl.contract.policy import Policy, policy_objection, spending_objection, study_rho
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import RowTags, Snapshot, own_rows
from codedfl.contract.study import Study
from codedfl.contract.words import Section, Words, explain
from codedfl.data.tables import RawTable
from codedfl.errors import InvalidInput

_NO_TAGS = np.zeros((0, 0), dtype=np.uint64)
_NO_ROWS = RowTags((), _NO_TAGS, _NO_TAGS, _NO_TAGS, "", _NO_TAGS.ravel(), np.zeros(0, dtype=np.bool_))


def approve(
    study: Study,
    roster: Roster,
    name: str,
    key: bytes,
    table: RawTable | None,
    folder: DeviceFolder,
    *,
    who: str,
    when: str,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    show: Callable[[tuple[Section, ...]], object] = lambda _: None,
    words: Words | None = None,
    dry_run: bool = False,
) -> Approval:
    """Show, judge, record and freeze; again for the same study and rows changes nothing, and mends what a crash left.

    Parameters
    ----------
    study, roster : Study, Roster
        The roster must be the one that the study names.
    name, key : str, bytes
        This device, and its own public key.
    table : RawTable or None
        Its rows; None for a helper, which has none.
    folder : DeviceFolder
        Where the ledger and the frozen rows are kept.
    who, when : str
        Who approves, and the time.
    policy : Policy
        The operator's own limits.
    show : callable
        Gets the words of the study before anything is judged.
    words : mapping
        What each statistic lets leave, and what it can show.
    dry_run : bool
        Show and judge only: nothing is recorded, and no rows are frozen.

    Examples
    --------
    >>> import tempfile; from dataclasses import replace; from pathlib import Path
    >>> from codedfl.contract.study_columns import NumberTarget, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.data.tables import as_raw_table
    >>> keys = {f"clinic-{i}": bytes([i] * 32) for i in range(3)}
    >>> roster = Roster.draft(keys, colluders=1)
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 110.0), 1.0)
    >>> study = Study("stay", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 1000, 300, 3, held_out=0)
    >>> study = replace(study, roster=roster.digest().hex(), server_key="ab" * 32)
    >>> table = as_raw_table({"age": range(20, 40), "days": range(20)})
    >>> folder = DeviceFolder(Path(tempfile.mkdtemp()) / "clinic-1")
    >>> approve(study, roster, "clinic-1", keys["clinic-1"], table, folder, who="Ada", when="today").rows
    20
    """
    helper = _checked_member(study, roster, name, key)
    if helper != (table is None):
        raise InvalidInput(f"table must be {'left out for a helper' if helper else 'given'}, got {table!r}")
    if not who.strip():
        raise InvalidInput("who must say who approves, got nothing")
    own = None
    with folder.ledger(with_rows=True) as ledger:
        if table is not None:
            study.load_features()
            own = own_rows(study, table, folder.rows_key())
        show(explain(study, roster, name, own, ledger, words))
        new = _approval(study, roster.pod_of(name), own and own.snapshot, who, when)
        known, rows = ledger.approval(new.digest), own.tags if own else _NO_ROWS
        for objection in (
            ledger.pod_objection(new, rows),
            ledger.row_objection(new, rows, study.least_alike),
            ledger.time_objection(new, rows),
            spending_objection(policy, ledger.rho_with(new)),
            policy_objection(policy, study, roster),
        ):
            if objection:
                raise InvalidInput(objection)
        if dry_run:
            return known or new
        ledger.approve(new, rows)
    # The ledger first: killed here, the same approval again freezes the rows.
    if own is not None:
        folder.save_snapshot(own.snapshot)
    return known or new


def _checked_member(study: Study, roster: Roster, name: str, key: bytes) -> bool:
    """Whether this device is a helper; refuses a roster, a device or a key that is not the study's."""
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


def _approval(study: Study, pod: frozenset[str], snapshot: Snapshot | None, who: str, when: str) -> Approval:
    rows, held_out = (0, 0) if snapshot is None else (len(snapshot), int(snapshot.held_out.sum()))
    of_study, time = (study.digest(), study.name, study.edition), (study.target.name, study.time_grid)
    return Approval(*of_study, who, when, pod, study.statistics, study_rho(study), study.width, rows, held_out, *time)
