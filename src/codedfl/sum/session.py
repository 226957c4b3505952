"""The server's side: asks devices until it has a sum, whoever is slow, absent, killed or set back meanwhile.

Its state is a cache of replies (``store``). A session that is killed anywhere is begun again with the same store, an
older one, or none, and ends with the same sums.

``asking`` sends and receives, ``goals`` are what is asked for, ``known`` is what is known of the devices.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, NotEnoughDevices, WrongAnswers
from codedfl.sum import events, wire
from codedfl.sum.asking import Asking, Engine, Patience
from codedfl.sum.certified import CertifiedTotal
from codedfl.sum.contract import ServedStudy
from codedfl.sum.goals import Answer, Certify, Close, Draw, Enrol, KeptUpload, Question, Upload
from codedfl.sum.keys import digest
from codedfl.sum.known import GenerationOver, KeyLost, Known
from codedfl.sum.layout import LOW_BITS, TILE, Layout, Words, product
from codedfl.sum.store import Key, Store
from codedfl.typing import RandomBytes

_RESTARTS = 32
_Found = TypeVar("_Found")
Objection = Callable[[Collection[str]], str]
"""Why these devices are too few for a sum; empty when they will do."""


def _none(here: Collection[str]) -> str:
    del here
    return ""


class Session:
    """Sums of one study over one engine.

    Examples
    --------
    See ``codedfl.run.sums_in_process``, which has devices in this process.

    Parameters
    ----------
    engine: carries requests. study: whose sums. identity: the server's long-term key.
    store: the cache of replies.
    spare: how many replies of a role must agree with the first: 1 shows a wrong one, 2t outvote t devices.
    row_blocks: in how many parts holders share out the rows of a product.
    tell: called with each event. wall: seconds since 1970, for the end of generations.
    """

    def __init__(
        self,
        engine: Engine,
        study: ServedStudy,
        identity: Identity,
        store: Store | None = None,
        *,
        patience: Patience | None = None,
        spare: int = 0,
        row_blocks: int = 1,
        tell: Callable[[events.Event], None] = lambda _event: None,
        wall: Callable[[], float] | None = None,
        random_bytes: RandomBytes = secrets.token_bytes,
    ) -> None:
        self._study, self._terms, self._store = study, study.terms, store or Store()
        self._patience, self._spare, self._row_blocks, self._tell = patience or Patience(), spare, row_blocks, tell
        # One place knows what is known: goals read it, and only replies that open change it.
        self._known = Known(
            self._terms, identity, self._store, self._patience.lasts, wall or engine.now, random_bytes, tell
        )
        self._asking = Asking(engine, self._known, self._patience)
        self._epoch = 0
        self._absent: set[str] = set()  # not waited for again

    @property
    def excluded(self) -> Collection[str]:
        """Devices whose replies were wrong."""
        return self._known.excluded

    @property
    def here(self) -> Collection[str]:
        """Devices that have enrolled."""
        return self._known.enrolled

    @property
    def declined(self) -> Mapping[str, str]:
        """Devices that do not take part, and the code they gave."""
        return self._known.declined

    # -- who takes part

    def enrol(self, objection_to: Objection = _none) -> tuple[str, ...]:
        """Wait for everybody, or for enough when patience ends; returns who is enrolled.

        objection_to: of the study, beside those of the protocol.
        """
        return self._until_it_is(lambda: self._enrolled(objection_to))

    def _enrolled(self, objection_to: Objection = _none) -> tuple[str, ...]:
        known = self._known
        # Whoever was waited for in vain once delays no later sum.
        goals = [Enrol(known, name) for name in self._terms.by_name if name not in self._absent]
        self._asking.pursue(goals, self._patience.join)
        here = [name for name in self._terms.by_name if name in known.enrolled]
        for goal in goals:
            if not goal.done:
                self._absent.add(goal.name)
                if goal.name not in known.declined:
                    self._tell(events.DeviceState(goal.name, "gone"))
        self._refuse_too_few(here, objection_to)
        return tuple(here)

    def _refuse_too_few(self, uploads: Collection[str], objection_to: Objection, fixed: Collection[int] = ()) -> None:
        """Where no sum may be made of these owners; holders of roles are whoever is enrolled."""
        terms, least = self._terms, self._terms.least_in(fixed)
        # Whole groups only: a group with an absent owner is out, so an absence shows nothing of fewer rows than a
        # group's.
        if objection := objection_to(self._counted(uploads)):
            raise NotEnoughDevices(objection, sorted(set(terms.by_name) - set(uploads)))
        owners = sum(len(terms.groups[number]) for number in terms.whole_groups(uploads))
        if owners < least:
            raise NotEnoughDevices(
                f"at least {least} owners in whole groups must take part, got {owners}",
                sorted(terms.owners - set(uploads)),
            )
        # z + 1 roles answer for every sum: with one role fewer, z devices that help the server would hold all pads.
        here = {name for name in self._known.enrolled if self._known.takes_part(name)}
        if len({terms.roles[name] for name in here & set(terms.roles)}) <= terms.colluders:
            raise NotEnoughDevices(
                f"a holder of each of {terms.colluders + 1} roles must take part, got none of one",
                sorted(set(terms.roles) - here),
            )

    def _counted(self, uploads: Collection[str]) -> list[str]:
        """These owners, and whoever else is enrolled and belongs to no group that is left out."""
        return [*uploads, *(name for name in self._known.enrolled if name not in self._terms.owners | set(uploads))]

    def _until_it_is(self, make: Callable[[], _Found]) -> _Found:
        """Make something, again where a generation was closed or a role's key is lost on the way."""
        # Bounded: a device that loses its key for ever, or says so, must not keep the server busy for ever.
        for _ in range(_RESTARTS):
            self._known.current()
            self._refuse_contradicted()
            try:
                return make()
            except KeyLost as lost:
                self._known.draw_again(lost.role)
            except GenerationOver:
                self._asking.forget()
        raise NotEnoughDevices("a role key must be opened by one of its holders, got none that can", ())

    def _refuse_contradicted(self) -> None:
        if self._known.contradicted:
            suspects = sorted({device for _, device in self._known.contradicted})
            raise WrongAnswers(
                f"late replies must be equal to those that were used, those of {', '.join(suspects)} were not: with"
                " spare replies it is found out who is wrong",
                suspects,
            )

    def close(self) -> None:
        """End the generation: devices delete its keys, and learn who was in which sum. Absent ones by its date."""
        known = self._known
        # Devices keep it: afterwards an owner can say in which sums its rows were.
        record = tuple(sorted((digest(ask), names) for ask, names in self._summed_in(known.scope.generation).items()))
        common = wire.CloseCommon(*known.ids, record)
        self._asking.forget()  # a device that has closed refuses what was sent to it twice: that is nobody's concern
        self._asking.pursue([Close(known, name, common) for name in known.enrolled], self._patience.retry)
        known.end()
        self._asking.forget()

    def offer(self, content: bytes) -> bytes:
        """What asks need that name its digest, which is returned: put on devices when they miss it.

        A session that is begun again is offered it again, before the first such ask.
        """
        # By digest: a device takes nothing under a name that does not belong to it.
        found = digest(content)
        self._known.contents[found] = content
        return found

    def prepare(self, *asks: bytes, seconds: float = 0.0) -> None:
        """Have keys drawn and uploads made of sums that will be asked for, such as X'X, before anybody waits for them.

        Whose upload is not here within this time is asked again by ``sum``, which then needs one round trip if all are.
        Nothing is decided: the list of owners is, once, when the sum is made.
        """
        self._until_it_is(lambda: self._prepared(asks, seconds))

    def _prepared(self, asks: Collection[bytes], seconds: float) -> None:
        # Invariant: nothing is decided here. An upload is of use for any list that its owner is on.
        self._enrolled()
        self._draw()
        for ask in asks:
            self._uploaded({ask: self._study.layout(ask)}, seconds)

    # -- the two primitives

    def sum(self, ask: bytes, objection_to: Objection = _none) -> list[int]:
        """The sum of a statistic's vector over whole groups, in whole numbers."""
        layout, place = self._study.layout(ask), ("total", digest(ask))
        # Invariant: a sum that was made stays, also over a restart: nothing is asked twice that is known.
        kept = self._store.get(place)
        if kept is None:
            kept = self._until_it_is(lambda: self._summed(ask, layout, objection_to))
        return layout.numbers_of(layout.from_bytes(kept, layout.vector_words))

    def product(self, ask: bytes, e: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.object_]:
        """The sum of a statistic's matrix times e, in whole numbers."""
        layout = self._study.layout(ask)
        e = np.ascontiguousarray(e, dtype="<i8")
        # Before anything is sent: devices would refuse it too, and each would count it as a direction.
        layout.check_e(e)
        self._epoch += 1
        self._tell(events.EpochStarted(self._epoch))
        place = ("times", digest(ask), digest(e.tobytes()))
        kept = self._store.get(place)
        if kept is None:
            made = self._until_it_is(lambda: self._multiplied(ask, layout, e))
            kept = layout.to_bytes(np.concatenate([one.reshape(-1) for one in made]))
            self._store.put(place, kept)
        planes = layout.from_bytes(kept, layout.words * e.size).reshape(layout.words, *e.shape)
        self._tell(events.EpochEnded(self._epoch))
        signed = [layout.signed(one) for one in planes]
        if layout.words == 1:
            return signed[0]
        low, high = (one.astype(object) for one in signed)
        return np.asarray(low + (high << LOW_BITS), dtype=object)

    def members(self) -> Mapping[bytes, tuple[str, ...]]:
        """For each ask whose rows are in the sum."""
        return self._summed_in(None)

    def _summed_in(self, generation: int | None) -> Mapping[bytes, tuple[str, ...]]:
        found = {}
        for saved in self._store.values("summed"):
            ask, number, names = msgspec.msgpack.decode(saved, type=tuple[bytes, int, tuple[str, ...]])
            if generation in (None, number):
                found[ask] = names
        return found

    # -- one sum

    def _summed(self, ask: bytes, layout: Layout, objection_to: Objection = _none) -> bytes:
        # The list first: pads are taken off for exactly those whose uploads are added.
        entries = self._listed({ask: layout}, objection_to)[ask]
        goals = self._role_goals(ask, layout, entries)
        self._asking.needs(goals)
        found = self._vector(ask, layout, entries, goals)
        self._is_summed(ask, entries, ("total", digest(ask)), found)
        return found

    def _vector(self, ask: bytes, layout: Layout, entries: bytes, goals: Sequence[Answer]) -> bytes:
        total = np.zeros(layout.total_words, dtype=np.uint64)
        for one in self._uploads(ask, entries):
            total += layout.from_bytes(one.numbers, layout.total_words)
        vector = total[: layout.vector_words]
        for goal in goals:
            vector = vector - layout.from_bytes(goal.numbers, layout.vector_words)
        # Invariant: uploads less the pads of all roles, over one list: what is left is the sum, bit for bit.
        layout.numbers_of(vector)  # refused before anything is kept where it is beyond its limit
        if layout.size:
            self._store.put(("matrix", digest(ask)), layout.to_bytes(total[layout.vector_words :]))
        return layout.to_bytes(vector)

    def _listed(self, layouts: Mapping[bytes, Layout], objection_to: Objection) -> dict[bytes, bytes]:
        """The list of owners that each ask is summed over, whose uploads are here: once it is decided, it stays."""
        # Also of an earlier process: a server that was killed sums over the same owners again.
        kept = {ask: self._store.get(("list", digest(ask))) for ask in layouts}
        found = {ask: one for ask, one in kept.items() if one is not None}
        if wanted := {ask: layout for ask, layout in layouts.items() if ask not in found}:
            self._enrolled(objection_to)
            self._draw()
            # Role keys are drawn before uploads are made: pads are made under them.
            goals = self._uploaded(wanted, self._patience.upload)
            found |= {ask: self._decided(ask, of_ask, objection_to) for ask, of_ask in goals.items()}
        return found

    def _decided(self, ask: bytes, goals: Sequence[Upload], objection_to: Objection) -> bytes:
        entries = {one.name: one.entry for one in goals if one.entry is not None}
        # Invariant: the list is decided once and kept before anything is asked about it. Another list for the same sum
        # would be a second sum, whose difference is one of groups.
        groups = self._terms.whole_groups(entries)
        names = sorted((name for number in groups for name in self._terms.groups[number]), key=str.encode)
        self._refuse_others_than_fixed(ask, names)
        self._refuse_too_few(names, objection_to, self._fixed(ask))
        kept = wire.encode_list(tuple(entries[name] for name in names))
        self._store.put(("list", digest(ask)), kept)
        self._tell(events.Listed(tuple(names)))
        return kept

    def _draw(self) -> None:
        roles = range(self._terms.colluders + 1)
        self._asking.needs([Draw(self._known, role) for role in roles if role not in self._known.drawn])

    def _uploaded(self, layouts: Mapping[bytes, Layout], seconds: float) -> dict[bytes, list[Upload]]:
        here = [name for name in self._known.enrolled if self._known.takes_part(name)]
        found = {}
        for ask, layout in layouts.items():
            # Only of groups that can be whole: another's upload would never be in a sum.
            wanted = self._fixed(ask) or self._terms.whole_groups(here)
            owners = [name for number in sorted(wanted) for name in self._terms.groups[number]]
            found[ask] = [Upload(self._known, ask, layout, name, self._study.needs(ask)) for name in owners]
        self._asking.pursue([goal for goals in found.values() for goal in goals], seconds)
        return found

    def _fixed(self, ask: bytes) -> tuple[int, ...]:
        """The groups of a sum, where they must be these: by the study, or since it was summed over them before."""
        before = self._store.get(("summed", digest(ask)))
        if before is None:
            return tuple(self._study.groups(ask))
        return self._terms.whole_groups(msgspec.msgpack.decode(before, type=tuple[bytes, int, tuple[str, ...]])[2])

    def _refuse_others_than_fixed(self, ask: bytes, names: Collection[str]) -> None:
        # A sum that was made once is the same sum for ever: over fewer owners it would be a second one.
        fixed = {name for number in self._fixed(ask) for name in self._terms.groups[number]}
        if fixed - set(names):
            gone = sorted(fixed - set(names))
            raise NotEnoughDevices(
                f"a sum must be over the {len(fixed)} owners that are fixed for it, got none of {', '.join(gone)}", gone
            )

    def _role_goals(self, ask: bytes, layout: Layout, entries: bytes, turn: int = 0) -> list[Answer]:
        """The sum of each role's pads; where it is certified, with the signatures of z + 1 holders."""
        common = wire.AnswerCommon(*self._known.ids, ask, digest(entries), b"")
        needed = 1 + (max(self._spare, self._terms.colluders) if layout.certified else self._spare)
        question = Question(common, entries, layout, needed)
        # Of several sums at a time each begins with other holders.
        return [Answer(self._known, question, role, turn=turn * needed) for role in range(self._terms.colluders + 1)]

    def _uploads(self, ask: bytes, entries: bytes) -> Iterator[KeptUpload]:
        """One after the other: together they may be gigabytes."""
        for entry in wire.decode_list(entries):
            saved = self._store.get(("upload", digest(ask), entry.name))
            if saved is None:  # the store was set back or damaged: what is missing is asked for again
                # The list names nonces of uploads that are gone: it cannot be used any more, and a new generation makes
                # another.
                self._store.drop(("list", digest(ask)), ("matrix", digest(ask)))
                raise GenerationOver
            yield msgspec.msgpack.decode(saved, type=KeptUpload)

    def _is_summed(self, ask: bytes, entries: bytes, place: Key, found: bytes) -> None:
        names = tuple(one.name for one in wire.decode_list(entries))
        saved = msgspec.msgpack.encode((ask, self._known.scope.generation, names))
        self._store.put(("summed", digest(ask)), saved)  # first: no sum without those whose rows are in it
        self._store.put(place, found)
        # Only the sum is needed from now on: single uploads are large, and nobody's to keep.
        self._store.drop(*(("upload", digest(ask), name) for name in names))
        self._store.clear("answer")

    # -- products

    def _multiplied(self, ask: bytes, layout: Layout, e: NDArray[np.int64]) -> list[Words]:
        if self._store.get(("matrix", digest(ask))) is None:
            self._summed(ask, layout)
        entries, matrix = self._store.get(("list", digest(ask))), self._store.get(("matrix", digest(ask)))
        assert entries is not None and matrix is not None
        # e is within room, so it fits the words of the layout.
        words = layout.to_bytes(e.reshape(-1).view(np.uint64))
        common = wire.AnswerCommon(*self._known.ids, ask, digest(entries), words)
        question = Question(common, entries, layout, 1 + self._spare, self._epoch)
        goals = [
            Answer(self._known, question, role, block, turn)
            for turn, block in enumerate(self._blocks(layout))
            for role in range(self._terms.colluders + 1)
        ]
        self._asking.needs(goals)
        planes = _times(layout, matrix, e)
        for goal in goals:
            _subtract(layout, planes, goal)
        self._store.clear("answer")
        return planes

    def _blocks(self, layout: Layout) -> list[tuple[int, int]]:
        """Tile rows, dealt out in as many blocks as are wanted and there are."""
        count = max(1, min(self._row_blocks, layout.tile_rows))
        ends = [layout.tile_rows * one // count for one in range(count + 1)]
        return list(pairwise(ends))

    # -- certified totals

    def certified(self, *asks: bytes, objection_to: Objection = _none) -> list[CertifiedTotal]:
        """Totals with the signatures of z + 1 devices that computed them themselves, asked for together.

        2z + 1 holders of each role survive z that lie, z + 1 only show that somebody does. Where the study's layout is
        not certified, it has no signatures.
        """
        if not self._terms.can_certify and any(self._study.layout(ask).certified for ask in asks):
            least = self._terms.colluders + 1
            raise InvalidInput(f"certified totals need {least} holders of each role: add a key-only participant")
        found = {ask: self._store.get(("certified", digest(ask))) for ask in asks}
        if wanted := [ask for ask, kept in found.items() if kept is None]:
            found |= self._until_it_is(lambda: self._certified(wanted, objection_to))
        return [CertifiedTotal.decode(kept) for ask in asks if (kept := found[ask]) is not None]

    def _certified(self, asks: Sequence[bytes], objection_to: Objection) -> dict[bytes, bytes]:
        layouts = {ask: self._study.layout(ask) for ask in asks}
        # Invariant: the list of each is decided and kept before anything is asked about it, as of any other sum.
        entries = self._listed(layouts, objection_to)
        roles = {ask: self._role_goals(ask, layouts[ask], entries[ask], turn) for turn, ask in enumerate(asks)}
        self._asking.needs([goal for goals in roles.values() for goal in goals])
        goals = {
            ask: self._certify(ask, entries[ask], roles[ask], turn)
            for turn, ask in enumerate(asks)
            if layouts[ask].certified
        }
        self._asking.needs(list(goals.values()))
        found = {}
        for ask in asks:
            numbers, signatures = (
                (goals[ask].numbers, goals[ask].signatures)
                if ask in goals
                else (self._vector(ask, layouts[ask], entries[ask], roles[ask]), ())
            )
            found[ask] = CertifiedTotal(ask, entries[ask], numbers, signatures).encode()
            self._is_summed(ask, entries[ask], ("certified", digest(ask)), found[ask])
        return found

    def _certify(self, ask: bytes, entries: bytes, roles: Sequence[Answer], turn: int) -> Certify:
        """What z + 1 devices are shown, so that each computes the total by itself."""
        sums = tuple(wire.CertifiedSum(one.role_key, one.numbers, one.signatures) for one in roles)
        uploads = tuple(wire.CertifiedUpload(one.numbers, one.signature) for one in self._uploads(ask, entries))
        common = wire.CertifyCommon(*self._known.ids, ask, digest(entries))
        return Certify(self._known, common, wire.CertifyOwn(entries, uploads, sums), turn)


def _times(layout: Layout, matrix: bytes, e: NDArray[np.int64]) -> list[Words]:
    """The padded matrix times e, one array for each plane of words."""
    words, found = layout.from_bytes(matrix, layout.words * layout.triangle), []
    for plane in range(layout.words):
        part = words[plane * layout.triangle : (plane + 1) * layout.triangle]
        tiles = {(a, b): part[start:stop] for a, b, start, stop in layout.tiles()}
        rows = [product(layout.dense(tiles, a, a + 1), e) for a in range(layout.tile_rows)]
        found.append(np.concatenate(rows))
    return found


def _subtract(layout: Layout, planes: list[Words], goal: Answer) -> None:
    """Take what a role's pads make of e off the rows that it was asked for."""
    first, last = goal.rows
    at = slice(first * TILE, first * TILE + layout.rows_in(first, last))
    count = layout.rows_in(first, last) * layout.columns
    words = layout.from_bytes(goal.numbers, layout.words * count)
    for plane in range(layout.words):
        planes[plane][at] -= words[plane * count : (plane + 1) * count].reshape(-1, layout.columns)


__all__ = ["CertifiedTotal", "Engine", "Patience", "ServedStudy", "Session"]
