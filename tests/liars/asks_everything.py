"""An adversary that asks a small world for a basis of everything, so that its verdict is a proof for the world."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from requests_adversary import Adversary, entry_of

from codedfl.sum.wire import ListEntry, RoleKey


class Complete(Adversary):
    """Asks for every upload, every list of a group, and every change of one entry of it."""

    def play(self) -> None:
        world = self.world
        for name in world.names:
            self.enrol(0, name)
        for name in world.names[:2]:  # clones
            world.start(0, name)
            self.enrol(0, name, 1)
        terms = world.terms[0]
        for role in range(world.z + 1):
            members = [one for name in terms.holders_of(role) for one in self.enrolled[0, name]]
            for name in terms.holders_of(role)[:2]:
                self.draw(0, name, 0, members)
        for ask in world.vectors:
            self._uploads(ask)
            self._answers(ask)

    def _uploads(self, ask: bytes) -> None:
        base = [self.role_keys[0, role][0] for role in range(self.world.z + 1)]
        for name in sorted(self.world.terms[0].owners):
            for which in range(len(self.world.devices[0, name])):
                self.upload(0, name, which, ask, base)
                for role in range(self.world.z + 1):
                    for other in self.role_keys[0, role][1:]:
                        self.upload(0, name, which, ask, [*base[:role], other, *base[role + 1 :]])

    def _answers(self, ask: bytes) -> None:
        world, terms = self.world, self.world.terms[0]
        groups = list(terms.groups.values())
        unions = [groups] if world.fixed else [[group] for group in groups]
        for role in range(world.z + 1):
            honest = [name for name in terms.holders_of(role) if world.honest(name)]
            if len(honest) < len(terms.holders_of(role)) or not honest:
                continue  # a colluder has the role: it can make all of it
            for union, key in itertools.product(unions, self.role_keys[0, role]):
                names = sorted(itertools.chain(*union))
                base = [self._first(ask, role, key, name) for name in names]
                for entries in [base, *self._changed(ask, role, key, base)]:
                    self._everything(honest[0], ask, key, entries)

    def _first(self, ask: bytes, role: int, key: RoleKey, name: str) -> ListEntry:
        sent = self.sent[0, ask, name]
        one = next((one for one in sent if one.role_keys[role] == key), sent[0])
        return entry_of(one.enrolment, one.nonce)

    def _changed(self, ask: bytes, role: int, key: RoleKey, base: Sequence[ListEntry]) -> list[list[ListEntry]]:
        found = []
        for at, one in enumerate(base):
            others = [entry_of(sent.enrolment, sent.nonce) for sent in self.sent[0, ask, one.name]]
            others.append(entry_of(one.enrolment, b"x" * 16))
            found += [[*base[:at], other, *base[at + 1 :]] for other in dict.fromkeys(others) if other != one]
        return found

    def _everything(self, name: str, ask: bytes, key: RoleKey, entries: Sequence[ListEntry]) -> None:
        size = self.world.layout.size
        if self.world.layout.length:
            self.answer(0, name, 0, ask, key, entries)
        for column in range(size):
            e = [int(column == other) for other in range(size)]
            self.answer(0, name, 0, ask, key, entries, e, (0, size))
