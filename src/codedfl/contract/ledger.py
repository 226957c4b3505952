"""What a device approved and contributed, ever: its only memory, judged before anything leaves.

It is never shortened, but for an approval to which nothing was contributed.

An approval is for one digest, that is for one meaning of the study, and for one table. It reads no clock; the caller
says when.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from codedfl.contract.row_rule import row_objection
from codedfl.contract.snapshot import RowTags
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput

FORMAT = "codedfl-ledger-1"  # of 0.3
_OTHER_NUMBERS = "a statistic must have the numbers that it had before: data, code or rounding have changed"
_MOST_CENSUS = 256  # rounds, over the life of a study: each is decided by those before it


class Asked(Protocol):
    """A request of the server's for a total (``statistics.Ask``)."""

    @property
    def statistic(self) -> str:
        """The statistic's name."""

    def digest(self, study: Study) -> bytes:
        """Names statistic and arguments."""


def most_different(study: Study, statistic: str) -> tuple[frozenset[str], int]:
    """The statistics that are counted together with this one, and how many different arguments they have in all."""
    if statistic in study.at_points:
        return study.at_points, study.most_points
    return frozenset({statistic}), _MOST_CENSUS if statistic == "census" else study.most_asks(statistic)


@dataclass(frozen=True)
class Approval:
    """The record that somebody approved a study on this device.

    digest, name, edition: those of the study. who, when: as the caller writes them.
    pod: the names of the owners in this device's pod. statistics: what may be asked for.
    rho: what the study's noise lets it cost a row; None for exact totals.
    width: its design columns. rows, held_out: how many rows the snapshot has in all, and kept for the score.
    target, time_grid: the name of the target, and the times that divide it for survival models (``Study.time_grid``).
    """

    digest: bytes
    name: str
    edition: int
    who: str
    when: str
    pod: frozenset[str]
    statistics: tuple[str, ...]
    rho: float | None
    width: int
    rows: int
    held_out: int
    target: str = ""
    time_grid: tuple[float, ...] = ()


@dataclass(frozen=True)
class Contribution:
    """That this device uploaded its part of a sum: of which study and statistic, for which argument.

    It is recorded before anything leaves; what may have left counts as what did.

    argument: the digest of the request. pinned: the keyed digest of the numbers: others are never uploaded for it.
    """

    digest: bytes
    statistic: str
    argument: bytes
    pinned: bytes
    when: str


