"""A device as a state machine: takes a message, returns messages, does no I/O and reads no clock.

This is everything the coded schemes share: joining, the frozen agreement, mask seeds, and phase 2 (paper IV-C).
What they do differently, phase 1, is in ``codedfl.schemes``. After phase 1 a device holds ``linear`` (d x d) and
``constant`` on the ring, whatever the scheme, and answers an update e with

    linear e + masks          (paper: C_i + Cbar_i e)

or, when the update has no numbers, with constant + masks: the server adds the two up once it knows the totals.
"""

from __future__ import annotations

import hashlib
import secrets as system_random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from codedfl.code.masks import combined_mask, mask_receivers, mask_senders
from codedfl.crypto import sealed
from codedfl.crypto.pads import RUN_ID_BYTES, SEED_BYTES
from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import Agreement, Parameters
from codedfl.protocol.local_data import checked_rows, objection_of_rows
from codedfl.protocol.messages import (
    MAX_NAME,
    SERVER,
    Answer,
    Complaint,
    Kind,
    Message,
    Secrets,
    Unusable,
    Update,
    check_types,
    encode_envelopes,
    name_length,
    unpack_list,
)
from codedfl.state import MAP, PLAIN, TUPLE, Kept, Resumable, optional
from codedfl.typing import Floats, Planes, RandomBytes


