"""A device as a state machine: takes a message, returns messages, does no I/O and reads no clock.

This is everything that all schemes share: joining by policy, the frozen agreement, the ledger, and phase 2 (paper
IV-C). What they do differently, phase 1, is in ``protocol.schemes``. After phase 1 a device holds ``linear`` (d x d)
and ``constant`` on the ring, whatever the scheme, and answers an update e with

    linear e          (paper: C_i + Cbar_i e)

or, when the update has no numbers, with the constant: the server adds the two up once it knows the totals. The coded
schemes add masks (``coded_device``).
"""

from __future__ import annotations

import hashlib
import secrets as system_random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from codedfl.crypto import sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fixed_point import Bounds
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import NONCE_BYTES, Agreement, Invitation, Parameters
from codedfl.protocol.hiding_rows import add_noise
from codedfl.protocol.ledger import AS_AGREED, Entry, Ledger, row_tags, rows_as_bytes
from codedfl.protocol.local_data import Origin, checked_rows, fitted
from codedfl.protocol.messages import (
    MAX_NAME,
    SERVER,
    Answer,
    Kind,
    Message,
    Update,
    name_length,
    pack_list,
    unpack_list,
)
from codedfl.protocol.policy import Policy
from codedfl.protocol.sizes import MOST_DEVICES, most_bytes
from codedfl.state import PLAIN, TUPLE, Kept, Resumable, optional
from codedfl.typing import Floats, Planes, RandomBytes


