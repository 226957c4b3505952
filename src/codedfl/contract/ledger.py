"""What a device approved and contributed, ever: its only memory, judged before anything leaves.

It is never shortened, but for an approval to which nothing was contributed.

An approval is for one digest, that is for one meaning of the study, and for one table. It reads no clock; the caller
says when.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from codedfl.contract.findings import DisclosureFinding, Past
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput

if TYPE_CHECKING:
    from codedfl.contract.former import FormerRows
    from codedfl.contract.seen import SeenRows

_OTHER_NUMBERS = "a statistic must have the numbers that it had before: data, code or rounding have changed"
_MOST_CENSUS = 256  # rounds, over the life of a study: each is decided by those before it


class Asked(Protocol):
    """A request of the server's for a sum (``statistics.Ask``)."""

    @property
    def groups(self) -> tuple[int, ...]:
        """The disclosure groups that it is over."""

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
    pod: the names of the owners in this device's disclosure group. statistics: what may be asked for.
    rho: what the study's noise lets it cost a row; None for exact totals.
    width: its design columns. rows, held_out: how many rows the snapshot has in all, and kept for the score.
    groups: of every disclosure group by its number a digest of its owners' keys; group: that of this device's own.
    related: the digests of earlier studies of some of the same rows. points: how many the server may choose.
    accepted: what was found of few rows: its kind and words, who accepted it, and why.
    directions: of how many directions of random features the server may learn the products.
    changed: of the related ones those over other groups, to which all owners of the changed groups have signed.
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
    groups: tuple[tuple[int, str], ...] = ()
    group: str = ""
    related: tuple[bytes, ...] = ()
    points: int = 0
    accepted: tuple[tuple[str, str, str, str], ...] = ()
    directions: int = 0
    changed: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Contribution:
    """That this device uploaded its part of a sum: of which study and statistic, for which argument.

    It is recorded before anything leaves; what may have left counts as what did.

    argument: the digest of the request. pinned: the keyed digest of the numbers: others are never uploaded for it.
    groups: the numbers of the disclosure groups that the sum is over; none of a sum over whoever was there.
    """

    digest: bytes
    statistic: str
    argument: bytes
    pinned: bytes
    when: str
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class AcceptedGroups:
    """That somebody accepted sums over other groups than before, beside those of some of the same rows.

    groups: the digests of the groups.
    """

    digest: bytes
    groups: frozenset[str]
    who: str
    why: str
    when: str


