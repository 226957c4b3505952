"""Totals of several runs must not be combined to a few devices: what a device records and what it then refuses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.protocol import Ledger, Policy
from codedfl.protocol.ledger import Entry, row_tags, rows_as_bytes, rows_changed, smallest_new_remainder
from codedfl.protocol.local_data import Origin
from codedfl.protocol.schemes.coded_keys import KeysDevice, KeysServer
from codedfl.run.in_process import run_in_process
from scenario import Scenario, descent
from wording import exactly

ALICE = Identity(bytes([1]) * 32)
ROWS = np.arange(12.0).reshape(6, 2), np.arange(6.0)[:, None]


def devices(members: Iterable[int]) -> frozenset[bytes]:
    return frozenset(bytes([i]) for i in members)


EVERYBODY = range(1, 11)


def without(*left_out: int) -> frozenset[bytes]:
    return devices(set(EVERYBODY) - set(left_out))


@pytest.mark.parametrize(
    ("lists", "new", "most", "left"),
    [
        ([], devices([1, 2]), 2, 0),  # a small total by itself is another rule's business
        ([devices(EVERYBODY)], without(3), 2, 1),
        ([devices(EVERYBODY)], without(3, 4), 2, 2),
        ([devices(EVERYBODY)], without(3, 4), 1, 0),
        ([devices(EVERYBODY)], without(3, 4, 5), 2, 0),
        ([devices(EVERYBODY)], devices([*EVERYBODY, 11]), 2, 1),
        ([devices(EVERYBODY)], devices([1, 2]), 2, 0),
        # Three lists can do what two cannot: each leaves two devices of all, together they leave one.
        ([devices(EVERYBODY), without(1, 2), without(2, 3)], without(1, 3), 1, 1),
        ([devices(EVERYBODY), without(1, 2)], without(2, 3), 1, 0),
        ([without(1, 2), without(2, 3)], without(1, 3), 1, 0),
        # Halves of lists: {1..6} + {5..10} - {1..4, 7..10} is twice {5, 6}.
        ([devices(range(1, 7)), devices(range(5, 11))], devices([1, 2, 3, 4, 7, 8, 9, 10]), 2, 2),
        # What was possible before is not the new list's fault.
        ([devices(EVERYBODY), without(3)], devices(range(20, 30)), 2, 0),
    ],
)
def test_the_fewest_devices_that_totals_leave(
    lists: list[frozenset[bytes]], new: frozenset[bytes], most: int, left: int
):
    assert smallest_new_remainder(lists, new, most) == left


def entry(members: frozenset[bytes], run: int = 9, rows: bytes = b"r" * 8, limit: int = 100) -> Entry:
    return Entry(bytes([run]) * 32, members, b"", (1.0, 1.0, limit), rows)


def test_the_same_devices_may_train_again_on_the_same_rows():
    ledger = Ledger([entry(devices(EVERYBODY), run=1)])
    assert ledger.objection(entry(devices(EVERYBODY)), least_left=3, least_changed=10) == ""


def test_one_new_row_is_the_difference_of_two_totals():
    tags = row_tags(ALICE, rows_as_bytes(*ROWS))
    more = row_tags(ALICE, rows_as_bytes(np.vstack([ROWS[0], [[7.0, 7.0]]]), np.vstack([ROWS[1], [[1.0]]])))
    assert (rows_changed(tags, tags), rows_changed(tags, more)) == (0, 1)
    ledger = Ledger([entry(devices(EVERYBODY), run=1, rows=tags)])
    again = entry(devices(EVERYBODY), rows=more)
    assert ledger.objection(again, least_left=3, least_changed=1) == ""
    assert ledger.objection(again, least_left=3, least_changed=2) == (
        "the same devices trained together before and only 1 of our rows changed since: the difference of the two"
        " totals would be about those; at least 2 must change"
    )


def test_other_bounds_for_the_same_devices_are_refused_whatever_the_rows_are():
    """With limits of 100 and 99 rows the totals differ by one row of whoever has 100."""
    message = (
        "the same devices trained together before within other bounds (features, labels, rows of a device)"
        " (1.0, 1.0, 100), got (1.0, 1.0, 99): the difference of the two totals would be about the few rows or values"
        " between them; take the same bounds"
    )
    for changed in (b"r" * 8, b"s" * 8 * 50):
        ledger = Ledger([entry(devices(EVERYBODY), run=1)])
        again = entry(devices(EVERYBODY), rows=changed, limit=99)
        assert ledger.objection(again, least_left=3, least_changed=10) == message
    assert Ledger([again]).objection(entry(without(1, 2, 3)), least_left=3, least_changed=10) == ""


def test_row_tags_know_rows_and_not_their_order_and_nobody_else_can_make_them():
    shuffled = [2, 0, 1, 5, 4, 3]
    assert row_tags(ALICE, rows_as_bytes(*ROWS)) == row_tags(ALICE, rows_as_bytes(ROWS[0][shuffled], ROWS[1][shuffled]))
    assert row_tags(ALICE, rows_as_bytes(*ROWS)) != row_tags(Identity(bytes([2]) * 32), rows_as_bytes(*ROWS))


def test_a_ledger_comes_back_and_damage_is_noticed():
    ledger = Ledger([entry(devices(EVERYBODY), run=1), entry(without(1, 2, 3), run=2)])
    assert Ledger.decode(ledger.encode()).entries == ledger.entries
    for damaged in (b"", ledger.encode()[:-1], b"\x91\x01", b"\x91\x94\x01\x02\x03\x04"):
        with pytest.raises(InvalidInput, match=r"^the ledger must be as it was saved, got something else"):
            Ledger.decode(damaged)


def test_other_ranges_or_classes_for_the_same_devices_are_refused_whatever_the_rows_are():
    ledger = Ledger([replace(entry(devices(EVERYBODY), run=1), ranges=b"to 100")])
    assert ledger.objection(replace(entry(devices(EVERYBODY)), ranges=b"to 100"), least_left=3, least_changed=10) == ""
    message = (
        "the same devices trained together before with other ranges or classes: the difference of the two totals could"
        " be about the few values between them; take the same, or a study that the operators approve"
    )
    for rows in (b"r" * 8, bytes(range(200))):
        other = replace(entry(devices(EVERYBODY), rows=rows), ranges=b"to 101")
        assert ledger.objection(other, least_left=3, least_changed=10) == message


# -- in the machine


def trained(members: list[int], ledgers: dict[int, Ledger], scenario: Scenario) -> None:
    """One run with some of the scenario's devices, each with its own ledger and its long-term key."""
    names = [scenario.names[i] for i in members]
    policy = Policy(allow_gram=True, colluders=1)
    parties = [
        KeysDevice(
            scenario.names[i],
            *scenario.data[i],
            identity=Identity(bytes([i + 1]) * 32),
            policy=policy,
            ledger=ledgers.setdefault(i, Ledger()),
        )
        for i in members
    ]
    run_in_process(KeysServer(scenario.parameters, names, descent(2)), parties)


