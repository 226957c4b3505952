"""What the paper's section V says of its figures, each sentence as a function on a list of results.

The functions read rows as ``comparison`` makes them, and of these only the ones that were run as the paper ran
them: the authors' sharing formula, gradient descent, step "paper". A claim holds, fails, or cannot be judged because
an entry it needs is missing; the evidence has the numbers, or says what is missing. Times are medians over feature
seeds; a median seed that never reaches the target is infinitely late.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from codedfl.errors import InvalidInput
from codedfl.study import paper
from codedfl.study.paper import Experiment
from codedfl.study.results import Claim
from codedfl.study.results import SchemeResult as Row

_Verdict = tuple[bool, list[Row]] | None  # at one target, and on whose times; None where a row is missing

THIN = "\u202f"  # before a unit: never broken
SHUFFLED = " (shuffled)"
"""Suffix of the data set's name where the rows were spread over the devices at random instead of sorted."""

HEADLINE_TOLERANCE = 0.15  # of the paper's speed-up, which is "approximately" so and for one seed
SLIGHTLY = 1.5  # "slightly worse training time" is read as at most this many times as long
ACCURACY_TOLERANCE = 0.005  # half a point; less is not called a loss


def paper_claims(dataset: str, schemes: Sequence[Row], shuffled: Sequence[Row] = ()) -> list[Claim]:
    """Every claim of section V about one of the paper's data sets."""
    if dataset not in paper.EXPERIMENTS:
        raise InvalidInput(f"dataset must be one of {', '.join(paper.EXPERIMENTS)} (the paper's), got {dataset!r}")
    headline = paper.EXPERIMENTS[dataset]
    target = headline.headline_target
    claims = [headline_speedup(schemes, dataset, headline)]
    if dataset == "mnist":
        little, much = paper.DELTAS
        claims += [
            conventional_wins_below(schemes, dataset, 0.90),
            beats_coded_fedl(schemes, dataset, target, headline.alpha, little),
            slightly_slower_than_coded_fedl(schemes, dataset, target, headline.alpha, much),
        ]
    else:
        claims.append(smaller_alpha_wins_between(schemes, dataset, 0.80, target, paper.DEVICES))
    claims += [
        alpha_is_never_fastest(schemes, dataset, paper.ALPHAS[0]),
        alpha_never_beats_conventional(schemes, dataset, paper.ALPHAS[0]),
        best_alpha_changes(schemes, dataset),
    ]
    # None stands for "no such entry", so that the claim is listed as not judged rather than left out.
    counts: list[int | None] = [*_dropped_counts(schemes, dataset)]
    for dropped in counts or [None]:
        claims += [
            dropping_loses_accuracy_on_sorted(schemes, dataset, dropped),
            dropping_keeps_accuracy_on_shuffled(shuffled, dataset, dropped),
            coding_gains_over_dropping(schemes, dataset, dropped),
            coding_gains_over_dropping(shuffled, dataset + SHUFFLED, dropped),
        ]
    return claims


def headline_speedup(schemes: Iterable[Row], dataset: str, headline: Experiment) -> Claim:
    """The median lies within 15 % of the paper's value, and the paper's value within the spread over seeds."""
    statement = (
        f"coded-padded with α = {headline.alpha} is about {headline.speedup:g} times faster than conventional FL"
        f" (median within {_percent(HEADLINE_TOLERANCE)}, the paper's value within the spread over seeds)"
    )
    target = headline.headline_target
    entry = _Results(schemes, dataset).find("coded-padded", target, alpha=headline.alpha)
    if entry is None:
        return _missing(statement, dataset, target, f"coded-padded, α = {headline.alpha} at {_percent(target)}")
    speedup = entry.speedup_over_conventional
    if speedup.median is None or speedup.min is None or speedup.max is None:
        return _missing(statement, dataset, target, "a seed in which conventional FL reaches the target")
    near = abs(speedup.median / headline.speedup - 1) <= HEADLINE_TOLERANCE
    inside = speedup.min <= headline.speedup <= speedup.max
    evidence = (
        f"median {speedup.median:.2f}, {speedup.median / headline.speedup:.2f} of the paper's value,"
        f" {speedup.min:.2f} to {speedup.max:.2f} over {speedup.seeds_compared} of {entry.seeds} seeds"
    )
    return Claim(statement, dataset, target, near and inside, evidence)


