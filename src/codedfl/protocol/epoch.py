"""One epoch as the server has it: what was asked, who answered what, whether the answers agree, and what came of it.

The epoch that is being asked for and the last one that ended are two values of this type. Only a number per answer is
left of the last one, its projection; it serves to check answers that come late (``server_epochs``).

With answers beyond the D - alpha + 1 that decode, all are checked before they are used (``answer_check``).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import ClassVar

import numpy as np

from codedfl.code.answer_check import Projection, Scalars, Verdict, judge
from codedfl.code.roles import AnswerCode
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.epoch_total import QUESTION, Question
from codedfl.state import MAP, PLAIN, SET, CheckpointFields, Codec, State, optional, part_codec
from codedfl.typing import Planes

CONFIRMING = 2  # spare answers that confirm an epoch: a single liar is then found out, whoever it is
_MOST_CHOICES = 2000  # ways to leave answers out, about a second's work


@dataclass
class Epoch:
    """Answers are by the device's position in the run.

    number: from 1 on; 0 before the first.
    question: what is asked for.
    update_digest: SHA-256 of the update that asks it. An answer names it, so it is to this very update.
    interrupted: set when the epoch asks the last one's question again, of everybody, because a late answer disputed
        it: the question that was put off for it.
    answers: those in so far that count; an epoch that ended has none.
    seed, projected: one random number per answer and block of rows, by which they are compared. The seed is drawn when
        the first check needs it, that is after the answers were sent: nobody can answer wrongly and so that it is not
        seen.
    used: once the epoch has ended, whose answers its total was decoded from.
    total_digest: digest of its total on the ring, to see whether it is the same when it is asked again.
    solver_before: the solver's state before its total, to undo it. None where it was confirmed at once, or never could
        be.
    confirmed: whether enough spare answers agreed with those used.
    """

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "number": PLAIN,
        "question": QUESTION,
        "update_digest": PLAIN,
        "interrupted": optional(QUESTION),
        "answers": MAP,
        "seed": PLAIN,
        "projected": Codec(
            lambda table: [[i, MAP.save(by_block)] for i, by_block in table.items()],
            lambda saved: {i: MAP.load(by_block) for i, by_block in saved},
        ),
        "used": SET,
        "total_digest": PLAIN,
        "solver_before": PLAIN,
        "confirmed": PLAIN,
    }

    number: int
    question: Question
    update_digest: bytes = b""
    interrupted: Question | None = None
    answers: dict[int, Planes] = field(default_factory=dict, repr=False)
    seed: bytes = field(default=b"", repr=False)  # a liar who knew it could answer wrongly unseen
    projected: dict[int, dict[int, Scalars]] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    total_digest: bytes = b""
    solver_before: State | None = None
    confirmed: bool = False

    @classmethod
    def before_the_first(cls, n_features: int, n_outputs: int) -> Epoch:
        """Nothing is asked yet; the first question is for the constant part."""
        return cls(0, Question(True, np.zeros((n_features, n_outputs)), 0))

    @property
    def confirms(self) -> bool:
        """Whether it asks the disputed last epoch's question again."""
        return self.interrupted is not None

    def ended(self, code: AnswerCode, total_digest: bytes, solver_before: State | None) -> Epoch:
        """The epoch once its total is known: the answers are forgotten, what late ones are checked with is kept."""
        confirmed = can_confirm(code, self.answers)
        return replace(
            self,
            interrupted=None,
            answers={},
            used=set(self.answers),
            total_digest=total_digest,
            solver_before=solver_before,
            confirmed=confirmed,
        )

    # -- do the answers agree?

    def answer_length(self, agreed: Agreement, sender: int) -> int:
        """How many numbers a device's answer has."""
        return agreed.answer_rows.answer_length(agreed.blocks_of(sender), constant=self.question.constant)

    def check(self, agreed: Agreement, fresh_seed: bytes) -> Verdict:
        """Judge the answers, once enough are in. Liars are not excluded yet: ``forget`` does."""
        self.seed = self.seed or fresh_seed
        self._project(agreed, {i: answer for i, answer in self.answers.items() if i not in self.projected})
        return judge(agreed.answer_code, self.projected)

    def take_late(self, agreed: Agreement, sender: int, answer: Planes) -> None:
        """A late answer to an epoch that ended."""
        self._project(agreed, {sender: answer})

    def _project(self, agreed: Agreement, answers: Mapping[int, Planes]) -> None:
        """Invariant: one number per block, not per answer, so that whoever answers for several is judged in each."""
        pieces = {i: self._by_block(agreed, i, answer) for i, answer in answers.items()}
        for block, length in enumerate(agreed.answer_rows.lengths(constant=self.question.constant)):
            there = [i for i in pieces if block in pieces[i]]
            if there:
                project = Projection(agreed.ring, self.seed, length)
                for i, scalars in zip(there, project([pieces[i][block] for i in there]), strict=True):
                    self.projected.setdefault(i, {})[block] = scalars

    def _by_block(self, agreed: Agreement, sender: int, answer: Planes) -> dict[int, Planes]:
        return agreed.answer_rows.split(answer, agreed.blocks_of(sender), constant=self.question.constant)

    def contradicts(self, code: AnswerCode, sender: int) -> bool:
        """Whether this late answer and those used are not on the code."""
        return judge(code, {i: self.projected[i] for i in (*self.used, sender)}) != Verdict()

    def outstanding(self, code: AnswerCode, verdict: Verdict, alive: Iterable[int]) -> list[int]:
        """Who of ``alive`` has not answered yet in the groups whose answers do not agree; in all, if they seem to."""
        suspects = set(verdict.undecided) or set(self.answers)
        torn = [i for _, members in code.parts if suspects.intersection(members) for i in members]
        return [i for i in alive if i in torn and i not in self.answers]

    def forget(self, positions: Iterable[int]) -> None:
        """Devices found lying."""
        for i in positions:
            self.answers.pop(i, None)
            self.projected.pop(i, None)

    # -- what they add up to

    def decode(self, agreed: Agreement, without: Collection[int] = ()) -> Planes:
        """sum_i a_i answer_i over D - alpha + 1 answers: masks cancel, the total of data and pads is left.

        Each block of rows by itself, from whoever has answered for it.
        """
        ring, constant = agreed.ring, self.question.constant
        pieces = {i: self._by_block(agreed, i, one) for i, one in self.answers.items() if i not in without}
        totals = []
        for block, length in enumerate(agreed.answer_rows.lengths(constant=constant)):
            survivors = [i for i in pieces if block in pieces[i]]
            total = ring.zeros(length)
            vector = agreed.answer_code.decoding_vector(survivors)
            ring.add_scaled(total, vector.tolist(), [pieces[i][block] for i in survivors])
            totals.append(total)
        return agreed.answer_rows.joined(totals, constant=constant)

    def ways_to_agree(self, code: AnswerCode) -> Iterator[list[tuple[int, ...]]]:
        """Devices without whose answers the others are enough and agree: all choices of one, then of two, and so on.

        Ends where there would be too many to try.
        """
        tried = 0
        for size in range(1, len(self.answers)):
            tried += math.comb(len(self.answers), size)
            if tried > _MOST_CHOICES:
                return
            yield [choice for choice in combinations(sorted(self.answers), size) if self._agree_without(code, choice)]

    def _agree_without(self, code: AnswerCode, choice: tuple[int, ...]) -> bool:
        rest = {i: scalars for i, scalars in self.projected.items() if i not in choice}
        return not code.quorum.missing(rest) and judge(code, rest) == Verdict()


EPOCH: Codec = part_codec(lambda: Epoch.before_the_first(0, 0))


def can_confirm(code: AnswerCode, positions: Collection[int]) -> bool:
    """Whether the answers of these devices are enough to confirm an epoch, in every group."""
    there = set(positions)
    return all(len(there.intersection(members)) >= part.answers_needed + CONFIRMING for part, members in code.parts)
