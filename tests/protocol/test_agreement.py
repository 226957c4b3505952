"""Parameters and the frozen participant set: what is agreed, hashed, and refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.row_noise import RowNoise
from codedfl.exact.scales import Bounds
from codedfl.protocol.agreement import Agreement, Invitation, Parameters, seated
from scenario import Scenario, joined, names_of
from wording import exactly

BOUNDS = Bounds(1.0, 2.0, 100, 40)
PARAMETERS = Parameters("coded-padded", 3, 4, 2, BOUNDS)
RUN = bytes(range(16))
SERVER_PUBLIC, SERVER_KEY = (Identity(bytes([99]) * 32).public, bytes([9]) * 32)


def invited_to(parameters: Parameters = PARAMETERS, run: bytes = RUN, server: bytes = SERVER_PUBLIC) -> Invitation:
    return Invitation(run, server, SERVER_KEY, parameters)


def frozen(
    parameters: Parameters = PARAMETERS, initial: np.ndarray | None = None, names: Sequence[str] = names_of(5)
) -> Agreement:
    invitation = invited_to(parameters)
    return Agreement.freeze(invitation, [joined(invitation, name) for name in names], initial)


# -- parameters


@pytest.mark.parametrize("precision", [None, 30])
@pytest.mark.parametrize("samples", [None, 60])
@pytest.mark.parametrize("masks", [True, False])
def test_parameters_come_back(precision: int | None, samples: int | None, masks: bool):
    parameters = replace(PARAMETERS, precision=precision, samples=samples, masks=masks, narrow=precision is None)
    assert Parameters.decode(parameters.encode()) == parameters


def test_parameters_of_all_kinds_of_numbers_come_back_exactly():
    parameters = replace(PARAMETERS, bounds=Bounds(math.sqrt(2 / 2000), 1, 10**9, 10**6))
    assert Parameters.decode(parameters.encode()) == parameters


def test_masks_are_on_by_default():
    assert PARAMETERS.masks is True


def test_lengths_count_the_numbers_that_travel():
    assert PARAMETERS.triangle_length == 4 * 5 // 2
    assert replace(PARAMETERS, samples=60).constant_length == 4 * 2
    assert PARAMETERS.constant_length == 4 * 2 + 1  # and the sample count


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_features": 0}, "n_features must be at least 1, got 0"),
        ({"n_outputs": 0}, "n_outputs must be at least 1, got 0"),
        ({"alpha": 0}, "alpha must be at least 1, got 0"),
        ({"samples": 0}, "samples must be between 1 and bounds.samples (100), got 0"),
        ({"samples": 101}, "samples must be between 1 and bounds.samples (100), got 101"),
        ({"precision": 0}, "precision must be at least 1 fraction bit, got 0"),
        ({"precision": -1}, "precision must be at least 1 fraction bit, got -1"),
        ({"epochs": 0}, "epochs must be between 1 and 10000, got 0"),
        (
            {"narrow": True, "precision": 20},
            "narrow must be off for whole numbers and where precision is asked for, got both",
        ),
        (
            {"narrow": True, "total_limit": 9, "n_features": 1},
            "narrow must be off for whole numbers and where precision is asked for, got both",
        ),
        (
            {"narrow": True, "noise": RowNoise(3.0, 4, 1.0)},
            "narrow must be off with noise where products follow: X'X then takes 18 bits, got both",
        ),
        ({"recipe": b"short"}, "recipe must be a digest of 32 bytes or empty, got 5 bytes"),
    ],
)
def test_parameters_are_checked(change: dict, message: str):
    with pytest.raises(InvalidInput, match=exactly(message)):
        replace(PARAMETERS, **change)


def packed_with(index: int, value: object) -> bytes:
    fields = msgpack.unpackb(PARAMETERS.encode())
    fields[index] = value
    return msgpack.packb(fields)


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (1, 0, "parameters break a rule: alpha must be at least 1, got 0"),
        (2, 0, "parameters break a rule: n_features must be at least 1, got 0"),
        (4, math.nan, "parameters break a rule: bounds.features must be a positive finite number, got nan"),
        (4, 1, "parameters must have a field of type float, got int"),
        (6, 0, "parameters break a rule: bounds.samples must be at least 1, got 0"),
        (9, 101, "parameters break a rule: samples must be between 1 and bounds.samples (100), got 101"),
        (10, 1, "parameters must have a field of type bool, got int"),
    ],
)
def test_bad_parameters_on_the_wire_are_refused(index: int, value: object, message: str):
    with pytest.raises(MessageRefused, match=exactly(message)):
        Parameters.decode(packed_with(index, value))


# -- freezing


def test_an_agreement_comes_back():
    theta = np.array([[0.5, -1.25], [3.0, 0.0], [0.0, 0.125], [-2.0, 7.5]])
    for agreement in (frozen(), frozen(initial=theta)):
        again = Agreement.decode(agreement.encoded)
        assert again.encoded == agreement.encoded
        assert again.hash == agreement.hash
        assert again.members == agreement.members
        assert set(again.names) == set(names_of(5))
        assert again.parameters == PARAMETERS
        assert np.array_equal(again.initial_model, agreement.initial_model)
        assert again.fixed_point == agreement.fixed_point


def test_all_parts_are_in_the_hash():
    base, invitation = frozen(), invited_to()
    members = [joined(invitation, name) for name in names_of(5)]
    other_key = [*members[:4], joined(invitation, "device-4", "another key")]
    elsewhere = [invited_to(run=bytes(16)), invited_to(server=bytes(32))]
    others = [
        frozen(initial=np.full((4, 2), 0.5)),
        frozen(replace(PARAMETERS, alpha=2)),
        frozen(replace(PARAMETERS, masks=False)),
        frozen(replace(PARAMETERS, epochs=7)),
        frozen(replace(PARAMETERS, recipe=bytes(32))),
        frozen(replace(PARAMETERS, bounds=Bounds(1.0, 2.0, 101, 40))),
        *(Agreement.freeze(other, [joined(other, name) for name in names_of(5)]) for other in elsewhere),
        *(Agreement.freeze(invitation, those) for those in (other_key, members[:4])),
    ]
    assert len({agreement.hash for agreement in [base, *others]}) == 1 + len(others)


def test_members_have_their_positions_and_keys():
    agreement = frozen()
    for position, member in enumerate(agreement.members):
        assert agreement.position(member.name) == position
        assert agreement.member(member.name) == joined(invited_to(), member.name)
    with pytest.raises(MessageRefused, match=exactly("the device must be one of the 5 of this run, got 'mallory'")):
        agreement.position("mallory")


def test_places_come_from_everybodys_run_keys_and_not_from_the_server():
    invitation = invited_to()
    members = [joined(invitation, name) for name in names_of(5)]
    orders = {Agreement.freeze(invitation, order).names for order in itertools.permutations(members)}
    assert len(orders) == 1, "the server's order does not matter"
    redrawn = [*members[:4], joined(invitation, "device-4", "redrawn")]
    assert Agreement.freeze(invitation, redrawn).names[:4] != Agreement.freeze(invitation, members).names[:4]


def test_groups_are_the_servers_choice_and_places_within_them_are_drawn():
    parameters = replace(PARAMETERS, alpha=2, groups=2)
    invitation = invited_to(parameters)
    members = [joined(invitation, name) for name in names_of(6)]
    agreement = Agreement.freeze(invitation, members)
    for group in (0, 1):
        assert set(agreement.members[group::2]) == set(members[group::2])
    assert Agreement.decode(agreement.encoded).members == agreement.members
    swapped = list(agreement.members)
    swapped[0], swapped[2] = swapped[2], swapped[0]
    message = "places within a group must be those that the run keys draw, got others"
    with pytest.raises(MessageRefused, match=exactly(message)):
        Agreement.decode(replace(agreement, members=tuple(swapped)).encoded)


def test_a_member_that_did_not_sign_for_this_very_invitation_is_refused():
    """A server cannot carry a join over to other parameters, keys or runs, nor put in a key of its own."""
    agreement = frozen()
    elsewhere = [invited_to(replace(PARAMETERS, alpha=2)), invited_to(run=bytes(16)), invited_to(server=bytes(32))]
    first = agreement.members[0]
    own_key = replace(first, run_key=bytes([7]) * 32)
    lies = [
        *(replace(agreement, invitation=other) for other in elsewhere),
        replace(agreement, members=seated((own_key, *agreement.members[1:]), RUN, 1)),
    ]
    for lie in lies:
        with pytest.raises(MessageRefused, match=r"^(the signature must be by key|places within a group)"):
            Agreement.decode(lie.encoded)


def test_what_follows_is_for_these_devices():
    agreement = frozen()
    assert (agreement.n_devices, agreement.code.n_devices, agreement.code.alpha) == (5, 5, 3)
    assert all(p % 5 == 1 for p in agreement.fixed_point.ring.primes)


def test_an_initial_model_of_the_wrong_shape_is_refused():
    with pytest.raises(InvalidInput, match=exactly("the initial model must have shape (4, 2), got (2, 4)")):
        frozen(initial=np.zeros((2, 4)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_initial_model_that_is_not_finite_is_refused(value: float):
    with pytest.raises(InvalidInput, match=exactly("the initial model must be finite, got NaN or infinity")):
        frozen(initial=np.full((4, 2), value))


@given(theta=st.lists(st.one_of(st.floats(-10, 10), st.floats(-1e15, 1e15)), min_size=8, max_size=8))
def test_the_initial_model_is_on_the_grid_that_everybody_derives(theta: list[float]):
    """The solver starts from ``initial_model``, devices multiply by ``initial_integers``: they must be the same."""
    on_their_grid(frozen(initial=np.array(theta).reshape(4, 2)))


def on_their_grid(agreement: Agreement) -> None:
    format_ = agreement.fixed_point
    integers = np.ldexp(agreement.initial_integers, format_.gram_bits - format_.constant_bits)
    assert np.array_equal(integers, agreement.initial_model)
    assert np.array_equal(Agreement.decode(agreement.encoded).initial_integers, agreement.initial_integers)


@pytest.mark.parametrize("n_devices", [2, 3, 5, 7])
@pytest.mark.parametrize("bits", range(22, 34))
def test_rounding_the_initial_model_up_may_cost_the_constant_a_bit_and_it_is_still_on_the_grid(
    n_devices: int, bits: int
):
    """The column norm just fits ``bits`` fraction bits of G^(1) before rounding, and maybe not after it."""
    scenario = Scenario(sizes=(4,) * n_devices, alpha=1, d=2, c=1)
    modulus = scenario.agreement().fixed_point.ring.modulus
    norm = Fraction(modulus, 8) / (2 * 4 * n_devices * 2**bits) - 1
    theta = float(norm)
    while Fraction(theta) > norm:
        theta = math.nextafter(theta, 0)
    scenario.initial = np.array([[theta], [0.0]])
    on_their_grid(scenario.agreement())


def test_an_initial_model_takes_part_of_the_room_for_the_constant():
    assert frozen(initial=np.full((4, 2), 100.0)).fixed_point.constant_bits < frozen().fixed_point.constant_bits


# -- refused on the wire


def fields_of(agreement: Agreement) -> list:
    return msgpack.unpackb(agreement.encoded)


A, B = ([name, bytes([i]) * 32, bytes(32), bytes(64)] for i, name in enumerate("ab"))


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (0, b"run", "a run id must have 16 bytes, got 3"),
        (1, b"\x90", "an invitation must have 3 fields, got 0"),
        (2, [A, ["a", *B[1:]]], "an agreement must name each device once, got ['a', 'a']"),
        (2, [["", *A[1:]], B], "an agreement must name each device once, got ['', 'b']"),
        (2, [["é" * 33, *A[1:]], B], f"an agreement must name each device once, got {['é' * 33, 'b']!r}"),
        (2, [A, ["b", *A[1:]]], "every device of an agreement must have a key of its own, got one key twice"),
        (
            2,
            [A, [*B[:3], bytes(63)]],
            "an agreement's member must have whole keys and signature, got another length",
        ),
        (2, [["a"], ["b"]], "an agreement's member must have 4 fields, got 1"),
        (2, [["a", "b", "c", "d"]], "an agreement's member must have a field of type bytes, got str"),
        (2, [5, 6], "an agreement's member must be a list, got int"),
        (2, [], "the agreement breaks a rule: the number of devices must be at least 2, got 0"),
        (2, [A], "the agreement breaks a rule: the number of devices must be at least 2, got 1"),
        (3, bytes(8), "the initial model must have 8 numbers, got 8 bytes"),
        (
            3,
            np.full(8, np.nan).tobytes(),
            "the agreement breaks a rule: the initial model must be finite, got NaN or infinity",
        ),
    ],
)
def test_a_bad_agreement_is_refused(index: int, value: object, message: str):
    fields = fields_of(frozen())
    fields[index] = value
    with pytest.raises(MessageRefused, match=exactly(message)):
        Agreement.decode(msgpack.packb(fields))


def test_an_alpha_above_the_number_of_devices_is_refused_by_both_sides():
    rule = "alpha must be between 1 and the number of devices (5), got 6"
    with pytest.raises(InvalidInput, match=exactly(rule)):
        frozen(replace(PARAMETERS, alpha=6))
    fields = fields_of(frozen())
    fields[1] = invited_to(replace(PARAMETERS, alpha=6)).encoded
    with pytest.raises(MessageRefused, match=exactly(f"the agreement breaks a rule: {rule}")):
        Agreement.decode(msgpack.packb(fields))
