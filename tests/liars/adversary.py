"""A server that lies, with devices that collude with it, against honest device machines.

The adversary has the server's keys, so it can sign anything for anybody; it relays, drops, repeats and reorders as it
likes; devices in its service (colluders, whose keys are pinned, and puppets that it invents) run the ordinary machine
and tell it all they draw and read. What the parties of a run need from each other in phase 1 it lets real ``Server``
machines make, one a ``Face``: two faces with one run show two agreements of the same run. Updates it forges itself.

Honest devices have contracts (``contracts``), and any number of runs on them. What may be known in the end is the total
of each pod, for each contract by itself; in the coded schemes also what colluders expose there. In a laboratory there
is no contract: a device takes part in any run, and each agreement entitles to what an honest run on it shows.

A new scheme comes in through ``Attacked``: its two machine types, and what the adversary is entitled to. New kinds of
messages that honest machines answer need nothing: knowledge is read from bytes. Those that only a liar would send are
new methods of ``Face`` and moves of ``lying_schedules``.
"""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from contracts import Contract
from knowledge import Coordinate, Functional, Knowledge, Leak, combinations_without
from numpy.typing import ArrayLike
from stage import Stage, decoded

from codedfl.code.gradient_code import make_code
from codedfl.errors import CodedFLError, MessageRefused
from codedfl.privacy.views import THE_SERVER, coded_views
from codedfl.protocol.agreement import MOST_EPOCHS, Agreement, Invitation, Parameters
from codedfl.protocol.contribution import Contribution, Rows, WholeNumbers
from codedfl.protocol.device import Device
from codedfl.protocol.events import Turn
from codedfl.protocol.messages import SERVER, Kind, Message, Update
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads
from codedfl.protocol.scheme import SharingScheme
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.schemes.coded_padded import CODED_PADDED
from codedfl.protocol.server import Server
from codedfl.protocol.server_events import RunFailed
from codedfl.protocol.terms import Terms
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.solver import Solver
from codedfl.solve.whole_total import TakesTotal
from codedfl.state import State
from codedfl.typing import Floats
from scenario import Scenario, descent, wire

# For an agreement, the positions of the adversary's devices in it and a prime: the functionals of the members that an
# honest run on it would show, as rows along the members.
Entitlement = Callable[["Adversary", Agreement, frozenset[int], int], Sequence[Sequence[int]]]


# What one device has put on the ring: by kind of sum and index, the entries (one a row, where rows are told apart).
Sums = Mapping[tuple[str, int], tuple[Coordinate, ...]]


@cache
def _of_code(n_devices: int, alpha: int, groups: int, adverse: frozenset[int], prime: int) -> list[list[int]]:
    return coded_views(make_code(n_devices, alpha, (prime,), groups)).known([THE_SERVER, *adverse]).tolist()


def entitled_by_code(
    adversary: Adversary, agreement: Agreement, adverse: frozenset[int], prime: int
) -> Sequence[Sequence[int]]:
    """Coded schemes: the total, and with colluders what ``codedfl privacy`` says they expose."""
    del adversary
    p = agreement.parameters
    return _of_code(agreement.n_devices, p.alpha, p.groups, adverse, prime)


@dataclass(frozen=True)
class Attacked:
    """A scheme under attack.

    entitled: what an agreement shows.
    by_pods: whether a contract entitles to the totals of its pods, whatever agreements there were.
    """

    scheme: SharingScheme
    entitled: Entitlement = entitled_by_code
    face_type: type[Face] | None = None  # None is Face
    by_pods: bool = False


SCHEMES = {
    "coded-padded": Attacked(CODED_PADDED),
    "coded-keys": Attacked(CODED_KEYS),
    "one-shot": Attacked(ONE_SHOT),
}


ALL_SCHEMES: dict[str, Attacked] = dict(SCHEMES)  # ``role_lies`` adds its own


class Accepted(NamedTuple):
    """An agreement that a device wrote under: by which contract (None in a laboratory), and what it brought."""

    contract: Contract | None
    sums: Sums


class Snapshot(NamedTuple):
    """A machine's state, and what makes a machine that it fits."""

    state: State
    contract: Contract | None
    invited: Parameters | None


