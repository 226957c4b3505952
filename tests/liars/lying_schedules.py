"""Random lying schedules: everything that a server and devices in its service can do to honest machines.

A world has devices in pods, and a contract that the honest ones approved; while the schedule goes on they are shown
others: other studies of the same rows, other schemes, fewer pods, other bounds, noise, whole numbers, new editions, and
contracts that divide them otherwise, which they refuse. Some worlds are laboratories, without any contract.

One schedule tells one to four stories. A story is a run with its participants, their order, and parameters; a second
one may share the run of the first (two agreements), substitute keys, leave devices out, or come in the next run, on the
same contract or another. Phase 1 is carried by a courier that reorders, drops, repeats and rolls devices back; what
they share anew goes to some of the others only. Lists of owners are whole pods and others, different for each device.
In phase 2 devices get the same e, or each its own, for new, repeated, old and skipped epochs, are rolled back in
between and asked again; messages of earlier runs are replayed, seeds that colluders know are given away; invitations
probe. Devices refuse what they refuse and the schedule goes on. At the end the verdict: what is known over all runs
against what may be, and how many questions each device has answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from adversary import SCHEMES, Adversary, Face, Letter, Party, world
from contracts import Contract
from role_lies import ROLE_SCHEMES, KnownSeed, RoleFace, known_seeds
from stage import Stage, decoded

from codedfl.errors import CodedFLError
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import MOST_EPOCHS
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.owner_list import OwnerList

MOST_DEVICES = 6  # of a coded scheme
COMMON_SIZES = range(2, MOST_DEVICES + 1)  # primes with codes for all of them, so that runs can be combined
MOST_DELIVERIES = 150
NOISE = RowNoise(1.0, 2, 1.0)  # for two honest owners: as many as every pod has
# Other contracts that operators are shown; the last three are for schemes of roles: other totals of the same rows.
CONTRACTS_SHOWN = (
    *("another study", "fewer pods", "other bounds", "a new edition", "other pods", "other pods"),
    *("another scheme", "whole numbers", "noise or none"),
)
DOWNGRADES = ("scheme", "z", "bounds", "recipe", "noise", "epochs")


class Setting(NamedTuple):
    """What a schedule is about.

    pods: sizes; without any it is a laboratory.
    helpers: so many devices without data.
    precision: fraction bits asked for; 40 takes a third prime.
    z: colluders that a scheme of roles shall withstand.
    epochs: different updates that are agreed on.
    """

    scheme: str
    n_devices: int
    alpha: int
    groups: int
    d: int
    c: int
    colluders: tuple[int, ...]
    pods: tuple[int, ...]
    helpers: int
    precision: int | None
    starts_at_zero: bool
    z: int
    epochs: int

    @property
    def laboratory(self) -> bool:
        return not self.pods

    def divided(self) -> list[list[int]]:
        """The pods; helpers come behind all owners."""
        starts = np.cumsum([0, *self.pods])
        return [list(range(start, start + size)) for start, size in zip(starts, self.pods, strict=False)]


def random_setting(rng: random.Random, schemes: tuple[str, ...], laboratories: float) -> Setting:
    scheme, laboratory = rng.choice(schemes), rng.random() < laboratories
    if scheme in ROLE_SCHEMES:
        return _setting_with_roles(rng, scheme, laboratory)
    n = rng.choice([2, 3, *range(4, MOST_DEVICES + 1), *range(4, MOST_DEVICES + 1)])
    groups = 2 if n >= 4 and rng.random() < 0.3 else 1
    n_colluders = rng.choice([0, 0, 0, 1, 1, 2])
    pods: tuple[int, ...] = ()
    if not laboratory:
        pods = rng.choice([(n,), (2, n - 2), (n - 2, 2)]) if n >= 4 else (n,)
    return Setting(
        scheme=scheme,
        n_devices=n,
        alpha=rng.randint(1, n // groups),
        groups=groups,
        d=rng.choice([1, 2]),
        c=rng.choice([1, 1, 2]),
        colluders=tuple(sorted(rng.sample(range(n), min(n_colluders, n - 2)))),
        pods=pods,
        helpers=0,
        precision=40 if rng.random() < 0.15 else None,
        starts_at_zero=not laboratory or rng.random() < 0.7,
        z=0,
        epochs=rng.choice([2, 3, MOST_EPOCHS]),
    )


def _setting_with_roles(rng: random.Random, scheme: str, laboratory: bool) -> Setting:
    """With no more colluders than it withstands; a helper may be one."""
    z = rng.choice([1, 1, 2])
    least = z + 2
    pods = rng.choice([(least,), (least + 1,), *[(least, least)] * 4, (least, least + 1)])
    if z == 1 and rng.random() < 0.2:
        pods = (least, least, least)
    helpers = 0 if laboratory else rng.choice([0, 0, 1])
    n = rng.randint(z + 3, MOST_DEVICES) if laboratory else sum(pods) + helpers
    return Setting(
        scheme=scheme,
        n_devices=n,
        alpha=1,
        groups=1,
        d=rng.choice([1, 1, 2]),
        c=1,
        colluders=tuple(sorted(rng.sample(range(n), rng.choice([0, z, z])))),
        pods=() if laboratory else pods,
        helpers=helpers,
        precision=None,
        starts_at_zero=not laboratory or rng.random() < 0.7,
        z=z,
        epochs=rng.choice([2, 3, MOST_EPOCHS, MOST_EPOCHS]),
    )


class LyingRun:
    """``run`` returns what was found out beyond what may be known, or nothing. ``log`` tells the story.

    Parameters
    ----------
    seed: of every choice and every secret.
    schemes: one of them is chosen.
    laboratories: how many of the worlds are laboratories.
    rename, party_type: mutants of the rules (``mutants``).
    """

    def __init__(
        self,
        seed: int,
        schemes: tuple[str, ...] = (*SCHEMES, *ROLE_SCHEMES, *ROLE_SCHEMES),
        laboratories: float = 0.3,
        rename: Callable[[str, Message | None], str] | None = None,
        party_type: type[Party] = Party,
    ) -> None:
        self.rng = random.Random(seed)
        self.setting = random_setting(self.rng, schemes, laboratories)
        self.stage = Stage(seed, COMMON_SIZES, rename)
        self._party_type = party_type
        # With pods any number of devices may forget anything; without, more than z that forget the list they signed
        # are promised nothing: not in every schedule. Where nobody forgets, each run must show one list only.
        self._rolls_back = self.rng.random() < (0.3 if self.setting.z and self.setting.laboratory else 0.6)
        self._sent: list[bytes] = []
        self._seeds: list[KnownSeed] = []  # that colluders were given so far
        self._known: KnownSeed | None = None  # the one that is to be used in this story
        self._orderly = False
        self.moves: list[str] = []
        self.adversary: Adversary

    @property
    def log(self) -> list[str]:
        return self.adversary.log

    def run(self) -> str:
        with self.stage:
            self.adversary = self._adversary()
            for _ in range(self.rng.choice([1, 2, 2, 3, 3, 4])):
                if not self.setting.laboratory and self.rng.random() < 0.5:
                    self._show_contract()
                if not self.setting.laboratory and self.rng.random() < 0.2:
                    self._note("tables change")
                    self._change_rows(self.rng.choice(self.setting.divided()))
                self._tell_story()
            return self._verdict()

    def _adversary(self) -> Adversary:
        s, rng = self.setting, self.rng
        initial = None if s.starts_at_zero else np.full((s.d, s.c), 0.25)
        return world(
            self.stage,
            s.scheme,
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
            laboratory=s.laboratory,
            pods=s.divided() or None,
            helpers=range(sum(s.pods), s.n_devices) if s.pods else (),
            party_type=self._party_type,
            epochs=s.epochs,
            noise=NOISE if s.z and not s.laboratory and rng.random() < 0.2 else None,
        )

    def _verdict(self) -> str:
        adversary = self.adversary
        found = str(adversary.leak() or "")
        nobody_forgot = not any(party.rolled_back for party in adversary.parties)
        if not found and self.setting.z and nobody_forgot:
            found = str(adversary.leak(by_lists=True) or "")
        return found or self._too_many_answers()

    def _too_many_answers(self) -> str:
        """By the harness's own count: questions over all runs of a contract, the constant not counted."""
        for party in self.adversary.honest:
            for digest, asked in party.asked.items():
                most = party.contracts[digest].parameters.epochs - 1
                if len(asked) > most:
                    return f"{party.name} answered {len(asked)} questions, and {most} were agreed on"
        return ""

    # -- contracts

    def _show_contract(self) -> None:
        """To everybody on its roster; who has other pods refuses it."""
        adversary, rng, s = self.adversary, self.rng, self.setting
        kind = rng.choice(CONTRACTS_SHOWN[: None if s.z else 6])
        pods, helpers = s.divided(), list(range(sum(s.pods), s.n_devices))
        changes: dict[str, Any] = {}
        if kind == "fewer pods":
            pods = rng.sample(pods, rng.randint(1, len(pods)))
        elif kind == "other bounds":
            changes["bounds"] = Bounds(1.0, 1.0, 100, rng.randint(1, 4))
        elif kind == "a new edition":
            self._change_rows(rng.choice(pods))
        elif kind == "other pods":
            pods = self._divided_otherwise()
            helpers = [] if helpers and helpers[0] in {i for pod in pods for i in pod} else helpers
        elif kind == "another scheme":
            changes["scheme"] = next(one for one in ROLE_SCHEMES if one != s.scheme)
            changes["reveals_gram"] = changes["scheme"] == "role-sums"
        elif kind == "whole numbers":
            changes |= {"scheme": "role-keys", "n_features": 1, "n_outputs": 2, "total_limit": 1000, "noise": None}
            changes |= {"reveals_gram": False, "epochs": 1}
        elif kind == "noise or none":
            changes["noise"] = None if adversary.parameters.noise else NOISE
        if any(len(pod) < s.z + 2 for pod in pods):
            return
        self._note(kind)
        label = f"{kind} {len(adversary.contracts)}"
        adversary.approved(label, pods, helpers=helpers, **changes)

    def _change_rows(self, pod: list[int]) -> None:
        """Some of a pod have other rows; what was approved before is of those before."""
        for i in pod:
            party = self.adversary.parties[i]
            if self.rng.random() < 0.6:
                X, Y = party.rows
                party.change_rows(np.vstack([X, X[:1] / 2]), np.vstack([Y, Y[:1]]))

    def _divided_otherwise(self) -> list[list[int]]:
        """One leaves its pod, or two change places, or somebody comes in between."""
        rng, s = self.rng, self.setting
        pods = s.divided()
        if rng.random() < 0.5:  # one leaves, and takes no part or goes to another
            pod = rng.choice(pods)
            gone = pod.pop(rng.randrange(len(pod)))
            others = [one for one in pods if one is not pod]
            if others and rng.random() < 0.5:
                rng.choice(others).append(gone)
            return pods
        everybody = [i for pod in pods for i in pod]
        rng.shuffle(everybody)
        cut = s.z + 2
        return [everybody[:cut], everybody[cut:]] if len(everybody) >= 2 * cut else [everybody[:-1]]

    # -- stories

    def _tell_story(self) -> None:
        adversary, rng = self.adversary, self.rng
        self._orderly = rng.random() < 0.5  # no mischief on the way: what it is about comes to its end
        again = self._seeds and rng.random() < 0.5  # the run in which colluders were given them
        like = rng.choice(adversary.faces) if adversary.faces and (again or rng.random() < 0.3) else None
        old = [one for one in self._seeds if like is not None and one.run == like.server.run]
        self._known = rng.choice(old) if old and rng.random() < 0.7 else None
        self._orderly |= self._known is not None
        n_faces = 1 if self._orderly else rng.choice([1, 2])
        if n_faces == 2 or like is not None:
            self._note("two agreements")
        for party in adversary.parties:
            if self._orderly or rng.random() < 0.9:
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
                    face.keeps_lists = self._known is not None or rng.random() < 0.7
                face.invite()
            self._carry(at_once)
            self._seeds += [one for one in known_seeds(adversary) if one not in self._seeds]
            for face in at_once:
                if isinstance(face, RoleFace) and face.keeps_lists and face.agreement is not None:
                    self._lie_about_lists(face)
            for _ in range(rng.randint(1, 4)):
                for face in at_once:
                    self._ask(face)
                if rng.random() < 0.2:
                    self._replay()

    def _face(self, like: Face | None, differs: bool) -> Face | None:
        """Everybody in order with the agreed parameters, or something else; None if that breaks a rule at once."""
        adversary, rng, s = self.adversary, self.rng, self.setting
        contract = rng.choice([*adversary.contracts, *adversary.contracts[-1:]]) if adversary.contracts else None
        ways = ["another order", "some left out", "pods left out", "keys substituted", "other parameters"]
        if like is not None:  # the same invitation with others is what a second agreement takes
            ways += ["some left out"] * 3
        often = 0.2 if adversary.agreements else 0.1  # a later run that differs from an earlier one
        often = 0.05 if self._known else often
        lies = {rng.choice(ways)} if differs else {way for way in ways if rng.random() < often}
        cast = [party for party in adversary.parties if contract is None or party.name in contract.roster]
        changes = dict[str, Any]()
        if "another order" in lies:
            rng.shuffle(cast)
        if "some left out" in lies and len(cast) > 2:
            most = max(1, len(cast) - max(2, s.alpha * s.groups))  # so that the parameters can stay
            left_out = rng.sample(cast, rng.randint(1, min(most, 2)))
            cast = [party for party in cast if party not in left_out]
        if "pods left out" in lies and contract is not None and len(contract.pods) > 1:
            gone = rng.choice(contract.pods)
            cast = [party for party in cast if party.name not in gone]
        if "keys substituted" in lies and len(cast) > 1:
            # One honest device at least: otherwise there is nothing to find.
            for party in rng.sample(cast, rng.randint(1, len(cast) - 1)):
                cast[cast.index(party)] = adversary.puppet(adversary.parties.index(party))
        if s.z:
            changes = {"holders": self._holders(cast)} if self._known or rng.random() < 0.5 else {}
            if len(self.log) % 2:  # whatever, so long as it is half of the runs
                self._note("rows dealt out")
                changes |= {"blocks": 2, "reserve": len(self.log) % 3 % 2}
        elif s.laboratory and s.alpha > len(cast) // s.groups:
            changes = {"alpha": rng.randint(1, len(cast)), "groups": 1}
        if "other parameters" in lies:
            changes |= self._downgrade(contract, cast)
        for lie in sorted(lies):
            self._note(lie)
        try:
            return adversary.face(cast, like, contract, **changes)
        except CodedFLError as error:
            self._note(f"no such run: {error}")
            return None

    def _holders(self, cast: list[Party]) -> list[str]:
        """Who holds keys, and by the order who has which role, is the server's choice."""
        names = [party.name for party in cast if self.rng.random() < 0.9]
        mine = {party.name for party in cast if party.adverse}
        for _ in range(20):  # of the role whose seed colluders know already, they want none
            self.rng.shuffle(names)
            lacking = [] if self._known is None else names[self._known.role :: self.setting.z + 1]
            if not mine & set(lacking):
                break
        return names

    def _downgrade(self, contract: Contract | None, cast: list[Party]) -> dict[str, Any]:
        """What a server would like better than what was agreed on."""
        rng, s = self.rng, self.setting
        if s.laboratory or contract is None:
            return {} if s.z else {"alpha": rng.randint(1, len(cast)), "groups": 1}
        what = rng.choice(DOWNGRADES)
        self._note(f"downgrade of {what}")
        if what == "scheme":
            alpha = rng.choice([1, len(cast)])
            return {"scheme": "coded-keys", "alpha": alpha, "groups": 1, "colluders": 0, "noise": None} | (
                {"reveals_gram": False, "total_limit": 0}
            )
        if what == "bounds":
            return {"bounds": Bounds(rng.choice([0.1, 1.0]), 1.0, 100, rng.randint(1, 3))}
        if what == "recipe":
            return {"recipe": rng.choice([b"", rng.randbytes(32), *(one.digest for one in self.adversary.contracts)])}
        downgrades: dict[str, dict[str, Any]] = {
            "z": {"colluders": 0},
            "noise": {"noise": None},
            "epochs": {"epochs": MOST_EPOCHS},
        }
        return downgrades[what]

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
        rng, mischief = self.rng, not self._orderly and self.rng.random() < 0.6
        withheld = "" if self._known is None else self._known.owner
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
            if letter.kind is Kind.SHARE and decoded(letter.data).sender == withheld:
                face.tray.pop(place)
                continue
            if letter.kind is Kind.ROLE_KEYS and isinstance(face, RoleFace) and face.agreement and rng.random() < 0.3:
                self._note("other role keys")
                face.show_keys([party.name], rng.randrange(face.parameters.colluders + 1))
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
            face.tray += [Letter(party.name, decoded(old).kind, old) for old in again]

    def _lie_about_lists(self, face: RoleFace) -> None:
        """Some lists, each to some devices in any order; certificates with what was signed, now and then too little."""
        rng, there = self.rng, face.uploaded
        if not there:
            return
        self._note("lists")
        lists = [self._list(face, there) for _ in range(rng.choice([1, 1, 2] if self._orderly else [1, 2, 2, 3]))]
        if rng.random() < 0.5:
            lists[0] = face.owners(there)
        known = self._known
        if known is not None and known.owner in there:
            self._note("a seed of before")
            lists = [face.listing(one, known) for one in lists]
            for giver in [party for party in face.cast.values() if party.adverse and party.machine.agreed]:
                for name in face.holders:
                    face.give_seed(known, giver, name)
        if rng.random() < 0.3:
            self._note("a key wanted")
            adverse = [name for name, party in face.cast.items() if party.adverse and name in face.agreement.names]
            for name in face.holders:
                face.want_key(name, [rng.choice(adverse or face.agreement.names)])
        rng.shuffle(lists)
        often = 1.0 if self._orderly else 0.9
        told = [(owners, name) for owners in lists for name in face.agreement.names if rng.random() < often]
        if rng.random() < 0.6:  # each list is the first for some
            rng.shuffle(told)
        for owners, name in told:
            party = face.cast[name]
            if rng.random() < 0.1:
                party.remember()
            face.tell(owners, [name])
            if rng.random() < 0.03 and party.snapshots and self._rolls_back and not self._orderly:
                self._note("roll back before a list")
                party.roll_back(rng.randrange(len(party.snapshots)))
        for owners in lists:
            face.certify(face.certificate(owners), [name for name in face.holders if rng.random() < often])

    def _list(self, face: RoleFace, there: list[str]) -> OwnerList:
        """Some whole pods, or any of those who have uploaded."""
        rng = self.rng
        pods = [] if self.setting.laboratory else [set(self.adversary.called(*pod)) for pod in self.setting.divided()]
        whole = [pod for pod in pods if pod <= set(there)]
        if whole and rng.random() < 0.6:
            self._note("a list of some pods")
            chosen = set[str]().union(*rng.sample(whole, rng.randint(1, len(whole))))
            return face.owners(chosen)
        fewest = rng.choice([1, max(1, len(there) - 1), max(1, len(there) - 1)])
        return face.owners(rng.sample(there, rng.randint(fewest, len(there))))

    # -- phase 2

    def _ask(self, face: Face) -> None:
        """One epoch: who is asked, for which e, and what happens in between."""
        if face.agreement is None:
            return
        rng, shape = self.rng, (face.parameters.n_features, face.parameters.n_outputs)
        epoch = max(1, face.asked + (1 if self._orderly else rng.choice([1, 1, 1, 1, 0, 0, 2, -1])))
        questions = self._questions(face)
        at_once = face.parameters.reveals_gram or face.parameters.total_limit  # all there is to ask for
        if (epoch == 1 or at_once) and (self._orderly or rng.random() < 0.7):
            questions = dict.fromkeys(questions)  # as every run begins
        for name in rng.sample(list(questions), len(questions)):
            party = face.cast[name]
            if rng.random() < 0.1 and not self._orderly:
                continue  # not asked
            if rng.random() < 0.3:
                party.remember()
            self._ask_one(face, party, epoch, questions[name])
            if rng.random() < 0.1:
                self._note("a second e")
                self._ask_one(face, party, epoch, self._e(shape))
            if rng.random() < 0.1 and party.snapshots and self._rolls_back:
                self._note("roll back in phase 2")
                party.roll_back(rng.randrange(len(party.snapshots)))
                self._ask_one(face, party, epoch, self._e(shape))

    def _ask_one(self, face: Face, party: Party, epoch: int, e: np.ndarray | None) -> None:
        face.ask(epoch, {party.name: e})
        self._sent.append(face.update(epoch, e))

    def _questions(self, face: Face) -> dict[str, np.ndarray | None]:
        rng, names, shape = self.rng, list(face.cast), (face.parameters.n_features, face.parameters.n_outputs)
        one, other = self._e(shape), self._e(shape)
        how = rng.choice(["all the same", "all the same", "one and zero", "two kinds", "each its own"])
        self._note(how)
        if how == "all the same":
            return dict.fromkeys(names, one)
        if how == "one and zero":
            zero = rng.choice([None, np.zeros(shape)])
            return dict.fromkeys(names, zero) | {rng.choice(names): one}
        if how == "two kinds":
            return {name: rng.choice([one, other]) for name in names}
        return {name: self._e(shape) for name in names}

    def _e(self, shape: tuple[int, int]) -> np.ndarray | None:
        """Any e, or a question for the constant."""
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
