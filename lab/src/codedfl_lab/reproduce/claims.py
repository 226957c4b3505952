"""What the paper's section V says of its figures, each sentence as a function on timed rows.

The functions read rows as ``comparison`` makes them: those of one sharing convention, which is the same for all
schemes, with gradient descent and the step "paper". Schemes are compared seed by seed and draw by draw (``paired``),
and the whole interval decides. A claim that one is faster *holds* where the interval of the ratio lies above 1,
*fails* where it lies below, and is a *tie* where it has 1 in it. A claim about all targets is worth its worst target, a
claim that some scheme is faster its best one. With a row missing, or fewer than three seeds, it is *not judged*. The
evidence has the numbers, or says what is missing; the seconds in it are medians over seeds, and a seed that never
reaches the target is infinitely late.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from codedfl.errors import InvalidInput
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.paired import Interval, difference, times_faster
from codedfl_lab.comparing.paper import Experiment
from codedfl_lab.comparing.results import Claim, SchemeResult, Verdict

THIN = "\u202f"  # before a unit: never broken
SHUFFLED = " (shuffled)"
"""Suffix of the data set's name where the rows were spread over the devices at random instead of sorted."""

HEADLINE_TOLERANCE = 0.15  # as a part of the paper's speed-up, which is "approximately" so and for one seed
SLIGHTLY = 1.5  # "slightly worse training time" is read as at most this many times as long
ACCURACY_TOLERANCE = 0.005  # half a point; less is not called a loss

_RANK: dict[Verdict, int] = {"fails": 0, "not judged": 1, "tie": 2, "holds": 3}
"""All of several are worth the least, some of several the most."""


@dataclass(frozen=True)
class _Found:
    """What one comparison says of a claim: the verdict, the ratio it rests on, and both in words."""

    verdict: Verdict
    ratio: float
    words: str

    @property
    def rank(self) -> tuple[int, float]:
        return _RANK[self.verdict], self.ratio

    @property
    def denied(self) -> _Found:
        """These numbers, for the claim that it is not so."""
        return replace(self, verdict=_denied(self.verdict))


def paper_claims(dataset: str, schemes: Sequence[SchemeResult], shuffled: Sequence[SchemeResult] = ()) -> list[Claim]:
    """Every claim of section V about the times on one of the paper's data sets; the rows are of one convention.

    Paper: V. Shown by ``codedfl lab reproduce all``.
    """
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
    return [
        *claims,
        alpha_is_never_fastest(schemes, dataset, paper.ALPHAS[0]),
        alpha_never_beats_conventional(schemes, dataset, paper.ALPHAS[0]),
        best_alpha_changes(schemes, dataset),
        coding_gains_over_dropping(schemes, dataset, paper.DROPPED),
        coding_gains_over_dropping(shuffled, dataset + SHUFFLED, paper.DROPPED),
    ]


def accuracy_claims(
    dataset: str, schemes: Sequence[SchemeResult], shuffled: Sequence[SchemeResult] = ()
) -> list[Claim]:
    """What section V implies of dropping, whatever anything takes: no convention of time is in it."""
    return [
        dropping_loses_accuracy_on_sorted(schemes, dataset, paper.DROPPED),
        dropping_keeps_accuracy_on_shuffled(shuffled, dataset, paper.DROPPED),
    ]


def headline_speedup(schemes: Iterable[SchemeResult], dataset: str, headline: Experiment) -> Claim:
    """The whole interval lies within 15 % of the paper's value; it fails where the whole interval lies outside."""
    statement = (
        f"coded-padded with α = {headline.alpha} is about {headline.speedup:g} times faster than conventional FL"
        f" (within {_percent(HEADLINE_TOLERANCE)})"
    )
    target = headline.headline_target
    results = _Results(schemes, dataset)
    coded, conventional = (
        results.find("coded-padded", target, alpha=headline.alpha),
        results.find("conventional", target),
    )
    if coded is None or conventional is None:
        return _missing(statement, dataset, target, f"coded-padded, α = {headline.alpha} and conventional FL")
    faster = times_faster(coded.seconds, conventional.seconds)
    low, high = ((1 + sign * HEADLINE_TOLERANCE) * headline.speedup for sign in (-1, 1))
    evidence = (
        f"{_seconds_of(coded, conventional)}: {_ratio(faster)} times faster,"
        f" {_ratio(faster, headline.speedup)} of the paper's value"
    )
    return Claim(statement, dataset, target, _all(_above(faster, low), _denied(_above(faster, high))), evidence)


