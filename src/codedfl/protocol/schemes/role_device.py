"""Role keys: any z devices may collude with the server and learn the total only; most devices may fail.

The key holders are dealt into z + 1 roles. Owner j draws a seed for each role and seals it to the role's holders; its
pad is the sum of all z + 1 expanded seeds. It uploads U_j = X_j'X_j + R_j and V_j to the server once, and is then
needed no more. A holder of role r keeps S_r, the sum of the owners' pads of this role: the same at every holder of
the role. In an epoch the server takes the first answer S_r e of each role; they add up to the pads of all owners, and
sum_j U_j e less that is X'X e, exactly. No gradient code, no masks.

What z devices know is at most z roles; of every honest owner one seed is missing, so its upload stays padded, and the
missing role's holders only ever say something of a sum over all owners. This holds for any e, different e to different
devices and repeated questions, as long as all holders sum over one list of owners: ``owner_list`` has that rule.

Building blocks: pseudo-random secret sharing (Cramer, Damgard, Ishai 2005), seed-compressed shares (Prio3), committees
(Flamingo, OPA), straggler-resilient pseudo-random secret sharing (Benhamouda et al., TCC 2021).

Degenerate cases: z = 0 is replication of all keys at every holder, coded keys with alpha = D.
"""

from __future__ import annotations

from typing import ClassVar

from codedfl.code.roles import NO_ROLE, RoleCode
from codedfl.crypto import pads, sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.errors import MessageRefused
from codedfl.protocol.agreement import MOST_COLLUDERS
from codedfl.protocol.contribution import OwnData
from codedfl.protocol.device_session import DeviceSession
from codedfl.protocol.device_sharing import CONSTANT, GRAM, DeviceSharing
from codedfl.protocol.events import SecretsForgotten
from codedfl.protocol.messages import (
    Commitments,
    Kind,
    Message,
    Secrets,
    Unusable,
    Update,
    check_types,
    pack_list,
    unpack_list,
)
from codedfl.protocol.owner_list import Certificate, OwnerList
from codedfl.protocol.terms import Terms
from codedfl.state import MAP, PLAIN, CheckpointFields, Codec

SEED_FIELDS = 16 + 3 * (MOST_COLLUDERS + 1)  # fields of a message with a commitment for every role


def seed_purpose(role: int) -> str:
    """What a seed of this role is committed to as."""
    return f"role-{role}"


