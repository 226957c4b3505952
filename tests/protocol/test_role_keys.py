"""Role keys: the exact model from the first answer of each role, who may be missing, and who lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from crafted import from_server, refused
from role_runs import deaf, first_of_each_role, holders_of, scenario_of, without

from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.protocol.agreement import Agreement
from codedfl.protocol.device import Device
from codedfl.protocol.messages import Commitments, Kind, Update
from codedfl.protocol.owner_list import signatures_needed
from codedfl.protocol.schemes.coded_keys import CODED_KEYS
from codedfl.protocol.schemes.role_keys import ROLE_SUMS
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.run.in_process import run_in_process
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.krylov import BlockKrylov
from codedfl.solve.solver import Solver
from scenario import Network, descent, tamper
from wording import exactly

# -- the model


@pytest.mark.parametrize("colluders", [0, 1, 2])
@pytest.mark.parametrize("solver", [lambda: descent(5), lambda: BlockKrylov(4, 1e-3)], ids=["descent", "krylov"])
@pytest.mark.parametrize(
    ("ring", "number_bytes"),
    [({}, 6), ({"precision": 50}, 9), ({"narrow": True}, 4)],
    ids=["48 bits", "72 bits", "32 bits"],
)
def test_one_answer_of_each_role_gives_the_model_of_plain_integers(
    colluders: int, solver: Callable[[], Solver], ring: dict[str, Any], number_bytes: int
):
    scenario = scenario_of(colluders, **ring)
    server = scenario.server(solver())
    arrivals = first_of_each_role(server, np.random.default_rng(colluders))
    model = run_in_process(server, scenario.devices(), arrivals)
    assert np.array_equal(model, scenario.expected_models(solver())[-1])
    assert server.agreement.ring.bytes_per_number == number_bytes


def test_it_is_the_model_of_every_other_scheme():
    keys = scenario_of(scheme=CODED_KEYS, colluders=0)
    model = run_in_process(keys.server(descent(4)), keys.devices())
    roles = scenario_of()
    assert np.array_equal(run_in_process(roles.server(descent(4)), roles.devices()), model)


def test_a_gradient_code_has_no_ring_of_32_bits():
    keys = scenario_of(scheme=CODED_KEYS, colluders=0, narrow=True)
    message = "narrow must be off for a gradient code, whose primes are 1 modulo D, got it on"
    with pytest.raises(InvalidInput, match=exactly(message)):
        run_in_process(keys.server(descent(4)), keys.devices())


@pytest.mark.parametrize("narrow", [False, True])
def test_role_sums_solve_at_once(narrow: bool):
    scenario = scenario_of(scheme=ROLE_SUMS, narrow=narrow)
    server = scenario.server(ClosedForm(1e-3))
    model = run_in_process(server, scenario.devices(), first_of_each_role(server, np.random.default_rng(1)))
    assert np.array_equal(model, scenario.expected_models(ClosedForm(1e-3))[-1])
    assert server.epoch == 1


def test_keys_may_be_held_by_some_devices_or_by_helpers_without_data():
    scenario = scenario_of(colluders=1)
    few = scenario.server(descent(3), holders=["device-4", "device-0", "device-2"])
    model = run_in_process(few, scenario.devices())
    expected = scenario.expected_models(descent(3))[-1]
    assert np.array_equal(model, expected)
    agreement = few.agreement
    assert {name for name, role in zip(agreement.names, agreement.roles, strict=True) if role == 0} == {
        "device-4",
        "device-2",
    }
    names = [*scenario.names, "helper-0", "helper-1"]
    plan = replace(scenario.plan, names=tuple(names), holders=tuple(names[-2:]), helpers=frozenset(names[-2:]))
    server = Server(plan, descent(3))
    helpers = [Device(plan, name, None) for name in names[-2:]]
    assert np.array_equal(run_in_process(server, [*scenario.devices(), *helpers]), expected)


def test_a_helper_has_no_data():
    with pytest.raises(
        InvalidInput, match=exactly("the contribution must be None for a helper, which has no data, got one")
    ):
        scenario_of().device(0, helpers=frozenset({"device-0"}))


# -- who may be missing


def test_an_owner_that_never_uploads_is_left_out_at_the_deadline():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.SHARES)
    run = deaf(network, "device-3")
    run()
    assert network.server.phase is Phase.SHARING
    network.send(network.server.go_on_without(["device-3"]))
    run()
    server = network.server
    assert server.phase is Phase.FINISHED
    assert "device-3" not in server.sharing.owners.names
    assert np.array_equal(server.model, without(scenario, 3))


def test_an_owner_that_has_uploaded_may_die_and_so_may_all_holders_of_a_role_but_one():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.UPDATE)
    by_role = [holders_of(network.server, role) for role in (0, 1)]
    dead = [*by_role[0][1:], *by_role[1][1:]]
    deaf(network, *dead)()
    server = network.server
    assert server.phase is Phase.FINISHED
    assert len(server.sharing.owners.names) == 6
    assert np.array_equal(server.model, scenario.expected_models(descent())[-1])


def test_a_dead_role_ends_the_run_by_name_with_the_model_so_far():
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.UPDATE)
    agreement = network.server.agreement
    role = holders_of(network.server, 1)
    network.run_until(Kind.ANSWER)
    for name in agreement.names:
        network.deliver(("up", name))
    deaf(network, *role)()
    with pytest.raises(NotEnoughDevices) as caught:
        network.server.go_on_without(role)
    assert str(caught.value).startswith(
        "epoch 2 needs 2 answers (one of each role) but only 3 devices are alive: 1 more"
    )
    assert set(caught.value.missing) == set(role)
    assert np.array_equal(caught.value.model, scenario.expected_models(descent())[0])


def test_too_few_holders_for_a_list_end_the_run_before_it_begins():
    """Of six devices and z = 1 four must sign: three may not be missing."""
    assert [signatures_needed(6, z) for z in (0, 1, 2)] == [4, 4, 5]
    assert signatures_needed(25, 1) == 14  # eleven may be missing
    network = Network.of(scenario_of())
    network.run_until(Kind.SHARES)
    gone = ["device-1", "device-2", "device-3"]
    with pytest.raises(
        NotEnoughDevices, match=r"^the list of owners must be signed by 4 of 6 devices, only 3 are there"
    ):
        network.server.go_on_without(gone)


# -- liars


def make_liar(device: Device, first_epoch: int = 2) -> None:

    def change(update: Update, planes: Any) -> None:
        if update.epoch >= first_epoch:
            planes[0, 0] += 1 if planes[0, 0] < 0 else -1

    tamper(device, change)


def test_two_spare_answers_outvote_a_liar_and_name_it():
    scenario = scenario_of(sizes=(2, 1, 3, 2, 1, 2, 2))
    server = scenario.server(descent(4), spare=2)
    devices = scenario.devices()
    make_liar(devices[3])
    model = run_in_process(server, devices)
    assert server.liars == {"device-3": 2}
    assert np.array_equal(model, scenario.expected_models(descent(4))[-1])


def test_spare_answers_need_holders_in_each_role():
    scenario = scenario_of(sizes=(2, 1, 3, 2))
    message = "every role must have 3 holder(s) for 2 spare answers, got 4 holders for 2 roles"
    with pytest.raises(InvalidInput, match=exactly(message)):
        run_in_process(scenario.server(descent(2), spare=2), scenario.devices())


def test_a_wrong_seed_is_complained_of_and_its_owner_left_out():
    """An owner that seals garbage to one role is not covered by it, and nobody honest is named."""
    scenario = scenario_of()
    network = Network.of(scenario)
    network.run_until(Kind.AGREEMENT)
    guilty = network.devices["device-2"]
    honest = guilty.sharing._sealed_seed

    def seal(key: bytes, role: int, seed: bytes, commitments: Commitments) -> bytes:
        return honest(key, role, bytes(32) if role == 0 else seed, commitments)

    guilty.sharing._sealed_seed = seal
    network.run()
    if network.server.phase is not Phase.FINISHED:
        network.send(network.server.close_uploads())
        network.run()
    server = network.server
    assert set(server.sharing.complaints) <= {"device-2"}
    assert "device-2" not in server.sharing.owners.names
    assert server.liars == {}
    assert server.phase is Phase.FINISHED


def test_public_sample_counts_are_refused():
    parameters = replace(scenario_of().parameters, samples=18)
    message = "samples must be None for role-keys, whose owners may be left out, got 18"
    with pytest.raises(InvalidInput, match=exactly(message)):
        scenario_of().server(parameters=parameters)


def test_the_agreement_says_who_holds_what_and_is_checked():
    network = Network.of(scenario_of(colluders=2))
    network.run_until(Kind.AGREEMENT)
    agreement = network.server.agreement
    again = Agreement.decode(agreement.encoded)
    assert (again.roles, again.helpers) == (agreement.roles, ())
    assert sorted(again.roles) == [0, 0, 1, 1, 2, 2]
    assert repr(again.answer_code) == "<RoleCode of 3 roles with 2, 2, 2 holders, tolerates 2 colluders>"
    lie = replace(agreement, roles=())
    message = "the agreement must say rightly who has data and who holds keys: it does not"
    refused(network.devices["device-0"], from_server(network, Kind.AGREEMENT, lie.encoded), message)
