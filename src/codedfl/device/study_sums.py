"""What the sums of a study are, as server and devices derive it alike: who takes part, and how each is laid out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.errors import MessageRefused
from codedfl.sum.layout import Layout
from codedfl.sum.terms import Participant, Terms
from codedfl.sum.wire import Refused

if TYPE_CHECKING:  # with the first request: a device may wait for days
    from codedfl.statistics.statistic import Ask, Statistic

MANY_DEVICES = 50  # with more devices than this, not everybody holds a role
HOLDERS_PER_ROLE = 12  # and each role has this number of holders


@dataclass(frozen=True)
class StudySums:
    """The study's side of ``sum``: nothing in it is anybody's choice.

    Examples
    --------
    >>> from codedfl.contract.roster import Roster
    >>> from codedfl.contract.study import NumberTarget, Study, StudyColumn
    >>> from codedfl.data.columns import NumberColumn
    >>> from codedfl.statistics.statistic import Ask
    >>> from codedfl.device.study_sums import StudySums
    >>> age = StudyColumn(NumberColumn("age"), (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, server_key="00" * 32)
    >>> roster = Roster.draft({name: name.encode() * 32 for name in "abc"}, colluders=1)
    >>> sums = StudySums(study, roster)
    >>> sums.layout(Ask("gram").encode()), dict(sums.terms.roles)
    (<Layout of 12 numbers of 32 bits>, {'a': 0, 'b': 1, 'c': 0})
    """

    study: Study
    roster: Roster

    @cached_property
    def terms(self) -> Terms:
        """Who takes part, in which disclosure groups, with which roles."""
        study, members = self.study, self.roster.members
        holders = study.holders
        if holders is None and len(members) > MANY_DEVICES:
            holders = HOLDERS_PER_ROLE * (study.colluders + 1)
        return Terms(
            study.digest(),
            bytes.fromhex(study.server_key),
            tuple(Participant(one.name, one.key, None if one.helper else one.pod) for one in members),
            study.colluders,
            study.least_owners,
            holders,
        )

    def ask(self, data: bytes) -> Ask:
        """A request that follows from the study; ``Refused`` otherwise."""
        from codedfl.statistics.statistic import Ask

        try:
            return Ask.decode(data, self.study)
        except MessageRefused as error:
            raise Refused("request", str(error)) from None

    def statistic(self, data: bytes) -> Statistic:
        from codedfl.statistics.statistic import statistic_of

        return statistic_of(self.study, self.ask(data))

    def layout(self, ask: bytes) -> Layout:
        """How the numbers of a request are laid out."""
        return self.statistic(ask).layout(len(self.roster.owners))

    def groups(self, ask: bytes) -> Collection[int]:
        """The disclosure groups that the request is for; empty where any union of groups may be."""
        groups = self.ask(ask).groups
        if not set(groups) <= set(self.terms.groups):
            raise Refused("list", "groups must be on the roster, got others")
        return groups

    def needs(self, ask: bytes) -> Collection[bytes]:
        """Digests of the contents that a request needs: no statistic has any yet."""
        del ask
        return ()
