"""Settings for all tests. Being here also puts this folder on the path, for ``oracle`` and ``scenario``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from codedfl.errors import DataUnavailable
from codedfl_lab.datasets import fetch_dataset

# No deadline: the first call of a kernel may compile it. The same examples in every run: a red suite stays red until
# it is mended, and nothing is green by luck.
settings.register_profile("codedfl", deadline=None, max_examples=50, derandomize=True, database=None)
settings.load_profile("codedfl")

# These repeat what others test, thousands of times or with Python integers: tracing every line of that would take
# longer than the tests themselves, and shows no line that the others do not reach.
REPETITIONS = ("attacks", "claims", "experiments", "faults", "fuzz")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in REPETITIONS:
            item.add_marker("no_cover")
    # The longest first, so that nobody waits for it at the end; the order of the others stays.
    items.sort(key=lambda item: item.get_closest_marker("deployment") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``mnist`` want the files of both data sets, which not every machine has."""
    if item.get_closest_marker("mnist") is not None:
        try:
            for name in ("mnist", "fashion-mnist"):
                fetch_dataset(name, use_network=bool(os.environ.get("CODEDFL_FETCH")))
        except DataUnavailable as unavailable:
            pytest.skip(f"{str(unavailable).splitlines()[0]}: set CODEDFL_DATA, or CODEDFL_FETCH=1 to fetch them")


@pytest.fixture
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for the disk is most of the time that tests of runs with state take."""
    monkeypatch.setattr("os.fsync", lambda handle: None)
