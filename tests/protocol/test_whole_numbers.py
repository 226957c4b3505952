"""Totals of whole numbers: those of Python's integers, whoever straggles, dies or comes back; never out of range."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from crafted import from_server, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from pod_runs import PodScenario, drive
from role_runs import first_of_each_role, holders_of
from test_state import plain

import oracle
from codedfl.errors import InvalidInput, MessageRefused, NotEnoughDevices, RangeExceeded
from codedfl.exact.ring import Ring
from codedfl.protocol.agreement import Parameters, ring_of_totals
from codedfl.protocol.contribution import WholeNumbers
from codedfl.protocol.messages import Kind, Message, Update, pack_list, unpack_list
from codedfl.protocol.server import Server
from codedfl.protocol.server_session import Phase
from codedfl.protocol.terms import DOES_NOT_TAKE_PART
from codedfl.run.in_process import run_in_process
from codedfl.solve.whole_total import TakesTotal
from codedfl.typing import Planes
from scenario import Network, wire
from wording import exactly

TWO_PRIMES = Ring.for_group_sizes((1,), 2).modulus // 8  # the largest limit that they hold
LARGEST = 2**68 - 1
LIMITS = {"small": 1000, "two primes": TWO_PRIMES, "three primes": TWO_PRIMES + 1, "the largest": LARGEST}


def on_ring(numbers: Sequence[int]) -> Callable[[Ring], Planes]:
    """Residues by Python's integers, which have no largest."""

    def make(ring: Ring) -> Planes:
        return np.array([[oracle.centred(n % p, p) for n in numbers] for p in ring.primes], dtype=np.float32)

    return make


@dataclass
class Totals(PodScenario):
    """Nine owners, each with a vector of whole numbers."""

    limit: int = 1000
    vectors: list[list[int]] = field(default_factory=lambda: [[i, -2 * i, 7] for i in range(9)])

    def __post_init__(self) -> None:
        super().__post_init__()
        length = len(self.vectors[0])
        self.changes = {"n_features": 1, "n_outputs": length, "total_limit": self.limit, "epochs": 1, "owners": 0}

    def contribution(self, name: str) -> WholeNumbers | None:
        if name in self.helpers:
            return None
        vector = self.vectors[self.names.index(name)]
        return WholeNumbers(len(vector), on_ring(vector))

    def solver(self) -> Any:
        return TakesTotal()

    def total(self, names: Sequence[str] | None = None) -> list[int]:
        """What Python says."""
        listed = set(self.names if names is None else names)
        vectors = [vector for name, vector in zip(self.names, self.vectors, strict=True) if name in listed]
        return [sum(column) for column in zip(*vectors, strict=True)]


