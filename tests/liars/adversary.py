"""A server that lies, with devices that collude with it, against honest device machines.

The adversary has the server's keys, so it can sign anything for anybody; it relays, drops, repeats and reorders as it
likes; devices in its service (colluders, whose keys are pinned, and puppets that it invents) run the ordinary machine
and tell it all they draw and read. What the parties of a run need from each other in phase 1 it lets real ``Server``
machines make, one a ``Face``: two faces with one run show two agreements of the same run. Updates it forges itself.

A new scheme comes in through ``Attacked``: its two machine types, and what the adversary is entitled to. New kinds of
messages that honest machines answer need nothing: knowledge is read from bytes. Those that only a liar would send are
new methods of ``Face`` and moves of ``lying_schedules``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from knowledge import Functional, Knowledge, Leak, combinations_without
from numpy.typing import ArrayLike
from stage import Stage

from codedfl.code.gradient_code import make_code
from codedfl.errors import CodedFLError, MessageRefused
from codedfl.privacy.exposure import known_functionals
from codedfl.protocol import Agreement, Device, Ledger, Policy, Server
from codedfl.protocol.agreement import MOST_EPOCHS
from codedfl.protocol.messages import SERVER, Kind, Message, Update
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.protocol.schemes.coded_padded import PaddedDevice, PaddedServer
from codedfl.protocol.schemes.one_shot import OneShotDevice, OneShotServer
from codedfl.solve.closed_form import ClosedForm
from codedfl.state import State
from codedfl.typing import Floats
from scenario import Scenario, descent

# For an agreement, the positions of the adversary's devices in it and a prime: the functionals of the members that an
# honest run on it would show, as rows along the members.
Entitlement = Callable[["Adversary", Agreement, frozenset[int], int], Sequence[Sequence[int]]]


# Of a device in the adversary's service.
ANYTHING_GOES = Policy(least_joiners=2, allow_gram=True, allow_unmasked=True, allow_unpinned=True)


def least_participants(count: int) -> dict[str, Any]:
    """Arguments of a device whose operator refuses smaller sets."""
    return {"policy": Policy(least_joiners=count, allow_gram=True)}


@cache
def _of_code(n_devices: int, alpha: int, groups: int, adverse: frozenset[int], prime: int) -> list[list[int]]:
    return known_functionals(make_code(n_devices, alpha, (prime,), groups), adverse).tolist()


def entitled_by_code(
    adversary: Adversary, agreement: Agreement, adverse: frozenset[int], prime: int
) -> Sequence[Sequence[int]]:
    """Coded schemes: the total, and with colluders what ``codedfl privacy`` says they expose."""
    del adversary
    p = agreement.parameters
    return _of_code(agreement.n_devices, p.alpha, p.groups, adverse, prime)


@dataclass(frozen=True)
class Attacked:
    """A scheme under attack."""

    server_type: type[Server]
    device_type: type[Device]
    entitled: Entitlement = entitled_by_code
    face_type: type[Face] | None = None  # None is Face


SCHEMES = {
    "coded-padded": Attacked(PaddedServer, PaddedDevice),
    "coded-keys": Attacked(KeysServer, KeysDevice),
    "one-shot": Attacked(OneShotServer, OneShotDevice),
}


@dataclass
class Cast(Scenario):
    """A scenario whose devices are called otherwise."""

    called: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return list(self.called) or super().names


class Party:
    """A device: its keys, rows and ledger, which outlive runs, and the machine that plays the present one.

    adverse: whether it is in the adversary's service. ``actor`` tells a puppet from the device whose name it takes.
    """

    def __init__(
        self, stage: Stage, scenario: Scenario, index: int, *, adverse: bool = False, actor: str = "", **options: Any
    ) -> None:
        self.name = scenario.names[index]
        self.actor = actor or self.name
        self.owner = self.actor  # whose rows: another name once they have changed
        self.adverse = adverse
        self.options: dict[str, Any] = {"policy": ANYTHING_GOES} if adverse else {"ledger": Ledger(), **options}
        self.identity = stage.identity(self.actor)
        self._stage, self._scenario, self._index = stage, scenario, index
        self._random_bytes = stage.source(self.actor)
        self.snapshots: list[State] = []
        self.accepted: dict[bytes, str] = {}  # hash of an agreement that it wrote under -> whose rows it had then
        self._agreement_of: dict[bytes, bytes] = {}  # run -> hash; a device that forgets nothing has one a run
        self.refusals: list[str] = []
        self.rolled_back: set[bytes] = set()  # runs in which it forgot something
        self.machine = self._new_machine()

    @property
    def rows(self) -> tuple[Floats, Floats]:
        return self._scenario.data[self._index]

    def _new_machine(self) -> Device:
        options = {"identity": self.identity, "random_bytes": self._random_bytes} | self.options
        return self._scenario.device(self._index, **options)

    def new_run(self) -> None:
        """The machine of the run before is put away; what must outlive it stays in ``options``."""
        self.machine = self._new_machine()
        self._agreement_of.clear()

    def change_rows(self, X: ArrayLike, Y: ArrayLike) -> None:
        """For machines made from now on."""
        self._scenario.data[self._index] = (np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64))
        self.owner += "'"

    def remember(self) -> None:
        self.snapshots.append(copy.deepcopy(self.machine.state()))

    def roll_back(self, snapshot: int = -1) -> None:
        """A fresh process goes on from an old state; it cannot know what it accepted since."""
        self.rolled_back |= set(self._agreement_of)
        self.machine = self.remembered(snapshot)
        self._agreement_of.clear()

    def remembered(self, snapshot: int) -> Device:
        machine = self._new_machine()
        machine.restore(copy.deepcopy(self.snapshots[snapshot]))
        return machine

    def receive(self, data: bytes) -> list[bytes]:
        """The machine's replies, all of which the adversary sees; none if it refuses."""
        with self._stage.acting(self.actor, self.owner, data):
            try:
                replies = self.machine.receive(data)
            except MessageRefused as error:
                self.refusals.append(str(error))
                return []
        self._stage.wire += replies
        for message in map(Message.decode, replies):
            if message.agreement and self._agreement_of.setdefault(message.run, message.agreement) == message.agreement:
                self.accepted.setdefault(message.agreement, self.owner)
        return replies