class RoleDeviceSharing(DeviceSharing):
    """A device's side of role keys: an owner, a key holder, or both."""

    checkpoint_fields: ClassVar[CheckpointFields] = {
        **DeviceSharing.checkpoint_fields,
        "seeds": MAP,
        "_commitments": Codec(
            lambda table: [[owner, known.fields()] for owner, known in table.items()],
            lambda saved: {owner: Commitments.from_fields(fields) for owner, fields in saved},
        ),
        "_called": PLAIN,
        "owners": PLAIN,
        "certified": PLAIN,
    }

    def __init__(self, session: DeviceSession, own: OwnData, terms: Terms | None) -> None:
        super().__init__(session, own, terms)
        self.seeds: dict[int, bytes] = {}  # seeds of our role, by owner; wiped once the first epoch is decoded
        self._commitments: dict[int, Commitments] = {}
        self._called = False  # the server wants to know whose seeds are here, all or not
        self.owners = b""  # the list this device accepted: one per run
        self.certified = False
        self.handlers |= {
            Kind.ROLL_CALL: self._on_roll_call,
            Kind.OWNERS: self._on_owners,
            Kind.CERTIFICATE: self._on_certificate,
            Kind.SEED_WANTED: self._on_seed_wanted,
            Kind.SEED: self._on_seed,
        }

    @property
    def owner_names(self) -> tuple[str, ...]:
        """See ``DeviceSharing``; here the list that was signed."""
        return self._listed.names if self.owners else ()

    # -- as an owner

    @property
    def _role(self) -> int:
        return self._session.agreed.roles[self._session.position]

    @property
    def _roles(self) -> RoleCode:
        code = self._session.agreed.answer_code
        assert isinstance(code, RoleCode)
        return code

    def begin(self) -> None:
        agreed, helper = self._session.agreed, self._own.helper
        if not agreed.roles or (self._session.position in agreed.helpers) != helper:
            raise MessageRefused("the agreement must say rightly who has data and who holds keys: it does not")
        if self._role != NO_ROLE:
            self._start_sums()
        if not helper:
            self._upload()
            self._report()

    def _upload(self) -> None:
        """One message: the padded data for the server, a seed sealed to every holder, a commitment to each seed.

        With z >= 1 the padded data travel as they are: whoever has at most z roles, listener or server, reads nothing
        from them, and the message's signature is over run, agreement, commitments and the SHA-256 of these bytes. With
        z = 0 every holder has the whole pad, so they are sealed to the server.

        Invariant: seeds pad one table. They are drawn here, in the turn that uses the contribution up, and this message
        is saved with the state before it leaves: what comes again is the same byte for byte, or has fresh seeds. A
        changed table under the same seeds would show its difference to every listener.
        """
        session, agreed = self._session, self._session.agreed
        seeds = [session.random_bytes(SEED_BYTES) for _ in range(self._roles.n_roles)]
        padded = self._padded(seeds)
        bulk, for_server = (padded, None) if agreed.parameters.colluders else self._encrypted(padded)
        purposes = {seed_purpose(role): seed for role, seed in enumerate(seeds)}
        commitments = Commitments.to(purposes, session.name, agreed.hash, session.identity)
        envelopes = {
            agreed.names[i]: session.seal_for(i, Secrets(pad=seeds[agreed.roles[i]]).encode())
            for i in agreed.holders
            if i != session.position
        }
        if self._role != NO_ROLE:
            self._take_seed(session.position, seeds[self._role], commitments)
        self._send_shares(commitments, envelopes, bulk, for_server)

    # -- as a holder: seeds

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
        self._report()
        self._announce_if_ready()

    def _take_seed(self, owner: int, seed: bytes, commitments: Commitments) -> None:
        """Check a seed of our role against its owner's commitment, keep it, and add its pads to the sums.

        Invariant: the sums hold the pads of exactly the owners in ``seeds``, each seed fitting the commitments that the
        list names. So all holders of a role sum the same.
        """
        name, agreed = self._session.agreed.names[owner], self._session.agreed
        if not seed:
            raise MessageRefused(f"the share of {name!r} must bring a seed, got none")
        commitments.check({seed_purpose(self._role): seed}, name, agreed.hash)
        listed = {one.name: one.commitments for one in self._listed.owners} if self.owners else {}
        if listed.get(name, commitments.digest) != commitments.digest:
            raise MessageRefused(f"the commitments of {name!r} must be those listed: they are others")
        self._commitments[owner] = commitments
        self._add_pads(1, seed)
        self.seeds[owner] = seed

    def _add_pads(self, sign: int, seed: bytes) -> None:
        """Add what a seed expands to in our rows to the two sums, or take it off."""
        assert self.gram_sum is not None and self.constant_sum is not None
        session, rows = self._session, self._session.agreed.answer_rows
        for total, pieces, label in (
            (self.gram_sum, rows.gram_pieces(self._kept), GRAM),
            (self.constant_sum, rows.constant_pieces(self._kept), CONSTANT),
        ):
            pads.add_pieces(session.ring, total, pieces, [(sign, seed)], session.run, label)

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
        if self.owners and message.body != self.owners:
            raise MessageRefused("a device signs one list of owners per run: a second, different one is refused")
        if not self.owners:
            self._check_owners(OwnerList.decode(message.body, self._session.agreed))
            self.owners = message.body
        listed, session = self._listed, self._session
        signature = listed.signed_by(session.identity, session.agreed)
        session.send(session.to_server(Kind.SIGNATURE, pack_list([listed.digest, signature])))

    def _check_owners(self, owners: OwnerList) -> None:
        """Never few: a victim and z colluders alone would make the total the victim's; noise is a sum over owners."""
        agreed = self._session.agreed
        least = agreed.parameters.least_owners
        if len(owners.owners) < least:
            raise MessageRefused(f"at least {least} owners must be in the total, got {len(owners.owners)}")
        if self._terms is not None:
            self._terms.check_list(owners.names)
        for owner in owners.owners:
            known = self._commitments.get(agreed.position(owner.name))
            if known is not None and known.digest != owner.commitments:
                raise MessageRefused(f"the list must name the commitments of {owner.name!r} known here: it has others")

    @property
    def _listed(self) -> OwnerList:
        return OwnerList.decode(self.owners, self._session.agreed)

    def _on_certificate(self, message: Message) -> None:
        self._session.check_from_server(message)
        if not self.owners:
            raise MessageRefused("a list of owners must come before its certificate, got none")
        if not self.certified:
            Certificate.decode(message.body).check(self._listed, self._session.agreed)
            self.certified = True
            self._announce_if_ready()

    def _announce_if_ready(self) -> None:
        """Invariant: nothing made of the sums leaves before the list is certified, and then they are over the list.

        Pads of owners left out come off first.
        """
        if not self.certified or self.ready:
            return
        agreed = self._session.agreed
        listed = {agreed.position(name) for name in self._listed.names}
        if not listed <= set(self.seeds):
            return  # a co-holder has what is missing
        for owner in sorted(set(self.seeds) - listed):
            self._add_pads(-1, self.seeds.pop(owner))
        self._finish_sums()
        self._session.send_sealed(Kind.READY, b"")

    # -- as a holder: a seed that a co-holder lacks

    def _on_seed_wanted(self, message: Message) -> None:
        """Invariant: a seed goes to a holder of the same role only, which is entitled to it."""
        session, agreed = self._session, self._session.agreed
        session.check_from_server(message)
        owner_name, receiver = check_types(unpack_list(message.body, "a wish"), (str, str), "a wish")
        owner, to = agreed.position(owner_name), agreed.position(receiver)
        if agreed.roles[to] != self._role or to == session.position:
            raise MessageRefused(f"a seed goes to a holder of the same role only, got {receiver!r}")
        if owner in self.seeds:
            envelope = session.seal_for(to, self.seeds[owner], Kind.SEED)
            body = pack_list([owner_name, receiver, self._commitments[owner].fields(), envelope])
            session.send(session.to_server(Kind.SEED, body))

    def _on_seed(self, message: Message) -> None:
        session, agreed = self._session, self._session.agreed
        session.check_from_server(message)
        fields = unpack_list(message.body, "a seed", depth=4, most=SEED_FIELDS)
        owner_name, _, fields, envelope = check_types(fields, (str, str, list, bytes), "a seed")
        owner, author = agreed.position(owner_name), agreed.member(message.sender)
        if self._role == NO_ROLE or self._has(owner):
            return
        context = Message(Kind.SEED, session.run, agreed.hash, message.sender, session.name).context()
        try:  # the server's signature is on it: whatever is wrong is the co-holder's doing, and another may have it
            commitments = Commitments.from_fields(fields)
            commitments.check_signature(owner_name, agreed.hash, agreed.members[owner].identity)
            seed = sealed.open_sealed(session.sealing, author.run_key, context, envelope)
            self._take_seed(owner, seed, commitments)
        except MessageRefused:
            self._send_holds()
            return
        self._taken()

    # -- training

    def answered(self, update: Update) -> None:
        """When a second is asked the first is decoded: then even z + 1 corrupted holders yield only the total."""
        if update.packed and self.seeds:
            self.seeds = {}
            self._session.outbox.tell(SecretsForgotten())

    def forget(self) -> None:
        super().forget()
        self.seeds, self._commitments = {}, {}
