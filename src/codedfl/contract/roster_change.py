"""A change of disclosure groups: signed by all owners of the groups that it touches, or it is none.

Sums over two divisions into groups can be subtracted, and no hospital sees by itself what that singles out: of
{v, U, W}, {X, Y} and {U, X}, {W, Y} it is v, which is in one of the four groups only. So every key of every
group that is in one roster and not in the other signs both rosters' digests, and what becomes computable is shown
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from codedfl.contract.roster import Roster, groups_of, parse_roster, roster_text
from codedfl.crypto.sealed import Identity, verify
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.files import write_bytes

FORMAT = "codedfl-roster-change-1"
ENDING = ".codedfl"
_LARGEST = 1 << 24
_MOST_OWNERS = 1 << 12  # whose sums are worked out


class _File(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    format: str
    old: str
    new: str
    signatures: dict[str, bytes]  # by the key in hex


@dataclass(frozen=True)
class RosterChange:
    """From one roster to another, with the signatures so far.

    signatures: by public key.

    >>> keys = {f"clinic-{i}": Identity(bytes([1 + i] * 32)) for i in range(6)}
    >>> old = Roster.draft({name: one.public for name, one in keys.items()}, colluders=1)
    >>> new = Roster(tuple(replace(one, pod=place % 2) for place, one in enumerate(old.members)))
    >>> change = RosterChange(old, new)
    >>> for one in keys.values(): change = change.signed(one)
    >>> change.missing
    ()
    """

    old: Roster
    new: Roster
    signatures: Mapping[bytes, bytes] = field(default_factory=dict)

    @property
    def signed_bytes(self) -> bytes:
        """What owners sign: this change, and no other."""
        return b"codedfl roster change 1|" + self.old.digest() + self.new.digest()

    @property
    def touched(self) -> dict[bytes, str]:
        """All owners of groups that only one of the rosters has, by their keys."""
        groups = [set(groups_of(one).values()) for one in (self.old, self.new)]
        changed = groups[0] ^ groups[1]
        return {
            one.key: one.name
            for roster in (self.old, self.new)
            for number, group in groups_of(roster).items()
            if group in changed
            for one in roster.members
            if one.pod == number and not one.helper
        }

    @property
    def missing(self) -> tuple[str, ...]:
        """Owners who have not signed."""
        return tuple(sorted(name for key, name in self.touched.items() if key not in self.signatures))

    def signed(self, identity: Identity) -> RosterChange:
        """With the signature of one more owner, who must be one whom the change touches."""
        if identity.public not in self.touched:
            raise InvalidInput(
                "who signs a roster change must be an owner of a disclosure group that it touches"
                f" ({', '.join(sorted(self.touched.values())) or 'it touches none'}), got the key"
                f" {identity.public.hex()[:16]}..."
            )
        return replace(self, signatures={**self.signatures, identity.public: identity.sign(self.signed_bytes)})

    def with_signatures(self, other: RosterChange) -> RosterChange:
        """With those of a copy that went elsewhere."""
        if other.signed_bytes != self.signed_bytes:
            raise InvalidInput("copies of a roster change must be of the same two rosters, got another change")
        return replace(self, signatures={**self.signatures, **other.signatures})

    def objection(self) -> str:
        """Why it is not complete; "" where all owners of the touched groups have signed."""
        if not self.missing:
            return ""
        return (
            f"a roster change must be signed by all owners of the groups that it touches, got no signature of"
            f" {', '.join(self.missing)}: codedfl site sign-roster"
        )

    def encode(self) -> bytes:
        """As its file has it."""
        signatures = {key.hex(): one for key, one in sorted(self.signatures.items())}
        return msgspec.msgpack.encode(_File(FORMAT, roster_text(self.old), roster_text(self.new), signatures))

    @classmethod
    def decode(cls, data: bytes) -> RosterChange:
        """What ``encode`` made; anything else, and every signature that is not of this change, is refused."""
        try:
            found = msgspec.msgpack.decode(data, type=_File)
            keys = {bytes.fromhex(key): one for key, one in found.signatures.items()}
        except (msgspec.MsgspecError, ValueError):
            found, keys = _File("", "", "", {}), {}
        if found.format != FORMAT:
            raise InvalidInput("a roster change must be what codedfl roster change wrote, got something else")
        change = cls(parse_roster(found.old, "the old roster"), parse_roster(found.new, "the new roster"))
        for key, signature in keys.items():
            name = change.touched.get(key)
            try:
                if name is None:
                    raise MessageRefused("a stranger's")
                verify(key, change.signed_bytes, signature)
            except (MessageRefused, InvalidInput):
                raise InvalidInput(
                    f"a signature of a roster change must be of this change, by an owner that it touches, got another"
                    f" of {name or key.hex()[:16]!r}"
                ) from None
        return replace(change, signatures=keys)


def computable(rosters: Sequence[Roster]) -> tuple[tuple[frozenset[str], bool], ...]:
    """The atoms of all divisions into groups: owners that no sum tells apart, and whether their own sum is computable.

    >>> v, u, x = "v", ["u1", "u2"], ["x1", "x2"]
    >>> keys = {name: bytes([place] * 32) for place, name in enumerate([v, *u, *x])}
    >>> from codedfl.contract.roster import Member
    >>> old = Roster(tuple(Member(name, key, 0) for name, key in keys.items()))
    >>> new = Roster(tuple(Member(name, keys[name], 0) for name in (*u, *x)))
    >>> [(sorted(owners), alone) for owners, alone in computable((old, new))]
    [(['u1', 'u2', 'x1', 'x2'], True), (['v'], True)]
    """
    places = [
        {one.key: (number, one.pod) for one in roster.members if not one.helper}
        for number, roster in enumerate(rosters)
    ]
    names = {one.key: one.name for roster in rosters for one in roster.members if not one.helper}
    if len(names) > _MOST_OWNERS:
        raise InvalidInput(f"rosters whose sums are compared must have at most {_MOST_OWNERS} owners, got {len(names)}")
    atoms: dict[tuple[tuple[int, int] | None, ...], set[str]] = {}
    for key, name in names.items():
        atoms.setdefault(tuple(one.get(key) for one in places), set()).add(name)
    groups = sorted({place for atom in atoms for place in atom if place is not None})
    sums = np.array([[group in atom for atom in atoms] for group in groups], dtype=np.float64)
    rank = np.linalg.matrix_rank(sums)
    found = []
    for place, owners in enumerate(atoms.values()):
        alone = np.zeros((1, len(atoms)))
        alone[0, place] = 1.0
        found.append((frozenset(owners), bool(np.linalg.matrix_rank(np.vstack((sums, alone))) == rank)))
    return tuple(sorted(found, key=lambda one: (not one[1], sorted(one[0]))))


def singled_out(changes: Sequence[RosterChange]) -> tuple[str, ...]:
    """Owners whose own sum the rosters of all these changes give together, and none of the changes by itself.

    >>> singled_out([])
    ()
    """
    rosters = {one.digest(): one for change in changes for one in (change.old, change.new)}
    # Invariant: who signed a change read what it makes computable; of three rosters more is, and nobody read that.
    shown = {owners for one in changes for owners, alone in computable((one.old, one.new)) if alone}
    found = [owners for owners, alone in computable(list(rosters.values())) if alone and owners not in shown]
    return tuple(sorted(set().union(*found)))


def load_change(path: Path) -> RosterChange:
    """Read a change; what is wrong is said in one line.

    >>> load_change(Path("no-such.codedfl"))
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: a roster change must be a readable file, got 'no-such.codedfl'
    """
    if not path.is_file() or path.stat().st_size > _LARGEST:
        raise InvalidInput(f"a roster change must be a readable file, got {str(path)!r}")
    return RosterChange.decode(path.read_bytes())


def save_change(change: RosterChange, path: Path) -> None:
    """Write it, whole or not at all.

    >>> import tempfile; path = Path(tempfile.mkdtemp()) / "change.codedfl"
    >>> old = Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(3)}, colluders=1)
    >>> save_change(RosterChange(old, old), path); load_change(path) == RosterChange(old, old)
    True
    """
    write_bytes(path, change.encode())


def covering(changes: Iterable[RosterChange], new: Roster, past: frozenset[str]) -> RosterChange | None:
    """The change to this roster from the one whose groups a past approval has; it is refused where it is not complete.

    past: the digests of all groups of the past approval's roster.

    >>> old = Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(3)}, colluders=1)
    >>> covering([], old, frozenset()) is None
    True
    """
    for one in changes:
        if one.new.digest() == new.digest() and frozenset(groups_of(one.old).values()) == past:
            if objection := one.objection():
                raise InvalidInput(objection)
            return one
    return None
