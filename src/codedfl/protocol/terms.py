"""What a device's operator agreed to, as the device derives it by itself: a run on any other terms is refused.

A server that may choose a parameter chooses it so that totals can be combined to a person. So it may choose none: the
device compares what it is invited to with what follows from the study that its operator approved. What stays the
server's choice (order, roles, who is asked, e) tells nothing beyond totals over whole pods, whatever it chooses.

**Pods.** The owners of a roster are divided once, each pod with at least z + 2 of them (with noise, z and the honest
ones that it is made for), and a list of owners is a union of whole pods. Let server and z devices know the seeds of all
roles but one. Of that role an honest holder only ever answers for the sum of the seeds of a list, so every combination
of uploads and answers in which the seeds cancel has the same coefficient for all owners of a pod: what can be computed
is a function of totals over pods. This needs no memory, and holds for any number of runs, lists, rolled-back devices
and servers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from codedfl.crypto import sealed
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol.agreement import Agreement, Invitation, Parameters

DOES_NOT_TAKE_PART = "this device does not take part"  # all that a server is ever told: a reason would tell of rows


@dataclass(frozen=True)
class Terms:
    """The terms of one run.

    parameters: exactly these.
    server_public: the server's long-term key.
    roster: the long-term key of every device, by name; helpers are on it too.
    pods: the owners, by name, in their pods.
    least_owners: how many owners a total must have at least.
    """

    parameters: Parameters
    server_public: bytes
    roster: Mapping[str, bytes]
    pods: tuple[frozenset[str], ...] = field(repr=False)
    least_owners: int = 2

    def __post_init__(self) -> None:
        p, owners = self.parameters, [name for pod in self.pods for name in pod]
        if len(set(owners)) != len(owners) or not set(owners) <= set(self.roster):
            raise InvalidInput("every owner must be in one pod and on the roster, got one that is not")
        smallest = min(map(len, self.pods), default=0)
        if smallest < p.least_owners:  # what two lists differ by is whole pods, with no noise but their own
            raise InvalidInput(f"every pod must have at least {p.least_owners} owners, got one of {smallest}")
        if p.owners != len(owners) and not p.total_limit:  # else who is asked would move the scales
            raise InvalidInput(f"owners must be {len(owners)}, as many as are in the pods, got {p.owners}")

    def check_server(self, public: bytes) -> None:
        """Refuse another server than the one agreed to."""
        if public != self.server_public:
            mine, theirs = sealed.fingerprint(self.server_public), sealed.fingerprint(public)
            raise MessageRefused(f"the server's key must be {mine}, got {theirs}")

    @property
    def directions(self) -> int:
        """How many directions of X'X a server can learn the image of over the life of these terms, if it lies.

        Every device answers epochs - 1 different questions, in whatever run. Roles are the server's to deal: colluders
        with a role each leave one role to all others, and then every answer of theirs is a direction by itself. Blocks
        of rows add nothing to this: an answer in blocks is a part of the answer to the same question without.
        """
        p = self.parameters
        return p.n_outputs * (p.epochs - 1) * (len(self.roster) - p.colluders)

    def objection(self, invitation: Invitation) -> str:
        """Why an invitation of this server is refused; empty when it is what was agreed to."""
        if invitation.parameters == self.parameters:
            return ""
        mine, theirs = vars(self.parameters), vars(invitation.parameters)
        name = next(name for name in mine if mine[name] != theirs[name])
        return f"{name} must be {mine[name]!r:.80} as it follows from the study, got {theirs[name]!r:.80}"

    def check_set(self, agreement: Agreement) -> None:
        """Refuse participants who are not on the roster, or data where there are none."""
        for member in agreement.members:
            pinned = self.roster.get(member.name)
            if pinned is None:
                raise MessageRefused(f"every participant must be on the roster, got {member.name!r}")
            if pinned != member.identity:
                raise MessageRefused(
                    f"the key of {member.name!r} must be {sealed.fingerprint(pinned)} as on the roster, got"
                    f" {sealed.fingerprint(member.identity)}: the relay may be lying"
                )
        owners = frozenset().union(*self.pods)
        if {agreement.names[i] for i in agreement.owners} != owners & set(agreement.names):
            raise MessageRefused("owners of data must be those in the pods of the roster, got others")
        if np.any(agreement.initial_model):
            raise MessageRefused("the initial model must be zero, got another")

    def check_list(self, owners: Collection[str]) -> None:
        """Refuse a list that is no union of whole pods, or too short."""
        listed = frozenset(owners)
        if len(listed) < self.least_owners:
            raise MessageRefused(f"at least {self.least_owners} owners must be in the total, got {len(listed)}")
        for pod in self.pods:
            missing = sorted(pod - listed)
            if missing and pod & listed:
                raise MessageRefused(f"a list of owners must have whole pods, got one without {missing[0]!r}")
