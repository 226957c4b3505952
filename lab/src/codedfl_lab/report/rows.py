"""Results as rows of text: the one place where numbers become words, for the terminal and the page alike.

Seeds are never left out of a statistic (see ``comparison``). A median of None means that half of them or more miss the
target: it is shown as "never" where all do, else as the number of those that reach it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from codedfl.report.text import THIN, count, number, score
from codedfl_lab.comparing.names import FAIR_RIVAL, full_name, name_and_variant, name_in_sentence
from codedfl_lab.comparing.results import SchemeResult

NOTHING = "–"
FEW = (
    "A seed that misses it counts as infinitely late: where that leaves no median, the number of seeds that reach it"
    " stands in place of a time, and never where none does."
)

STEP_WORDS = {
    "derived": "the step that follows from the data",
    "paper": "the paper's step, 12",
    "literal": "the step of the paper's text, 6",
}
DATASET_NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class Row:
    """One scheme at one target, times in simulated seconds.

    ``gain`` has the two factors of the speed-up, the solver's and the code's. ``directions`` are those of the total
    Gram matrix that the server learns; where it sees each gradient they are not at stake. ``seeds`` says how many
    reached the target and is empty where all did; ``fastest`` marks the shortest time.
    """

    def __init__(self, entry: SchemeResult, score_name: str, *, first: bool) -> None:
        ran, seconds = entry.reason is None, entry.time_to_target_s
        self.entry = entry
        self.name = full_name(entry)
        self.title, self.variant = name_and_variant(entry)
        self.epochs = NOTHING if not ran or few_seeds(entry) else count(entry.epochs_to_target.median)
        self.time = median_time(entry) if ran else NOTHING
        self.time_range = span(seconds.p5, seconds.p95)
        self.speedup = speedup_median(entry)
        self.speedup_interval = speedup_interval(entry)
        factors = entry.gain.solver, entry.gain.code
        split = self.speedup != NOTHING and all(factors)
        self.gain = " × ".join(map(number, factors)) if split else NOTHING
        self.sharing = NOTHING if entry.sharing_s is None else number(entry.sharing_s)
        self.epoch = NOTHING if entry.epoch_s_mean is None else number(entry.epoch_s_mean)
        final = entry.final_accuracy.median
        self.final = "diverges" if entry.diverged else NOTHING if final is None else score(final, score_name)
        self.server_sees = "total only" if entry.private else "each device"
        directions = entry.gram_directions
        self.directions = NOTHING if directions is None or not entry.private else count(directions)
        all_of_them = entry.seeds_reached == entry.seeds or not ran
        self.seeds = "" if all_of_them else f"{entry.seeds_reached} of {entry.seeds}"
        self.fastest = first and seconds.median is not None


def rows_at(schemes: Iterable[SchemeResult], target: float, sharing: str, step: str, score_name: str) -> list[Row]:
    """The rows of one table, fastest first; those that never reach the target last, as high as they got first."""
    chosen = sorted(entries_at(schemes, target, sharing, step), key=by_time)
    return [Row(entry, score_name, first=index == 0) for index, entry in enumerate(chosen)]


def entries_at(schemes: Iterable[SchemeResult], target: float, sharing: str, step: str) -> list[SchemeResult]:
    """The rows for one target, convention of sharing and step."""
    return [e for e in schemes if (e.sharing, e.step) == (sharing, step) and math.isclose(e.target_accuracy, target)]


def by_time(entry: SchemeResult) -> tuple[float, float]:
    """Sort key: the median time to the target; then what never reaches it, highest score first; what could not run."""
    median, final = entry.time_to_target_s.median, entry.final_accuracy.median
    if median is not None:
        return median, 0.0
    return math.inf, math.inf if final is None else -final


def kinds(schemes: Iterable[SchemeResult]) -> list[tuple[str, str]]:
    """The pairs of sharing convention and step in the results, in their order: one table each."""
    return list(dict.fromkeys((e.sharing, e.step) for e in schemes))


def targets_of(schemes: Iterable[SchemeResult]) -> list[float]:
    """Each target once, lowest first."""
    return sorted({e.target_accuracy for e in schemes})


def best_variants(entries: Iterable[SchemeResult]) -> list[SchemeResult]:
    """The fastest of each scheme and solver, in the order of the results."""
    best: dict[tuple[str, str], SchemeResult] = {}
    for entry in entries:
        method = entry.scheme, entry.solver
        if method not in best or by_time(entry) < by_time(best[method]):
            best[method] = entry
    return list(best.values())


def remarks(rows: Iterable[Row]) -> list[str]:
    """A sentence for each reason why schemes have no numbers, and one on those that get there in some seeds only."""
    why: dict[tuple[str, bool], list[str]] = {}
    some = []
    for row in rows:
        entry = row.entry
        if entry.reason is not None:
            why.setdefault((entry.reason, entry.diverged), []).append(name_in_sentence(entry))
        elif row.seeds and entry.seeds_reached:
            some.append(f"{name_in_sentence(entry)} in {row.seeds}")
    found = []
    for (reason, diverged), names in why.items():
        verb = ("diverges" if len(names) == 1 else "diverge") if diverged else "could not run"
        found.append(f"{listed(names)} {verb}: {reason}.")
    return found + ([f"In some seeds only the target is reached by {listed(some)}. {FEW}"] if some else [])


def few_seeds(entry: SchemeResult) -> str:
    """Such as "1 of 3": who reaches the target, where there is no median because too few seeds do; else empty."""
    some = entry.seeds_reached and entry.time_to_target_s.median is None
    return f"{entry.seeds_reached} of {entry.seeds}" if some else ""


def median_time(entry: SchemeResult) -> str:
    """Seconds; in place of a median that there is not the few seeds that reach the target, or never."""
    return few_seeds(entry) or number(entry.time_to_target_s.median)


def listed(names: Sequence[str]) -> str:
    """Such as "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def times_faster(ratio: float) -> str:
    """Such as "3.18 times faster"; what is below 1 is slower."""
    return f"{number(ratio)} times faster" if ratio >= 1 else f"{number(1 / ratio)} times slower"


