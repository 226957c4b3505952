"""Random lying schedules: everything that a server and devices in its service can do to honest machines.

One schedule tells one to three stories. A story is a run with its participants, their order, and parameters; a second
one may share the run of the first (two agreements), substitute keys, leave devices out, or come in the next run. Phase
1 is carried by a courier that reorders, drops, repeats and rolls devices back; what they share anew goes to some of the
others only. In phase 2 devices get the same e, or each its own, for new, repeated, old and skipped epochs, are rolled
back in between and asked again; messages of earlier runs are replayed; invitations probe. Devices refuse what they
refuse and the schedule goes on. At the end the verdict: what is known against what honest runs would have shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from adversary import SCHEMES, Adversary, Face, Letter, Party, least_participants, world
from role_lies import ROLE_SCHEMES, RoleFace
from stage import Stage

from codedfl.errors import CodedFLError
from codedfl.exact.fixed_point import Bounds
from codedfl.protocol import Policy
from codedfl.protocol.messages import Kind, Message

MOST_DEVICES = 6
COMMON_SIZES = range(2, MOST_DEVICES + 1)  # primes with codes for all of them, so that runs can be combined
MOST_DELIVERIES = 150


class Setting(NamedTuple):
    """What a schedule is about.

    least: the fewest participants that honest devices accept.
    precision: fraction bits asked for; 40 takes a third prime.
    z: colluders that a scheme of roles shall withstand.
    """

    scheme: str
    n_devices: int
    alpha: int
    groups: int
    d: int
    c: int
    colluders: tuple[int, ...]
    pinned: bool
    least: int
    precision: int | None
    starts_at_zero: bool
    z: int


def random_setting(rng: random.Random, schemes: tuple[str, ...]) -> Setting:
    scheme = rng.choice(schemes)
    if scheme in ROLE_SCHEMES:
        return _setting_with_roles(rng, scheme)
    n = rng.choice([2, 3, *range(4, MOST_DEVICES + 1), *range(4, MOST_DEVICES + 1)])
    groups = 2 if n >= 4 and rng.random() < 0.3 else 1
    n_colluders = rng.choice([0, 0, 0, 1, 1, 2])
    return Setting(
        scheme=scheme,
        n_devices=n,
        alpha=rng.randint(1, n // groups),
        groups=groups,
        d=rng.choice([1, 2]),
        c=rng.choice([1, 1, 2]),
        colluders=tuple(sorted(rng.sample(range(n), min(n_colluders, n - 2)))),
        pinned=rng.random() < 0.75,
        least=rng.choice([2, 2, n]),
        precision=40 if rng.random() < 0.15 else None,
        starts_at_zero=rng.random() < 0.7,
        z=0,
    )


def _setting_with_roles(rng: random.Random, scheme: str) -> Setting:
    """Pinned, as such a run must be, and with no more colluders than it withstands."""
    z = rng.choice([1, 1, 2])
    n = rng.randint(z + 3, MOST_DEVICES)
    return Setting(
        scheme=scheme,
        n_devices=n,
        alpha=1,
        groups=1,
        d=rng.choice([1, 2]),
        c=1,
        colluders=tuple(sorted(rng.sample(range(n), rng.choice([0, 0, z])))),
        pinned=True,
        least=rng.choice([2, n]),
        precision=None,
        starts_at_zero=rng.random() < 0.7,
        z=z,
    )


class LyingRun:
    """``run`` returns what was found out beyond what honest runs show, or nothing. ``log`` tells the story.

    Parameters
    ----------
    seed: of every choice and every secret.
    schemes: one of them is chosen.
    rename, party_type: mutants of the rules (``mutants``).
    any_size: honest devices accept two participants whatever the setting says; a mutant too.
    """

    def __init__(
        self,
        seed: int,
        schemes: tuple[str, ...] = (*SCHEMES, *ROLE_SCHEMES),
        rename: Callable[[str, Message | None], str] | None = None,
        party_type: type[Party] = Party,
        any_size: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.setting = random_setting(self.rng, schemes)
        self.stage = Stage(seed, COMMON_SIZES, rename)
        self._party_type, self._any_size = party_type, any_size
        # More than z devices that forget the list they signed are promised nothing: not in every schedule.
        self._rolls_back = not self.setting.z or self.rng.random() < 0.3
        self._sent: list[bytes] = []
        self.moves: list[str] = []
        self.adversary: Adversary

    @property
    def log(self) -> list[str]:
        return self.adversary.log

    def run(self) -> str:
        with self.stage:
            self.adversary = self._adversary()
            for _ in range(self.rng.choice([1, 2, 2, 3])):
                self._tell_story()
            return self._verdict()

    def _adversary(self) -> Adversary:
        s, rng = self.setting, self.rng
        initial = None if s.starts_at_zero else np.full((s.d, s.c), 0.25)
        return world(
            self.stage,
            (SCHEMES | ROLE_SCHEMES)[s.scheme],
            [rng.randint(1, 4) for _ in range(s.n_devices)],
            s.alpha,
            d=s.d,
            c=s.c,
            groups=s.groups,
            precision=s.precision,
            initial=initial,
            public_samples=not s.z and rng.random() < 0.3,
            z=s.z,
            colluders=s.colluders,
            pinned=s.pinned,
            party_type=self._party_type,
            device_options=least_participants(2 if self._any_size else s.least),
        )

    def _verdict(self) -> str:
        found = str(self.adversary.leak() or "")
        if found or not self.setting.pinned or self.setting.colluders:
            return found
        fewest = self.adversary.knowledge().fewest_devices()
        alone = f"it knows something of {', '.join(fewest)} alone"
        return alone if 0 < len(fewest) < self._least_known() else ""

    def _least_known(self) -> int:
        """Of how many devices together, at least, whatever is known must be. Nobody is invented and nobody colludes."""
        if self.setting.least == self.setting.n_devices and not self.setting.z:
            return self.setting.n_devices  # everybody is in every run
        # A device that accepted every list has all of them in its ledger. Lists that no one device has seen can be
        # combined: then only the least number of participants of each protects.
        if self.setting.z:
            return 0  # of lists, the entitlement says all
        accepted = {agreed for party in self.adversary.honest for agreed in party.accepted}
        lists = [self.adversary.agreements[agreed].n_devices for agreed in accepted]
        saw_all = any(accepted <= set(party.accepted) for party in self.adversary.honest)
        return min([Policy().colluders + 2, *lists]) if saw_all else 0

    # -- stories

    def _tell_story(self) -> None:
        adversary, rng = self.adversary, self.rng
        n_faces = rng.choice([1, 2])
        like = rng.choice(adversary.faces) if adversary.faces and rng.random() < 0.25 else None
        if n_faces == 2 or like is not None:
            self._note("two agreements")
        for party in adversary.parties:
            if rng.random() < 0.9:
                party.new_run()
        faces: list[Face] = []
        for i in range(n_faces):
            face = self._face(faces[0] if faces else like, differs=i > 0)
            faces += [] if face is None else [face]
        self._probe()
        together = rng.random() < 0.3
        for at_once in [faces] if together else [[face] for face in faces]:
            for face in at_once:
                if isinstance(face, RoleFace):
                    face.keeps_lists = rng.random() < 0.7
                face.invite()
            self._carry(at_once)
            for face in at_once:
                if isinstance(face, RoleFace) and face.keeps_lists and face.agreement is not None:
                    self._lie_about_lists(face)
            for _ in range(rng.randint(1, 5)):
                for face in at_once:
                    self._ask(face)
                if rng.random() < 0.2:
                    self._replay()

    def _face(self, like: Face | None, differs: bool) -> Face | None:
        """Everybody in order with the agreed parameters, or something else; None if that breaks a rule at once."""
        adversary, rng, s = self.adversary, self.rng, self.setting
        ways = ["another order", "some left out", "some left out", "keys substituted", "other parameters"]
        if like is not None:  # the same invitation with others is what a second agreement takes
            ways += ["some left out"] * 3
        often = 0.2 if adversary.agreements else 0.1  # a later run that differs from an earlier one
        lies = {rng.choice(ways)} if differs else {way for way in ways if rng.random() < often}
        cast, changes = list(adversary.parties), dict[str, Any]()
        if "another order" in lies:
            rng.shuffle(cast)
        if "some left out" in lies and s.n_devices > 2:
            most = max(1, s.n_devices - max(2, s.alpha * s.groups))  # so that the parameters can stay
            left_out = rng.sample(cast, rng.randint(1, most))
            cast = [party for party in cast if party not in left_out]
        if "keys substituted" in lies:
            # One honest device at least: otherwise there is nothing to find.
            for party in rng.sample(cast, rng.randint(1, len(cast) - 1)):
                cast[cast.index(party)] = adversary.puppet(adversary.parties.index(party))
        if s.z:
            changes = {"holders": [party.name for party in cast if rng.random() < 0.8]} if rng.random() < 0.2 else {}
        elif "other parameters" in lies or s.alpha > len(cast) // s.groups:
            changes = {"alpha": rng.randint(1, len(cast)), "groups": 1}
        for lie in sorted(lies):
            self._note(lie)
        try:
            return adversary.face(cast, like, **changes)
        except CodedFLError as error:
            self._note(f"no such run: {error}")
            return None

    def _probe(self) -> None:
        """Invitations with other bounds to single devices, in a run of their own or that of a story."""
        if self.rng.random() > 0.15:
            return
        self._note("probes")
        like = self.rng.choice([None, *self.adversary.faces])
        for _ in range(3):
            bounds = Bounds(self.rng.choice([0.1, 1.0, 2.0]), 1.0, 100, self.rng.randint(1, 20))
            face = self.adversary.face(like=like, bounds=bounds)
            face.invite()
            letter = face.tray[self.rng.randrange(len(face.tray))]
            self.adversary.hand_over(face.cast[letter.receiver], letter.data)
            face.cast[letter.receiver].new_run()  # a node has one slot for invitations, and the next one takes it
            face.tray = []

    # -- phase 1

    def _carry(self, faces: list[Face]) -> None:
        """Deliver what the faces' servers make until only updates are left, with mischief."""
        rng, mischief = self.rng, self.rng.random() < 0.4
        for _ in range(MOST_DELIVERIES):
            waiting = [
                (face, place)
                for face in faces
                for place, letter in enumerate(face.tray)
                if letter.kind is not Kind.UPDATE
            ]
            if not waiting:
                joining = [face for face in faces if face.agreement is None and len(face.server.joined) > 1]
                if not joining:
                    return
                joining[0].freeze()
                if joining[0].agreement is None:
                    return
                continue
            face, place = waiting[0] if rng.random() < 0.7 else rng.choice(waiting)
            letter = face.tray[place]
            party = face.cast[letter.receiver]
            self._sent.append(letter.data)
            if rng.random() < 0.2:
                party.remember()
            face.deliver(place)
            if mischief and rng.random() < 0.08:
                self._interfere(faces, face, party, letter)

    def _interfere(self, faces: list[Face], face: Face, party: Party, letter: Letter) -> None:
        rng = self.rng
        what = rng.choice(["twice", "drop", "roll back", "roll back"])
        self._note(f"{what} in phase 1")
        if what == "twice":
            self.adversary.hand_over(party, letter.data)
        elif what == "drop" and face.tray:
            face.tray.pop(rng.randrange(len(face.tray)))
        elif what == "roll back" and party.snapshots and self._rolls_back:
            party.roll_back(rng.randrange(len(party.snapshots)))
            if face.agreement is not None and len(faces) < 4:
                faces.append(face.fork())
            # Whatever it was told before, it may be told again.
            again = [old for old in self._sent if rng.random() < 0.3][-20:]
            face.tray += [Letter(party.name, Message.decode(old).kind, old) for old in again]

    def _lie_about_lists(self, face: RoleFace) -> None:
        """Some lists, each to some devices in any order; certificates with what was signed, now and then too little."""
        rng, there = self.rng, face.uploaded
        if not there:
            return
        self._note("lists")
        lists = [face.owners(there)]
        for _ in range(rng.choice([0, 1, 1, 2])):
            fewest = rng.choice([1, max(1, len(there) - 1), max(1, len(there) - 1)])
            lists.append(face.owners(rng.sample(there, rng.randint(fewest, len(there)))))
        rng.shuffle(lists)
        told = [(owners, name) for owners in lists for name in face.agreement.names if rng.random() < 0.9]
        if rng.random() < 0.6:  # each list is the first for some
            rng.shuffle(told)
        for owners, name in told:
            party = face.cast[name]
            if rng.random() < 0.1:
                party.remember()
            face.tell(owners, [name])
            if rng.random() < 0.03 and party.snapshots and self._rolls_back:
                self._note("roll back before a list")
                party.roll_back(rng.randrange(len(party.snapshots)))
        for owners in lists:
            face.certify(face.certificate(owners), [name for name in face.holders if rng.random() < 0.9])
        if rng.random() < 0.3:
            self._note("a seed wanted")
            for _ in range(3):
                face.want_seed(rng.choice(there), rng.choice(face.holders), rng.choice(face.agreement.names))
        for letter in list(face.tray):  # what came of it
            if letter.kind is Kind.SEED:
                face.tray.remove(letter)
                self.adversary.hand_over(face.cast[letter.receiver], letter.data)

    # -- phase 2

    def _ask(self, face: Face) -> None:
        """One epoch: who is asked, for which e, and what happens in between."""
        if face.agreement is None:
            return
        rng = self.rng
        epoch = max(1, face.asked + rng.choice([1, 1, 1, 1, 0, 0, 2, -1]))
        questions = self._questions(list(face.cast))
        if epoch == 1 and rng.random() < 0.7:
            questions = dict.fromkeys(questions)  # as every run begins
        for name in rng.sample(list(questions), len(questions)):
            party = face.cast[name]
            if rng.random() < 0.1:
                continue  # not asked
            if rng.random() < 0.3:
                party.remember()
            self._ask_one(face, party, epoch, questions[name])
            if rng.random() < 0.1:
                self._note("a second e")
                self._ask_one(face, party, epoch, self._e())
            if rng.random() < 0.1 and party.snapshots and self._rolls_back:
                self._note("roll back in phase 2")
                party.roll_back(rng.randrange(len(party.snapshots)))
                self._ask_one(face, party, epoch, self._e())

    def _ask_one(self, face: Face, party: Party, epoch: int, e: np.ndarray | None) -> None:
        face.ask(epoch, {party.name: e})
        self._sent.append(face.update(epoch, e))

    def _questions(self, names: list[str]) -> dict[str, np.ndarray | None]:
        rng, one, other = self.rng, self._e(), self._e()
        how = rng.choice(["all the same", "all the same", "one and zero", "two kinds", "each its own"])
        self._note(how)
        if how == "all the same":
            return dict.fromkeys(names, one)
        if how == "one and zero":
            zero = rng.choice([None, np.zeros((self.setting.d, self.setting.c))])
            return dict.fromkeys(names, zero) | {rng.choice(names): one}
        if how == "two kinds":
            return {name: rng.choice([one, other]) for name in names}
        return {name: self._e() for name in names}

    def _e(self) -> np.ndarray | None:
        """Any e, or a question for the constant."""
        shape = (self.setting.d, self.setting.c)
        if self.rng.random() < 0.25:
            return None
        return np.array([self.rng.randint(-2, 2) for _ in range(shape[0] * shape[1])], dtype=float).reshape(shape)

    def _replay(self) -> None:
        """Anything that was ever sent, to anybody; and what devices sent, to devices."""
        self._note("replay")
        for _ in range(3):
            data = self.rng.choice([*self._sent, *self.stage.wire])
            self.adversary.hand_over(self.rng.choice(self.adversary.parties), data)

    def _note(self, move: str) -> None:
        self.moves.append(move)
        self.log.append(f"-- {move}")
