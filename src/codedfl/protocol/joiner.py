"""How a device comes into a run: it is invited, judges by its policy, joins, and accepts one agreement.

The first of a device's concerns (``device`` has the rest), as ``convener`` is the server's. What it may take part in is
its operator's ``policy``, its ``ledger`` and its roster, never a matter of its rows.
"""

from __future__ import annotations

import secrets as system_random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from numpy.typing import ArrayLike

from codedfl.crypto import sealed
from codedfl.crypto.pads import SEED_BYTES
from codedfl.crypto.sealed import Identity, RunKey
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fixed_point import Bounds
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import NONCE_BYTES, Agreement, Invitation, Parameters
from codedfl.protocol.ledger import AS_AGREED, Entry, Ledger, row_tags, rows_as_bytes
from codedfl.protocol.local_data import Origin, checked_rows, fitted
from codedfl.protocol.messages import (
    MAX_NAME,
    SERVER,
    Kind,
    Message,
    name_length,
    pack_list,
)
from codedfl.protocol.policy import Policy
from codedfl.state import PLAIN, Kept, Resumable, optional
from codedfl.typing import Floats, RandomBytes


class Joiner(Resumable, ABC):
    """The device until it is part of an agreement; see ``Device`` for the arguments."""

    scheme: ClassVar[str]
    reveals_gram: ClassVar[bool] = False  # whether it lets the server have the total of X'X itself
    adds_noise: ClassVar[bool] = False  # whether one upload is all that ever depends on the rows, so that noise hides
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
        if not invitation.opens(message.body):
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
        rows = rows_as_bytes(*self._rows) if self._origin is None else self._origin.rows
        return row_tags(self.identity, rows)

    def _fit_rows(self, agreement: Agreement) -> None:
        rows = fitted(*self._rows, agreement.parameters.bounds, agreement.parameters.noise)
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

    @abstractmethod
    def _begin_sharing(self) -> list[Message]:
        """Called once, when the agreement is accepted."""

    @property
    def _rows(self) -> tuple[Floats, Floats]:
        if self._data is None:
            raise MessageRefused("the device's data were used in an earlier run: make a new device")
        return self._data

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


def _limits(bounds: Bounds) -> tuple[float, float, int]:
    """What a server may choose of how rows are fitted."""
    return float(bounds.features), float(bounds.labels), bounds.samples_per_device


def _short(digest: bytes) -> str:
    return digest.hex()[:16] or "none"
