"""Every row on one device, no device without rows, and the shape each partition promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codedfl_lab.problems.partition import (
    PARTITIONS,
    at_random,
    by_device_column,
    by_dirichlet,
    by_sorted_label,
    partition,
)


def is_a_partition(parts: list[np.ndarray], n: int) -> bool:
    return all(len(part) for part in parts) and sorted(np.concatenate(parts).tolist()) == list(range(n))


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.data())
def test_sorted_parts_are_equal_and_in_order(labels: list[int], data: st.DataObject) -> None:
    D = data.draw(st.integers(1, len(labels)))
    y = np.array(labels)
    parts = by_sorted_label(y, D)
    assert len(parts) == D
    assert is_a_partition(parts, len(y))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    # Stable: rows of one label keep their order, so pairs (label, row) come out sorted.
    order = np.concatenate(parts).tolist()
    assert [(labels[i], i) for i in order] == sorted((label, i) for i, label in enumerate(labels))


def test_the_papers_split() -> None:
    y = np.arange(60_000) % 10
    parts = by_sorted_label(y, 25)
    assert {len(part) for part in parts} == {2400}
    assert max(len(np.unique(y[part])) for part in parts) == 2


def test_text_and_targets_sort_too() -> None:
    assert [part.tolist() for part in by_sorted_label(np.array(["b", "a", "b"]), 2)] == [[1, 0], [2]]
    assert [part.tolist() for part in by_sorted_label(np.array([0.5, -1.0]), 2)] == [[1], [0]]


@given(st.integers(1, 60), st.data())
def test_random_parts_are_equal(n: int, data: st.DataObject) -> None:
    D = data.draw(st.integers(1, n))
    parts = at_random(n, D, np.random.default_rng(0))
    assert len(parts) == D
    assert is_a_partition(parts, n)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("concentration", [0.3, 1.0, 1e6])
def test_dirichlet_is_a_partition(concentration: float) -> None:
    y = np.arange(1000) % 10
    parts = by_dirichlet(y, 8, concentration, np.random.default_rng(3))
    assert len(parts) == 8
    assert is_a_partition(parts, 1000)


def test_dirichlet_goes_from_alike_to_apart() -> None:
    y = np.arange(4000) % 10

    def largest_share(concentration: float) -> float:
        parts = by_dirichlet(y, 4, concentration, np.random.default_rng(0))
        counts = np.array([np.bincount(y[part], minlength=10) for part in parts])
        return float((counts.max(axis=0) / counts.sum(axis=0)).mean())

    assert largest_share(1e6) == pytest.approx(0.25, abs=0.01)
    assert largest_share(0.01) > 0.9


def test_dirichlet_that_cannot_fill_all_devices_gives_up() -> None:
    message = (
        r"^concentration must leave no device of 20 without rows, got 1e-06, "
        r"which did in each of 100 draws; take a larger one or fewer devices$"
    )
    with pytest.raises(ValueError, match=message):
        by_dirichlet(np.arange(100) % 2, 20, 1e-6, np.random.default_rng(0))


@pytest.mark.parametrize("concentration", [0.0, -1.0, float("nan"), float("inf"), None])
def test_dirichlet_refuses_other_concentrations(concentration: float | None) -> None:
    with pytest.raises(ValueError, match=rf"^concentration must be a positive number, got {concentration}$"):
        by_dirichlet(np.arange(4), 2, concentration, np.random.default_rng(0))


def test_dirichlet_refuses_targets() -> None:
    with pytest.raises(ValueError, match=r"^y must hold classes for a Dirichlet partition, got float64 targets$"):
        by_dirichlet(np.array([0.5, 1.5]), 2, 1.0, np.random.default_rng(0))


def test_the_device_column_decides() -> None:
    parts = by_device_column(np.array(["phone", "car", "phone"]))
    assert [part.tolist() for part in parts] == [[1], [0, 2]]
    with pytest.raises(ValueError, match=r"^ids must name the device of each row, got None"):
        by_device_column(None)


@pytest.mark.parametrize("name", ["sorted", "random", "dirichlet"])
def test_too_many_or_no_devices(name: str) -> None:
    y, rng = np.array([0, 1, 0]), np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"^D must be at most the number of rows \(3\), or a device has none, got 4$"):
        partition(name, y, 4, rng, concentration=1.0)
    with pytest.raises(ValueError, match=r"^D must be at least 1, got 0$"):
        partition(name, y, 0, rng, concentration=1.0)


def test_by_name_is_the_same() -> None:
    y = np.arange(12) % 3

    def rng() -> np.random.Generator:
        return np.random.default_rng(5)

    expected = {
        "sorted": by_sorted_label(y, 3),
        "random": at_random(12, 3, rng()),
        "dirichlet": by_dirichlet(y, 3, 0.5, rng()),
        "device": by_device_column(y),
    }
    assert set(expected) == set(PARTITIONS)
    for name, parts in expected.items():
        got = partition(name, y, 3, rng(), concentration=0.5, ids=y)
        assert [part.tolist() for part in got] == [part.tolist() for part in parts]
    with pytest.raises(ValueError, match=r"^partition must be one of sorted, dirichlet, random, device, got 'iid'$"):
        partition("iid", y, 3, rng())