def conventional_wins_below(schemes: Iterable[SchemeResult], dataset: str, limit: float) -> Claim:
    """Conventional FL takes less time than coded-padded with any alpha, at every target below ``limit``."""
    statement = f"conventional FL is faster than coded-padded with any α at targets below {_percent(limit)}"
    results = _Results(schemes, dataset)

    def judge(target: float) -> _Found | None:
        conventional, coded = results.find("conventional", target), results.of("coded-padded", target)
        return None if conventional is None else _worst([_faster(conventional, one) for one in coded])

    below = [target for target in results.targets if target < limit - 1e-9]
    missing = f"conventional FL and coded-padded at a target below {_percent(limit)}"
    return _at_every(below, judge, statement, dataset, limit, missing)


def beats_coded_fedl(schemes: Iterable[SchemeResult], dataset: str, target: float, alpha: int, delta: float) -> Claim:
    """Coded-padded takes less time than CodedFedL with little parity data."""
    statement = f"coded-padded with α = {alpha} is faster than CodedFedL with δ = {delta:g}"
    coded, fedl = _coded_and_fedl(schemes, dataset, target, alpha, delta)
    if coded is None or fedl is None:
        return _missing(statement, dataset, target, f"coded-padded, α = {alpha} and CodedFedL, δ = {delta:g}")
    faster = times_faster(coded.seconds, fedl.seconds)
    verdict = _above(faster, 1.0)
    return Claim(statement, dataset, target, verdict, f"{_seconds_of(coded, fedl)}: {_ratio(faster)} times faster")


def slightly_slower_than_coded_fedl(
    schemes: Iterable[SchemeResult], dataset: str, target: float, alpha: int, delta: float
) -> Claim:
    """Coded-padded takes more time than CodedFedL with much parity data, but not much more."""
    statement = (
        f"coded-padded with α = {alpha} is slightly slower than CodedFedL with δ = {delta:g}"
        f" (1 to {SLIGHTLY:g} times as long)"
    )
    coded, fedl = _coded_and_fedl(schemes, dataset, target, alpha, delta)
    if coded is None or fedl is None:
        return _missing(statement, dataset, target, f"coded-padded, α = {alpha} and CodedFedL, δ = {delta:g}")
    longer = times_faster(fedl.seconds, coded.seconds)
    verdict = _all(_above(longer, 1.0), _denied(_above(longer, SLIGHTLY)))
    return Claim(statement, dataset, target, verdict, f"{_seconds_of(coded, fedl)}: {_ratio(longer)} times as long")


def smaller_alpha_wins_between(
    schemes: Iterable[SchemeResult], dataset: str, low: float, high: float, replication: int
) -> Claim:
    """Some alpha < D takes less time than alpha = D and than conventional FL at every target in [low, high)."""
    statement = (
        f"from {_percent(low)} to below {_percent(high)} some α < {replication} is faster than"
        f" α = {replication} (replication) and than conventional FL"
    )
    results = _Results(schemes, dataset)

    def judge(target: float) -> _Found | None:
        whole = results.find("coded-padded", target, alpha=replication)
        conventional = results.find("conventional", target)
        if whole is None or conventional is None:
            return None
        parts = [one for one in results.of("coded-padded", target) if one is not whole]
        return _best([_worst([_faster(part, whole), _faster(part, conventional)]) for part in parts])

    between = [target for target in results.targets if low - 1e-9 <= target < high - 1e-9]
    missing = f"conventional FL, α = {replication} and a smaller α at a target in this range"
    return _at_every(between, judge, statement, dataset, high, missing)


