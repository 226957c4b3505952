"""What exact totals tell by themselves: rows by lattice reduction, digits of a finer grid, means, cells at a point.

Each works where the rule is taken away, and not where it stands. These attacks are on what is added up, so they are the
same for every scheme: role keys and role sums give the server the same total.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import flint
import numpy as np
import pytest

from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.errors import InvalidInput
from codedfl.exact.scales import Bounds
from codedfl.statistics import score
from codedfl.statistics.statistic import Ask
from codedfl_lab.primes.fixed_point import FixedPoint
from totals import census_of, dealt, total_of

KEYS = {f"hospital-{i}": Identity(bytes([i + 1] * 32)).public for i in range(3)}
ROSTER = Roster.draft(KEYS, colluders=1)
DAYS = NumberTarget("days", (0.0, 60.0), 1.0)

# -- few rows: the exact X'X of n <= d rows is the rows

_WEIGHT = 2.0**40


def rows_of_gram(gram: np.ndarray) -> list[tuple[int, ...]]:
    """Rows, up to sign, of an integer Z with Z'Z = gram, as far as lattice reduction finds any.

    The columns of Z are vectors of Z^n whose inner products are known. Short combinations of them are unit vectors
    (what else has length 1?), and the products of all columns with a unit vector are a row.
    """
    values, vectors = np.linalg.eigh(gram.astype(np.float64))
    embedded = np.rint(_WEIGHT * vectors * np.sqrt(np.clip(values, 0, None)))
    marked = np.hstack([np.eye(len(gram)), embedded])
    reduced = flint.fmpz_mat([[int(one) for one in row] for row in marked.tolist()]).lll().tolist()
    factors = np.array([[int(one) for one in row[: len(gram)]] for row in reduced], dtype=object)
    units = [row for row in factors if row @ gram @ row == 1]
    return [tuple(int(one) for one in row @ gram) for row in units]


def wide_study(width: int) -> Study:
    columns = tuple(NumberColumn(f"x{i}", (0.0, 100.0), 1.0) for i in range(width))
    roster = ROSTER.digest().hex()
    return Study("wide", columns, DAYS, 5000, 1000, 3, held_out=0.0, roster=roster, server_key="ab" * 32)


def wide_table(study: Study, rows: int, seed: int = 0) -> RawTable:
    rng = np.random.default_rng(seed)
    columns = {one.name: rng.integers(0, 101, rows) for one in study.columns}
    return as_raw_table({**columns, "days": rng.integers(0, 61, rows)})


def found_rows(study: Study, snapshots: list[Snapshot]) -> int:
    """How many rows of all devices are read off the total."""
    total = total_of(study, Ask("gram"), snapshots)
    width = 2 + study.width
    gram = np.zeros((width, width), dtype=object)
    gram[np.triu_indices(width)] = total
    gram = gram + np.triu(gram, 1).T
    signed = rows_of_gram(gram)
    read = {tuple(one if row[0] > 0 else -one for one in row) for row in signed}
    design = [np.hstack([study.design(one.codes), study.target.design(one.target)]) for one in snapshots]
    return len(read & {(1, *row) for row in np.vstack(design).tolist()})


@pytest.mark.parametrize(("rows", "width"), [(10, 18), (14, 28), (20, 44)])
def test_the_total_of_few_rows_is_the_rows(rows: int, width: int):
    """Without the rule: nothing was asked of the number of rows, and every row comes back."""
    study = wide_study(width)
    assert found_rows(study, dealt(study, wide_table(study, rows), 3)) == rows


def test_few_rows_are_refused_by_the_census_and_enough_are_not_found():
    study = wide_study(18)
    few = dealt(study, wide_table(study, 10), 3)
    assert census_of(study, few).objection() == (
        "training rows must be at least 38 in this study (least_rows), got fewer: ask more devices to join"
    )
    assert found_rows(study, dealt(study, wide_table(study, 38), 3)) == 0


# -- a finer grid than the others' unit tells who wrote finer

AGES = [float(age) for age in range(30, 80)]
FINER = 58.14


def total_of_ages(step: float) -> list[int]:
    """Nine sites write whole years, one site of one patient writes fractions."""
    study = Study("ages", (NumberColumn("age", (0.0, 110.0), step),), DAYS, 5000, 1000, 3, held_out=0.0)
    sites = [as_raw_table({"age": AGES, "days": [7.0] * len(AGES)})] * 9
    tables = [*sites, as_raw_table({"age": [FINER], "days": [7.0]})]
    return total_of(study, Ask("gram"), [take_snapshot(study, one, bytes(16)) for one in tables])


def test_a_grid_finer_than_the_unit_of_record_tells_who_wrote_finer():
    """Without the rule the digits behind the point are that site's alone."""
    assert total_of_ages(0.01)[1] % 100 == round(100 * FINER) % 100 == 14
    assert total_of_ages(1.0)[1] == 9 * sum(age - 55 for age in AGES) + (58 - 55)  # as if he had written 58