def conventional_wins_below(schemes: Iterable[Row], dataset: str, limit: float) -> Claim:
    """Conventional FL takes less time than coded-padded with any alpha, at every target below ``limit``."""
    statement = f"conventional FL is faster than coded-padded with any α at targets below {_percent(limit)}"
    results = _Results(schemes, dataset)

    def judge(target: float) -> _Verdict:
        conventional, coded = results.find("conventional", target), results.fastest("coded-padded", target)
        if conventional is None or coded is None:
            return None
        return _time(conventional) < _time(coded), [conventional, coded]

    below = [target for target in results.targets if target < limit - 1e-9]
    missing = f"conventional FL and coded-padded at a target below {_percent(limit)}"
    return _at_every(below, judge, statement, dataset, limit, missing)


def beats_coded_fedl(schemes: Iterable[Row], dataset: str, target: float, alpha: int, delta: float) -> Claim:
    """Coded-padded takes less time than CodedFedL with little parity data."""
    statement = f"coded-padded with α = {alpha} is faster than CodedFedL with δ = {delta:g}"
    coded, fedl = _coded_and_fedl(schemes, dataset, target, alpha, delta)
    if coded is None or fedl is None:
        return _missing(statement, dataset, target, f"coded-padded, α = {alpha} and CodedFedL, δ = {delta:g}")
    return _compared(statement, dataset, target, coded, fedl, _time(coded) < _time(fedl))


def slightly_slower_than_coded_fedl(
    schemes: Iterable[Row], dataset: str, target: float, alpha: int, delta: float
) -> Claim:
    """Coded-padded takes more time than CodedFedL with much parity data, but not much more."""
    statement = (
        f"coded-padded with α = {alpha} is slightly slower than CodedFedL with δ = {delta:g}"
        f" (1 to {SLIGHTLY:g} times as long)"
    )
    coded, fedl = _coded_and_fedl(schemes, dataset, target, alpha, delta)
    if coded is None or fedl is None:
        return _missing(statement, dataset, target, f"coded-padded, α = {alpha} and CodedFedL, δ = {delta:g}")
    holds = _time(fedl) < _time(coded) <= SLIGHTLY * _time(fedl)
    return _compared(statement, dataset, target, coded, fedl, holds)


def _compared(statement: str, dataset: str, target: float, entry: Row, other: Row, holds: bool) -> Claim:
    """Two schemes at one target; not judged where neither gets there."""
    if math.isinf(_time(entry)) and math.isinf(_time(other)):
        return Claim(statement, dataset, target, None, f"neither {entry.label} nor {other.label} gets there")
    evidence = f"{_timed(entry)}, {_timed(other)}: {_ratio(entry, other)} times as long"
    return Claim(statement, dataset, target, holds, evidence)


def smaller_alpha_wins_between(
    schemes: Iterable[Row], dataset: str, low: float, high: float, replication: int
) -> Claim:
    """Some alpha < D takes less time than alpha = D and than conventional FL at every target in [low, high)."""
    statement = (
        f"from {_percent(low)} to below {_percent(high)} some α < {replication} is faster than"
        f" α = {replication} (replication) and than conventional FL"
    )
    results = _Results(schemes, dataset)

    def judge(target: float) -> _Verdict:
        conventional = results.find("conventional", target)
        whole = results.find("coded-padded", target, alpha=replication)
        parts = [e for e in results.of("coded-padded", target) if (e.alpha or 0) < replication]
        if conventional is None or whole is None or not parts:
            return None
        best = min(parts, key=_time)
        return _time(best) < min(_time(whole), _time(conventional)), [best, whole, conventional]

    between = [target for target in results.targets if low - 1e-9 <= target < high - 1e-9]
    missing = f"conventional FL, α = {replication} and a smaller α at a target in this range"
    return _at_every(between, judge, statement, dataset, high, missing)


def alpha_is_never_fastest(schemes: Iterable[Row], dataset: str, alpha: int) -> Claim:
    """At no target does this alpha take the least time of the schemes in the paper's figure."""
    statement = f"coded-padded with α = {alpha} is the fastest scheme at no target"
    results = _Results(schemes, dataset)

    def judge(target: float) -> _Verdict:
        own = results.find("coded-padded", target, alpha=alpha)
        in_figure = results.of(("conventional", "coded-padded", "coded-fedl"), target)
        others = [e for e in in_figure if e.alpha != alpha]
        if own is None or not others:
            return None
        best = min(others, key=_time)
        return _time(own) >= _time(best), [own, best]

    return _at_every(results.targets, judge, statement, dataset, None, f"coded-padded, α = {alpha} and another scheme")


