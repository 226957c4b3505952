"""The server of role keys (``device`` has the scheme): uploads, the list of owners, the first answer of each role.

It keeps every padded upload until the list says whose count, on a shelf (``state.Shelf``), then their sums alone.
Deadlines are the driver's: it says which devices are gone (``Server.go_on_without``), or that no more uploads are
waited for (``Server.close_uploads``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from codedfl.code.roles import RoleCode, deal_cells
from codedfl.crypto import sealed
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.protocol.agreement import Agreement, Member
from codedfl.protocol.messages import (
    SERVER,
    Complaint,
    Kind,
    Message,
    Share,
    Shares,
    Unusable,
    check_types,
    unpack_list,
)
from codedfl.protocol.owner_list import OWNERS, Certificate, ListedOwner, OwnerList, signatures_needed
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.schemes.role_keys.device import seed_purpose
from codedfl.protocol.schemes.role_keys.key_rounds import RoleKeyRounds
from codedfl.protocol.server_events import Listed
from codedfl.protocol.server_session import Phase, ServerSession
from codedfl.protocol.server_sharing import ServerSharing
from codedfl.state import PLAIN, TABLE, Checkpointable, CheckpointFields, Codec, Shelved, taken_down
from codedfl.typing import Floats


class RoleServerSharing(ServerSharing):
    """The server's side of role keys.

    Of the plan it reads ``holders`` and ``helpers``, and of its terms the pods: owners that are in a total together or
    not at all. Without terms owners are left out one by one, as simulations do.
    """

    sign: ClassVar[int] = -1
    checkpoint_fields: ClassVar[CheckpointFields] = {
        **ServerSharing.checkpoint_fields,
        "_uploads": TABLE,
        "_shares": TABLE,
        "_listed_as": Codec(
            lambda table: {str(j): [one.name, one.commitments, one.upload] for j, one in table.items()},
            lambda saved: {int(j): ListedOwner(*fields) for j, fields in saved.items()},
        ),
        "_holds": Codec(
            lambda table: {str(i): sorted(held) for i, held in table.items()},
            lambda saved: {int(i): set(held) for i, held in saved.items()},
        ),
        "_closed": PLAIN,
        "owners": OWNERS,
        "_signatures": TABLE,
        "_certificate": PLAIN,
    }

    def __init__(self, session: ServerSession, plan: RunPlan) -> None:
        super().__init__(session, plan)
        if plan.spare < 0:  # how many holders a role has is known when the roles are dealt
            raise InvalidInput(f"spare must be at least 0, got {plan.spare}")
        if plan.parameters.samples is not None:
            raise InvalidInput(
                f"samples must be None for role-keys, whose owners may be left out, got {plan.parameters.samples}"
            )
        unknown = [name for name in (*plan.holders, *plan.helpers) if name not in plan.names]
        if unknown:
            raise InvalidInput(f"holders and helpers must be among the devices expected, got {', '.join(unknown)}")
        self._pods = () if plan.terms is None else plan.terms.pods
        least = plan.parameters.least_owners
        self._least_owners = least if plan.terms is None else max(least, plan.terms.least_owners)
        self._uploads: dict[int, bytes | Shelved] = {}  # packed, until the list says whose count
        self._shares: dict[int, bytes] = {}  # commitments and envelopes, for holders that get their role's key late
        self._listed_as: dict[int, ListedOwner] = {}
        self._holds: dict[int, set[int]] = {}
        self._closed = False  # no more uploads are waited for
        self.owners: OwnerList | None = None
        self._signatures: dict[int, bytes] = {}
        self._certificate = b""
        self.keys = RoleKeyRounds(session)
        self.handlers |= {
            Kind.ROLE_KEY: self._on_role_key,
            Kind.ROLE_KEY_HELD: self._on_role_key,
            Kind.HOLDS: self._on_holds,
            Kind.SIGNATURE: self._on_signature,
        }

    @property
    def parts(self) -> dict[str, Checkpointable]:
        """See ``ServerSharing``."""
        return {**super().parts, "role keys": self.keys}

    # -- roles

    def agree(self, members: Sequence[Member], initial_model: Floats | None) -> Agreement:
        plan, joined = self._plan, {member.name for member in members}
        n_roles = plan.parameters.colluders + 1
        holders = [name for name in plan.holders or plan.names if name in joined]
        blocks = plan.blocks_among(len(holders))
        if len(holders) // n_roles < plan.spare + 1:
            raise InvalidInput(
                f"every role must have {plan.spare + 1} holder(s) for {plan.spare} spare answers, got"
                f" {len(holders)} holders for {n_roles} roles"
            )
        owners = joined - plan.helpers
        if len(self._whole_names(owners)) < self._least_owners:  # before anybody uploads in vain
            raise self._too_few_owners(owners)
        cells = deal_cells(holders, n_roles, blocks, plan.reserve) if blocks > 1 else deal_cells(holders, n_roles)
        invitation, helpers = self._session.invitation, plan.helpers & joined
        return Agreement.freeze(invitation, members, initial_model, cells=cells, helpers=helpers)

    @property
    def _roles(self) -> RoleCode:
        code = self._session.agreed.answer_code
        assert isinstance(code, RoleCode)
        return code

    @property
    def needed_words(self) -> str:
        return "one of each role and block of rows" if self._session.agreed.blocks else "one of each role"

    @property
    def _holder_names(self) -> tuple[str, ...]:
        agreed = self._session.agreed
        return tuple(agreed.names[i] for i in agreed.holders)

    # -- uploads and seeds

    @property
    def owner_names(self) -> tuple[str, ...]:
        """See ``ServerSharing``; here those on the list."""
        return () if self.owners is None else self.owners.names

    def open(self) -> None:
        self.keys.go_on(self.gone, self.complaints)

    def _on_role_key(self, message: Message) -> None:
        agreed = self._session.agreed
        before = set(self.keys.signatures)
        take = self.keys.take_key if message.kind is Kind.ROLE_KEY else self.keys.take_held
        take(message)
        for owner, shares in self._shares.items() if set(self.keys.signatures) - before else ():
            self._pass_on(agreed.names[owner], Shares.decode(shares), set(self.keys.signatures) - before)
        self.keys.go_on(self.gone, self.complaints)

    def _awaits(self, sender: int) -> bool:
        return sender not in self.shared and not self._closed and sender in self._session.agreed.owners

    def _receivers(self, sender: int) -> Collection[int]:
        """All key holders."""
        del sender
        return self._session.agreed.holders

    def _envelopes_of(self, sender: int) -> Collection[str]:
        """One per role, whatever the number of holders."""
        del sender
        return [seed_purpose(role) for role in range(self._roles.n_roles)]

    def _relay(self, sender: str, shares: Shares, bulk: Mapping[str, bytes]) -> None:
        """To holders that have the key of their role; the others get it when they have."""
        del bulk
        self._shares[self._session.agreed.position(sender)] = shares.encode()
        self._pass_on(sender, shares, set(self.keys.signatures))

    def _pass_on(self, sender: str, shares: Shares, holders: set[int]) -> None:
        """Each role's envelope to these of its holders, as it is: it opens with these commitments alone."""
        session, agreed = self._session, self._session.agreed
        for role in range(self._roles.n_roles):
            body = Share(shares.commitments, shares.envelopes[seed_purpose(role)]).encode()
            names = [agreed.names[i] for i in self._roles.holders(role) if i in holders and agreed.names[i] != sender]
            if names:
                session.outbox.send(tuple(names), Message(Kind.SHARE, session.run, agreed.hash, sender, SERVER, body))

    def _take(self, sender: int, message: Message, shares: Shares) -> Mapping[str, bytes]:
        if set(shares.commitments.digests) != {seed_purpose(role) for role in range(self._roles.n_roles)}:
            raise MessageRefused(f"the shares of {message.sender!r} must commit to one seed per role: they do not")
        self._uploads[sender] = self._session.shelf(self._upload_of(message, shares))
        upload = sealed.digest_of([message.attachment])
        self._listed_as[sender] = ListedOwner(message.sender, shares.commitments.digest, upload)
        return {}

    def _upload_of(self, message: Message, shares: Shares) -> bytes:
        """Signed where z >= 1, else sealed: ``device`` says why."""
        if not self._plan.parameters.colluders:
            return self._opened_upload(message, shares)
        if shares.for_server:
            raise MessageRefused(f"the upload of {message.sender!r} must travel as it is with z >= 1: it is sealed")
        return self._checked_length(message.attachment)

    def _go_on(self) -> None:
        self._list_if_possible()

    def close_uploads(self) -> None:
        """The driver's deadline: owners that have not uploaded are left out, holders say whose seeds they have.

        Before owners were told of the roles' keys it is the deadline for those: others draw them, uploads stay open.

        With fewer than z + 2 uploads it stays open, so that those who are missing can still come: it raises
        ``NotEnoughDevices``.
        """
        if self._closed:
            return
        if not self.keys.told:
            self.keys.stop_waiting(self.gone)
            self.keys.go_on(self.gone, self.complaints)
            return
        if len(self._whole(self.shared)) < self._least_owners:
            raise self._too_few_owners(self._names(self.shared))
        self._closed = True
        self._session.broadcast(Kind.ROLL_CALL, b"", self._holder_names)

    def _on_holds(self, message: Message) -> None:
        sender, plaintext = self._session.open_from_member(message)
        agreed = self._session.agreed
        names = unpack_list(plaintext, "held seeds", most=agreed.n_devices + 1)
        check_types(names, (str,) * len(names), "held seeds")
        if sender not in agreed.holders:
            raise MessageRefused(f"{message.sender!r} must hold no keys in this run, but says so")
        held = {agreed.position(name) for name in names}
        # A report that was overtaken by a newer one takes nothing back.
        self._holds.setdefault(sender, set()).update(held)
        self._list_if_possible()

    # -- the list

    def _whole(self, owners: Collection[int]) -> set[int]:
        """Those of the owners whose pods are complete."""
        whole = self._whole_names(self._names(owners))
        return {j for j in owners if self._session.agreed.names[j] in whole}

    def _whole_names(self, names: Collection[str]) -> set[str]:
        return set(names) if not self._pods else set().union(*(pod for pod in self._pods if pod <= set(names)))

    def _too_few_owners(self, there: Collection[str]) -> NotEnoughDevices:
        missing = [name for name in self._plan.names if name not in self._plan.helpers | set(there)]
        rule = "z + 2" if self._plan.parameters.noise is None else "z and the honest ones that noise is made for"
        rule = "in whole pods" if self._pods else rule
        return NotEnoughDevices(
            f"the data of at least {self._least_owners} owners ({rule}) must be in the total, got"
            f" {len(self._whole_names(there))}: without {', '.join(missing)}",
            missing,
        )

    @property
    def _all_reported(self) -> bool:
        """Whether every holder that is alive has said whose seeds it has."""
        return set(self._session.agreed.holders) <= self.gone | set(self._holds)

    def _list_if_possible(self) -> None:
        """Fix the list once enough holders can serve it: all owners, or after the deadline all that every role covers.

        Invariant: there is one list per run. It is saved with the state before it leaves and never changes, and the
        single uploads are forgotten when it is made: what a server could have summed otherwise is not there any more.
        """
        if self.owners is not None or self._session.phase is not Phase.SHARING:
            return
        agreed = self._session.agreed
        if not self._closed and self.shared != set(agreed.owners):
            return
        if not self._closed and self.complaints:  # all are here, and some cannot be used: nobody else is waited for
            self.close_uploads()
            return
        covered = self._whole(self._usable())
        able = [i for i, held in self._holds.items() if covered <= held]
        best = covered == self._whole(self.shared)  # nothing better can come
        enough = best and len(able) >= signatures_needed(len(agreed.holders), self._plan.parameters.colluders)
        if not (enough or self._all_reported) or not (best or self._closed):
            return
        if len(covered) < self._least_owners:
            return  # ``go_on_without_gone`` says so
        self.owners = OwnerList(tuple(self._listed_as[j] for j in sorted(covered)))
        self._sum_uploads(covered)
        self._session.outbox.tell(Listed(self.owners.names))
        self._session.broadcast(Kind.OWNERS, self.owners.encoded, agreed.names)

    def _usable(self) -> set[int]:
        """Owners that have uploaded and whose seeds some holder of every role has; another one, where there is one.

        An owner that seals its own role another seed than it keeps would else be the only one to answer for the role.
        """
        code, usable = self._roles, set[int]()
        for j in self.shared:
            others = [[i for i in code.holders(role) if i not in self.gone | {j}] for role in range(code.n_roles)]
            if all(
                any(j in self._holds.get(i, ()) for i in there or code.holders(role))
                for role, there in enumerate(others)
            ):
                usable.add(j)
        return usable

    def _sum_uploads(self, covered: Collection[int]) -> None:
        """Over the listed owners; single uploads are forgotten."""
        ring, p = self._session.agreed.ring, self._plan.parameters
        triangle, constant = ring.zeros(p.triangle_length), ring.zeros(p.constant_length)
        for j in sorted(covered):
            self._add_upload(triangle, constant, taken_down(self._uploads[j]))
        self._uploads = {}
        self._offset_by(triangle, constant)

    def _on_signature(self, message: Message) -> None:
        """Invariant: two certified lists would have an honest signer in common, who signs one list per run."""
        agreed = self._session.agreed
        sender = agreed.position(message.sender)
        digest, signature = check_types(unpack_list(message.body, "a signature"), (bytes, bytes), "a signature")
        if self.owners is None or digest != self.owners.digest:
            raise MessageRefused("a signature must be on the list of this run: it is on another")
        self.owners.check_signature(message.sender, signature, agreed)
        self._signatures[sender] = signature
        if self._certificate:
            if sender in agreed.holders:  # others have no use for it
                self._session.relay(Kind.CERTIFICATE, self._certificate, (message.sender,))
        elif len(self._signatures) >= signatures_needed(agreed.n_devices, self._plan.parameters.colluders):
            self._certificate = Certificate({agreed.names[i]: one for i, one in self._signatures.items()}).encode()
            self._session.relay(Kind.CERTIFICATE, self._certificate, self._holder_names)

    # -- starting, and going on without some

    def can_start(self) -> bool:
        return bool(self._certificate)

    def in_vain(self) -> set[int]:
        """Holders without the key of their role, or with an unusable seed of an owner on the list."""
        listed = {} if self.owners is None else dict.fromkeys(self.owners.names)
        accusers = {name for accused in listed for name in self.complaints.get(accused, {})}
        return self.keys.in_vain(self.gone) | {self._session.agreed.position(name) for name in accusers}

    def _may_complain(self, sender: int, complaint: Complaint) -> bool:
        if complaint.reason is not Unusable.NO_KEY:
            return super()._may_complain(sender, complaint)
        return self.keys.giver_of.get(sender) == self._session.agreed.position(complaint.accused)

    def _on_complaint(self, message: Message) -> None:
        super()._on_complaint(message)
        self.keys.go_on(self.gone, self.complaints)

    def check_without_gone(self) -> None:
        self.keys.check_without(self.gone)
        agreed, signed = self._session.agreed, set(self._signatures)
        needed = signatures_needed(agreed.n_devices, self._plan.parameters.colluders)
        there = len(set(range(agreed.n_devices)) - self.gone | signed)
        if not self._certificate and there < needed:
            lost = [agreed.names[i] for i in sorted(self.gone - signed)]
            raise NotEnoughDevices(
                f"the list of owners must be signed by {needed} of {agreed.n_devices} devices, only"
                f" {there} are there: without {', '.join(lost)}",
                lost,
            )

    def go_on_without_gone(self) -> None:
        """When all that have not uploaded are gone, the deadline is now."""
        if self._session.phase is Phase.SHARING:
            self.keys.go_on(self.gone, self.complaints)
            if self.keys.told and self.unshared and set(self.unshared) <= self._names(self.gone):
                self.close_uploads()
            self._list_if_possible()
            if self._closed and self.owners is None and self._all_reported:
                raise self._too_few_owners(self._names(self._usable()))
