"""Small versions of the attacks in ``experiments/attacks``, on digits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from experiments.attacks import curious_device, one_device, roles
from experiments.attacks.collusion import collude
from experiments.attacks.decoder import Decoder
from experiments.attacks.distinguishing import compare_worlds, faults_for
from experiments.attacks.entries import Recovery, recovered_entries
from experiments.attacks.one_device import Case, Finding, score_attempt, server_view, yardstick
from experiments.attacks.scoring import Score, residual_correlation
from experiments.attacks.setting import Setting, Size, Target, make_setting

from codedfl.protocol.schemes.coded_keys import CodedKeys, OneShot
from codedfl.protocol.schemes.coded_padded import CodedPadded
from codedfl.protocol.schemes.descriptor import CodedScheme
from codedfl.protocol.schemes.role_keys import RoleKeys
from codedfl_lab.baselines.coded_fedl import CodedFedL
from codedfl_lab.baselines.conventional import ConventionalFullBatch
from codedfl_lab.costs.central import CentralTotals

MASKED = pytest.mark.parametrize("scheme", [CodedPadded(3), CodedKeys(3), OneShot(3)], ids=lambda s: s.name)


@cache
def setting(split: str) -> Setting:
    return make_setting("digits", split)


@cache
def decoder() -> Decoder:
    return Decoder(setting("sorted").feature_map, setting("sorted").public)


def findings(case: Case, split: str) -> dict[str, Finding]:
    rng = np.random.default_rng(0)
    attempts = one_device.attempts_on(case, setting(split), rng)
    return {one.name: score_attempt(case, one, setting(split), decoder()) for one in attempts}


@pytest.mark.parametrize("split", ["sorted", "shuffled", "few"])
@pytest.mark.parametrize("scheme", [ConventionalFullBatch(), CodedFedL(0.8)], ids=lambda s: s.name)
def test_the_baselines_give_single_devices_away(scheme, split: str):
    best = one_device.best_of(list(findings(Case(scheme), split).values()))
    assert best.score.gives_away(yardstick(setting(split), decoder()))


def test_single_images_come_back_exactly():
    assert findings(Case(ConventionalFullBatch()), "few")["first gradient"].score.mean > 0.999
    assert findings(Case(CodedFedL(0.1)), "few")["parity rows"].score.mean > 0.99


@pytest.mark.parametrize(
    ("scheme", "split"),
    [
        *((scheme(3), split) for scheme in (CodedPadded, CodedKeys, OneShot) for split in ("sorted", "shuffled")),
        (CodedKeys(3), "few"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_ours_give_nothing_beyond_the_total(scheme: CodedScheme, split: str):
    measure = yardstick(setting(split), decoder())
    found = findings(Case(scheme), split)
    assert set(found) == {"decoded total", "own answer", "lattice reduction", "sparse solves"}
    assert all(finding.score.gives_nothing(measure) for finding in found.values())
    assert found["decoded total"].score.above(measure)[0] == pytest.approx(0.0, abs=1e-3)
    assert found["sparse solves"].score.found == 0


@pytest.mark.parametrize("split", ["sorted", "shuffled", "few"])
def test_role_keys_give_nothing_beyond_the_total_also_with_a_colluder(split: str):
    """As users get them: z = 1. The paper's scheme at its default alpha gives nearly everybody away with one."""
    measure = yardstick(setting(split), decoder())
    default = RoleKeys.default_for(setting(split).problem.n_devices)
    assert default.colluders == 1
    alone = findings(Case(default), split)
    assert set(alone) == {"decoded total", "own upload", "own upload less the sums of pads"}
    assert alone["decoded total"].score.above(measure)[0] == pytest.approx(0.0, abs=1e-3)
    helped = findings(Case(default, colluder=True), split)
    assert set(helped) == {one_device.WITH_COLLUDER}
    for finding in (*alone.values(), *helped.values()):
        assert finding.case.claims_privacy
        assert finding.score.gives_nothing(measure), finding.attempt
    paper = Case(CodedPadded(setting(split).problem.n_devices - 2), colluder=True)
    (found,) = findings(paper, split).values()
    assert not paper.claims_privacy
    assert found.score.gives_away(measure)
    missed = {target.device for target, seen in found.score.correlations.items() if seen is None}
    assert len(missed) <= 2, "with alpha = D - 2 one colluder answers for all but two others"


@pytest.mark.parametrize("z", [1, 2])
def test_a_collusion_on_role_keys_finds_nobody_until_it_has_every_role(z: int):
    small = make_setting("digits", "shuffled", size=Size(120, 6, 8)).problem
    scheme = RoleKeys(z)
    few, enough = (list(roles.different_roles(scheme, small, count)) for count in (z, z + 1))
    assert roles.collude(scheme, small, few).found == sorted(few)
    assert roles.collude(scheme, small, few).as_predicted
    assert roles.collude(scheme, small, enough).found == list(range(6))
    assert roles.collude(scheme, small, enough).as_predicted


def test_without_masks_lattice_reduction_and_sparse_solves_bring_devices_back():
    plain = findings(Case(ConventionalFullBatch()), "sorted")["first gradient"].score.mean
    bare = findings(Case(CodedPadded(3), masks=False), "sorted")
    assert bare["lattice reduction"].score.mean == pytest.approx(plain, abs=1e-3)
    # Where alpha is too large for lattices, a class on few devices is still solved for.
    many = findings(Case(CodedKeys(12), masks=False), "sorted")
    # Where devices sit is drawn, so those of a class are seldom neighbours, and only some classes are found.
    assert many["sparse solves"].score.found > 0
    assert many["lattice reduction"].score.mean < plain - 0.2