class Device(Resumable, ABC):
    """One device's side of a scheme.

    Parameters
    ----------
    name : str
        Unique in the run, at most 64 bytes.
    X, Y : array of shape (n_i, d) and (n_i, c), or None
        Local features and labels; finite, at least one row. Dropped once phase 1 used them. None for a device that is
        going to be restored from a state past that (``data_used``).
    origin : Origin or None
        What X and Y were made of; None takes them for the raw rows.
    identity : Identity or None
        Long-term key; drawn anew when None.
    policy : Policy
        What the operator allows.
    recipe : bytes
        Digest of what turned rows into X and Y; a run with another one is refused. Empty where they are given as they
        are.
    server_public : bytes or None
        The server's pinned public key; None trusts the first invitation.
    roster : mapping of str to bytes, or None
        Pinned public keys of all devices by name. With it a lying relay is caught: a key that differs is refused, and
        so is a device that is not on it. None trusts the server's word.
    ledger : Ledger or None
        The device's earlier runs. A driver that keeps it must save it, as it must save the state, before what
        ``receive`` returned leaves. None remembers nothing: for simulations, where every device is new.
    random_bytes : callable
        Source of all secrets; replaced only in tests and simulations that must be repeatable.
    """

    scheme: ClassVar[str]
    reveals_gram: ClassVar[bool] = False  # whether it lets the server have the total of X'X itself
    adds_noise: ClassVar[bool] = False  # whether one upload is all that ever depends on the rows, so that noise hides
    # Save the state before an answer leaves: a device that forgot it might answer the same epoch for a second e.
    _kept: ClassVar[Mapping[str, Kept]] = {
        "data_used": PLAIN,
        "clipped": PLAIN,
        "dropped": PLAIN,
        "_ranges": PLAIN,
        "_by_study": PLAIN,
        "shortened": PLAIN,
        "_invitation": optional(
            Kept(lambda invitation: [invitation.run, invitation.encoded], lambda saved: Invitation.decode(*saved))
        ),
        "_key": optional(Kept(lambda key: key.secret, RunKey)),
        "_nonce": PLAIN,
        "_noise_seed": PLAIN,
        "objection": PLAIN,
        "_agreement": optional(Kept(lambda agreement: agreement.encoded, Agreement.decode)),
        "_answered": TUPLE,
        "_questions": PLAIN,
        "linear": PLAIN,
        "constant": PLAIN,
        "finished": PLAIN,
    }

    def __init__(
        self,
        name: str,
        X: ArrayLike | None,
        Y: ArrayLike | None,
        origin: Origin | None = None,
        *,
        identity: Identity | None = None,
        policy: Policy | None = None,
        recipe: bytes = b"",
        server_public: bytes | None = None,
        roster: Mapping[str, bytes] | None = None,
        ledger: Ledger | None = None,
        random_bytes: RandomBytes = system_random.token_bytes,
    ) -> None:
        if not 1 <= name_length(name) <= MAX_NAME:
            raise InvalidInput(f"name must have 1 to {MAX_NAME} bytes, got {name_length(name)}")
        self.name = name
        self._data = None if X is None or Y is None else checked_rows(name, X, Y)
        self._origin = origin
        self._ranges = b"" if origin is None else origin.ranges
        self._by_study = origin is not None and origin.bounds is not None
        self.data_used = False
        self.clipped = self.dropped = 0  # values and rows that did not fit the public bounds; for the device's own log
        self.shortened = 0  # rows longer than the noise is made for; for the same log
        self.identity = identity or Identity.generate(random_bytes)
        self._policy = policy or Policy()
        self._recipe = recipe
        self._pinned_server = server_public
        self._roster = roster
        self._ledger = ledger
        self._random_bytes = random_bytes
        self._invitation: Invitation | None = None
        self._key: RunKey | None = None
        self._nonce = b""
        self._noise_seed = b""  # drawn and kept before the join leaves, forgotten once the upload is made
        self.objection = ""  # why the invitation was refused, if it was
        self._agreement: Agreement | None = None
        self._answered: tuple[int, bytes, bytes] = (0, b"", b"")  # epoch, digest of its update, what was sent
        self._questions: list[bytes] = []  # digests of the different e that were answered, the constant not counted
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

    @property
    def invited(self) -> bool:
        """Whether this device has joined a run and waits for the agreement."""
        return self._invitation is not None and not self.objection

    @property
    def agreed(self) -> bool:
        """Whether this device has accepted an agreement: only from then on is there anything to keep of the run."""
        return self._agreement is not None

    @property
    def owner_keys(self) -> dict[str, bytes]:
        """Whose data are in the total, by name with their keys; empty before that is fixed, and recorded, here."""
        agreed = self._agreement
        return {} if agreed is None else {agreed.names[i]: agreed.members[i].identity for i in agreed.owners}

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
        super().restore(state)
        if self.data_used:
            self._data = None
        elif self._data is None and self._without_data:
            raise InvalidInput(f"X and Y of {self.name!r} must be given, the state is from before their use, got None")

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

    # -- joining

    def _on_invitation(self, message: Message) -> list[Message]:
        invitation = Invitation.decode(message.run, message.body)
        server_public = invitation.server_public
        if self._pinned_server is not None and server_public != self._pinned_server:
            raise MessageRefused(
                f"the server's key must be the pinned {sealed.fingerprint(self._pinned_server)},"
                f" got {sealed.fingerprint(server_public)}"
            )
        message.check_signature(server_public)
        if self._invitation is not None and invitation != self._invitation:
            self._refuse_second(invitation)
        if self._agreement is not None:
            return []  # it came late, or once more
        if self._key is None:
            key = RunKey.generate(self._random_bytes)
            key.shared_with(invitation.server_key)  # refuses a key that nothing can be sealed to, before it is kept
            self._key, self._nonce = key, self._random_bytes(NONCE_BYTES)
            # With the join: a device set back to before it cannot be in this agreement, and one set back to after it
            # has the same noise, so that nobody can have it drawn again and average it away.
            self._noise_seed = self._random_bytes(SEED_BYTES) if invitation.parameters.noise else b""
        self._invitation = invitation
        self.objection = self._objection(invitation.parameters)
        if self.objection:
            refusal = Message(
                Kind.REFUSAL, message.run, b"", self.name, SERVER, self.objection.encode(), self.identity.public
            )
            return [refusal.signed_by(self.identity)]
        signature = self.identity.sign(invitation.join_statement(self.name, self._key.public, self._nonce))
        body = pack_list([self._key.public, self._nonce])
        return [Message(Kind.JOIN, message.run, b"", self.name, SERVER, body, self.identity.public, signature)]

    def _refuse_second(self, invitation: Invitation) -> None:
        """One run and one set of parameters each: what a device does must not depend on how often it was asked."""
        first = self._invitation
        assert first is not None
        if invitation.run != first.run:
            raise MessageRefused(
                f"this device is in run {first.run.hex()} already: one run each, got {invitation.run.hex()[:32]}"
            )
        if invitation.server_public != first.server_public:
            raise MessageRefused(
                f"the server's key must stay that of the first invitation, {sealed.fingerprint(first.server_public)},"
                f" got {sealed.fingerprint(invitation.server_public)}"
            )
        raise MessageRefused("a run has one invitation: a second one with other parameters or keys is refused")

    def _objection(self, parameters: Parameters) -> str:
        """Why this device does not take part; empty when it does. Never a matter of its rows, see ``policy``."""
        if parameters.scheme != self.scheme:
            return f"scheme must be {self.scheme!r} for this device, got {parameters.scheme!r}"
        if parameters.noise is not None and not self.adds_noise:
            return f"noise must be left out with {self.scheme}, whose devices add none, got {parameters.noise}"
        if parameters.reveals_gram != self.reveals_gram:
            return f"reveals_gram must be {self.reveals_gram} for this device, got {parameters.reveals_gram}"
        if parameters.recipe != self._recipe:
            return (
                f"the recipe must be this device's, {_short(self._recipe)}, got {_short(parameters.recipe)}: columns,"
                " ranges, features or labels differ"
            )
        limits = None if self._origin is None else self._origin.bounds
        if limits is not None and limits != _limits(parameters.bounds):
            return (
                f"bounds on features, labels and rows must be the study's, {limits}, got {_limits(parameters.bounds)}"
            )
        if self._data is None:
            return self._without_data
        shape = tuple(array.shape[1] for array in self._data)
        if shape != (parameters.n_features, parameters.n_outputs):
            return (
                f"n_features and n_outputs must be {shape[0]} and {shape[1]} as this device's recipe makes them, got"
                f" {parameters.n_features} and {parameters.n_outputs}"
            )
        return self._policy.objection(parameters)

    @property
    def _without_data(self) -> str:
        """What is wrong with having none."""
        return "the device's data were used in an earlier run: make a new device"

    def _on_agreement(self, message: Message) -> list[Message]:
        invitation = self._invited
        message.check_signature(invitation.server_public)
        if self._agreement is not None:
            if message.body == self._agreement.encoded:
                return []  # the same once more
            raise MessageRefused("a device accepts one agreement a run: a second, different one is refused")
        if self.objection:  # before anything of the agreement's size is allocated
            raise MessageRefused(f"the agreement breaks a rule: {self.objection}")
        if unpack_list(message.body, "an agreement", depth=3)[:2] != [invitation.run, invitation.encoded]:
            raise MessageRefused("the agreement must be for the invitation that this device joined: it is for another")
        agreement = Agreement.decode(message.body)
        wanted = self._policy.joiners_wanted(None if self._roster is None else len(self._roster))
        if agreement.n_devices < wanted:
            raise MessageRefused(f"at least {wanted} devices must take part, got {agreement.n_devices}")
        reason = self._policy.objection_to_set(agreement)
        if reason:
            raise MessageRefused(f"the agreement breaks a rule: {reason}")
        me = agreement.member(self.name)
        if (me.identity, me.run_key, me.nonce) != (self.identity.public, self._sealing.public, self._nonce):
            raise MessageRefused(f"the agreement must carry the true keys of {self.name!r}: it carries others")
        self._check_roster(agreement)
        self._take_part(agreement)
        self._agreement = agreement
        return self._begin_sharing()

    def _check_roster(self, agreement: Agreement) -> None:
        if self._roster is None:
            return
        for member in agreement.members:
            pinned = self._roster.get(member.name)
            if pinned is None and member.name != self.name:
                raise MessageRefused(f"every participant must be on the roster, got {member.name!r}")
            if pinned is not None and pinned != member.identity:
                raise MessageRefused(
                    f"the key of {member.name!r} must be the pinned {sealed.fingerprint(pinned)},"
                    f" got {sealed.fingerprint(member.identity)}: the relay may be lying"
                )

    def _take_part(self, agreement: Agreement) -> None:
        """Make the rows fit the public bounds; record the list before anything that follows from it can leave."""
        owners = frozenset(agreement.members[i].identity for i in agreement.owners)
        self._remember(agreement, owners, self._own_tags())
        self._fit_rows(agreement)

    def _own_tags(self) -> bytes:
        """Of the rows as they are, whatever a run makes of them."""
        if self._ledger is None:
            return b""
        rows = rows_as_bytes(*(self._data or _no_data())) if self._origin is None else self._origin.rows
        return row_tags(self.identity, rows)

    def _fit_rows(self, agreement: Agreement) -> None:
        rows = fitted(*(self._data or _no_data()), agreement.parameters.bounds, agreement.parameters.noise)
        self._data, self.clipped, self.dropped = (rows.X, rows.Y), rows.clipped, rows.dropped
        self.shortened = rows.shortened

    def _remember(self, agreement: Agreement, owners: frozenset[bytes], tags: bytes) -> None:
        """Refuse a total that could be combined with earlier ones; else record that we are part of it."""
        if self._ledger is None:
            return
        bounds, recipe = agreement.parameters.bounds, agreement.parameters.recipe
        limits = AS_AGREED if self._by_study else _limits(bounds)
        entry = Entry(agreement.hash, owners, recipe, limits, tags, self._ranges, agreement.parameters.rho)
        policy = self._policy
        overspent = policy.objection_to_spending(self._ledger.rho_with(entry))
        if overspent:
            raise MessageRefused(f"this device does not take part: {overspent}")
        reason = self._ledger.objection(entry, least_left=policy.colluders + 2, least_changed=policy.least_changed_rows)
        if reason:
            raise MessageRefused(f"this device does not take part: {reason}")
        self._ledger.record(entry)

    # -- phase 1: hooks for the schemes

    @abstractmethod
    def _begin_sharing(self) -> list[Message]:
        """Called once, when the agreement is accepted."""

    @property
    def _invited(self) -> Invitation:
        if self._invitation is None:
            raise MessageRefused("an invitation must come first, got a later message")
        return self._invitation

    @property
    def _agreed(self) -> Agreement:
        if self._agreement is None:
            raise MessageRefused("an agreement must come first, got a later message")
        return self._agreement

    @property
    def _sealing(self) -> RunKey:
        if self._key is None:
            raise MessageRefused("a run key must be drawn first, got a message that needs it")
        return self._key

    @property
    def _run(self) -> bytes:
        return self._invited.run

    @property
    def _ring(self) -> Ring:
        return self._agreed.fixed_point.ring

    @property
    def _position(self) -> int:
        return self._agreed.position(self.name)

    def _own_statistics(self) -> tuple[Planes, Planes]:
        """X'X as a triangle, and G^(1) = X'X Theta^(1) - X'Y with the sample count behind it (paper eq. 3).

        The raw data are dropped: nothing after phase 1 needs them.
        """
        agreed, (X, Y) = self._agreed, self._data or _no_data()
        format_, ring = agreed.fixed_point, self._ring
        gram = format_.gram(X)
        gradient = format_.cross(X, Y)
        if format_.noise is not None:
            add_noise(format_, gram, gradient, self._noise_seed, agreed)
            self._noise_seed = b""
        if np.any(agreed.initial_integers):
            product = ring.product(ring.symmetric(gram, X.shape[1]), ring.from_integers(agreed.initial_integers))
            gradient = ring.add(product, gradient, sign=-1)
        else:
            gradient = -gradient  # centred residues: negation needs no reduction
        constant = ring.zeros(agreed.parameters.constant_length)
        constant[:, : gradient[0].size] = gradient.reshape(len(ring.primes), -1)
        if agreed.parameters.counts_rows:
            constant[:, -1:] = ring.from_integers(np.array([len(X)]))
        self._data, self.data_used = None, True
        return gram, constant

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

    def _forget_secrets(self) -> None:
        """Also in the middle of phase 1; schemes add what they hold beyond this."""
        self._key = None
        self._noise_seed = b""
        self._data, self.data_used = None, True
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


def _limits(bounds: Bounds) -> tuple[float, float, int]:
    """What a server may choose of how rows are fitted."""
    return float(bounds.features), float(bounds.labels), bounds.samples_per_device


def _short(digest: bytes) -> str:
    return digest.hex()[:16] or "none"


def _no_data() -> tuple[Floats, Floats]:
    raise MessageRefused("the device's data were used in an earlier run: make a new device")