def test_a_study_says_the_unit_of_record():
    with pytest.raises(
        InvalidInput, match=r"^step of column 'age' must be said, got nothing: the unit that every site"
    ):
        NumberColumn("age", (0.0, 110.0))


# -- two means that differ by less than a step


def test_two_announced_means_less_than_a_step_apart_are_one_patient():
    """The old rule: whatever bound an announced mean has, rows at a boundary of the grid fall to the other side."""
    rng = np.random.default_rng(4)
    ages, stays = rng.integers(20, 90, 400) / 1.0, np.round(rng.gamma(2, 4, 400), 1)
    ages[17], stays[17] = 96.5, 17.3
    grid = FixedPoint.derive(Bounds(2.0**20, 60.0, 5000, 1000), n_features=1, n_devices=6)
    step = 2.0**-grid.feature_bits
    assert step > 1
    edge = 96.5 - step / 2  # he is at the boundary, and nobody else within a hundredth of a step
    totals = [
        float(grid.grid_features((ages - mean)[:, None])[:, 0] @ stays)
        for mean in (edge - step / 100, edge + step / 100)
    ]
    assert abs(totals[0] - totals[1]) == pytest.approx(17.3)


# -- few categorical cells, at a point that the server chooses

CELLS = Study(
    "cells",
    (
        CategoryColumn("sex", ("f", "m")),
        CategoryColumn("ward", ("a", "b", "c")),
        CategoryColumn("smokes", ("no", "yes")),
    ),
    ClassTarget("ill", ("no", "yes")),
    *(5000, 1000, 3),
    held_out=0.5,
    smallest_cell=2,
)
_WEIGHTS = np.array([1, 2, 4, 6])  # of m, b, c and yes: every cell has a number of its own, 0 to 11


def in_cells() -> list[Snapshot]:
    rng = np.random.default_rng(8)
    n = 300
    drawn = {"sex": rng.choice(["f", "m"], n), "ward": rng.choice(["a", "b", "c"], n, p=[0.6, 0.37, 0.03])}
    drawn |= {"smokes": rng.choice(["no", "yes"], n, p=[0.9, 0.1]), "ill": rng.choice(["no", "yes"], n)}
    return dealt(CELLS, as_raw_table(drawn))


def counted_at_one_point(snapshots: list[Snapshot], bins: int) -> list[int]:
    """A model whose score of a row is the number of its cell: the middle of a bin for each, if there are enough."""
    theta = np.zeros((5, 2))
    theta[0, 1], theta[1:, 1] = 2 * 0.5 / bins - 1, 2 * _WEIGHTS / bins
    return total_of(CELLS, Ask("score", (), theta.ravel()), snapshots)[4:]


def true_cells(snapshots: list[Snapshot]) -> Counter[tuple[int, int]]:
    """Held-out rows by class and cell."""
    kept = [one.part(held_out=True) for one in snapshots]
    return Counter(
        (int(ill), int(cell))
        for one in kept
        for ill, cell in zip(one.target, CELLS.design(one.codes) @ _WEIGHTS, strict=True)
    )


def test_a_hundred_bins_are_the_whole_cross_table(monkeypatch: pytest.MonkeyPatch):
    """The old rule: one point, and the class of every single person of a rare cell is read off."""
    snapshots = in_cells()
    monkeypatch.setattr(score, "BINS", 100)
    counts, truth = counted_at_one_point(snapshots, 100), true_cells(snapshots)
    read = {(place // 100, place % 100): count for place, count in enumerate(counts) if count}
    assert read == truth
    assert 1 in truth.values()


def test_ten_bins_are_no_cross_table_and_there_is_one_point():
    """Cells fall together. One cell can still be told from all others: THREAT_MODEL says so."""
    snapshots = in_cells()
    counts, truth = counted_at_one_point(snapshots, score.BINS), true_cells(snapshots)
    assert len(counts) == 2 * score.BINS < 2 * 12 and CELLS.most_points == 1
    last = score.BINS - 1
    assert counts[last] == sum(rows for (ill, cell), rows in truth.items() if ill == 0 and cell >= last)
    assert len({cell for _, cell in truth if cell >= last}) > 1
    assert replace(CELLS, points=2).digest() != CELLS.digest()  # more are for people to approve
