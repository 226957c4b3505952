"""The stand-in for the ring is the ring: the machines on it end with the model that plain integers give."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import role_lies  # noqa: F401 (its schemes)
from adversary import SCHEMES, Adversary, world
from stage import Stage
from symbolic_ring import Form, SymbolicRing, Unknowns

from codedfl.code import masks
from codedfl.crypto import pads, sealed
from codedfl.errors import MessageRefused
from codedfl.exact.fixed_point import FixedPoint
from codedfl.exact.ring import Ring
from codedfl.exact.row_noise import RowNoise
from codedfl.protocol import agreement, contribution
from codedfl.protocol.server_session import Phase
from codedfl.solve.closed_form import ClosedForm
from scenario import descent

PRIMES = Ring.for_group_sizes([4]).primes


def ring_of(unknowns: Unknowns) -> SymbolicRing:
    return SymbolicRing(PRIMES, unknowns=unknowns, owner=lambda: None)


def trained(adversary: Adversary) -> np.ndarray:
    face = adversary.face()
    face.keeps_back = ()
    face.invite()
    face.deliver_all()
    assert face.server.phase is Phase.FINISHED
    return face.server.model


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("alpha", "groups", "precision"), [(1, 1, None), (2, 2, None), (3, 1, 40)])
def test_a_training_on_forms_gives_the_model_of_plain_integers(
    scheme: str, alpha: int, groups: int, precision: int | None
):
    """What the forms say is what the machines compute: every value of every unknown is the real one."""
    initial = np.array([[0.5], [-0.25]])
    with Stage() as stage:
        options: dict[str, Any] = {"alpha": alpha, "groups": groups, "precision": precision, "initial": initial}
        adversary = world(stage, scheme, laboratory=True, **options)
        model = trained(adversary)
    scenario = adversary.scenario
    solver = ClosedForm(1e-3) if scenario.scheme.reveals_gram else descent()
    assert np.array_equal(model, scenario.expected_models(solver)[-1])
    assert len(scenario.agreement().fixed_point.ring.primes) == (2 if precision is None else 3)


def rows_apart(stage: Stage) -> set[str]:
    """Whose unknowns there are after a run, one row more at device-2, and another run."""
    adversary = world(stage, laboratory=True)
    adversary.whole_run()
    X, Y = adversary.parties[2].rows
    adversary.parties[2].change_rows(np.vstack([X, X[:1] / 2]), np.vstack([Y, Y[:1]]))
    adversary.whole_run()
    return {name for name, _, _ in stage.unknowns.data if name.startswith("device-2")}


def test_other_rows_are_other_unknowns_and_the_same_rows_the_same():
    with Stage() as stage:
        assert rows_apart(stage) == {"device-2", "device-2@2"}
    with Stage(by_rows=True) as stage:
        assert rows_apart(stage) == {"device-2/1", "device-2/2", "device-2/3"}


def test_noise_makes_other_unknowns_and_the_same_noise_the_same():
    with Stage() as stage:
        adversary = world(stage, "role-sums", [2] * 4, 1, z=1, noise=RowNoise(1.0, 2, 1.0))
        for _ in range(2):
            adversary.whole_run()
        assert len(adversary.knowledge().fewest_devices()) == 4
        assert {name for name, _, _ in adversary.knowledge().coordinates if name.startswith("device-2 ")} == {
            "device-2 with noise 2"
        }


def test_whole_numbers_are_unknowns():
    with Stage() as stage:
        adversary = world(stage, "role-keys", [2] * 4, 1, z=1, d=1, c=3, total_limit=1000)
        adversary.whole_run()
        assert adversary.leak() is None
        found = adversary.knowledge()
    assert {(kind, index) for _, kind, index in found.coordinates} == {("numbers", 0), ("numbers", 1), ("numbers", 2)}
    assert [len(found.functionals(prime)) for prime in found.primes] == [3, 3]


def test_the_stage_leaves_everything_as_it_was():
    places = [(pads, "expand"), (pads, "add_expanded"), (masks, "add_expanded"), (sealed, "seal")]
    places += [(agreement, "ring_of_totals"), (contribution, "add_noise")]
    before = [getattr(module, name) for module, name in places]
    derive, identity = FixedPoint.__dict__["derive"], sealed.Identity.__init__
    with Stage():
        assert all(getattr(module, name) is not old for (module, name), old in zip(places, before, strict=True))
    assert [getattr(module, name) for module, name in places] == before
    assert FixedPoint.__dict__["derive"] is derive
    assert sealed.Identity.__init__ is identity


def test_no_method_of_the_ring_that_touches_numbers_is_forgotten():
    """A new method of ``Ring`` would otherwise compute with residues behind the harness's back."""
    without_numbers = {"for_group_sizes", "modulus", "bytes_per_number", "check_packed_length"}
    public = {name for name in vars(Ring) if not name.startswith("_")} - {"primes"}
    assert public - without_numbers <= set(vars(SymbolicRing))