class Party:
    """A device with its operator: keys, rows and approvals, which outlive runs, and the machine of the present one.

    An approval freezes the rows, and has the same pod as every approval before. What was answered under a contract is
    kept beside the machine, as drivers do.

    adverse: whether it is in the adversary's service: it takes part in anything. ``actor`` tells a puppet from the
        device whose name it takes.
    scheme: of a laboratory, where there are no contracts.
    """

    terms_type: ClassVar[type[Terms]] = Terms
    pads_type: ClassVar[type[PreparedPads]] = PreparedPads

    def __init__(
        self, stage: Stage, scenario: Scenario, index: int, *, adverse: bool = False, actor: str = "", scheme: str
    ) -> None:
        self.name = scenario.names[index]
        self.actor = actor or self.name
        self.adverse = adverse
        self.rows = scenario.data[index]
        self._scenario = scenario
        self.identity = stage.identity(self.actor)
        self._stage, self._scheme = stage, scheme
        self._random_bytes = stage.source(self.actor)
        self.pads = self.pads_type(self._random_bytes)  # in the memory of its process: no rollback reaches it
        self.contracts: dict[bytes, Contract] = {}  # approved, by digest
        self._frozen: dict[bytes, tuple[Floats, Floats]] = {}  # rows, by digest of the contract
        self._noise_seeds: dict[bytes, bytes] = {}
        self.answered: dict[bytes, list[bytes]] = {}  # questions, by digest of the contract: on disk
        self.asked: dict[bytes, set[bytes]] = {}  # the same as counted by the harness
        self.pod: frozenset[str] | None = None
        self.snapshots: list[Snapshot] = []
        self.accepted: dict[bytes, Accepted] = {}  # by hash of the agreement that it wrote under
        self.contributed: dict[bytes, Sums] = {}  # the first under each contract, by its digest
        self._agreement_of: dict[bytes, bytes] = {}  # run -> hash; a device that forgets nothing has one a run
        self.refusals: list[str] = []
        self.rolled_back: set[bytes] = set()  # runs in which it forgot something
        self.new_run()

    # -- what its operator does

    def approve(self, contract: Contract) -> bool:
        """Its rows have one pod everywhere: another is refused."""
        pod = contract.pod_of(self.name)
        if self._objects_to(pod):
            return False
        self.pod = self.pod or pod
        self.contracts[contract.digest] = contract
        self._frozen[contract.digest] = self.rows
        self._noise_seeds[contract.digest] = self._random_bytes(32)
        self.answered[contract.digest] = []
        return True

    def _objects_to(self, pod: frozenset[str]) -> bool:
        return bool(self.pod) and pod != self.pod

    def change_rows(self, X: ArrayLike, Y: ArrayLike) -> None:
        """In its own table: what was approved before is of the rows before."""
        self.rows = (np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64))

    # -- its machine

    def _terms(self, contract: Contract, invited: Parameters | None) -> Terms:
        """What the machine holds the server to; mutants make less of it."""
        del invited
        return contract.terms(self.terms_type)

    def _contract_for(self, invited: Parameters | None) -> Contract | None:
        """The one that an invitation is for; else the latest, by which it will be refused."""
        if self.adverse or not self.contracts:
            return None
        latest = list(self.contracts.values())[-1]
        return latest if invited is None else self.contracts.get(invited.recipe, latest)

    def _new_machine(self, contract: Contract | None, invited: Parameters | None) -> Device:
        terms = None if contract is None else self._terms(contract, invited)
        parameters = invited if terms is None else terms.parameters
        scheme = self._scheme if parameters is None else parameters.scheme
        attacked, helpers = ALL_SCHEMES[scheme], frozenset[str]()
        options: dict[str, Any] = {}
        if contract is not None:
            options = {"answered": self._answered(contract), "noise_seed": self._noise_seed(contract)}
        options["pads"] = self.pads
        contribution: Contribution | None = self._contribution(contract, parameters)
        if contract is not None and not contract.pod_of(self.name) and attacked.by_pods:
            contribution, helpers = None, frozenset({self.name})
        known = self._scenario.parameters if parameters is None else parameters
        plan = RunPlan(attacked.scheme, known, (), helpers=helpers, terms=terms)
        return Device(plan, self.name, contribution, identity=self.identity, random_bytes=self._random_bytes, **options)

    def _answered(self, contract: Contract) -> Collection[bytes]:
        return self.answered[contract.digest]

    def _noise_seed(self, contract: Contract) -> bytes:
        return self._noise_seeds[contract.digest]

    def _rows_for(self, contract: Contract | None) -> tuple[Floats, Floats]:
        return self.rows if contract is None else self._frozen[contract.digest]

    def _contribution(self, contract: Contract | None, parameters: Parameters | None) -> Contribution:
        X, Y = self._rows_for(contract)
        if parameters is None or not parameters.total_limit:
            return Rows(X, Y)
        length = parameters.constant_length
        values = np.resize(np.round(16 * X).astype(np.int64), length)
        return WholeNumbers(length, lambda ring: ring.from_integers(values))

    def new_run(self) -> None:
        """The machine of the run before is put away."""
        self.contract = self._contract_for(None)
        self._invited: Parameters | None = None
        self.machine = self._new_machine(self.contract, None)
        self._agreement_of.clear()

    def remember(self) -> None:
        self.snapshots.append(Snapshot(copy.deepcopy(self.machine.state()), self.contract, self._invited))

    def roll_back(self, snapshot: int = -1) -> None:
        """The machine goes on from a state of before, as after a crash or with an old copy of its folder."""
        self.machine = self.remembered(snapshot)
        back_in = [self.machine.run] if self.machine.run else []
        self.rolled_back |= {*self._agreement_of, *back_in}
        _, self.contract, self._invited = self.snapshots[snapshot]
        self._agreement_of.clear()

    def remembered(self, snapshot: int) -> Device:
        state, contract, invited = self.snapshots[snapshot]
        machine = self._new_machine(contract, invited)
        machine.restore(copy.deepcopy(state))
        return machine

    def receive(self, data: bytes) -> list[bytes]:
        """The machine's replies, all of which the adversary sees; none if it refuses."""
        message = decoded(data)
        if message.kind is Kind.INVITATION and not self.machine.run:
            self._take_up(message)
        with self._stage.acting(self.actor, self.actor, data):
            try:
                replies = wire(self.machine.receive(data))
            except MessageRefused as error:
                self.refusals.append(str(error))
                return []
            sums = dict(self._stage.unknowns.contributed)
            self._prepare()
        self._stage.wire += replies
        for reply in map(decoded, replies):
            self._note(message, reply, sums)
        return replies

    def _prepare(self) -> None:
        """For the next upload like the one that is agreed on, in this run or a later one."""
        agreed = self.machine._session.agreement
        if agreed is not None and not self.machine.finished:
            self.pads.prepare(PadLayout.of(agreed))

    def _take_up(self, message: Message) -> None:
        """Which of its contracts an invitation is for, the device sees from the recipe."""
        try:
            self._invited = Invitation.decode(message.run, message.body).parameters
        except MessageRefused:
            return
        self.contract = self._contract_for(self._invited)
        self.machine = self._new_machine(self.contract, self._invited)

    def _note(self, message: Message, reply: Message, sums: Sums) -> None:
        """What the harness holds against the machine, and what a driver keeps."""
        if reply.agreement and self._agreement_of.setdefault(reply.run, reply.agreement) == reply.agreement:
            known = self.accepted.get(reply.agreement)
            if known is None or not known.sums:
                self.accepted[reply.agreement] = Accepted(self.contract, sums)
        if self.contract is None:
            return
        if sums and self._invited == self.contract.parameters:  # on other parameters nothing was approved
            self.contributed.setdefault(self.contract.digest, sums)
        if reply.kind is Kind.ANSWER:
            self.answered[self.contract.digest] = list(self.machine.questions)
            packed = Update.decode(message.body).packed
            if packed:
                self.asked.setdefault(self.contract.digest, set()).add(hashlib.sha256(packed).digest())


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
    dealt: further arguments of its server machine.
    """

    def __init__(
        self,
        adversary: Adversary,
        cast: Sequence[Party],
        parameters: Parameters,
        like: Face | None,
        dealt: Mapping[str, Any],
    ) -> None:
        self.adversary, self.parameters, self._dealt = adversary, parameters, dealt
        self.cast = {party.name: party for party in cast}
        again: list[bytes] = list(like._first_draws) if like else []
        first: list[bytes] = []

        def draw(count: int) -> bytes:
            first.append(again.pop(0) if again else adversary.random_bytes(count))
            if len(first[-1]) != count:
                raise RuntimeError("a server machine must draw the same things in the same order")
            return first[-1]

        options = dict(dealt)
        initial, pods = options.pop("initial_model", None), options.pop("pods", ())
        holders, helpers = tuple(options.pop("holders", ())), frozenset(options.pop("helpers", ()))
        scheme = ALL_SCHEMES[parameters.scheme].scheme
        rows = {name: options.pop(name) for name in ("blocks", "reserve") if name in options}
        plan = RunPlan(scheme, parameters, tuple(self.cast), 0, holders, helpers, **rows)
        assert not options, options
        self.server = Server(
            plan, solver_for(parameters), initial_model=initial, identity=adversary.identity, random_bytes=draw
        )
        if pods:
            self.server.sharing._pods = pods
        self.server._session.parameters = parameters  # all of the epochs, whatever its solver wants
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
        twin = type(self)(self.adversary, list(self.cast.values()), self.parameters, self, self._dealt)
        twin.server.restore(copy.deepcopy(self._frozen or self.server.state()))
        twin._frozen = self._frozen
        self.adversary.faces.append(twin)
        return twin

    def take(self, data: bytes) -> None:
        """A device's message goes to the server machine."""
        if decoded(data).kind not in self.keeps_back:
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
        ring = self.agreement.ring
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
        """The constant part and, where there are products, every column of X'X, the same for all."""
        d, c = self.parameters.n_features, self.parameters.n_outputs
        if self.parameters.reveals_gram or self.parameters.total_limit:
            self.ask_all(1, None)
            return
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

    def _lay_out(self, turn: Turn) -> None:
        for event in turn.events:
            if isinstance(event, RunFailed):  # nobody is told: a liar would not
                raise event.error
        for outgoing in turn.outgoing:
            self.tray += [Letter(name, outgoing.kind, outgoing.data) for name in outgoing.receivers]


