"""One run under a random schedule of faults: everything that a network, a power cut or a lying device can do.

Messages are dropped, delayed, duplicated, reordered, cut, damaged, replayed, misdirected; parties end before or after
their state was saved and come back from it, or never. The driver does what ``codedfl.protocol`` asks of one: a party's
state is saved before its replies leave, what was sent is kept until it was taken, and the newest update is repeated.
After the chaos the network heals, so that the run must come to an end.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from codedfl.crypto.sealed import Identity
from codedfl.errors import CodedFLError, MessageRefused, NotEnoughDevices, WrongAnswers
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device, used_data
from codedfl.protocol.events import Turn
from codedfl.protocol.messages import Kind, Message, Update
from codedfl.protocol.schemes.coded_keys import CodedKeys, OneShot
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.server import Server
from codedfl.protocol.server_events import RunFailed
from codedfl.protocol.server_session import Phase
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.solver import Solver
from codedfl.state import State
from codedfl.typing import Planes
from scenario import Scenario, descent, repeatable, tamper

SERVER = ""
EPOCHS = 3
MOST_ROUNDS = 40  # of the healed network: more would be a hang
NEWEST_ONLY = (Kind.UPDATE, Kind.ANSWER, Kind.FINISH)  # repeated by their senders, not by the network


class Setting(NamedTuple):
    """What a schedule runs on; few enough that the oracle's models can be kept."""

    scheme: type[CodedScheme]
    n_devices: int
    alpha: int
    groups: int
    spare: int
    n_liars: int


SETTINGS = [
    Setting(scheme, *shape)
    for scheme in (CodedPadded, CodedKeys, OneShot)
    for shape in (
        (2, 1, 1, 0, 0),
        (3, 2, 1, 0, 0),
        (3, 2, 1, 1, 1),  # a liar is noticed, nobody can say who
        (3, 3, 1, 2, 1),
        (4, 3, 1, 0, 0),
        (4, 3, 1, 1, 1),
        (4, 3, 1, 2, 1),
        (4, 2, 2, 0, 0),
        (5, 5, 1, 4, 2),
        (6, 3, 2, 2, 1),
    )
]


@cache
def scenario_of(setting: Setting) -> Scenario:
    sizes = (2, 3, 1, 2, 2, 1)[: setting.n_devices]
    types: Any = {"scheme": setting.scheme.sharing_scheme}
    return Scenario(sizes, setting.alpha, d=2, c=1, groups=setting.groups, **types)


def solver_of(setting: Setting) -> Solver:
    return ClosedForm(1e-3) if setting.scheme.reveals_gram else descent(EPOCHS)


@cache
def expected_models(setting: Setting) -> list[NDArray[np.float64]]:
    return scenario_of(setting).expected_models(solver_of(setting))


