"""What a run pays for its journal and for somebody who looks on: the same simulated training with and without.

``python -m experiments.watch_cost``: alternating trainings of one problem (digits, 25 devices, role keys, conjugate
gradient), the median processor time of each kind and their ratio; then what one event costs, and one look at all.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from codedfl import RoleKeys
from codedfl.data.problem import make_problem
from codedfl.protocol.server_events import Answered
from codedfl.report.run_state import RunState
from codedfl.run.event_log import EVENTS_FILE, EventLog, begun
from codedfl.run.virtual_watch import VirtualWatch
from codedfl.solve.krylov import ConjugateGradient
from codedfl_lab import Fleet, datasets
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.costs.times import Conditions

DEVICES, FEATURES, EPOCHS, ROUNDS, EVENTS = 25, 500, 50, 7, 20_000


def main() -> None:
    problem = make_problem(datasets.load("digits"), n_devices=DEVICES, n_features=FEATURES, partition_name="sorted")
    scheme, at = RoleKeys.default_for(DEVICES), Conditions(Fleet.load("paper").scaled_to(DEVICES))
    what = begun(
        "digits",
        scheme,
        DEVICES,
        solver="cg",
        epochs=EPOCHS,
        target=None,
        score_name="accuracy",
        n_features=FEATURES,
        n_outputs=problem.n_outputs,
    )
    taken: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for turn in range(2 * ROUNDS + 2):
            watched = bool(turn % 2)
            began = time.process_time()
            watch = VirtualWatch(folder, what) if watched else None
            with watch or nullcontext():
                simulate(scheme, problem, ConjugateGradient(EPOCHS, 1e-6), at, np.random.default_rng(1), watch=watch)
            if turn > 1:  # the first two warm up
                taken[watched].append(time.process_time() - began)
        plain, seen = (statistics.median(taken[watched]) for watched in (False, True))
        lines = len((folder / EVENTS_FILE).read_text(encoding="utf-8").splitlines())
        log = EventLog(folder / EVENTS_FILE, "virtual", 0.0, anew=True)
        began = time.process_time()
        for index in range(EVENTS):
            log.note(float(index), Answered("device-1", index, 1000))
        each = (time.process_time() - began) / EVENTS
        log.close()
        state = RunState(folder)
        began = time.process_time()
        state.look()
        look = time.process_time() - began
    print(f"without a log {plain:.3f} s, with one of {lines} lines {seen:.3f} s: {seen / plain:.4f} times as long")
    print(f"one event {1e6 * each:.1f} µs, {lines} of them {100 * lines * each / plain:.2f} % of the run")
    print(f"a first look at {EVENTS} events {1e3 * look:.0f} ms, in the process of codedfl watch")


if __name__ == "__main__":
    main()