def speedup_median(entry: SchemeResult) -> str:
    """Nothing, not "never", where the scheme or the baseline does not get there."""
    value = entry.speedup_over_conventional.median
    return number(value) if value and entry.time_to_target_s.median is not None else NOTHING


def speedup_range(entry: SchemeResult) -> str:
    """Smallest and largest speed-up over the seeds; 0 is a seed in which the scheme never got there."""
    speedup = entry.speedup_over_conventional
    return NOTHING if entry.seeds_reached == 0 else span(speedup.min, speedup.max)


def speedup_interval(entry: SchemeResult, unit: float = 1.0) -> str:
    """The 95 % interval of the speed-up, over ``unit``; nothing with fewer than three seeds."""
    speedup = entry.speedup_over_conventional
    if entry.seeds_reached == 0 or speedup.low is None:
        return NOTHING
    return span(speedup.low / unit, None if speedup.high is None else speedup.high / unit)


def split_of_gain(entry: SchemeResult) -> str:
    """Such as " (12.0 by the solver, 10.0 by the code)", to follow a speed-up; nothing where it cannot be split.

    With gradient descent the solver is conventional FL's own, and what the strongest baseline gains are its full
    batches. A factor below 1 is said to be one.
    """
    gain = entry.gain
    if not gain.solver or not gain.code or entry.scheme == FAIR_RIVAL:
        return ""
    factors = {"by full batches" if entry.solver == "gd" else "by the solver": gain.solver, "by the code": gain.code}
    say = number if min(factors.values()) >= 1 else times_faster
    return f" ({', '.join(f'{say(factor)} {whence}' for whence, factor in factors.items())})"


def amount(value: float, unit: str) -> str:
    """Three digits and a prefix: 12.2 MB."""
    size, prefix = next(((size, prefix) for size, prefix in _PREFIXES if abs(value) >= 0.9995 * size), (1.0, ""))
    return f"{number(value / size)}{THIN}{prefix}{unit}"


def span(low: float | None, high: float | None) -> str:
    """From low to high; an open end is a seed that never got there."""
    if low is None:
        return NOTHING
    ends = dict.fromkeys((number(low), number(high)))
    return "–".join(ends)


def percent(fraction: float) -> str:
    """A target: as many digits as it has."""
    return f"{100 * fraction:.4g}{THIN}%"


def packing(chunked: bool) -> str:
    """How messages travel."""
    return "in chunks" if chunked else "in one lump"


def dataset_name(name: str) -> str:
    """The name as people write it; names that are not ours stay as they are."""
    return DATASET_NAMES.get(name, name)


def target_text(target: float, score_name: str) -> str:
    """A target with what it is a target of."""
    return f"{percent(target)} accuracy" if score_name == "accuracy" else f"{score_name} = {target:g}"
