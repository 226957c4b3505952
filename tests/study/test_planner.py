"""The planner: what it recommends, what it leaves out and why, and that its times are the simulator's."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl.solve.krylov import ConjugateGradient
from codedfl_lab import datasets
from codedfl_lab.comparing.names import full_name, name_in_sentence
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.planning.planner import Limits, Planning, Search, plan
from codedfl_lab.problems.problem import make_problem
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.registry import coded_scheme
from small_problems import digits, totals

PAPER = Fleet.load("paper").scaled_to(10)
TARGET = 0.9
D = 200


def planned(fleet: Fleet = PAPER, limits: Limits | None = None, **options) -> Planning:
    at = Conditions(fleet, "multicast")
    return plan(totals(n_features=D), at, TARGET, limits, Search(regularisation=1e-4, **({"draws": 60} | options)))


@pytest.fixture(scope="module")
def paper_plan() -> Planning:
    return planned()


def test_on_the_papers_fleet_role_keys_win(paper_plan):
    best = paper_plan.best
    assert best.scheme == "role-keys"
    assert best.server_sees == "the total only"
    assert best.parameters == {"z": 1, "holders": 0, "blocks": 1, "reserve": 0, "spare": 0, "narrow": True}
    assert "any 4 of the devices may fail" in paper_plan.why()
    assert (best.exposed_to_server, best.exposed_by_one) == (0, 0)
    assert best.gram_directions == min(D, 10 * best.epochs)
    assert "Conventional FL needs" in paper_plan.why()


def test_plans_are_ranked(paper_plan):
    times = [made.seconds_mean for made in paper_plan.plans]
    assert times == sorted(times)
    assert all(made.seconds_p5 <= made.seconds_mean <= made.seconds_p95 for made in paper_plan.plans)


def test_gram_revealing_plans_need_leave(paper_plan):
    """One-shot, and descent beyond d/c epochs, give the server all of X'X."""
    reasons = {made.scheme: why for made, why in paper_plan.left_out}
    assert reasons["one-shot"] == ["the server learns the whole total Gram matrix"]
    assert all(not made.reveals_gram or made.alpha is None for made in paper_plan.plans)
    allowed = planned(limits=Limits(allow_gram=True), solvers=("cg",), draws=5)
    assert "one-shot" in {made.scheme for made in allowed.plans}


def test_limits_are_kept():
    limits = Limits(max_exposure=4, max_upload=1e6, max_memory=1e7)
    made = planned(limits=limits, solvers=("cg",), draws=5)
    assert all(p.exposed_by_one <= 4 and p.upload_bytes <= 1e6 and p.memory_bytes <= 1e7 for p in made.plans)
    assert any("exposure" in reason for _, why in made.left_out for reason in why)


def test_impossible_limits_say_why():
    made = planned(limits=Limits(max_upload=1.0), solvers=("cg",), draws=5)
    with pytest.raises(InvalidInput, match=r"^the limits must leave .* because upload .* > 1 B; loosen that limit$"):
        _ = made.best


def without_stragglers() -> Fleet:
    """Ten devices alike, without setup time or lost packets."""
    alike = replace(PAPER.classes[0], count=10, mac_rate=25e6, setup_factor=0.0, failure_probability=0.0, name="alike")
    return replace(PAPER, classes=(alike,), name="alike")


def test_without_stragglers_it_says_that_coding_does_not_pay():
    """Conventional FL is faster and listed first; it is not recommended, for it shows the server every device."""
    made = planned(without_stragglers(), draws=5)
    assert made.plans[0].scheme == "conventional-full-batch" and not made.plans[0].is_private
    assert made.best.is_private
    assert "Coding does not pay on this fleet in time: it buys that the server sees no single device." in made.why()
    assert f"Faster is {name_in_sentence(made.plans[0])} with" in made.why()


def test_the_fair_rival_is_named_by_its_own_solver():
    """Nesterov's row was called "with CG" once."""
    made = planned(solvers=("nesterov",), draws=5)
    assert "Conventional FL on full batches with Nesterov needs" in made.why()


# -- what leaks to whom


@pytest.fixture(scope="module")
def quick() -> Planning:
    return planned(solvers=("cg",), draws=5, limits=Limits(allow_gram=True))


def test_every_plan_says_whom_it_exposes(quick):
    by_label = {
        full_name(made): (made.exposed_to_server, made.exposed_by_one, made.exposed_by_two) for made in quick.plans
    }
    for open_ in ("conventional FL", "conventional FL, full batch, CG", "CodedFedL, δ = 0.8"):
        assert by_label[open_] == (10, 9, 8)
    assert by_label["coded-keys, α = 8, CG"] == (0, 7, 8)
    assert by_label["coded-padded, α = 1, CG"] == (0, 0, 1)
    assert by_label["one-shot, α = 10, closed form"] == (0, 9, 8)


def test_total_only_leaves_out_what_shows_single_devices():
    made = planned(solvers=("cg",), draws=5, limits=Limits(total_only=True))
    assert all(plan.is_private for plan in made.plans)
    reasons = {plan.scheme: why for plan, why in made.left_out}
    assert reasons["conventional"] == ["the server sees each device's gradient"]
    assert reasons["coded-fedl"] == ["the server sees each device's parity rows and gradient"]


def test_colluders_are_a_constraint(quick):
    made = planned(solvers=("cg",), draws=5, limits=Limits(colluders=1, allow_gram=True))
    keep = [plan for plan in quick.plans if plan.colluders >= 1]
    assert {full_name(plan) for plan in made.plans} == {full_name(plan) for plan in keep}
    assert made.best == min(keep, key=lambda plan: plan.seconds_mean)
    reasons = {full_name(plan): why for plan, why in made.left_out}
    assert reasons["conventional FL"] == ["the server needs none"]
    assert reasons["coded-keys, α = 8, CG"] == ["1 colluders expose others"]