class Adversary:
    """scenario: the honest world: devices, rows, parameters.

    contract: the study that all honest devices have approved; None in a laboratory.
    """

    def __init__(
        self,
        stage: Stage,
        scenario: Scenario,
        scheme: Attacked,
        *,
        colluders: Sequence[int] = (),
        laboratory: bool = False,
        party_type: type[Party] = Party,
        pods: Iterable[Iterable[int]] | None = None,
        helpers: Iterable[int] = (),
        least_owners: int = 2,
        **parameters: Any,
    ) -> None:
        self.stage, self.scenario, self.scheme = stage, scenario, scheme
        self.random_bytes = stage.source(SERVER)
        self.identity = stage.identity(SERVER)
        self.laboratory = laboratory
        self.parties = [
            (Party if i in colluders else party_type)(
                stage, scenario, i, adverse=i in colluders, scheme=scheme.scheme.name
            )
            for i in range(scenario.n_devices)
        ]
        usual = {"epochs": MOST_EPOCHS, "owners": scenario.n_devices}
        self.parameters = replace(scenario.parameters, **usual | parameters)
        self.puppets: list[Party] = []
        self.faces: list[Face] = []
        self.agreements: dict[bytes, Agreement] = {}
        self.contracts: list[Contract] = []
        self.log: list[str] = []
        self.contract: Contract | None = None
        if not laboratory:
            divided = pods or [range(scenario.n_devices)]
            self.contract = self.approved("the study", divided, helpers=helpers, least_owners=least_owners)

    @property
    def honest(self) -> list[Party]:
        return [party for party in self.parties if not party.adverse]

    def called(self, *indices: int) -> tuple[str, ...]:
        return tuple(self.scenario.names[i] for i in indices)

    # -- contracts

    def draw_up(
        self,
        label: str,
        pods: Iterable[Iterable[int]] | None = None,
        helpers: Iterable[int] = (),
        *,
        least_owners: int = 2,
        says_pods: bool = True,
        **changes: Any,
    ) -> Contract:
        """Another contract: over these pods (else those of the first), with parameters changed."""
        if pods is None:
            assert self.contract is not None
            divided: Iterable[Iterable[str]] = self.contract.pods
        else:
            divided = [self.called(*pod) for pod in pods]
        divided = [frozenset(pod) for pod in divided]
        names = {*self.called(*helpers)}.union(*divided)
        roster = {party.name: party.identity.public for party in self.parties if party.name in names}
        parameters = replace(self.parameters, **changes)
        public = self.identity.public
        return Contract.drawn_up(label, parameters, public, roster, divided, least_owners, says_pods=says_pods)

    def approved(self, label: str, pods: Iterable[Iterable[int]] | None = None, **more: Any) -> Contract:
        """A contract that everybody on its roster was shown; ``party.contracts`` says who approved."""
        contract = self.draw_up(label, pods, **more)
        self.show(contract)
        return contract

    def show(self, contract: Contract) -> None:
        self.contracts.append(contract)
        for party in self.honest:
            if party.name in contract.roster:
                party.approve(contract)
                party.new_run()

    # -- stories

    def puppet(self, index: int) -> Party:
        """A device that the adversary invents, in the name of a real one."""
        actor = f"puppet {len(self.puppets)} as {self.scenario.names[index]}"
        scheme = self.scheme.scheme.name
        self.puppets.append(Party(self.stage, self.scenario, index, adverse=True, actor=actor, scheme=scheme))
        return self.puppets[-1]

    def face(
        self,
        cast: Sequence[Party] | None = None,
        like: Face | None = None,
        contract: Contract | None = None,
        **changes: Any,
    ) -> Face:
        """A new story: who is in it, in the server's order; in a run of its own unless ``like`` another.

        It is told as a run on ``contract`` (else on the first), with parameters changed.
        """
        contract = contract or self.contract
        if cast is None:
            cast = [one for one in self.parties if contract is None or one.name in contract.roster]
        of_server = ("holders", "helpers", "initial_model", "blocks", "reserve")
        dealt: dict[str, Any] = {name: changes.pop(name) for name in of_server if name in changes}
        if self.scenario.initial is not None:
            dealt.setdefault("initial_model", self.scenario.initial)
        base = self.parameters if contract is None else contract.parameters
        parameters = replace(base, **changes)
        attacked = ALL_SCHEMES[parameters.scheme]
        if not attacked.by_pods:
            dealt = {name: value for name, value in dealt.items() if name == "initial_model"}
        elif contract is not None:
            dealt = {"helpers": contract.helpers & {party.name for party in cast}, "pods": contract.pods} | dealt
        face_type = attacked.face_type or Face
        self.faces.append(face_type(self, cast, parameters, like, dealt))
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
        self.log.append(f"{decoded(data).kind} to {party.actor}")
        for reply in party.receive(data):
            message = decoded(reply)
            for face in self.faces:
                fits = message.agreement in (b"", face.agreement.hash if face.agreement else b"")
                if face.server.run == message.run and fits and face.cast.get(party.name) is party:
                    face.take(reply)

    # -- the verdict

    def knowledge(self, also: Sequence[str] = (), **more: Any) -> Knowledge:
        """Of the server and all in its service, and of the actors ``also``; ``more`` as ``Knowledge`` has it."""
        mine = [party.actor for party in [*self.parties, *self.puppets] if party.adverse]
        return Knowledge(self.stage, {SERVER, *mine, *also}, **more)

    def entitled(
        self, primes: Sequence[int], also: Sequence[str] = (), *, by_lists: bool = False
    ) -> dict[int, list[Functional]]:
        """What may be known: the totals of pods for each contract, and what an honest run on each agreement shows.

        by_lists: in schemes of roles not of every pod, but over the one list that each agreement has; where nobody
            was rolled back.
        """
        granted: dict[int, list[Functional]] = {prime: [] for prime in primes}
        if not by_lists:
            for contract in self.contracts:
                if ALL_SCHEMES[contract.parameters.scheme].by_pods:
                    totals = self._totals_of_pods(contract, also)
                    for prime in primes:
                        granted[prime] += totals
        for agreed in self.agreements.values():
            attacked = ALL_SCHEMES[agreed.parameters.scheme]
            contract = self.contract_of(agreed)
            if contract is not None and attacked.by_pods and not by_lists:
                continue
            if contract is not None and not self._is_approved(agreed, contract):
                continue
            taking_part, absent, adverse = self._members(agreed, also, contract)
            for prime in set(primes) & set(agreed.ring.primes):
                shown = attacked.entitled(self, agreed, adverse, prime)
                # Who has not accepted has given nothing: only combinations without the absent can be had.
                for row in combinations_without(shown, absent, list(taking_part), prime):
                    granted[prime] += _weighted(zip(taking_part.values(), row, strict=True))
        return granted

    def leak(self, also: Sequence[str] = (), *, by_lists: bool = False, **more: Any) -> Leak | None:
        """What is known beyond what may be."""
        knowledge = self.knowledge(also, **more)
        return knowledge.leak(self.entitled(knowledge.primes, also, by_lists=by_lists))

    def _totals_of_pods(self, contract: Contract, also: Sequence[str]) -> list[Functional]:
        found: list[Functional] = []
        for pod in contract.pods:
            honest = [party for party in self.honest if party.name in pod and party.actor not in also]
            if honest and all(party.pod == pod and contract.digest in party.contributed for party in honest):
                found += _weighted((party.contributed[contract.digest], 1) for party in honest)
        return found

    def _is_approved(self, agreed: Agreement, contract: Contract) -> bool:
        """Whether an agreement is what the contract says, and the contract what each device was promised first."""
        owners = [agreed.names[i] for i in agreed.owners]
        whole = ALL_SCHEMES[agreed.parameters.scheme].by_pods or contract.has_whole_pods(owners)
        as_ever = all(party.pod == contract.pod_of(party.name) for party in self.honest if party.name in owners)
        return agreed.parameters == contract.parameters and whole and as_ever

    def contract_of(self, agreed: Agreement) -> Contract | None:
        """None in a laboratory. Parameters that nobody approved belong to no contract: then it is the first one."""
        if self.laboratory:
            return None
        by_digest = {contract.digest: contract for contract in self.contracts}
        return by_digest.get(agreed.parameters.recipe, self.contract)

    def _members(
        self, agreed: Agreement, also: Sequence[str], contract: Contract | None
    ) -> tuple[dict[int, Sums], list[int], frozenset[int]]:
        """Honest positions that accepted, with what they brought; those that did not; and the adversary's."""
        taking_part: dict[int, Sums] = {}
        absent = []
        for place, member in enumerate(agreed.members):
            for party in self.honest:
                named = (party.name, party.identity.public) == (member.name, member.identity)
                if named and party.actor not in also:
                    if agreed.hash not in party.accepted:
                        absent.append(place)
                    elif contract is None:
                        taking_part[place] = party.accepted[agreed.hash].sums
                    else:
                        taking_part[place] = party.contributed.get(contract.digest, {})
        return taking_part, absent, frozenset(range(agreed.n_devices)) - set(taking_part) - set(absent)


