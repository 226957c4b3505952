"""The server of a coded scheme: the sum of a statistic in whole numbers, and products of its matrix with e.

It relays what devices share with each other, waits for the first D - alpha + 1 answers of every group, decodes them,
and takes off what it knows. All its state is what devices have replied.
"""

from __future__ import annotations

import secrets as system_random
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto.sealed import KEY_BYTES, Identity
from codedfl.errors import MessageRefused, NotEnoughDevices, WrongAnswers
from codedfl.sum import events
from codedfl.sum.asking import Asking, Engine, Goal, Patience, Sending
from codedfl.sum.goals import Close, Enrol
from codedfl.sum.keys import digest
from codedfl.sum.known import GenerationOver, Known
from codedfl.sum.store import Store
from codedfl.sum.wire import CloseCommon, Enrolment, Wire
from codedfl.typing import RandomBytes
from codedfl_lab.code.answer_check import Projection, judge
from codedfl_lab.coded import wire
from codedfl_lab.coded.device import bound_to
from codedfl_lab.coded.study import CodedStudy
from codedfl_lab.primes.planes import Planes

_Found = TypeVar("_Found")
_RESTARTS = 8


class CodedSession:
    """Sums of a coded study over one engine.

    Parameters
    ----------
    engine, study, identity, store, patience, tell, wall: as of ``codedfl.sum.session.Session``.
    spare: how many answers beyond those that decode to wait for, in each group: 1 detects a wrong one, 2t find t
        malicious devices.

    Examples
    --------
    Two of three devices are enough, whichever they are:

    >>> import numpy as np
    >>> from codedfl.crypto.sealed import Identity
    >>> from codedfl.engines.in_process import InProcess
    >>> from codedfl_lab.primes.ring import Ring
    >>> from codedfl.sum.in_memory import InMemory
    >>> from codedfl_lab.coded.device import CodedDevice
    >>> from codedfl_lab.coded.keys import Keyed
    >>> from codedfl_lab.coded.session import CodedSession
    >>> from codedfl_lab.coded.study import CodedStudy, GivenNumbers, Sizes
    >>> identities = {name: Identity(name.encode() * 32) for name in "abc"}
    >>> server = Identity(bytes(32))
    >>> keys = {name: one.public for name, one in identities.items()}
    >>> study = CodedStudy(Keyed(), 2, 1, server.public, keys, Ring.for_group_sizes([3]), Sizes(2))
    >>> contracts = {name: GivenNumbers(study, np.array([1, 10])) for name in "abc"}
    >>> devices = {name: CodedDevice(name, identities[name], contracts[name], InMemory()) for name in "abc"}
    >>> engine = InProcess({name: one.reply for name, one in devices.items()})
    >>> import time
    >>> CodedSession(engine, study, server, wall=time.time).sum(b"numbers")
    [3, 30]
    """

    def __init__(
        self,
        engine: Engine,
        study: CodedStudy,
        identity: Identity,
        store: Store | None = None,
        *,
        patience: Patience | None = None,
        spare: int = 0,
        tell: Callable[[events.Event], None] = lambda _event: None,
        wall: Callable[[], float] | None = None,
        random_bytes: RandomBytes = system_random.token_bytes,
    ) -> None:
        self.study, self._store, self._tell, self.spare = study, store or Store(), tell, spare
        self._patience = patience or Patience()
        self.known = Known(
            study.terms, identity, self._store, self._patience.lasts, wall or engine.now, random_bytes, tell
        )
        self._asking = Asking(engine, self.known, self._patience)
        self.epoch = 0
        self._forget()

    def _forget(self) -> None:
        """What belongs to one generation."""
        self._sums: dict[bytes, Planes] = {}
        self._matrices: dict[bytes, Planes] = {}
        self.lists: dict[bytes, wire.List] = {}
        self.envelopes: dict[bytes, list[Mapping[int, bytes]]] = {}
        self.placed: dict[str, set[int]] = {}  # whose data each device has been given
        self.answered: set[str] = set()  # who needs no list again

    @property
    def excluded(self) -> Collection[str]:
        """Devices whose answers were wrong."""
        return self.known.excluded

    def sum(self, ask: bytes, objection_to: object = None) -> list[int]:
        """The sum of a statistic's vector over all devices, in whole numbers."""
        del objection_to
        return self._until_it_is(lambda: self._summed(ask))

    def product(self, ask: bytes, e: NDArray[np.int64]) -> NDArray[np.int64] | NDArray[np.object_]:
        """The sum of a statistic's matrix times e, in whole numbers.

        Paper: IV-C, eq. 11. Shown by ``pytest tests/coded/test_coded_sums.py -k may_be_silent``.
        """
        return self._until_it_is(lambda: self._multiplied(ask, e))

    def close(self) -> None:
        """End the generation: devices delete its keys, and learn who was in which sum."""
        known = self.known
        record = tuple(sorted((digest(ask), self.study.names) for ask in self._sums))
        common = CloseCommon(*known.ids, record)
        self._asking.pursue([Close(known, name, common) for name in known.enrolled], self._patience.retry)
        known.end()
        self._asking.forget()
        self._forget()

    def _until_it_is(self, make: Callable[[], _Found]) -> _Found:
        """Again from the start where a device has lost its keys."""
        for _ in range(_RESTARTS):
            self.known.current()
            try:
                return make()
            except GenerationOver:
                self._asking.forget()
                self._forget()
        raise NotEnoughDevices("devices must keep their keys for the length of a run, got some that do not", ())

    def _summed(self, ask: bytes) -> list[int]:
        self._share(ask)
        length = self.study.sizes.length
        total = self._without(self._epoch_of(ask, b"", length), self._sums[ask][:, :length])
        return [int(one) for one in self.study.ring.to_integers(total)]

    def _multiplied(self, ask: bytes, e: NDArray[np.int64]) -> NDArray[np.int64]:
        sizes, ring = self.study.sizes, self.study.ring
        self._share(ask)
        decoded = self._epoch_of(ask, np.ascontiguousarray(e, dtype="<i8").tobytes(), sizes.size * sizes.columns)
        known = ring.product(self._matrix(ask), ring.from_integers(np.asarray(e)))
        total = self._without(decoded, known.reshape(len(ring.primes), -1))
        found: NDArray[np.int64] = ring.to_integers(total).reshape(sizes.size, sizes.columns)
        return found

    def _without(self, decoded: Planes, known: Planes) -> Planes:
        ring, sign = self.study.ring, self.study.form.sign
        total = ring.zeros(decoded.shape[1])
        ring.add_scaled(total, [[sign, -sign]] * len(ring.primes), [decoded, np.ascontiguousarray(known)])
        return total

    def _matrix(self, ask: bytes) -> Planes:
        if ask not in self._matrices:
            triangle = np.ascontiguousarray(self._sums[ask][:, self.study.sizes.length :])
            self._matrices[ask] = self.study.ring.symmetric(triangle, self.study.sizes.size)
        return self._matrices[ask]

    # -- phase 1

    def _share(self, ask: bytes) -> None:
        if ask in self._sums:
            return
        study, known = self.study, self.known
        enrolling = [Enrol(known, name) for name in study.names]
        self._asking.pursue(enrolling, self._patience.join)
        self._all_wanted({goal.name for goal in enrolling if goal.done})
        members = tuple(known.enrolled[name] for name in study.names)
        goals = [_Share(self, ask, members, name) for name in study.names]
        self._asking.pursue(goals, self._patience.upload)
        self._all_wanted({goal.name for goal in goals if goal.done})
        total = study.ring.zeros(study.sizes.numbers)
        for goal, member in zip(goals, members, strict=True):
            bound = bound_to(study.digest, ask, goal.members, goal.name, goal.shares.nonce)
            body, shared = self.body(ask, goal.name), known.own.with_public(member.public)
            study.form.known(study.ring, total, shared, body, bound)
            if not study.form.holds_uploads:  # nobody needs it again
                self._store.drop(("body", ask, goal.name))
        self.lists[ask] = wire.List(members, tuple(goal.shares for goal in goals))
        self.envelopes[ask] = [goal.envelopes for goal in goals]
        self._sums[ask] = total
        self._tell(events.Listed(study.names))

    def _all_wanted(self, here: Collection[str]) -> None:
        absent = [name for name in self.study.names if name not in here]
        if absent:
            count = len(self.study.names)
            raise NotEnoughDevices(
                f"all {count} devices must share before training, missing: {', '.join(absent)}", absent
            )

    def keep_body(self, ask: bytes, name: str, body: bytes) -> None:
        """What a device has shared with those who answer for it, or with the server."""
        self._store.put(("body", ask, name), body)

    def body(self, ask: bytes, name: str) -> bytes:
        """See ``keep_body``."""
        found = self._store.get(("body", ask, name))
        if found is None:
            raise GenerationOver
        return found

    # -- phase 2

    def _epoch_of(self, ask: bytes, e: bytes, count: int) -> Planes:
        if e:
            self.epoch += 1
            self._tell(events.EpochStarted(self.epoch))
        goal = _Coded(self, ask, e, count)
        self._asking.needs([goal])
        if e:
            self._tell(events.EpochEnded(self.epoch))
        ring, answers = self.study.ring, goal.answers
        total = ring.zeros(count)
        vector = self.study.code.decoding_vector(list(answers))
        ring.add_scaled(total, vector.tolist(), list(answers.values()))
        return total