class Letter(NamedTuple):
    """Made by a server machine and not delivered yet."""

    receiver: str
    kind: Kind
    data: bytes


class Face:
    """One story that the adversary tells: a run, its parameters, and who plays whom in it.

    The server machine takes all that devices write but the kinds in ``keeps_back``; with none it trains, as an honest
    one does.

    like: another face, whose run and keys this one takes over: its server machine draws what the other's drew.
    told: what it tells the devices beyond the parameters of the scenario.
    """

    def __init__(
        self,
        adversary: Adversary,
        cast: Sequence[Party],
        scenario: Scenario,
        like: Face | None,
        told: Mapping[str, Any],
    ) -> None:
        self.adversary, self._scenario, self._told = adversary, scenario, told
        self.cast = {party.name: party for party in cast}
        again: list[bytes] = list(like._first_draws) if like else []
        first: list[bytes] = []

        def draw(count: int) -> bytes:
            first.append(again.pop(0) if again else adversary.random_bytes(count))
            if len(first[-1]) != count:
                raise RuntimeError("a server machine must draw the same things in the same order")
            return first[-1]

        solver = ClosedForm(1e-3) if scenario.device_type.reveals_gram else descent()
        options = {"identity": adversary.identity, "random_bytes": draw}
        options |= {name: told[name] for name in _DEALT if name in told}
        self.server = scenario.server(solver, **options)
        parameters = {name: value for name, value in told.items() if name not in _DEALT}
        self.server.parameters = replace(self.server.parameters, **parameters)
        self._first_draws: tuple[bytes, ...] = tuple(first)  # the run and its keys
        self.tray: list[Letter] = []
        self.keeps_back: Collection[Kind] = (Kind.ANSWER,)
        self.asked = 0  # the latest epoch
        self._frozen: State | None = None  # the server machine when its participants were just fixed

    @property
    def agreement(self) -> Agreement | None:
        return self.server.agreement

    def invite(self) -> None:
        self._lay_out(self.server.invite())

    def freeze(self) -> None:
        """With those who have joined so far."""
        self._let_server(self.server.freeze)

    def fork(self) -> Face:
        """The same agreement with nobody's shares yet: devices that are rolled back can share anew with some."""
        twin = type(self)(self.adversary, list(self.cast.values()), self._scenario, self, self._told)
        twin.server.restore(copy.deepcopy(self._frozen or self.server.state()))
        twin._frozen = self._frozen
        self.adversary.faces.append(twin)
        return twin

    def take(self, data: bytes) -> None:
        """A device's message goes to the server machine."""
        if Message.decode(data).kind not in self.keeps_back:
            self._let_server(lambda: self.server.receive(data))

    def deliver(self, place: int = 0) -> None:
        """One message of the tray goes to its receiver, and its replies to every face of the same story."""
        letter = self.tray.pop(place)
        self.adversary.hand_over(self.cast[letter.receiver], letter.data)

    def deliver_all(self, *but: Kind) -> None:
        """Until the tray has only messages of kinds in ``but``."""
        while places := [i for i, letter in enumerate(self.tray) if letter.kind not in but]:
            self.deliver(places[0])

    def update(self, epoch: int, e: ArrayLike | None) -> bytes:
        """A signed update with any e: d x c integers. None has no numbers, which asks for the constant."""
        if self.agreement is None:
            raise RuntimeError("an update needs an agreement")
        ring = self.agreement.fixed_point.ring
        packed = b"" if e is None else ring.pack(ring.from_integers(np.asarray(e, dtype=np.float64)))
        return self.signed(Kind.UPDATE, Update(epoch, 0, packed).encode())

    def finish(self) -> bytes:
        return self.signed(Kind.FINISH, b"")

    def ask(self, epoch: int, questions: Mapping[str, ArrayLike | None]) -> None:
        """Each device its own e; their answers are read from the wire."""
        self.asked = max(self.asked, epoch)
        for name, e in questions.items():
            self.adversary.hand_over(self.cast[name], self.update(epoch, e))

    def ask_all(self, epoch: int, e: ArrayLike | None) -> None:
        """The same e for everybody, as an honest server does."""
        self.ask(epoch, dict.fromkeys(self.cast, e))

    def ask_everything(self) -> None:
        """The constant part and every column of X'X, the same for all."""
        d, c = self._scenario.d, self._scenario.c
        for epoch, e in enumerate([None, *np.eye(d)], start=1):
            self.ask_all(epoch, None if e is None else np.outer(e, np.ones(c)))

    def signed(self, kind: Kind, body: bytes) -> bytes:
        """Anything, to everybody, in the server's name."""
        agreed = self.agreement.hash if self.agreement else b""
        message = Message(kind, self.server.run, agreed, SERVER, SERVER, body)
        return message.signed_by(self.adversary.identity).encode()

    def _let_server(self, act: Callable[[], Any]) -> None:
        with self.adversary.stage.acting(SERVER, None):
            try:
                self._lay_out(act())
            except CodedFLError as error:
                self.adversary.log.append(f"its own server machine objects: {error}")
        if self.agreement is not None and self._frozen is None:
            self._frozen = copy.deepcopy(self.server.state())
            self.adversary.agreements[self.agreement.hash] = self.agreement

    def _lay_out(self, outgoing: Sequence[tuple[Sequence[str], bytes]]) -> None:
        for receivers, data in outgoing:
            kind = Message.decode(data).kind
            self.tray += [Letter(name, kind, data) for name in receivers]


