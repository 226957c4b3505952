"""What the server knows of the devices of a generation: their keys, the keys of roles, who does not take part.

All of it was learned from replies and is learned again if it is lost; what is worth keeping over a restart is in the
store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import msgspec

from codedfl.crypto.sealed import KEY_BYTES, Identity
from codedfl.errors import MessageRefused
from codedfl.sum import events, wire
from codedfl.sum.keys import ExchangeKey, Scope, digest, open_reply, signed_request
from codedfl.sum.store import Store
from codedfl.sum.terms import Terms
from codedfl.sum.wire import Enrolment, RoleKey
from codedfl.typing import RandomBytes

_SEALED_TO = 4  # holders, and two more for each colluder, who are given a role's key when it is drawn
_FINAL = ("study", "signature", "generation")  # a device that says so takes part in nothing


class KeyLost(Exception):
    """No holder can open a role's key: another must be drawn, and uploads made for it."""

    def __init__(self, role: int) -> None:
        super().__init__(f"role {role}")
        self.role = role


class GenerationOver(Exception):
    """A device has closed this generation, or was in a newer one: only another one brings it back."""


class DrawnKey(msgspec.Struct):
    """A role's key, and its secret half sealed to holders: by name, for which enrolled key.

    lost: its drawer draws another one by now, so it is sealed to nobody else.
    """

    role_key: RoleKey
    sealed: dict[str, tuple[bytes, bytes]]
    lost: bool = False


class _Saved(msgspec.Struct):
    number: int
    secret: bytes
    not_after: int


