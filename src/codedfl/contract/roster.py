"""Who takes part: every device's name and public key, and the disclosure group that its rows belong to (``pod``).

A sum is over a union of whole groups, so that whatever is computed of any number of sums is the same for all owners of
a group; each has at least z + 2 of them, of which z may help the server. Key-only participants (``helper``) have no
rows and do not count. Groups change only by the signatures of all owners whom it touches (``roster_change``). The study
names the roster by its ``digest``.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import tomli_w

from codedfl.contract.names import checked_name
from codedfl.contract.study import Study
from codedfl.crypto.sealed import KEY_BYTES
from codedfl.data.canonical import canonical_digest
from codedfl.errors import InvalidInput
from codedfl.files import write_text

FORMAT = "codedfl-roster-1"
_LARGEST = 1 << 22
_MOST_PODS = 1 << 16


@dataclass(frozen=True)
class Member:
    """One device: its name, its public key, the number of its pod, and whether it only helps (and has no rows).

    >>> Member("clinic-1", bytes(32), 0).helper
    False
    """

    name: str
    key: bytes
    pod: int
    helper: bool = False

    def __post_init__(self) -> None:
        checked_name(self.name, "a name on the roster")
        if len(self.key) != KEY_BYTES:
            raise InvalidInput(f"key of {self.name!r} must have {KEY_BYTES} bytes, got {len(self.key)}")
        if not 0 <= self.pod < _MOST_PODS:
            raise InvalidInput(f"pod of {self.name!r} must be between 0 and {_MOST_PODS - 1}, got {self.pod}")


@dataclass(frozen=True)
class Roster:
    """All devices, in the file's order.

    >>> roster = Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(7)}, colluders=1)
    >>> [len(pod) for pod in roster.pods]
    [4, 3]
    """

    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        for what in ("name", "key"):
            seen = [getattr(one, what) for one in self.members]
            if len(set(seen)) < len(seen):
                twice = max(seen, key=seen.count)
                raise InvalidInput(
                    f"each {what} must be on the roster once, got"
                    f" {twice.hex()[:16] if isinstance(twice, bytes) else repr(twice)} twice"
                )

    def __repr__(self) -> str:
        helpers = f", {len(self.helpers)} with keys only" * bool(self.helpers)
        return f"<Roster of {len(self.owners)} owners in {len(self.pods)} groups{helpers}>"

    @classmethod
    def draft(cls, keys: Mapping[str, bytes], colluders: int, helpers: Iterable[str] = (), honest: int = 2) -> Roster:
        """As many groups as there can be of z + 2 owners, in the order of names, their sizes as even as possible.

        honest: with noise, how many owners of a pod must add theirs, in addition to z others.
        """
        helping = sorted(set(helpers))
        if strange := [name for name in helping if name not in keys]:
            raise InvalidInput(f"helpers must be among the devices, got {strange[0]!r}")
        owners = sorted(set(keys) - set(helping))
        least = colluders + max(2, honest)
        n_pods = len(owners) // least
        if not n_pods:
            raise InvalidInput(f"owners must be at least colluders + {max(2, honest)} ({least}), got {len(owners)}")
        ends = [-(-len(owners) * pod // n_pods) for pod in range(n_pods + 1)]
        members = [Member(name, keys[name], pod) for pod in range(n_pods) for name in owners[ends[pod] : ends[pod + 1]]]
        return cls((*members, *(Member(name, keys[name], 0, helper=True) for name in helping)))

    @property
    def keys(self) -> dict[str, bytes]:
        """Public keys by name, in the file's order."""
        return {one.name: one.key for one in self.members}

    @property
    def owners(self) -> tuple[str, ...]:
        """The devices that have rows."""
        return tuple(one.name for one in self.members if not one.helper)

    @property
    def helpers(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.members if one.helper)

    @property
    def pods(self) -> tuple[frozenset[str], ...]:
        """The owners of each disclosure group, by its number; key-only participants are in none."""
        numbers = sorted({one.pod for one in self.members if not one.helper})
        of = {number: frozenset(m.name for m in self.members if m.pod == number and not m.helper) for number in numbers}
        return tuple(of.values())

    def without_one(self) -> tuple[int, int]:
        """How many owners are left in whole groups when a device of the largest one is absent, and of the smallest.

        >>> Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(7)}, colluders=1).without_one()
        (3, 4)
        """
        sizes = [len(pod) for pod in self.pods]
        return sum(sizes) - max(sizes), sum(sizes) - min(sizes)

    def pod_of(self, name: str) -> frozenset[str]:
        """The owners of a device's disclosure group; empty for a key-only participant."""
        return next((pod for pod in self.pods if name in pod), frozenset())

    def member(self, name: str) -> Member:
        """The device of this name; one that is not on the roster is refused."""
        for one in self.members:
            if one.name == name:
                return one
        raise InvalidInput(f"the device must be on the roster, got {name!r}")

    def check(self, colluders: int, honest: int = 2) -> None:
        """Refuse a roster with a pod of fewer than z + 2 owners, or of fewer than noise is made for beside z others."""
        if not self.pods:
            raise InvalidInput("the roster must have at least one pod of owners, got none")
        least, rule = (colluders + honest, "honest") if honest > 2 else (colluders + 2, "2")
        for number, pod in enumerate(self.pods):
            if len(pod) < least:
                raise InvalidInput(
                    f"each pod must have at least colluders + {rule} ({least}) owners, got {len(pod)} in pod"
                    f" {number} ({', '.join(sorted(pod))})"
                )

    def check_bound(self, study: Study) -> None:
        """Refuse another roster than the one that a study names, or one whose groups are too small for it."""
        if self.digest().hex() != study.roster:
            raise InvalidInput(
                f"the roster must be the one that the study names, {study.roster[:16] or 'none'}, got"
                f" {self.digest().hex()[:16]}: codedfl roster show prints the line for the study"
            )
        self.check(study.colluders, study.honest)

    def digest(self) -> bytes:
        """What a study names it by; the order of devices does not matter."""
        entries = sorted([one.name, one.key.hex(), one.pod, one.helper] for one in self.members)
        return canonical_digest(FORMAT, entries)

    # -- changes

    def renewed(self, name: str, key: bytes) -> Roster:
        """A device has a new key: its name and pod stay, and so does what it has approved."""
        new = replace(self.member(name), key=key)
        return Roster(tuple(new if one.name == name else one for one in self.members))

    def with_newcomers(self, keys: Mapping[str, bytes], colluders: int) -> Roster:
        """More owners: they form groups of their own, since nobody changes the one that its rows are in."""
        drafted = Roster.draft(keys, colluders).members
        first = 1 + max((one.pod for one in self.members), default=-1)
        return Roster((*self.members, *(replace(one, pod=first + one.pod) for one in drafted)))


