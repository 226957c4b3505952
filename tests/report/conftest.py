"""Pages, tables and figures of runs: what they show is what was found, escaped, and without small counts.

Made-up runs are shared; their journals are closed when the test is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from growing_run import GrowingRun, NewRun


@pytest.fixture
def new_run(tmp_path: Path) -> Iterator[NewRun]:
    made: list[GrowingRun] = []

    def make(title: str = "days in hospital", **options: str) -> GrowingRun:
        made.append(GrowingRun(tmp_path, title, **options))
        return made[-1]

    yield make
    for run in made:
        run.close()