def test_the_plan_for_just_so_many_colluders_is_tried(quick):
    """Three are not among the usual candidates."""
    assert {plan.colluders for plan in quick.plans if plan.scheme == "role-keys"} == {1, 2, 4}
    made = planned(solvers=("cg",), draws=5, limits=Limits(colluders=3))
    assert full_name(made.best) == "role-keys, z = 3, 32 bits, CG"


def test_it_tries_blocks_and_32_bits_for_random_features_only(quick):
    ours = [one.parameters for one in quick.plans if one.scheme == "role-keys"]
    assert {(one["blocks"], one["narrow"]) for one in ours} == {(1, False), (1, True), (2, True)}
    columns = make_problem(datasets.load("digits"), n_devices=10, features="linear")
    table = plan(columns, Conditions(PAPER), 0.5, search=Search(["cg"], draws=3))
    narrow = {one.parameters["narrow"] for one in table.everything if one.scheme == "role-keys"}
    assert narrow == {False}, "never for a table's own columns"


def test_surviving_failures_is_a_limit():
    """Five holders per role in two blocks survive one failure; three of them with all rows and two others, three."""
    made = planned(solvers=("block-krylov",), draws=5, limits=Limits(survive=3))
    assert all(one.failures_survived >= 3 for one in made.plans)
    assert {one.parameters["reserve"] for one in made.plans if one.parameters.get("blocks") == 2} == {3}
    left_out = {full_name(one): why for one, why in made.left_out}
    assert left_out["role-keys, z = 4, 32 bits, block Krylov"] == ["it survives 1 failures, fewer than 3"]
    with pytest.raises(InvalidInput, match=r"^survive must be zero or positive, got -1$"):
        Limits(survive=-1)


def test_too_many_colluders_are_refused():
    with pytest.raises(InvalidInput, match=r"left out because 5 colluders expose others; loosen that limit$"):
        _ = planned(solvers=("cg",), draws=5, limits=Limits(colluders=5)).best
    with pytest.raises(InvalidInput, match=re.escape("colluders must be zero or positive, got -1")):
        Limits(colluders=-1)


def test_a_plan_that_shows_single_devices_is_never_recommended(quick):
    open_only = Planning(TARGET, [made for made in quick.plans if not made.is_private])
    assert open_only.plans and open_only.recommended is None
    with pytest.raises(InvalidInput, match="coded-fedl shows the server each device's parity rows"):
        _ = open_only.best


def test_a_scheme_that_cannot_run_is_named_and_the_others_are_planned():
    """Four rows a device are fewer than CodedFedL's mini-batches."""
    data = datasets.load("digits")
    few = replace(data, X_train=data.X_train[:40], y_train=data.y_train[:40])
    problem = make_problem(few, n_devices=10, n_features=100, partition_name="random")
    made = plan(CentralTotals(problem), Conditions(PAPER), 0.2, search=Search(solvers=("cg",), draws=3))
    assert made.best.is_private
    assert "CodedFedL, δ = 0.1 cannot run: points must be at least one per mini-batch (5), got 4" in made.unreached


def one_slow() -> Fleet:
    fast = replace(PAPER.classes[0], count=9, name="fast")
    slow = replace(PAPER.classes[0], count=1, mac_rate=1e5, name="slow")
    return replace(PAPER, classes=(fast, slow), name="one slow")


@pytest.mark.parametrize(
    ("fleet", "runs"),
    [
        pytest.param(without_stragglers(), 8, id="alike"),
        pytest.param(PAPER, 40, id="paper", marks=pytest.mark.nightly),
        pytest.param(one_slow(), 40, id="one slow", marks=pytest.mark.nightly),
    ],
)
def test_predicted_and_simulated_times_agree_within_five_percent(fleet, runs):
    """The plan's mean against the mean of real protocol runs on virtual time; where devices straggle, it takes many."""
    made = planned(fleet, solvers=("cg",), draws=400)
    coded = next(p for p in made.plans if p.alpha is not None and p.alpha > 1)
    scheme = coded_scheme(coded.scheme, coded.alpha, coded.groups)
    at = Conditions(fleet, "multicast")
    problem = digits(n_features=D)
    measured = [
        simulate(scheme, problem, ConjugateGradient(coded.epochs, 1e-4), at, np.random.default_rng(seed)).seconds[-1]
        for seed in range(runs)
    ]
    assert np.mean(measured) == pytest.approx(coded.seconds_mean, rel=0.05)


def test_large_fleets_are_planned_in_groups():
    assert {scheme.groups for scheme in CodedKeys.candidates(120)} == {2, 5}
    assert {scheme.groups for scheme in CodedKeys.candidates(50)} == {1}
    assert [scheme.alpha for scheme in CodedPadded.candidates(4)] == [1, 2, 3, 4]
    assert CodedKeys.default_for(1000) == CodedKeys(23, 40)
    assert CodedKeys.default_for(25) == CodedKeys(23)
    assert CodedKeys.default_for(2) == CodedKeys(1)


@pytest.mark.parametrize("target", [0.0, 1.5])
def test_bad_targets_are_refused(target):
    with pytest.raises(InvalidInput, match=re.escape(f"target must be between 0 and 1, got {target}")):
        plan(totals(n_features=D), Conditions(PAPER), target)


def test_the_fleet_must_fit_the_problem():
    with pytest.raises(
        InvalidInput, match=re.escape("the fleet must have as many devices as the problem (10), got 25")
    ):
        plan(totals(n_features=D), Conditions(Fleet.load("paper")), 0.9)