@dataclass
class Known:
    """What is known now, and the requests that follow from it.

    lasts: seconds until a generation ends by itself. wall: seconds since 1970.
    excluded: devices whose replies were wrong. declined: the code that a device gave last for not taking part.
    contradicted: role and device of late replies that were not what had been used.
    lists: devices that have replied for a list, by its digest, so that it need not be sent again.
    contents: what asks need, by its digest. lacking: which of them a device says that it lacks.
    """

    terms: Terms
    identity: Identity
    store: Store
    lasts: float
    wall: Callable[[], float]
    random_bytes: RandomBytes
    tell: Callable[[events.Event], None]
    enrolled: dict[str, Enrolment] = field(default_factory=dict)
    drawn: dict[int, DrawnKey] = field(default_factory=dict)
    excluded: set[str] = field(default_factory=set)
    declined: dict[str, str] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    lists: set[tuple[str, bytes]] = field(default_factory=set)
    contradicted: list[tuple[int, str]] = field(default_factory=list)
    contents: dict[bytes, bytes] = field(default_factory=dict)
    lacking: dict[str, bytes] = field(default_factory=dict)
    given: set[tuple[str, bytes]] = field(default_factory=set)
    _renewed_for: set[str] = field(default_factory=set)
    _bad_drawers: set[str] = field(default_factory=set)
    _signed: dict[bytes, bytes] = field(default_factory=dict)
    _shared: dict[bytes, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._begin()

    # -- the generation

    def _begin(self) -> None:
        kept = self.store.get(("generation",))
        found = None if kept is None else msgspec.msgpack.decode(kept, type=_Saved)
        if found is None or not found.secret or self.wall() >= found.not_after:
            self.forget()
            # Invariant: larger than any before, also of a server that has lost its store: devices refuse older ones.
            number = max(int(1000 * self.wall()), 0 if found is None else found.number + 1)
            found = _Saved(number, self.random_bytes(KEY_BYTES), int(self.wall() + self.lasts))
            self.store.put(("generation",), msgspec.msgpack.encode(found))
        # What an earlier process has learned of this generation is as good as new: it is checked again where it is
        # used.
        self.not_after, self.scope, self.own = found.not_after, Scope(self.terms.study, found.number), _pair(found)
        self.ids = (self.terms.study, found.number, self.own.public)
        for saved in self.store.values("enrolment"):
            one = msgspec.msgpack.decode(saved, type=Enrolment)
            self.enrolled[one.name] = one
        for role in range(self.terms.colluders + 1):
            if (saved_role := self.store.get(("drawn", role))) is not None:
                self.drawn[role] = msgspec.msgpack.decode(saved_role, type=DrawnKey)

    def forget(self) -> None:
        """What belongs to one generation only; closed, its key is deleted too, and nothing that was sealed opens."""
        self.store.clear("enrolment", "drawn", "list", "upload", "answer", "matrix")
        self.enrolled, self.drawn = {}, {}
        self._signed, self._shared, self._bad_drawers, self.lists, self.lacking = {}, {}, set(), set(), {}

    def end(self) -> None:
        """The generation is over: whatever is asked next begins another one."""
        # Invariant: the secret goes before anything else: what was sealed to it cannot be opened any more, by nobody.
        self.store.put(("generation",), msgspec.msgpack.encode(_Saved(self.scope.generation, b"", 0)))
        self.forget()

    def current(self) -> None:
        """Begin another generation if this one is over."""
        kept = self.store.get(("generation",))
        if kept is None or not msgspec.msgpack.decode(kept, type=_Saved).secret or self.wall() >= self.not_after:
            self._begin()

    def over(self, device: str) -> None:
        """A device refuses to enrol: begin another generation, once for each device that wants it."""
        if device in self._renewed_for:
            return
        # Once for each device: one that refuses every generation must not have the others begin again for ever.
        self._renewed_for.add(device)
        self.end()
        raise GenerationOver

    # -- devices

    def learn_enrolment(self, device: str, one: Enrolment) -> None:
        """A device's key of the generation, from any of its replies."""
        if one == self.enrolled.get(device):
            return
        if one.name != device:
            raise MessageRefused("an enrolment must be of the device that sends it")
        # Invariant: an enrolment is used only as its owner has signed it; a reply from elsewhere changes nothing.
        self.terms.check_enrolment(self.scope, one, self.wall())
        if device not in self.enrolled:
            self.tell(events.DeviceState(device, "enrolled"))
        self.enrolled[device] = one
        self.store.put(("enrolment", device), msgspec.msgpack.encode(one))

    def takes_part(self, device: str) -> bool:
        """Whether it is worth asking at all."""
        return device not in self.excluded and self.declined.get(device) not in _FINAL

    def fastest(self, names: Iterable[str]) -> list[str]:
        """Those who replied fastest before first."""
        return sorted(names, key=lambda name: self.latency.get(name, 0.0))

    def open(self, device: str, reply: wire.Reply) -> bytes:
        """What a device has sealed to this server in reply to this request; its enrolment is learned if that opens.

        Invariant: a key that is no valid point is never learned, so no device meets it in a list or among holders.
        """
        if not reply.body:
            return wire.encode(wire.Nothing())
        if reply.enrolment is None:
            raise MessageRefused("a sealed reply must come with the enrolment of its device")
        public = reply.enrolment.public
        if public not in self._shared:
            self._shared[public] = self.own.with_public(public)
        plain = open_reply(self.scope, self._shared[public], public, self.own.public, reply.request, reply.body)
        self.learn_enrolment(device, reply.enrolment)
        return plain

    # -- role keys

    def drawers(self, role: int) -> list[str]:
        """Who may draw the key of a role now."""
        holders = [name for name in self.terms.holders_of(role) if name in self.enrolled]
        return self.fastest(name for name in holders if name not in self._bad_drawers) or self.fastest(holders)

    def keep_drawn(self, device: str, found: wire.Drawn) -> None:
        """A role key, or the same one sealed to more holders; another one changes nothing once a role has its key."""
        role = self.terms.roles.get(device)
        if role is None or device not in self.enrolled:
            raise MessageRefused("a role key must be drawn by an enrolled holder of the role")
        key = RoleKey(device, self.enrolled[device].public, found.public, found.signature)
        self.terms.check_role_key(self.scope, role, key)
        if role not in self.drawn:
            if device not in self.drawers(role):
                return
            self.drawn[role] = DrawnKey(key, {})
        # Invariant: a role keeps its first key, for uploads are made under it; another key of the same drawer means
        # that the first is lost.
        known = self.drawn[role]
        if known.role_key.public != found.public:
            known.lost = known.lost or known.role_key.drawer == device
        else:
            enrolled = self.enrolled
            known.sealed |= {
                name: (enrolled[name].public, one) for name, one in found.sealed.items() if name in enrolled
            }
        self.store.put(("drawn", role), msgspec.msgpack.encode(known))

    def draw_again(self, role: int) -> None:
        """Forget a role's key that nobody can open, and what was made for it."""
        drawn = self.drawn.pop(role, None)
        if drawn is not None:
            # Another drawer is tried before this one: it may seal nonsense for ever.
            self._bad_drawers.add(drawn.role_key.drawer)
        self.store.drop(("drawn", role))
        self.store.clear("list", "upload", "answer", "matrix")

    @property
    def role_keys(self) -> tuple[RoleKey, ...]:
        return tuple(self.drawn[role].role_key for role in range(self.terms.colluders + 1))

    # -- requests

    def request(self, kind: str, common: wire.Common, own: msgspec.Struct) -> bytes:
        """As it travels; the signature of what is common is made once."""
        text = wire.encode(common)
        place = digest(kind.encode() + text)
        if place not in self._signed:
            self._signed[place] = signed_request(self.identity, kind, text)
        return wire.encode(wire.Request(kind, text, wire.encode(own), self._signed[place]))

    def lacks(self, device: str, code: str) -> bool:
        """Whether a device misses a content that can be put there; it is, before the device is asked anything else."""
        found = next((one for one in self.contents if one.hex() == code), None)
        if found is not None:
            self.lacking[device] = found
        return found is not None

    def took(self, device: str) -> None:
        """A device says that it has what was put there."""
        if (content := self.lacking.pop(device, None)) is not None:
            self.given.add((device, content))

    def put_request(self, content: bytes) -> bytes:
        """``content``: its digest."""
        return self.request("put", wire.Common(*self.ids), wire.PutOwn(self.contents[content]))

    def enrol_request(self) -> bytes:
        return self.request("enrol", wire.EnrolCommon(*self.ids, self.not_after), wire.Nothing())

    def draw_request(self, role: int, wanting: Collection[str] = ()) -> bytes:
        """For ``wanting`` and a few more, so that a role outlives its drawer: for sums few are ever asked."""
        first = [name for name in self.drawers(role) if name not in wanting][: 2 * self.terms.colluders + _SEALED_TO]
        members = tuple(self.enrolled[name] for name in sorted({*first, *wanting}))
        return self.request("draw", wire.Common(*self.ids), wire.DrawOwn(members))


def _pair(saved: _Saved) -> ExchangeKey:
    return ExchangeKey(saved.secret)
