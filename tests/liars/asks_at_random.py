"""An adversary that asks at random, mostly one step beside what an honest server asks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from requests_adversary import NOT_AFTER, Adversary, entry_of

from codedfl.sum.wire import Enrolment, ListEntry, RoleKey


class Random(Adversary):
    """Asks at random, mostly one step beside what an honest server asks."""

    def play(self, requests: int, answers: bool = True) -> None:
        world, rng = self.world, self.rng
        if rng.random() < 0.4 and not world.choice.versions:  # clones, and disks that were set back
            for name in rng.sample(world.names, min(2, len(world.names))):
                world.start(0, name)
        for study, name in list(world.devices):
            for which in range(len(world.devices[study, name])):
                self.enrol(study, name, which)
        for study in range(len(world.terms)):
            self._draw_some(study)
        for study, ask in itertools.product(range(len(world.terms)), world.vectors):
            for name in sorted(world.terms[study].owners):
                self.upload(study, name, 0, ask, self._base(study))
        kinds = [self.some_upload, self.some_draw] + [self.some_answer] * 4 * answers
        for _ in range(requests):
            rng.choice(kinds)()

    def _draw_some(self, study: int) -> None:
        terms = self.world.terms[study]
        for role in range(self.world.z + 1):
            holders = list(terms.holders_of(role))
            honest = [name for name in holders if self.world.honest(name)]
            first = self.rng.choice(honest or holders)
            others = self.rng.sample(holders, min(len(holders), 1))
            if self.world.choice.file_order:  # each has another role by its own roster
                others = self.world.names
            for name in dict.fromkeys([first, *others]):
                members = [one for holder in holders for one in self.enrolled[study, holder]]
                self.draw(study, name, 0, [] if self.world.choice.file_order else members)

    def _base(self, study: int) -> list[RoleKey]:
        return [(self.role_keys[study, role] or [self._fake(study)])[0] for role in range(self.world.z + 1)]

    def _fake(self, study: int) -> RoleKey:
        """Nobody has signed it."""
        return RoleKey(self.rng.choice(self.world.names), self.own.public, self.own.public, bytes(64))

    def some_key(self, study: int, role: int) -> RoleKey:
        """A role key of any origin."""
        rng, world = self.rng, self.world
        real = self.role_keys[study, role] or [self._fake(study)]
        others = [one for other in range(world.z + 1) for one in self.role_keys[study, other]] or real
        choices = [rng.choice(real), rng.choice(real)]
        bad = sorted(world.bad)
        if bad:
            colluder = rng.choice(bad)
            choices += [self.own_role_key(study, role, colluder, self.own.public)]
            choices += [self.own_role_key(study, role, colluder, rng.choice(others).public)]
        return rng.choice([*choices, self._fake(study)])

    def some_upload(self) -> None:
        rng, world = self.rng, self.world
        study, ask = rng.randrange(len(world.terms)), rng.choice(list(world.vectors))
        owners = sorted(name for name in world.terms[study].owners if world.honest(name))
        name = rng.choice(owners)
        which = rng.randrange(len(world.devices[study, name]))
        keys = self._base(study)
        if rng.random() < 0.8:
            role = rng.randrange(world.z + 1)
            keys[role] = self.some_key(study, role)
        if rng.random() < 0.2:
            keys = [self.some_key(study, role) for role in range(world.z + 1)]
        if world.choice.versions:
            world.rows[study, name][which].version = rng.randrange(2)
        self.upload(study, name, which, ask, keys)

    def some_draw(self) -> None:
        rng, world = self.rng, self.world
        study = rng.randrange(len(world.terms))
        name = rng.choice(sorted(world.terms[study].roles))
        role = world.terms[study].roles[name]
        members = [one for holder in world.terms[study].holders_of(role) for one in self.enrolled[study, holder]]
        if rng.random() < 0.7:
            extra = rng.choice([one for found in self.enrolled.values() for one in found])
            members = rng.choice([[extra], [*members, extra]])
            if world.bad and rng.random() < 0.5:
                members = [self.own_enrolment(study, rng.choice(sorted(world.bad)), self.own.public)]
        self.draw(study, name, rng.randrange(len(world.devices[study, name])), members)

    def some_answer(self) -> None:
        rng, world = self.rng, self.world
        study, ask = rng.randrange(len(world.terms)), rng.choice(list(world.vectors))
        free = [role for role in range(world.z + 1) if world.choice.file_order or not self._has(study, role)]
        role = rng.choice(free or [0])
        name = rng.choice([one for one in world.terms[study].holders_of(role) if world.honest(one)] or [""])
        if not name:
            return
        real = self.role_keys[study, role] or [self._fake(study)]
        key = rng.choice(real[:1] * 3 + real)
        if rng.random() < 0.15:
            key = self.some_key(study, role)
        if rng.random() < 0.15:  # the signed key, and another one sealed as if it were its secret
            key = RoleKey(key.drawer, self.own.public, key.public, key.signature)
        entries = self.some_list(study, ask, role, key)
        which = rng.randrange(len(world.devices[study, name]))
        size = world.layout.size
        if rng.random() < 0.4 and world.layout.length:
            self.answer(study, name, which, ask, key, entries)
        else:
            first = rng.randrange(size)
            e = [rng.choice([0, 1, 1, rng.randint(-9, 9)]) for _ in range(size)]
            self.answer(study, name, which, ask, key, entries, e, (first, rng.randint(first + 1, size)))

    def _has(self, study: int, role: int) -> bool:
        return any(self.world.terms[study].roles.get(name) == role for name in self.world.bad)

    def some_list(self, study: int, ask: bytes, role: int, key: RoleKey) -> list[ListEntry]:
        rng = self.rng
        groups = list(self.world.terms[study].groups.values())
        wanted = rng.sample(groups, rng.randint(1, len(groups)))
        if self.world.fixed and rng.random() < 0.5:
            wanted = groups
        entries = [self.fitting(study, ask, role, key, name) for name in sorted(itertools.chain(*wanted))]
        if rng.random() < 0.7:
            self._spoil(study, ask, entries, groups)
        return sorted(entries, key=lambda one: one.name.encode())

    def fitting(self, study: int, ask: bytes, role: int, key: RoleKey, name: str) -> ListEntry:
        """For an upload that was made under this role key, if there is one."""
        seen = self.sent[study, ask, name]
        fits = [one for one in seen if one.role_keys[role].public == key.public] or seen
        if not fits:
            return entry_of(self.enrolled[study, name][0], bytes(16))
        one = fits[0] if self.rng.random() < 0.6 else self.rng.choice(fits)
        return entry_of(one.enrolment, one.nonce)

    def _spoil(self, study: int, ask: bytes, entries: list[ListEntry], groups: Sequence[Sequence[str]]) -> None:
        """One thing that an honest server does not do."""
        rng, at = self.rng, self.rng.randrange(len(entries))
        one = entries[at]
        other = [sent for name in self.world.names for sent in self.sent[study, ask, name]]
        match rng.randrange(7):
            case 0:
                del entries[at]
            case 1:
                entries.append(one)
            case 2:
                entries[at] = entry_of(
                    one.enrolment, rng.choice([b"x" * 16, rng.choice(other).nonce if other else b"y" * 16])
                )
            case 3:
                entries[at] = entry_of(rng.choice(self.enrolled[study, one.name]), one.nonce)
            case 4:
                entries[at] = entry_of(Enrolment(one.name, self.own.public, NOT_AFTER, bytes(64)), one.nonce)
            case 5:
                bad = [place for place, entry in enumerate(entries) if not self.world.honest(entry.name)]
                if bad and other:
                    copied = rng.choice(other)
                    name = entries[bad[0]].name
                    entries[bad[0]] = entry_of(self.own_enrolment(study, name, copied.enrolment.public), copied.nonce)
            case _:
                name = rng.choice(list(itertools.chain(*groups)))
                if name not in {entry.name for entry in entries}:
                    entries.append(entry_of(self.enrolled[study, name][0], one.nonce))