def spread(total: Sequence[int], limit: int, seed: int) -> list[list[int]]:
    """Nine vectors that add up to this one, each as large as it may be."""
    rng = random.Random(seed)
    vectors = [[rng.randint(-limit, limit) for _ in total] for _ in range(8)]
    return [*vectors, [one - sum(column) for one, column in zip(total, zip(*vectors, strict=True), strict=True)]]


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
def test_the_total_is_pythons_up_to_the_limit_itself(limit: int):
    wanted = [limit, -limit, 0, 1, -1, limit // 3]
    scenario = Totals(limit=limit, vectors=spread(wanted, limit, 1))
    network = scenario.network()
    network.run()
    server = network.server
    assert len(server.agreement.ring.primes) == (2 if limit <= TWO_PRIMES else 3)
    assert server.epochs.solver.numbers == scenario.total() == wanted
    assert server.epoch == 1 and server.phase is Phase.FINISHED


@settings(max_examples=8)
@given(limit=st.integers(1, LARGEST), data=st.data())
def test_any_total_within_any_limit(limit: int, data: st.DataObject):
    wanted = data.draw(st.lists(st.integers(-limit, limit), min_size=1, max_size=4))
    scenario = Totals(limit=limit, vectors=spread(wanted, limit, data.draw(st.integers(0, 99))))
    network = scenario.network()
    network.run()
    assert network.server.epochs.solver.numbers == wanted


@pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_total_out_of_range_is_refused(limit: int, sign: int):
    scenario = Totals(limit=limit, vectors=spread([0, sign * (limit + 1)], limit, 2))
    network = scenario.network()
    message = f"a decoded total must stay within +-{limit}, got {limit + 1}: a corrupted answer, not used"
    with pytest.raises(RangeExceeded, match=exactly(message)):
        network.run()
    server = network.server
    assert server.model is None and server.phase is Phase.FINISHED


# -- who answers, and who does not


def test_one_answer_of_each_role_is_enough_whoever_gives_it():
    scenario = Totals(limit=LARGEST, vectors=spread([LARGEST, -5], LARGEST, 3))
    for seed in range(3):
        server = scenario.network(seed).server
        arrivals = first_of_each_role(server, np.random.default_rng(seed))
        run_in_process(server, [scenario.party(name, seed) for name in scenario.names], arrivals)
        assert server.epochs.solver.numbers == [LARGEST, -5]


@pytest.mark.parametrize("role", [0, 1])
def test_killed_holders_change_nothing_as_long_as_one_of_each_role_is_left(role: int):
    scenario = Totals(limit=LARGEST, vectors=spread([-LARGEST, 2**65], LARGEST, 4), helpers=("helper-0",))
    network = scenario.network()
    network.run_until(Kind.UPDATE)
    dead = holders_of(network.server, role)[1:]
    drive(network, lambda: dead)
    assert network.server.epochs.solver.numbers == scenario.total()


@pytest.mark.parametrize("role", [0, 1])
def test_without_any_holder_of_a_role_there_is_no_total(role: int):
    network = Totals().network()
    network.run_until(Kind.UPDATE)
    dead = holders_of(network.server, role)
    with pytest.raises(NotEnoughDevices, match="1 more needed") as caught:
        drive(network, lambda: dead)
    assert set(dead) <= set(caught.value.missing)
    assert network.server.model is None


@pytest.mark.parametrize("seed", range(6))
def test_owners_lost_on_the_way_leave_the_total_of_the_other_pods(seed: int):
    scenario = Totals(limit=LARGEST, vectors=spread([3, 2**66], LARGEST // 9, seed))
    network, lost = scenario.network(seed), random.Random(seed).sample(scenario.names, 2)
    drive(network, lambda: lost if network.server.phase is not Phase.JOINING else [])
    listed = network.server.sharing.owners.names
    assert set(listed) == set(scenario.names).difference(*map(scenario.pod_of, lost))
    assert network.server.epochs.solver.numbers == scenario.total(listed)


# -- states


@pytest.mark.parametrize("limit", [TWO_PRIMES, LARGEST])
def test_everybody_may_come_back_from_its_state_at_any_message(limit: int):
    scenario = Totals(limit=limit, vectors=spread([limit, -limit], limit, 5), helpers=("helper-0",))
    network, steps = scenario.network(), 0
    while links := network.pending():
        network.deliver(links[steps % len(links)])
        steps += 1
        if steps % 13 == 0:
            _restart_all(scenario, network)
    _restart_all(scenario, network)  # the total is in the state too
    assert network.server.epochs.solver.numbers == [limit, -limit]


def _restart_all(scenario: Totals, network: Network) -> None:
    server = Server(scenario.plan, TakesTotal(), identity=network.server.identity)
    server.restore(plain(network.server.state()))
    network.server = server
    for name, old in network.devices.items():
        used = {"contribution": None} if old.data_used else {}
        network.devices[name] = scenario.party(name, "later", **used)
        network.devices[name].restore(plain(old.state()))


# -- what such a run is


def test_no_product_is_answered_beside_the_total():
    network = Totals().network()
    network.run_until(Kind.UPDATE)
    ring = network.server.agreement.ring
    e = ring.pack(ring.from_integers(np.array([[1.0, 0.0, 0.0]])))
    data = from_server(network, Kind.UPDATE, Update(1, 0, e).encode())
    refused(network.devices["device-0"], data, "at most 1 different updates were agreed on, got one more")


@pytest.mark.parametrize("contribution", ["rows", "other length"])
def test_a_device_with_something_else_to_bring_does_not_take_part(contribution: str):
    scenario = Totals()
    other = PodScenario(d=1, c=3).contribution("device-0") if contribution == "rows" else WholeNumbers(4, on_ring([0]))
    device = scenario.party("device-0", contribution=other)
    (reply,) = map(Message.decode, wire(device.receive(scenario.network().server.invite().outgoing[0].data)))
    assert (reply.kind, reply.body.decode()) == (Kind.REFUSAL, DOES_NOT_TAKE_PART)
    assert device.objection == (
        "the run must be one of rows, got a total of whole numbers"
        if contribution == "rows"
        else "the run must be a total of 4 whole numbers, got another"
    )


def test_whole_numbers_are_not_brought_where_rows_are_wanted():
    scenario = PodScenario(d=1, c=3)
    device = scenario.party("device-0", contribution=WholeNumbers(3, on_ring([1, 2, 3])))
    device.receive(scenario.network().server.invite().outgoing[0].data)
    assert device.objection == "the run must be a total of 3 whole numbers, got another"


def test_numbers_that_could_not_be_made_may_be_made_when_the_keys_come_again():
    scenario, made = Totals(), [np.zeros((2, 4), dtype=np.float32), None]

    def make(ring: Ring) -> Planes:
        found = made.pop(0)
        return on_ring(scenario.vectors[0])(ring) if found is None else found

    network = scenario.network()
    network.run_until(Kind.ROLE_KEYS)
    device = scenario.party("device-0", contribution=WholeNumbers(3, make))
    device.restore(network.devices["device-0"].state())
    network.devices["device-0"] = device
    data = network.down["device-0"][0]
    message = "3 whole numbers must be made on the ring, got shape (2, 4)"
    with pytest.raises(InvalidInput, match=exactly(message)):
        device.receive(data)
    assert not device.data_used
    network.run()
    assert network.server.epochs.solver.numbers == scenario.total()


def test_parameters_of_totals_travel_and_keep_their_rules():
    parameters = Totals(limit=LARGEST).parameters
    assert Parameters.decode(parameters.encode()) == parameters
    assert not parameters.counts_rows and parameters.constant_length == 3 and parameters.directions == 0
    for change in ({"n_features": 2}, {"reveals_gram": True}):
        message = "a total of whole numbers must have one feature, no noise and no X'X, got another"
        with pytest.raises(InvalidInput, match=exactly(message)):
            replace(parameters, **change)
    for limit in (-1, 2**68):
        message = f"total_limit must be at least 0 and below 2^68, got {limit}"
        with pytest.raises(InvalidInput, match=exactly(message)):
            replace(parameters, total_limit=limit)


@pytest.mark.parametrize("field", [b"", bytes(8), bytes(10), b"\xff" * 9])
def test_a_limit_of_another_length_or_size_on_the_wire_is_refused(field: bytes):
    fields = unpack_list(Totals().parameters.encode(), "parameters")
    fields[17] = field
    with pytest.raises(MessageRefused, match=r"^parameters break a rule: total_limit must "):
        Parameters.decode(pack_list(fields))


@pytest.mark.parametrize("limit", [1, TWO_PRIMES - 1, TWO_PRIMES, TWO_PRIMES + 1, LARGEST])
def test_the_ring_has_room_for_eight_times_the_limit(limit: int):
    assert 8 * limit <= ring_of_totals(limit).modulus
