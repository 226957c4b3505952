"""Rows of a role dealt out in blocks: the model of plain integers, from one answer of each cell, whoever is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from crafted import from_server, refused
from role_runs import deaf, holders_of, scenario_of

from codedfl.code.roles import ALL_ROWS, RoleCode
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.messages import Kind, Update
from codedfl.protocol.schemes.role_keys import ROLE_KEYS, ROLE_SUMS, RoleKeys, RoleSums
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import run_in_process
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.solver import Solver
from scenario import Network, Scenario, descent, tamper
from wording import exactly

SIZES = (2, 1, 3, 1, 2, 1, 2, 1, 1, 2, 1, 3, 1, 2)
DEALT = [(1, 0), (2, 0), (3, 0), (5, 0), (2, 1), (3, 2), (5, 1), (5, 2)]  # K, reserve


def dealt(scheme: Any = ROLE_KEYS, **options: Any) -> Scenario:
    scenario = scenario_of(**{"sizes": SIZES, "scheme": scheme, "d": 7, "c": 2} | options)
    scenario.nonces = [bytes([i]) * 16 for i in range(scenario.n_devices)]  # any will do, where seats are not foreseen
    return scenario


def one_of_each_cell(server: Server, rng: np.random.Generator) -> Callable[[int, Sequence[str]], list[str]]:
    """One that can answer for each cell, another in every epoch; nobody else answers."""

    def arrivals(epoch: int, names: Sequence[str]) -> list[str]:
        del epoch
        agreement = server.agreement
        assert agreement is not None
        cells = [[agreement.names[i] for i in part.members] for part in server.quorum.parts]
        drawn = [str(rng.choice([name for name in cell if name in names])) for cell in cells]
        return list(dict.fromkeys(drawn))

    return arrivals


@pytest.mark.parametrize(("blocks", "reserve"), DEALT)
@pytest.mark.parametrize("scheme", [ROLE_KEYS, ROLE_SUMS], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("narrow", [False, True], ids=["48 bits", "32 bits"])
def test_one_answer_of_each_cell_gives_the_model_of_plain_integers(blocks: int, reserve: int, scheme, narrow: bool):
    scenario = dealt(scheme, narrow=narrow)

    def solver() -> Solver:
        return ClosedForm(1e-3) if scheme is ROLE_SUMS else descent(4)

    server = scenario.server(solver(), blocks=blocks, reserve=reserve)
    model = run_in_process(
        server, scenario.devices(), one_of_each_cell(server, np.random.default_rng(blocks + reserve))
    )
    assert np.array_equal(model, scenario.expected_models(solver())[-1])
    assert server.agreement is not None
    code = server.agreement.answer_code
    assert isinstance(code, RoleCode)
    assert (code.n_blocks, server.agreement.blocks.count(ALL_ROWS)) == (blocks, 2 * reserve)
    asked = RoleSums if scheme is ROLE_SUMS else RoleKeys
    expected = asked(1, blocks=blocks, reserve=reserve).quorum(14)
    assert [(len(part.members), part.needed) for part in code.quorum.parts] == [
        (len(part.members), part.needed) for part in expected.parts
    ]


def test_a_holder_keeps_multiplies_and_answers_its_rows_only():
    scenario = dealt()
    network = Network.of(scenario, blocks=3, reserve=1)
    network.run_until(Kind.ANSWER)
    agreement = network.server.agreement
    assert agreement is not None
    for name, device in network.devices.items():
        (block, *others) = agreement.blocks_of(agreement.position(name))
        rows = 7 if others else (2, 2, 3)[block]
        assert device.sharing.answer_matrix.shape == (2, rows, 7)
        assert device.sharing.answer_constant.shape == (2, 2 * rows + (bool(others) or block == 2))
    network.run()
    assert np.array_equal(network.server.model, scenario.expected_models(descent())[-1])


def test_fewer_rows_or_holders_have_fewer_blocks():
    """Whole numbers have one row; whoever does not come leaves its cell to others."""
    scenario = dealt(sizes=SIZES[:6], d=2)
    server = scenario.server(descent(2), blocks=5, reserve=1)
    assert np.array_equal(run_in_process(server, scenario.devices()), scenario.expected_models(descent(2))[-1])
    assert server.agreement is not None and server.agreement.answer_rows.blocks.count == 2
    few = dealt(sizes=SIZES[:4])
    server = few.server(descent(2), blocks=5, reserve=2)
    run_in_process(server, few.devices())
    assert server.agreement is not None and server.agreement.blocks == ()


# -- who may be missing


@pytest.mark.parametrize("scheme", [ROLE_KEYS, ROLE_SUMS], ids=lambda scheme: scheme.name)
@pytest.mark.parametrize("when", [Kind.UPDATE, Kind.ANSWER])
def test_the_reserve_of_each_role_is_enough(scheme: Any, when: Kind):
    scenario = dealt(scheme)

    def solver() -> Solver:
        return ClosedForm(1e-3) if scheme is ROLE_SUMS else descent(3)

    network = Network.of(scenario, solver(), blocks=3, reserve=1)
    network.run_until(when)
    agreement = network.server.agreement
    assert agreement is not None
    left = [name for name, block in zip(agreement.names, agreement.blocks, strict=True) if block == ALL_ROWS]
    deaf(network, *(name for name in agreement.names if name not in left))()
    assert network.server.phase is Phase.FINISHED
    assert np.array_equal(network.server.model, scenario.expected_models(solver())[-1])


def test_a_dead_cell_ends_the_run_by_name_where_no_reserve_is_left():
    scenario = dealt()
    network = Network.of(scenario, blocks=3)
    network.run_until(Kind.UPDATE)
    assert network.server.agreement is not None
    dead = [network.server.agreement.names[i] for i in network.server.quorum.parts[4].members]
    deaf(network, *dead)()
    message = "epoch 1 needs 6 answers (one of each role and block of rows) but only 12 devices are alive: 1 more"
    with pytest.raises(NotEnoughDevices) as caught:
        network.server.go_on_without(dead)
    assert str(caught.value).startswith(message)
    assert set(caught.value.missing) == set(dead)


# -- liars


@pytest.mark.parametrize("place", [0, 4], ids=["of the reserve", "of a cell"])
def test_spare_answers_of_a_cell_name_a_liar_and_no_one_else(place: int):
    """The reserve lies about one block only: it is found out there, and nobody of another cell is suspected."""
    scenario = dealt(sizes=SIZES * 2)
    server = scenario.server(descent(4), blocks=3, reserve=1, spare=2)
    devices = scenario.devices()

    def change(update: Update, planes: Any) -> None:
        if update.epoch >= 2:
            planes[0, -1] += 1 if planes[0, -1] < 0 else -1

    tamper(devices[place], change)
    model = run_in_process(server, devices)
    assert server.liars == {f"device-{place}": 2}
    assert np.array_equal(model, scenario.expected_models(descent(4))[-1])


# -- what a device refuses, and what is refused before a run


def test_a_device_refuses_cells_that_make_no_sense():
    network = Network.of(dealt(), blocks=3, reserve=1)
    network.run_until(Kind.AGREEMENT)
    true = network.server.agreement
    assert true is not None
    again = Agreement.decode(true.encoded)
    assert again.blocks == true.blocks and again.answer_rows.blocks.count == 3
    assert repr(again.answer_code) == "<RoleCode of 2 roles with 7, 7 holders, 3 blocks of rows, tolerates 1 colluders>"
    device = network.devices["device-0"]
    ordinary = true.blocks.index(2)
    lies: list[tuple[dict[str, Any], str]] = [
        ({"blocks": (ALL_ROWS,) * 14}, "blocks must be one per device, two different ones at least, got [-1, -1, -1,"),
        ({"blocks": (0,) * 14}, "blocks must be one per device, two different ones at least, got [0, 0, 0, 0, 0, 0, 0"),
        ({"blocks": tuple(block if block != 1 else 0 for block in true.blocks)}, "every block of a role must have a"),
        ({"blocks": tuple(block if block < 2 else 9 for block in true.blocks)}, "every block of a role must have a"),
        ({"roles": (*true.roles[:ordinary], -1, *true.roles[ordinary + 1 :])}, "a device without a role must keep no"),
        ({"blocks": (*true.blocks[:-1], -2)}, "blocks must be one per device, two different ones at least, got ["),
    ]
    for lie, reason in lies:
        forged = from_server(network, Kind.AGREEMENT, replace(true, **lie).encoded)
        with pytest.raises(MessageRefused) as caught:
            device.receive(forged)
        assert str(caught.value).startswith(f"the agreement breaks a rule: {reason}")
    refused(
        device,
        from_server(network, Kind.AGREEMENT, replace(true, roles=()).encoded),
        "an agreement's blocks must have 0 fields, got 14",
    )


def test_more_blocks_than_rows_are_refused():
    network = Network.of(dealt(d=2, c=1), blocks=2)
    network.run_until(Kind.AGREEMENT)
    true = network.server.agreement
    assert true is not None
    lie = replace(true, roles=(0, 1) * 7, blocks=tuple(min(i // 2, 2) for i in range(14)))
    message = "the agreement breaks a rule: blocks must be between 1 and the number of rows (2), got 3"
    refused(network.devices["device-0"], from_server(network, Kind.AGREEMENT, lie.encoded), message)


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (RoleKeys(blocks=0), "blocks must be at least 1, got 0"),
        (RoleKeys(reserve=1), "reserve must be 0, or more where there are blocks of rows, got 1"),
        (RoleKeys(blocks=2, reserve=-1), "reserve must be 0, or more where there are blocks of rows, got -1"),
        (RoleKeys(blocks=6), "blocks must be at most 5 with 10 holders, got 6"),
        (RoleKeys(blocks=3, spare=1), "blocks must be at most 2 with 10 holders, got 3"),
        (RoleKeys(blocks=4, spare=1, reserve=2), "blocks must be at most 3 with 10 holders, got 4"),
    ],
)
def test_a_scheme_that_does_not_fit_is_refused(scheme: RoleKeys, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        scheme.check(10)


def test_the_descriptor_says_what_a_position_works_and_what_is_survived():
    for scheme, shares, survived in [
        (RoleKeys(), [1, 1, 1, 1], 9),
        (RoleKeys(blocks=5), [0.2, 0.2, 0.2, 0.2], 1),
        (RoleKeys(blocks=5, reserve=1), [1, 1, 0.2, 0.2], 1),
        (RoleKeys(blocks=2, reserve=2, holders=16), [1, 1, 1, 1], 4),
    ]:
        scheme.check(20)
        assert [scheme.rows_of(i) for i in range(4)] == shares
        assert scheme.quorum(20).failures_survived == survived
    assert RoleKeys(blocks=2, holders=4).rows_of(4) == 0
    assert [RoleKeys(blocks=k).pads_of(0) for k in (1, 2, 5)] == pytest.approx([1, 0.75, 9 / 25])
    assert RoleKeys(blocks=5, reserve=1, spare=1).label == "role-keys, z = 1, K = 5, 1 in reserve, 1 spare"


def test_every_holder_of_a_cell_says_the_same():
    """Also the reserve, in the rows of the cell: bit for bit what the sum of the role's pads makes of e."""
    scenario = dealt()
    network = Network.of(scenario, blocks=3, reserve=1)
    network.run_until(Kind.ANSWER)
    agreement = network.server.agreement
    assert agreement is not None
    rows = agreement.answer_rows.blocks
    for role, block in product(range(2), range(3)):
        said = set()
        for name in holders_of(network.server, role):
            kept = agreement.blocks_of(agreement.position(name))
            if block in kept:
                first = rows.rows(kept[0]).start
                mine = slice(rows.rows(block).start - first, rows.rows(block).stop - first)
                said.add(network.devices[name].sharing.answer_matrix[:, mine].tobytes())
        assert len(said) == 1
