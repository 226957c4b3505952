"""Small versions of the attacks in ``experiments/attacks``, on digits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from experiments.attacks import curious_device, one_device
from experiments.attacks.collusion import collude
from experiments.attacks.decoder import Decoder
from experiments.attacks.distinguishing import compare_worlds
from experiments.attacks.one_device import Case, Finding, score_attempt, yardstick
from experiments.attacks.scoring import Score, residual_correlation
from experiments.attacks.setting import Setting, Size, make_setting

from codedfl.central import CentralTotals
from codedfl.schemes import CodedFedL, CodedKeys, CodedPadded, CodedScheme, ConventionalFullBatch, OneShot

MASKED = pytest.mark.parametrize("scheme", [CodedPadded(3), CodedKeys(3), OneShot(3)], ids=lambda s: s.name)


@cache
def setting(split: str) -> Setting:
    return make_setting("digits", split)


@cache
def decoder() -> Decoder:
    return Decoder(setting("sorted").problem.feature_map, setting("sorted").public)


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


@MASKED
@pytest.mark.parametrize("split", ["sorted", "shuffled"])
def test_ours_give_nothing_beyond_the_total(scheme: CodedScheme, split: str):
    measure = yardstick(setting(split), decoder())
    found = findings(Case(scheme), split)
    assert set(found) == {"decoded total", "own answer", "lattice reduction", "sparse solves"}
    assert all(finding.score.gives_nothing(measure) for finding in found.values())
    assert found["decoded total"].score.mean == pytest.approx(measure.mean, abs=1e-4)
    assert found["sparse solves"].score.found == 0


def test_without_masks_lattice_reduction_and_sparse_solves_bring_devices_back():
    plain = findings(Case(ConventionalFullBatch()), "sorted")["first gradient"].score.mean
    bare = findings(Case(CodedPadded(3), masks=False), "sorted")
    assert bare["lattice reduction"].score.mean == pytest.approx(plain, abs=1e-3)
    # Where alpha is too large for lattices, a class on few devices is still solved for.
    many = findings(Case(CodedKeys(12), masks=False), "sorted")
    assert many["sparse solves"].score.mean == pytest.approx(plain, abs=1e-3)
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
def test_a_collusion_exposes_exactly_those_it_should(scheme: CodedScheme):
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


def test_worlds_with_the_same_total_look_the_same_and_a_reused_pad_shows():
    for scheme, victim in ((CodedPadded(2), "device-2"), (CodedKeys(2), "server")):
        assert not any(one.distinguishable for one in compare_worlds(scheme, 40, seed=1))
        reused = {one.party: one for one in compare_worlds(scheme, 20, seed=1, fault="pads reused")}
        assert reused[victim].distinguishable
        bare = {one.party: one for one in compare_worlds(scheme, 20, seed=1, fault="masks off")}
        assert bare["server"].distinguishable


def test_the_score_ignores_what_the_population_explains():
    rng = np.random.default_rng(3)
    population, own = rng.random(64), rng.standard_normal(64)
    assert residual_correlation(2 * population + 1, population + own, population) == 0.0
    assert residual_correlation(5 * population + 3 * own, population + own, population) == pytest.approx(1.0)
    assert Score.of([None, 0.5, None, 0.5]) == Score(0.25, Score.of([0.0, 0.5, 0.0, 0.5]).standard_error, 4, 2)
