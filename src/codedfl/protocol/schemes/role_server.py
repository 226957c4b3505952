"""The server of role keys (``role_device`` has the scheme): uploads, the list of owners, the first answer of each role.

It keeps every padded upload until the list says whose count, then their sums alone. Deadlines are the driver's: it says
which devices are gone (``check_enough``), or that no more uploads are waited for (``close_uploads``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

from codedfl.code.roles import RoleCode, deal_roles
from codedfl.crypto import sealed
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.protocol.agreement import Agreement, Member, Parameters
from codedfl.protocol.convener import Outgoing, Phase
from codedfl.protocol.messages import (
    SERVER,
    Kind,
    Message,
    Secrets,
    Share,
    Shares,
    check_types,
    pack_list,
    unpack_list,
)
from codedfl.protocol.owner_list import Certificate, ListedOwner, OwnerList, signatures_needed
from codedfl.protocol.schemes.role_device import SEED_FIELDS, seed_purpose
from codedfl.protocol.server import Server
from codedfl.state import MAP, PLAIN, SET, Kept, optional
from codedfl.typing import Planes


class RoleServer(Server):
    """Server of the scheme ``role-keys``; see ``Server`` for the arguments.

    Parameters
    ----------
    holders : sequence of str or None
        Who holds keys, fastest first: roles are dealt round and round. None is everybody, in the order expected.
    helpers : collection of str
        Devices without data.
    pods : collection of sets of str
        Owners that are in a total together or not at all (``terms``); none leaves owners out one by one, as
        simulations do.
    least_owners : int
        How many owners a total must have at least, beyond what the scheme itself asks for.
    """

    scheme: ClassVar[str] = "role-keys"
    adds_noise: ClassVar[bool] = True
    pad_sign: ClassVar[int] = -1
    _needed: ClassVar[str] = "one of each role"
    _kept: ClassVar[Mapping[str, Kept]] = {
        **Server._kept,
        "_uploads": MAP,
        "_listed_as": Kept(
            lambda table: [[j, one.name, one.commitments, one.upload] for j, one in table.items()],
            lambda saved: {j: ListedOwner(*fields) for j, *fields in saved},
        ),
        "_holds": Kept(
            lambda table: [[i, sorted(held)] for i, held in table.items()], lambda s: {i: set(h) for i, h in s}
        ),
        "_closed": PLAIN,
        "_asked_for": Kept(
            lambda table: [[j, i, givers] for (j, i), givers in table.items()],
            lambda saved: {(j, i): list(givers) for j, i, givers in saved},
        ),
        "owners": optional(Kept(lambda owners: owners.fields(), OwnerList.from_fields)),
        "_signatures": MAP,
        "_certificate": PLAIN,
        "_dead": SET,
    }

    def __init__(
        self,
        *args: Any,
        holders: Sequence[str] | None = None,
        helpers: Collection[str] = (),
        pods: Collection[frozenset[str]] = (),
        least_owners: int = 2,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        if self.parameters.samples is not None:
            raise InvalidInput(
                f"samples must be None for role-keys, whose owners may be left out, got {self.parameters.samples}"
            )
        unknown = [name for name in (*(holders or ()), *helpers) if name not in self.expected]
        if unknown:
            raise InvalidInput(f"holders and helpers must be among the devices expected, got {', '.join(unknown)}")
        self._holder_names = tuple(self.expected if holders is None else holders)
        self._helper_names = frozenset(helpers)
        self._pods = tuple(pods)
        self._least = least_owners
        self._uploads: dict[int, bytes] = {}  # packed, until the list says whose count
        self._listed_as: dict[int, ListedOwner] = {}
        self._holds: dict[int, set[int]] = {}
        self._closed = False  # no more uploads are waited for
        self._asked_for: dict[tuple[int, int], list[int]] = {}  # (owner, holder that lacks its seed): whom we asked
        self.owners: OwnerList | None = None
        self._signatures: dict[int, bytes] = {}
        self._certificate = b""
        self._dead: set[int] = set()

    @staticmethod
    def _check_spare(parameters: Parameters, spare: int) -> None:
        """How many holders a role has is known when the roles are dealt."""
        del parameters
        if spare < 0:
            raise InvalidInput(f"spare must be at least 0, got {spare}")

    def _handlers(self) -> dict[Kind, Callable[[Message], list[Outgoing]]]:
        return {
            **super()._handlers(),
            Kind.HOLDS: self._on_holds,
            Kind.SIGNATURE: self._on_signature,
            Kind.SEED: self._on_seed,
        }

    # -- roles

    def _frozen(self, members: Sequence[Member]) -> Agreement:
        joined = {member.name for member in members}
        n_roles = self.parameters.colluders + 1
        holders = [name for name in self._holder_names if name in joined]
        fewest = len(holders) // n_roles
        if fewest < self._book.spare + 1:
            raise InvalidInput(
                f"every role must have {self._book.spare + 1} holder(s) for {self._book.spare} spare answers, got"
                f" {len(holders)} holders for {n_roles} roles"
            )
        owners = joined - self._helper_names
        if len(self._whole_names(owners)) < self._least_owners:  # before anybody uploads in vain
            raise self._too_few_owners(owners)
        roles = deal_roles(holders, n_roles)
        return Agreement.freeze(
            self.invitation, members, self._initial_model, roles=roles, helpers=self._helper_names & joined
        )

    @property
    def _roles(self) -> RoleCode:
        code = self._agreed.answer_code
        assert isinstance(code, RoleCode)
        return code

    # -- uploads and seeds

    @property
    def owner_keys(self) -> dict[str, bytes]:
        """See ``Server``; here those on the list."""
        return {} if self.owners is None else {name: self._agreed.member(name).identity for name in self.owners.names}

    def _open_sharing(self) -> list[Outgoing]:
        return []

    @property
    def unshared(self) -> list[str]:
        agreed = self._agreed
        return [agreed.names[j] for j in agreed.owners if j not in self._shared]

    def _on_shares(self, message: Message) -> list[Outgoing]:
        agreed = self._agreed
        sender = agreed.position(message.sender)
        member = agreed.members[sender]
        message.check_signature(member.identity)
        if sender in self._shared or self._closed or sender not in agreed.owners:
            self.ignored["repeated or late shares"] += 1
            return []
        shares = Shares.decode(message.body, most=agreed.n_devices)
        shares.commitments.check_signature(member.name, agreed.hash, member.identity)
        if set(shares.commitments.digests) != {seed_purpose(role) for role in range(self._roles.n_roles)}:
            raise MessageRefused(f"the shares of {member.name!r} must commit to one seed a role: they do not")
        wanted = {agreed.names[i] for i in agreed.holders if i != sender}
        if set(shares.envelopes) != wanted:
            odd = sorted(set(shares.envelopes) ^ wanted)
            raise MessageRefused(
                f"the shares of {member.name!r} must be for all key holders: missing or too many are"
                f" {', '.join(map(repr, odd))[:200]}"
            )
        self._uploads[sender] = self._opened_upload(member, message, shares.for_server)
        self._listed_as[sender] = ListedOwner(
            member.name, shares.commitments.digest, sealed.digest_of([message.attachment])
        )
        self._shared.add(sender)
        relayed = []
        for name, envelope in shares.envelopes.items():
            body = Share(shares.commitments, envelope).encode()
            share = Message(Kind.SHARE, self.run, agreed.hash, message.sender, name, body)
            relayed.append(Outgoing((name,), share.signed_by(self.identity).encode()))
        return relayed + self._list_if_possible()

    def _opened_upload(self, member: Member, message: Message, for_server: bytes) -> bytes:
        header = Message(Kind.SHARES, self.run, self._agreement_hash, member.name, SERVER)
        opened = sealed.open_sealed(self._sealing, member.run_key, header.context(), for_server)
        secrets = Secrets.decode(opened)
        if not secrets.content_key:
            raise MessageRefused("an upload must bring a content key, got none")
        upload = sealed.decrypt_bulk(secrets.content_key, header.context(), secrets.digest, message.attachment)
        self._ring.check_packed_length(upload, self.parameters.triangle_length + self.parameters.constant_length)
        return upload

    def _relayed(self, sender: int, receiver: int) -> bool:
        return sender != receiver and receiver in self._agreed.holders

    def close_uploads(self) -> list[Outgoing]:
        """The driver's deadline: owners that have not uploaded are left out, holders say whose seeds they have.

        With fewer than z + 2 uploads it stays open, so that those who are missing can still come: it raises
        ``NotEnoughDevices``.
        """
        if self.phase is not Phase.SHARING or self._closed:
            return []
        if len(self._whole(self._shared)) < self._least_owners:
            raise self._too_few_owners(self._names(self._shared))
        self._closed = True
        holders = tuple(self._agreed.names[i] for i in self._agreed.holders)
        return [self._broadcast(Kind.ROLL_CALL, b"", holders)]

    def _on_holds(self, message: Message) -> list[Outgoing]:
        sender, plaintext = self._open_from_member(message)
        agreed = self._agreed
        names = unpack_list(plaintext, "held seeds", most=agreed.n_devices + 1)
        check_types(names, (str,) * len(names), "held seeds")
        if sender not in agreed.holders:
            raise MessageRefused(f"{message.sender!r} must hold no keys in this run, but says so")
        # A report that was overtaken by a newer one takes nothing back.
        self._holds.setdefault(sender, set()).update(agreed.position(name) for name in names)
        return self._list_if_possible() + self._wish_for_seeds(anew=sender)

    # -- the list

    @property
    def _least_owners(self) -> int:
        return max(self._least, self.parameters.least_owners)

    def _whole(self, owners: Collection[int]) -> set[int]:
        """Those of the owners whose pods are complete."""
        whole = self._whole_names(self._names(owners))
        return {j for j in owners if self._agreed.names[j] in whole}

    def _whole_names(self, names: Collection[str]) -> set[str]:
        return set(names) if not self._pods else set().union(*(pod for pod in self._pods if pod <= set(names)))

    def _names(self, positions: Collection[int]) -> set[str]:
        return {self._agreed.names[j] for j in positions}

    def _too_few_owners(self, there: Collection[str]) -> NotEnoughDevices:
        missing = [name for name in self.expected if name not in self._helper_names | set(there)]
        rule = "z + 2" if self.parameters.noise is None else "z and the honest ones that noise is made for"
        rule = "in whole pods" if self._pods else rule
        return NotEnoughDevices(
            f"the data of at least {self._least_owners} owners ({rule}) must be in the total, got"
            f" {len(self._whole_names(there))}: missing are {', '.join(missing)}",
            missing,
            self.model,
        )

    @property
    def _all_reported(self) -> bool:
        """Whether every holder that is alive has said whose seeds it has."""
        return set(self._agreed.holders) <= self._dead | set(self._holds)

    def _list_if_possible(self) -> list[Outgoing]:
        """Fix the list once enough holders can serve it: all owners, or after the deadline all that every role covers.

        Saved with the state before it leaves, it never changes.
        """
        if self.owners is not None or self.phase is not Phase.SHARING:
            return []
        agreed = self._agreed
        if not self._closed and set(self._shared) != set(agreed.owners):
            return []
        if not self._closed and self.complaints:  # all are here, and some cannot be used: nobody else is waited for
            return self.close_uploads()
        covered = self._covered()
        able = [i for i, held in self._holds.items() if covered <= held]
        best = covered == self._whole(self._shared)  # nothing better can come
        enough = best and len(able) >= signatures_needed(len(agreed.holders), self.parameters.colluders)
        if not (enough or self._all_reported) or not (best or self._closed):
            return []
        if len(covered) < self._least_owners:
            return []  # ``check_enough`` says so
        self.owners = OwnerList(tuple(self._listed_as[j] for j in sorted(covered)))
        self._sum_uploads(covered)
        return [self._broadcast(Kind.OWNERS, self.owners.encoded, agreed.names)]

    def _covered(self) -> set[int]:
        """Owners that can be in the total: in whole pods."""
        return self._whole(self._usable())

    def _usable(self) -> set[int]:
        """Owners that have uploaded and whose seeds some holder of every role has."""
        code = self._roles
        usable = set(self._shared)
        for role in range(code.n_roles):
            held: set[int] = set().union(*(self._holds.get(i, set()) for i in code.holders(role)))
            usable &= held
        return usable

    def _sum_uploads(self, covered: Collection[int]) -> None:
        triangle, self.pad_constant = self._summed(covered)
        self.pad_linear = self._ring.symmetric(triangle, self.parameters.n_features)

    def _summed(self, covered: Collection[int]) -> tuple[Planes, Planes]:
        """The sums over the listed uploads, triangle and constant part; single ones are forgotten."""
        ring, p = self._ring, self.parameters
        triangle, constant = ring.zeros(p.triangle_length), ring.zeros(p.constant_length)
        split, one = p.triangle_length * ring.bytes_per_number, [[1]] * len(ring.primes)
        for j in sorted(covered):
            view = memoryview(self._uploads[j])
            ring.add_scaled_packed(triangle, one, [view[:split]])
            ring.add_scaled_packed(constant, one, [view[split:]])
        self._uploads = {}
        return triangle, constant

    def _on_signature(self, message: Message) -> list[Outgoing]:
        agreed = self._agreed
        sender = agreed.position(message.sender)
        digest, signature = check_types(unpack_list(message.body, "a signature"), (bytes, bytes), "a signature")
        if self.owners is None or digest != self.owners.digest:
            raise MessageRefused("a signature must be on the list of this run: it is on another")
        self.owners.check_signature(message.sender, signature, agreed)
        self._signatures[sender] = signature
        needed = signatures_needed(agreed.n_devices, self.parameters.colluders)
        if self._certificate:
            return [Outgoing((message.sender,), self._certificate)]
        if len(self._signatures) < needed:
            return []
        signed = Certificate({agreed.names[i]: one for i, one in self._signatures.items()})
        holders = tuple(agreed.names[i] for i in agreed.holders)
        outgoing = self._broadcast(Kind.CERTIFICATE, signed.encode(), holders)
        self._certificate = outgoing.data
        return [outgoing, *self._wish_for_seeds()]

    # -- seeds that a holder lacks

    def _wish_for_seeds(self, anew: int | None = None) -> list[Outgoing]:
        """Ask a co-holder for what a holder of the list lacks: one that is alive, and each once.

        Another is asked when the first is gone, or when the holder ``anew`` says that it still lacks it.
        """
        if self.epoch > 1 or self.phase is Phase.FINISHED:  # seeds are wiped by then
            return []
        agreed, wishes = self._agreed, []
        for i, lacking in self._lacking().items():
            for j in sorted(lacking):
                asked = self._asked_for.setdefault((j, i), [])
                givers = [k for k in self._givers(j, i) if k not in asked]
                if givers and (i == anew or set(asked) <= self._dead):
                    asked.append(givers[0])
                    body = pack_list([agreed.names[j], agreed.names[i]])
                    wishes.append(self._broadcast(Kind.SEED_WANTED, body, (agreed.names[givers[0]],)))
        return wishes

    def _lacking(self) -> dict[int, set[int]]:
        """Listed owners whose seeds a holder said it has not, by holder."""
        if self.owners is None:
            return {}
        listed = {self._agreed.position(name) for name in self.owners.names}
        reported = {i: listed - held for i, held in self._holds.items() if i not in self._ready}
        return {i: lacking for i, lacking in reported.items() if lacking}

    def _givers(self, owner: int, holder: int) -> list[int]:
        """Co-holders of a holder that are alive and have an owner's seed."""
        code = self._roles
        of_role = code.holders(code.roles[holder])
        return [k for k in of_role if k not in self._dead | {holder} and owner in self._holds.get(k, set())]

    def _on_seed(self, message: Message) -> list[Outgoing]:
        """Relayed to whom it is sealed for, if it was asked for."""
        agreed = self._agreed
        types = (str, str, list, bytes)
        fields = unpack_list(message.body, "a seed", depth=4, most=SEED_FIELDS)
        owner, receiver, _, _ = check_types(fields, types, "a seed")
        wish = (agreed.position(owner), agreed.position(receiver))
        if agreed.position(message.sender) not in self._asked_for.get(wish, []):
            raise MessageRefused(f"a seed must be one that {message.sender!r} was asked for: it was not")
        relayed = Message(Kind.SEED, self.run, agreed.hash, message.sender, receiver, message.body)
        return [Outgoing((receiver,), relayed.signed_by(self.identity).encode())]

    # -- starting, and going on without some

    def _can_start(self) -> bool:
        return bool(self._certificate)

    @property
    def _least_samples(self) -> int:
        return len(self.owners.owners) if self.owners is not None else 1

    def check_enough(self, gone: Sequence[str] = ()) -> list[Outgoing]:
        """As ``Server.check_enough``; when all that have not uploaded are gone, the deadline is now."""
        agreed = self._agreed
        self._dead = {agreed.position(name) for name in gone if name in agreed.names}
        if self.phase is not Phase.SHARING:
            return super().check_enough(gone) + self._wish_for_seeds()
        self._check_holders()
        outgoing = self.close_uploads() if self.unshared and set(self.unshared) <= set(gone) else []
        outgoing += self._list_if_possible()
        if self._closed and self.owners is None and self._all_reported:
            raise self._too_few_owners(self._names(self._usable()))
        return outgoing + self._wish_for_seeds()

    def _in_vain(self) -> set[int]:
        """Holders whom nobody can give a seed that they lack; once the first epoch is over, nobody has it any more."""
        return {
            i
            for i, lacking in self._lacking().items()
            if self.epoch > 1 or not all(self._givers(j, i) for j in lacking)
        }

    def _check_holders(self) -> None:
        agreed, code = self._agreed, self._roles
        needed = signatures_needed(agreed.n_devices, self.parameters.colluders)
        there = len(set(range(agreed.n_devices)) - self._dead | set(self._signatures))
        if not self._certificate and there < needed:
            lost = [agreed.names[i] for i in sorted(self._dead - set(self._signatures))]
            raise NotEnoughDevices(
                f"the list of owners must be signed by {needed} of {agreed.n_devices} devices, only"
                f" {there} are there: missing are {', '.join(lost)}",
                lost,
                self.model,
            )
        useless, wanted = self._dead | self._in_vain(), self._book.spare + 1
        for role in range(code.n_roles):
            left = set(code.holders(role)) - useless
            if len(left) < wanted:
                names = [agreed.names[i] for i in code.holders(role) if i not in left]
                raise NotEnoughDevices(
                    f"every role must have {wanted} holder(s) that answer, role {role} has {len(left)}: missing are"
                    f" {', '.join(names)}",
                    names,
                    self.model,
                )