def alpha_never_beats_conventional(schemes: Iterable[Row], dataset: str, alpha: int) -> Claim:
    """The paper's own words, and more than the above: this alpha is at no target faster than conventional FL."""
    statement = f"coded-padded with α = {alpha} is faster than conventional FL at no target"
    results = _Results(schemes, dataset)

    def judge(target: float) -> _Verdict:
        own, conventional = results.find("coded-padded", target, alpha=alpha), results.find("conventional", target)
        if own is None or conventional is None:
            return None
        return _time(own) >= _time(conventional), [own, conventional]

    return _at_every(results.targets, judge, statement, dataset, None, f"coded-padded, α = {alpha} and conventional FL")


def best_alpha_changes(schemes: Iterable[Row], dataset: str) -> Claim:
    """Different target accuracies have different fastest alphas."""
    statement = "the fastest α changes with the target"
    results = _Results(schemes, dataset)
    fastest: dict[float, int | None] = {}
    for target in results.targets:
        candidates = [e for e in results.of("coded-padded", target) if math.isfinite(_time(e))]
        if len(candidates) > 1:
            fastest[target] = min(candidates, key=_time).alpha
    if len(fastest) < 2:
        return _missing(statement, dataset, None, "coded-padded with two α that reach two targets")
    evidence = "; ".join(f"{_percent(target)}: α = {alpha}" for target, alpha in fastest.items())
    return Claim(statement, dataset, None, len(set(fastest.values())) > 1, evidence)


def dropping_loses_accuracy_on_sorted(schemes: Iterable[Row], dataset: str, dropped: int | None) -> Claim:
    """On data sorted by label, training without the slowest devices ends below conventional FL."""
    statement = f"{_dropping(dropped)} loses accuracy on sorted data (more than {100 * ACCURACY_TOLERANCE:g} points)"
    loss = _loss(schemes, dataset, dropped)
    if loss is None:
        return _missing(statement, dataset, None, "drop-slowest and conventional FL on sorted data")
    return Claim(statement, dataset, None, loss[0] > ACCURACY_TOLERANCE, loss[1])


def dropping_keeps_accuracy_on_shuffled(shuffled: Iterable[Row], dataset: str, dropped: int | None) -> Claim:
    """On shuffled data it ends as high as conventional FL."""
    statement = f"{_dropping(dropped)} loses no accuracy on shuffled data (at most {100 * ACCURACY_TOLERANCE:g} points)"
    loss = _loss(shuffled, dataset + SHUFFLED, dropped)
    if loss is None:
        return _missing(statement, dataset + SHUFFLED, None, "drop-slowest and conventional FL on shuffled data")
    return Claim(statement, dataset + SHUFFLED, None, loss[0] <= ACCURACY_TOLERANCE, loss[1])


def coding_gains_over_dropping(schemes: Iterable[Row], dataset: str, dropped: int | None) -> Claim:
    """The best alpha takes less time to the highest target both reach, and ends at least as high.

    Where dropping reaches no target that coding reaches, coding gains: never is later than any time.
    """
    statement = f"coding still gains over {_dropping(dropped)}, in time and without losing accuracy"
    results = _Results(schemes, dataset)
    pairs: list[tuple[float, Row, Row]] = []
    for target in results.targets:
        drop = results.find("drop-slowest", target, dropped=dropped)
        coded = results.fastest("coded-padded", target)
        if drop is not None and coded is not None:
            pairs.append((target, coded, drop))
    if not pairs:
        return _missing(statement, dataset, None, "drop-slowest and coded-padded")
    # The highest target both reach; failing that the highest that one does.
    target, coded, drop = max(pairs, key=lambda p: (math.isfinite(_time(p[1])) + math.isfinite(_time(p[2])), p[0]))
    higher = _final(coded) - _final(drop)
    evidence = (
        f"{_percent(target)}: {_timed(coded)}, {_timed(drop)}; final accuracy {_points(coded)} against {_points(drop)}"
    )
    return Claim(statement, dataset, target, _time(coded) < _time(drop) and higher >= -ACCURACY_TOLERANCE, evidence)


