"""Results with chosen numbers, for tests of what judges and shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from codedfl_lab.comparing.results import Results, SchemeResult, Speedups, Summary, Times, Took, TraceRow
from codedfl_lab.comparing.timed_scheme import TimedScheme

LABELS = {"alpha": "coded-padded, α = {}", "delta": "CodedFedL, δ = {}", "dropped": "dropping the slowest {}"}
NAMES = {"alpha": "coded-padded", "delta": "coded-fedl", "dropped": "drop-slowest"}


def entry(
    target: float,
    seconds: float | None,
    *,
    dataset: str = "mnist",
    speedups: tuple[float, float, float] | None = None,
    final: float = 0.95,
    **changes: Any,
) -> SchemeResult:
    """One scheme at one target: alpha=, delta= or dropped= says which, none of them is conventional FL.

    ``speedups`` are smallest, median and largest; other ``changes`` are fields of the row.
    """
    parameter = next((name for name in NAMES if name in changes), None)
    parameters = {} if parameter is None else {parameter: changes.pop(parameter)}
    low, middle, high = speedups or (None, None, None)
    made = SchemeResult(
        dataset=dataset,
        scheme=NAMES[parameter] if parameter else "conventional",
        label=LABELS[parameter].format(parameters[parameter]) if parameter else "conventional FL",
        parameters=parameters,
        solver="gd",
        sharing="authors",
        step="paper",
        target_accuracy=target,
        seeds=2,
        seeds_reached=0 if seconds is None else 2,
        epochs_to_target=same(None if seconds is None else 10.0),
        time_to_target_s=Times(seconds, seconds, seconds, seconds, seconds, seconds),
        speedup_over_conventional=Speedups(middle, middle, low, high, 0 if speedups is None else 2),
        sharing_s=0.0,
        epoch_s_mean=2.0,
        final_accuracy=same(final),
        private=parameter == "alpha",
    )
    return replace(made, **changes)


def timed(
    target: float, seconds: float | Sequence[float | None] | None, *, finals: Sequence[float] = (), **changes: Any
) -> SchemeResult:
    """``entry`` with the seconds behind it: one for all of three seeds, or one a seed; None is never."""
    of_seed = seconds if isinstance(seconds, Sequence) else [seconds] * 3
    found = np.array([np.inf if one is None else one for one in of_seed])
    median = float(np.median(found))
    row = entry(target, median if np.isfinite(median) else None, **changes)
    row = replace(row, seeds=len(found), seeds_reached=int(np.isfinite(found).sum()))
    assert row.final_accuracy.median is not None
    final = np.array(finals or [row.final_accuracy.median] * len(found))
    final_accuracy = same(float(np.median(final)))
    return replace(row, final_accuracy=final_accuracy, seconds=np.repeat(found[:, None], 4, axis=1), final=final)


def same(value: float | None) -> Summary:
    return Summary(value, value, value, value)


def made_up_timed(**changes: Any) -> TimedScheme:
    """Coded keys in five groups on 120 devices."""
    made = TimedScheme(
        scheme="coded-keys",
        label="coded-keys, α = 24, 5 groups",
        solver="cg",
        epochs=20,
        seconds_mean=30.0,
        seconds_p5=28.0,
        seconds_p95=33.0,
        sharing_seconds=10.0,
        epoch_seconds=1.0,
        upload_bytes=12.2e6,
        download_bytes=2e6,
        macs=1e9,
        memory_bytes=16e6,
        stragglers=22,
        server_sees="the total only",
        gram_directions=200,
        n_features=2000,
        exposed_to_server=0,
        exposed_by_one=22,
        exposed_by_two=23,
        colluders=0,
        parameters={"alpha": 24, "groups": 5},
    )
    return replace(made, **changes)


def made_up_results(schemes: Iterable[SchemeResult], **changes: Any) -> Results:
    """Two seeds on the paper's fleet; the headline is the last target of the rows."""
    rows = tuple(schemes)
    targets = tuple(sorted({row.target_accuracy for row in rows}))
    made = Results(
        name="mnist",
        title="MNIST",
        dataset="mnist",
        command="codedfl lab reproduce mnist",
        fleet="paper",
        n_devices=25,
        n_features=2000,
        seeds=(0, 1),
        draws=200,
        score_name="accuracy",
        schemes=rows,
        seconds=Took(200.0, 150.0),
        versions={"codedfl": "0.1.0"},
        targets=targets,
        headline_target=targets[-1] if targets else None,
    )
    return replace(made, **changes)


def trace(row: SchemeResult, seed: int, epoch: int, seconds: float, accuracy: float) -> TraceRow:
    return TraceRow(row.dataset, row.label, row.scheme, row.solver, row.step, seed, epoch, seconds, accuracy)
