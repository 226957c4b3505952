"""Parameters and the frozen participant set: what is agreed, hashed, and refused."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl.crypto.sealed import Identity
from codedfl.errors import InvalidInput, MessageRefused
from codedfl.exact.fixed_point import Bounds
from codedfl.protocol import Agreement, Parameters
from scenario import Scenario, names_of

BOUNDS = Bounds(1.0, 2.0, 100, 40)
PARAMETERS = Parameters("coded-padded", 3, 4, 2, BOUNDS)
RUN = bytes(range(16))
MEMBERS = {name: Identity(bytes([i]) * 32).public for i, name in enumerate(names_of(5), start=1)}
SERVER_PUBLIC = Identity(bytes([99]) * 32).public


def exactly(message: str) -> str:
    return f"^{re.escape(message)}$"


def frozen(parameters: Parameters = PARAMETERS, initial: np.ndarray | None = None) -> Agreement:
    return Agreement.freeze(parameters, RUN, SERVER_PUBLIC, MEMBERS, initial)


# -- parameters


@pytest.mark.parametrize("precision", [None, 30])
@pytest.mark.parametrize("samples", [None, 60])
@pytest.mark.parametrize("masks", [True, False])
def test_parameters_come_back(precision: int | None, samples: int | None, masks: bool):
    parameters = replace(PARAMETERS, precision=precision, samples=samples, masks=masks)
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
        assert (again.names, again.publics) == (tuple(MEMBERS), tuple(MEMBERS.values()))
        assert again.parameters == PARAMETERS
        assert np.array_equal(again.initial_model, agreement.initial_model)
        assert again.fixed_point == agreement.fixed_point


def test_all_parts_are_in_the_hash():
    base = frozen()
    swapped = dict(reversed(MEMBERS.items()))
    other_key = MEMBERS | {"device-2": Identity(bytes([77]) * 32).public}
    fewer = dict(list(MEMBERS.items())[:4])
    others = [
        frozen(initial=np.full((4, 2), 0.5)),
        frozen(replace(PARAMETERS, alpha=2)),
        frozen(replace(PARAMETERS, masks=False)),
        frozen(replace(PARAMETERS, bounds=Bounds(1.0, 2.0, 101, 40))),
        Agreement.freeze(PARAMETERS, bytes(16), SERVER_PUBLIC, MEMBERS),
        Agreement.freeze(PARAMETERS, RUN, bytes(64), MEMBERS),
        *(Agreement.freeze(PARAMETERS, RUN, SERVER_PUBLIC, members) for members in (swapped, other_key, fewer)),
    ]
    assert len({agreement.hash for agreement in [base, *others]}) == 1 + len(others)


def test_members_keep_their_order_and_keys():
    agreement = frozen()
    assert [agreement.position(name) for name in MEMBERS] == [0, 1, 2, 3, 4]
    assert agreement.public_of("device-3") == MEMBERS["device-3"]
    with pytest.raises(MessageRefused, match=exactly("the device must be one of the 5 of this run, got 'mallory'")):
        agreement.position("mallory")


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


@pytest.mark.parametrize(
    ("index", "value", "message"),
    [
        (1, b"run", "a run id must have 16 bytes, got 3"),
        (2, bytes(63), "a public key must have 64 bytes, got another length"),
        (3, [["a", bytes(64)], ["a", bytes(64)]], "an agreement must name each device once, got ['a', 'a']"),
        (3, [["", bytes(64)], ["b", bytes(64)]], "an agreement must name each device once, got ['', 'b']"),
        (3, [["a", bytes(64)], ["b", bytes(63)]], "a public key must have 64 bytes, got another length"),
        (3, [["a"], ["b"]], "an agreement's member must have 2 fields, got 1"),
        (3, [["a", "b"], ["c", "d"]], "an agreement's member must have a field of type bytes, got str"),
        (3, [5, 6], "an agreement's member must be a list, got int"),
        (3, ["ab", "cd"], "an agreement's member must be a list, got str"),
        (3, [], "the agreement breaks a rule: the number of devices must be at least 2, got 0"),
        (3, [["a", bytes(64)]], "the agreement breaks a rule: the number of devices must be at least 2, got 1"),
        (4, bytes(8), "the initial model must have 8 numbers, got 8 bytes"),
        (
            4,
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


def test_a_name_too_long_in_bytes_is_refused():
    name = "é" * 33
    fields = fields_of(frozen())
    fields[3] = [[name, bytes(64)], ["b", bytes(64)]]
    with pytest.raises(MessageRefused, match=exactly(f"an agreement must name each device once, got {[name, 'b']!r}")):
        Agreement.decode(msgpack.packb(fields))


def test_an_alpha_above_the_number_of_devices_is_refused_by_both_sides():
    rule = "alpha must be between 1 and the number of devices (5), got 6"
    with pytest.raises(InvalidInput, match=exactly(rule)):
        frozen(replace(PARAMETERS, alpha=6))
    fields = fields_of(frozen())
    fields[0] = replace(PARAMETERS, alpha=6).encode()
    with pytest.raises(MessageRefused, match=exactly(f"the agreement breaks a rule: {rule}")):
        Agreement.decode(msgpack.packb(fields))
