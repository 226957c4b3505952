"""Lies about lists of owners: what only a server of roles can do, and what it is entitled to.

By contract it is entitled to the totals of pods, whatever lists there are, whoever signed or was rolled back.

All holders of a run sum over one list besides. A list has a certificate when more than (D + z)/2 devices have signed
it; the adversary's own devices sign everything. So of one agreement it has the total over the first list that got so
far, and over all of them when more than z devices collude with it or were rolled back. In a laboratory, without pods,
that is all there is to hold on to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from adversary import ALL_SCHEMES, Adversary, Attacked, Face, Party
from stage import decoded

from codedfl.crypto import sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import KEY_BYTES, RunKey
from codedfl.protocol.agreement import Agreement, Member, seated
from codedfl.protocol.events import Turn
from codedfl.protocol.messages import SERVER, Commitments, Kind, Message, Secrets, Share, pack_list, unpack_list
from codedfl.protocol.owner_list import Certificate, ListedOwner, OwnerList
from codedfl.protocol.role_key import RoleKey, encode_keys, signed_role_key
from codedfl.protocol.schemes.role_keys import ROLE_KEYS, ROLE_SUMS
from codedfl.protocol.schemes.role_keys.device import RoleDeviceSharing, seed_context, seed_purpose
from codedfl.typing import Floats


class KnownSeed(NamedTuple):
    """What a device in the adversary's service was given as a holder."""

    run: bytes
    owner: str
    role: int
    seed: bytes
    commitments: Commitments


def known_seeds(adversary: Adversary) -> list[KnownSeed]:
    """All that its devices hold just now, of owners that are honest."""
    honest, found = {party.name for party in adversary.honest}, []
    for party in adversary.parties:
        machine = party.machine
        sharing, agreed = machine.sharing, machine._session.agreement
        if party.adverse and isinstance(sharing, RoleDeviceSharing) and agreed is not None:
            for owner, seed in sharing.seeds.items():
                name = agreed.names[owner]
                if name in honest:
                    found.append(KnownSeed(agreed.run, name, sharing._role, seed, sharing._commitments[owner]))
    return found


class _InTheNameOf(RunKey):
    """What the holder of a role's key can seal to it as if an owner had: their secret is the same from either side."""

    def __init__(self, public: bytes, of_role: RunKey) -> None:
        self.public, self.of_role = public, of_role

    def shared_with(self, public: bytes) -> bytes:
        del public
        return self.of_role.shared_with(self.public)


