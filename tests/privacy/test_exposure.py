"""What ``codedfl lab privacy`` says, checked by exhaustive linear algebra on small fleets."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from rich.console import Console

from codedfl.errors import InvalidInput
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.code.gradient_code import GradientCode, group_sizes, make_code
from codedfl_lab.primes.ring import Ring
from codedfl_lab.privacy.exposure import Exposure, coded_exposure, exposed_set
from codedfl_lab.privacy.row_reduction import reduced
from codedfl_lab.privacy.views import THE_SERVER, coded_views
from codedfl_lab.report.privacy_table import privacy_table
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.registry import SCHEMES, make_scheme

SMALL = [(n, alpha) for n in range(2, 9) for alpha in range(1, n + 1)]


def code_of(n: int, alpha: int) -> GradientCode:
    return GradientCode(n, alpha, Ring.for_group_sizes([n]).primes)


@pytest.mark.parametrize(("n", "alpha"), SMALL)
def test_the_server_alone_knows_the_total(n: int, alpha: int):
    assert coded_views(code_of(n, alpha)).known([THE_SERVER]).tolist() == [[1] * n]
    assert len(coded_views(code_of(n, alpha), masks=False).known([THE_SERVER])) == n - alpha + 1


@pytest.mark.parametrize(("n", "alpha"), SMALL)
def test_one_colluding_device_exposes_those_it_answers_for_and_the_last_one_left(n: int, alpha: int):
    code = code_of(n, alpha)
    for i in range(n):
        row = set(code.row_support(i))
        # With one device left, the total less the known ones is that device.
        expected = set(range(n)) if alpha == n - 1 else row
        assert coded_views(code).exposed([THE_SERVER, i]) == expected
        if alpha < n - 1:
            assert len(coded_views(code).known([THE_SERVER, i])) == alpha + 1  # and the total of the others


@pytest.mark.parametrize(("n", "alpha", "groups"), [(10, 3, 2), (12, 3, 3), (12, 2, 4), (12, 4, 3)])
def test_groups_expose_no_more(n: int, alpha: int, groups: int):
    code = make_code(n, alpha, Ring.for_group_sizes(group_sizes(n, alpha, groups)).primes, groups)
    for i in range(n):
        assert coded_views(code).exposed([THE_SERVER, i]) == set(code.row_support(i))
        assert len(coded_views(code).known([THE_SERVER, i])) == alpha + 1


@pytest.mark.parametrize(("n", "alpha"), [(8, 1), (8, 2), (9, 3)])
def test_two_colluding_devices_also_expose_one_that_they_leave_between_them(n: int, alpha: int):
    code = code_of(n, alpha)
    for pair in itertools.combinations(range(n), 2):
        held = {j for i in pair for j in code.row_support(i)}
        between = {j for j in set(range(n)) - held if {(j - 1) % n, (j + 1) % n} <= held}
        assert coded_views(code).exposed([THE_SERVER, *pair]) == held | between


GROUPED = [
    (n, alpha, groups) for n in range(2, 11) for groups in range(1, n // 2 + 1) for alpha in range(1, n // groups + 1)
]


@pytest.mark.parametrize(("n", "alpha", "groups"), GROUPED)
def test_the_short_answer_is_the_algebra_s(n: int, alpha: int, groups: int):
    """Every collusion of none, one and two devices."""
    code = make_code(n, alpha, Ring.for_group_sizes(group_sizes(n, alpha, groups)).primes, groups)
    views, worst = coded_views(code), []
    for size in (0, 1, 2):
        found = [(views.exposed([THE_SERVER, *set_]), set_) for set_ in itertools.combinations(range(n), size)]
        assert all(exposed_set(n, alpha, groups, set_) == exposed for exposed, set_ in found)
        worst.append(max(len(exposed) for exposed, _ in found) - size)
    assert coded_exposure(n, alpha, groups) == Exposure.of(*worst)


@pytest.mark.parametrize(("n", "alpha", "groups"), [(25, 23, 1), (25, 16, 1), (30, 8, 3)])
def test_the_short_answer_at_the_papers_size(n: int, alpha: int, groups: int):
    code = make_code(n, alpha, Ring.for_group_sizes(group_sizes(n, alpha, groups)).primes, groups)
    rng, views = np.random.default_rng(0), coded_views(code)
    for set_ in ([], [3], [0, 1], *(rng.choice(n, size, replace=False).tolist() for size in (2, 2, 3, 5))):
        assert exposed_set(n, alpha, groups, set_) == views.exposed([THE_SERVER, *set_])


def test_exposure_of_many_devices():
    assert coded_exposure(1000, 23, 40) == Exposure(0, 22, 44, colluders=0)
    assert coded_exposure(25, 23) == Exposure(0, 22, 23, colluders=0)
    assert coded_exposure(25, 1) == Exposure(0, 0, 1, colluders=1)


def test_exposure_of_a_threshold_and_of_none():
    assert Exposure.everybody(25) == Exposure(25, 24, 23, colluders=-1)
    assert Exposure.beyond(1, 25) == Exposure(0, 0, 23, colluders=1)
    assert Exposure.beyond(7, 25) == Exposure(0, 0, 0, colluders=7)
    assert Exposure.beyond(3, 4) == Exposure(0, 0, 0, colluders=2)
    assert Exposure.beyond(3, 3) == Exposure(0, 0, 1, colluders=1), "the total less two is the third"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_has_a_table(scheme: str):
    rows = make_scheme(scheme, 10).privacy_rows(10)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(privacy_table(rows, scheme))
    text = console.export_text()
    assert "server" in text and "one device" in text
    server = rows[0]
    assert server.exposed == (0 if SCHEMES[scheme].private else 10)


def test_the_table_says_when_a_collusion_exposes_everybody():
    by_party = {row.party: row for row in CodedKeys(4).privacy_rows(5)}
    assert by_party["server and one device"].exposed == 4
    assert by_party["server and one device"].follows == (
        "X'X and X'Y of 3 single devices, and X'Y and X'X e, for each e, of one single device"
    )


def test_bad_arguments_are_named():
    with pytest.raises(InvalidInput, match="scheme must be one of"):
        make_scheme("nonsense", 5)
    with pytest.raises(InvalidInput, match="the number of devices must be at least 2, got 1"):
        Conventional().privacy_rows(1)
    with pytest.raises(InvalidInput, match="rows must hold at least one party, got none"):
        privacy_table([])


def test_row_reduction_against_its_definition():
    rng, prime = np.random.default_rng(0), 16777153
    matrix = rng.integers(0, prime, (6, 3)) @ rng.integers(0, 5, (3, 7)) % prime
    form, pivots = reduced(matrix, prime)
    assert len(pivots) == len(form) == 3
    assert np.array_equal(form[:, pivots], np.eye(3, dtype=np.int64))
