"""Role keys: any z devices may collude with the server and learn the total only; most devices may fail.

The key holders are dealt into z + 1 roles, each of which has a key pair for the run (``protocol.role_key``). Owner j
draws a seed for each role and seals it to the role's key; its pad is the sum of all z + 1 expanded seeds. It uploads
U_j = X_j'X_j + R_j and V_j to the server once, and is then needed no more. A holder of role r keeps S_r, the sum of the
owners' pads of this role: the same at every holder of the role. In an epoch the server takes the first answer S_r e of
each role; they add up to the pads of all owners, and sum_j U_j e less that is X'X e, exactly. No gradient code, no
masks.

What z devices know is at most z roles; of every honest owner one seed is missing, so its upload stays padded, and the
missing role's holders only ever say something of a sum over all owners. This holds for any e, different e to different
devices and repeated questions, as long as all holders sum over one list of owners: ``owner_list`` has that rule.

Building blocks: pseudo-random secret sharing (Cramer, Damgard, Ishai 2005), seed-compressed shares (Prio3), committees
(Flamingo, OPA), straggler-resilient pseudo-random secret sharing (Benhamouda et al., TCC 2021).

Degenerate cases: z = 0 is replication of all keys at every holder, coded keys with alpha = D.
"""

from __future__ import annotations

from typing import ClassVar

from codedfl.code.roles import NO_ROLE
from codedfl.crypto import pads, sealed
from codedfl.crypto.sealed import RunKey
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.agreement import Agreement, Member
from codedfl.protocol.contribution import OwnData
from codedfl.protocol.device_session import RUN_KEY, DeviceSession
from codedfl.protocol.device_sharing import DeviceSharing
from codedfl.protocol.events import SecretsForgotten
from codedfl.protocol.messages import (
    Commitments,
    Complaint,
    Kind,
    Message,
    Secrets,
    Share,
    Unusable,
    Update,
    check_types,
    pack_list,
    unpack_list,
)
from codedfl.protocol.owner_list import OWNERS, Certificate, OwnerList
from codedfl.protocol.prepared_pad import CONSTANT, GRAM
from codedfl.protocol.role_key import check_role_key, decode_keys, signed_role_key
from codedfl.protocol.terms import Terms
from codedfl.state import MAP, PLAIN, SET, CheckpointFields, Codec


def seed_purpose(role: int) -> str:
    """What a seed of this role is committed to as."""
    return f"role-{role}"


def seed_context(agreed: Agreement, owner: str, role: int, commitments: Commitments) -> bytes:
    """What an owner's envelope for a role is bound to: nothing of it can be put beside other commitments."""
    header = Message(Kind.SHARE, agreed.run, agreed.hash, owner, seed_purpose(role))
    return header.context() + commitments.digest