class RoleFace(Face):
    """A story with lists of owners.

    The server machine's own list and certificate go out unless ``keeps_lists``.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.keeps_lists = False
        self.lists: dict[bytes, OwnerList] = {}  # by digest, in the order in which they were told
        self.signatures: dict[bytes, dict[str, bytes]] = {}  # by digest of the list and name
        self._freezes_any_set()

    def _freezes_any_set(self) -> None:
        """A server machine does not freeze a set without whole pods; a liar's does."""
        sharing = self.server.sharing
        agree = sharing.agree

        def agreed(members: Sequence[Member], initial_model: Floats | None) -> Agreement:
            pods, sharing._pods = sharing._pods, ()
            try:
                return agree(members, initial_model)
            finally:
                sharing._pods = pods

        sharing.agree = agreed  # type: ignore[method-assign]

    @property
    def holders(self) -> list[str]:
        return [self.agreement.names[i] for i in self.agreement.holders]

    def of_role(self, role: int) -> list[str]:
        return [name for name in self.holders if self.agreement.roles[self.agreement.position(name)] == role]

    def owners(self, names: Iterable[str]) -> OwnerList:
        """A list of some that have uploaded, in the agreement's order."""
        places = sorted(self.agreement.position(name) for name in names)
        return OwnerList(tuple(self.server.sharing._listed_as[j] for j in places))

    @property
    def uploaded(self) -> list[str]:
        return [self.agreement.names[j] for j in sorted(self.server.sharing._listed_as)]

    def tell(self, owners: OwnerList, devices: Iterable[str]) -> None:
        """Ask devices to sign; what they sign is kept."""
        self.lists.setdefault(owners.digest, owners)
        for name in devices:
            self.adversary.hand_over(self.cast[name], self.signed(Kind.OWNERS, owners.encoded))

    def certificate(self, owners: OwnerList) -> Certificate:
        """All signatures there are: those that devices gave, and those of the adversary's own."""
        signatures = dict(self.signatures.get(owners.digest, {}))
        for name in self.agreement.names:
            if self.cast[name].adverse:
                signatures[name] = owners.signed_by(self.cast[name].identity, self.agreement)
        return Certificate(signatures)

    def certify(self, certificate: Certificate, holders: Iterable[str]) -> None:
        for name in holders:
            self.adversary.hand_over(self.cast[name], self.signed(Kind.CERTIFICATE, certificate.encode()))

    def want_key(self, giver: str, receivers: list[str]) -> None:
        self.adversary.hand_over(self.cast[giver], self.signed(Kind.ROLE_KEY_WANTED, pack_list(receivers)))

    def show_keys(self, owners: Iterable[str], role: int) -> None:
        """Of one role a key that the adversary drew, signed by all in its service; of the others the true ones."""
        agreed, keys = self.agreement, self.server.sharing.keys
        drawn = RunKey(self.adversary.random_bytes(KEY_BYTES)).public
        adverse = [name for name in agreed.names if self.cast[name].adverse]
        shown = []
        for one in range(agreed.parameters.colluders + 1):
            true = {agreed.names[i]: keys.signatures[i] for i in keys._signers(one)}
            lies = {name: signed_role_key(self.cast[name].identity, agreed, one, drawn) for name in adverse}
            shown.append(RoleKey(drawn, lies) if one == role else RoleKey(keys.publics.get(one, drawn), true))
        for name in owners:
            self.adversary.hand_over(self.cast[name], self.signed(Kind.ROLE_KEYS, encode_keys(shown)))

    def give_seed(self, known: KnownSeed, giver: Party, receiver: str) -> None:
        """A seed that one in the adversary's service knows, from wherever, as if its owner had sealed it.

        Whoever has the key of a role can make such an envelope, in the name of any owner.
        """
        agreed, sharing = self.agreement, giver.machine.sharing
        owner = agreed.member(known.owner)
        key = _InTheNameOf(owner.run_key, sharing.role_key or RunKey(self.adversary.random_bytes(KEY_BYTES)))
        context = seed_context(agreed, known.owner, sharing._role, known.commitments)
        with self.adversary.stage.acting(giver.actor, giver.actor):
            plaintext = Secrets(pad=known.seed).encode()
            envelope = sealed.seal(key, key.of_role.public, context, plaintext, self.adversary.random_bytes)
        body = Share(known.commitments, envelope).encode()
        share = Message(Kind.SHARE, agreed.run, agreed.hash, known.owner, SERVER, body)
        self.adversary.hand_over(self.cast[receiver], share.encode())

    # -- in another's place

    def replace_key(self, victim: str) -> None:
        """The agreement has a run key of the adversary's in the place of this device."""
        session, agreed = self.server._session, self.agreement
        self._forged = RunKey(self.adversary.random_bytes(KEY_BYTES))
        keyed = [
            replace(member, run_key=self._forged.public) if member.name == victim else member
            for member in agreed.members
        ]
        members = seated(keyed, agreed.run, 1)
        roles = tuple(agreed.roles[agreed.position(member.name)] for member in members)
        session.agreement = replace(agreed, members=members, roles=roles)
        self.adversary.agreements[session.agreement.hash] = session.agreement
        body = session.agreement.encoded
        for party in self.cast.values():
            message = Message(Kind.AGREEMENT, agreed.run, b"", SERVER, SERVER, body)
            self.adversary.hand_over(party, message.signed_by(self.adversary.identity).encode())
        self.tray = []
        self.server.sharing.keys = type(self.server.sharing.keys)(session)
        self._let_server(lambda: self.server._turn(self.server.sharing.open))

    def play(self, victim: str) -> None:
        """The adversary seals seeds in a device's name, with commitments that it signs itself."""
        agreed, sharing = self.agreement, self.server.sharing
        roles = range(agreed.parameters.colluders + 1)
        seeds = {seed_purpose(role): self.adversary.random_bytes(SEED_BYTES) for role in roles}
        commitments = Commitments.to(seeds, victim, agreed.hash, self.adversary.identity)
        for role in roles:
            context = seed_context(agreed, victim, role, commitments)
            plaintext = Secrets(pad=seeds[seed_purpose(role)]).encode()
            with self.adversary.stage.acting(SERVER, None):
                public = sharing.keys.publics[role]
                envelope = sealed.seal(self._forged, public, context, plaintext, self.adversary.random_bytes)
            share = Message(Kind.SHARE, agreed.run, agreed.hash, victim, SERVER, Share(commitments, envelope).encode())
            for name in self.of_role(role):
                self.adversary.hand_over(self.cast[name], share.encode())
        sharing._listed_as[agreed.position(victim)] = ListedOwner(victim, commitments.digest, bytes(32))

    def listing(self, owners: OwnerList, known: KnownSeed) -> OwnerList:
        """The same list with these commitments of one owner."""
        return OwnerList(
            tuple(
                replace(one, commitments=known.commitments.digest) if one.name == known.owner else one
                for one in owners.owners
            )
        )

    def take(self, data: bytes) -> None:
        message = decoded(data)
        if message.kind is Kind.SIGNATURE:
            digest, signature = unpack_list(message.body, "a signature")
            self.signatures.setdefault(digest, {})[message.sender] = signature
        super().take(data)

    def _lay_out(self, turn: Turn) -> None:
        for outgoing in turn.outgoing:
            if outgoing.kind is Kind.OWNERS:
                made = OwnerList.decode(outgoing.message.body, self.agreement)
                self.lists.setdefault(made.digest, made)
        super()._lay_out(turn)
        if self.keeps_lists:
            self.tray = [one for one in self.tray if one.kind not in (Kind.OWNERS, Kind.CERTIFICATE)]


