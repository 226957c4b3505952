"""The epochs of a run: the server broadcasts e, takes answers, decodes, unpads and steps (paper IV-C).

It goes on at the first D - alpha + 1 answers (and ``spare`` more to check them with). Decoding is linear and A B = 1,
so the pads collapse to their sum: the server decodes first and unpads with one product. Answers that contradict each
other, also late ones, are settled here; what to do with an exact total is the solver's business (``codedfl.solve``).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from codedfl.code.answer_check import Verdict
from codedfl.code.quorum import Quorum
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import Identity
from codedfl.errors import CodedFLError, InvalidInput, MessageRefused, RangeExceeded, SolverFailed, WrongAnswers
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.answers import AnswerBook
from codedfl.protocol.convener import Convener, Outgoing, Phase
from codedfl.protocol.epoch_total import (
    FINISHED_EPOCH,
    QUESTION,
    EpochTotal,
    FinishedEpoch,
    Question,
    read_total,
    tell_solver,
    unpad,
)
from codedfl.protocol.messages import Answer, Kind, Message
from codedfl.solve.solver import Solver
from codedfl.state import MAP, PLAIN, SET, Kept, State, optional
from codedfl.typing import Floats, Planes, RandomBytes


class Trainer(Convener):
    """The server from its first question to its model; see ``Server`` for the arguments.

    Which devices can answer, and what takes the pads off, the sharing phase brings.
    """

    # +1: the decoded answers are data plus pads; -1: they are pads, and what the server holds is data plus pads.
    pad_sign: ClassVar[int]
    _kept: ClassVar[Mapping[str, Kept]] = {
        **Convener._kept,
        "epoch": PLAIN,
        "pad_linear": PLAIN,
        "pad_constant": PLAIN,
        "_ready": SET,
        "_book": Kept(lambda book: book.state(), AnswerBook.restored),
        "mended": PLAIN,
        "_question": QUESTION,
        "_spent": SET,
        "_dropped": MAP,
        "_interrupted": optional(QUESTION),
        "_last": optional(FINISHED_EPOCH),
        "_update": PLAIN,
        "_update_digest": PLAIN,
    }

    def __init__(
        self,
        parameters: Parameters,
        devices: Sequence[str],
        solver: Solver,
        *,
        initial_model: Floats | None,
        identity: Identity | None,
        roster: Mapping[str, bytes] | None,
        stop_when: Callable[[Floats], bool] | None,
        spare: int,
        random_bytes: RandomBytes,
    ) -> None:
        self._check_spare(parameters, spare)
        super().__init__(
            replace(parameters, epochs=min(parameters.epochs, solver.epochs)),  # devices agree to no more than needed
            devices,
            initial_model=initial_model,
            identity=identity,
            roster=roster,
            random_bytes=random_bytes,
        )
        self.solver = solver
        self.epoch = 0
        self.pad_linear: Planes | None = None
        self.pad_constant: Planes | None = None
        self._stop_when = stop_when
        self._ready: set[int] = set()  # whose shares of phase 1 are complete
        self._book = AnswerBook(spare)
        self.mended: list[int] = []  # epochs that were decoded from a wrong answer, found out and asked again
        self._question = Question(True, np.zeros((parameters.n_features, parameters.n_outputs)), 0)
        # Devices answer as many different questions as were agreed on; one that was dropped counts if it was answered.
        self._spent: set[bytes] = set()
        self._dropped: dict[int, bytes] = {}
        self._interrupted: Question | None = None  # put off until the last epoch is confirmed
        self._last: FinishedEpoch | None = None  # the last one, as long as it may be disputed
        self._update = b""
        self._update_digest = b""

    @staticmethod
    def _check_spare(parameters: Parameters, spare: int) -> None:
        if not 0 <= spare < parameters.alpha:
            raise InvalidInput(f"spare must be between 0 and alpha - 1 ({parameters.alpha - 1}), got {spare}")

    @property
    def model(self) -> Floats | None:
        """Theta after the last good epoch; None before the first."""
        return self.solver.model

    @property
    def liars(self) -> dict[str, int]:
        """Devices whose wrong answers were found out, with the epoch; they are not asked and not listened to again."""
        return {self._agreed.names[i]: epoch for i, epoch in self._book.liars.items()}

    @property
    def disputed(self) -> list[int]:
        """Epochs whose late answers contradict those used, and nobody could be named for it.

        They were asked again and everybody waited for, if that could tell; spare answers tell in time.
        """
        return sorted(self._book.disputed)

    @property
    def quorum(self) -> Quorum:
        """Which answers end an epoch, by position in the frozen set."""
        return self._book.quorum(self._agreed.answer_code)

    @property
    def ready_devices(self) -> list[str]:
        return [self._agreed.names[i] for i in sorted(self._ready - set(self._book.liars))]

    def state(self) -> State:
        """What to keep of this server and its solver, its keys apart. See ``Resumable.state``."""
        return {**super().state(), "solver": self.solver.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a server with the same parameters, devices and keys."""
        super().restore({name: value for name, value in state.items() if name != "solver"})
        self.solver.restore(state["solver"])

    # -- questions and answers

    def _ask(self, question: Question) -> Outgoing:
        """Broadcast e. The first epoch has e = 0 and asks for the constant, which is needed once only."""
        self.epoch += 1
        self._question = question
        update = question.update(self._ring, self.epoch).encode()
        self._update_digest = hashlib.sha256(update).digest()
        outgoing = self._broadcast(Kind.UPDATE, update, tuple(self.ready_devices))
        self._update = outgoing.data
        return outgoing

    def _on_answer(self, message: Message) -> list[Outgoing]:
        sender, plaintext = self._open_from_member(message)
        answer = Answer.decode(plaintext)
        if sender in self._book.liars:
            self.ignored["answer of an excluded device"] += 1
            return []
        if self.phase is not Phase.TRAINING or answer.epoch < self.epoch:
            self.ignored["late answer"] += 1
            if answer.epoch in self._dropped:
                self._spent.add(self._dropped[answer.epoch])
            return self._on_late_answer(sender, answer)
        if answer.epoch > self.epoch or answer.update_digest != self._update_digest:
            raise MessageRefused(f"an answer must be to the update of epoch {self.epoch}, got one to another update")
        if sender in self._book.answers:
            self.ignored["repeated answer"] += 1
            return []
        self._book.answers[sender] = self._ring.unpack(answer.packed, self._question.answer_length(self.parameters))
        return self._settle()

    def _settle(self, alive: Iterable[int] | None = None) -> list[Outgoing]:
        """Finish the epoch if enough answers are in, agree, and make a total within its bounds.

        Otherwise wait for more, as long as more can come from devices that are ``alive`` (None: from all of them). A
        total out of its bounds is a disagreement like any other: further answers show whose is wrong.
        """
        book, code = self._book, self._agreed.answer_code
        everybody = set(range(self._agreed.n_devices) if alive is None else alive)
        if book.shortfall(code, book.answers) or (book.confirming and book.missing(self._ready & everybody)):
            return []
        verdict = book.check(self._ring, code, self.run, self._random_bytes(SEED_BYTES))
        failure: CodedFLError | None = None
        if verdict.agreed:
            try:
                total = self._read(book.decode(self._ring, code, without=verdict.liars))
            except RangeExceeded as error:
                failure = error
            else:
                return self._finish_epoch(total, verdict.liars)
        if book.outstanding(code, verdict, everybody):
            return []
        # Answers that all agree on a total out of its bounds are no lie that could be told from the truth.
        found = None if verdict.agreed and not verdict.liars else self._told_by_bounds()
        if found is not None:
            return self._finish_epoch(*found)
        self.phase = Phase.FINISHED
        if self._interrupted is not None and self._last is not None:
            self._undo(self._last)  # it could not be confirmed: the model before it is the last good one
        raise failure or self._wrong_answers(verdict)

    def _told_by_bounds(self) -> tuple[EpochTotal, tuple[int, ...]] | None:
        """The last resort when nobody is left to answer: leave out as few answers as will do.

        The truth always is among the totals tried and within its bounds; garbage hardly ever is. None if several are.
        """
        code = self._agreed.answer_code
        for choices in self._book.ways_to_agree(code):
            within: list[tuple[EpochTotal, tuple[int, ...]]] = []
            for left_out in choices:
                with suppress(RangeExceeded):
                    within.append((self._read(self._book.decode(self._ring, code, without=left_out)), left_out))
            if within:
                return within[0] if len(within) == 1 else None
        return None

    def _wrong_answers(self, verdict: Verdict) -> WrongAnswers:
        suspects = [self._agreed.names[i] for i in verdict.undecided]
        return WrongAnswers(
            f"the answers to epoch {self.epoch} must agree on the code: they do not, and there are too few to tell"
            f" whose is wrong (those of {', '.join(suspects)})",
            suspects,
            self.model,
        )

    def _on_late_answer(self, sender: int, answer: Answer) -> list[Outgoing]:
        """Nobody waited for it, but it shows whether the last epoch's answers were right."""
        book, code, liars = self._book, self._agreed.answer_code, len(self._book.liars)
        if (answer.epoch, answer.update_digest) != book.last or self._last is None:
            return []
        planes = self._ring.unpack(answer.packed, self._last.question.answer_length(self.parameters))
        disputes = book.check_late(self._ring, code, self.run, sender, planes)
        if self.phase is not Phase.TRAINING:
            return []  # the devices have been told to forget everything: it stays on record
        if disputes and not book.confirming and book.can_confirm(code, self._ready):
            return [self._ask_again(self._last.question)]
        # With fewer to wait for, the current epoch may be complete.
        return self._settle() if len(book.liars) > liars else []

    def _ask_again(self, question: Question) -> Outgoing:
        """A late answer settles nothing by itself: have the disputed epoch's question answered by everybody."""
        self._interrupted = self._question
        self._dropped[self.epoch] = self._question.digest
        if self._book.answers:
            self._spent.add(self._question.digest)
        self._book.drop()
        self._book.confirming = True
        return self._ask(question)

    def _go_on_unconfirmed(self, interrupted: Question) -> Outgoing:
        """Too few are left to confirm the last epoch: the dispute stays on record, and stops nothing."""
        self._interrupted = None
        self._book.confirming = False
        self._book.drop()
        return self._ask(interrupted)

    def _finish_epoch(self, total: EpochTotal, liars: Sequence[int]) -> list[Outgoing]:
        book, code, last, interrupted = self._book, self._agreed.answer_code, self._last, self._interrupted
        disputed = book.last[0]
        if interrupted is not None:
            assert last is not None
            book.resolve(code, right=total.digest == last.total_digest)
        book.exclude(liars, self.epoch)
        book.close(self.epoch, self._update_digest, code)
        self._spent.add(self._question.digest)
        self._interrupted = None
        if interrupted is not None and last is not None:
            if total.digest == last.total_digest:
                return [self._ask(interrupted)]
            self.mended = [*self.mended, disputed]
            self._undo(last)
        may_be_disputed = not book.last_confirmed and book.can_confirm(code, range(code.n_devices))
        before = copy.deepcopy(self.solver.state())
        self._last = FinishedEpoch(self._question, total.digest, before if may_be_disputed else None)
        return self._go_on(total, before)

    def _undo(self, last: FinishedEpoch) -> None:
        assert last.solver_before is not None
        self.solver.restore(last.solver_before)

    def _read(self, decoded: Planes) -> EpochTotal:
        """Pads off, bounds checked."""
        assert self.pad_linear is not None
        constant = self.pad_constant if self._question.constant else None
        total = unpad(self._ring, decoded, constant, self.pad_linear, self._question.integers, self.pad_sign)
        return read_total(self._agreed, self._question, total, self._least_samples)

    @property
    def _least_samples(self) -> int:
        """Every device whose data are in the total has a row."""
        return self._agreed.n_devices

    def _go_on(self, total: EpochTotal, before: State) -> list[Outgoing]:
        """Tell the solver and ask what it wants next; whatever fails in it ends the run, or it would fail for ever."""
        agreed = self._agreed
        try:
            tell_solver(self.solver, agreed, self._question, total)
        except (CodedFLError, ValueError, ArithmeticError) as error:
            self.solver.restore(before)
            self._fail(error)
        if self._stop_when is not None and self.model is not None and self._stop_when(self.model):
            return self._finish()
        try:
            direction = self.solver.request()
            if direction is None or len(self._spent) >= self.parameters.epochs:
                return self._finish()
            question = Question(False, *agreed.fixed_point.round_update(direction))
        except (CodedFLError, ValueError, ArithmeticError) as error:
            self._fail(error)
        return [self._ask(question)]

    def _finish(self) -> list[Outgoing]:
        self.phase = Phase.FINISHED
        return [self._broadcast(Kind.FINISH, b"", self._agreed.names)]

    def _fail(self, error: Exception) -> NoReturn:
        self.phase = Phase.FINISHED
        if isinstance(error, RangeExceeded):  # an update that cannot be sent: it says what is wrong
            raise error
        raise SolverFailed(
            f"the solver must make a model of the totals of epoch {self.epoch}, it cannot: {error};"
            " change the solver's settings (a larger regularisation, a smaller step) and start anew",
            self.model,
        ) from error