def _weighted(sums: Iterable[tuple[Sums, int]]) -> list[Functional]:
    """For each kind of sum and index, the weighted sum over devices."""
    found: dict[tuple[str, int], Counter[Coordinate]] = {}
    for one, weight in sums:
        if weight:
            for entry, coordinates in one.items():
                for coordinate in coordinates:
                    found.setdefault(entry, Counter())[coordinate] += weight
    return list(found.values())


def solver_for(parameters: Parameters) -> Solver:
    if parameters.total_limit:
        return TakesTotal()
    return ClosedForm(1e-3) if parameters.reveals_gram else descent()


def world(
    stage: Stage,
    scheme: str | Attacked = "coded-keys",
    sizes: Sequence[int] = (3, 5, 2, 4),
    alpha: int = 2,
    **options: Any,
) -> Adversary:
    """An adversary in a small world: d = 2 features, c = 1 output unless ``options`` (of Scenario) say otherwise.

    ``colluders``, ``laboratory``, ``party_type``, ``pods``, ``helpers``, ``least_owners`` and parameters that a
    scenario does not have (``epochs``, ``noise``, ``owners``, ``total_limit``) are the adversary's; ``z`` is how many
    colluders a scheme of roles shall withstand.
    """
    attacked = ALL_SCHEMES[scheme] if isinstance(scheme, str) else scheme
    of_adversary = {name: options.pop(name) for name in _OF_ADVERSARY if name in options}
    types = {"scheme": attacked.scheme}
    usual = {"d": 2, "c": 1, "public_samples": False, "claimed_samples": sum(sizes), "colluders": options.pop("z", 0)}
    scenario = Scenario(sizes, alpha, **usual | types | options)
    if "bounds" not in options:
        scenario.bounds = replace(scenario.bounds, samples=100, samples_per_device=20)
    return Adversary(stage, scenario, attacked, **of_adversary)


_OF_ADVERSARY = (
    *("colluders", "laboratory", "party_type", "pods", "helpers", "least_owners"),
    *("epochs", "noise", "owners", "total_limit"),
)
