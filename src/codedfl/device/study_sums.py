"""What the sums of a study are, as server and devices derive it alike: who takes part, and how each is laid out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.sum.certified import CertifiedTotal
from codedfl.sum.keys import digest
from codedfl.sum.layout import Layout
from codedfl.sum.terms import Participant, Terms
from codedfl.sum.wire import Refused

if TYPE_CHECKING:  # with the first request: a device may wait for days
    from codedfl.contract.census import Census
    from codedfl.statistics.statistic import Ask, Statistic

CENSUS = "census"
MANY_DEVICES = 50  # with more devices than this, not everybody holds a role
_MOST_READ = 8  # requests that are known to mean what they mean
HOLDERS_PER_ROLE = 12  # and each role has this number of holders


class ReadRequest(NamedTuple):
    """What a request comes to: it follows from the study and its own bytes, whoever asks and how often."""

    ask: Ask
    statistic: Statistic
    layout: Layout


@dataclass(frozen=True)
class StudySums:
    """The study's side of ``sum``: nothing in it is anybody's choice.

    Examples
    --------
    >>> from codedfl.contract.roster import Roster
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.statistics.statistic import Ask
    >>> from codedfl.device.study_sums import StudySums
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3, server_key="00" * 32)
    >>> roster = Roster.draft({name: name.encode() * 32 for name in "abc"}, colluders=1)
    >>> sums = StudySums(study, roster)
    >>> sums.layout(Ask("gram", groups=(0,)).encode()), dict(sums.terms.roles)
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

    @cached_property
    def _read(self) -> Callable[[bytes], ReadRequest]:
        """Every message of a sum repeats its request: the newest few are read once, and no server can ask for more."""
        return lru_cache(maxsize=_MOST_READ)(self._read_once)

    def _read_once(self, data: bytes) -> ReadRequest:
        from codedfl.statistics.statistic import Ask, statistic_of

        try:
            ask = Ask.decode(data, self.study)
        except MessageRefused as error:
            raise Refused("request", str(error)) from None
        statistic = statistic_of(self.study, ask)
        layout = statistic.layout(len(self.roster.owners))
        return ReadRequest(ask, statistic, layout if self.terms.can_certify else replace(layout, certified=False))

    def ask(self, data: bytes) -> Ask:
        """A request that follows from the study; ``Refused`` otherwise."""
        return self._read(data).ask

    def statistic(self, data: bytes) -> Statistic:
        return self._read(data).statistic

    def layout(self, ask: bytes) -> Layout:
        """How the numbers of a request are laid out."""
        return self._read(ask).layout

    def groups(self, ask: bytes) -> Collection[int]:
        """The disclosure groups that the request is for; empty where any union of groups may be."""
        asked = self.ask(ask)
        if not set(asked.groups) <= set(self.terms.groups):
            raise Refused("list", "groups must be on the roster, got others")
        owners = sum(len(self.terms.groups[number]) for number in asked.groups)
        # Invariant: a census is over parts of those who take part; all that it decides is over all of them.
        if asked.groups and asked.statistic != CENSUS and owners < self.study.least_owners:
            raise Refused("list", f"at least {self.study.least_owners} owners must be in a sum, got {owners}")
        if self.study.needs_census and not asked.groups:
            raise Refused("request", f"a request for {asked.statistic} must say over which groups, got none")
        return asked.groups

    def needs(self, ask: bytes) -> Collection[bytes]:
        """The census from which a request follows."""
        census = self.ask(ask).census
        return (census,) if census else ()

    # -- the census

    def census_asks(self, groups: Collection[int], census: Census | None, before: bytes) -> tuple[Ask, ...]:
        """What a round asks, part by part. census: the rounds before, whose content has the digest ``before``."""
        from codedfl.contract.census import parts_of
        from codedfl.statistics.statistic import Ask

        merged = () if census is None else census.merged
        parts = parts_of(tuple(groups), self.study.colluders)
        return tuple(Ask(CENSUS, merged, groups=part, census=before) for part in parts)

    def census(self, content: bytes) -> tuple[tuple[int, ...], Census]:
        """The groups and rounds of a census, if it is one of this study: believed because z + 1 devices signed it.

        Where there are too few holders to sign, nobody relies on it: no part is then left but those who may invent.
        """
        from codedfl.contract.census import decode_rounds

        try:
            rounds = [[CertifiedTotal.decode(one) for one in of_round] for of_round in decode_rounds(content)]
            first = [self.ask(one.ask) for one in rounds[0]]
            groups = tuple(sorted(group for one in first for group in one.groups))
            if not groups:
                raise InvalidInput("a census must be over a disclosure group at least, got none")
            return groups, self._census_of(groups, rounds)
        except (msgspec.MsgspecError, IndexError, InvalidInput) as error:
            raise Refused("request", f"a census must follow from what devices certified: {error}") from None

    def _census_of(self, groups: tuple[int, ...], rounds: list[list[CertifiedTotal]]) -> Census:
        from codedfl.contract.census import Census, encode_rounds, parts_of

        census, before = None, b""
        sizes = [
            sum(len(self.terms.groups[group]) for group in part) for part in parts_of(groups, self.study.colluders)
        ]
        counts: list[list[list[int]]] = []
        for number, of_round in enumerate(rounds):
            # Invariant: each round is asked for as the rounds before it decide, over the same groups, and no part is
            # left out.
            asks = self.census_asks(groups, census, before)
            if [one.ask for one in of_round] != [one.encode() for one in asks]:
                raise InvalidInput("a round of a census must ask for what the rounds before it decide, got another")
            counts.append([self._numbers(one, ask) for one, ask in zip(of_round, asks, strict=True)])
            census = Census(self.study, sizes, counts, certified=self._relied(groups))
            before = digest(encode_rounds([[one.encode() for one in it] for it in rounds[: number + 1]]))
        assert census is not None
        return census

    def _relied(self, groups: tuple[int, ...]) -> bool:
        """Whether what others say is relied on: signed, and of as many groups as a server cannot choose away.

        Invariant: which groups take part is the server's choice; whether inventors are distinguished must not be.
        """
        apart = len(groups) > self.study.colluders or len(self.terms.groups) <= self.study.colluders
        return self.terms.can_certify and apart

    def _numbers(self, total: CertifiedTotal, ask: Ask) -> list[int]:
        layout = self.layout(total.ask)
        if layout.certified:
            total.check(self.terms)
        owners = {name for group in ask.groups for name in self.terms.groups[group]}
        if set(total.owners) != owners:
            raise InvalidInput("a census must be over all owners of its groups, got others")
        return layout.numbers_of(layout.from_bytes(total.numbers, layout.vector_words))
