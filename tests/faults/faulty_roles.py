"""One run of role keys under a random schedule of faults: deaths at every step, deadlines, lists lost or equivocated.

What may happen to messages and processes is ``faulty_run``'s. Here the driver also tells the server that the time for
uploads is over and who is gone, kills devices where it hurts most, and has devices shown a list that the server never
made. The model must be the exact one of the listed owners; when the run ends early, somebody other than the machines
must be able to say why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from faulty_run import EPOCHS, SERVER, FaultyRun, make_liar
from numpy.typing import NDArray

from codedfl.crypto.sealed import Identity
from codedfl.errors import MessageRefused, NotEnoughDevices, WrongAnswers
from codedfl.protocol.contribution import Rows
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.owner_list import OwnerList
from codedfl.protocol.plan import RunPlan
from codedfl.protocol.schemes.role_keys import ROLE_KEYS, ROLE_SUMS
from codedfl.protocol.schemes.role_keys.device import RoleDeviceSharing
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.solver import Solver
from scenario import Scenario, descent, wire

STRIKES = (
    *("nobody", "owners before they upload", "owners that have uploaded"),
    *("all but one of each role", "a role", "a cell at any step"),
)


class RoleSetting(NamedTuple):
    """What a schedule runs on; the last ``helpers`` devices have no data, ``holders`` is 0 for everybody.

    blocks, reserve: in how many blocks rows are dealt out, and who keeps all of them; there are as many rows.
    """

    sums: bool
    n_devices: int
    z: int
    holders: int = 0
    helpers: int = 0
    spare: int = 0
    n_liars: int = 0
    blocks: int = 1
    reserve: int = 0


SETTINGS = [
    RoleSetting(sums, *shape)
    for sums in (False, True)
    for shape in (
        (2, 0),
        (3, 1),
        (4, 1),
        (5, 1),
        (6, 1),
        (6, 2),
        (9, 2),  # two whole roles are as many as must sign
        (6, 1, 3),
        (7, 1, 4, 2),
        (6, 1, 0, 0, 2, 1),
        (6, 0, 0, 0, 4, 2),
        (6, 1, 0, 0, 0, 0, 3),  # one holder in every cell
        (8, 1, 0, 0, 0, 0, 2),
        (8, 1, 0, 0, 0, 0, 3, 1),
        (9, 2, 0, 0, 0, 0, 2, 1),
        (8, 1, 6, 2, 0, 0, 2, 1),
        (9, 0, 0, 0, 2, 1, 3, 2),
    )
]


@cache
def scenario_of(setting: RoleSetting) -> Scenario:
    sizes = (2, 3, 1, 2, 2, 1, 3, 1, 2)[: setting.n_devices - setting.helpers]
    scheme = ROLE_SUMS if setting.sums else ROLE_KEYS
    rows = max(2, setting.blocks)
    return Scenario(sizes, 1, d=rows, c=1, colluders=setting.z, public_samples=False, scheme=scheme)


def solver_of(setting: RoleSetting) -> Solver:
    return ClosedForm(1e-3) if setting.sums else descent(EPOCHS)


@cache
def models_of(setting: RoleSetting, owners: tuple[str, ...]) -> list[NDArray[np.float64]]:
    """The oracle's models of some owners' data, on the scales that all agreed on."""
    return scenario_of(setting).only(owners).expected_models(solver_of(setting))


class FaultyRoles(FaultyRun):
    """``strike`` is who is killed on purpose, besides what happens at random."""

    settings: ClassVar[Sequence[Any]] = SETTINGS
    device_sharing: ClassVar[type[RoleDeviceSharing]] = RoleDeviceSharing  # or mutants of the tests

    def _prepare(self) -> None:
        self.scenario = scenario_of(self.setting)
        self.helpers = [f"helper-{i}" for i in range(self.setting.helpers)]
        self.names = [*self.scenario.names, *self.helpers]
        self.models: list[NDArray[np.float64]] = []
        self.strike = self.rng.choice(STRIKES if self.rng.random() < 0.6 else STRIKES[:1])
        self.closed = False  # a deadline that was not due
        self.fooled: set[str] = set()  # signed a list that the server never made

    @property
    def plan(self) -> RunPlan:
        holders = [*self.helpers, *self.scenario.names][: self.setting.holders]
        return RunPlan(
            replace(self.scenario.scheme, device=self.device_sharing),
            self.scenario.parameters,
            tuple(self.names),
            self.setting.spare,
            tuple(holders),
            frozenset(self.helpers),
            blocks=self.setting.blocks,
            reserve=self.setting.reserve,
        )

    def _new_server(self) -> Server:
        identity = self.server.identity if hasattr(self, "server") else None
        return Server(self.plan, solver_of(self.setting), identity=identity, random_bytes=self.secrets)

    def _new_device(self, name: str, identity: Identity | None = None, data_used: bool = False) -> Device:
        rows = None if data_used or name in self.helpers else Rows(*self.scenario.data[self.names.index(name)])
        device = Device(self.plan, name, rows, identity=identity, random_bytes=self.secrets)
        if name in self.liars:
            make_liar(device, self.lies_from)
        return device

    # -- faults of its own

    def faults(self) -> list[Callable[[str, bytes], None]]:
        own = [self._deadline, self._look_who_is_gone, self._equivocate]
        return [*super().faults(), *(fault for fault in own if self.rng.random() < 0.3)]

    def _deliver_it(self, name: str, data: bytes) -> None:
        super()._deliver_it(name, data)
        self._kill_on_purpose()

    def _deadline(self, name: str, data: bytes) -> None:
        """The time for uploads is over, whoever is missing; with too few of them it changes nothing."""
        del name, data
        before = self.server.state()
        try:
            self._send(self.server.close_uploads())
            self.closed = self.closed or self.server.sharing._closed
        except NotEnoughDevices:
            assert self.server.state() == before

    def _look_who_is_gone(self, name: str, data: bytes) -> None:
        del name, data
        if self.server.phase is not Phase.JOINING:
            self._ask_for_enough()

    def _equivocate(self, name: str, data: bytes) -> None:
        """A device gets a list without one owner, signed by the server, as if the server had made two."""
        del data
        owners = self.server.sharing.owners
        if name == SERVER or owners is None or len(owners.owners) < self.setting.z + 3:
            return
        if self.server.phase is Phase.FINISHED:  # nobody is listened to any more
            return
        left_out = self.rng.randrange(len(owners.owners))
        lie = OwnerList(tuple(one for i, one in enumerate(owners.owners) if i != left_out))
        message = self.server._session.signed(Kind.OWNERS, lie.encoded)
        try:
            (reply,) = wire(self.devices[name].receive(message.encode()))
        except MessageRefused:
            return
        self.fooled.add(name)
        try:
            self.server.receive(reply)
        except MessageRefused as refused:
            assert str(refused) == "a signature must be on the list of this run: it is on another"  # noqa: PT017
        else:
            raise AssertionError("the server took a signature on another list")

    def _kill_on_purpose(self) -> None:
        server = self.server
        if server.agreement is None or self.strike == "nobody":
            return
        roles = dict(zip(server.agreement.names, server.agreement.roles, strict=True))
        victims: list[str] = []
        if self.strike == "owners before they upload":
            victims = self.rng.sample(server.unshared, min(len(server.unshared), self.rng.randint(1, 2)))
        elif self.strike == "owners that have uploaded":
            victims = [name for name in server.answered if server.phase is Phase.SHARING][:1]
        elif self.strike == "a cell at any step":
            dealt = server.agreement.blocks or (0,) * len(roles)
            cell = (self.setting.z, self.rng.randrange(max(dealt) + 1))
            held = zip(roles, zip(roles.values(), dealt, strict=True), strict=True)
            victims = [name for name, one in held if one == cell] if self.rng.random() < 0.05 else []
        elif server.sharing._certificate:
            ready = [server.agreement.position(name) for name in server.ready_devices]
            code = server.agreement.answer_code
            whole = [i for i in ready if len(server.agreement.blocks_of(i)) > 1]
            spared = set()
            for part in code.quorum.parts:  # down to the reserve, where there is one, that is one holder per role
                able = [i for i in whole or ready if i in part.members]
                if len(able) <= self.setting.spare:
                    return  # not yet: who is left must be one that can answer
                spared |= set(able[: self.setting.spare + 1 + self.setting.n_liars])
            victims = [name for i, name in enumerate(server.agreement.names) if roles[name] >= 0 and i not in spared]
            if self.strike == "a role":
                victims = [name for name, one in roles.items() if one == self.setting.z]
        if victims:
            self.log.append(f"kill {', '.join(victims)}")
            self.strike = "nobody"
            self.dead |= set(victims)
            for name in victims:
                self.kept[name] = []

    # -- the end

    def _progress(self) -> tuple[object, ...]:
        server = self.server
        seeds = [len(device.sharing.seeds) for device in self.devices.values()]
        told = (
            server.sharing.owners is None,
            len(server.sharing._signatures),
            len(server.sharing._holds),
            server.sharing._certificate,
            server.sharing.keys.told,
            len(server.sharing.keys.signatures),
            len(server.sharing.keys.silent),
        )
        answered = server.answered if server.agreement is not None else server.joined
        return server.phase, server.epoch, len(server.sharing.shared), len(server.sharing.ready), answered, seeds, told

    @property
    def gone(self) -> list[str]:
        """A device that signed another list refuses this one for good, as if it were dead."""
        return [name for name in self.names if name in self.dead or name in self.fooled]

    def _ask_for_enough(self) -> bool:
        """Whether the server had something to say; an error ends the run."""
        try:
            turn = self.server.go_on_without(self.gone)
        except NotEnoughDevices as error:
            self.log.append(f"{type(error).__name__}: {error}")
            self.error = error
            return True
        self._send(turn)
        return bool(turn.outgoing or turn.events)

    def _give_up(self) -> None:
        assert self._ask_for_enough(), f"the run hangs: {self.server!r}, {self.gone} are gone"

    # -- what must hold

    def _check_model(self) -> None:
        lists = {device.sharing.owners for device in self.devices.values() if device.sharing.certified}
        assert len(lists) <= 1, "two lists were certified"
        if self.server.model is not None:
            assert self.server.sharing.owners is not None
            self.models = models_of(self.setting, self.server.sharing.owners.names)
            super()._check_model()

    def _check_end(self) -> None:
        self._check_model()
        if self.error is None:
            assert self.server.phase is Phase.FINISHED, f"no end: {self.server!r}"
            assert np.array_equal(self.server.model, self.models[-1])
            assert set(self.server.liars) <= set(self.liars), "an honest device was called a liar"
            if not self.dead and not self.closed:
                owners = self.server.sharing.owners
                assert owners is not None and set(owners.names) == set(self.scenario.names), "somebody was left out"
            return
        assert self._explanation(), f"an error that nothing explains: {self.error!r}"
        kept = self.error.model
        assert (kept is None) == (self.server.model is None)
        assert kept is None or np.array_equal(kept, self.server.model)

    def _seeds_on_their_way(self) -> bool:
        return any(Message.decode(data).kind is Kind.SHARE for name in self.names for data in self.kept[name])

    def _explanation(self) -> str:
        """Why the run cannot go on, by counting who is left; empty if it could."""
        server, setting, gone = self.server, self.setting, set(self.gone)
        if isinstance(self.error, WrongAnswers):
            return "liars" if self.liars else ""
        assert server.agreement is not None
        roles = dict(zip(server.agreement.names, server.agreement.roles, strict=True))
        for role in range(setting.z + 1):
            holders = {name for name, one in roles.items() if one == role}
            signed = {server.agreement.names[i] for i in server.sharing.keys.signatures}
            there = holders - gone | holders & signed
            if not server.sharing.keys.told and len(there) < min(setting.z + 1, len(holders)):
                return "too few to sign a role's key"
        uploads = len(self.scenario.names) - len(server.unshared)
        if uploads < setting.z + 2 and set(server.unshared) <= gone:
            return "too few owners"
        if len(server.sharing._whole(server.sharing._usable())) < setting.z + 2 and self._seeds_on_their_way():
            return "too early"  # a deadline that overtakes shares, which real engines deliver in order
        signed = {server.agreement.names[i] for i in server.sharing._signatures}
        if not server.sharing._certificate and 2 * len(set(self.names) - gone | signed) <= len(self.names) + setting.z:
            return "too few to sign"
        answered = set(server.answered if server.phase is not Phase.SHARING else ())
        for part in server.agreement.answer_code.quorum.parts:
            cell = {server.agreement.names[i] for i in part.members}
            if len(cell & (cell - gone - set(server.liars) | answered)) <= setting.spare:
                return f"role {roles[min(cell)]} is short"
        return ""