@MASKED
def test_a_device_learns_the_total_at_most(scheme: CodedScheme):
    measure = yardstick(setting("shuffled"), decoder())
    totals = CentralTotals(setting("shuffled").problem)
    rng = np.random.default_rng(0)
    names = set()
    for attempt in curious_device.attempts_on(Case(scheme), setting("shuffled"), totals, rng):
        finding = score_attempt(Case(scheme), attempt, setting("shuffled"), decoder())
        assert finding.score.gives_nothing(measure), attempt.name
        names.add(attempt.name)
    assert ("shares" if scheme.name == "coded-padded" else "seeds") in names


@MASKED
def test_a_collusion_exposes_exactly_those_it_should(scheme: CodedKeys | CodedPadded):
    small = make_setting("digits", "shuffled", size=Size(120, 6, 8)).problem
    for alpha, who, exposed in [
        (1, [0], [0]),
        (3, [4], [0, 4, 5]),
        (5, [0], [0, 1, 2, 3, 4, 5]),
        (1, [0, 2], [0, 1, 2]),
        (2, [0, 2], [0, 1, 2, 3]),
    ]:
        found = collude(type(scheme)(alpha), small, who)
        assert found.as_predicted
        assert found.found == exposed


def entries(case: Case, problem_of: Setting) -> dict[tuple[str, str], Recovery]:
    found = recovered_entries(server_view(case, problem_of), problem_of.problem)
    return {(one.what, one.attack): one for one in found}


@MASKED
def test_numbers_of_the_gram_matrix_are_as_safe_as_those_of_the_gradient(scheme: CodedScheme):
    """Without masks lattice reduction finds every one of both, with masks none of either."""
    held = "X'X" if scheme.reveals_gram else "X'X e"
    masked = entries(Case(scheme), setting("sorted"))
    assert {what for what, _ in masked} == {"G^(1)", held}
    assert all(one.attempted > 0 and one.recovered == 0 for one in masked.values())
    bare = entries(Case(scheme, masks=False), setting("sorted"))
    for what in ("G^(1)", held):
        one = bare[what, "lattice reduction"]
        assert one.recovered == one.attempted
        assert one.beyond_chance
    # Of one class most devices hold nothing, of X'X none.
    assert bare["G^(1)", "sparse solves"].recovered == bare["G^(1)", "sparse solves"].attempted
    assert bare[held, "sparse solves"].recovered == 0


def test_a_lucky_guess_is_told_from_a_number_found():
    assert not Recovery("X'X", "lattice reduction", 1, 600, 0.04).beyond_chance
    assert not Recovery("X'X", "lattice reduction", 20, 600, 9.0).beyond_chance
    assert Recovery("X'X", "lattice reduction", 40, 600, 9.0).beyond_chance
    assert Recovery("X'X", "lattice reduction", 4, 600, 0.0).beyond_chance


WORLDS = pytest.mark.parametrize(
    "scheme", [CodedPadded(2), CodedKeys(2), OneShot(2), CodedPadded(2, groups=2), RoleKeys(1)], ids=lambda s: s.label
)


@WORLDS
def test_worlds_with_the_same_total_look_the_same(scheme: CodedScheme):
    found = compare_worlds(scheme, 40, seed=1)
    assert [one.party for one in found] == ["server", "device-2"][: 1 if scheme.reveals_gram else 2]
    assert not any(one.distinguishable for one in found)


@WORLDS
def test_the_same_comparison_shows_every_fault(scheme: CodedScheme):
    for fault in faults_for(scheme):
        found = {one.party: one for one in compare_worlds(scheme, 20, seed=1, fault=fault)}
        # Whose pads are used twice is seen by who holds what is padded.
        victim = "device-2" if (scheme.name, fault) == ("coded-padded", "pads reused") else "server"
        assert found[victim].distinguishable, fault


def test_the_score_ignores_what_the_population_explains():
    rng = np.random.default_rng(3)
    population, own = rng.random(64), rng.standard_normal(64)
    assert residual_correlation(2 * population + 1, population + own, population) == 0.0
    assert residual_correlation(5 * population + 3 * own, population + own, population) == pytest.approx(1.0)


def score(*correlations: float | None) -> Score:
    return Score({Target(0, label): value for label, value in enumerate(correlations)})


def test_a_target_of_which_nothing_is_found_counts_as_zero():
    summary = score(None, 0.5, None, 0.5).summary()
    assert summary == {**score(0.0, 0.5, 0.0, 0.5).summary(), "found": 2}
    assert (summary["mean"], summary["attempted"]) == (0.25, 4)


def test_scores_are_compared_target_by_target():
    """A little more on every target shows, however much targets differ; chance excuses a tenth at most."""
    measure = score(-0.8, 0.1, 0.6, 0.4)
    assert score(-0.8, 0.1, 0.6, 0.4).gives_nothing(measure)
    assert score(-0.7, 0.1, 0.5, 0.4).gives_nothing(measure)
    assert not score(-0.77, 0.13, 0.63, 0.429).gives_nothing(measure)
    assert not score(0.0, 0.1, 0.5, 0.4).gives_nothing(measure)
    assert not score(0.0, 0.1, 0.5, 0.4).gives_away(measure)
    assert score(-0.4, 0.5, 1.0, 0.8).gives_away(measure)
    # Over its own targets, where the yardstick has more.
    assert score(0.1, 0.1, 0.9, 0.4).above(score(0.0, 0.2, 0.9, 0.4, 0.7)) == pytest.approx((0.0, 0.0408), abs=1e-4)