@dataclass
class Adversary:
    """scenario: the honest world: devices, rows, parameters.

    colluders: indices of devices in the adversary's service.
    pinned: whether honest devices have the server's key and everybody's keys from elsewhere (roster).
    options: further arguments of every honest device.
    """

    stage: Stage
    scenario: Scenario
    scheme: Attacked
    colluders: Sequence[int] = ()
    pinned: bool = True
    party_type: type[Party] = Party
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random_bytes = self.stage.source(SERVER)
        self.identity = self.stage.identity(SERVER)
        self.parties = [
            Party(self.stage, self.scenario, i, adverse=True)
            if i in self.colluders
            else self.party_type(self.stage, self.scenario, i, **self.options)
            for i in range(self.scenario.n_devices)
        ]
        if self.pinned:
            roster = {party.name: party.identity.public for party in self.parties}
            for party in self.honest:
                party.options |= {"server_public": self.identity.public, "roster": roster}
                party.new_run()
        self.puppets: list[Party] = []
        self.faces: list[Face] = []
        self.agreements: dict[bytes, Agreement] = {}
        self.log: list[str] = []

    @property
    def honest(self) -> list[Party]:
        return [party for party in self.parties if not party.adverse]

    def puppet(self, index: int) -> Party:
        """A device that the adversary invents, in the name of a real one."""
        actor = f"puppet {len(self.puppets)} as {self.scenario.names[index]}"
        self.puppets.append(Party(self.stage, self.scenario, index, adverse=True, actor=actor))
        return self.puppets[-1]

    def face(self, cast: Sequence[Party] | None = None, like: Face | None = None, **changes: Any) -> Face:
        """A new story: who is in it, in the server's order; in a run of its own unless ``like`` another; parameters."""
        cast = self.parties if cast is None else cast
        told = {"epochs": MOST_EPOCHS}
        told |= {name: changes.pop(name) for name in (*_TOLD, *_DEALT) if name in changes}
        base = {name: getattr(self.scenario, name) for name in _SHAPE} | changes
        called = tuple(party.name for party in cast)
        face_type = self.scheme.face_type or Face
        self.faces.append(face_type(self, cast, Cast(sizes=[1] * len(cast), called=called, **base), like, told))
        return self.faces[-1]

    def started(self, cast: Sequence[Party] | None = None, **changes: Any) -> Face:
        """A face whose phase 1 went as it should; its first update is not delivered."""
        face = self.face(cast, **changes)
        face.invite()
        face.deliver_all(Kind.UPDATE)
        return face

    def whole_run(self, cast: Sequence[Party] | None = None, **changes: Any) -> Face:
        """A new run as an honest server would play it, to its end; all of X'X and X'Y is asked for."""
        for party in self.parties if cast is None else cast:
            party.new_run()
        face = self.started(cast, **changes)
        if face.agreement is not None:
            face.ask_everything()
            for party in face.cast.values():
                self.hand_over(party, face.finish())
        return face

    def hand_over(self, party: Party, data: bytes) -> None:
        self.log.append(f"{Message.decode(data).kind} to {party.actor}")
        for reply in party.receive(data):
            message = Message.decode(reply)
            for face in self.faces:
                fits = message.agreement in (b"", face.agreement.hash if face.agreement else b"")
                if face.server.run == message.run and fits and face.cast.get(party.name) is party:
                    face.take(reply)

    # -- the verdict

    def knowledge(self, also: Sequence[str] = (), **more: Any) -> Knowledge:
        """Of the server and all in its service, and of the actors ``also``; ``more`` as ``Knowledge`` has it."""
        mine = [party.actor for party in [*self.parties, *self.puppets] if party.adverse]
        return Knowledge(self.stage, {SERVER, *mine, *also}, **more)

    def entitled(self, primes: Sequence[int], also: Sequence[str] = ()) -> dict[int, list[Functional]]:
        """For each agreement, what an honest run on it shows of the honest members that wrote under it.

        A second agreement that a device accepts in a run, without having been rolled back, entitles to nothing.
        """
        granted: dict[int, list[Functional]] = {prime: [] for prime in primes}
        sums = {(kind, index) for _, kind, index in self.stage.unknowns.data}
        for agreed in self.agreements.values():
            taking_part, absent, adverse = self._members(agreed, also)
            for prime in set(primes) & set(agreed.fixed_point.ring.primes):
                shown = self.scheme.entitled(self, agreed, adverse, prime)
                # Who has not accepted has given nothing: only combinations without the absent can be had.
                for row in combinations_without(shown, absent, list(taking_part), prime):
                    for kind, index in sums:
                        found = zip(taking_part.values(), row, strict=True)
                        granted[prime].append({(owner, kind, index): value for owner, value in found if value})
        return granted

    def leak(self, also: Sequence[str] = (), **more: Any) -> Leak | None:
        """What is known beyond what honest runs show."""
        knowledge = self.knowledge(also, **more)
        return knowledge.leak(self.entitled(knowledge.primes, also))

    def _members(self, agreed: Agreement, also: Sequence[str]) -> tuple[dict[int, str], list[int], frozenset[int]]:
        """Honest positions that accepted, with whose rows; those that did not; and the adversary's."""
        taking_part, absent = {}, []
        for place, member in enumerate(agreed.members):
            for party in self.honest:
                named = (party.name, party.identity.public) == (member.name, member.identity)
                if named and party.actor not in also:
                    if agreed.hash in party.accepted:
                        taking_part[place] = party.accepted[agreed.hash]
                    else:
                        absent.append(place)
        return taking_part, absent, frozenset(range(agreed.n_devices)) - set(taking_part) - set(absent)