class Ledger:
    """All approvals, contributions and questions of one device, oldest first.

    rows: hashes of each approval's rows, by digest (``seen``); former: those of 0.3.
    questions: the digests of the e answered under each approval.
    accepted: which other groups somebody has accepted.

    >>> Ledger()
    <Ledger of 0 approvals, 0 contributions>
    """

    def __init__(
        self,
        approvals: Iterable[Approval] = (),
        contributions: Iterable[Contribution] = (),
        questions: Iterable[tuple[bytes, bytes]] = (),
        rows: Mapping[bytes, SeenRows] | None = None,
        accepted: Iterable[AcceptedGroups] = (),
    ) -> None:
        self.approvals = list(approvals)
        self.contributions = list(contributions)
        self.questions = list(questions)
        self.rows = dict(rows or {})
        self.former: dict[bytes, FormerRows] = {}
        self.accepted = list(accepted)

    def __repr__(self) -> str:
        return f"<Ledger of {len(self.approvals)} approvals, {len(self.contributions)} contributions>"

    def __len__(self) -> int:
        return len(self.approvals) + len(self.contributions) + len(self.questions)

    def approval(self, digest: bytes) -> Approval | None:
        """The approval of the study with this digest, or None if it was not approved here."""
        return next((one for one in self.approvals if one.digest == digest), None)

    # -- approvals

    def earlier(self) -> list[Past]:
        """The rows of all approved studies without noise, oldest first."""
        return [Past(one.name, self.rows[one.digest]) for one in self._exact() if one.digest in self.rows]

    def earlier_of_0_3(self) -> dict[str, FormerRows]:
        """Those that 0.3 approved, by the study's name."""
        return {one.name: self.former[one.digest] for one in self._exact() if one.digest in self.former}

    def _exact(self) -> list[Approval]:
        return [one for one in self.approvals if one.rho is None and one.rows]

    def related(self, rows: SeenRows) -> tuple[bytes, ...]:
        """The studies without noise that some of these rows are in."""
        return tuple(
            one.digest
            for one in self._exact()
            if one.digest in self.former or np.isin(rows.rows, self.rows[one.digest].rows).any()
        )

    def group_findings(self, new: Approval) -> list[DisclosureFinding]:
        """Other owners in this device's disclosure group, by their keys, than in earlier studies of the same rows."""
        return [
            DisclosureFinding(
                "groups",
                f"our disclosure group has other owners than in {past.name}, which has rows of ours: sums over both"
                " could be subtracted until single hospitals are left; all owners of the groups that change have to"
                " sign (codedfl roster change); where these are other people that look alike, name an id column, or say"
                " on-groups = 'ask' in the policy and accept it",
            )
            for past in self.approvals
            if past.digest in new.related and past.group and past.group != new.group
            if past.digest not in new.changed
        ]

    def same_again(self, digest: bytes, rows: SeenRows) -> str:
        """Why these are other rows than were approved under this digest; empty when they are the same."""
        if digest in self.rows and not rows.same_as(self.rows[digest]):
            return "this study was approved with other rows: what changed since then needs a new version of the study"
        return ""

    def points_with(self, new: Approval) -> int:
        """How many points servers may choose over some of the same rows."""
        return new.points + sum(one.points for one in self.approvals if one.digest in new.related)

    def directions_with(self, new: Approval) -> int:
        """Of how many directions of features servers may learn the products, over some of the same rows."""
        return new.directions + sum(one.directions for one in self.approvals if one.digest in new.related)

    def rho_with(self, new: Approval) -> float:
        """What all approvals together may cost a row that is in each of them; infinite if one of them is exact."""
        every = {one.digest: one.rho for one in (*self.approvals, new)}
        return sum(math.inf if rho is None else rho for rho in every.values())

    def approve(self, new: Approval, rows: SeenRows | None) -> None:
        """Record an approval, once for each digest."""
        if self.approval(new.digest) is None:
            self.approvals.append(new)
            if rows is not None:
                self.rows[new.digest] = rows

    def withdraw(self, start: str) -> Approval:
        """Take back the approval whose digest begins so, in hex: of rows that were in no sum nothing is known."""
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
        if objection := self._group_objection(digest, ask):
            return objection
        alike, most = most_different(study, ask.statistic)
        given = {one.argument for one in self.contributions if one.digest == digest and one.statistic in alike}
        if ask.digest(study) in given or len(given) < most:
            return ""
        asked = " and ".join(sorted(alike))
        return (
            f"arguments of {asked} must be at most {most} over the life of the study, got one more: what the server"
            " asked for before it may ask for again, anything else needs a new edition of the study"
        )

    def _group_objection(self, digest: bytes, ask: Asked) -> str:
        """Why a sum must not be over these groups; empty when it may be.

        Invariant: all sums of some of the same rows are over the same groups, by the keys of their owners, or somebody
        has accepted others on record. A census is no such sum.
        """
        approval = self.approval(digest)
        if not ask.groups or ask.statistic == "census" or approval is None:
            return ""
        wanted = self._owners(approval, ask.groups)
        if any(one.digest == digest and one.groups == wanted for one in self.accepted):
            return ""
        for one in self.contributions:
            past = self.approval(one.digest)
            related = past is not None and (one.digest in (digest, *approval.related) or digest in past.related)
            if past is None or one.statistic == "census" or not related:
                continue
            other = self._owners(past, one.groups)
            if one.digest in approval.changed:  # the others have signed; those that both rosters have stay the same
                both = frozenset(dict(past.groups).values()) & frozenset(dict(approval.groups).values())
                if other & both == wanted & both:
                    continue
            if one.groups and other != wanted:
                gone, come = len(other - wanted), len(wanted - other)
                return (
                    f"sums of rows that are in {past.name!r} must be over the disclosure groups of before, got {gone}"
                    f" group(s) fewer and {come} more: the difference of both is about those alone; codedfl site accept"
                    " lets it pass, on record"
                )
        return ""

    @staticmethod
    def _owners(approval: Approval, groups: Iterable[int]) -> frozenset[str]:
        digests = dict(approval.groups)
        return frozenset(digests.get(number, "") for number in groups)

    def accept_groups(self, start: str, groups: Iterable[int], who: str, why: str, when: str) -> AcceptedGroups:
        """Record that sums of a study may be over these groups whatever its rows were summed over before."""
        found = [one for one in self.approvals if one.digest.hex().startswith(start.lower())]
        if len(found) != 1:
            raise InvalidInput(
                f"digest must begin that of one approval of this device, got {start!r:.80} of {len(found)}"
            )
        known = dict(found[0].groups)
        if strange := [number for number in groups if number not in known]:
            raise InvalidInput(f"groups must be disclosure groups of the study's roster, got {strange[0]}")
        one = AcceptedGroups(found[0].digest, self._owners(found[0], groups), who, why, when)
        self.accepted.append(one)
        return one

    def contribute(self, study: Study, ask: Asked, pinned: bytes, when: str) -> str:
        """Record an upload; returns why it must not leave, or "" if it may once this is on the disk."""
        digest, argument = study.digest(), ask.digest(study)
        known = next((one for one in self.contributions if (one.digest, one.argument) == (digest, argument)), None)
        if known is not None:
            return "" if known.pinned in (pinned, b"") else _OTHER_NUMBERS
        if objection := self.may_contribute(study, ask):
            return objection
        self.contributions.append(Contribution(digest, ask.statistic, argument, pinned, when, ask.groups))
        return ""

    def may_answer(self, study: Study, question: bytes) -> str:
        """Why a question (the digest of an e) must not be answered; empty when it may.

        Each different e shows one more direction of the total X'X, whatever the run. A machine counts those of its own
        run and of the runs before it; of runs that are under way side by side only the ledger knows.
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