class FaultyRun:
    """``run`` returns how it ended: "exact", or the name of the documented error. ``log`` tells the story."""

    settings: ClassVar[Sequence[Any]] = SETTINGS

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.setting = self.rng.choice(self.settings)
        self._prepare()
        self.secrets = repeatable(f"secrets {seed}")
        self.liars = self.rng.sample(self.names, self.setting.n_liars)
        self.lies_from = 1 if self.scenario.scheme.reveals_gram else self.rng.randint(1, EPOCHS)
        self.server = self._new_server()
        self.devices = {name: self._new_device(name) for name in self.names}
        self.dead: set[str] = set()
        self.kept: dict[str, list[bytes]] = {name: [] for name in (SERVER, *self.names)}  # sent, not taken yet
        self.seen: list[bytes] = []
        self.log: list[str] = []
        self.error: CodedFLError | None = None
        self._send(self.server.invite())

    def _prepare(self) -> None:
        self.scenario = scenario_of(self.setting)
        self.models = expected_models(self.setting)
        self.names = self.scenario.names

    # -- parties

    def _new_server(self) -> Server:
        options = {"random_bytes": self.secrets, "spare": self.setting.spare}
        if hasattr(self, "server"):
            options["identity"] = self.server.identity
        return self.scenario.server(solver_of(self.setting), **options)

    def _new_device(self, name: str, identity: Identity | None = None, data_used: bool = False) -> Device:
        rows = None if data_used else Rows(*self.scenario.data[self.names.index(name)])
        device = Device(self.scenario.plan, name, rows, identity=identity, random_bytes=self.secrets)
        if name in self.liars:
            make_liar(device, self.lies_from)
        return device

    def _restart(self, name: str, state: State) -> None:
        """A fresh process goes on from a state as it would be read from the disk."""
        if name == SERVER:
            self.server = self._new_server()
            self.server.restore(copy.deepcopy(state))
        else:
            self.devices[name] = self._new_device(name, self.devices[name].identity, used_data(state))
            self.devices[name].restore(copy.deepcopy(state))

    def _state(self, name: str) -> State:
        return copy.deepcopy(self.server.state() if name == SERVER else self.devices[name].state())

    # -- messages

    def _send(self, turn: Turn) -> None:
        """Keep what a party sends until it is taken; a run that failed ends the story."""
        for outgoing in turn.outgoing:
            for name in outgoing.receivers:
                if outgoing.kind in NEWEST_ONLY:
                    self._forget_older(name, outgoing.message)
                self.kept[name].append(outgoing.data)
        for event in turn.events:
            if isinstance(event, RunFailed):
                self.log.append(f"{type(event.error).__name__}: {event.error}")
                self.error = event.error

    def _forget_older(self, name: str, newest: Message) -> None:
        """Only the newest update, answer or end is worth repeating."""
        self.kept[name] = [
            data
            for data in self.kept[name]
            if (message := Message.decode(data)).kind not in NEWEST_ONLY or message.sender != newest.sender
        ]

    def _hand_over(self, name: str, data: bytes) -> bool:
        """Give bytes to a party; whether it took them. Its replies are kept for delivery."""
        try:
            self._send((self.server if name == SERVER else self.devices[name]).receive(data))
        except MessageRefused:
            return False
        except NotEnoughDevices as error:
            self.log.append(f"{type(error).__name__}: {error}")
            self.error = error
        return True

    def _deliver(self, name: str, data: bytes) -> None:
        """An undamaged message of the run itself."""
        self.seen.append(data)
        if self._hand_over(name, data) and data in self.kept[name]:
            self.kept[name].remove(data)

    # -- faults, each on a message that is on its way

    def _deliver_it(self, name: str, data: bytes) -> None:
        self._deliver(name, data)

    def _deliver_twice(self, name: str, data: bytes) -> None:
        self._deliver(name, data)
        self._hand_over(name, data)

    def _cut(self, name: str, data: bytes) -> None:
        self._hand_over(name, data[: self.rng.randrange(len(data))])

    def _flip_bits(self, name: str, data: bytes) -> None:
        damaged = bytearray(data)
        for _ in range(self.rng.randint(1, 3)):
            damaged[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)
        if bytes(damaged) != data:
            self._hand_over(name, bytes(damaged))

    def _replay(self, name: str, data: bytes) -> None:
        self._hand_over(name, self.rng.choice(self.seen) if self.seen else data)

    def _misdirect(self, name: str, data: bytes) -> None:
        del name
        other = self.rng.choice([SERVER, *(n for n in self.names if n not in self.dead)])
        self._hand_over(other, data)

    def _end_before_saving(self, name: str, data: bytes) -> None:
        """What the message did is lost, and so are the replies; the message was not confirmed and comes again."""
        before, on_their_way = self._state(name), {n: list(queue) for n, queue in self.kept.items()}
        error = self.error
        self._hand_over(name, data)
        self.kept, self.error = on_their_way, error
        self._restart(name, before)

    def _end_after_saving(self, name: str, data: bytes) -> None:
        self._deliver(name, data)
        if self.error is None:
            self._restart(name, self._state(name))

    def _end_for_good(self, name: str, data: bytes) -> None:
        """Devices only, and not before the participants are fixed: who never joins is not part of the run."""
        del data
        if name != SERVER and self.server.phase is not Phase.JOINING:
            self.dead.add(name)
            self.kept[name] = []

    def _drop_for_good(self, name: str, data: bytes) -> None:
        """Lost without being sent again: harmless for what its sender repeats, so only that."""
        if Message.decode(data).kind in NEWEST_ONLY:
            self.kept[name].remove(data)

    # -- the schedule

    def faults(self) -> list[Callable[[str, bytes], None]]:
        """What may happen to a message, as often as it is likely."""
        calm = [self._deliver_it] * self.rng.choice([6, 12, 24])
        odd = [self._deliver_twice, self._cut, self._flip_bits, self._replay, self._misdirect]
        endings = [self._end_before_saving, self._end_after_saving, self._drop_for_good]
        return [*calm, *odd, *endings, *([self._end_for_good] if self.rng.random() < 0.3 else [])]

    def run(self) -> str:
        faults = self.faults()
        for _ in range(self.rng.randint(20, 160)):
            waiting = [(name, data) for name in self.kept for data in self.kept[name] if name not in self.dead]
            if self.error is not None or not waiting:
                break
            fault = self.rng.choice(faults)
            name, data = self.rng.choice(waiting)
            self.log.append(f"{fault.__name__[1:]} {Message.decode(data).kind} to {name or 'server'}")
            fault(name, data)
            self._check_model()
        return self._heal()

    def _heal(self) -> str:
        """From now on everything arrives; the run must end, one way or another."""
        without_progress = 0
        for _ in range(MOST_ROUNDS):
            if self.error is not None or self.server.phase is Phase.FINISHED:
                break
            before = self._progress()
            if self.server.phase in (Phase.TRAINING, Phase.FINISHED):
                self._send(self.server.resend())
            for name in list(self.kept):
                for data in list(self.kept[name]):
                    if name not in self.dead and self.error is None:
                        self._deliver(name, data)
                        self._check_model()
            without_progress = without_progress + 1 if self._progress() == before else 0
            over = self.server.phase is Phase.FINISHED  # type: ignore[comparison-overlap]  # it was not when we began
            if without_progress == 3 and not over and self.error is None:
                self._give_up()
        self._check_end()
        return "exact" if self.error is None else type(self.error).__name__

    def _progress(self) -> tuple[object, ...]:
        server = self.server
        taken = [len(device.sharing.mask_seeds) for device in self.devices.values()]
        answered = server.answered if server.agreement is not None else server.joined
        return server.phase, server.epoch, len(server.sharing.shared), len(server.sharing.ready), answered, taken

    def _give_up(self) -> None:
        """Nothing moves any more: the server must be able to say why."""
        before = self.server.epoch
        try:
            self._send(self.server.go_on_without([name for name in self.names if name in self.dead]))
        except CodedFLError as error:
            self.error = error
        hangs = self.error is None and self.server.epoch == before and self.server.phase is not Phase.FINISHED
        assert not hangs, f"the run hangs: {self.server!r}, {self.dead} are dead"

    # -- what must hold

    def _check_model(self) -> None:
        model = self.server.model
        if model is not None:
            assert any(np.array_equal(model, good) for good in self.models), (
                f"a wrong model in epoch {self.server.epoch}"
            )

    def _check_end(self) -> None:
        self._check_model()
        if self.error is None:
            assert self.server.phase is Phase.FINISHED, f"no end after {MOST_ROUNDS} rounds: {self.server!r}"
            assert np.array_equal(self.server.model, self.models[-1])
            assert set(self.server.liars) <= set(self.liars), "an honest device was called a liar"
            return
        allowed: tuple[type[CodedFLError], ...] = (NotEnoughDevices,) if self.dead else ()
        if self.liars:
            allowed += (WrongAnswers, NotEnoughDevices)
        assert isinstance(self.error, allowed), f"an error that nothing explains: {self.error!r}"
        assert self.setting.spare < 2 * len(self.liars) or self.dead, "enough spare answers, and yet it stopped"
        kept = self.error.model
        assert (kept is None) == (self.server.model is None)
        assert kept is None or np.array_equal(kept, self.server.model)


def make_liar(device: Device, first_epoch: int) -> None:
    """From some epoch on, one number of its answers is wrong."""

    def change(update: Update, planes: Planes) -> None:
        if update.epoch >= first_epoch:
            planes[0, 0] += 1 if planes[0, 0] < 0 else -1

    tamper(device, change)