class _Results:
    """The rows of one data set that were run as the paper ran them."""

    def __init__(self, schemes: Iterable[Row], dataset: str) -> None:
        as_the_paper = (dataset, "authors", paper.STEP, "gd")
        self._rows = [
            e for e in schemes if (e.dataset, e.sharing, e.step, e.solver) == as_the_paper and e.reason is None
        ]
        self.targets = sorted({e.target_accuracy for e in self._rows})

    def of(self, names: str | tuple[str, ...], target: float | None = None) -> list[Row]:
        wanted = (names,) if isinstance(names, str) else names
        return [
            e for e in self._rows if e.scheme in wanted and (target is None or math.isclose(e.target_accuracy, target))
        ]

    def find(self, name: str, target: float, **parameters: float | None) -> Row | None:
        wanted = parameters.items()
        return next((e for e in self.of(name, target) if all(e.parameters.get(k) == v for k, v in wanted)), None)

    def fastest(self, name: str, target: float) -> Row | None:
        return min(self.of(name, target), key=_time, default=None)


def _at_every(
    targets: Iterable[float],
    judge: Callable[[float], _Verdict],
    statement: str,
    dataset: str,
    target_accuracy: float | None,
    missing: str,
) -> Claim:
    """A claim that must hold at each of the targets that can be judged; those that no scheme reaches say nothing."""
    verdicts: list[bool] = []
    evidence: list[str] = []
    for target in targets:
        verdict = judge(target)
        if verdict is not None and any(math.isfinite(_time(entry)) for entry in verdict[1]):
            verdicts.append(verdict[0])
            evidence.append(f"{_percent(target)}: {', '.join(map(_timed, verdict[1]))}")
    if not verdicts:
        return _missing(statement, dataset, target_accuracy, missing)
    return Claim(statement, dataset, target_accuracy, all(verdicts), "; ".join(evidence))


def _coded_and_fedl(
    schemes: Iterable[Row], dataset: str, target: float, alpha: int, delta: float
) -> tuple[Row | None, Row | None]:
    results = _Results(schemes, dataset)
    return results.find("coded-padded", target, alpha=alpha), results.find("coded-fedl", target, delta=delta)


def _dropped_counts(schemes: Iterable[Row], dataset: str) -> list[int]:
    return sorted({int(e.parameters["dropped"]) for e in _Results(schemes, dataset).of("drop-slowest")})


def _dropping(dropped: int | None) -> str:
    return "dropping the slowest" if dropped is None else f"dropping the slowest {dropped}"


def _loss(schemes: Iterable[Row], dataset: str, dropped: int | None) -> tuple[float, str] | None:
    """Accuracy that dropping loses against conventional FL, and the sentence that says so."""
    results = _Results(schemes, dataset)
    for target in reversed(results.targets):
        drop, conventional = results.find("drop-slowest", target, dropped=dropped), results.find("conventional", target)
        if drop is not None and conventional is not None:
            loss = _final(conventional) - _final(drop)
            evidence = (
                f"final accuracy {_points(drop)}, conventional FL {_points(conventional)};"
                f" {_percent(target)} reached in {drop.seeds_reached} and {conventional.seeds_reached}"
                f" of {drop.seeds} seeds"
            )
            return loss, evidence
    return None


def _missing(statement: str, dataset: str, target: float | None, what: str) -> Claim:
    return Claim(statement, dataset, target, None, f"missing: {what} (sharing authors, step paper, solver gd)")


def _time(entry: Row) -> float:
    median = entry.time_to_target_s.median
    return math.inf if median is None else float(median)


def _timed(entry: Row) -> str:
    seconds = _time(entry)
    text = (
        "never" if math.isinf(seconds) else f"in {seconds:.0f}{THIN}s" if seconds >= 100 else f"in {seconds:.3g}{THIN}s"
    )
    return f"{entry.label} {text}"


def _ratio(entry: Row, other: Row) -> str:
    if math.isinf(_time(other)):
        return "0"
    return f"{_time(entry) / _time(other):.2f}"


def _final(entry: Row) -> float:
    """Median over seeds; a row that ran has one."""
    assert entry.final_accuracy.median is not None
    return entry.final_accuracy.median


def _points(entry: Row) -> str:
    return f"{100 * _final(entry):.1f}{THIN}%"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.4g}{THIN}%"