class Device(Resumable, ABC):
    """One device's side of a coded scheme.

    Parameters
    ----------
    name: unique in the run, at most 64 bytes.
    X, Y: local features (n_i x d) and labels (n_i x c); finite, at least one row. Dropped once phase 1 used them.
        None for a device that is going to be restored from a state past that (``data_used``).
    identity: long-term keys; drawn anew when None.
    server_public: the server's pinned public key; None trusts the first invitation.
    roster: pinned public keys of other devices by name. With it a lying relay is caught: a key that differs is
        refused, and so is a device that is not on it. None trusts the server's word.
    min_participants: refuses a smaller set. Below two, the "total" would be one device's own data.
    allow_unmasked: takes part in a run without masks; only for experiments that show what they prevent.
    random_bytes: source of all secrets; replaced only in tests and simulations that must be repeatable.
    """

    scheme: ClassVar[str]
    reveals_gram: ClassVar[bool] = False  # whether it lets the server have the total of X'X itself
    # Save the state before an answer leaves: a device that forgot it might answer the same epoch for a second e.
    _kept: ClassVar[Mapping[str, Kept]] = {
        "data_used": PLAIN,
        "_run": PLAIN,
        "_server_public": PLAIN,
        "_invited": PLAIN,
        "objection": PLAIN,
        "_agreement": optional(Kept(lambda agreement: agreement.encoded, Agreement.decode)),
        "_mask_seeds": MAP,
        "_answered": TUPLE,
        "linear": PLAIN,
        "constant": PLAIN,
        "finished": PLAIN,
    }

    def __init__(
        self,
        name: str,
        X: ArrayLike | None,
        Y: ArrayLike | None,
        *,
        identity: Identity | None = None,
        server_public: bytes | None = None,
        roster: Mapping[str, bytes] | None = None,
        min_participants: int = 2,
        allow_unmasked: bool = False,
        random_bytes: RandomBytes = system_random.token_bytes,
    ) -> None:
        if not 1 <= name_length(name) <= MAX_NAME:
            raise InvalidInput(f"name must have 1 to {MAX_NAME} bytes, got {name_length(name)}")
        self.name = name
        self._data = None if X is None or Y is None else checked_rows(name, X, Y)
        self.data_used = False
        self.identity = identity or Identity.generate(random_bytes)
        self._pinned_server = server_public
        self._roster = roster
        self._min_participants = max(2, min_participants)
        self._allow_unmasked = allow_unmasked
        self._random_bytes = random_bytes
        self._run = b""
        self._server_public = b""
        self._invited = b""  # the parameters of the invitation, as they came
        self.objection = ""  # why it was refused, if it was
        self._agreement: Agreement | None = None
        self._mask_seeds: dict[int, bytes] = {}
        self._prepared_mask: tuple[int, Planes] | None = None
        self._answered: tuple[int, bytes, bytes] = (0, b"", b"")  # epoch, digest of its update, what was sent
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
        message = Message.decode(data)
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
        elif self._data is None:
            raise InvalidInput(f"X and Y of {self.name!r} must be given, the state is from before their use, got None")

    @property
    def _owner(self) -> list[Any]:
        return [self.scheme, self.name, self.identity.public]

    def idle(self) -> None:
        """Expand the masks of the next epoch ahead of its update, so that they cost no waiting."""
        if self.ready and not self.finished:
            p = self._agreed.parameters
            epoch = self._answered[0] + 1
            self._prepared_mask = (epoch, self._mask(epoch, p.answer_length(epoch)))

    def _handlers(self) -> dict[Kind, Callable[[Message], list[Message]]]:
        return {
            Kind.INVITATION: self._on_invitation,
            Kind.AGREEMENT: self._on_agreement,
            Kind.SHARE: self._on_share,
            Kind.UPDATE: self._on_update,
            Kind.FINISH: self._on_finish,
        }

    def _check_run(self, message: Message) -> None:
        if message.run != self._run:
            raise MessageRefused(f"the run must be {self._run.hex() or 'none yet'}, got {message.run.hex()[:32]}")
        known = self._agreement.hash if self._agreement else b""
        if message.kind is not Kind.AGREEMENT and message.agreement != known:
            raise MessageRefused("the message must belong to the agreement this device accepted: it names another")

    # -- joining

    def _on_invitation(self, message: Message) -> list[Message]:
        fields = check_types(unpack_list(message.body, "an invitation"), (bytes, bytes), "an invitation")
        server_public, parameters = fields[0], Parameters.decode(fields[1])
        if self._pinned_server is not None and server_public != self._pinned_server:
            raise MessageRefused(
                f"the server's key must be the pinned {sealed.fingerprint(self._pinned_server)},"
                f" got {sealed.fingerprint(server_public)}"
            )
        message.check_signature(server_public)
        if self._run and self._run != message.run:
            raise MessageRefused(
                f"this device is in run {self._run.hex()} already: one run each, got {message.run.hex()[:32]}"
            )
        if self._run and self._server_public != server_public:
            raise MessageRefused(
                f"the server's key must stay that of the first invitation, {sealed.fingerprint(self._server_public)},"
                f" got {sealed.fingerprint(server_public)}"
            )
        if len(message.run) != RUN_ID_BYTES:
            raise MessageRefused(f"a run id must have {RUN_ID_BYTES} bytes, got {len(message.run)}")
        if self._agreement is not None:
            return []  # it came late, or once more
        self.identity.shared_with(server_public)  # refuses a key that nothing can be sealed to, before it is kept
        self._run, self._server_public, self._invited = message.run, server_public, fields[1]
        self.objection = self._objection(parameters)
        if self.objection:
            return [self._to_server(Kind.REFUSAL, self.objection.encode(), attachment=self.identity.public)]
        return [self._to_server(Kind.JOIN, b"", attachment=self.identity.public)]

    def _objection(self, parameters: Parameters) -> str:
        """Why this device cannot take part; empty when it can."""
        if parameters.scheme != self.scheme:
            return f"scheme must be {self.scheme!r} for this device, got {parameters.scheme!r}"
        if parameters.reveals_gram != self.reveals_gram:
            return f"reveals_gram must be {self.reveals_gram} for this device, got {parameters.reveals_gram}"
        if not parameters.masks and not self._allow_unmasked:
            return "masks must be on for this device, got off"
        if self._data is None:
            return "the device's data were used in an earlier run: make a new device"
        return objection_of_rows(parameters, *self._data)

    def _on_agreement(self, message: Message) -> list[Message]:
        message.check_signature(self._server_public)
        if self._agreement is not None:
            if message.body == self._agreement.encoded:
                return []  # the same once more
            raise MessageRefused("a device accepts one agreement a run: a second, different one is refused")
        if self.objection:  # before anything of the agreement's size is allocated
            raise MessageRefused(f"the agreement breaks a rule: {self.objection}")
        if unpack_list(message.body, "an agreement")[:1] != [self._invited]:
            raise MessageRefused("the agreement must have the parameters of the invitation: it has others")
        agreement = Agreement.decode(message.body)
        if agreement.run != self._run or agreement.server_public != self._server_public:
            raise MessageRefused("the agreement must be for this run and this server: it is for another")
        if agreement.n_devices < self._min_participants:
            raise MessageRefused(f"at least {self._min_participants} devices must take part, got {agreement.n_devices}")
        if agreement.public_of(self.name) != self.identity.public:
            raise MessageRefused(f"the agreement must carry the true key of {self.name!r}: it carries another")
        self._check_roster(agreement)
        self._agreement = agreement
        self._mask_seeds = {agreement.position(self.name): self._random_bytes(SEED_BYTES)}
        return self._begin_sharing()

    def _check_roster(self, agreement: Agreement) -> None:
        if self._roster is None:
            return
        for name, public in zip(agreement.names, agreement.publics, strict=True):
            pinned = self._roster.get(name)
            if pinned is None and name != self.name:
                raise MessageRefused(f"every participant must be on the roster, got {name!r}")
            if pinned is not None and pinned != public:
                raise MessageRefused(
                    f"the key of {name!r} must be the pinned {sealed.fingerprint(pinned)},"
                    f" got {sealed.fingerprint(public)}: the relay may be lying"
                )

    # -- phase 1: hooks for the schemes

    @abstractmethod
    def _begin_sharing(self) -> list[Message]:
        """Called once, when the agreement is accepted."""

    @abstractmethod
    def _take_secrets(self, sender: int, secrets: Secrets, bulk: bytes) -> None:
        """Keep what device ``sender`` shared, beyond its mask seed. Called once per sender."""

    @abstractmethod
    def _shares_complete(self) -> bool:
        """Whether ``linear`` and ``constant`` can be finished."""

    @abstractmethod
    def _finish_sharing(self) -> None:
        """Set ``linear`` and ``constant``."""

    @property
    def _agreed(self) -> Agreement:
        if self._agreement is None:
            raise MessageRefused("an agreement must come first, got a later message")
        return self._agreement

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
        if np.any(agreed.initial_integers):
            product = ring.product(ring.symmetric(gram, X.shape[1]), ring.from_integers(agreed.initial_integers))
            gradient = ring.add(product, gradient, sign=-1)
        else:
            gradient = -gradient  # centred residues: negation needs no reduction
        constant = ring.zeros(agreed.parameters.constant_length)
        constant[:, : gradient[0].size] = gradient.reshape(len(ring.primes), -1)
        if agreed.parameters.samples is None:
            constant[:, -1:] = ring.from_integers(np.array([len(X)]))
        self._data, self.data_used = None, True
        return gram, constant

    def _shares(self, secrets_for: Callable[[int], Secrets], bulk: bytes, extra: dict[str, bytes]) -> Message:
        """The SHARES message: secrets sealed to every device that needs our mask seed, and the bulk beside.

        The receivers of the mask seed include all of our column, so they are all there is. ``extra`` holds
        envelopes for the server.
        """
        agreed = self._agreed
        mask = self._mask_seeds[self._position]
        envelopes = dict(extra)
        for i in mask_receivers(agreed.code, self._position):
            if i == self._position:
                continue
            found = secrets_for(i)
            secrets = Secrets(mask, found.pad, found.content_key, found.digest)
            header = Message(Kind.SHARE, self._run, agreed.hash, self.name, agreed.names[i])
            envelopes[agreed.names[i]] = self._seal(agreed.publics[i], header, secrets.encode())
        return self._to_server(Kind.SHARES, encode_envelopes(envelopes), attachment=bulk).signed_by(self.identity)

    def _on_share(self, message: Message) -> list[Message]:
        agreed = self._agreed
        sender = agreed.position(message.sender)
        if sender not in mask_senders(agreed.code, self._position):
            raise MessageRefused(f"{message.sender!r} must not share with {self.name!r} under this code, but did")
        if sender in self._mask_seeds:
            return []  # a repeated share changes nothing
        plaintext = sealed.open_sealed(self.identity, agreed.publics[sender], message.context(), message.body)
        try:  # from here on it is the sender's own doing, not the relay's
            secrets = Secrets.decode(plaintext)
        except MessageRefused:
            return [self._complain(message.sender, Unusable.MALFORMED)]
        if not secrets.mask:
            return [self._complain(message.sender, Unusable.NO_MASK)]
        try:
            self._take_secrets(sender, secrets, message.attachment)
        except MessageRefused:
            return [self._complain(message.sender, Unusable.NO_DATA)]
        self._mask_seeds[sender] = secrets.mask
        return self._announce_if_ready()

    def _complain(self, sender: str, reason: Unusable) -> Message:
        """Without this share we never get ready: the server must know whose fault it is."""
        return self._to_server(Kind.COMPLAINT, Complaint(sender, reason).encode())

    def _announce_if_ready(self) -> list[Message]:
        agreed = self._agreed
        if self.ready or not self._shares_complete():
            return []
        if not set(mask_senders(agreed.code, self._position)) <= set(self._mask_seeds):
            return []
        self._finish_sharing()
        return [self._to_server(Kind.READY, b"")]

    # -- phase 2

    def _on_update(self, message: Message) -> list[Message]:
        message.check_signature(self._server_public)
        update = Update.decode(message.body)
        digest = hashlib.sha256(message.body).digest()
        last_epoch, last_digest, last_answer = self._answered
        if update.epoch == last_epoch:
            if digest != last_digest:
                raise MessageRefused(f"epoch {last_epoch} must be answered for one update only, got a second one")
            return [self._answer_message(last_answer)]  # asked again: the very same answer
        if update.epoch < last_epoch:
            raise MessageRefused(f"the epoch must be later than {last_epoch}, got {update.epoch}")
        if self.linear is None or self.constant is None:
            raise MessageRefused("shares must be complete before an update: some are missing")
        answer = Answer(update.epoch, digest, self._ring.pack(self._masked_answer(update))).encode()
        self._answered = (update.epoch, digest, answer)
        return [self._answer_message(answer)]

    def _masked_answer(self, update: Update) -> Planes:
        assert self.linear is not None and self.constant is not None
        ring, p = self._ring, self._agreed.parameters
        count = p.answer_length(2 if update.packed else 1)
        # Unpacked first: a damaged update must not cost the prepared mask.
        e = ring.unpack(update.packed, p.n_features, p.n_outputs) if update.packed else None
        epoch, mask = self._prepared_mask or (0, ring.zeros(0))
        self._prepared_mask = None
        answer = mask if (epoch, mask.shape[1]) == (update.epoch, count) else self._mask(update.epoch, count)
        one = [[1]] * len(ring.primes)
        if e is None:
            ring.add_scaled(answer, one, [self.constant])
        else:
            product = ring.product(self.linear, e).reshape(len(ring.primes), -1)
            ring.add_scaled(answer[:, : product.shape[1]], one, [product])
        return answer

    def _mask(self, epoch: int, count: int) -> Planes:
        agreed = self._agreed
        if not agreed.parameters.masks:
            return self._ring.zeros(count)
        return combined_mask(self._ring, agreed.code, self._position, self._mask_seeds, self._run, epoch, count)

    def _on_finish(self, message: Message) -> list[Message]:
        """Forget every secret of the run."""
        message.check_signature(self._server_public)
        self.finished = True
        self._forget_secrets()
        return []

    def _forget_secrets(self) -> None:
        """Also in the middle of phase 1; schemes add what they hold beyond this."""
        self._mask_seeds = {}
        self._prepared_mask = None
        self._data, self.data_used = None, True
        self.linear = self.constant = None

    # -- writing to the server

    def _answer_message(self, answer: bytes) -> Message:
        header = self._to_server(Kind.ANSWER, b"")
        return header.with_body(self._seal(self._server_public, header, answer))

    def _to_server(self, kind: Kind, body: bytes, attachment: bytes = b"") -> Message:
        agreement = self._agreement.hash if self._agreement else b""
        header = Message(kind, self._run, agreement, self.name, SERVER, attachment=attachment)
        if kind in (
            Kind.JOIN,
            Kind.REFUSAL,
            Kind.READY,
            Kind.COMPLAINT,
        ):  # small: sealed here, so that the server knows the author
            return header.with_body(self._seal(self._server_public, header, body))
        return header.with_body(body)

    def _seal(self, receiver: bytes, header: Message, plaintext: bytes) -> bytes:
        return sealed.seal(self.identity, receiver, header.context(), plaintext, self._random_bytes)


def _no_data() -> tuple[Floats, Floats]:
    raise MessageRefused("the device's data were used in an earlier run: make a new device")
