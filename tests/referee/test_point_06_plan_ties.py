"""`plan` chose by the smallest mean: a coin flip decided between 0 and 24 devices exposed by one colluder (59.1 against
59.3 s). On digits conventional FL was fastest with no limit set and could not be chosen, and nothing said why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

from codedfl.report.text import seconds
from codedfl_lab import datasets
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.code.quorum import Quorum, QuorumPart
from codedfl_lab.comparing.names import full_name, name_in_sentence
from codedfl_lab.comparing.paired import mean_gap
from codedfl_lab.comparing.timed_scheme import TimedScheme, Workload
from codedfl_lab.costs.times import Conditions, Draws, WorkShape, epoch_end_times
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.planning.planner import Planning, Search, plan
from codedfl_lab.problems.problem import make_problem
from codedfl_lab.report.plan_table import tie_words
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.role_keys import RoleKeys

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def planned() -> Planning:
    """Few of the paper's devices, plain columns, cheap pads: coded keys with alpha = D and role keys take as long."""
    problem = make_problem(datasets.load("digits"), n_devices=9, features="linear")
    paper = Fleet.load("paper").scaled_to(9)
    pads, sealing = 0.25 * paper.pad_macs_per_number, 0.25 * paper.seal_macs_per_number
    fleet = replace(paper, pad_macs_per_number=pads, seal_macs_per_number=sealing)
    return plan(problem, Conditions(fleet), 0.85, search=Search(["block-krylov"], draws=40))


def test_of_plans_as_fast_the_one_that_exposes_fewest_is_taken(planned: Planning) -> None:
    assert planned.fastest in planned.tied and planned.best in planned.tied
    exposed = [(made.exposed_by_one, made.exposed_by_two) for made in planned.tied]
    assert (planned.best.exposed_by_one, planned.best.exposed_by_two) == min(exposed)
    assert planned.best.scheme == "role-keys" and planned.best.exposed_by_one == 0
    assert planned.fastest.scheme == "coded-keys" and planned.fastest.exposed_by_one == 8
    slower = [made for made in planned.plans if made.is_private and made not in planned.tied]
    assert slower and all(made.seconds_mean > planned.fastest.seconds_mean for made in slower)
    assert f"{len(planned.tied)} plans are as fast as the fastest" in tie_words(planned)
    assert f"{full_name(planned.fastest)} is as fast within the noise of the draws" in planned.why()


def test_a_difference_beyond_the_noise_is_no_tie(planned: Planning) -> None:
    """Whatever it exposes: without ties the smallest mean decides, as before."""
    alone = replace(planned, tied=[])
    assert alone.best is alone.fastest is next(made for made in planned.plans if made.is_private)
    assert tie_words(alone) == ""


def test_ties_are_judged_on_pairs() -> None:
    """A spread that both plans share says nothing about which is faster."""
    rng = np.random.default_rng(0)
    fleet_is_slow = rng.exponential(50.0, 100)
    mine, theirs = fleet_is_slow + 10 + rng.normal(0, 0.1, 100), fleet_is_slow + 12 + rng.normal(0, 0.1, 100)
    low, high = mean_gap(theirs, mine)
    assert 1.9 < low < 2 < high < 2.1
    shuffled = mean_gap(rng.permutation(theirs), mine)
    assert shuffled[0] < 0, "unpaired, the same numbers would be a tie"
    assert mean_gap(mine[:1], theirs[:1])[0] == mean_gap(mine[:1], theirs[:1])[1]


def test_why_a_faster_open_scheme_is_not_chosen(planned: Planning) -> None:
    usual = replace(
        planned.best,
        scheme=Conventional.name,
        label="conventional FL",
        seconds_mean=0.001,
        exposed_to_server=25,
        parameters={},
    )
    said = replace(planned, plans=[usual, *planned.plans]).why()
    assert f"Faster is {name_in_sentence(usual)} with {seconds(0.001)}. It is not chosen" in said
    assert "codedfl runs only schemes whose server sees no single device" in said
    assert "is not chosen" not in replace(planned, plans=[one for one in planned.plans if one.is_private]).why()


def test_how_many_failures_a_plan_survives() -> None:
    fleet = Fleet.load("paper")
    shape = WorkShape(200, 10, np.full(25, 40))

    def made(scheme: RoleKeys | CodedKeys | Conventional) -> TimedScheme:
        at = Conditions(fleet)
        times = epoch_end_times(scheme, shape, at, 2, Draws(3, np.random.default_rng(0)))
        return TimedScheme.of(scheme, "gd", Workload(shape, at, 3), *times)

    found = {scheme: made(scheme) for scheme in (RoleKeys(1), CodedKeys(23), CodedKeys(3, groups=5), Conventional())}
    assert [one.failures_survived for one in found.values()] == [11, 22, 2, 0]
    assert [one.stragglers for one in found.values()] == [23, 22, 10, 0], "late is another thing: the slowest, not any"
    assert Quorum((QuorumPart((0, 1, 2), 1), QuorumPart((3, 4), 1))).failures_survived == 1


def test_the_command_says_it(run: Run, tmp_path: Path) -> None:
    said = run(
        "lab",
        "plan",
        "digits",
        "--devices",
        6,
        "--n-features",
        60,
        "--reach",
        0.8,
        "--draws",
        20,
        "--json",
        "plan.json",
    )
    assert said.exit_code == 0
    # The command that it ends with is one line, to be pasted as it stands.
    shown = [line for line in said.output.splitlines() if not line.lstrip().startswith("codedfl ")]
    assert max(map(len, shown)) <= 80
    found = json.loads((tmp_path / "plan.json").read_text())
    assert found["best"]["failures_survived"] >= 1
    words = " ".join(said.output.split())
    assert "is not chosen, because codedfl runs only schemes" in words or found["plans"][0]["exposed_to_server"] == 0