def scenario_of_seven() -> Scenario:
    return Scenario(
        sizes=(3, 2, 4, 2, 3, 2, 2), alpha=2, server_type=KeysServer, device_type=KeysDevice, public_samples=False
    )


def test_a_second_run_without_one_device_is_refused_and_a_failed_run_counts():
    scenario = scenario_of_seven()
    ledgers: dict[int, Ledger] = {}
    everybody = list(range(7))
    trained(everybody, ledgers, scenario)
    trained(everybody, ledgers, scenario)
    message = (
        "this device does not take part: totals of earlier runs and this one could be combined to 1 device(s) alone,"
        " and at least 3 must be left: train with the same devices as before, or with more new ones"
    )
    with pytest.raises(MessageRefused, match=exactly(message)):
        trained(everybody[:-1], ledgers, scenario)
    trained(everybody[:4], ledgers, scenario)  # three are left
    assert all(len(ledgers[i].entries) == (3 if i < 4 else 2) for i in everybody)


def test_without_a_ledger_the_second_run_goes_through():
    """What the ledger is for: the rule as it was (``experiments/attacks/two_runs.py`` reads the device off)."""
    scenario = scenario_of_seven()
    for members in (range(7), range(6)):
        names = [scenario.names[i] for i in members]
        run_in_process(KeysServer(scenario.parameters, names, descent(2)), [scenario.device(i) for i in members])


def test_another_recipe_does_not_make_the_same_rows_look_like_others():
    """One patient more, and features of another seed: the totals cannot be subtracted, those of linear ones could."""
    scenario = scenario_of_seven()
    raw = [tuple(bytes([i, row]) for row in range(len(X))) for i, (X, _) in enumerate(scenario.data)]
    ledgers = [Ledger() for _ in raw]

    def run(factor: float, origins: list[Origin]) -> None:
        parties = [
            KeysDevice(
                name,
                factor * X,
                Y,
                origin,
                identity=Identity(bytes([i + 1]) * 32),
                policy=Policy(allow_gram=True, colluders=1, least_changed_rows=2),
                ledger=ledgers[i],
            )
            for i, (name, (X, Y), origin) in enumerate(zip(scenario.names, scenario.data, origins, strict=True))
        ]
        run_in_process(KeysServer(scenario.parameters, scenario.names, descent(2)), parties)

    run(1.0, [Origin(rows) for rows in raw])
    run(0.5, [Origin(rows) for rows in raw])  # other features of the same rows
    one_more = [Origin((*rows, b"new") if i == 3 else rows) for i, rows in enumerate(raw)]
    message = (
        "this device does not take part: the same devices trained together before and only 1 of our rows changed since:"
        " the difference of the two totals would be about those; at least 2 must change"
    )
    with pytest.raises(MessageRefused, match=exactly(message)):
        run(0.25, one_more)