class Ledger:
    """All approvals, contributions and questions of one device, oldest first.

    rows: the tags of each approval's rows, by digest. questions: the digests of the e answered under each approval.

    >>> Ledger()
    <Ledger of 0 approvals, 0 contributions>
    """

    def __init__(
        self,
        approvals: Iterable[Approval] = (),
        contributions: Iterable[Contribution] = (),
        questions: Iterable[tuple[bytes, bytes]] = (),
        rows: Mapping[bytes, RowTags] | None = None,
    ) -> None:
        self.approvals = list(approvals)
        self.contributions = list(contributions)
        self.questions = list(questions)
        self.rows = dict(rows or {})

    def __repr__(self) -> str:
        return f"<Ledger of {len(self.approvals)} approvals, {len(self.contributions)} contributions>"

    def __len__(self) -> int:
        return len(self.approvals) + len(self.contributions) + len(self.questions)

    def approval(self, digest: bytes) -> Approval | None:
        """The approval of the study with this digest, or None if it was not approved here."""
        return next((one for one in self.approvals if one.digest == digest), None)

    # -- approvals

    def pod_objection(self, new: Approval, rows: RowTags) -> str:
        """Why the pod is another than that of exact totals to which these rows may have gone; empty when it is not.

        Rows that were in none of them, as an id tells, may be in another pod; so may all rows where noise hides them.
        """
        used = {one.digest for one in self.contributions}
        for past in self.approvals:
            exact = past.digest in used and past.rho is None and new.rho is None
            if exact and past.pod != new.pod and not rows.others_than(self._rows_of(past)):
                return (
                    f"this device's pod must be that of {past.name!r}, to which it has contributed"
                    f" ({', '.join(sorted(past.pod))}), got {', '.join(sorted(new.pod))}: rows have one pod for good;"
                    " another is for rows with ids that were in no total, or for a study with noise"
                )
        return ""

    def time_objection(self, new: Approval, rows: RowTags) -> str:
        """Why survival models divide a time of the same rows otherwise than approved ones do; empty when they do not.

        Two curves whose grids differ by one time show who is between; rows that were in neither, by their ids, do not.
        """
        for past in self.approvals:
            timed = past.time_grid and new.time_grid and past.target == new.target
            if timed and past.time_grid != new.time_grid and not rows.others_than(self._rows_of(past)):
                return (
                    f"times of survival models of {new.target!r} must be those of {past.name!r}, which this device"
                    f" approved ({list(past.time_grid)!r:.80}), got {list(new.time_grid)!r:.80}: two grids show single"
                    " people; take that one, or rows with ids that were not in it"
                )
        return ""

    def row_objection(self, new: Approval, rows: RowTags, least: int) -> str:
        """Why rows would stand alone, or are others than were approved under this digest; empty when all is well.

        rows: hashes of the table's rows as they are now. least: k of the row rule (``Study.least_alike``).
        """
        if self.approval(new.digest) is not None:
            return self._same_again(new.digest, rows)
        if new.rho is not None:
            return ""  # noise hides single rows; what it costs is counted by ``rho_with``
        return row_objection(rows, self.exact_rows(), least)

    def exact_rows(self) -> list[RowTags]:
        """The rows of all approved studies without noise."""
        return [self._rows_of(one) for one in self.approvals if one.rho is None]

    def _same_again(self, digest: bytes, rows: RowTags) -> str:
        if not rows.same_as(self.rows[digest]):
            return "this study was approved with other rows: what changed since then needs a new edition of the study"
        return ""

    def _rows_of(self, one: Approval) -> RowTags:
        if one.digest not in self.rows:
            raise InvalidInput(f"the ledger must have the rows' tags of every approval, got none of {one.name!r}")
        return self.rows[one.digest]

    def rho_with(self, new: Approval) -> float:
        """What all approvals together may cost a row that is in each of them; infinite if one of them is exact."""
        every = {one.digest: one.rho for one in (*self.approvals, new)}
        return sum(math.inf if rho is None else rho for rho in every.values())

    def approve(self, new: Approval, rows: RowTags) -> None:
        """Record an approval, once for each digest."""
        if self.approval(new.digest) is None:
            self.approvals.append(new)
            self.rows[new.digest] = rows

    def withdraw(self, start: str) -> Approval:
        """Take back the approval whose digest begins so, in hex: of rows that were in no total nothing can be told."""
        found = [one for one in self.approvals if one.digest.hex().startswith(start.lower())]
        if len(found) != 1:
            raise InvalidInput(
                f"digest must begin that of one approval of this device, got {start!r:.80} of {len(found)}: codedfl"
                " ledger shows them"
            )
        if any(one.digest == found[0].digest for one in self.contributions):
            raise InvalidInput(
                f"an approval to be withdrawn must have no contributions, got some to {found[0].name!r}: what may have"
                " left counts for good"
            )
        self.approvals.remove(found[0])
        return found[0]

    # -- contributions

    def may_contribute(self, study: Study, ask: Asked) -> str:
        """Why this device must not give its part of what is asked for; empty when it may.

        The same argument again is free: the rows are frozen, and so is the noise that a study asks for.
        """
        digest = study.digest()
        if self.approval(digest) is None:
            return f"the study must be approved on this device, got no approval of {digest.hex()[:16]}"
        if ask.statistic not in study.statistics:
            return (
                f"the statistic must follow from the study ({', '.join(study.statistics)}), got {ask.statistic!r:.40}"
            )
        alike, most = most_different(study, ask.statistic)
        given = {one.argument for one in self.contributions if one.digest == digest and one.statistic in alike}
        if ask.digest(study) in given or len(given) < most:
            return ""
        asked = " and ".join(sorted(alike))
        return (
            f"arguments of {asked} must be at most {most} over the life of the study, got one more: what the server"
            " asked for before it may ask for again, anything else needs a new edition of the study"
        )

    def contribute(self, study: Study, ask: Asked, pinned: bytes, when: str) -> str:
        """Record an upload; returns why it must not leave, or "" if it may once this is on the disk."""
        digest, argument = study.digest(), ask.digest(study)
        known = next((one for one in self.contributions if (one.digest, one.argument) == (digest, argument)), None)
        if known is not None:
            return "" if known.pinned in (pinned, b"") else _OTHER_NUMBERS
        if objection := self.may_contribute(study, ask):
            return objection
        self.contributions.append(Contribution(digest, ask.statistic, argument, pinned, when))
        return ""

    def may_answer(self, study: Study, question: bytes) -> str:
        """Why a question (the digest of an e) must not be answered; empty when it may.

        Each different e shows one more direction of the total X'X, whatever the run. A machine counts those of its own
        run and of the runs before it; of runs that go on side by side only the ledger knows.
        """
        asked = {one for digest, one in self.questions if digest == study.digest()}
        if question not in asked and len(asked) >= study.epochs - 1:
            return f"questions must be at most {study.epochs - 1} over the life of the study, got one more"
        return ""

    def answer(self, study: Study, question: bytes) -> None:
        """Record a question that is going to be answered."""
        if (entry := (study.digest(), question)) not in self.questions:
            self.questions.append(entry)

    # -- the file of 0.3

    @classmethod
    def of_former(cls, data: bytes) -> Ledger:
        """The ledger file of 0.3; anything else is refused. What it counts goes on counting.

        >>> Ledger.of_former(b"")
        Traceback (most recent call last):
        ...
        codedfl.errors.InvalidInput: the ledger of 0.3 must be one that codedfl 0.3 wrote: it was damaged
        """
        try:
            said, approvals, given, asked = msgspec.msgpack.decode(data, type=_FORMER)
            if said != FORMAT:
                raise ValueError(said)
            contributions = (Contribution(study, name, argument, b"", when) for study, name, argument, _, when in given)
            known = {(one.digest, one.argument): one for one in contributions}
            return cls([_former_approval(*one) for one in approvals], known.values(), asked)
        except (ValueError, TypeError, msgspec.MsgspecError):
            raise InvalidInput("the ledger of 0.3 must be one that codedfl 0.3 wrote: it was damaged") from None


_FormerApproval = tuple[
    bytes, str, int, str, str, list[str], list[str], list[float], int, int, int, str, tuple[float, ...]
]
_FORMER = tuple[str, list[_FormerApproval], list[tuple[bytes, str, bytes, bytes, str]], list[tuple[bytes, bytes]]]


def _former_approval(*fields: Any) -> Approval:
    digest, name, edition, who, when, pod, statistics, rho, *numbers = fields
    return Approval(
        digest, name, edition, who, when, frozenset(pod), tuple(statistics), rho[0] if rho else None, *numbers
    )
