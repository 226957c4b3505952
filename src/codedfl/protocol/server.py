"""The server as a state machine: takes a message, returns messages, does no I/O and reads no clock.

It invites, freezes the participant set, relays what devices seal for each other, and trains (paper IV-C): broadcast
e, go on at the first D - alpha + 1 answers (and ``spare`` more to check them with), decode, unpad, step. Decoding is
linear and A B = 1, so the pads collapse to their sum: the server decodes first and unpads with one product.

After phase 1 it holds ``pad_linear`` (d x d) and ``pad_constant`` on the ring; what they are, the scheme decides
(``codedfl.schemes``). What to do with an exact gradient is the solver's business (``codedfl.solve``).
"""

from __future__ import annotations

import copy
import hashlib
import secrets as system_random
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from codedfl.code.answer_check import Verdict
from codedfl.code.quorum import Quorum
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import Identity
from codedfl.errors import (
    CodedFLError,
    InvalidInput,
    MessageRefused,
    NotEnoughDevices,
    RangeExceeded,
    SolverFailed,
    WrongAnswers,
)
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
from codedfl.protocol.messages import SERVER, Answer, Complaint, Kind, Message
from codedfl.protocol.sizes import most_bytes
from codedfl.solve.solver import GramSolver, Solver
from codedfl.state import MAP, PLAIN, SET, Kept, State, optional
from codedfl.typing import Floats, Planes, RandomBytes

__all__ = ["Outgoing", "Phase", "Server"]