def groups_of(roster: Roster) -> dict[int, str]:
    """Of each disclosure group a digest of its owners' keys: a name can be given to anybody.

    >>> roster = Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(6)}, colluders=1)
    >>> [(number, len(one)) for number, one in groups_of(roster).items()]
    [(0, 64), (1, 64)]
    """
    keys: dict[int, list[bytes]] = {}
    for one in roster.members:
        if not one.helper:
            keys.setdefault(one.pod, []).append(one.key)
    return {number: hashlib.sha256(b"".join(sorted(of))).hexdigest() for number, of in sorted(keys.items())}


def load_roster(path: Path | str) -> Roster:
    """Read a roster file; what is wrong is said in one line.

    >>> load_roster("no-such.toml")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: the roster must be a readable file, got 'no-such.toml'
    """
    path = Path(path)
    if not path.is_file() or path.stat().st_size > _LARGEST:
        raise InvalidInput(f"the roster must be a readable file, got {str(path)!r}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path.name} must be text in UTF-8, got an error: {error}") from None
    return parse_roster(text, path.name)


def parse_roster(text: str, where: str = "the roster") -> Roster:
    """A roster from the text of its file; ``where`` names it in errors.

    >>> parse_roster("pod = 1", "it")
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: it must be a roster (format = 'codedfl-roster-1' and [[device]]), got something else
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # of TOML itself, of endless numbers and nesting
        raise InvalidInput(f"{where} must be TOML, got an error: {error}") from None
    entries = content.get("device")
    if content.get("format") != FORMAT or not isinstance(entries, list) or set(content) > {"format", "device"}:
        raise InvalidInput(f"{where} must be a roster (format = {FORMAT!r} and [[device]]), got something else")
    return Roster(tuple(_member(entry) for entry in entries))


class _Device(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    key: str
    pod: int
    helper: bool = False


def _member(entry: object) -> Member:
    try:
        said = msgspec.convert(entry, _Device)
    except msgspec.ValidationError:
        raise InvalidInput(
            f"each device on the roster must have name, key, pod and maybe helper, got {entry!r:.80}"
        ) from None
    try:
        key = bytes.fromhex(said.key)
    except ValueError:
        key = b""
    return Member(said.name, key, said.pod, said.helper)


def save_roster(roster: Roster, path: Path | str) -> None:
    """Write a roster, in its own order.

    >>> import tempfile; path = Path(tempfile.mkdtemp()) / "roster.toml"
    >>> roster = Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(3)}, colluders=1)
    >>> save_roster(roster, path); load_roster(path) == roster
    True
    """
    write_text(Path(path), roster_text(roster))


def roster_text(roster: Roster) -> str:
    """The text of a roster's file, in its own order.

    >>> roster = Roster.draft({f"clinic-{i}": bytes([i] * 32) for i in range(3)}, colluders=1)
    >>> parse_roster(roster_text(roster)) == roster
    True
    """
    devices = [{"name": one.name, "key": one.key.hex(), "pod": one.pod} for one in roster.members]
    for entry, one in zip(devices, roster.members, strict=True):
        entry.update({"helper": True} if one.helper else {})
    return tomli_w.dumps({"format": FORMAT, "device": devices})