def alpha_is_never_fastest(schemes: Iterable[SchemeResult], dataset: str, alpha: int) -> Claim:
    """At every target some other scheme of the paper's figure takes less time than this alpha."""
    statement = f"coded-padded with α = {alpha} is the fastest scheme at no target"
    results = _Results(schemes, dataset)

    def judge(target: float) -> _Found | None:
        own = results.find("coded-padded", target, alpha=alpha)
        others = [one for one in results.of(("conventional", "coded-padded", "coded-fedl"), target) if one is not own]
        return None if own is None else _best([_faster(one, own) for one in others])

    return _at_every(results.targets, judge, statement, dataset, None, f"coded-padded, α = {alpha} and another scheme")


def alpha_never_beats_conventional(schemes: Iterable[SchemeResult], dataset: str, alpha: int) -> Claim:
    """The paper's own words, and more than the above: this alpha is at no target faster than conventional FL."""
    statement = f"coded-padded with α = {alpha} is faster than conventional FL at no target"
    results = _Results(schemes, dataset)

    def judge(target: float) -> _Found | None:
        own, conventional = results.find("coded-padded", target, alpha=alpha), results.find("conventional", target)
        if own is None or conventional is None:
            return None
        found = _faster(own, conventional)
        return None if found is None else found.denied

    return _at_every(results.targets, judge, statement, dataset, None, f"coded-padded, α = {alpha} and conventional FL")


def best_alpha_changes(schemes: Iterable[SchemeResult], dataset: str) -> Claim:
    """Holds where of two alphas one is faster at one target and the other at another.

    It fails where one alpha is faster than every other at every target.
    """
    statement = "the fastest α changes with the target"
    results = _Results(schemes, dataset)
    leads: dict[tuple[int, int], set[float]] = {}  # (a, b): the targets at which a is faster than b
    fastest: dict[float, SchemeResult] = {}
    verdicts: set[Verdict] = set()
    alphas: set[int] = set()
    for target in results.targets:
        rows = [one for one in results.of("coded-padded", target) if math.isfinite(_median(one))]
        alphas |= {_alpha(one) for one in rows}
        if len(rows) > 1:
            fastest[target] = min(rows, key=_median)
        for a, b in itertools.permutations(rows, 2):
            verdict = _above(times_faster(a.seconds, b.seconds), 1.0)
            verdicts.add(verdict)
            if verdict == "holds":
                leads.setdefault((_alpha(a), _alpha(b)), set()).add(target)
    if len(fastest) < 2:
        return _missing(statement, dataset, None, "coded-padded with two α that reach two targets")
    outcome: Verdict = "not judged" if "not judged" in verdicts else "tie"
    if any((b, a) in leads for a, b in leads):
        outcome = "holds"
    elif any(all(leads.get((a, b)) == set(fastest) for b in alphas - {a}) for a in alphas):
        outcome = "fails"
    evidence = "; ".join(
        f"{_percent(target)}: α = {_alpha(one)} in {_seconds(_median(one))}" for target, one in fastest.items()
    )
    return Claim(statement, dataset, None, outcome, evidence)


def dropping_loses_accuracy_on_sorted(schemes: Iterable[SchemeResult], dataset: str, dropped: int) -> Claim:
    """On data sorted by label, training without the slowest devices ends below conventional FL."""
    statement = f"{_dropping(dropped)} loses accuracy on sorted data (more than {100 * ACCURACY_TOLERANCE:g} points)"
    lost = _loss(schemes, dataset, dropped)
    if lost is None:
        return _missing(statement, dataset, None, "drop-slowest and conventional FL on sorted data")
    return Claim(statement, dataset, None, _above(lost[0], ACCURACY_TOLERANCE), lost[1])


