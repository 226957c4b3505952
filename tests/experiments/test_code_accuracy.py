"""The accuracy experiment on small fleets, with plain fractions as the oracle."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from codedfl_lab.code.gradient_code import GradientCode
from codedfl_lab.paper import PaperFixedPoint, TandonCode
from codedfl_lab.primes.ring import Ring
from experiments import code_accuracy

HALF = Fraction(1, 2)
PAPER = PaperFixedPoint()


@pytest.mark.parametrize("share", code_accuracy.SHARES)
@pytest.mark.parametrize("devices", [5, 12, 25])
def test_the_circulant_code_is_exact_and_the_random_one_is_not(devices: int, share: Fraction) -> None:
    result = code_accuracy.measure(devices, share, codes=3, survivor_sets=5, datatype=PAPER, seed=1)
    assert result.exact_wrong == 0
    assert result.draws == 15 and result.refused == 0
    assert result.median is not None and result.percentile_95 is not None and result.worst is not None
    assert 2.0**-26 < result.median <= result.percentile_95 <= result.worst
    assert result.float64_worst < result.worst


def test_the_random_code_gets_worse_with_more_devices() -> None:
    few, many = (
        code_accuracy.measure(devices, HALF, codes=5, survivor_sets=5, datatype=PAPER, seed=1) for devices in (5, 80)
    )
    assert few.median is not None and many.median is not None
    assert many.median > 5 * few.median


def test_the_error_is_that_of_exact_fractions() -> None:
    code = TandonCode(10, 5, np.random.default_rng(3)).rounded(PAPER)
    survivors = [0, 2, 3, 5, 8, 9]
    a = [Fraction(round(x * 2**24), 2**24) for x in code.decoding_vector(survivors)]
    B = [[Fraction(round(b * 2**24), 2**24) for b in code.B[i]] for i in survivors]
    oracle = max(abs(sum((a[i] * B[i][j] for i in range(6)), Fraction(-1))) for j in range(10))
    assert code.error(survivors) == pytest.approx(float(oracle), rel=1e-6)


def test_a_damaged_circulant_code_is_noticed() -> None:
    code = GradientCode(7, 4, Ring.for_group_sizes([7]).primes)
    matrix = code.matrix()
    assert code_accuracy.wrong_entries(code, matrix, [1, 2, 4, 6]) == 0
    matrix[0, 4, 5] += 1
    assert code_accuracy.wrong_entries(code, matrix, [1, 2, 4, 6]) == 1
    assert code_accuracy.wrong_entries(code, matrix, [0, 1, 2, 6]) == 0


def test_coefficients_that_do_not_fit_are_counted_and_drawn() -> None:
    narrow = PaperFixedPoint(k=26, f=24)  # nothing beyond +-2
    result = code_accuracy.measure(30, HALF, codes=2, survivor_sets=2, datatype=narrow, seed=1)
    assert result.refused == result.draws == 4
    assert result.median is None and result.worst is None
    fine = code_accuracy.measure(5, HALF, codes=2, survivor_sets=2, datatype=PAPER, seed=1)
    assert len(code_accuracy.draw([fine, result], narrow).axes) == 2


@pytest.mark.parametrize(
    ("devices", "alphas"), [(2, (2, 2, 2)), (5, (4, 2, 2)), (25, (23, 12, 2)), (200, (184, 100, 20))]
)
def test_alpha_is_a_share_of_the_devices(devices: int, alphas: tuple[int, ...]) -> None:
    assert tuple(code_accuracy.alpha_for(devices, share) for share in code_accuracy.SHARES) == alphas


def test_the_command_writes_table_figures_and_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code_accuracy.main(["--devices", "10", "5", "--codes", "2", "--survivor-sets", "3", "--out", str(tmp_path)])
    record = json.loads((tmp_path / "code_accuracy.json").read_text())
    assert (record["k"], record["f"], record["seed"]) == (48, 24, 0)
    assert [(one["devices"], one["share"]) for one in record["results"]] == [
        (devices, share) for share in ("23/25", "1/2", "1/10") for devices in (5, 10)
    ]
    assert (tmp_path / "code_accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert "exactly 0" in (tmp_path / "code_accuracy.svg").read_text()
    assert "largest |a B - 1| over 6 random codes and survivor sets" in capsys.readouterr().out


def test_the_command_refuses_no_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        code_accuracy.main(["--codes", "0"])
    assert "--codes and --survivor-sets must be at least 1, got 0, 10" in capsys.readouterr().err
