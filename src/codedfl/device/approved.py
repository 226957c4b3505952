"""A device in a study that its operator approved: its part of a sum is made of the rows that the approval froze."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.ledger import Ledger
from codedfl.contract.ledger_base import LedgerBase
from codedfl.contract.roster import Roster
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.device.study_sums import CENSUS, StudySums
from codedfl.errors import InvalidInput
from codedfl.sum.device import Device
from codedfl.sum.keys import digest
from codedfl.sum.layout import Layout, Words
from codedfl.sum.memory import MOST_CONTENTS, Generation
from codedfl.sum.terms import Terms
from codedfl.sum.wire import Missing, Refused

if TYPE_CHECKING:  # with the first request: a device may wait for days
    from codedfl.contract.census import Census
    from codedfl.contract.snapshot import Snapshot
    from codedfl.statistics.statistic import Ask

_MOST_KEPT = 1 << 21  # words of a statistic that are kept, since it is asked for again after a loss


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def approved_device(
    name: str, study: Study, roster: Roster, identity: Identity, folder: DeviceFolder, now: Callable[[], str] = _now
) -> Device:
    """The device that replies to requests about one study; refused unless exactly that study was approved here.

    Examples
    --------
    See ``codedfl.run.rehearsal``, whose devices are these.
    """
    sums = StudySums(study, roster)
    memory = LedgerMemory(sums, folder.base, now)
    contract = approved_study(name, sums, identity, folder, memory.content)
    return Device(name, identity, contract, memory)


def approved_study(
    name: str,
    sums: StudySums,
    identity: Identity,
    folder: DeviceFolder,
    content: Callable[[bytes], bytes | None] = lambda _digest: None,
) -> ApprovedStudy:
    """What follows from a study for this device; refused unless exactly that study was approved here.

    content: what a server has put, by its digest.

    Examples
    --------
    See ``approved_device``, which needs one.
    """
    study, roster = sums.study, sums.roster
    roster.check_bound(study)
    if roster.keys.get(name) != identity.public:
        raise InvalidInput(
            f"{name!r} must be on the roster with this device's key {identity.public.hex()[:16]}..., got"
            " another key or none: codedfl roster renew names the new one"
        )
    with folder.ledger() as ledger:
        if ledger.approval(study.digest()) is None:
            raise InvalidInput(
                f"the study {study.name!r} must be approved on this device, got no approval of"
                f" {study.digest().hex()[:16]}: codedfl site approve records one"
            )
    helps = name in roster.helpers
    noise_seed = identity.tag(b"codedfl noise|" + study.digest()) if study.noise is not None else b""
    rows = None if helps else lambda: folder.frozen(study.digest())
    return ApprovedStudy(sums, rows, noise_seed, content)


def newer_edition(study: Study, ledger: Ledger) -> str:
    """What is to be said where a newer edition of the study was approved on this device; empty where none was.

    Examples
    --------
    See ``codedfl site check``, which says it.
    """
    newest = max((one.edition for one in ledger.approvals if one.name == study.name), default=study.edition)
    if newest <= study.edition:
        return ""
    return (
        f"the kit must be of the newest edition of {study.name!r} that was approved here, {newest}, got"
        f" {study.edition}: join with the kit of edition {newest}, or with both"
    )


class ApprovedStudy:
    """What ``sum.Device`` knows of a study by itself, with this device's rows.

    Examples
    --------
    See ``approved_device``, which makes one.
    """

    def __init__(
        self,
        sums: StudySums,
        rows: Callable[[], Snapshot] | None,
        noise_seed: bytes = b"",
        content: Callable[[bytes], bytes | None] = lambda _digest: None,
    ) -> None:
        """``rows``: reads the frozen rows; None for a key-only participant, which has none."""
        self._sums, self._read, self._noise_seed, self._content = sums, rows, noise_seed, content
        self._decided: dict[bytes, _Decided] = {}
        self._judged: set[bytes] = set()  # censuses that were found to hide whoever is here
        self._made: OrderedDict[bytes, Words] = OrderedDict()

    @property
    def terms(self) -> Terms:
        return self._sums.terms

    def layout(self, ask: bytes) -> Layout:
        """How the numbers of a request are laid out."""
        return self._sums.layout(ask)

    def groups(self, ask: bytes) -> Collection[int]:
        """The disclosure groups that the request is for."""
        return self._sums.groups(ask)

    def needs(self, ask: bytes) -> Collection[bytes]:
        """Digests of the contents that the request needs."""
        return self._sums.needs(ask)

    @cached_property
    def _rows(self) -> Snapshot:
        if self._read is None:
            raise Refused("role", "a key-only participant has no rows to upload")
        return self._read()

    def words(self, ask: bytes) -> Words:
        """What this device adds up over its frozen rows, noise included."""
        if ask not in self._made:
            from codedfl.statistics.statistic import recoded_rows  # with the first request

            sums = self._sums
            if sums.study.needs_census:
                self._refuse_uncounted(sums.ask(ask))
            rows = recoded_rows(sums.study, sums.ask(ask), self._rows)
            self._made[ask] = sums.statistic(ask).words(rows, len(sums.roster.owners), self._noise_seed)
            while len(self._made) > 1 and sum(map(len, self._made.values())) > _MOST_KEPT:
                self._made.popitem(last=False)
        return self._made[ask]

    # -- the census

    def _refuse_uncounted(self, asked: Ask) -> None:
        """Refuse what does not follow from a census: merged otherwise, over other groups, or telling of few people.

        Invariant: the census is checked here, on the device whose rows are asked for, and nobody else is believed.
        """
        if asked.statistic == CENSUS:
            before = self._census(asked.census).census if asked.census else None
            merged = () if before is None else before.merged
            if asked.merged != merged or (before is not None and before.is_over):
                raise Refused("request", "a census must ask for what its rounds decide, got another")
            return
        if not asked.census:
            raise Refused("request", f"a request for {asked.statistic} must name a census, got none")
        decided = self._census(asked.census)
        census = decided.census
        if not census.is_over or (asked.groups, asked.merged) != (decided.groups, census.merged):
            raise Refused("request", "a request must merge what its census decides, over the groups of it, got another")
        refused = decided.refused
        if objection := refused.get("") or refused.get(asked.model):
            raise Refused("rows", objection)
        if asked.census not in self._judged:
            from codedfl.contract.cells import StudyCells
            from codedfl.statistics.statistic import recoded_rows

            rows = recoded_rows(self._sums.study, asked, self._rows)
            if census.last.betrays(StudyCells(census.last.study).people(rows)):
                raise Refused("rows", "a census must count the people of this device, got one in which few stand alone")
            self._judged.add(asked.census)

    def _census(self, digest: bytes) -> _Decided:
        # Invariant: named by its digest, so what it says is said once; the signatures of every round are in it.
        if digest not in self._decided:
            content = self._content(digest)
            if content is None:  # it was there a moment ago: the cache is small
                raise Missing(digest.hex(), "a census must be put here first")
            self._decided = {digest: _Decided(*self._sums.census(content))}
        return self._decided[digest]


@dataclass
class _Decided:
    """What follows from the newest census."""

    groups: tuple[int, ...]
    census: Census

    @cached_property
    def refused(self) -> Mapping[str, str]:
        return self.census.refused()


class LedgerMemory:
    """What a device must not forget of one study, in its ledger.

    Examples
    --------
    See ``approved_device``, which makes one.
    """

    def __init__(self, sums: StudySums, base: LedgerBase, now: Callable[[], str] = _now) -> None:
        self._sums, self._study, self._base, self._now = sums, sums.study, base, now
        # What is known to be on the disk already; it only ever grows there.
        self._pinned: dict[bytes, bytes] = {}
        self._questions: set[bytes] = set()

    def generation(self) -> Generation | None:
        """The newest of this study."""
        found = self._base.generation(self._study.digest())
        return None if found is None else Generation(*found)

    def keep(self, generation: Generation) -> None:
        """Instead of the one before."""
        digest = self._study.digest()
        self._base.keep(digest, generation.number, generation.root, generation.not_after)

    def contribute(self, ask: bytes, pinned: bytes) -> None:
        """Count the argument and pin the numbers, before they leave."""
        if self._pinned.get(ask) == pinned:
            return
        asked = self._sums.ask(ask)
        with self._base.ledger() as ledger:
            objection = ledger.contribute(self._study, asked, pinned, self._now())
        if objection:
            raise Refused("rows" if objection.startswith("a statistic must have the numbers") else "budget", objection)
        self._pinned[ask] = pinned

    def answer(self, ask: bytes, question: bytes) -> None:
        """Count a direction, before the reply leaves."""
        del ask
        if question in self._questions:
            return
        with self._base.ledger() as ledger:
            if objection := ledger.may_answer(self._study, question):
                raise Refused("budget", objection)
            ledger.answer(self._study, question)
        self._questions.add(question)

    def closed(self, generation: int, record: Sequence[tuple[bytes, Sequence[str]]]) -> None:
        """Keep whose rows were in which sum."""
        self._base.closed(self._study.digest(), generation, record)

    def put(self, content: bytes) -> None:
        """Keep a content: on Flower the next request meets another process."""
        self._base.put(self._study.digest(), digest(content), content, MOST_CONTENTS)

    def content(self, digest: bytes) -> bytes | None:
        """What was put with this digest."""
        return self._base.content(self._study.digest(), digest)