def dropping_keeps_accuracy_on_shuffled(shuffled: Iterable[SchemeResult], dataset: str, dropped: int) -> Claim:
    """On shuffled data it ends as high as conventional FL."""
    statement = f"{_dropping(dropped)} loses no accuracy on shuffled data (at most {100 * ACCURACY_TOLERANCE:g} points)"
    lost = _loss(shuffled, dataset + SHUFFLED, dropped)
    if lost is None:
        return _missing(statement, dataset + SHUFFLED, None, "drop-slowest and conventional FL on shuffled data")
    return Claim(statement, dataset + SHUFFLED, None, _denied(_above(lost[0], ACCURACY_TOLERANCE)), lost[1])


def coding_gains_over_dropping(schemes: Iterable[SchemeResult], dataset: str, dropped: int) -> Claim:
    """Some alpha takes less time to the highest target both reach, and ends at least as high.

    Where dropping reaches no target that coding reaches, coding gains: never is later than any time.
    """
    where = "shuffled" if dataset.endswith(SHUFFLED) else "sorted"
    statement = f"on {where} data coding gains over {_dropping(dropped)}, in time and without losing accuracy"
    results = _Results(schemes, dataset)
    pairs: list[tuple[float, list[SchemeResult], SchemeResult]] = []
    for target in results.targets:
        drop, coded = results.find("drop-slowest", target, dropped=dropped), results.of("coded-padded", target)
        if drop is not None and coded:
            pairs.append((target, coded, drop))
    if not pairs:
        return _missing(statement, dataset, None, "drop-slowest and coded-padded")

    def reached(pair: tuple[float, list[SchemeResult], SchemeResult]) -> tuple[int, float]:
        target, coded, drop = pair
        return math.isfinite(min(map(_median, coded))) + math.isfinite(_median(drop)), target

    # The highest target both reach; failing that the highest that one does.
    target, coded, drop = max(pairs, key=reached)
    found = _best([_faster(one, drop) for one in coded])
    if found is None:
        return _missing(statement, dataset, target, "a seed in which one of them gets there")
    higher = difference(coded[0].final, drop.final)  # the models of all alphas are the same
    evidence = f"{_percent(target)}: {found.words}; final accuracy {_points(coded[0])} against {_points(drop)}"
    return Claim(statement, dataset, target, _all(found.verdict, _above(higher, -ACCURACY_TOLERANCE)), evidence)


class _Results:
    """The rows of one data set that descended by the step "paper"."""

    def __init__(self, schemes: Iterable[SchemeResult], dataset: str) -> None:
        self._rows = [
            one
            for one in schemes
            if (one.dataset, one.step, one.solver) == (dataset, paper.STEP, "gd") and one.reason is None
        ]
        if len({one.sharing for one in self._rows}) > 1:
            raise InvalidInput("schemes must be of one sharing convention, got several")
        self.targets = sorted({one.target_accuracy for one in self._rows})

    def of(self, names: str | tuple[str, ...], target: float) -> list[SchemeResult]:
        wanted = (names,) if isinstance(names, str) else names
        return [one for one in self._rows if one.scheme in wanted and math.isclose(one.target_accuracy, target)]

    def find(self, name: str, target: float, **parameters: float) -> SchemeResult | None:
        wanted = parameters.items()
        return next((e for e in self.of(name, target) if all(e.parameters.get(k) == v for k, v in wanted)), None)


def _coded_and_fedl(
    schemes: Iterable[SchemeResult], dataset: str, target: float, alpha: int, delta: float
) -> tuple[SchemeResult | None, SchemeResult | None]:
    results = _Results(schemes, dataset)
    return results.find("coded-padded", target, alpha=alpha), results.find("coded-fedl", target, delta=delta)


