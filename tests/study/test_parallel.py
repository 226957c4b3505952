"""Seeds side by side: outcomes in order, progress that never goes back, and an end at Ctrl-C."""

from __future__ import annotations

import threading

import pytest
from test_comparison import ENTRIES, settings

from codedfl.typing import Progress
from codedfl_lab.comparing import parallel
from codedfl_lab.comparing.comparison import Trained, seed_job, train_one
from codedfl_lab.comparing.parallel import in_parallel
from small_problems import digits


def job(value: int, gate: threading.Event | None = None):
    def run(progress: Progress) -> int:
        for part in (0.0, 0.5, 0.25, 1.0):
            progress(f"job {value}", part)
            if gate is not None:
                assert gate.wait(60)
        return value

    return run


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 2)


def test_outcomes_come_in_order_whoever_is_first():
    gate = threading.Event()

    def last(progress: Progress) -> int:
        gate.set()
        return 7

    assert list(in_parallel([job(1, gate), last, job(3)])) == [1, 7, 3]


def test_progress_never_goes_back():
    said: list[float] = []
    assert list(in_parallel([job(i) for i in range(5)], lambda what, part: said.append(part))) == list(range(5))
    assert said == sorted(said)
    assert said[-1] == 1.0


def test_a_caller_that_stops_ends_the_jobs_at_their_next_report():
    worker: list[threading.Thread] = []

    def endless(progress: Progress) -> int:
        worker.append(threading.current_thread())
        while True:
            progress("on and on", 0.5)

    outcomes = in_parallel([job(1), endless])
    assert next(outcomes) == 1
    outcomes.close()
    assert not any(thread.is_alive() for thread in worker)


def test_the_error_of_a_job_is_the_caller_s():
    def broken(progress: Progress) -> int:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        list(in_parallel([job(1), broken]))


def test_seeds_side_by_side_are_seeds_one_by_one():
    entries = ENTRIES[:3]
    jobs = [seed_job(lambda seed: digits(seed=seed), seed, entries, settings()) for seed in (0, 1, 2)]
    together = Trained.joined(list(in_parallel(jobs)))
    alone = Trained.joined([train_one(seed, digits(seed=seed), entries, settings()) for seed in (0, 1, 2)])
    assert together.seeds == alone.seeds
    for key, runs in alone.runs.items():
        assert [run.scores.tolist() for run in runs] == [run.scores.tolist() for run in together.runs[key]]
