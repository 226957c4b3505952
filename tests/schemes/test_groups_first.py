"""Beginning with the whole groups that are there: when, without whom, and that nothing else differs from role keys."""

from __future__ import annotations

import re

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl.solve.krylov import BlockKrylov
from codedfl_lab import Conditions, Fleet, RoleKeys
from codedfl_lab.costs import groups_first as costs
from codedfl_lab.costs.central import CentralTotals
from codedfl_lab.costs.times import (
    Descent,
    Draws,
    TrainingTimes,
    WorkShape,
    device_costs,
    epoch_end_times,
    models,
    models_key,
)
from codedfl_lab.schemes.groups_first import GroupsFirst
from small_problems import digits

assert costs  # registers how the scheme is timed
AT = Conditions(Fleet.load("heavy-tailed").scaled_to(10), "per-message")
SHAPE = WorkShape(40, 10, np.full(10, 50))


def drawn(scheme: RoleKeys | GroupsFirst, at: Conditions = AT) -> tuple[np.ndarray, np.ndarray]:
    return epoch_end_times(scheme, SHAPE, at, 5, Draws(40, *np.random.default_rng(1).spawn(2)))


def test_it_begins_when_enough_groups_are_complete():
    uploaded = np.random.default_rng(0).exponential(size=(50, 10))
    for count, late in ((3, 0), (3, 1), (3, 2), (1, 0), (2, 1)):
        scheme = GroupsFirst(count=count, late=late)
        for row, begins in zip(uploaded, scheme.begins(uploaded), strict=True):
            complete = sorted((max(row[i] for i in range(10) if i % count == group), group) for group in range(count))
            assert begins == complete[count - late - 1][0]
            last = {group for _, group in complete[count - late :]}
            assert scheme.late_positions(row).tolist() == [i for i in range(10) if i % count in last]


def test_with_nobody_late_it_is_role_keys():
    for mine, theirs in zip(drawn(GroupsFirst(count=3, late=0)), drawn(RoleKeys(1)), strict=True):
        assert np.array_equal(mine, theirs)
    assert device_costs(GroupsFirst(count=3), SHAPE, AT, 4) == device_costs(RoleKeys(1), SHAPE, AT, 4)


def test_leaving_late_groups_out_never_begins_later():
    waits, first = drawn(RoleKeys(1))[0], drawn(GroupsFirst(count=3, late=1))[0]
    assert (first <= waits).all() and first.mean() < 0.8 * waits.mean()


def test_its_models_are_the_centralised_ones_of_whoever_was_there():
    problem = digits(10)
    scheme, totals = GroupsFirst(count=3, late=1), CentralTotals(problem)
    for seed in range(3):
        by = TrainingTimes(totals, BlockKrylov(4, 1e-4), Descent(None, 1e-4), AT, np.random.default_rng(seed))
        found = list(models(scheme, by))
        candidates = [
            [name for place, name in enumerate(problem.device_names) if place % 3 == group] for group in range(3)
        ]
        matching = [
            late
            for late in candidates
            if all(
                np.array_equal(*pair)
                for pair in zip(found, CentralTotals(problem.without(late)).train(BlockKrylov(4, 1e-4)), strict=True)
            )
        ]
        assert len(matching) == 1
    assert models_key(scheme) != models_key(RoleKeys(1)) != models_key(GroupsFirst(count=3, late=2))


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (GroupsFirst(count=4), "count must be between 1 and 3, in groups of 3 of 10 devices, got 4"),
        (GroupsFirst(2, count=3), "count must be between 1 and 2, in groups of 4 of 10 devices, got 3"),
        (GroupsFirst(count=3, late=3), "late must be between 0 and count - 1 (2), got 3"),
    ],
)
def test_what_is_refused(scheme: GroupsFirst, message: str):
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        scheme.check(10)
