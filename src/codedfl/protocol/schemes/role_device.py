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

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from codedfl.code.roles import NO_ROLE, RoleCode
from codedfl.crypto import pads, sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import KEY_BYTES
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.agreement import MOST_COLLUDERS
from codedfl.protocol.device import Device
from codedfl.protocol.messages import (
    Commitments,
    Complaint,
    Kind,
    Message,
    Secrets,
    Share,
    Shares,
    Unusable,
    Update,
    check_types,
    pack_list,
    unpack_list,
)
from codedfl.protocol.owner_list import Certificate, OwnerList
from codedfl.protocol.schemes.coded_padded import CONSTANT, GRAM
from codedfl.state import MAP, PLAIN, Kept
from codedfl.typing import Planes

SEED_FIELDS = 16 + 3 * (MOST_COLLUDERS + 1)  # of a message with a commitment for every role


def seed_purpose(role: int) -> str:
    """What a seed of this role is committed to as."""
    return f"role-{role}"


class RoleDevice(Device):
    """An owner, a key holder, or both; see ``Device`` for the arguments.

    Parameters
    ----------
    helper : bool
        Holds keys and has no data of its own; X and Y must then be None.
    """

    scheme: ClassVar[str] = "role-keys"
    lists_owners: ClassVar[bool] = True
    adds_noise: ClassVar[bool] = True
    _kept: ClassVar[Mapping[str, Kept]] = {
        **Device._kept,
        "_seeds": MAP,
        "_commitments": Kept(
            lambda table: [[owner, known.fields()] for owner, known in table.items()],
            lambda saved: {owner: Commitments.from_fields(fields) for owner, fields in saved},
        ),
        "_gram_sum": PLAIN,
        "_constant_sum": PLAIN,
        "_called": PLAIN,
        "_owners": PLAIN,
        "_certified": PLAIN,
    }

    def __init__(self, *args: Any, helper: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if helper and self._contribution is not None:
            raise InvalidInput("the contribution must be None for a helper, which has no data, got one")
        self._helper = helper
        self._seeds: dict[int, bytes] = {}  # of our role, by owner; wiped once the first epoch is decoded
        self._commitments: dict[int, Commitments] = {}
        self._gram_sum: Planes | None = None
        self._constant_sum: Planes | None = None
        self._called = False  # the server wants to know whose seeds are here, all or not
        self._owners = b""  # the list this device accepted: one a run
        self._certified = False

    def _handlers(self) -> dict[Kind, Callable[[Message], list[Message]]]:
        return {
            **super()._handlers(),
            Kind.SHARE: self._on_share,
            Kind.ROLL_CALL: self._on_roll_call,
            Kind.OWNERS: self._on_owners,
            Kind.CERTIFICATE: self._on_certificate,
            Kind.SEED_WANTED: self._on_seed_wanted,
            Kind.SEED: self._on_seed,
        }

    # -- joining

    @property
    def _without_data(self) -> str:
        return "" if self._helper else super()._without_data

    @property
    def owner_keys(self) -> dict[str, bytes]:
        """See ``Device``; here the list that was signed."""
        return {name: self._agreed.member(name).identity for name in self._listed.names} if self._owners else {}

    # -- as an owner

    @property
    def _role(self) -> int:
        return self._agreed.roles[self._position]

    @property
    def _roles(self) -> RoleCode:
        code = self._agreed.answer_code
        assert isinstance(code, RoleCode)
        return code

    def _begin_sharing(self) -> list[Message]:
        p, ring = self._agreed.parameters, self._ring
        if not self._agreed.roles or (self._position in self._agreed.helpers) != self._helper:
            raise MessageRefused("the agreement must say rightly who has data and who holds keys: it does not")
        if self._role != NO_ROLE:
            self._gram_sum = ring.zeros(p.triangle_length)
            self._constant_sum = ring.zeros(p.constant_length)
        return [] if self._helper else [self._upload(), *self._report()]

    def _upload(self) -> Message:
        """One message: the padded data for the server, a seed sealed to every holder, a commitment to each seed."""
        agreed, ring = self._agreed, self._ring
        seeds = [self._random_bytes(SEED_BYTES) for _ in range(self._roles.n_roles)]
        gram, constant = self._own_statistics()
        ones = [[1] * len(seeds)] * len(ring.primes)
        pads.add_expanded(ring, gram, ones, seeds, self._run, GRAM)
        pads.add_expanded(ring, constant, ones, seeds, self._run, CONSTANT)
        plaintext = ring.pack(gram) + ring.pack(constant)
        del gram, constant
        content_key = self._random_bytes(KEY_BYTES)
        header = self._to_server(Kind.SHARES)
        bulk = b"".join(sealed.encrypt_bulk(content_key, header.context(), plaintext))
        for_server = Secrets(content_key=content_key, digest=sealed.digest_of([bulk]))
        purposes = {seed_purpose(role): seed for role, seed in enumerate(seeds)}
        commitments = Commitments.to(purposes, self.name, agreed.hash, self.identity)
        envelopes = {}
        for i in agreed.holders:
            if i != self._position:
                to_holder = Message(Kind.SHARE, self._run, agreed.hash, self.name, agreed.names[i])
                secrets = Secrets(pad=seeds[agreed.roles[i]])
                envelopes[agreed.names[i]] = self._seal(agreed.members[i].run_key, to_holder, secrets.encode())
        if self._role != NO_ROLE:
            self._take_seed(self._position, seeds[self._role], commitments)
        envelope = self._seal(self._invited.server_key, header, for_server.encode())
        body = Shares(commitments, envelope, envelopes).encode()
        return self._to_server(Kind.SHARES, body, attachment=bulk).signed_by(self.identity)

    # -- as a holder: seeds

    def _on_share(self, message: Message) -> list[Message]:
        agreed = self._agreed
        owner = agreed.position(message.sender)
        if self._role == NO_ROLE or owner not in agreed.owners:
            raise MessageRefused(f"{message.sender!r} must not share with {self.name!r} in this run, but did")
        if owner in self._seeds or self._seeds_closed:
            return []
        message.check_signature(self._invited.server_public)  # what was damaged on the way may come again
        share, member = Share.decode(message.body), agreed.members[owner]
        share.commitments.check_signature(member.name, agreed.hash, member.identity)
        opened = sealed.open_sealed(self._sealing, member.run_key, message.context(), share.envelope)
        try:  # from here on it is the owner's own doing, not the relay's
            seed = Secrets.decode(opened).pad
        except MessageRefused:
            return [self._complain(message.sender, Unusable.MALFORMED)]
        try:
            self._take_seed(owner, seed, share.commitments)
        except MessageRefused:
            return [self._complain(message.sender, Unusable.NOT_COMMITTED)]
        return [*self._report(), *self._announce_if_ready()]

    @property
    def _seeds_closed(self) -> bool:
        """Training has begun here: what was not complete by then stays out."""
        return self.ready

    def _take_seed(self, owner: int, seed: bytes, commitments: Commitments) -> None:
        """Check a seed of our role against its owner's commitment, keep it, and add its pads to the sums."""
        name = self._agreed.names[owner]
        if not seed:
            raise MessageRefused(f"the share of {name!r} must bring a seed, got none")
        commitments.check({seed_purpose(self._role): seed}, name, self._agreed.hash)
        listed = {one.name: one.commitments for one in self._listed.owners} if self._owners else {}
        if listed.get(name, commitments.digest) != commitments.digest:  # all holders of a role must sum the same
            raise MessageRefused(f"the commitments of {name!r} must be those listed: they are others")
        self._commitments[owner] = commitments
        self._add_pads(seed, 1)
        self._seeds[owner] = seed

    def _add_pads(self, seed: bytes, sign: int) -> None:
        assert self._gram_sum is not None and self._constant_sum is not None
        ring, factor = self._ring, [[sign]] * len(self._ring.primes)
        pads.add_expanded(ring, self._gram_sum, factor, [seed], self._run, GRAM)
        pads.add_expanded(ring, self._constant_sum, factor, [seed], self._run, CONSTANT)

    def _complain(self, sender: str, reason: Unusable) -> Message:
        return self._sealed_to_server(Kind.COMPLAINT, Complaint(sender, reason).encode())

    def _report(self) -> list[Message]:
        """When all seeds are here; after a roll call, whenever one more is."""
        complete = set(self._seeds) == set(self._agreed.owners)
        return [self._holds()] if self._role != NO_ROLE and (complete or self._called) else []

    def _on_roll_call(self, message: Message) -> list[Message]:
        message.check_signature(self._invited.server_public)
        if self._role == NO_ROLE or self._seeds_closed:
            return []
        self._called = True
        return [self._holds()]

    def _holds(self) -> Message:
        return self._sealed_to_server(Kind.HOLDS, pack_list([self._agreed.names[j] for j in sorted(self._seeds)]))

    # -- the list

    def _on_owners(self, message: Message) -> list[Message]:
        message.check_signature(self._invited.server_public)
        if self._owners:
            if message.body != self._owners:
                raise MessageRefused("a device signs one list of owners a run: a second, different one is refused")
            return [self._signature(self._listed)]
        owners = OwnerList.decode(message.body, self._agreed)
        self._check_owners(owners)
        self._owners = message.body
        return [self._signature(owners)]

    def _check_owners(self, owners: OwnerList) -> None:
        """Never few: a victim and z colluders alone would make the total the victim's; noise is a sum over owners."""
        agreed = self._agreed
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
        return OwnerList.decode(self._owners, self._agreed)

    def _signature(self, owners: OwnerList) -> Message:
        signature = owners.signed_by(self.identity, self._agreed)
        return self._to_server(Kind.SIGNATURE, pack_list([owners.digest, signature]))

    def _on_certificate(self, message: Message) -> list[Message]:
        message.check_signature(self._invited.server_public)
        if not self._owners:
            raise MessageRefused("a list of owners must come before its certificate, got none")
        if self._certified:
            return []
        Certificate.decode(message.body).check(self._listed, self._agreed)
        self._certified = True
        return self._announce_if_ready()

    def _announce_if_ready(self) -> list[Message]:
        """Pads of owners left out come off first; nothing made of the sums leaves before the list is certified."""
        if not self._certified or self.ready:
            return []
        agreed = self._agreed
        listed = {agreed.position(name) for name in self._listed.names}
        if not listed <= set(self._seeds):
            return []  # a co-holder has what is missing
        for owner in sorted(set(self._seeds) - listed):
            self._add_pads(self._seeds.pop(owner), -1)
        self._finish_sums()
        return [self._sealed_to_server(Kind.READY, b"")]

    def _finish_sums(self) -> None:
        assert self._gram_sum is not None
        self.linear = self._ring.symmetric(self._gram_sum, self._agreed.parameters.n_features)
        self.constant = self._constant_sum
        self._gram_sum = self._constant_sum = None

    # -- as a holder: a seed that a co-holder lacks

    def _on_seed_wanted(self, message: Message) -> list[Message]:
        """Only to a holder of the same role, which is entitled to it."""
        message.check_signature(self._invited.server_public)
        owner_name, receiver = check_types(unpack_list(message.body, "a wish"), (str, str), "a wish")
        agreed = self._agreed
        owner, to = agreed.position(owner_name), agreed.position(receiver)
        if agreed.roles[to] != self._role or to == self._position:
            raise MessageRefused(f"a seed goes to a holder of the same role only, got {receiver!r}")
        if owner not in self._seeds:
            return []
        header = Message(Kind.SEED, self._run, agreed.hash, self.name, receiver)
        envelope = self._seal(agreed.members[to].run_key, header, self._seeds[owner])
        body = pack_list([owner_name, receiver, self._commitments[owner].fields(), envelope])
        return [self._to_server(Kind.SEED, body)]

    def _on_seed(self, message: Message) -> list[Message]:
        agreed = self._agreed
        message.check_signature(self._invited.server_public)
        fields = unpack_list(message.body, "a seed", depth=4, most=SEED_FIELDS)
        owner_name, _, fields, envelope = check_types(fields, (str, str, list, bytes), "a seed")
        owner, author = agreed.position(owner_name), agreed.member(message.sender)
        if self._role == NO_ROLE or owner in self._seeds or self._seeds_closed:
            return []
        header = Message(Kind.SEED, self._run, agreed.hash, message.sender, self.name)
        try:  # the server's signature is on it: whatever is wrong is the co-holder's doing, and another may have it
            commitments = Commitments.from_fields(fields)
            commitments.check_signature(owner_name, agreed.hash, agreed.members[owner].identity)
            seed = sealed.open_sealed(self._sealing, author.run_key, header.context(), envelope)
            self._take_seed(owner, seed, commitments)
        except MessageRefused:
            return [self._holds()]
        return [*self._report(), *self._announce_if_ready()]

    # -- training

    def _answer(self, update: Update, digest: bytes) -> Planes:
        answer = super()._answer(update, digest)
        if update.packed:
            self._seeds = {}  # the first epoch is decoded: later even z + 1 corrupted holders yield only the total
        return answer

    @property
    def secrets_held(self) -> frozenset[bytes]:
        return super().secrets_held | frozenset(self._seeds.values())

    def _forget_secrets(self) -> None:
        super()._forget_secrets()
        self._seeds, self._commitments = {}, {}
        self._gram_sum = self._constant_sum = None
