"""Random faults: the model is the exact one, or the run stops with a documented error and the last good model.

``CODEDFL_FAULT_SCHEDULES`` sets how many schedules are run (``make nightly``: 10 000). A failure names its seed;
``FaultyRun(seed)`` plays it again.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from faulty_run import FaultyRun

SCHEDULES = int(os.environ.get("CODEDFL_FAULT_SCHEDULES", "304"))
BLOCKS = 16  # as many tests, so that both cores have some


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_schedule_of_faults_corrupts_a_model_or_hangs(block: int):
    ends: Counter[str] = Counter()
    for seed in range(block, SCHEDULES, BLOCKS):
        run = FaultyRun(seed)
        try:
            ends[run.run()] += 1
        except Exception as error:
            story = "\n".join(run.log[-30:])
            raise AssertionError(f"seed {seed}, {run.setting}: {error!r}\n{story}") from error
    assert ends["exact"] > sum(ends.values()) / 2, ends  # schedules that end most runs early would test little


def test_a_schedule_is_repeatable():
    first, second = FaultyRun(3), FaultyRun(3)
    assert first.run() == second.run()
    assert first.log == second.log
    assert first.server.epoch == second.server.epoch


def test_the_schedules_do_what_they_say():
    """All faults occur, and all ends."""
    ends: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for seed in range(60):
        run = FaultyRun(seed)
        ends[run.run()] += 1
        faults.update(line.split()[0] for line in run.log)
    assert set(ends) == {"exact", "NotEnoughDevices", "WrongAnswers"}
    assert len([name for name in faults if not name.endswith(":")]) == 10