def entitled_by_roles(
    adversary: Adversary, agreement: Agreement, adverse: frozenset[int], prime: int
) -> Sequence[Sequence[int]]:
    """The total over the certified list; with more than z colluders nothing is promised."""
    del prime
    z, places = agreement.parameters.colluders, range(agreement.n_devices)
    if len(adverse) > z:
        return [[int(i == j) for i in places] for j in places]
    forgetful = [party for party in adversary.honest if agreement.run in party.rolled_back]
    contract = adversary.contract_of(agreement)
    lists = [
        [int(name in names) for name in agreement.names]
        for names in certified(adversary, agreement, adverse)
        if contract is None or contract.has_whole_pods(names)
    ]
    return lists if len(adverse) + len(forgetful) > z else lists[:1]


def certified(adversary: Adversary, agreement: Agreement, adverse: frozenset[int]) -> list[tuple[str, ...]]:
    """All lists of an agreement that enough devices have signed, the adversary's counted in; first ones first."""
    needed = (agreement.n_devices + agreement.parameters.colluders) // 2 + 1
    faces = [face for face in adversary.faces if face.agreement is not None and face.agreement.hash == agreement.hash]
    lists = {digest: one for face in faces for digest, one in face.lists.items()}
    theirs = {agreement.names[i] for i in adverse}
    found = []
    for digest, owners in lists.items():
        signers = theirs.union(*(face.signatures.get(digest, {}) for face in faces))
        if len(signers) >= needed:
            found.append(owners.names)
    return found


ROLE_SCHEMES = {
    "role-keys": Attacked(ROLE_KEYS, entitled_by_roles, RoleFace, by_pods=True),
    "role-sums": Attacked(ROLE_SUMS, entitled_by_roles, RoleFace, by_pods=True),
}
ALL_SCHEMES |= ROLE_SCHEMES
