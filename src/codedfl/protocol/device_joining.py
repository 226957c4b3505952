"""How a device comes into a run: it is invited, compares with its terms, joins, and accepts one agreement.

What it may take part in is what its operator agreed to (``terms``), never a matter of its rows.
"""

from __future__ import annotations

from typing import ClassVar

from codedfl.crypto import sealed
from codedfl.crypto.sealed import RunKey
from codedfl.errors import MessageRefused
from codedfl.protocol.agreement import Agreement, Invitation, Parameters
from codedfl.protocol.contribution import OwnData
from codedfl.protocol.device_session import DeviceSession
from codedfl.protocol.events import InvitationAccepted, InvitationRefused
from codedfl.protocol.messages import SERVER, Kind, Message
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.terms import DOES_NOT_TAKE_PART, Terms
from codedfl.state import PLAIN, CheckpointFields


class DeviceJoining:
    """A device until it is part of an agreement."""

    checkpoint_fields: ClassVar[CheckpointFields] = {"objection": PLAIN}

    def __init__(self, session: DeviceSession, scheme: SharingScheme, own: OwnData, terms: Terms | None) -> None:
        self._session = session
        self._scheme = scheme
        self._own = own
        self._terms = terms
        self.objection = ""  # why the invitation was refused, if it was; for the device's own log

    def on_invitation(self, message: Message) -> None:
        session = self._session
        invitation = Invitation.decode(message.run, message.body)
        message.check_signature(invitation.server_public)
        if self._terms is not None:
            self._terms.check_server(invitation.server_public)  # a stranger is not even told that this device refuses
        if session.invitation is not None and invitation != session.invitation:
            self._refuse_second(session.invitation, invitation)
        if session.agreement is not None:
            return  # it came late, or once more
        if session.key is None:
            key = RunKey.generate(session.random_bytes)
            key.shared_with(invitation.server_key)  # refuses a key that nothing can be sealed to, before it is kept
            session.key = key
            # With the join: a device set back to before it cannot be in this agreement, and one set back to after it
            # has the same noise, so that nobody can have it drawn again and average it away.
            if invitation.parameters.noise:
                self._own.draw_noise_seed(session.random_bytes)
        anew, session.invitation = session.invitation is None, invitation
        self.objection = "" if self._terms is None else self._terms.objection(invitation)
        self.objection = self.objection or self._objection(invitation.parameters)
        if self.objection:
            session.outbox.tell(InvitationRefused(self.objection))
            words = DOES_NOT_TAKE_PART.encode()
            refusal = Message(Kind.REFUSAL, message.run, b"", session.name, SERVER, words, session.identity.public)
            session.send(refusal.signed_by(session.identity))
            return
        if anew:
            session.outbox.tell(InvitationAccepted())
        run_key, public = session.key.public, session.identity.public
        signature = session.identity.sign(invitation.join_statement(session.name, run_key))
        session.send(Message(Kind.JOIN, message.run, b"", session.name, SERVER, run_key, public, signature))

    def _refuse_second(self, first: Invitation, invitation: Invitation) -> None:
        """One run and one set of parameters each: what a device does must not depend on how often it was asked."""
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
        scheme = self._scheme
        if parameters.scheme != scheme.name:
            return f"scheme must be {scheme.name!r} for this device, got {parameters.scheme!r}"
        if parameters.noise is not None and not scheme.adds_noise:
            return f"noise must be left out with {scheme.name}, whose devices add none, got {parameters.noise}"
        if parameters.reveals_gram != scheme.reveals_gram:
            return f"reveals_gram must be {scheme.reveals_gram} for this device, got {parameters.reveals_gram}"
        return self._own.objection(parameters)

    def accepts(self, message: Message) -> bool:
        """Take an agreement in; False where it is the one accepted before.

        Invariant: a device accepts one agreement per run, and only one that carries the keys it joined with. So nobody
        can make it answer once with and once without a third device.
        """
        session, invitation = self._session, self._session.invited
        session.check_from_server(message)
        if session.agreement is not None:
            if message.body == session.agreement.encoded:
                return False
            raise MessageRefused("a device accepts one agreement per run: a second, different one is refused")
        if self.objection:  # before anything of the agreement's size is allocated
            raise MessageRefused(f"the agreement breaks a rule: {self.objection}")
        if not invitation.opens(message.body):
            raise MessageRefused("the agreement must be for the invitation that this device joined: it is for another")
        agreement = Agreement.decode(message.body)
        me = agreement.member(session.name)
        if (me.identity, me.run_key) != (session.identity.public, session.sealing.public):
            raise MessageRefused(f"the agreement must carry the true keys of {session.name!r}: it carries others")
        if self._terms is not None:
            self._terms.check_set(agreement)
            if not self._scheme.lists_owners:
                self._terms.check_list([agreement.names[i] for i in agreement.owners])
        session.agreement = agreement
        return True
