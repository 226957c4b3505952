"""A device as a state machine: takes a message, returns messages and events, does no I/O and reads no clock.

It owns one object per phase and routes messages to them: it comes into a run (``device_joining``), shares its data in
the way of the run's scheme (``device_sharing``, ``schemes``), and answers epochs (``device_epochs``).
"""

from __future__ import annotations

import secrets as system_random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.contribution import Contribution, Fit, OwnData
from codedfl.protocol.device_epochs import DeviceEpochs
from codedfl.protocol.device_joining import DeviceJoining
from codedfl.protocol.device_session import DeviceSession
from codedfl.protocol.device_sharing import DeviceSharing
from codedfl.protocol.events import SecretsForgotten, Turn
from codedfl.protocol.messages import SERVER, Kind, Message
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.prepared_pad import PreparedPads
from codedfl.protocol.sizes import MOST_DEVICES, most_bytes
from codedfl.state import State, restore_parts, saved
from codedfl.typing import RandomBytes


class Device:
    """One device of a run.

    Parameters
    ----------
    plan : RunPlan
        What is fixed before the run begins. Its terms are what the operator agreed to: a run on other terms is refused.
        Without terms it takes part in any run of the scheme: for simulations, where one process holds everything.
    name : str
        Unique in the run, at most 64 bytes.
    contribution : Contribution or None
        What it brings into the total: ``Rows``, or ``WholeNumbers``. Dropped once phase 1 used it. None for a helper,
        and for a device that is going to be restored from a state past that (``data_used``).
    identity : Identity or None
        Long-term key; drawn anew when None.
    noise_seed : bytes
        Seed of the noise that hides rows, where it must be the same in every run on these terms; empty draws one.
    answered : collection of bytes
        Digests of the updates answered in earlier runs on the same terms: they count against the number agreed on.
    pads : PreparedPads or None
        What the process has prepared for its next upload; None has pads made when they are wanted.
    random_bytes : callable
        Source of all secrets; replaced only in tests and simulations that must be repeatable.

    Examples
    --------
    A device is made by whoever makes the run (``make_parties``), takes messages and returns messages:

    >>> import numpy as np
    >>> from codedfl import BlockKrylov, Dataset, RoleKeys, make_parties, make_problem
    >>> X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
    >>> rows = Dataset("made up", X, y, X, y, "classification", public_range=(0.0, 24.0))
    >>> problem = make_problem(rows, n_devices=4, features="linear")
    >>> server, devices = make_parties(RoleKeys(colluders=1), problem, BlockKrylov(epochs=5))
    >>> devices[0].receive(b"nonsense")
    Traceback (most recent call last):
    ...
    codedfl.errors.MessageRefused: a message must be well-formed msgpack: damaged or cut (ExtraData)
    """

    def __init__(
        self,
        plan: RunPlan,
        name: str,
        contribution: Contribution | None,
        *,
        identity: Identity | None = None,
        noise_seed: bytes = b"",
        answered: Collection[bytes] = (),
        pads: PreparedPads | None = None,
        random_bytes: RandomBytes = system_random.token_bytes,
    ) -> None:
        terms = plan.terms
        if terms is not None and terms.parameters.noise is not None and contribution is not None and not noise_seed:
            raise InvalidInput("noise_seed must be given with terms, or many runs would average noise away, got none")
        session = self._session = DeviceSession(name, identity, random_bytes, pads)
        self.name, self.identity = name, session.identity
        self._own = OwnData(contribution, noise_seed, helper=name in plan.helpers)
        self._joining = DeviceJoining(session, plan.scheme, self._own, terms)
        self.sharing: DeviceSharing = plan.scheme.device(session, self._own, terms)
        self.epochs = DeviceEpochs(session, self.sharing, answered)
        self._owner = [plan.scheme.name, name, session.identity.public]
        self._handlers: dict[Kind, Callable[[Message], None]] = {
            Kind.INVITATION: self._joining.on_invitation,
            Kind.AGREEMENT: self._on_agreement,
            **self.sharing.handlers,
            Kind.UPDATE: self.epochs.on_update,
            Kind.FINISH: self._on_finish,
        }

    def __repr__(self) -> str:
        words = "finished" if self.finished else "ready" if self.ready else "sharing" if self.agreed else "idle"
        return f"<Device {self.name!r}, {words}, answered epoch {self.epochs.last_answer[0]}>"

    # -- where it is

    @property
    def run(self) -> bytes:
        """The id of the run that this device was invited to; empty before."""
        return b"" if self._session.invitation is None else self._session.invited.run

    @property
    def invited(self) -> bool:
        """Whether this device has joined a run and waits for the agreement, or has it."""
        return self._session.invitation is not None and not self.objection

    @property
    def objection(self) -> str:
        """Why the invitation was refused, if it was; for the device's own log."""
        return self._joining.objection

    @property
    def agreed(self) -> bool:
        """Whether this device has accepted an agreement: only from then on is there anything to keep of the run."""
        return self._session.agreement is not None

    @property
    def data_used(self) -> bool:
        """Whether the contribution is uploaded, and not needed any more."""
        return self._own.used

    @property
    def fit(self) -> Fit:
        """What was done to rows so that they fit the public bounds."""
        return self._own.fit

    @property
    def owner_names(self) -> tuple[str, ...]:
        """Whose data are in the total; empty before that is fixed, and recorded, here."""
        return self.sharing.owner_names

    @property
    def ready(self) -> bool:
        """Phase 1 is complete here: this device can answer updates."""
        return self.sharing.ready

    @property
    def finished(self) -> bool:
        return self._session.finished

    @property
    def questions(self) -> tuple[bytes, ...]:
        """Digests of the different updates answered so far on these terms: what a driver must keep before it sends."""
        return tuple(self.epochs.questions)

    # -- the interface of the state machine

    def receive(self, data: bytes, bulk: bytes = b"") -> Turn:
        """Handle one wire message; returns messages, all for the server, and what happened.

        bulk: the message's attachment, where it travelled apart.

        Raises ``MessageRefused`` and changes nothing when the message is damaged, forged or out of protocol.
        """
        session = self._session
        parameters = None if session.invitation is None else session.invitation.parameters
        message = Message.decode(data, partial(most_bytes, parameters, MOST_DEVICES), bulk)
        handler = self._handlers.get(message.kind)
        if handler is None:
            raise MessageRefused(f"a device must not be sent a {message.kind} message, got one")
        if message.receiver not in (SERVER, self.name):
            raise MessageRefused(f"the receiver must be {self.name!r}, got {message.receiver!r}")
        if message.kind is not Kind.INVITATION:
            self._check_run(message)
            if self.finished:
                return Turn()  # whatever comes late changes nothing: the secrets of the run are gone
        try:
            handler(message)
        finally:
            turn = session.outbox.emptied()  # nothing of what was refused is sent or told
        return turn

    def _check_run(self, message: Message) -> None:
        if message.run != self.run:
            raise MessageRefused(f"the run must be {self.run.hex() or 'none yet'}, got {message.run.hex()[:32]}")
        known = self._session.agreement.hash if self._session.agreement else b""
        if message.kind is not Kind.AGREEMENT and message.agreement != known:
            raise MessageRefused("the message must belong to the agreement this device accepted: it names another")

    def _on_agreement(self, message: Message) -> None:
        if not self._joining.accepts(message):
            return
        try:
            self.sharing.begin()
        except Exception:
            self._session.agreement = None  # nothing has left: the same agreement may come again
            raise

    def _on_finish(self, message: Message) -> None:
        """Forget every secret of the run, also in the middle of phase 1."""
        session = self._session
        session.check_from_server(message)
        session.finished, session.key = True, None
        self._own.drop()
        self.sharing.forget()
        session.outbox.tell(SecretsForgotten())

    # -- checkpoints

    @property
    def _parts(self) -> dict[str, Any]:
        return {
            "session": self._session,
            "joining": self._joining,
            "own": self._own,
            "sharing": self.sharing,
            "epochs": self.epochs,
        }

    def state(self) -> State:
        """What to keep of this device, its long-term key apart. See ``codedfl.state.saved``."""
        return {"owner": self._owner, **{name: saved(part) for name, part in self._parts.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a device with the same scheme, name and keys."""
        answered = self.epochs.questions
        restore_parts(self._owner, self._parts, state)
        # What other runs on these terms have answered since counts too.
        self.epochs.questions = list(dict.fromkeys([*answered, *self.epochs.questions]))
        self._own.check_restored(self.name)


def used_data(state: State) -> bool:
    """Whether a device with this state has uploaded its contribution, and needs it no more."""
    return bool(state["own"]["used"])
