"""Who takes part in the sums of a study, as every party derives it by itself: groups, roles, lists that may be summed.

**Disclosure groups.** The owners of a roster are divided once, each group with at least z + 2 of them, and a list is a
union of whole groups. **Roles.** Each participant holds the key of at most one of z + 1 roles; which one follows from
its name and group, never from the order of a file or a choice of the server. Let r be a role that no colluder has. Each
upload has one pad of role r, and holders of r only ever reply with sums over whole groups; so whatever server and z
devices do, in any number of requests, what they can compute is a function of sums over groups (THREAT_MODEL.md has the
proof).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from codedfl.errors import InvalidInput
from codedfl.sum.keys import Scope, enrolment_text, role_key_text
from codedfl.sum.signatures import check_signature
from codedfl.sum.wire import Enrolment, ListEntry, Refused, RoleKey


@dataclass(frozen=True)
class Participant:
    """One device: its name, its long-term public key, and its disclosure group; None for a key-only participant."""

    name: str
    key: bytes
    group: int | None


@dataclass(frozen=True)
class Terms:
    """The participants of a study.

    study: its digest h. server: the long-term key of its server.
    colluders: z. least_owners: how many owners a sum must have at least.
    holders: how many participants hold a role at most; None is all of them.

    Examples
    --------
    >>> from codedfl.sum.terms import Participant, Terms
    >>> people = [Participant(name, name.encode() * 32, 0) for name in "abc"]
    >>> terms = Terms(bytes(32), bytes(32), tuple(people), colluders=1)
    >>> terms.roles
    {'a': 0, 'b': 1, 'c': 0}
    """

    study: bytes
    server: bytes
    participants: tuple[Participant, ...] = field(repr=False)
    colluders: int
    least_owners: int = 2
    holders: int | None = None

    def __post_init__(self) -> None:
        # Invariant: one key, one participant. A device under two names would hold two roles, or count twice in a group.
        names = [one.name for one in self.participants]
        keys = {one.key for one in self.participants}
        if len(set(names)) < len(names) or len(keys) < len(names):
            raise InvalidInput("every participant must have a name and a key of its own, got one twice")
        # Invariant: z colluders know their own part of a group's sum; two others are left, so it is no one's own.
        least = self.colluders + 2
        for number, group in self.groups.items():
            if len(group) < least:
                raise InvalidInput(
                    f"a disclosure group must have at least {least} owners, got {len(group)} in {number}"
                )
        # A role without a holder could never be answered for, and its pads never be taken off.
        held = set(self.roles.values())
        if held != set(range(self.colluders + 1)):
            raise InvalidInput(f"every one of {self.colluders + 1} roles must have a holder, got {len(held)} with one")

    @cached_property
    def by_name(self) -> Mapping[str, Participant]:
        return {one.name: one for one in self.participants}

    @cached_property
    def groups(self) -> Mapping[int, tuple[str, ...]]:
        """The owners of each group, ascending by name."""
        numbers = sorted({one.group for one in self.participants if one.group is not None})
        return {number: _sorted(one.name for one in self.participants if one.group == number) for number in numbers}

    @cached_property
    def roles(self) -> Mapping[str, int]:
        """Who holds which role.

        Invariant: the rank within a group counts, so that every whole group has holders of all roles; and nothing but
        names, groups and z decides.
        """
        key_only = _sorted(one.name for one in self.participants if one.group is None)
        found: dict[str, int] = {}
        for place, group in enumerate((*self.groups.values(), key_only)):
            for rank, name in enumerate(group):
                # Invariant: whole groups come first, so that a limit on holders takes no role from the first groups.
                if self.holders is None or len(found) < self.holders:
                    found[name] = (rank + place) % (self.colluders + 1)
        return found

    def holders_of(self, role: int) -> tuple[str, ...]:
        """In the order in which roles are dealt out."""
        return tuple(name for name, held in self.roles.items() if held == role)

    @cached_property
    def can_certify(self) -> bool:
        """Whether every role has z + 1 holders, one of whom is honest: then what they sign is believed."""
        return all(len(self.holders_of(role)) > self.colluders for role in range(self.colluders + 1))

    def least_in(self, fixed: Collection[int]) -> int:
        """How many owners a list has at least. Where a request fixes its groups, the contract says whether they do."""
        return self.colluders + 2 if fixed else self.least_owners

    @cached_property
    def owners(self) -> frozenset[str]:
        return frozenset(one.name for one in self.participants if one.group is not None)

    def whole_groups(self, names: Collection[str]) -> tuple[int, ...]:
        """The groups of which every owner is among these."""
        # Never a part of a group: what is short of one owner counts as absent, and nobody has to be believed for it.
        here = set(names)
        return tuple(number for number, group in self.groups.items() if here.issuperset(group))

    # -- what a device checks of others

    def check_enrolment(self, scope: Scope, one: Enrolment, now: float) -> None:
        """Refuse a key of the generation that its owner on the roster has not signed, or that has expired."""
        member = self.by_name.get(one.name)
        if member is None:
            raise Refused("list", f"every participant must be on the roster, got {one.name[:80]!r}")
        # Invariant: what holders compare is signed by its owner. A server that made up a key for an owner could take
        # off its pads by itself.
        if not 0 <= one.not_after < 1 << 63 or one.not_after <= now:
            raise Refused("list", f"the enrolment of {one.name!r} must not have expired")
        check_signature("list", member.key, enrolment_text(scope, one.not_after, one.public), one.signature)

    def check_role_key(self, scope: Scope, role: int, key: RoleKey) -> None:
        """Refuse a role key that no holder of the role has signed."""
        if self.roles.get(key.drawer) != role:
            raise Refused(
                "role", f"the key of role {role} must be drawn by one of its holders, got {key.drawer[:80]!r}"
            )
        # Invariant: the signer holds this very role. Were it a holder of another one, z colluders could know z + 1 role
        # keys.
        drawer = self.by_name[key.drawer].key
        check_signature("role", drawer, role_key_text(scope, role, key.public), key.signature)

    def check_list(self, entries: Sequence[ListEntry], fixed: Collection[int] = ()) -> None:
        """Refuse a list that is not strictly ascending, not of whole groups, too short, or not of the ``fixed`` groups.

        Invariant: strictly ascending, so each owner is in it once: a doubled one would break the proof.
        """
        names = [one.name.encode() for one in entries]
        if any(first >= second for first, second in pairwise(names)):
            raise Refused("list", "a list of owners must be strictly ascending by name")
        listed = {one.name for one in entries}
        groups = self.whole_groups(listed)
        # Invariant: each owner's pads are shifted together with those of its whole group (the proof in
        # THREAT_MODEL.md).
        if sum(len(self.groups[number]) for number in groups) != len(listed):
            raise Refused("list", "a list of owners must be a union of whole disclosure groups")
        if len(listed) < (least := self.least_in(fixed)):
            raise Refused("list", f"at least {least} owners must be in a sum, got {len(listed)}")
        # Invariant: where the request fixes its groups, a sum over fewer does not exist, and nothing can be subtracted.
        if fixed and set(groups) != set(fixed):
            raise Refused("list", "a list of owners must be of the groups that the request fixes")


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=str.encode))