class Server(Convener):
    """The server's side of a coded scheme.

    Parameters
    ----------
    parameters: the public parameters of the run.
    devices: the names expected, in the code's order. The set freezes when all have joined, or at ``freeze``.
    solver: asks for products X'X e and makes the model of them.
    initial_model: Theta^(1), d x c; None is zero. It is rounded to the ring's grid before use.
    roster: pinned public keys by device name; a device with another key, or not on it, is refused.
    stop_when: called with the model after each epoch; True ends the training (for example: target reached).
    spare: how many answers beyond D - alpha + 1 to wait for, in each group. 0 waits for none; 1 detects a wrong
        answer; 2t find out up to t devices that lie, which are then excluded (``liars``).
    """

    scheme: ClassVar[str]
    adds_noise: ClassVar[bool] = False  # whether its devices can hide rows by noise
    _needed: ClassVar[str] = "D - alpha + 1"  # in words
    # +1: the decoded answers are data plus pads; -1: they are pads, and what the server holds is data plus pads.
    pad_sign: ClassVar[int]
    _kept: ClassVar[Mapping[str, Kept]] = {
        **Convener._kept,
        "epoch": PLAIN,
        "pad_linear": PLAIN,
        "pad_constant": PLAIN,
        "_shared": SET,
        "_ready": SET,
        "complaints": MAP,
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
        initial_model: Floats | None = None,
        identity: Identity | None = None,
        roster: Mapping[str, bytes] | None = None,
        stop_when: Callable[[Floats], bool] | None = None,
        spare: int = 0,
        random_bytes: RandomBytes = system_random.token_bytes,
    ) -> None:
        if parameters.scheme != self.scheme:
            raise InvalidInput(f"parameters.scheme must be {self.scheme!r}, got {parameters.scheme!r}")
        if parameters.noise is not None and not self.adds_noise:
            raise InvalidInput(
                f"noise must be left out with {self.scheme}, whose devices add none, got {parameters.noise}:"
                " take role-sums or role-keys"
            )
        if parameters.reveals_gram != isinstance(solver, GramSolver):
            raise InvalidInput(f"the solver must want X'X itself exactly when the scheme reveals it, got {solver!r}")
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
        self._shared: set[int] = set()
        self._ready: set[int] = set()
        # Whose shares are unusable, by whose word and why. Who gets ready after all takes it back.
        self.complaints: dict[str, dict[str, str]] = {}
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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.phase.value}, epoch {self.epoch}, {len(self._ready)} devices ready>"

    # -- the interface of the state machine

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
    def owner_keys(self) -> dict[str, bytes]:
        """Whose data are in the total, by name with their keys; empty before that is fixed."""
        agreed = self.agreement
        return {} if agreed is None else {agreed.names[i]: agreed.members[i].identity for i in agreed.owners}

    @property
    def quorum(self) -> Quorum:
        """Which answers end an epoch, by position in the frozen set."""
        return self._book.quorum(self._agreed.answer_code)

    @property
    def ready_devices(self) -> list[str]:
        return [self._agreed.names[i] for i in sorted(self._ready - set(self._book.liars))]

    @property
    def answered(self) -> list[str]:
        """Whose answer to the current epoch is in; before training, whose shares are."""
        done = self._book.answers if self.phase is Phase.TRAINING else self._shared
        return [self._agreed.names[i] for i in sorted(done)]

    @property
    def unshared(self) -> list[str]:
        """Whose shares are not in yet."""
        return [name for j, name in enumerate(self._agreed.names) if j not in self._shared]

    def receive(self, data: bytes) -> list[Outgoing]:
        """Handle one wire message.

        Late, stale, duplicate and replayed messages are ignored and counted in ``ignored``. Raises
        ``MessageRefused`` and changes nothing when the message is damaged, forged or out of protocol,
        ``RangeExceeded`` when a decoded total breaks its proven bound or an update cannot be sent, ``SolverFailed``
        when the solver cannot go on, and ``WrongAnswers`` when answers contradict each other beyond repair. After
        these three the run is over: ``repeat`` has what tells the devices, and ``model`` is the last good one.
        """
        try:
            return self._handle(Message.decode(data, partial(most_bytes, self.parameters, len(self.expected))))
        finally:
            self._forget_when_over()

    def _forget_when_over(self) -> None:
        """What was sealed to this server's run key stays sealed for good."""
        if self.phase is Phase.FINISHED:
            self._key = None

    def _handle(self, message: Message) -> list[Outgoing]:
        handler = self._handlers().get(message.kind)
        if handler is None:
            raise MessageRefused(f"the server must not be sent a {message.kind} message, got one")
        if message.receiver != SERVER:
            raise MessageRefused(f"the receiver must be the server, got {message.receiver!r}")
        if message.run != self.run:
            raise MessageRefused(f"the run must be {self.run.hex()}, got {message.run.hex()[:32]}")
        if message.agreement != (self._agreement_hash if message.kind not in (Kind.JOIN, Kind.REFUSAL) else b""):
            raise MessageRefused("the message must belong to the frozen participant set: it names another")
        if self.phase is Phase.FINISHED:  # the key to open it with is forgotten
            self.ignored["message after the end"] += 1
            return []
        return handler(message)

    def _handlers(self) -> dict[Kind, Callable[[Message], list[Outgoing]]]:
        return {
            Kind.JOIN: self._on_join,
            Kind.REFUSAL: self._on_refusal,
            Kind.SHARES: self._on_shares,
            Kind.READY: self._on_ready,
            Kind.COMPLAINT: self._on_complaint,
            Kind.ANSWER: self._on_answer,
        }

    def repeat(self) -> list[Outgoing]:
        """The update or the end once more, for whom it concerns; phase 1's messages drivers keep until delivery."""
        if self.phase is Phase.TRAINING:
            answered = set(self.answered)
            asked = (name for name in self.ready_devices if name not in answered)
            return [Outgoing(tuple(asked), self._update)]
        return [self._broadcast(Kind.FINISH, b"", self._agreed.names)] if self.phase is Phase.FINISHED else []

    def state(self) -> State:
        """What to keep of this server and its solver, its keys apart. See ``Resumable.state``."""
        return {**super().state(), "solver": self.solver.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a server with the same parameters, devices and keys."""
        super().restore({name: value for name, value in state.items() if name != "solver"})
        self.solver.restore(state["solver"])

    @property
    def _owner(self) -> list[Any]:
        return [self.scheme, list(self.expected), self.parameters.encode(), self.identity.public]

    def check_enough(self, gone: Sequence[str] = ()) -> list[Outgoing]:
        """For drivers that give up on devices: raises ``NotEnoughDevices`` if the run cannot go on without ``gone``.

        An epoch may have waited for them to tell whose answer is wrong; it ends without them, one way or the other,
        and what is to be sent then is returned.
        """
        agreed = self._agreed
        lost = set(gone)
        if self.phase is Phase.SHARING:
            silent = [name for name in self.expected if name in lost and name in self.unshared]
            if silent:
                raise NotEnoughDevices(
                    f"all {agreed.n_devices} devices must share before training: {len(silent)} missing"
                    f" ({', '.join(silent)})",
                    silent,
                    self.model,
                )
        book, code = self._book, agreed.answer_code
        lost |= {agreed.names[i] for i in self._in_vain()}
        alive = [j for j in range(agreed.n_devices) if agreed.names[j] not in lost or j in book.answers]
        trusted = [j for j in alive if j not in book.liars]
        short = book.shortfall(code, trusted)
        if short and self._interrupted is not None:
            return [self._go_on_unconfirmed(self._interrupted)]
        if short and self.phase is not Phase.FINISHED:
            there = {agreed.names[j] for j in trusted}
            absent = [name for name in self.expected if name in set(agreed.names) - there]
            extra = f" and {book.spare} spare" if book.spare else ""
            raise NotEnoughDevices(
                f"epoch {self.epoch} needs {code.answers_needed} answers ({self._needed}){extra} but only"
                f" {len(trusted)} devices are alive: {short} more needed, {self._missing(absent)}",
                [*self.complaints, *(name for name in absent if not self._complaints_of(name))],
                self.model,
            )
        return self._settle(trusted) if self.phase is Phase.TRAINING else []

    def close_uploads(self) -> list[Outgoing]:
        """The driver's deadline for phase 1: a scheme that can leaves out who has not shared; the others wait on."""
        return []

    def _in_vain(self) -> set[int]:
        """Devices that wait in vain for what makes them ready."""
        accusers = {accuser for accusers in self.complaints.values() for accuser in accusers}
        return {self._agreed.position(name) for name in accusers}

    def _missing(self, absent: Sequence[str]) -> str:
        """Who is missing; of those who cannot take part for want of a usable share, the fault is the sender's."""
        silent = [name for name in absent if not self._complaints_of(name)]
        found = [f"missing are {', '.join(silent)}"] if silent else []
        for accused, accusers in self.complaints.items():
            found.append(f"unusable are the shares of {accused} (say {', '.join(accusers)})")
        return "; ".join(found)

    def _complaints_of(self, name: str) -> list[str]:
        return [accused for accused, accusers in self.complaints.items() if name in accusers]

    # -- phase 1

    @abstractmethod
    def _can_start(self) -> bool:
        """Whether the server itself holds what training needs."""

    @abstractmethod
    def _on_shares(self, message: Message) -> list[Outgoing]:
        """What a device gives the relay and the server in phase 1."""

    def _on_ready(self, message: Message) -> list[Outgoing]:
        sender = self._open_from_member(message)[0]
        if sender in self._ready:
            self.ignored["repeated ready"] += 1
            return []
        self._ready.add(sender)
        for accused, accusers in list(self.complaints.items()):
            if accusers.pop(message.sender, "") and not accusers:
                del self.complaints[accused]
        if self.phase is Phase.TRAINING:  # a late comer joins the current epoch
            return [Outgoing((message.sender,), self._update)]
        return self._start_if_possible()

    def _on_complaint(self, message: Message) -> list[Outgoing]:
        sender, plaintext = self._open_from_member(message)
        complaint, agreed = Complaint.decode(plaintext), self._agreed
        accused = agreed.position(complaint.accused)
        if accused not in self._shared or not self._relayed(accused, sender):
            raise MessageRefused(
                f"a complaint must be about a share that was relayed to {message.sender!r}, got one about"
                f" {complaint.accused!r}"
            )
        if sender in self._ready:
            self.ignored["complaint of a device that is ready"] += 1
            return []
        self.complaints.setdefault(complaint.accused, {})[message.sender] = str(complaint.reason)
        return []

    @abstractmethod
    def _relayed(self, sender: int, receiver: int) -> bool:
        """Whether the shares of one are for the other."""

    def _start_if_possible(self) -> list[Outgoing]:
        enough = not self._book.shortfall(self._agreed.answer_code, self._ready)
        if self.phase is not Phase.SHARING or not enough or not self._can_start():
            return []
        self.phase = Phase.TRAINING
        return [self._ask(self._question)]

    # -- phase 2

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
