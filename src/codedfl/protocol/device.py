"""A device as a state machine: takes a message, returns messages, does no I/O and reads no clock.

This is everything that all schemes share: joining (``joiner``), and phase 2 (paper IV-C). What they do differently,
phase 1, is in ``protocol.schemes``. After phase 1 a device holds ``linear`` (d x d) and ``constant`` on the ring,
whatever the scheme, and answers an update e with

    linear e          (paper: C_i + Cbar_i e)

or, when the update has no numbers, with the constant: the server adds the two up once it knows the totals. The coded
schemes add masks (``coded_device``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, ClassVar

from codedfl.crypto import sealed
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.joiner import Joiner
from codedfl.protocol.messages import (
    SERVER,
    Answer,
    Kind,
    Message,
    Update,
)
from codedfl.protocol.sizes import MOST_DEVICES, most_bytes
from codedfl.state import PLAIN, TUPLE, Kept
from codedfl.typing import Planes


class Device(Joiner):
    """One device's side of a scheme.

    Parameters
    ----------
    name : str
        Unique in the run, at most 64 bytes.
    contribution : Contribution or None
        What it brings into the total: ``Rows``, or ``WholeNumbers``. Dropped once phase 1 used it. None for a helper,
        and for a device that is going to be restored from a state past that (``data_used``).
    terms : Terms or None
        What the operator agreed to: a run on other terms is refused. None takes part in any run: for simulations, where
        one process holds everything.
    identity : Identity or None
        Long-term key; drawn anew when None.
    noise_seed : bytes
        Of the noise that hides rows, where it must be the same in every run on these terms; empty draws one.
    answered : collection of bytes
        Digests of the updates answered in earlier runs on the same terms: they count against the number agreed on.
    random_bytes : callable
        Source of all secrets; replaced only in tests and simulations that must be repeatable.
    """

    # Save the state before an answer leaves: a device that forgot it might answer the same epoch for a second e.
    _kept: ClassVar[Mapping[str, Kept]] = {
        **Joiner._kept,
        "_answered": TUPLE,
        "_questions": Kept(list, lambda saved: list(dict.fromkeys(saved))),
        "linear": PLAIN,
        "constant": PLAIN,
        "finished": PLAIN,
    }

    def __init__(self, *args: Any, answered: Collection[bytes] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self._answered: tuple[int, bytes, bytes] = (0, b"", b"")  # epoch, digest of its update, what was sent
        self._questions = list(answered)  # digests of the different e that were answered, the constant not counted
        self.linear: Planes | None = None
        self.constant: Planes | None = None
        self.finished = False

    def __repr__(self) -> str:
        state = "finished" if self.finished else "ready" if self.ready else "sharing" if self._agreement else "idle"
        return f"<{type(self).__name__} {self.name!r}, {state}, answered epoch {self._answered[0]}>"

    # -- the interface of the state machine

    @property
    def ready(self) -> bool:
        """Phase 1 is complete here: this device can answer updates."""
        return self.linear is not None

    def receive(self, data: bytes) -> list[bytes]:
        """Handle one wire message; returns wire messages, all for the server.

        Raises ``MessageRefused`` and changes nothing when the message is damaged, forged or out of protocol.
        """
        parameters = None if self._invitation is None else self._invitation.parameters
        message = Message.decode(data, partial(most_bytes, parameters, MOST_DEVICES))
        handler = self._handlers().get(message.kind)
        if handler is None:
            raise MessageRefused(f"a device must not be sent a {message.kind} message, got one")
        if message.receiver not in (SERVER, self.name):
            raise MessageRefused(f"the receiver must be {self.name!r}, got {message.receiver!r}")
        if message.kind is not Kind.INVITATION:
            self._check_run(message)
            if self.finished:
                return []  # whatever comes late changes nothing: the secrets of the run are gone
        return [reply.encode() for reply in handler(message)]

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from the state of a device with the same scheme, name and keys."""
        answered = self._questions
        super().restore(state)
        # What other runs on these terms have answered since counts too.
        self._questions = list(dict.fromkeys([*answered, *self._questions]))
        if self.data_used:
            self._contribution = None
        elif self._contribution is None and self._without_data:
            raise InvalidInput(f"the contribution of {self.name!r} must be given, it was not used yet, got None")

    @property
    def _owner(self) -> list[Any]:
        return [self.scheme, self.name, self.identity.public]

    def _handlers(self) -> dict[Kind, Callable[[Message], list[Message]]]:
        return {
            Kind.INVITATION: self._on_invitation,
            Kind.AGREEMENT: self._on_agreement,
            Kind.UPDATE: self._on_update,
            Kind.FINISH: self._on_finish,
        }

    def _check_run(self, message: Message) -> None:
        run = self._invitation.run if self._invitation else b""
        if message.run != run:
            raise MessageRefused(f"the run must be {run.hex() or 'none yet'}, got {message.run.hex()[:32]}")
        known = self._agreement.hash if self._agreement else b""
        if message.kind is not Kind.AGREEMENT and message.agreement != known:
            raise MessageRefused("the message must belong to the agreement this device accepted: it names another")

    # -- phase 1

    def _own_statistics(self) -> tuple[Planes, Planes]:
        """The triangle and the constant part of this device; what they were made of is dropped, nothing needs it."""
        gram, constant, self.fit = self._own.on_ring(self._agreed, self._noise_seed)
        self._noise_seed = b""
        self._contribution, self.data_used = None, True
        return gram, constant

    @property
    def questions(self) -> tuple[bytes, ...]:
        """Digests of the different updates answered so far on these terms: what a driver must keep before it sends."""
        return tuple(self._questions)

    # -- phase 2

    def _on_update(self, message: Message) -> list[Message]:
        message.check_signature(self._invited.server_public)
        update = Update.decode(message.body)
        digest = hashlib.sha256(message.body).digest()
        last_epoch, last_digest, last_answer = self._answered
        if update.epoch == last_epoch:
            if digest != last_digest:
                raise MessageRefused(f"epoch {last_epoch} must be answered for one update only, got a second one")
            return [self._answer_message(last_answer)]  # asked again: the very same answer
        if update.epoch < last_epoch:
            raise MessageRefused(f"the epoch must be later than {last_epoch}, got {update.epoch}")
        if not self.ready:
            raise MessageRefused("shares must be complete before an update: some are missing")
        question = hashlib.sha256(update.packed).digest()
        most = self._agreed.parameters.epochs
        # The same once more, as in confirming an epoch, shows nothing new. One of the updates agreed on is for the
        # constant, whether it is asked for or not: in its place nobody gets another direction of X'X.
        shows_more = bool(update.packed) and question not in self._questions
        if shows_more and len(self._questions) >= most - 1:
            raise MessageRefused(f"at most {most} different updates were agreed on, got one more")
        answer = Answer(update.epoch, digest, self._ring.pack(self._answer(update, digest))).encode()
        self._answered = (update.epoch, digest, answer)
        if shows_more:
            self._questions = [*self._questions, question]
        return [self._answer_message(answer)]

    def _answer(self, update: Update, digest: bytes) -> Planes:
        """What this device says to the update whose body has this digest; the coded schemes mask it."""
        del digest
        answer = self._ring.zeros(self._answer_length(update))
        self._add_content(answer, update)
        return answer

    def _answer_length(self, update: Update) -> int:
        return self._agreed.parameters.answer_length(2 if update.packed else 1)

    def _add_content(self, answer: Planes, update: Update) -> None:
        """answer += linear e; += constant where the update has no numbers."""
        assert self.linear is not None and self.constant is not None
        ring, p = self._ring, self._agreed.parameters
        one = [[1]] * len(ring.primes)
        if not update.packed:
            ring.add_scaled(answer, one, [self.constant])
        else:
            e = ring.unpack(update.packed, p.n_features, p.n_outputs)
            product = ring.product(self.linear, e).reshape(len(ring.primes), -1)
            ring.add_scaled(answer[:, : product.shape[1]], one, [product])

    def _on_finish(self, message: Message) -> list[Message]:
        """Forget every secret of the run."""
        message.check_signature(self._invited.server_public)
        self.finished = True
        self._forget_secrets()
        return []

    @property
    def secrets_held(self) -> frozenset[bytes]:
        """The secrets of the run that are here: those that are gone must not stay on a driver's disk either."""
        return frozenset([*([] if self._key is None else [self._key.secret]), *filter(None, [self._noise_seed])])

    def _forget_secrets(self) -> None:
        """Also in the middle of phase 1; schemes add what they hold beyond this."""
        self._key = None
        self._noise_seed = b""
        self._contribution, self.data_used = None, True
        self.linear = self.constant = None

    # -- writing to the server

    def _answer_message(self, answer: bytes) -> Message:
        return self._sealed_to_server(Kind.ANSWER, answer)

    def _sealed_to_server(self, kind: Kind, plaintext: bytes) -> Message:
        """For the server's eyes, and so that it knows the author."""
        header = self._to_server(kind)
        return header.with_body(self._seal(self._invited.server_key, header, plaintext))

    def _to_server(self, kind: Kind, body: bytes = b"", attachment: bytes = b"") -> Message:
        return Message(kind, self._run, self._agreed.hash, self.name, SERVER, body, attachment)

    def _seal(self, receiver: bytes, header: Message, plaintext: bytes) -> bytes:
        return sealed.seal(self._sealing, receiver, header.context(), plaintext, self._random_bytes)
