"""One quorum for the server and for the clock: what is missing, when it is complete, and that both agree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from codedfl.errors import InvalidInput
from codedfl_lab.code.gradient_code import coded_quorum, group_sizes, make_code
from codedfl_lab.code.quorum import Quorum, QuorumPart
from codedfl_lab.primes.ring import Ring
from codedfl_lab.schemes.coded_keys import CodedKeys
from wording import exactly

CODES = [(5, 3, 1, 0), (5, 3, 1, 2), (6, 1, 1, 0), (6, 6, 1, 1), (7, 3, 2, 0), (7, 3, 2, 1), (9, 2, 3, 1)]


def subsets(n: int):
    return itertools.chain.from_iterable(itertools.combinations(range(n), size) for size in range(n + 1))


@pytest.mark.parametrize(("n", "alpha", "groups", "spare"), CODES)
def test_the_clock_waits_for_the_servers_answers(n: int, alpha: int, groups: int, spare: int):
    """In every order of arrival the clock stops at the answer with which the server has enough, not before or after."""
    ring = Ring.for_group_sizes(group_sizes(n, alpha, groups))
    code = make_code(n, alpha, ring.primes, groups)
    quorum, waited = CodedKeys(alpha, groups, spare).quorum(n), code.quorum.with_spare(spare)
    rng = np.random.default_rng(0)
    for order in (rng.permutation(n) for _ in range(50)):
        arrivals = np.empty(n)
        arrivals[order] = np.arange(1, n + 1)
        enough = next(count for count in range(n + 1) if waited.complete(order[:count].tolist()))
        assert quorum.time(arrivals) == enough
    assert all(waited.missing(there) == quorum.missing(there) for there in subsets(n))


@pytest.mark.parametrize("excluded", [(), (0,), (0, 3), (0, 1, 2, 3)])
def test_spare_answers_go_as_far_as_trusted_members(excluded):
    """D = 5, alpha = 3: three answers decode; two spare ones are wanted while there are members to give them."""
    wanted = coded_quorum(5, 3).with_spare(2, excluded)
    assert wanted.answers_needed == {0: 5, 1: 4, 2: 3, 4: 3}[len(excluded)]
    assert coded_quorum(5, 3).with_spare(0, excluded) == coded_quorum(5, 3)


def test_a_part_a_role():
    """Role keys: the first answer of each role, whoever gives it."""
    roles = Quorum((QuorumPart((0, 2, 4), 1), QuorumPart((1, 3), 1)))
    assert roles.missing([]) == 2 and roles.missing([0, 2, 4]) == 1 and roles.complete([3, 4])
    assert roles.time(np.array([[9.0, 5.0, 2.0, 7.0, 4.0], [1.0, 8.0, 2.0, 6.0, 3.0]])).tolist() == [5.0, 6.0]


def test_who_is_in_no_part_is_not_waited_for():
    quorum = Quorum((QuorumPart((1, 2), 2),))
    assert quorum.time(np.array([99.0, 1.0, 2.0])) == 2.0
    assert quorum.missing([0]) == 2


def test_repeated_answers_count_once():
    assert Quorum.all_but(3).missing([1, 1, 1]) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quorum.all_but(3, 3), "needed must be between 1 and the members (3), got 0"),
        (lambda: Quorum.all_but(3, -1), "needed must be between 1 and the members (3), got 4"),
        (lambda: Quorum(()), "parts must be at least one, got none"),
    ],
)
def test_bad_quorums_are_refused(make, message):
    with pytest.raises(InvalidInput, match=exactly(message)):
        make()
