"""What a comparison shows, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from codedfl.report.rows import by_time, entries_at, number, seconds, series_name, target_text


def conclusion(schemes: Sequence[Mapping[str, Any]], dataset: str, target: float, sharing: str, score: str) -> str:
    """The outcome in one sentence: who is first, by how much, what its server sees, who never gets there."""
    ranked = sorted(entries_at(schemes, target, sharing, "paper"), key=by_time)
    goal = f"{target_text(target, score)} on {dataset}"
    best = ranked[0]
    if _median(best) is None:
        return f"No scheme reaches {goal} in half of the seeds: take a lower target or more epochs."
    sentence = f"To {goal}, {_name(best)} is fastest with {seconds(_median(best))}"
    if best["scheme"] != "conventional":
        sentence += _gain_over_conventional(best, ranked)
    private = next(one for one in ranked if one["private"])
    if private is best:
        sentence += ", and its server sees only the total"
    elif _median(private) is None:
        sentence += "; no scheme whose server sees only the total gets there"
    else:
        ratio = number(_median(private) / _median(best))
        sentence += (
            f"; the fastest whose server sees only the total, {_name(private)}, takes"
            f" {seconds(_median(private))}, {ratio} times as long"
        )
    lost = [_name(one) for one in ranked if _median(one) is None and one["scheme"] != "conventional"]
    if lost:
        sentence += f"; {' and '.join(lost)} never {'gets' if len(lost) == 1 else 'get'} there"
    return sentence + "."


def _gain_over_conventional(best: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]]) -> str:
    plain = next(one for one in ranked if one["scheme"] == "conventional")
    if _median(plain) is None:
        return ", where conventional FL never gets"
    gain = number(best["speedup_over_conventional"]["median"])
    return f", {gain} times faster than conventional FL ({seconds(_median(plain))})"


def _name(entry: Mapping[str, Any]) -> str:
    """ "coded-keys (α = 23, CG)": commas of a label would be lost among those of a sentence."""
    scheme, _, parameters = series_name(entry).partition(", ")
    return f"{scheme} ({parameters})" if parameters else scheme


def _median(entry: Mapping[str, Any]) -> Any:
    """Seconds to the target; None if the median seed never gets there."""
    return entry["time_to_target_s"]["median"]