def _loss(schemes: Iterable[SchemeResult], dataset: str, dropped: int) -> tuple[Interval, str] | None:
    """Accuracy that dropping loses against conventional FL, seed by seed, and the sentence that says so."""
    results = _Results(schemes, dataset)
    for target in reversed(results.targets):
        drop, conventional = results.find("drop-slowest", target, dropped=dropped), results.find("conventional", target)
        if drop is not None and conventional is not None:
            evidence = (
                f"final accuracy {_points(drop)}, conventional FL {_points(conventional)};"
                f" {_percent(target)} reached in {drop.seeds_reached} and {conventional.seeds_reached}"
                f" of {drop.seeds} seeds"
            )
            return difference(conventional.final, drop.final), evidence
    return None


# -- verdicts


def _faster(mine: SchemeResult, theirs: SchemeResult) -> _Found | None:
    """None where no seed of either gets there: that says nothing."""
    found = times_faster(mine.seconds, theirs.seconds)
    if found.median is None:
        return None
    return _Found(_above(found, 1.0), found.median, f"{_seconds_of(mine, theirs)}: {_ratio(found)} times faster")


def _above(found: Interval, limit: float) -> Verdict:
    """Whether the whole interval lies above the limit."""
    if found.low is None or found.high is None:
        return "not judged"
    return "holds" if found.low > limit else "fails" if found.high < limit else "tie"


def _denied(verdict: Verdict) -> Verdict:
    """The verdict on the opposite claim."""
    opposite: dict[Verdict, Verdict] = {"holds": "fails", "fails": "holds"}
    return opposite.get(verdict, verdict)


def _all(*verdicts: Verdict) -> Verdict:
    return min(verdicts, key=_RANK.__getitem__)


def _worst(found: Iterable[_Found | None]) -> _Found | None:
    """What all of several come to; None where none says anything."""
    return min((one for one in found if one is not None), key=lambda one: one.rank, default=None)


def _best(found: Iterable[_Found | None]) -> _Found | None:
    """What some of several come to."""
    return max((one for one in found if one is not None), key=lambda one: one.rank, default=None)


def _at_every(
    targets: Iterable[float],
    judge: Callable[[float], _Found | None],
    statement: str,
    dataset: str,
    target_accuracy: float | None,
    missing: str,
) -> Claim:
    """A claim that must hold at each of the targets; those that no scheme reaches say nothing."""
    found = [(target, one) for target in targets if (one := judge(target)) is not None]
    if not found:
        return _missing(statement, dataset, target_accuracy, missing)
    evidence = "; ".join(f"{_percent(target)}: {one.words} ({one.verdict})" for target, one in found)
    return Claim(statement, dataset, target_accuracy, _all(*(one.verdict for _, one in found)), evidence)


def _missing(statement: str, dataset: str, target: float | None, what: str) -> Claim:
    return Claim(statement, dataset, target, "not judged", f"missing: {what} (step paper, solver gd)")


# -- words


def _median(one: SchemeResult) -> float:
    median = one.time_to_target_s.median
    return math.inf if median is None else median


def _alpha(one: SchemeResult) -> int:
    assert one.alpha is not None
    return one.alpha


def _seconds(value: float) -> str:
    return f"{value:.0f}{THIN}s" if value >= 100 else f"{value:.3g}{THIN}s"


def _seconds_of(*rows: SchemeResult) -> str:
    """Such as "conventional FL in 9034 s, coded-padded, α = 6 never"."""
    return ", ".join(
        f"{one.label} {'never' if math.isinf(_median(one)) else f'in {_seconds(_median(one))}'}" for one in rows
    )


def _ratio(found: Interval, unit: float = 1.0) -> str:
    """Such as "1.03 (0.97 to 1.08)"; with fewer than three seeds the median only."""
    if found.median is None:
        return "–"
    text = f"{found.median / unit:.2f}"
    return (
        text
        if found.low is None or found.high is None
        else f"{text} ({found.low / unit:.2f} to {found.high / unit:.2f})"
    )


def _points(one: SchemeResult) -> str:
    """Median over seeds; a row that ran has one."""
    assert one.final_accuracy.median is not None
    return f"{100 * one.final_accuracy.median:.1f}{THIN}%"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.4g}{THIN}%"


def _dropping(dropped: int) -> str:
    return f"dropping the slowest {dropped}"
