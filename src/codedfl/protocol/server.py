"""The server as a state machine: takes a message, returns messages, does no I/O and reads no clock.

It invites and freezes the participant set (``convener``), relays what devices seal for each other, here, and trains
(``trainer``). After phase 1 it holds ``pad_linear`` (d x d) and ``pad_constant`` on the ring; what they are, the scheme
decides (``codedfl.protocol.schemes``).
"""

from __future__ import annotations

import secrets as system_random
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.protocol.agreement import Parameters
from codedfl.protocol.convener import Outgoing, Phase
from codedfl.protocol.messages import SERVER, Complaint, Kind, Message
from codedfl.protocol.sizes import most_bytes
from codedfl.protocol.trainer import Trainer
from codedfl.solve.solver import GramSolver, Solver
from codedfl.state import MAP, SET, Kept
from codedfl.typing import Floats, RandomBytes


class Server(Trainer):
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
    _kept: ClassVar[Mapping[str, Kept]] = {
        **Trainer._kept,
        "_shared": SET,
        "complaints": MAP,
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
        super().__init__(
            parameters,
            devices,
            solver,
            initial_model=initial_model,
            identity=identity,
            roster=roster,
            stop_when=stop_when,
            spare=spare,
            random_bytes=random_bytes,
        )
        self._shared: set[int] = set()
        # Whose shares are unusable, by whose word and why. Who gets ready after all takes it back.
        self.complaints: dict[str, dict[str, str]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.phase.value}, epoch {self.epoch}, {len(self._ready)} devices ready>"

    # -- the interface of the state machine

    @property
    def owner_keys(self) -> dict[str, bytes]:
        """Whose data are in the total, by name with their keys; empty before that is fixed."""
        agreed = self.agreement
        return {} if agreed is None else {agreed.names[i]: agreed.members[i].identity for i in agreed.owners}

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