@pytest.mark.parametrize("name", ["add", "add_scaled", "add_scaled_packed", "product", "symmetric", "pack", "unpack"])
def test_methods_take_what_the_rings_take(name: str):
    real, symbolic = (list(inspect.signature(getattr(kind, name)).parameters) for kind in (Ring, SymbolicRing))
    assert real == symbolic


def test_arithmetic_on_constants_is_that_of_the_ring():
    rng, real, symbolic = np.random.default_rng(0), Ring(PRIMES), ring_of(Unknowns())
    a, b = (rng.integers(-(2**40), 2**40, shape).astype(float) for shape in ((3, 3), (3, 2)))
    left = real.product(real.from_integers(a), real.from_integers(b))
    right = symbolic.product(symbolic.from_integers(a), symbolic.from_integers(b))
    assert np.array_equal(left, right.astype(np.float64))
    assert np.array_equal(real.to_integers(left), symbolic.to_integers(right))
    total = symbolic.zeros(6)
    symbolic.add_scaled_packed(total, [[3], [5]], [symbolic.pack(right)])
    expected = real.zeros(6)
    real.add_scaled(expected, [[3], [5]], [left.reshape(2, -1)])
    assert np.array_equal(total.astype(np.float64), expected)
    triangle = symbolic.from_integers(np.arange(6.0))
    assert np.array_equal(symbolic.symmetric(triangle, 3)[0].astype(float), [[0, 1, 2], [1, 3, 4], [2, 4, 5]])


def test_forms_travel_as_24_bits_a_residue():
    symbolic = ring_of(Unknowns())
    stream = symbolic.expand(bytes(32), "label", 3)
    packed = symbolic.pack(stream)
    assert len(packed) == 3 * symbolic.bytes_per_number
    assert [form.terms for form in symbolic.unpack(packed, 3).flat] == [form.terms for form in stream.flat]
    assert packed == symbolic.pack(symbolic.expand(bytes(32), "label", 3))
    with pytest.raises(MessageRefused, match=r"^3 ring numbers must take 18 bytes, got 17$"):
        symbolic.unpack(packed[:-1], 3)
    with pytest.raises(MessageRefused, match=r"^ring numbers must be residues below \d+, got a larger one$"):
        symbolic.unpack(bytes(18), 3)


def test_streams_differ_by_seed_label_plane_and_place():
    symbolic = ring_of(Unknowns())
    one = (bytes(32), "label")
    others = [(b"\x01" * 32, one[1]), (one[0], "other")]
    found = {unknown for names in (one, *others) for form in symbolic.expand(*names, 2).flat for unknown in form.terms}
    assert len(found) == 3 * 2 * 2
    assert np.array_equal(symbolic.expand(*one, 2).astype(float), pads.expand(Ring(PRIMES), *one, 2))


def test_what_is_not_linear_is_refused():
    symbolic = ring_of(Unknowns())
    stream = symbolic.expand(bytes(32), "label", 1).reshape(2, 1, 1)
    with pytest.raises(TypeError, match="a number without unknowns is wanted here"):
        symbolic.product(stream, stream)


def test_a_form_says_what_it_is():
    assert repr(Form(7, {})) == "0"
    with Stage() as stage:
        adversary = world(stage)
        adversary.started()
        (name,) = {name for name in stage.unknowns.data if name[:2] == ("device-1", "rows")}
    assert name == ("device-1", "rows", 0)
