"""The answers the server has to the current epoch, whether they agree, and whose to trust (``answer_check``).

With ``spare`` answers beyond the D - alpha + 1 that decode, they are checked before they are used. Devices found lying
are excluded for good. Answers that disagree without telling who lies wait for further ones.

What is left of the last epoch, one number an answer, serves to check answers that come late. Where two spare ones
confirmed it in time, a late one that contradicts is wrong. Otherwise it only disputes the epoch, since who comes late
may lie as well: the same question is asked again (``confirming``) and everybody's answer waited for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations
from typing import ClassVar

from codedfl.code.answer_check import Projection, Scalars, Verdict, judge
from codedfl.code.gradient_code import Code
from codedfl.exact.ring import Ring
from codedfl.state import MAP, PLAIN, SET, TUPLE, Kept, Resumable, State
from codedfl.typing import Planes

CONFIRMING = 2  # spare answers that confirm an epoch: a single liar is then found out, whoever it is
_MOST_CHOICES = 2000  # of answers to leave out, about a second's work


class AnswerBook(Resumable):
    """Answers by the device's position.

    spare: how many answers beyond D - alpha + 1 to wait for, in each group. Fewer when devices were excluded and no
        more are left; 0 checks nothing in time.
    """

    _kept: ClassVar[Mapping[str, Kept]] = {
        "spare": PLAIN,
        "liars": MAP,
        "disputed": SET,
        "refuted": SET,
        "confirming": PLAIN,
        "answers": MAP,
        "_seed": PLAIN,
        "_projected": MAP,
        "last": TUPLE,
        "_last_seed": PLAIN,
        "_last_projected": MAP,
        "_last_used": SET,
        "last_confirmed": PLAIN,
    }

    def __init__(self, spare: int = 0) -> None:
        self.spare = spare
        self.liars: dict[int, int] = {}  # position -> the epoch in which it was found out
        self.disputed: set[int] = set()  # epochs whose late answers do not agree with those used
        self.refuted: set[int] = set()  # whose late answers disputed an epoch that was right: they count no more
        self.confirming = False  # the last epoch is disputed, and this one asks the same again
        self.answers: dict[int, Planes] = {}
        self._seed = b""  # of the projection; drawn when the first check needs it, after the answers were sent
        self._projected: dict[int, Scalars] = {}
        self.last: tuple[int, bytes] = (0, b"")  # the last finished epoch, and the digest of its update
        self._last_seed = b""
        self._last_projected: dict[int, Scalars] = {}
        self._last_used: set[int] = set()
        self.last_confirmed = False  # enough spare answers agreed with those used

    @classmethod
    def restored(cls, state: State) -> AnswerBook:
        book = cls()
        book.restore(state)
        return book

    def shortfall(self, code: Code, positions: Iterable[int]) -> int:
        """How many more devices must answer than these: spare ones as far as each group's trusted members go."""
        spare = max(self.spare, CONFIRMING) if self.confirming else self.spare
        return code.quorum.with_spare(spare, self.liars).missing(set(positions) - set(self.liars))

    def can_confirm(self, code: Code, positions: Iterable[int]) -> bool:
        """Whether these are enough to confirm an epoch, in every group."""
        there = set(positions) - set(self.liars)
        return all(len(there.intersection(members)) >= part.answers_needed + CONFIRMING for part, members in code.parts)

    def check(self, ring: Ring, code: Code, run: bytes, fresh_seed: bytes) -> Verdict:
        """Judge the answers to the current epoch, once enough are in. Liars are not excluded yet: ``exclude`` does."""
        self._seed = self._seed or fresh_seed
        missing = [i for i in self.answers if i not in self._projected]
        project = Projection(ring, self._seed, run, next(iter(self.answers.values())).shape[1])
        scalars = project([self.answers[i] for i in missing])
        self._projected |= dict(zip(missing, scalars, strict=True))
        return judge(code, self._projected)

    def outstanding(self, code: Code, verdict: Verdict, alive: Iterable[int]) -> list[int]:
        """Who of ``alive`` has not answered yet in the groups whose answers do not agree; in all, if they seem to."""
        suspects = set(verdict.undecided) or set(self.answers)
        torn = [i for _, members in code.parts if suspects.intersection(members) for i in members]
        return self.missing(i for i in alive if i in torn)

    def missing(self, positions: Iterable[int]) -> list[int]:
        """Those of them who have not answered, and could."""
        return [i for i in positions if i not in self.answers and i not in self.liars]

    def ways_to_agree(self, code: Code) -> Iterator[list[tuple[int, ...]]]:
        """Devices without whose answers the others are enough and agree: all choices of one, then of two, and so on.

        Ends where there would be too many to try.
        """
        tried = 0
        for size in range(1, len(self.answers)):
            tried += math.comb(len(self.answers), size)
            if tried > _MOST_CHOICES:
                return
            yield [choice for choice in combinations(sorted(self.answers), size) if self._agree_without(code, choice)]

    def _agree_without(self, code: Code, choice: tuple[int, ...]) -> bool:
        rest = {i: scalars for i, scalars in self._projected.items() if i not in choice}
        return not code.quorum.missing(rest) and judge(code, rest) == Verdict()

    def exclude(self, positions: Iterable[int], epoch: int) -> None:
        for i in positions:
            self.liars.setdefault(i, epoch)
            self.answers.pop(i, None)
            self._projected.pop(i, None)

    def decode(self, ring: Ring, code: Code, without: Collection[int] = ()) -> Planes:
        """sum_i a_i answer_i over D - alpha + 1 answers: masks cancel, the total of data and pads is left."""
        survivors = [i for i in self.answers if i not in without]
        vector = code.decoding_vector(survivors)
        total = ring.zeros(next(iter(self.answers.values())).shape[1])
        ring.add_scaled(total, vector.tolist(), [self.answers[i] for i in survivors])
        return total

    def close(self, epoch: int, digest: bytes, code: Code) -> None:
        """The epoch is decoded: forget its answers, keep what late ones are checked with."""
        self.last, self._last_seed = (epoch, digest), self._seed
        self._last_projected, self._last_used = self._projected, set(self.answers)
        self.last_confirmed = self.can_confirm(code, self.answers)
        self.confirming = False
        self.drop()

    def drop(self) -> None:
        """Forget the answers to the current epoch."""
        self.answers, self._projected, self._seed = {}, {}, b""

    def check_late(self, ring: Ring, code: Code, run: bytes, sender: int, answer: Planes) -> bool:
        """Whether a late answer disputes the last epoch; of one that was confirmed it only shows who lies."""
        if sender in self._last_projected or sender in self.refuted:
            return False
        project = Projection(ring, self._last_seed, run, answer.shape[1])
        (self._last_projected[sender],) = project([answer])
        if not self._contradicts(code, sender):
            return False
        epoch, _ = self.last
        if self.last_confirmed:
            self._last_projected.pop(sender)
            self.exclude([sender], epoch)
            return False
        self.disputed.add(epoch)
        return True

    def resolve(self, code: Code, right: bool) -> None:
        """The disputed epoch's total is known to be right, or not: exclude those who are guilty beyond doubt.

        Of a right total the used answers are beyond suspicion, however many late ones agree against them.
        """
        epoch, _ = self.last
        verdict = judge(code, self._last_projected)
        guilty = bool(self._last_used.intersection(verdict.liars)) != right
        if right:
            late = set(self._last_projected) - self._last_used
            self.refuted |= {i for i in late if self._contradicts(code, i)}
        if verdict.liars and verdict.agreed and guilty:
            self.disputed.discard(epoch)
            self.exclude(verdict.liars, epoch)

    def _contradicts(self, code: Code, sender: int) -> bool:
        """Whether this late answer and those used are not on the code."""
        return judge(code, {i: self._last_projected[i] for i in (*self._last_used, sender)}) != Verdict()