# What a face takes over from the honest world unless told otherwise.
_SHAPE = (
    "alpha",
    "d",
    "c",
    "initial",
    "public_samples",
    "claimed_samples",
    "precision",
    "masks",
    "groups",
    "colluders",
    "bounds",
    "server_type",
    "device_type",
)


# Parameters that a scenario does not have, and what a server of roles is told.
_TOLD = ("epochs", "recipe")
_DEALT = ("holders", "helpers")


def world(
    stage: Stage,
    scheme: str | Attacked = "coded-keys",
    sizes: Sequence[int] = (3, 5, 2, 4),
    alpha: int = 2,
    **options: Any,
) -> Adversary:
    """An adversary in a small world: d = 2 features, c = 1 output unless ``options`` (of Scenario) say otherwise.

    ``colluders``, ``pinned``, ``party_type`` and ``device_options`` are the adversary's; ``z`` is how many colluders a
    scheme of roles shall withstand.
    """
    attacked = SCHEMES[scheme] if isinstance(scheme, str) else scheme
    of_adversary = {name: options.pop(name) for name in ("colluders", "pinned", "party_type") if name in options}
    device_options = options.pop("device_options", {})
    types = {"server_type": attacked.server_type, "device_type": attacked.device_type}
    usual = {"d": 2, "c": 1, "public_samples": False, "claimed_samples": sum(sizes), "colluders": options.pop("z", 0)}
    scenario = Scenario(sizes, alpha, **usual | types | options)
    scenario.bounds = replace(scenario.bounds, samples=100, samples_per_device=20) if scenario.bounds else None
    return Adversary(stage, scenario, attacked, options=device_options, **of_adversary)
