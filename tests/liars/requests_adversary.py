"""A server with colluding devices that sends any request to any device at any time, and follows derived keys.

It has the server's keys, everything of the colluders, and whatever opens with that: from each secret that it learns it
makes what the real code makes of it (sealing keys, kappas, pads), until nothing new follows. The pads that it cannot
make are the unknowns of the equations that devices have given away; what is left when they are eliminated is what can
be computed. What it asks for is in ``asks_at_random`` and ``asks_everything``.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from linear import dense, left_over, rank
from small_worlds import SERVER, World, identity

from codedfl.sum import keys as keys_module
from codedfl.sum import wire
from codedfl.sum.keys import ExchangeKey, digest, enrolment_text, role_key_text, signed_request
from codedfl.sum.wire import Enrolment, ListEntry, RoleKey

NOT_AFTER = 1000
GUESS = bytes(32)  # for a secret that the adversary has not: what does not depend on it, it can make


@dataclass(frozen=True)
class Sent:
    """An upload that was seen: under which enrolment and role keys, with which nonce."""

    enrolment: Enrolment
    role_keys: tuple[RoleKey, ...]
    nonce: bytes


@dataclass(frozen=True)
class Blob:
    """A role key's secret half as a drawer sealed it."""

    study: int
    role: int
    drawer: bytes
    holder: bytes
    public: bytes
    sealed: bytes


