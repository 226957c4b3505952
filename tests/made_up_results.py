"""Entries of results.json with chosen numbers, for tests of what reads them."""

from __future__ import annotations

from typing import Any

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
) -> dict[str, Any]:
    """One scheme at one target: alpha=, delta= or dropped= says which, none of them is conventional FL.

    ``speedups`` are smallest, median and largest.
    """
    parameter = next((name for name in NAMES if name in changes), None)
    low, middle, high = speedups or (None, None, None)
    made = {
        "dataset": dataset,
        "scheme": NAMES[parameter] if parameter else "conventional",
        "label": LABELS[parameter].format(changes[parameter]) if parameter else "conventional FL",
        "solver": "gd",
        "sharing": "authors",
        "step": "paper",
        "target_accuracy": target,
        "seeds": 2,
        "seeds_reached": 0 if seconds is None else 2,
        "epochs_to_target": _same(None if seconds is None else 10.0),
        "time_to_target_s": {**_same(seconds), "p5": seconds, "p95": seconds},
        "speedup_over_conventional": {
            "median": middle,
            "mean": middle,
            "min": low,
            "max": high,
            "seeds_compared": 0 if speedups is None else 2,
        },
        "sharing_s": 0.0,
        "epoch_s_mean": 2.0,
        "final_accuracy": _same(final),
        "private": parameter == "alpha",
    }
    return {**made, **changes}


def _same(value: float | None) -> dict[str, float | None]:
    return dict.fromkeys(("median", "mean", "min", "max"), value)