class RoleDeviceSharing(DeviceSharing):
    """A device's side of role keys: an owner, a key holder, or both."""

    checkpoint_fields: ClassVar[CheckpointFields] = {
        **DeviceSharing.checkpoint_fields,
        "role_key": RUN_KEY,
        "seeds": MAP,
        "_commitments": Codec(
            lambda table: [[owner, known.fields()] for owner, known in table.items()],
            lambda saved: {owner: Commitments.from_fields(fields) for owner, fields in saved},
        ),
        "_called": PLAIN,
        "owners": OWNERS,
        "certified": PLAIN,
        "_vouched": SET,
        "_summed": SET,
    }

    def __init__(self, session: DeviceSession, own: OwnData, terms: Terms | None) -> None:
        super().__init__(session, own, terms)
        self.role_key: RunKey | None = None  # of our role; forgotten with the seeds that it opens
        self.seeds: dict[int, bytes] = {}  # seeds of our role, by owner; wiped once the first epoch is decoded
        self._summed: set[int] = set()  # owners whose pads are in the sums; our own wait until the upload is away
        self._commitments: dict[int, Commitments] = {}
        self._called = False  # the server wants to know whose seeds are here, all or not
        self.owners: OwnerList | None = None  # the list this device accepted: one per run
        self.certified = False
        self._vouched: set[int] = set()  # owners whose signature on the certified list is one on their commitments
        self.handlers |= {
            Kind.ROLE_KEY_WANTED: self._on_role_key_wanted,
            Kind.ROLE_KEY: self._on_role_key,
            Kind.ROLE_KEYS: self._on_role_keys,
            Kind.ROLL_CALL: self._on_roll_call,
            Kind.OWNERS: self._on_owners,
            Kind.CERTIFICATE: self._on_certificate,
        }

    @property
    def owner_names(self) -> tuple[str, ...]:
        """See ``DeviceSharing``; here the list that was signed."""
        return () if self.owners is None else self.owners.names

    # -- as an owner

    @property
    def _role(self) -> int:
        return self._session.agreed.roles[self._session.position]

    def begin(self) -> None:
        agreed, helper = self._session.agreed, self._own.helper
        if not agreed.roles or (self._session.position in agreed.helpers) != helper:
            raise MessageRefused("the agreement must say rightly who has data and who holds keys: it does not")
        if self._role != NO_ROLE:
            self._start_sums()

    def _on_role_keys(self, message: Message) -> None:
        """Upload, once: to keys that enough holders of each role, in this agreement, have signed.

        A holder whose sums are over a certified list comes too late to be on it, and sends nothing.
        """
        agreed = self._session.agreed
        if self._own.used or self._own.helper or self.ready:
            return
        keys = decode_keys(message.body, agreed)
        for role, key in enumerate(keys):
            if role != self._role or self.role_key is None or self.role_key.public != key.public:
                key.check(agreed, role)  # but for the one that we have ourselves
        self._upload([key.public for key in keys])
        self._report()

    def _upload(self, role_keys: list[bytes]) -> None:
        """One message: the padded data for the server, a seed sealed to each role's key, a commitment to each seed.

        With z >= 1 the padded data travel as they are: whoever has at most z roles, listener or server, reads nothing
        from them, and the message's signature is over run, agreement, commitments and the SHA-256 of these bytes. With
        z = 0 every holder has the whole pad, so they are sealed to the server.

        Invariant: seeds pad one table. In the turn that uses the contribution up they are drawn, or taken out of the
        memory of this process, and this message is saved with the state before it leaves: what comes again is the same
        byte for byte, or has fresh seeds. A changed table under the same seeds would show its difference to every
        listener.
        """
        session, agreed = self._session, self._session.agreed
        pad = self._pad()
        seeds, padded = pad.seeds, pad.padded(self._own_statistics())
        bulk, for_server = (padded, None) if agreed.parameters.colluders else self._encrypted(padded)
        purposes = {seed_purpose(role): seed for role, seed in enumerate(seeds)}
        commitments = Commitments.to(purposes, session.name, agreed.hash, session.identity)
        envelopes = {
            seed_purpose(role): self._sealed_seed(role_keys[role], role, seed, commitments)
            for role, seed in enumerate(seeds)
        }
        self._commitments[session.position] = commitments
        if self._role != NO_ROLE:
            self._take_seed(session.position, seeds[self._role], commitments)
        self._send_shares(commitments, envelopes, bulk, for_server)

    def _sealed_seed(self, role_key: bytes, role: int, seed: bytes, commitments: Commitments) -> bytes:
        session = self._session
        context = seed_context(session.agreed, session.name, role, commitments)
        return sealed.seal(session.sealing, role_key, context, Secrets(pad=seed).encode(), session.random_bytes)

    # -- as a holder: the key of our role

    def _on_role_key_wanted(self, message: Message) -> None:
        """Draw the key of our role unless we have one, sign it, and seal its private half to these co-holders.

        Invariant: the private half goes to holders of this role only, to the run keys that they joined with. So it does
        not matter who asks. Joins of others are not looked at: whose signature on this agreement counts, has found its
        own keys in it.
        """
        session, agreed = self._session, self._session.agreed
        names = unpack_list(message.body, "receivers", most=agreed.n_devices + 1)
        check_types(names, (str,) * len(names), "receivers")
        if self._role == NO_ROLE or (self.ready and self.role_key is None):
            return
        for name in names:
            if agreed.roles[agreed.position(name)] != self._role or name == session.name:
                raise MessageRefused(f"the key of a role goes to its other holders only, got {name!r}")
            agreed.member(name).check(agreed.invitation)
        key = self.role_key or RunKey.generate(session.random_bytes)
        self.role_key = key
        envelopes = [[name, session.seal_for(agreed.position(name), key.secret, Kind.ROLE_KEY)] for name in names]
        signature = signed_role_key(session.identity, agreed, self._role, key.public)
        body = pack_list([key.public, signature, envelopes])
        session.send(session.to_server(Kind.ROLE_KEY, body).signed_by(session.identity))

    def _on_role_key(self, message: Message) -> None:
        """Take the key of our role from a co-holder, and say so."""
        session, agreed = self._session, self._session.agreed
        session.check_from_server(message)  # what was damaged on the way may come again
        fields = unpack_list(message.body, "a role key")
        public, signature, envelope = check_types(fields, (bytes, bytes, bytes), "a role key")
        if self._role == NO_ROLE or self.ready:
            return
        giver = agreed.member(message.sender)
        check_role_key(giver.name, signature, agreed, self._role, public)
        try:  # who signed a key and seals another one, or none, is not taken at its word; another may have it
            key = RunKey(sealed.open_sealed(session.sealing, giver.run_key, message.context(), envelope))
        except (MessageRefused, InvalidInput):
            key = None
        if key is None or key.public != public:
            session.send_sealed(Kind.COMPLAINT, Complaint(giver.name, Unusable.NO_KEY).encode())
            return
        self.role_key = key
        signature = signed_role_key(session.identity, agreed, self._role, public)
        session.send(session.to_server(Kind.ROLE_KEY_HELD, pack_list([public, signature])))

    # -- as a holder: seeds

    def _opened(self, message: Message, share: Share, author: Member) -> bytes:
        del message  # its receivers are all holders of the role
        if self.role_key is None:
            raise MessageRefused("the key of this device's role must come before what is sealed to it, got none")
        context = seed_context(self._session.agreed, author.name, self._role, share.commitments)
        return sealed.open_sealed(self.role_key, author.run_key, context, share.envelope)

    def _expects(self, sender: int) -> bool:
        return self._role != NO_ROLE and sender in self._session.agreed.owners

    def _has(self, sender: int) -> bool:
        """Once training has begun here, what was not complete by then stays out."""
        return sender in self.seeds or self.ready

    def _take(self, sender: int, secrets: Secrets, commitments: Commitments, bulk: bytes) -> Unusable | None:
        del bulk  # nothing bulky comes down in this scheme
        try:
            self._take_seed(sender, secrets.pad, commitments)
        except MessageRefused:
            return Unusable.NOT_COMMITTED
        return None

    def _taken(self) -> None:
        self._sum_up()
        self._report()
        self._announce_if_ready()

    def _take_seed(self, owner: int, seed: bytes, commitments: Commitments) -> None:
        """Check a seed of our role against its owner's commitment, and keep it.

        Invariant: each seed fits the commitments that the list names, and when the sums are used they hold the pads of
        exactly the owners in ``seeds``. So all holders of a role sum the same.
        """
        name, agreed = self._session.agreed.names[owner], self._session.agreed
        if not seed:
            raise MessageRefused(f"the share of {name!r} must bring a seed, got none")
        commitments.check({seed_purpose(self._role): seed}, name, agreed.hash)
        listed = {} if self.owners is None else {one.name: one.commitments for one in self.owners.owners}
        if listed.get(name, commitments.digest) != commitments.digest:
            raise MessageRefused(f"the commitments of {name!r} must be those listed: they are others")
        self._commitments[owner] = commitments
        self.seeds[owner] = seed

    def _sum_up(self) -> None:
        """Add the pads of the seeds that came since; our own with the first of the others', or at the end."""
        for owner in sorted(set(self.seeds) - self._summed):
            self._add_pads(1, self.seeds[owner])
            self._summed.add(owner)

    def _drop_seed(self, owner: int) -> None:
        seed = self.seeds.pop(owner)
        if owner in self._summed:
            self._add_pads(-1, seed)
            self._summed.remove(owner)
        del self._commitments[owner]

    def _add_pads(self, sign: int, seed: bytes) -> None:
        """Add what a seed expands to in our rows to the two sums, or take it off."""
        assert self.gram_sum is not None and self.constant_sum is not None
        session, rows = self._session, self._session.agreed.answer_rows
        for total, pieces, label in (
            (self.gram_sum, rows.gram_pieces(self._kept), GRAM),
            (self.constant_sum, rows.constant_pieces(self._kept), CONSTANT),
        ):
            pads.add_pieces(session.agreed.ring, total, pieces, [(sign, seed)], label)

    def _report(self) -> None:
        """When all seeds are here; after a roll call, whenever one more is."""
        complete = set(self.seeds) == set(self._session.agreed.owners)
        if self._role != NO_ROLE and (complete or self._called):
            self._send_holds()

    def _on_roll_call(self, message: Message) -> None:
        self._session.check_from_server(message)
        if self._role != NO_ROLE and not self.ready:
            self._called = True
            self._send_holds()

    def _send_holds(self) -> None:
        names = self._session.agreed.names
        self._session.send_sealed(Kind.HOLDS, pack_list([names[j] for j in sorted(self.seeds)]))

    # -- the list

    def _on_owners(self, message: Message) -> None:
        """Invariant: a device signs one list per run, whatever the server shows it and however often."""
        self._session.check_from_server(message)
        session, listed = self._session, self.owners
        if listed is None:
            listed = OwnerList.decode(message.body, session.agreed)
            self._check_owners(listed)
            self.owners = listed
        elif message.body != listed.encoded:
            raise MessageRefused("a device signs one list of owners per run: a second, different one is refused")
        signature = listed.signed_by(session.identity, session.agreed)
        session.send(session.to_server(Kind.SIGNATURE, pack_list([listed.digest, signature])))

    def _check_owners(self, owners: OwnerList) -> None:
        """Never few: a victim and z colluders alone would make the total the victim's; noise is a sum over owners.

        Invariant: what is signed names our own commitments, so that this signature is one on them.
        """
        agreed, session = self._session.agreed, self._session
        least = agreed.parameters.least_owners
        if len(owners.owners) < least:
            raise MessageRefused(f"at least {least} owners must be in the total, got {len(owners.owners)}")
        if self._terms is not None:
            self._terms.check_list(owners.names)
        if session.name in owners.names and session.position not in self._commitments:
            raise MessageRefused("the list must not name this device, which has not uploaded: it does")
        for owner in owners.owners:
            known = self._commitments.get(agreed.position(owner.name))
            if known is not None and known.digest != owner.commitments:
                raise MessageRefused(f"the list must name the commitments of {owner.name!r} known here: it has others")

    def _on_certificate(self, message: Message) -> None:
        agreed = self._session.agreed
        if self.owners is None:
            raise MessageRefused("a list of owners must come before its certificate, got none")
        if not self.certified:
            certificate = Certificate.decode(message.body)
            certificate.check(self.owners, agreed, signed_by=self._session.name)
            self._vouched = {agreed.position(name) for name in certificate.signatures} | {self._session.position}
            self.certified = True
            self._announce_if_ready()

    def _announce_if_ready(self) -> None:
        """Invariant: nothing made of the sums leaves before the list is certified, and then they are over the list.

        Every listed owner has then signed its commitments for this agreement: by its signature on the list, which names
        them, or on themselves. Pads of owners left out come off first.
        """
        if not self.certified or self.ready:
            return
        agreed = self._session.agreed
        listed = {agreed.position(name) for name in self.owner_names}
        if not listed <= set(self.seeds):
            return
        for owner in sorted(listed - self._vouched):
            member = agreed.members[owner]
            try:
                self._commitments[owner].check_signature(member.name, agreed.hash, member.identity)
            except MessageRefused:
                self._drop_seed(owner)
                self._session.send_sealed(Kind.COMPLAINT, Complaint(member.name, Unusable.NOT_COMMITTED).encode())
                return
            self._vouched.add(owner)
        for owner in sorted(set(self.seeds) - listed):
            self._drop_seed(owner)
        self._sum_up()
        self._finish_sums()
        self._session.send_sealed(Kind.READY, b"")

    # -- training

    def answered(self, update: Update) -> None:
        """When a second is asked the first is decoded: then even z + 1 corrupted holders yield only the total."""
        if update.packed and self.seeds:
            self.seeds, self.role_key = {}, None
            self._session.outbox.tell(SecretsForgotten())

    def forget(self) -> None:
        super().forget()
        self.role_key, self.seeds, self._commitments = None, {}, {}
