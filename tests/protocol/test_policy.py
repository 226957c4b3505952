"""A device judges an invitation by its operator's policy: every rule, its words, and that rows have no part in it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fixed_point import Bounds
from codedfl.protocol import Parameters, Policy
from codedfl.protocol.messages import Kind, Message, Update
from scenario import Network, Scenario
from wording import exactly

PARAMETERS = Parameters("coded-keys", 3, 20, 2, Bounds(1.0, 1.0, 100, 40), epochs=6)


def test_what_a_policy_allows_it_does_not_object_to():
    assert Policy().objection(PARAMETERS) == ""
    assert Policy(("coded-keys",), 5, 4, 3, 40, 6, 2, 10).objection(PARAMETERS) == ""


@pytest.mark.parametrize(
    ("policy", "changes", "message"),
    [
        ({"schemes": ("a", "b")}, {}, "scheme must be one of a, b by this device's policy, got 'coded-keys'"),
        ({}, {"masks": False}, "masks must be on by this device's policy, got off"),
        ({"least_rows": 41}, {}, "bounds.samples_per_device must be at least 41 by this device's policy, got 40"),
        ({"most_alpha": 2}, {}, "alpha must be at most 2 by this device's policy, got 3"),
        ({"most_epochs": 5}, {}, "epochs must be at most 5 by this device's policy, got 6"),
        ({"most_outputs": 1}, {}, "n_outputs must be at most 1 by this device's policy, got 2"),
        ({"most_directions": 9}, {}, "n_outputs times (epochs - 1) must be at most 9 by this device's policy, got 10"),
        (
            {},
            {"epochs": 11},
            "the server must not learn the whole total of X'X by this device's policy, got 20 of 20 directions of X'X"
            " shown: fewer epochs or outputs, or allow-gram",
        ),
        (
            {},
            {"reveals_gram": True},
            "the server must not learn the whole total of X'X by this device's policy, got X'X itself shown: fewer"
            " epochs or outputs, or allow-gram",
        ),
    ],
)
def test_each_rule_names_itself_its_limit_and_what_came(policy: dict[str, Any], changes: dict[str, Any], message: str):
    assert Policy(**policy).objection(replace(PARAMETERS, **changes)) == message


def test_gram_matrices_are_shown_where_the_operator_allows_it():
    assert Policy(allow_gram=True).objection(replace(PARAMETERS, epochs=100, reveals_gram=True)) == ""


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"least_joiners": 1}, "least_joiners must be at least 2: the total of one device is its own data, got 1"),
        ({"least_owners": 0}, "least_owners must be at least 2: the total of one device is its own data, got 0"),
        ({"most_epochs": 0}, "most_epochs must be at least 1, got 0"),
        ({"colluders": -1}, "colluders must be at least 0, got -1"),
    ],
)
def test_a_policy_that_protects_nobody_is_refused(limits: dict[str, Any], message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        Policy(**limits)


@pytest.mark.parametrize(("joiners", "pinned", "wanted"), [(None, None, 2), (None, 7, 7), (4, 7, 4), (4, None, 4)])
def test_all_of_a_roster_must_join_unless_told_otherwise(joiners: int | None, pinned: int | None, wanted: int):
    assert Policy(least_joiners=joiners).joiners_wanted(pinned) == wanted


def test_no_more_updates_are_answered_than_were_agreed_on(ready: Network):
    """The identity in many small pieces would read the whole total Gram matrix."""
    device, server = ready.devices["device-0"], ready.server
    most = server.agreement.parameters.epochs
    assert most == 4  # the solver's, not the server's wish
    ring = server.agreement.fixed_point.ring

    def update(epoch: int, place: int) -> bytes:
        e = np.zeros((4, 2))
        e.flat[place] = 1
        packed = ring.pack(ring.from_integers(e)) if place else b""
        body = Update(epoch, 0, packed).encode()
        message = Message(Kind.UPDATE, server.run, server.agreement.hash, "", "", body)
        return message.signed_by(server.identity).encode()

    for epoch in range(1, most + 1):
        device.receive(update(epoch, epoch - 1))
    device.receive(update(most + 1, 2))  # a question once more, as when an epoch is confirmed, shows nothing new
    with pytest.raises(MessageRefused, match=exactly("at most 4 different updates were agreed on, got one more")):
        device.receive(update(most + 2, 7))


def test_a_bisecting_server_learns_nothing_of_the_rows():
    """Bounds and row limits of every size get the same answer; so do they whatever the rows are."""
    scenario = Scenario()
    loud = Scenario()
    loud.data = [(np.ones_like(X), np.ones_like(Y)) for X, Y in scenario.data]
    for bounds in (Bounds(1e-6, 1.0, 4, 1), Bounds(1.0, 1e-6, 14, 5), Bounds(0.3, 0.3, 9, 2), Bounds(9.0, 9.0, 99, 50)):
        kinds = set()
        for data in (scenario, loud):
            server = replace(data, bounds=bounds, public_samples=False).server()
            device = data.device(0)
            kinds |= {Message.decode(reply).kind for reply in device.receive(server.invite()[0].data)}
        assert kinds == {Kind.JOIN}
