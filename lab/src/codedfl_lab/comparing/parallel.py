"""Feature seeds side by side: each has a thread, and a share of the cores for its linear algebra.

Most of the time goes to products that release Python's lock; two threads with one core each keep both cores busier
than one thread whose products use two. Nothing depends on how many run at once: every job draws from its own seed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

from codedfl.typing import Progress

T = TypeVar("T")

Job = Callable[[Progress], T]
"""Called with where to report what it is doing and which fraction of itself is over."""

MOST_AT_ONCE = 2  # a problem of the paper's size takes two gigabytes


class _Stopped(Exception):
    """Ends a job whose outcome nobody waits for any more."""


def jobs_at_once(count: int) -> int:
    """How many of ``count`` jobs run side by side."""
    return max(1, min(count, MOST_AT_ONCE, os.cpu_count() or 1))


def in_parallel(jobs: Sequence[Job[T]], progress: Progress | None = None) -> Iterator[T]:
    """The outcomes in the order of the jobs, each as soon as it and those before it are there.

    When the caller stops early (Ctrl-C) the jobs end at their next report.
    """
    workers = jobs_at_once(len(jobs))
    shared = _SharedProgress(progress, len(jobs))
    cores = max(1, (os.cpu_count() or 1) // workers)
    with threadpool_limits(limits=cores if workers > 1 else None), ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(job, shared.of_job(index)) for index, job in enumerate(jobs)]
        try:
            for future in futures:
                yield future.result()
        finally:
            shared.stopped = True
            pool.shutdown(wait=True, cancel_futures=True)


class _SharedProgress:
    """The progress of the whole: the mean of all jobs'. Never goes back."""

    def __init__(self, progress: Progress | None, count: int) -> None:
        self._progress = progress
        self._parts = [0.0] * count
        self._lock = threading.Lock()
        self.stopped = False  # jobs then end at their next report

    def of_job(self, index: int) -> Progress:
        def report(what: str, fraction: float) -> None:
            with self._lock:
                if self.stopped:
                    raise _Stopped
                self._parts[index] = max(fraction, self._parts[index])
                if self._progress is not None:
                    self._progress(what, sum(self._parts) / len(self._parts))

        return report
