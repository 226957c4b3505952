"""What a comparison shows, in a few sentences."""

from __future__ import annotations

from collections.abc import Sequence

from codedfl.report.text import number, seconds
from codedfl_lab.comparing.names import name_in_sentence
from codedfl_lab.comparing.results import SchemeResult
from codedfl_lab.report.leaders import BASELINE
from codedfl_lab.report.rows import by_time, entries_at, kinds, listed, split_of_gain, target_text, times_faster


def conclusion(schemes: Sequence[SchemeResult], dataset: str, target: float, score: str) -> str:
    """Who is first, by how much and why, what its server sees, who never gets there; the table says who cannot run."""
    entries = entries_at(schemes, target, *kinds(schemes)[0])
    ranked = sorted((one for one in entries if one.reason is None), key=by_time)
    goal = f"{target_text(target, score)} on {dataset}"
    shortest = _median(ranked[0]) if ranked else None
    if shortest is None:
        return f"No scheme reaches {goal} in half of the seeds: take a lower target or more epochs."
    return _race(ranked, goal, shortest)


def _race(ranked: Sequence[SchemeResult], goal: str, shortest: float) -> str:
    best = ranked[0]
    sentence = f"To {goal}, {name_in_sentence(best)} is fastest with {seconds(shortest)}"
    if best.scheme != BASELINE:
        sentence += _gain_over_conventional(best, ranked)
    private = next((one for one in ranked if one.private), None)
    privately = None if private is None else _median(private)
    if private is best:
        sentence += ", and its server sees only the total"
    elif private is None or privately is None:
        sentence += "; no scheme whose server sees only the total gets there"
    else:
        ratio = number(privately / shortest)
        sentence += (
            f"; the fastest whose server sees only the total, {name_in_sentence(private)}, takes"
            f" {seconds(privately)}, {ratio} times as long"
        )
    lost = [name_in_sentence(one) for one in ranked if _median(one) is None and one.scheme != BASELINE]
    if lost:
        sentence += f"; {listed(lost)} never {'gets' if len(lost) == 1 else 'get'} there"
    return sentence + "."


def _gain_over_conventional(best: SchemeResult, ranked: Sequence[SchemeResult]) -> str:
    plain = next((one for one in ranked if one.scheme == BASELINE), None)
    if plain is None:
        return ""
    if _median(plain) is None:
        return f", where conventional FL {'gets in few seeds' if plain.seeds_reached else 'never gets'}"
    gain = times_faster(best.speedup_over_conventional.median or 1.0)
    return f", {gain} than conventional FL with its {seconds(_median(plain))}{split_of_gain(best)}"


def _median(entry: SchemeResult) -> float | None:
    """Seconds to the target; None if the median seed never gets there."""
    return entry.time_to_target_s.median
