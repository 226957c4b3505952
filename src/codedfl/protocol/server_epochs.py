"""The epochs of a run: the server broadcasts e, takes answers, decodes, takes the offset off and steps (paper IV-C).

It goes on at the first D - alpha + 1 answers (and ``spare`` more to check them with). Decoding is linear and A B = 1,
so the pads collapse to their sum: the server decodes first and takes them off with one product. What to do with an
exact total is the solver's business (``codedfl.solve``).

Devices found lying are excluded for good. Answers that disagree without telling who lies wait for further ones. Where
two spare answers confirmed an epoch in time, a late one that contradicts is wrong. Otherwise it only disputes the
epoch, since who comes late may lie as well: the same question is asked again, and everybody's answer waited for.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import ClassVar

from codedfl.code.answer_check import Verdict, judge
from codedfl.code.quorum import Quorum
from codedfl.code.roles import AnswerCode
from codedfl.crypto.pads import SEED_BYTES
from codedfl.errors import CodedFLError, MessageRefused, NotEnoughDevices, RangeExceeded, SolverFailed, WrongAnswers
from codedfl.protocol.epoch import CONFIRMING, EPOCH, Epoch, can_confirm
from codedfl.protocol.epoch_total import EpochTotal, Question, read_total, tell_solver, without_offset
from codedfl.protocol.messages import Answer, Kind, Message
from codedfl.protocol.server_events import (
    Answered,
    AnsweredLate,
    Disputed,
    EpochEnded,
    EpochStarted,
    LiarFound,
    Mended,
    RunFailed,
)
from codedfl.protocol.server_session import Phase, ServerSession
from codedfl.protocol.server_sharing import ServerSharing
from codedfl.solve.solver import Solver
from codedfl.state import MAP, PLAIN, SET, CheckpointFields, State, optional
from codedfl.typing import Floats, Planes


class ServerEpochs:
    """The server from its first question to its model.

    sharing: who can answer, and what the answers are off by.
    stop_when: called with the model after each epoch; True ends the training (for example: target reached).
    spare: see ``RunPlan``. Fewer are waited for when devices were excluded and no more are left.
    """

    checkpoint_fields: ClassVar[CheckpointFields] = {
        "current": EPOCH,
        "last": optional(EPOCH),
        "liars": MAP,
        "disputed": SET,
        "mended": PLAIN,
        "_refuted": SET,
        "_spent": SET,
        "_dropped": MAP,
    }

    def __init__(
        self,
        session: ServerSession,
        sharing: ServerSharing,
        solver: Solver,
        stop_when: Callable[[Floats], bool] | None,
        spare: int,
    ) -> None:
        self._session = session
        self._sharing = sharing
        self.solver = solver
        self._stop_when = stop_when
        self.spare = spare
        self.current = Epoch.before_the_first(session.parameters.n_features, session.parameters.n_outputs)
        self.last: Epoch | None = None  # the last one that ended
        self.liars: dict[int, int] = {}  # position -> the epoch in which it was found out
        self.disputed: set[int] = set()  # epochs whose late answers contradict those used, and nobody could be named
        self.mended: list[int] = []  # epochs that were decoded from a wrong answer, found out and asked again
        self._refuted: set[int] = set()  # whose late answers disputed an epoch that was right: they count no more
        # Devices answer as many different questions as were agreed on; one that was dropped counts if it was answered.
        self._spent: set[bytes] = set()
        self._dropped: dict[int, bytes] = {}

    @property
    def _code(self) -> AnswerCode:
        return self._session.agreed.answer_code

    @property
    def quorum(self) -> Quorum:
        """Which answers end the epoch, by position: spare ones as far as each group's trusted members go."""
        spare = max(self.spare, CONFIRMING) if self.current.confirms else self.spare
        return self._code.quorum.with_spare(spare, self.liars)

    def shortfall(self, positions: Iterable[int]) -> int:
        """How many more devices must answer than these."""
        return self.quorum.missing(self._trusted(positions))

    def _trusted(self, positions: Iterable[int]) -> set[int]:
        return set(positions) - set(self.liars)

    @property
    def asked(self) -> list[str]:
        """Who is asked: everybody that is ready and was not found lying."""
        return [self._session.agreed.names[i] for i in sorted(self._trusted(self._sharing.ready))]

    # -- asking

    def begin(self) -> None:
        self._session.begin(Phase.TRAINING)
        self._ask(self.current.question)

    def _ask(self, question: Question, interrupted: Question | None = None) -> None:
        """Broadcast e. The first epoch has e = 0 and asks for the constant, which is needed once only."""
        session = self._session
        session.epoch += 1
        update = question.update(session.agreed.ring, session.epoch).encode()
        self.current = Epoch(session.epoch, question, hashlib.sha256(update).digest(), interrupted)
        session.outbox.tell(EpochStarted(session.epoch))
        session.broadcast(Kind.UPDATE, update, tuple(self.asked))

    def send_update(self, receivers: tuple[str, ...]) -> None:
        """The current update once more, or for late comers."""
        update = self.current.question.update(self._session.agreed.ring, self._session.epoch)
        self._session.broadcast(Kind.UPDATE, update.encode(), receivers)

    # -- taking answers

    def on_answer(self, message: Message) -> None:
        session, epoch = self._session, self.current
        sender, plaintext = session.open_from_member(message)
        answer = Answer.decode(plaintext)
        if sender in self.liars:
            session.ignore(message, "answer of an excluded device")
            return
        if session.phase is not Phase.TRAINING or answer.epoch < epoch.number:
            session.outbox.tell(AnsweredLate(message.sender, min(answer.epoch, epoch.number), message.size))
            if answer.epoch in self._dropped:
                self._spent.add(self._dropped[answer.epoch])
            self._on_late_answer(sender, answer)
            return
        if answer.epoch > epoch.number or answer.update_digest != epoch.update_digest:
            raise MessageRefused(f"an answer must be to the update of epoch {epoch.number}, got one to another update")
        if sender in epoch.answers:
            session.ignore(message, "repeated answer")
            return
        epoch.answers[sender] = session.agreed.ring.unpack(answer.packed, epoch.answer_length(session.agreed, sender))
        session.outbox.tell(Answered(message.sender, epoch.number, message.size))
        self._settle()

    def _settle(self, alive: Iterable[int] | None = None) -> None:
        """Finish the epoch if enough answers are in, agree, and make a total within its bounds.

        Otherwise wait for more, as long as more can come from devices that are ``alive`` (None: from all of them). A
        total out of its bounds is a disagreement like any other: further answers show whose is wrong.

        Invariant: nothing but a total that all answers kept agree on, and that lies within its proven bound, ever
        reaches the solver; and the epoch stays open as long as one answer that could still come may decide.
        """
        session, epoch, code = self._session, self.current, self._code
        everybody = self._trusted(range(session.agreed.n_devices) if alive is None else alive)
        if self.shortfall(epoch.answers):
            return
        if epoch.confirms and self._sharing.ready & everybody - set(epoch.answers):
            return  # a confirmation waits for everybody that can answer
        verdict = epoch.check(session.agreed, session.random_bytes(SEED_BYTES))
        failure: CodedFLError | None = None
        if verdict.agreed:
            try:
                total = self._read(epoch.decode(session.agreed, without=verdict.liars))
            except RangeExceeded as error:
                failure = error
            else:
                self._finish_epoch(total, verdict.liars)
                return
        if epoch.outstanding(code, verdict, everybody):
            return
        # Answers that all agree on a total out of its bounds are no lie that could be told from the truth.
        found = None if verdict.agreed and not verdict.liars else self._told_by_bounds()
        if found is not None:
            self._finish_epoch(*found)
            return
        if epoch.confirms and self.last is not None:
            self._undo(self.last)  # it could not be confirmed: the model before it is the last good one
        self._fail(failure or self._wrong_answers(verdict))

    def _told_by_bounds(self) -> tuple[EpochTotal, tuple[int, ...]] | None:
        """The last resort when nobody is left to answer: leave out as few answers as will do.

        The truth always is among the totals tried and within its bounds; garbage hardly ever is. None if several are.
        """
        epoch, agreed = self.current, self._session.agreed
        for choices in epoch.ways_to_agree(agreed.answer_code):
            within: list[tuple[EpochTotal, tuple[int, ...]]] = []
            for left_out in choices:
                with suppress(RangeExceeded):
                    within.append((self._read(epoch.decode(agreed, without=left_out)), left_out))
            if within:
                return within[0] if len(within) == 1 else None
        return None

    def _read(self, decoded: Planes) -> EpochTotal:
        """The offset off, bounds checked. Every owner in the total has a row at least."""
        session, sharing, question = self._session, self._sharing, self.current.question
        assert sharing.offset_matrix is not None
        constant = sharing.offset_constant if question.constant else None
        total = without_offset(
            session.agreed.ring, decoded, constant, sharing.offset_matrix, question.integers, sharing.sign
        )
        return read_total(session.agreed, question, total, len(sharing.owner_names))

    def _wrong_answers(self, verdict: Verdict) -> WrongAnswers:
        suspects = [self._session.agreed.names[i] for i in verdict.undecided]
        return WrongAnswers(
            f"the answers to epoch {self.current.number} must agree on the code: they do not, and there are too few to"
            f" tell whose is wrong (those of {', '.join(suspects)})",
            suspects,
            self.solver.model,
        )

    def _exclude(self, positions: Iterable[int], epoch: int) -> None:
        for i in positions:
            if i not in self.liars:
                self.liars[i] = epoch
                self._session.outbox.tell(LiarFound(self._session.agreed.names[i], epoch))
        self.current.forget(self.liars)

    # -- late answers, and the epoch they dispute

    def _on_late_answer(self, sender: int, answer: Answer) -> None:
        """Nobody waited for it, but it shows whether the last epoch's answers were right.

        Invariant: a late answer alone never excludes anybody but its sender, and that only where spare answers had
        confirmed the epoch in time. Everything else is decided by asking again, when all have answered.
        """
        session, last, code = self._session, self.last, self._code
        if last is None or (answer.epoch, answer.update_digest) != (last.number, last.update_digest):
            return
        planes = session.agreed.ring.unpack(answer.packed, last.answer_length(session.agreed, sender))
        if sender in last.projected or sender in self._refuted:
            return
        last.take_late(session.agreed, sender, planes)
        if not last.contradicts(code, sender):
            return
        if last.confirmed:
            last.projected.pop(sender)
            self._exclude([sender], last.number)
            self._settle()  # with one fewer to wait for, the current epoch may be complete
            return
        if last.number not in self.disputed:
            self.disputed.add(last.number)
            session.outbox.tell(Disputed(last.number))
        if not self.current.confirms and can_confirm(code, self._trusted(self._sharing.ready)):
            self._ask_again(last.question)

    def _ask_again(self, question: Question) -> None:
        """A late answer settles nothing by itself: have the disputed epoch's question answered by everybody."""
        dropped = self.current
        self._dropped[dropped.number] = dropped.question.digest
        if dropped.answers:
            self._spent.add(dropped.question.digest)
        self._ask(question, interrupted=dropped.question)

    def _resolve(self, disputed: Epoch, right: bool) -> None:
        """The disputed epoch's total is known to be right, or not: exclude those who are guilty beyond doubt.

        Invariant: the answers that made a right total are beyond suspicion, however many late ones agree against them;
        of a wrong one somebody who was used must be among the liars, or the verdict is not about this total.
        """
        verdict = judge(self._code, disputed.projected)
        guilty = bool(disputed.used.intersection(verdict.liars)) != right
        if right:
            late = set(disputed.projected) - disputed.used
            self._refuted |= {i for i in late if disputed.contradicts(self._code, i)}
        if verdict.liars and verdict.agreed and guilty:
            self.disputed.discard(disputed.number)
            self._exclude(verdict.liars, disputed.number)

    def _finish_epoch(self, total: EpochTotal, liars: Collection[int]) -> None:
        """The total is right: close the epoch, and go on with it or with what was put off.

        Invariant: ``last`` is the newest epoch whose total the solver has, with the solver's state before it as long as
        it may be disputed; so undoing it never takes back more than one epoch.
        """
        epoch, last, code = self.current, self.last, self._code
        if epoch.confirms:
            assert last is not None
            self._resolve(last, right=total.digest == last.total_digest)
        self._exclude(liars, epoch.number)
        self._spent.add(epoch.question.digest)
        if epoch.interrupted is not None and last is not None:
            if total.digest == last.total_digest:  # confirmed: what the solver has of it stays as it is
                self.last = epoch.ended(code, total.digest, last.solver_before)
                self._ask(epoch.interrupted)
                return
            self.mended = [*self.mended, last.number]
            self._session.outbox.tell(Mended(last.number))
            self._undo(last)
        before = copy.deepcopy(self.solver.state())
        ended = epoch.ended(code, total.digest, before)
        if ended.confirmed or not can_confirm(code, self._trusted(range(code.n_devices))):
            ended.solver_before = None  # nothing can ask it again
        self.current.answers = {}
        self.last = ended
        self._go_on(epoch, total, before)

    def _undo(self, last: Epoch) -> None:
        assert last.solver_before is not None
        self.solver.restore(last.solver_before)

    def _go_on(self, epoch: Epoch, total: EpochTotal, before: State) -> None:
        """Tell the solver and ask what it wants next; whatever fails in it ends the run, or it would fail for ever."""
        agreed, solver = self._session.agreed, self.solver
        try:
            tell_solver(solver, agreed, epoch.question, total)
        except (CodedFLError, ValueError, ArithmeticError) as error:
            solver.restore(before)
            self._fail(self._solver_failed(error))
            return
        self._session.outbox.tell(EpochEnded(epoch.number))
        if self._stop_when is not None and solver.model is not None and self._stop_when(solver.model):
            self.finish()
            return
        try:
            direction = solver.request()
            if direction is None or len(self._spent) >= self._session.parameters.epochs:
                self.finish()
                return
            question = Question(False, *agreed.fixed_point.round_update(direction))
        except (CodedFLError, ValueError, ArithmeticError) as error:
            self._fail(self._solver_failed(error))
            return
        self._ask(question)

    # -- the end, and going on without some

    def finish(self) -> None:
        """The run is over: the devices forget its secrets."""
        self._session.begin(Phase.FINISHED)
        self.send_finish()

    def send_finish(self) -> None:
        self._session.broadcast(Kind.FINISH, b"", self._session.agreed.names)

    def _fail(self, error: CodedFLError) -> None:
        self._session.outbox.tell(RunFailed(error))
        self.finish()

    def _solver_failed(self, error: Exception) -> CodedFLError:
        if isinstance(error, RangeExceeded):  # an update that cannot be sent: it says what is wrong
            return error
        failed = SolverFailed(
            f"the solver must make a model of the totals of epoch {self.current.number}, it cannot: {error};"
            " change the solver's settings (a larger regularisation, a smaller step) and start anew",
            self.solver.model,
        )
        failed.__cause__ = error
        return failed

    def go_on_without(self, lost: Collection[int]) -> None:
        """Raises ``NotEnoughDevices`` if too few are left without these; an epoch that waited for them is settled."""
        session, epoch = self._session, self.current
        if session.phase is Phase.FINISHED:
            return
        names = session.agreed.names
        alive = [j for j in range(len(names)) if j not in lost or j in epoch.answers]
        trusted = self._trusted(alive)
        short = self.shortfall(trusted)
        if short and epoch.interrupted is not None:
            # Too few are left to confirm the last epoch: the dispute stays on record, and stops nothing.
            self._ask(epoch.interrupted)
        elif short:
            raise self._not_enough(short, [name for j, name in enumerate(names) if j in trusted])
        elif session.phase is Phase.TRAINING:
            self._settle(trusted)

    def _not_enough(self, short: int, there: Collection[str]) -> NotEnoughDevices:
        complaints = self._sharing.complaints
        members = set(self._session.agreed.names)
        absent = [name for name in self._session.expected if name in members - set(there)]
        silent = [name for name in absent if not any(name in accusers for accusers in complaints.values())]
        found = [f"without {', '.join(silent)}"] if silent else []
        # Of those who cannot take part for want of a usable share, the fault is the sender's.
        for accused, accusers in complaints.items():
            found.append(f"unusable are the shares of {accused} (say {', '.join(accusers)})")
        extra = f" and {self.spare} spare" if self.spare else ""
        return NotEnoughDevices(
            f"epoch {self.current.number} needs {self._code.answers_needed} answers ({self._sharing.needed_words})"
            f"{extra} but only {len(there)} devices are alive: {short} more needed, {'; '.join(found)}",
            [*complaints, *silent],
            self.solver.model,
        )