class _Share(Goal):
    """What one device shares."""

    def __init__(self, session: CodedSession, ask: bytes, members: tuple[Enrolment, ...], name: str) -> None:
        super().__init__(session.known, [name])
        self._session, self.name, self._ask, self._members = session, name, ask, members
        self.members = digest(wire.encode(members))

    def asked_of(self, candidate: str) -> Sending:
        common = wire.ShareCommon(*self.known.ids, self._ask, self.members)
        return Sending(candidate, self.known.request("share", common, wire.ShareOwn(self._members)), wire.Shared)

    def take(self, device: str, found: Wire) -> None:
        if self.reached or not isinstance(found, wire.Shared):
            return
        study = self._session.study
        place = study.position(device)
        if found.shares.name != device or digest(found.body) != found.shares.body:
            raise MessageRefused("what a device shares must be its own, with its digest")
        if set(found.envelopes) != set(study.receivers(place)) - {place}:
            raise MessageRefused("what a device shares must be for those who need its secrets in this study")
        self.shares, self.envelopes = found.shares, found.envelopes
        self._session.keep_body(self._ask, device, found.body)
        self.reached = True
        self.known.tell(events.UploadTaken(device, len(found.body)))


class _Coded(Goal):
    """The answers that decode one question, and what devices need to give them."""

    others_may_help = True

    def __init__(self, session: CodedSession, ask: bytes, e: bytes, count: int) -> None:
        super().__init__(session.known, session.study.names)
        listed, ids = session.lists[ask], session.known.ids
        self._session, self._ask, self._count, self._list = session, ask, count, listed
        members, whole = digest(wire.encode(listed.members)), digest(wire.encode(listed))
        self._puts = wire.ListCommon(*ids, ask, members, whole)
        self._common = wire.CodedAnswerCommon(*ids, ask, members, whole, e)
        self._times: dict[str, int] = {}  # how often each said that something was missing
        self.answers: dict[int, Planes] = {}
        self._project = Projection(session.study.ring, self.known.random_bytes(KEY_BYTES), count)

    def asked_of(self, candidate: str) -> Sending | None:
        session, study, known = self._session, self._session.study, self.known
        place = study.position(candidate)
        if place in self.answers or known.enrolled[candidate] != self._list.members[place]:
            return None
        if lacking := self._lacking(candidate, place):
            envelope, body = self._envelope(lacking[0], place), session.body(self._ask, study.names[lacking[0]])
            own = wire.CodedPutOwn(self._list, lacking[0], envelope, body)
            return Sending(candidate, known.request("put", self._puts, own), wire.Put)
        informed = candidate in session.answered
        senders = [] if informed else [i for i in study.senders(place) if i != place]
        answer = wire.CodedAnswerOwn(
            None if informed else self._list,
            {i: self._envelope(i, place) for i in senders},
            self._times.get(candidate, 0),
        )
        return Sending(candidate, known.request("answer", self._common, answer), wire.CodedAnswered)

    def _lacking(self, name: str, place: int) -> list[int]:
        """Whose data a device is not known to have."""
        if not self._session.study.form.holds_uploads:
            return []
        placed = self._session.placed.setdefault(name, {place})
        return [owner for owner in self._session.study.code.row_support(place) if owner not in placed]

    def _envelope(self, owner: int, to: int) -> bytes:
        return self._session.envelopes[self._ask][owner].get(to, b"")

    def missing(self, device: str, code: str) -> None:
        self._session.answered.discard(device)
        self._times[device] = self._times.get(device, 0) + 1
        owners = {int(one) for one in code.split(",") if one.isdigit()}
        self._session.placed.setdefault(device, set()).difference_update(owners)

    def refused(self, device: str, code: str) -> None:
        self._session.answered.discard(device)
        self.out[device] = code

    def take(self, device: str, found: Wire) -> None:
        session, study = self._session, self._session.study
        if isinstance(found, wire.Put):
            session.placed.setdefault(device, set()).add(found.owner)
        elif isinstance(found, wire.CodedAnswered):
            session.answered.add(device)
            if self.reached:
                self.known.tell(events.RepliedLate(device, session.epoch, len(found.numbers)))
                return
            self.answers[study.position(device)] = study.ring.unpack(found.numbers, self._count)
            self.known.tell(events.Replied(device, session.epoch, len(found.numbers)))
            liars = [study.position(name) for name in session.excluded]
            if study.quorum.with_spare(session.spare, liars).complete(self.answers):
                self._judge()

    def _judge(self) -> None:
        """Reached if the answers lie on the code, but for wrong ones that they give away; or more are awaited."""
        session, study = self._session, self._session.study
        if session.spare:
            scalars = self._project(list(self.answers.values()))
            verdict = judge(study.code, {i: {0: one} for i, one in zip(self.answers, scalars, strict=True)})
            for liar in verdict.liars:
                self.known.excluded.add(study.names[liar])
                del self.answers[liar]
                self.known.tell(events.WrongReply(study.names[liar], session.epoch))
            if not verdict.agreed:
                return
        self.reached = study.quorum.complete(self.answers)

    @property
    def hopeless(self) -> bool:
        study = self._session.study
        able = {study.position(name) for name in self.candidates if self.may_help(name)}
        return not study.quorum.complete(able | set(self.answers)) or able <= set(self.answers)

    def fail(self) -> None:
        study = self._session.study
        answered = [study.names[i] for i in sorted(self.answers)]
        if study.quorum.complete(self.answers):
            raise WrongAnswers(
                f"answers must lie on the code: they do not, and too few are there to tell whose is wrong (those of"
                f" {', '.join(answered)})",
                answered,
            )
        raise NotEnoughDevices(
            f"an epoch needs {study.quorum.answers_needed} answers (D - alpha + 1 of every group), got {len(answered)}",
            [name for name in study.names if name not in answered],
        )
