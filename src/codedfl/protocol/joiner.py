"""How a device comes into a run: it is invited, compares with its terms, joins, and accepts one agreement.

The first of a device's concerns (``device`` has the rest), as ``convener`` is the server's. What it may take part in is
what its operator agreed to (``terms``), never a matter of its rows.
"""

from __future__ import annotations

import secrets as system_random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from codedfl.crypto import sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import NONCE_BYTES, Agreement, Invitation, Parameters
from codedfl.protocol.contribution import Contribution, Fit
from codedfl.protocol.messages import (
    MAX_NAME,
    SERVER,
    Kind,
    Message,
    name_length,
    pack_list,
)
from codedfl.protocol.terms import DOES_NOT_TAKE_PART, Terms
from codedfl.state import PLAIN, Kept, Resumable, optional
from codedfl.typing import RandomBytes


class Joiner(Resumable, ABC):
    """The device until it is part of an agreement; see ``Device`` for the arguments."""

    scheme: ClassVar[str]
    reveals_gram: ClassVar[bool] = False  # whether it lets the server have the total of X'X itself
    lists_owners: ClassVar[bool] = False  # whether owners of the agreement may be left out of the total
    adds_noise: ClassVar[bool] = False  # whether one upload is all that ever depends on the rows, so that noise hides
    _kept: ClassVar[Mapping[str, Kept]] = {
        "data_used": PLAIN,
        "fit": Kept(list, lambda saved: Fit(*saved)),
        "_invitation": optional(
            Kept(lambda invitation: [invitation.run, invitation.encoded], lambda saved: Invitation.decode(*saved))
        ),
        "_key": optional(Kept(lambda key: key.secret, RunKey)),
        "_nonce": PLAIN,
        "_noise_seed": PLAIN,
        "objection": PLAIN,
        "_agreement": optional(Kept(lambda agreement: agreement.encoded, Agreement.decode)),
    }

    def __init__(
        self,
        name: str,
        contribution: Contribution | None,
        terms: Terms | None = None,
        *,
        identity: Identity | None = None,
        noise_seed: bytes = b"",
        random_bytes: RandomBytes = system_random.token_bytes,
    ) -> None:
        if not 1 <= name_length(name) <= MAX_NAME:
            raise InvalidInput(f"name must have 1 to {MAX_NAME} bytes, got {name_length(name)}")
        if terms is not None and terms.parameters.noise is not None and contribution is not None and not noise_seed:
            raise InvalidInput("noise_seed must be given with terms, or many runs would average noise away, got none")
        self.name = name
        self._contribution = contribution
        self._terms = terms
        self.data_used = False
        self.fit = Fit()  # what did not fit the public bounds; for the device's own log
        self.identity = identity or Identity.generate(random_bytes)
        self._random_bytes = random_bytes
        self._invitation: Invitation | None = None
        self._key: RunKey | None = None
        self._nonce = b""
        self._noise_seed = noise_seed  # else drawn and kept before the join leaves; forgotten once the upload is made
        self.objection = ""  # why the invitation was refused, if it was; for the device's own log
        self._agreement: Agreement | None = None

    @property
    def run(self) -> bytes:
        """The id of the run that this device was invited to; empty before."""
        return b"" if self._invitation is None else self._invitation.run

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

    def _on_invitation(self, message: Message) -> list[Message]:
        invitation = Invitation.decode(message.run, message.body)
        server_public = invitation.server_public
        message.check_signature(server_public)
        if self._terms is not None:
            self._terms.check_server(server_public)  # a stranger is not even told that this device refuses
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
            if invitation.parameters.noise and not self._noise_seed:
                self._noise_seed = self._random_bytes(SEED_BYTES)
        self._invitation = invitation
        self.objection = "" if self._terms is None else self._terms.objection(invitation)
        self.objection = self.objection or self._objection(invitation.parameters)
        if self.objection:
            words = DOES_NOT_TAKE_PART.encode()
            refusal = Message(Kind.REFUSAL, message.run, b"", self.name, SERVER, words, self.identity.public)
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
        """Why this device cannot take part in such a run; empty when it can. Never a matter of its rows."""
        if parameters.scheme != self.scheme:
            return f"scheme must be {self.scheme!r} for this device, got {parameters.scheme!r}"
        if parameters.noise is not None and not self.adds_noise:
            return f"noise must be left out with {self.scheme}, whose devices add none, got {parameters.noise}"
        if parameters.reveals_gram != self.reveals_gram:
            return f"reveals_gram must be {self.reveals_gram} for this device, got {parameters.reveals_gram}"
        return self._without_data if self._contribution is None else self._contribution.objection(parameters)

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
        if not invitation.opens(message.body):
            raise MessageRefused("the agreement must be for the invitation that this device joined: it is for another")
        agreement = Agreement.decode(message.body)
        me = agreement.member(self.name)
        if (me.identity, me.run_key, me.nonce) != (self.identity.public, self._sealing.public, self._nonce):
            raise MessageRefused(f"the agreement must carry the true keys of {self.name!r}: it carries others")
        if self._terms is not None:
            self._terms.check_set(agreement)
            if not self.lists_owners:
                self._terms.check_list([agreement.names[i] for i in agreement.owners])
        self._agreement = agreement
        try:
            return self._begin_sharing()
        except Exception:
            self._agreement = None  # nothing has left: the same agreement may come again
            raise

    @abstractmethod
    def _begin_sharing(self) -> list[Message]:
        """Called once, when the agreement is accepted."""

    @property
    def _own(self) -> Contribution:
        if self._contribution is None:
            raise MessageRefused(self._without_data)
        return self._contribution

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
        return self._agreed.ring

    @property
    def _position(self) -> int:
        return self._agreed.position(self.name)
