"""The server as a state machine: takes a message, returns messages and events, does no I/O and reads no clock.

It owns one object per phase and routes messages to them: the participants come together (``server_joining``), share
their data in the way of the run's scheme (``server_sharing``, ``schemes``), and answer epochs (``server_epochs``).
"""

from __future__ import annotations

import secrets as system_random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from codedfl.code.quorum import Quorum
from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.agreement import Agreement, Invitation
from codedfl.protocol.events import Event, Turn
from codedfl.protocol.messages import SERVER, Kind, Message
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.server_epochs import ServerEpochs
from codedfl.protocol.server_events import AnsweredLate, DeviceState, LiarFound, Members, NamedPart, PhaseBegun
from codedfl.protocol.server_joining import ServerJoining
from codedfl.protocol.server_session import Phase, ServerSession
from codedfl.protocol.server_sharing import ServerSharing
from codedfl.protocol.sizes import most_bytes
from codedfl.solve.solver import GramSolver, Solver
from codedfl.state import Shelf, State, in_memory, restore_parts, saved
from codedfl.typing import Floats, RandomBytes


class Server:
    """The server of one run.

    Parameters
    ----------
    plan: what is fixed before the run begins.
    solver: asks for products X'X e and makes the model of them.
    initial_model: Theta^(1), d x c; None is zero. It is rounded to the ring's grid before use.
    identity: long-term key; drawn anew when None.
    roster: pinned public keys by device name; a device with another key, or not on it, is refused. With terms in the
        plan, their roster is the roster.
    stop_when: called with the model after each epoch; True ends the training (for example: target reached).
    random_bytes: source of all secrets; replaced only in tests and simulations that must be repeatable.
    shelf: where uploads lie that wait for the others.

    Attributes
    ----------
    joining, sharing, epochs: the three phases, with what each has come to.

    Examples
    --------
    >>> import numpy as np
    >>> from codedfl import BlockKrylov, Dataset, RoleKeys, make_parties, make_problem, run_in_process
    >>> X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    >>> rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 24.0))
    >>> problem = make_problem(rows, n_devices=4, features="linear")
    >>> server, devices = make_parties(RoleKeys(colluders=1), problem, BlockKrylov(epochs=5))
    >>> model = run_in_process(server, devices)
    >>> server.phase.value, np.array_equal(model, server.model)
    ('finished', True)
    """

    def __init__(
        self,
        plan: RunPlan,
        solver: Solver,
        *,
        initial_model: Floats | None = None,
        identity: Identity | None = None,
        roster: Mapping[str, bytes] | None = None,
        stop_when: Callable[[Floats], bool] | None = None,
        random_bytes: RandomBytes = system_random.token_bytes,
        shelf: Shelf = in_memory,
    ) -> None:
        parameters, scheme = plan.parameters, plan.scheme
        if parameters.scheme != scheme.name:
            raise InvalidInput(f"parameters.scheme must be {scheme.name!r}, got {parameters.scheme!r}")
        if parameters.noise is not None and not scheme.adds_noise:
            raise InvalidInput(
                f"noise must be left out with {scheme.name}, whose devices add none, got {parameters.noise}:"
                " take role-sums or role-keys"
            )
        if parameters.reveals_gram != isinstance(solver, GramSolver):
            raise InvalidInput(f"the solver must want X'X itself exactly when the scheme reveals it, got {solver!r}")
        agreed_to = replace(parameters, epochs=min(parameters.epochs, solver.epochs))  # no more than are needed
        session = self._session = ServerSession(agreed_to, plan.names, identity, random_bytes)
        session.shelf = shelf
        self.parameters, self.expected, self.identity = session.parameters, session.expected, session.identity
        self._initial_model = initial_model
        self.joining = ServerJoining(session, roster if plan.terms is None else plan.terms.roster)
        self.sharing: ServerSharing = scheme.server(session, plan)
        self.epochs = ServerEpochs(session, self.sharing, solver, stop_when, plan.spare)
        self._owner = [scheme.name, list(plan.names), agreed_to.encode(), session.identity.public]
        self._handlers: dict[Kind, Callable[[Message], None]] = {
            **self.joining.handlers,
            **self.sharing.handlers,
            Kind.READY: self._on_ready,
            Kind.ANSWER: self.epochs.on_answer,
        }

    def __repr__(self) -> str:
        return f"<Server {self.phase.value}, epoch {self.epoch}, {len(self.sharing.ready)} devices ready>"

    # -- where the run is

    @property
    def run(self) -> bytes:
        return self._session.run

    @property
    def phase(self) -> Phase:
        return self._session.phase

    @property
    def epoch(self) -> int:
        """The one that is being asked for, or was asked for last; 0 before the first."""
        return self._session.epoch

    @property
    def invitation(self) -> Invitation:
        return self._session.invitation

    @property
    def agreement(self) -> Agreement | None:
        return self._session.agreement

    @property
    def model(self) -> Floats | None:
        """Theta after the last good epoch; None before the first."""
        return self.epochs.solver.model

    @property
    def joined(self) -> list[str]:
        return [member.name for member in self.joining.members]

    @property
    def unshared(self) -> list[str]:
        """Whose shares are not in yet."""
        return self.sharing.unshared

    @property
    def owner_names(self) -> tuple[str, ...]:
        """Whose data are in the total; empty before that is fixed."""
        return self.sharing.owner_names

    @property
    def ready_devices(self) -> list[str]:
        """Who can answer, and was not found lying."""
        return self.epochs.asked

    @property
    def answered(self) -> list[str]:
        """Whose answer to the current epoch is in; before training, whose shares are."""
        done = self.epochs.current.answers if self.phase is Phase.TRAINING else self.sharing.shared
        return [self._session.agreed.names[i] for i in sorted(done)]

    @property
    def liars(self) -> dict[str, int]:
        """Devices whose wrong answers were found out, with the epoch; they are not asked and not listened to again."""
        return {self._session.agreed.names[i]: epoch for i, epoch in self.epochs.liars.items()}

    @property
    def quorum(self) -> Quorum:
        """Which answers end an epoch, by position in the frozen set."""
        return self.epochs.quorum

    def standing(self) -> list[Event]:
        """Where the run is, told as events: for whoever looks on when a run goes on from its checkpoint."""
        agreed = self.agreement
        if agreed is None:
            return [PhaseBegun(self.phase.value), *(DeviceState(name, "joined") for name in self.joined)]
        states = {name: "joined" if name in self.unshared else "shared" for name in agreed.names}
        states |= dict.fromkeys(self.ready_devices, "ready")
        found: list[Event] = [self._members(), PhaseBegun(self.phase.value)]
        found += [DeviceState(name, state) for name, state in states.items()]
        return found + [LiarFound(name, epoch) for name, epoch in self.liars.items()]

    # -- the interface of the state machine

    def receive(self, data: bytes, bulk: bytes = b"", sender: str | None = None) -> Turn:
        """Handle one wire message; returns what is to be sent, and what happened.

        bulk: the message's attachment, where it travelled apart.
        sender: whose message it must be, where the driver knows; None takes its own word, which its seal or signature
            has to prove in any case.

        Late, stale, duplicate and replayed messages are ignored, with an event. Raises ``MessageRefused`` and changes
        nothing when the message is damaged, forged or out of protocol. When answers contradict each other beyond
        repair, a total breaks its proven bound or the solver cannot go on, the run is over: there is a ``RunFailed``
        event, the messages tell the devices, and ``model`` is the last good one.
        """
        message = Message.decode(data, partial(most_bytes, self.parameters, len(self.expected)), bulk)
        if sender not in (None, message.sender):
            raise MessageRefused(
                f"a message must be in the name under which its device introduced itself ({sender!r}),"
                f" got {message.sender[:80]!r}"
            )
        return self._turn(partial(self._handle, message))

    def invite(self) -> Turn:
        """The first message of a run, for everybody."""
        return self._turn(self._invite)

    def freeze(self) -> Turn:
        """Fix the participant set with those who joined so far, and start phase 1."""
        return self._turn(self._freeze)

    def close_uploads(self) -> Turn:
        """The driver's deadline for phase 1: a scheme that can leaves out who has not shared; the others wait on."""
        return self._turn(self._close_uploads)

    def go_on_without(self, gone: Sequence[str] = ()) -> Turn:
        """For drivers that give up on devices: raises ``NotEnoughDevices`` if the run cannot go on without ``gone``.

        Whatever waited for them goes on: uploads are closed, an epoch that waited for them to tell whose answer is
        wrong ends, one way or the other.
        """
        return self._turn(partial(self._go_on_without, gone))

    def resend(self) -> Turn:
        """The update or the end once more, for whom it concerns: after a restart, or where it may have got lost.

        Drivers keep the messages of phase 1 until they are delivered.
        """
        return self._turn(self._resend)

    def state(self) -> State:
        """What to keep of this server and its solver, its long-term key apart. See ``codedfl.state.saved``."""
        parts = {name: saved(part) for name, part in self._parts.items()}
        return {"owner": self._owner, **parts, "solver": self.epochs.solver.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a server with the same plan and keys."""
        of_solver = state.get("solver", {})
        rest = {name: value for name, value in state.items() if name != "solver"}
        restore_parts(self._owner, self._parts, rest)
        self.epochs.solver.restore(of_solver)

    @property
    def _parts(self) -> dict[str, Any]:
        return {"session": self._session, "joining": self.joining, **self.sharing.parts, "epochs": self.epochs}

    # -- one turn

    def _turn(self, act: Callable[[], None]) -> Turn:
        session = self._session
        try:
            act()
        finally:
            turn = session.outbox.emptied()  # nothing of what was refused is sent or told
            if self.phase is Phase.FINISHED:
                session.key = None  # what was sealed to this server's run key stays sealed for good
        return turn

    def _handle(self, message: Message) -> None:
        session = self._session
        handler = self._handlers.get(message.kind)
        if handler is None:
            raise MessageRefused(f"the server must not be sent a {message.kind} message, got one")
        if message.receiver != SERVER:
            raise MessageRefused(f"the receiver must be the server, got {message.receiver!r}")
        if message.run != self.run:
            raise MessageRefused(f"the run must be {self.run.hex()}, got {message.run.hex()[:32]}")
        if message.agreement != (session.agreement_hash if message.kind not in (Kind.JOIN, Kind.REFUSAL) else b""):
            raise MessageRefused("the message must belong to the frozen participant set: it names another")
        if self.phase is Phase.FINISHED:  # the key to open it with is forgotten
            if message.kind is Kind.ANSWER and message.sender in session.agreed.names:
                session.outbox.tell(AnsweredLate(message.sender, self.epoch, message.size))
            else:
                session.ignore(message, "message after the end")
            return
        handler(message)
        if self.phase is Phase.JOINING and self.joining.complete:
            self._freeze()
        self._start_if_possible()

    def _invite(self) -> None:
        self._session.outbox.tell(PhaseBegun(self.phase.value))
        self._session.broadcast(Kind.INVITATION, self.invitation.encoded, self.expected)

    def _on_ready(self, message: Message) -> None:
        if self.sharing.take_ready(message) and self.phase is Phase.TRAINING:
            self.epochs.send_update((message.sender,))  # a late comer joins the current epoch

    def _freeze(self) -> None:
        session = self._session
        if session.phase is not Phase.JOINING:
            raise InvalidInput(f"the participant set must be frozen once, got a second call while {self.phase.value}")
        agreement = self.sharing.agree(self.joining.members, self._initial_model)
        _ = agreement.answer_code, agreement.ring  # what cannot be derived is refused before anything is sent
        session.agreement = agreement
        session.outbox.tell(self._members())
        session.begin(Phase.SHARING)
        session.broadcast(Kind.AGREEMENT, agreement.encoded, agreement.names)
        self.sharing.open()

    def _members(self) -> Members:
        agreed = self._session.agreed
        parts = (NamedPart(tuple(agreed.names[i] for i in one.members), one.needed) for one in self.quorum.parts)
        kind: Literal["role", "cell", "group"] = "cell" if agreed.blocks else "role" if agreed.roles else "group"
        return Members(agreed.names, kind, tuple(parts))

    def _start_if_possible(self) -> None:
        """Training begins once the server and enough devices have what it takes."""
        if self.phase is not Phase.SHARING or self.epochs.shortfall(self.sharing.ready):
            return
        if self.sharing.can_start():
            self.epochs.begin()

    def _close_uploads(self) -> None:
        if self.phase is Phase.SHARING:
            self.sharing.close_uploads()

    def _go_on_without(self, gone: Sequence[str]) -> None:
        agreed = self._session.agreed
        self.sharing.gone = {agreed.position(name) for name in gone if name in agreed.names}
        if self.phase is Phase.SHARING:
            self.sharing.check_without_gone()
        self.epochs.go_on_without(self.sharing.gone | self.sharing.in_vain())
        self.sharing.go_on_without_gone()

    def _resend(self) -> None:
        if self.phase is Phase.TRAINING:
            answered = set(self.answered)
            self.epochs.send_update(tuple(name for name in self.ready_devices if name not in answered))
        elif self.phase is Phase.FINISHED:
            self.epochs.send_finish()
