"""The sums that the analyses of a study ask for, by a session of secure sums on whatever engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace

import msgspec

from codedfl.analyses.study_analysis import Answer
from codedfl.contract.census import Decision, encode_rounds
from codedfl.device.study_sums import CENSUS, StudySums
from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.registry import make_solver
from codedfl.solve.training import Training
from codedfl.statistics.products import Products
from codedfl.statistics.statistic import Ask, statistic_of
from codedfl.sum.events import Event, Members, Part, PhaseBegun, SumBegun
from codedfl.sum.session import Session
from codedfl.sum.store import Store
from codedfl.typing import Floats

log = logging.getLogger("codedfl.server")


class StudyTotals:
    """Answers what the analyses ask for (``driving.drive``).

    Examples
    --------
    See ``codedfl.run.rehearsal``, which has devices in this process.

    Parameters
    ----------
    sums: the study. session: asks its devices. store: the session's own; it keeps what solvers have learned.
    on_epoch: called with the number of each exchange of a sum that has ended. tell: called with each event.
    """

    def __init__(
        self,
        sums: StudySums,
        session: Session,
        store: Store,
        on_epoch: Callable[[int], object] = lambda _epoch: None,
        tell: Callable[[Event], object] = lambda _event: None,
    ) -> None:
        self._sums, self._session, self._store = sums, session, store
        self._on_epoch, self._tell = on_epoch, tell
        self._decision = Decision()
        self.owners: dict[str, list[str]] = {}  # whose rows are in which sum, by the name of its statistic

    def answer(self, ask: Ask) -> Answer:
        """The total: whole numbers; for products the model that the study's solver makes of them; what a census says.

        Whatever is asked is asked over the groups and with the mergings of the census.
        """
        if ask.statistic == CENSUS:
            self._decision = self._census()
            return self._decision
        ask = replace(ask, groups=self._decision.groups, census=self._decision.digest)
        asked, terms = ask.encode(), self._sums.terms
        self._tell(SumBegun(ask.statistic))
        parts = tuple(Part(terms.holders_of(role), 1) for role in range(terms.colluders + 1))
        self._tell(Members(tuple(terms.by_name), "role", parts))
        self._tell(PhaseBegun("sharing"))
        statistic = statistic_of(self._sums.study, ask)
        numbers = self._session.sum(asked, lambda here: self.objection(ask, here))
        self.owners[ask.statistic] = sorted(self._session.members()[asked])
        if isinstance(statistic, Products):
            return self._trained(asked, statistic, numbers)
        self._on_epoch(1)
        return numbers

    def objection(self, ask: Ask, here: Collection[str]) -> str:
        """Why these devices are too few for this sum; empty when they will do."""
        before = [name for group in ask.groups for name in self._sums.terms.groups[group]]
        if gone := ", ".join(sorted(set(before) - set(here))):
            what = f"the model {ask.model!r}" if ask.model else f"the sum of {ask.statistic}"
            return f"{what} waits for {gone}: all sums of a study are over the groups that its census counted"
        return too_few(self._sums, here)

    # -- the census

    def _census(self) -> Decision:
        """Round after round over whoever is there in whole groups, until all cells pass."""
        if not self._sums.study.needs_census:
            return Decision()
        self._tell(SumBegun(CENSUS))
        groups = self._groups()
        rounds: list[list[bytes]] = []
        census, content, before = None, b"", b""
        while census is None or not census.is_over:
            asks = self._sums.census_asks(groups, census, before)
            rounds.append([one.encode() for one in self._session.certified(*(ask.encode() for ask in asks))])
            content = encode_rounds(rounds)
            _, census = self._sums.census(content)
            before = self._session.offer(content)
        self._on_epoch(1)
        return Decision(groups, census.merged, before, census.refused())

    def _groups(self) -> tuple[int, ...]:
        """S: the groups that are there, once; a server that is started again has the same.

        Invariant: it is kept before anything is asked about it, or two sums could differ by a group.
        """
        kept = self._store.get(("groups",))
        if kept is None:
            here = self._session.enrol(lambda here: too_few(self._sums, here))
            kept = msgspec.msgpack.encode(self._sums.terms.whole_groups(here))
            self._store.put(("groups",), kept)
        return msgspec.msgpack.decode(kept, type=tuple[int, ...])

    # -- products

    def _trained(self, asked: bytes, statistic: Products, numbers: list[int]) -> Floats:
        study, recipe = self._sums.study, statistic.recipe
        scales = statistic.scales(len(self._sums.roster.owners))
        solver = make_solver(
            study.solver,
            regularisation=float(study.regularisation),
            epochs=study.epochs,
            gram=study.noise is not None,
            noise=None if study.noise is None else NoiseLevel.of(scales),
        )
        shape = (recipe.n_features, recipe.n_outputs)
        self._tell(PhaseBegun("training"))
        training = Training(self._session, self._store, asked, scales, shape, self._on_epoch)
        return training.model(solver, numbers, None if study.noise is None else study.max_rows)


def too_few(sums: StudySums, names: Collection[str]) -> str:
    """Why these devices cannot make a sum of the study; empty when they can.

    Examples
    --------
    >>> from codedfl.analyses.summing import too_few
    >>> from codedfl.contract.roster import Roster
    >>> from codedfl.contract.study import Study
    >>> from codedfl.data.columns import NumberColumn, NumberTarget
    >>> from codedfl.device.study_sums import StudySums
    >>> age = NumberColumn("age", (0.0, 120.0), 1.0)
    >>> study = Study("stays", (age,), NumberTarget("days", (0.0, 60.0), 1.0), 5000, 1000, 3)
    >>> roster = Roster.draft({name: name.encode() * 32 for name in "abc"}, colluders=1)
    >>> too_few(StudySums(study, roster), "ab")
    'at least 3 owners in whole disclosure groups must take part (least_participants of the study file), got 0'
    """
    study, terms, here = sums.study, sums.terms, set(names)
    owners, least = sum(len(terms.groups[number]) for number in terms.whole_groups(here)), study.least_owners
    if owners < least:
        key = "least_participants" if study.least_participants == least else "colluders + honest"
        # Whole groups that are there would do by the protocol: it is the study's own bound that stops them.
        would_do = owners >= max(3, study.colluders + study.honest)
        hint = f": with least_participants = {owners} there, approved again by all, these would do" if would_do else ""
        what = "owners in whole disclosure groups must take part"
        return f"at least {least} {what} ({key} of the study file), got {owners}{hint}"
    missing = [role for role in range(terms.colluders + 1) if not here.intersection(terms.holders_of(role))]
    if missing:
        candidates = ", ".join(name for role in missing for name in terms.holders_of(role))
        return f"a holder of every role must take part, got none of {candidates}"
    return ""