@dataclass
class Adversary:
    """What it knows, and how it asks."""

    world: World
    rng: random.Random
    own: ExchangeKey = field(default_factory=lambda: ExchangeKey(bytes([7] * 32)))
    known: dict[bytes, ExchangeKey] = field(default_factory=dict)
    enrolled: dict[tuple[int, str], list[Enrolment]] = field(default_factory=lambda: defaultdict(list))
    which: dict[bytes, int] = field(default_factory=dict)  # of the clones of a device has this key
    role_keys: dict[tuple[int, int], list[RoleKey]] = field(default_factory=lambda: defaultdict(list))
    blobs: list[Blob] = field(default_factory=list)
    sent: dict[tuple[int, bytes, str], list[Sent]] = field(default_factory=lambda: defaultdict(list))

    _shared: dict[bytes, list[bytes]] = field(default_factory=dict)
    seizes_disks: bool = False  # of everybody, now

    def __post_init__(self) -> None:
        self.known[self.own.public] = self.own

    # -- requests of each kind

    def _asked(
        self, study: int, name: str, which: int, kind: str, common: wire.Common, own: wire.Wire
    ) -> tuple[wire.Reply, bytes]:
        text = wire.encode(common)
        request = wire.encode(wire.Request(kind, text, wire.encode(own), signed_request(SERVER, kind, text)))
        reply = self.world.ask(study, name, which, request)
        if reply.kind != "ok":
            return reply, b""
        assert reply.enrolment is not None
        public = reply.enrolment.public
        shared = self.own.with_public(public)
        scope = self.world.scope(study)
        return reply, keys_module.open_reply(scope, shared, public, self.own.public, digest(request), reply.body)

    def _ids(self, study: int) -> tuple[bytes, int, bytes]:
        return self.world.terms[study].study, 1, self.own.public

    def enrol(self, study: int, name: str, which: int = 0) -> Enrolment | None:
        common = wire.EnrolCommon(*self._ids(study), NOT_AFTER)
        one = self._asked(study, name, which, "enrol", common, wire.Nothing())[0].enrolment
        if one is not None and one not in self.enrolled[study, name]:
            self.enrolled[study, name].append(one)
            self.which[one.public] = which
        return one

    def draw(self, study: int, name: str, which: int, members: Sequence[Enrolment]) -> None:
        reply, plain = self._asked(
            study, name, which, "draw", wire.Common(*self._ids(study)), wire.DrawOwn(tuple(members))
        )
        if not plain:
            return
        found, one = wire.decode(plain, wire.Drawn, "a role key"), reply.enrolment
        role = self.world.devices[study, name][which]._role
        key = RoleKey(name, one.public, found.public, found.signature)
        if key not in self.role_keys[study, role]:
            self.role_keys[study, role].append(key)
        for member in members:
            if member.name in found.sealed:
                sealed = found.sealed[member.name]
                self.blobs.append(Blob(study, role, one.public, member.public, found.public, sealed))

    def upload(self, study: int, name: str, which: int, ask: bytes, role_keys: Sequence[RoleKey]) -> None:
        common, own = wire.AskCommon(*self._ids(study), ask), wire.UploadOwn(tuple(role_keys))
        reply, plain = self._asked(study, name, which, "upload", common, own)
        if plain:
            found = wire.decode(plain, wire.Uploaded, "an upload")
            self.world.note(self.world.rows[study, name][which], ask, found)
            self.sent[study, ask, name].append(Sent(reply.enrolment, tuple(role_keys), found.nonce))

    def answer(
        self,
        study: int,
        name: str,
        which: int,
        ask: bytes,
        key: RoleKey,
        entries: Sequence[ListEntry],
        e: Sequence[int] = (),
        rows: tuple[int, int] = (0, 1),
    ) -> None:
        text = wire.encode_list(tuple(entries))
        numbers = self.world.layout.to_bytes(np.array(e, dtype=np.int64).view(np.uint64))
        common = wire.AnswerCommon(*self._ids(study), ask, digest(text), numbers)
        own = wire.AnswerOwn(key, self._sealed(study, name, which, key), rows, text)
        _, plain = self._asked(study, name, which, "answer", common, own)
        if plain:
            found = wire.decode(plain, wire.Answered, "an answer")
            self.world.note(self.world.rows[study, name][which], ask, found)

    def _sealed(self, study: int, name: str, which: int, key: RoleKey) -> bytes:
        """As its drawer sealed it; else this adversary's own key, sealed by itself, in the place of the signed one."""
        mine = [one for one in self.enrolled[study, name] if self.which.get(one.public) == which]
        for blob in self.blobs:
            if (
                blob.public == key.public
                and mine
                and blob.holder == mine[0].public
                and blob.drawer == key.drawer_public
            ):
                return blob.sealed
        if not mine or key.drawer_public not in self.known:
            return b""
        role, scope = self.world.terms[study].roles.get(name, 0), self.world.scope(study)
        shared, drawer = self.known[key.drawer_public].with_public(mine[0].public), key.drawer_public
        sealing = keys_module._sealing_key(scope, role, shared, drawer, mine[0].public, key.public)
        return ChaCha20Poly1305(sealing).encrypt(bytes(12), self.own.secret, None)

    def close(self) -> None:
        """Everybody's generation, by the server's signature; who is in it is nobody's concern here."""
        for study, name in list(self.world.devices):
            for which in range(len(self.world.devices[study, name])):
                common = wire.CloseCommon(*self._ids(study), ())
                text = wire.encode(common)
                signed = signed_request(SERVER, "close", text)
                own = wire.encode(wire.Nothing())
                self.world.ask(study, name, which, wire.encode(wire.Request("close", text, own, signed)))

    # -- what colluders can sign

    def own_enrolment(self, study: int, name: str, public: bytes) -> Enrolment:
        """Of any key: its own, or an honest owner's."""
        text = enrolment_text(self.world.scope(study), NOT_AFTER, public)
        return Enrolment(name, public, NOT_AFTER, identity(name).sign(text))

    def own_role_key(self, study: int, role: int, name: str, public: bytes) -> RoleKey:
        text = role_key_text(self.world.scope(study), role, public)
        return RoleKey(name, self.own.public, public, identity(name).sign(text))

    # -- following keys

    def follow(self) -> None:
        """Make everything that follows from what is known, with the code of devices."""
        world = self.world
        for (study, name), memories in world.roots.items():
            for memory in memories:
                kept = memory.generation()
                seen = kept is not None and kept.root and (self.seizes_disks or not world.honest(name))
                for root in [kept.root, GUESS] if seen else [GUESS]:
                    self._learn_generation(study, root)
        self._shared.clear()
        size = -1
        while size < len(self.known):
            size = len(self.known)
            for blob in self.blobs:
                self._open(blob)

    def _learn_generation(self, study: int, root: bytes) -> None:
        found = keys_module.GenerationKeys(self.world.scope(study), root)
        for key in (found.own, *(found.role_key(role) for role in range(self.world.z + 1))):
            self.known.setdefault(key.public, key)

    def _open(self, blob: Blob) -> None:
        shared = GUESS
        for mine, other in ((blob.drawer, blob.holder), (blob.holder, blob.drawer)):
            if mine in self.known:
                shared = self.known[mine].with_public(other)
        scope = self.world.scope(blob.study)
        sealing = keys_module._sealing_key(scope, blob.role, shared, blob.drawer, blob.holder, blob.public)
        try:
            key = ExchangeKey(ChaCha20Poly1305(sealing).decrypt(bytes(12), blob.sealed, None))
        except InvalidTag:
            return
        self.known.setdefault(key.public, key)

    def _makes_kappa(self, found: bytes) -> bool:
        for _, scope, role, owner, enrolled, public in self.world.kappas[found]:
            # Whatever the device has exchanged with whatever: not only the pair that the rules name.
            for shared in [GUESS, *self._exchanged(enrolled), *self._exchanged(public)]:
                if self.world.make_kappa(shared, scope, role, owner, enrolled, public) == found:
                    return True
        return False

    def _exchanged(self, public: bytes) -> list[bytes]:
        """All secrets with the owner of a key."""
        if public not in self._shared:
            self._shared[public] = [key.with_public(public) for key in self.known.values()]
        return self._shared[public]

    def makes_pad(self, key: bytes) -> bool:
        """Whether a pad follows from what is known."""
        for secret, label, nonce in self.world.pads[key]:
            if self._makes_kappa(secret) or self.world.make_pad_key(GUESS, label, nonce) == key:
                return True
        return False

    # -- the verdict

    def verdict(self) -> Verdict:
        self.follow()
        world = self.world
        hidden: dict[tuple[bytes, int], int] = {}
        numbers: dict[tuple[str, int, int, int], int] = {}
        makes = {key: self.makes_pad(key) for key in {key for one in world.equations for key, _ in one.pads}}
        rows = []
        for one in world.equations:
            left = {hidden.setdefault(at, len(hidden)): k for at, k in one.pads.items() if not makes[at[0]]}
            rows.append((left, {numbers.setdefault(at, len(numbers)): k for at, k in one.numbers.items()}))
        if not rows or not numbers:
            return Verdict(0, False, 0)
        found = left_over(dense(rows, len(hidden), len(numbers)), len(hidden))
        return Verdict(rank(found), self._below_a_group(found, numbers), self._allowed())

    def _blocks(self) -> list[list[str]]:
        """The honest owners of whom only a sum may be computed: of each group, or of all fixed groups together."""
        groups = [[name for name in group if self.world.honest(name)] for group in self.world.groups]
        if self.world.fixed:
            groups = [[name for group in groups for name in group]]
        return [group for group in groups if group]

    def _allowed(self) -> int:
        return len(set(self.world.vectors.values())) * self.world.layout.total_words * len(self._blocks())

    def _below_a_group(self, found: np.ndarray, numbers: dict[tuple[str, int, int, int], int]) -> bool:
        for block, vector, version, place in itertools.product(
            self._blocks(), range(2), range(2), range(self.world.layout.total_words)
        ):
            columns = [numbers.get((name, vector, version, place)) for name in block]
            one = [np.zeros(len(found), np.int64) if at is None else found[:, at] for at in columns]
            if any((other != one[0]).any() for other in one):
                return True
        return False


@dataclass(frozen=True)
class Verdict:
    """How many functionals of honest rows are computed, whether any is below a group, how many sums there are."""

    computed: int
    leaks: bool
    allowed: int


def entry_of(one: Enrolment, nonce: bytes) -> ListEntry:
    """A place in a list, for the upload with this nonce."""
    return ListEntry(one.name, one.public, one.not_after, one.signature, nonce)
