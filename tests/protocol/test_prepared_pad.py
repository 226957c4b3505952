"""Pads made before the call: the same total, nothing to expand in the upload's turn, and never a second use."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from role_runs import scenario_of

from codedfl.protocol.contribution import OnRing
from codedfl.protocol.messages import Kind, Message
from codedfl.protocol.prepared_pad import PadLayout, PreparedPads, UploadPad
from codedfl.protocol.schemes.coded_keys import CODED_KEYS, ONE_SHOT
from codedfl.protocol.schemes.role_keys import ROLE_SUMS
from codedfl.solve.closed_form import ClosedForm
from expansions import counted_expansions
from scenario import Network, Scenario, changed, descent, repeatable

SHAPES: dict[str, tuple[Scenario, dict[str, Any]]] = {
    "role-keys": (scenario_of(sizes=(2, 1, 3, 1, 2, 1), d=5), {}),
    "role-keys, K = 3": (scenario_of(sizes=(2, 1, 3, 1, 2, 1), d=5), {"blocks": 3}),
    "role-keys, K = 2, 32 bits": (scenario_of(sizes=(2, 1, 3, 1, 2, 1), d=5, narrow=True), {"blocks": 2}),
    "role-keys, some hold": (scenario_of(sizes=(2, 1, 3, 1, 2, 1), d=5), {"holders": ("device-0", "device-3")}),
    "role-keys, z = 2": (scenario_of(sizes=(2, 1, 3, 1, 2, 1), d=5, colluders=2), {}),
    "role-sums": (scenario_of(sizes=(2, 1, 3, 1, 2, 1), d=5, scheme=ROLE_SUMS), {"blocks": 2}),
    "coded-keys": (Scenario(scheme=CODED_KEYS), {}),
    "one-shot": (Scenario(scheme=ONE_SHOT), {}),
}
ALL = pytest.mark.parametrize(("scenario", "dealt"), SHAPES.values(), ids=SHAPES)


def network_of(scenario: Scenario, dealt: dict[str, Any], shelves: list[PreparedPads] | None = None) -> Network:
    solver = ClosedForm(1e-3) if scenario.scheme.reveals_gram else descent(3)
    devices = [
        scenario.device(i, **{} if shelves is None else {"pads": shelves[i]}, **dealt)
        for i in range(scenario.n_devices)
    ]
    network = Network(scenario.server(solver, **dealt), devices)
    network.send(network.server.invite())
    return network


def layout_of(scenario: Scenario, dealt: dict[str, Any]) -> PadLayout:
    return PadLayout.expected(changed(scenario.plan, dealt)[0])


def prepared(scenario: Scenario, dealt: dict[str, Any]) -> list[PreparedPads]:
    shelves = [PreparedPads(repeatable(f"pads {i}")) for i in range(scenario.n_devices)]
    assert all(shelf.prepare(layout_of(scenario, dealt)) for shelf in shelves)
    assert not any(shelf.prepare(layout_of(scenario, dealt)) for shelf in shelves), "they are there"
    return shelves


@ALL
def test_the_layout_is_known_before_the_call(scenario: Scenario, dealt: dict[str, Any]):
    network = network_of(scenario, dealt)
    network.run_until(Kind.UPDATE)
    agreement = network.server.agreement
    assert agreement is not None
    assert PadLayout.of(agreement) == layout_of(scenario, dealt)


@ALL
def test_the_upload_s_turn_expands_nothing_and_the_total_is_the_same(scenario: Scenario, dealt: dict[str, Any]):
    spent: list[int] = []
    for shelves in (prepared(scenario, dealt), None):
        network = network_of(scenario, dealt, shelves)
        turns: dict[str, int] = {}
        with counted_expansions() as count:
            while network.pending():
                for link in network.pending():
                    before, (direction, name) = count.segments, link
                    network.deliver(link)
                    sent = [Message.decode(data).kind for data in network.up[name]] if direction == "down" else []
                    if Kind.SHARES in sent and name not in turns:
                        turns[name] = count.segments - before
        assert len(turns) == scenario.n_devices
        spent.append(max(turns.values()))
        solver = ClosedForm(1e-3) if scenario.scheme.reveals_gram else descent(3)
        assert np.array_equal(network.server.model, scenario.expected_models(solver)[-1])
    assert spent[0] == 0 < spent[1]


def test_a_pad_of_another_layout_is_left_alone():
    one, other = (layout_of(*SHAPES[name]) for name in ("role-keys", "role-keys, K = 3"))
    shelf = PreparedPads()
    shelf.prepare(one)
    fresh, kept = shelf.take(other), shelf.take(one)
    assert (fresh.layout, kept.layout) == (other, one)
    with counted_expansions() as count:
        shelf.take(one)
    assert count.segments, "it was spent"


def test_no_two_uploads_get_the_same_seeds():
    layout, shelf = layout_of(*SHAPES["role-keys"]), PreparedPads()
    drawn: list[bytes] = []
    for _ in range(4):
        shelf.prepare(layout)
        drawn += [*shelf.take(layout).seeds, *shelf.take(layout).seeds]
    assert len(set(drawn)) == len(drawn) == 16


def test_a_pad_cannot_be_used_twice():
    layout = layout_of(*SHAPES["role-keys"])
    pad, zeros = UploadPad(layout, [bytes(32), b"1" * 32]), layout.ring.zeros
    own = OnRing(lambda _all_rows: zeros(15), zeros(5 * 2 + 1))
    assert any(pad.padded(own))
    with pytest.raises(RuntimeError, match=r"^a pad must be used once, got a second upload for it$"):
        pad.padded(own)


def test_what_is_prepared_is_in_no_checkpoint():
    scenario, dealt = SHAPES["role-keys"]
    shelves = prepared(scenario, dealt)
    seeds = {shelf._pad.seeds[0] for shelf in shelves if shelf._pad is not None}
    network = network_of(scenario, dealt, shelves)
    network.run_until(Kind.ROLE_KEYS)
    assert len(seeds) == scenario.n_devices
    for device in network.devices.values():
        state = msgpack.packb(plain(device.state()))
        assert not any(seed in state for seed in seeds)


def plain(state: Any) -> Any:
    """Arrays as bytes."""
    if isinstance(state, dict):
        return {str(name): plain(value) for name, value in state.items()}
    if isinstance(state, list | tuple | set | frozenset):
        return [plain(one) for one in state]
    return state.tobytes() if isinstance(state, np.ndarray) else state


def test_a_device_that_was_set_back_uploads_under_fresh_seeds():
    """Before its upload its disk knew nothing of the pad, and its memory has none any more."""
    scenario, dealt = SHAPES["role-keys"]
    shelves = prepared(scenario, dealt)
    network = network_of(scenario, dealt, shelves)
    network.run_until(Kind.ROLE_KEYS)
    device, keys = network.devices["device-0"], network.down["device-0"][0]
    before = device.state()
    uploads = [device.receive(keys)]
    again = scenario.device(0, identity=device.identity, pads=shelves[0])
    again.restore(before)
    uploads.append(again.receive(keys))
    one, two = (next(out.message for out in turn.outgoing if out.kind is Kind.SHARES) for turn in uploads)
    assert one.body != two.body
    same = sum(a == b for a, b in zip(one.attachment, two.attachment, strict=True))
    assert same < len(one.attachment) / 10, "the same table under the same pad would be the same bytes"
