"""What a sum needs of devices, one class each: which request to whom, and what is done with the reply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from codedfl.crypto.sealed import verify
from codedfl.errors import NotEnoughDevices, WrongAnswers
from codedfl.sum import events, wire
from codedfl.sum.asking import Goal, Sending
from codedfl.sum.keys import digest, label_of, role_sum_text, total_text, upload_text
from codedfl.sum.known import KeyLost, Known
from codedfl.sum.layout import Layout
from codedfl.sum.wire import Enrolment, ListEntry, RoleKey

Signatures = tuple[tuple[str, bytes], ...]


class Enrol(Goal):
    """A device's key of the generation, which is in every reply."""

    def __init__(self, known: Known, name: str) -> None:
        super().__init__(known, [name])
        self.name = name

    @property
    def done(self) -> bool:
        # Any reply enrols: whoever answers another request first need not be asked for its key.
        return self.name in self.known.enrolled


class Draw(Goal):
    """A role key, of whichever holder draws it first."""

    others_may_help = True

    def __init__(self, known: Known, role: int) -> None:
        # The fastest first, and whoever drew a key that nobody can open comes last.
        super().__init__(known, known.drawers(role))
        self.role = role

    @property
    def done(self) -> bool:
        return self.role in self.known.drawn

    def breadth(self, waited: float, hedge: float) -> int:
        # One at a time: of two keys that are drawn for a role the first stays, and the other was drawn in vain.
        return 1 + int(waited // hedge)

    def asked_of(self, candidate: str) -> Sending:
        return Sending(candidate, self.known.draw_request(self.role), wire.Drawn)

    def fail(self) -> None:
        raise NotEnoughDevices(
            f"a holder of role {self.role} must draw its key, got none of {', '.join(self.candidates) or 'nobody'}",
            self.candidates,
        )


class KeptUpload(msgspec.Struct):
    """An upload in the cache."""

    enrolment: Enrolment
    nonce: bytes
    numbers: bytes
    signature: bytes
    role_keys: tuple[RoleKey, ...]

    @property
    def entry(self) -> ListEntry:
        one = self.enrolment
        return ListEntry(one.name, one.public, one.not_after, one.signature, self.nonce)


class Upload(Goal):
    """One owner's statistic under pads.

    needs: digests of what the ask needs: it is put first where the device is not known to have it.
    """

    def __init__(self, known: Known, ask: bytes, layout: Layout, name: str, needs: Collection[bytes] = ()) -> None:
        super().__init__(known, [name])
        self.name, self._ask, self._layout, self._role_keys, self._needs = name, ask, layout, known.role_keys, needs
        self._place = ("upload", digest(ask), name)
        self.entry: ListEntry | None = None

    @property
    def done(self) -> bool:
        """Also if the upload came to an earlier goal, or to a session before this one."""
        if not self.reached and (saved := self.known.store.get(self._place)) is not None:
            kept = msgspec.msgpack.decode(saved, type=KeptUpload)
            # An upload under other role keys is of no use: a role's holders would take off other pads.
            if kept.role_keys == self._role_keys:
                self.entry, self.reached = kept.entry, True
        return self.reached

    def asked_of(self, candidate: str) -> Sending:
        # A device that was never given a content says so, which is a round trip: it is asked what it can answer.
        for one in self._needs:
            if one in self.known.contents and (candidate, one) not in self.known.given:
                self.known.lacking[candidate] = one
                return Sending(candidate, self.known.put_request(one), wire.Kept)
        common, own = wire.AskCommon(*self.known.ids, self._ask), wire.UploadOwn(self._role_keys)
        return Sending(candidate, self.known.request("upload", common, own), wire.Uploaded)

    def take(self, device: str, found: wire.Wire) -> None:
        # Invariant: the first upload stays. A device sends the same bytes again or refuses, so a second adds nothing.
        if self.reached or not isinstance(found, wire.Uploaded):
            return
        known, layout = self.known, self._layout
        # Invariant: kept only if it has the length of this layout; a shorter one would be noticed when nobody can be
        # asked.
        layout.from_bytes(found.numbers, layout.total_words)
        enrolment = known.enrolled[device]
        # z + 1 devices will recompute the total from uploads: each must be its owner's own, whatever the server says.
        if layout.certified:
            label, publics = label_of(known.terms.study, self._ask), [key.public for key in self._role_keys]
            text = upload_text(label, enrolment.public, publics, found.nonce, found.numbers)
            verify(known.terms.by_name[device].key, text, found.signature)
        kept = KeptUpload(enrolment, found.nonce, found.numbers, found.signature, self._role_keys)
        known.store.put(self._place, msgspec.msgpack.encode(kept))
        self.entry, self.reached = kept.entry, True
        known.tell(events.UploadTaken(device, len(found.numbers)))


@dataclass(frozen=True)
class Question:
    """What the holders of a role are asked: the same of each of them, but for their rows.

    needed: how many equal replies. epoch: for events; 0 is a sum.
    eager: ask all holders, since the fastest is wanted; else few, and one more each ``hedge`` seconds.
    """

    common: wire.AnswerCommon
    entries: bytes
    layout: Layout
    needed: int = 1
    epoch: int = 0

    @property
    def eager(self) -> bool:
        return self.epoch > 0


class Answer(Goal):
    """What a role's holders reply to one question: as many as are needed must agree."""

    others_may_help = True

    def __init__(
        self, known: Known, question: Question, role: int, rows: tuple[int, int] = (0, 1), turn: int = 0
    ) -> None:
        holders = known.fastest(name for name in known.terms.holders_of(role) if known.takes_part(name))
        # Only devices that take part: one that is excluded has no say in whether replies agree.
        turn %= max(1, len(holders))  # each begins with another block
        super().__init__(known, holders[turn:] + holders[:turn])
        self.role, self.rows, self._question = role, rows, question
        self.role_key = known.drawn[role].role_key
        self.numbers = b""
        self.signatures: Signatures = ()
        self._given: dict[str, wire.Answered] = {}
        self._cached = ("answer", digest(wire.encode(question.common)), self.role_key.public, role, rows[0], rows[1])
        # Invariant: cached under question, role, key and rows: an answer under another key would take off other pads.
        saved = known.store.get(self._cached)
        if saved is not None:
            self.numbers, self.signatures = msgspec.msgpack.decode(saved, type=tuple[bytes, Signatures])
            self.reached = True

    def breadth(self, waited: float, hedge: float) -> int:
        # Replies that differ are a reason to ask everybody at once: the majority shows who is wrong.
        if self._question.eager or self._disagree:
            return len(self.candidates)
        return max(1, self._question.needed - len(self._given)) + int(waited // hedge)

    @property
    def _disagree(self) -> bool:
        return len({one.numbers for one in self._given.values()}) > 1

    def may_help(self, name: str) -> bool:
        return super().may_help(name) and name not in self._given and self._sealed_by(name) is not None

    def _sealed_by(self, candidate: str) -> bytes | None:
        """The role key as it is sealed to a candidate, empty if it drew it or must be sealed first; None is never."""
        drawn, mine = self.known.drawn.get(self.role), self.known.enrolled.get(candidate)
        # The role has another key by now: this goal's uploads are under the old one, and cannot be finished by anybody.
        if drawn is None or drawn.role_key != self.role_key:
            return None
        if mine is None or candidate == drawn.role_key.drawer:
            return b""
        enrolled, sealed = drawn.sealed.get(candidate, (b"", b""))
        # Sealed to an earlier key of the same device it cannot be opened: it is sealed again.
        if enrolled == mine.public:
            return sealed
        return None if drawn.lost or drawn.role_key.drawer in self.out else b""

    def _unsealed(self, first: str) -> list[str]:
        """Whom the drawer has to seal its key to now: all who may be asked at once, so that it is one request."""
        able = [name for name in self.candidates if name in self.known.enrolled and self.may_help(name)]
        wanted = [name for name in able if name != self.role_key.drawer and not self._sealed_by(name)]
        return wanted if self._question.eager else [first, *wanted[: self._question.needed]]

    def _cannot_open(self, name: str) -> bool:
        unsealed = name != self.role_key.drawer and not self._sealed_by(name)
        return self.out.get(name) == "role" or (unsealed and name in self.known.enrolled)

    def asked_of(self, candidate: str) -> Sending | None:
        sealed, drawer = self._sealed_by(candidate), self.role_key.drawer
        if sealed is None:
            return None
        if not sealed and candidate != drawer:  # enrolled after the key was drawn: its drawer seals it
            if drawer not in self.known.enrolled:
                return self.enrolling(drawer)
            return Sending(drawer, self.known.draw_request(self.role, self._unsealed(candidate)), wire.Drawn)
        # Left out where it may be known: who lacks it says so, and the digest in the question binds it.
        kept = (candidate, self._question.common.list) in self.known.lists
        own = wire.AnswerOwn(self.role_key, sealed, self.rows, b"" if kept else self._question.entries)
        return Sending(candidate, self.known.request("answer", self._question.common, own), wire.Answered)

    def take(self, device: str, found: wire.Wire) -> None:
        if not isinstance(found, wire.Answered):
            return
        known, epoch = self.known, self._question.epoch
        # Invariant: checked before it counts, so that a malformed reply can neither agree nor disagree.
        self._check(device, found)
        known.lists.add((device, self._question.common.list))
        if self.reached:
            self._late(device, found)
            return
        self._given[device] = found
        known.tell(events.Replied(device, epoch, len(found.numbers)))
        agree = [name for name, one in self._given.items() if one.numbers == found.numbers]
        # Whole replies are compared, byte for byte: holders of a role compute the very same words.
        if len(agree) < self._question.needed:
            return
        self.reached, self.numbers = True, found.numbers
        self.signatures = tuple((name, self._given[name].signature) for name in agree)
        # With needed > z those who agree have an honest one among them, so whoever differs is wrong.
        self._exclude(set(self._given) - set(agree))
        known.store.put(self._cached, msgspec.msgpack.encode((self.numbers, self.signatures)))

    def _check(self, device: str, found: wire.Answered) -> None:
        question, layout = self._question, self._question.layout
        numbers = layout.vector_words
        # A product has only the rows that were asked for; a shorter reply would be added in the wrong place.
        if question.common.e:
            numbers = layout.words * layout.rows_in(*self.rows) * layout.columns
        layout.from_bytes(found.numbers, numbers)
        if layout.certified:
            label = label_of(self.known.terms.study, question.common.ask)
            text = role_sum_text(label, question.common.list, self.role, self.role_key.public, found.numbers)
            verify(self.known.terms.by_name[device].key, text, found.signature)

    def _late(self, device: str, found: wire.Answered) -> None:
        """Nobody waited for it; but where several had to agree, it shows who is wrong."""
        self.known.tell(events.RepliedLate(device, self._question.epoch, len(found.numbers)))
        if found.numbers == self.numbers:
            return
        # One against one says that somebody is wrong, and not who: the run ends instead of guessing.
        if self._question.needed > 1:
            self._exclude({device})
        else:
            self.known.contradicted.append((self.role, device))

    def _exclude(self, devices: Collection[str]) -> None:
        for device in sorted(devices):
            self.known.excluded.add(device)
            self.known.tell(events.WrongReply(device, self._question.epoch))

    def missing(self, device: str, code: str) -> None:
        del code
        self.known.lists.discard((device, self._question.common.list))

    @property
    def hopeless(self) -> bool:
        # Hopeless only if even all who are left would not make enough equal replies.
        left = sum(self.may_help(name) for name in self.candidates)
        equal = Counter(one.numbers for one in self._given.values())
        return left + max(equal.values(), default=0) < self._question.needed

    def fail(self) -> None:
        if self._disagree:
            suspects = sorted(self._given)
            raise WrongAnswers(
                f"replies of role {self.role} must agree: they do not, and there are too few to tell whose is wrong"
                f" (those of {', '.join(suspects)})",
                suspects,
            )
        left = [name for name in self.candidates if name not in self._given]
        # Not a failure yet: with a new key of the role the same holders can answer.
        if any(self._cannot_open(name) for name in left):
            raise KeyLost(self.role)
        raise NotEnoughDevices(
            f"a sum needs replies of {self._question.needed} of the holders of role {self.role}"
            f" ({', '.join(self.candidates)}), got {len(self._given)}",
            left,
        )


class Certify(Goal):
    """Signatures of z + 1 devices under a total that each of them has computed."""

    others_may_help = True

    def __init__(self, known: Known, common: wire.CertifyCommon, own: wire.CertifyOwn, turn: int = 0) -> None:
        able = known.fastest(name for name in known.enrolled if known.takes_part(name))
        turn = turn * (known.terms.colluders + 1) % max(1, len(able))  # each begins with other devices
        super().__init__(known, able[turn:] + able[:turn])
        self._common, self._own = common, own
        self._given: dict[str, wire.Answered] = {}
        self.numbers = b""
        self.signatures: Signatures = ()

    def breadth(self, waited: float, hedge: float) -> int:
        return max(1, self.known.terms.colluders + 1 - len(self._given)) + int(waited // hedge)

    def may_help(self, name: str) -> bool:
        return super().may_help(name) and name not in self._given

    def asked_of(self, candidate: str) -> Sending:
        return Sending(candidate, self.known.request("certify", self._common, self._own), wire.Answered)

    def take(self, device: str, found: wire.Wire) -> None:
        if self.reached or not isinstance(found, wire.Answered):
            return
        terms = self.known.terms
        text = total_text(label_of(terms.study, self._common.ask), self._common.list, found.numbers)
        verify(terms.by_name[device].key, text, found.signature)
        self._given[device] = found
        # Invariant: z + 1 equal totals, so one is of an honest device; z malicious ones can only delay it.
        agree = [name for name, one in self._given.items() if one.numbers == found.numbers]
        if len(agree) > terms.colluders:
            self.reached, self.numbers = True, found.numbers
            self.signatures = tuple((name, self._given[name].signature) for name in agree)


class Close(Goal):
    """A device has deleted its keys."""

    def __init__(self, known: Known, name: str, common: wire.CloseCommon) -> None:
        super().__init__(known, [name])
        self._common = common

    def wanted(self, candidate: str) -> Sending:
        # No enrolment first: whoever has nothing of this generation has nothing to delete.
        return Sending(candidate, self.known.request("close", self._common, wire.Nothing()), wire.Closed)

    def take(self, device: str, found: wire.Wire) -> None:
        del device, found
        self.reached = True
