"""The Gram matrix in integers: the same bits however rows are dealt out, and those of Python's own integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from codedfl.contract.snapshot import Snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.errors import InvalidInput
from codedfl.statistics.gram import Gram, gram_triangle
from codedfl.statistics.statistic import Ask
from codedfl.sum.layout import Layout
from totals import total_of
from wording import exactly


def wide_study(steps: int = 2**24, max_rows: int = 20_000) -> Study:
    """Columns of every kind; one takes 24 bits."""
    columns = (
        NumberColumn("fine", (0.0, float(steps)), 1.0),
        NumberColumn("gaps", (-5.0, 5.0), 0.5, missing=3.0),
        CategoryColumn("ward", ("a", "b", "c")),
    )
    return Study("wide", columns, NumberTarget("y", (-2.0, 2.0), 2.0**-14), max_rows, max_rows, 3)


def made_up(study: Study, n: int, seed: int = 0) -> Snapshot:
    rng = np.random.default_rng(seed)
    fine, _, _ = study.columns
    # The ends of the range among them: products are as large as they can be.
    codes = np.column_stack(
        (
            rng.choice([0, fine.grid.n_steps, fine.grid.n_steps // 3, 17], n),
            rng.integers(-1, 21, n),
            rng.integers(0, 3, n),
        )
    )
    return Snapshot(study.digest(), codes, rng.integers(0, 2**16 + 1, n), rng.random(n) < 0.2)


def parts_of(rows: Snapshot, places: list[np.ndarray]) -> list[Snapshot]:
    return [
        replace(rows, codes=rows.codes[one], target=rows.target[one], held_out=rows.held_out[one]) for one in places
    ]


def oracle(study: Study, rows: Snapshot) -> list[int]:
    """By hand, on the codes, in Python's integers."""
    fine, gaps, _ = study.columns
    found = []
    for chosen in (~rows.held_out, rows.held_out):
        sums: dict[tuple[int, int], int] = {}
        for (a, b, ward), y in zip(rows.codes[chosen].tolist(), rows.target[chosen].tolist(), strict=True):
            filled = 16 if b == -1 else b  # 3.0 is the 16th half from -5 on
            z = [
                1,
                a - fine.grid.n_steps // 2,
                filled - gaps.grid.n_steps // 2,
                int(b == -1),
                int(ward == 1),
                int(ward == 2),
            ]
            z.append(y - 2**15)
            for i in range(len(z)):
                for j in range(i, len(z)):
                    sums[i, j] = sums.get((i, j), 0) + z[i] * z[j]
        found += [sums[key] for key in sorted(sums)]
    return found


@pytest.mark.parametrize(("steps", "n_primes"), [(2**24, 3), (1000, 2)])
def test_the_total_is_that_of_python_integers(steps: int, n_primes: int):
    study = wide_study(steps)
    rows = made_up(study, 3000)
    layout = Layout.of_vector(1, Gram(study).limit)
    assert (layout.words * layout.bits > 48) == (n_primes == 3)
    expected = oracle(study, rows)
    assert max(map(abs, expected)) > (2**53 if n_primes == 3 else 2**39)
    assert total_of(study, Ask("gram"), [rows]) == expected


@pytest.mark.parametrize("seed", range(3))
def test_moving_rows_between_devices_changes_no_bit(seed: int):
    study = wide_study()
    rows = made_up(study, 1000)
    rng = np.random.default_rng(seed)
    whole = total_of(study, Ask("gram"), [rows])
    cuts = np.sort(rng.integers(0, 1001, 5))  # a device may have one row, or none
    dealt = np.split(rng.permutation(1000), cuts)
    assert total_of(study, Ask("gram"), parts_of(rows, dealt)) == whole
    moved = [np.append(dealt[0], dealt[-1][:3]), *dealt[1:-1], dealt[-1][3:]]
    assert total_of(study, Ask("gram"), parts_of(rows, moved)) == whole


def test_blocks_of_every_length(monkeypatch: pytest.MonkeyPatch):
    Z = np.random.default_rng(1).integers(-(2**23), 2**23, (400, 3))
    exact = [sum(int(a) * int(b) for a, b in zip(Z[:, i], Z[:, j], strict=True)) for i in range(3) for j in range(i, 3)]
    for block in (1, 7, 128, 129, 4096):
        monkeypatch.setattr("codedfl.statistics.gram._BLOCK", block)
        assert gram_triangle(Z).tolist() == exact
    assert not gram_triangle(Z[:0]).any()
    with pytest.raises(InvalidInput, match=exactly(f"columns must be below 2^26 in size, got {2**27}")):
        gram_triangle(np.array([[2**27]]))


def test_classes_send_nothing_of_held_out_rows():
    study = replace(wide_study(1000), target=ClassTarget("y", ("no", "yes")))
    rows = made_up(wide_study(1000), 500)
    rows = replace(rows, target=rows.target % 2)
    assert Gram(study).length == 8 * 9 // 2
    total = total_of(study, Ask("gram"), [rows])
    assert total == total_of(study, Ask("gram"), [rows.part(False)])
    assert total[6] + total[7] == total[0] == int((~rows.held_out).sum())


def test_merged_levels_are_added_up_on_the_device():
    study = wide_study(1000)
    rows = made_up(study, 300)
    plain = total_of(study, Ask("gram"), [rows])
    merged = total_of(study, Ask("gram", ((), (0,), (1, 2), (), ())), [rows])
    assert len(merged) == 2 * 15
    assert merged[:3] == plain[:3]  # rows, and the sums of both numbers
    assert merged[3] == plain[4] + plain[5]
