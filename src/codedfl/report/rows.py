"""Results as rows of text: the one place where numbers become words, for the terminal and the page alike.

A median of None means that the median seed never reached the target and is shown as "never", with the number of seeds
that did; seeds are never left out of a statistic (see ``comparison``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from codedfl.study.results import SchemeResult, TraceRow

NEVER = "never"
NOTHING = "–"
THIN = "\u202f"  # between thousands: narrow and never broken

SOLVER_NAMES = {"nesterov": "Nesterov", "cg": "CG", "block-krylov": "block Krylov"}
SCHEME_NAMES = {
    "conventional": "conventional FL",
    "conventional-full-batch": "conventional FL",
    "coded-fedl": "CodedFedL",
}
QUALIFIERS = {"conventional-full-batch": "full batch"}
PARAMETER_WORDS = {
    "alpha": "α = {:g}",
    "delta": "δ = {:g}",
    "groups": "{:g} groups",
    "spare": "{:g} spare",
    "holders": "{:g} holders",
    "dropped": "",  # a label says how many already
}
UNSAID = {"groups": 1, "spare": 0, "holders": 0}
DATASET_NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Row:
    """One scheme at one target, times in virtual seconds.

    ``gain`` has the two factors of the speed-up, the solver's and the code's. ``seeds`` says how many reached the
    target and is empty where all did; ``fastest`` marks the shortest time; ``reason`` says why a scheme could not run.
    """

    name: str
    title: str
    variant: str
    epochs: str
    time: str
    time_range: str
    speedup: str
    speedup_range: str
    gain: str
    sharing: str
    epoch: str
    final: str
    server_sees: str
    seeds: str
    fastest: bool = False
    reason: str | None = None


def rows_at(schemes: Iterable[SchemeResult], target: float, sharing: str, step: str, score_name: str) -> list[Row]:
    """The rows of one table, fastest first; those that never reach the target last, as high as they got first."""
    chosen = sorted(entries_at(schemes, target, sharing, step), key=by_time)
    return [_row(entry, score_name, first=index == 0) for index, entry in enumerate(chosen)]


def _row(entry: SchemeResult, score_name: str, *, first: bool) -> Row:
    ran = entry.reason is None
    return Row(
        name=series_name(entry),
        title=name_and_variant(entry)[0],
        variant=name_and_variant(entry)[1],
        epochs=count(entry.epochs_to_target.median) if ran else NOTHING,
        time=number(entry.time_to_target_s.median) if ran else NOTHING,
        time_range=span(entry.time_to_target_s.p5, entry.time_to_target_s.p95),
        speedup=speedup_median(entry),
        speedup_range=speedup_range(entry),
        gain=gain_factors(entry),
        sharing=NOTHING if entry.sharing_s is None else number(entry.sharing_s),
        epoch=NOTHING if entry.epoch_s_mean is None else number(entry.epoch_s_mean),
        final=NOTHING if entry.final_accuracy.median is None else score(entry.final_accuracy.median, score_name),
        server_sees="total only" if entry.private else "each device",
        seeds="" if entry.seeds_reached == entry.seeds or not ran else f"{entry.seeds_reached} of {entry.seeds}",
        fastest=first and entry.time_to_target_s.median is not None,
        reason=entry.reason,
    )


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


def series_name(entry: SchemeResult | TraceRow) -> str:
    """The scheme's label, and the solver where it is not gradient descent."""
    solver = SOLVER_NAMES.get(entry.solver)
    return entry.label if solver is None else f"{entry.label}, {solver}"


def variant_name(scheme: str, parameters: Mapping[str, float], solver: str = "gd") -> str:
    """What sets a scheme apart from others of its name: "α = 23, 5 groups, CG". Empty where there is nothing."""
    words = [
        PARAMETER_WORDS.get(name, f"{name} = {{:g}}").format(value)
        for name, value in parameters.items()
        if value != UNSAID.get(name)
    ]
    words = [QUALIFIERS.get(scheme, ""), *words, SOLVER_NAMES.get(solver, "")]
    return ", ".join(word for word in words if word)


def name_and_variant(entry: SchemeResult) -> tuple[str, str]:
    """Such as "coded-keys" and "α = 23, CG"."""
    variant = variant_name(entry.scheme, entry.parameters, entry.solver)
    return (SCHEME_NAMES.get(entry.scheme, entry.scheme), variant) if variant else (entry.label, "")


def name_in_sentence(entry: SchemeResult) -> str:
    """Such as "coded-keys (α = 23, CG)": commas of a label would be lost among those of a sentence."""
    name, variant = name_and_variant(entry)
    return f"{name} ({variant})" if variant else name


def method_name(scheme: str, solver: str, joint: str = ", ") -> str:
    """A scheme whatever its alpha, and the solver where it is not gradient descent; in a sentence, joined by "with".

    Conventional FL with another solver is on the full batch always, so that need not be said.
    """
    name = SCHEME_NAMES.get(scheme, scheme)
    if solver in SOLVER_NAMES:
        return f"{name}{joint}{SOLVER_NAMES[solver]}"
    return f"{name}, {QUALIFIERS[scheme]}" if scheme in QUALIFIERS else name


def best_variants(entries: Iterable[SchemeResult]) -> list[SchemeResult]:
    """The fastest of each scheme and solver, in the order of the results."""
    best: dict[tuple[str, str], SchemeResult] = {}
    for entry in entries:
        method = entry.scheme, entry.solver
        if method not in best or by_time(entry) < by_time(best[method]):
            best[method] = entry
    return list(best.values())


def remarks(rows: Iterable[Row]) -> list[str]:
    """A sentence for each scheme that could not run, or whose seeds did not all reach the target."""
    found = []
    for row in rows:
        if row.reason is not None:
            found.append(f"{row.name} could not run: {row.reason}.")
        elif row.seeds:
            found.append(f"Seeds that reach the target: {row.name}: {row.seeds}.")
    return found


def speedup_median(entry: SchemeResult) -> str:
    """Not "never": 0 stands for a scheme that did not get there, None for a baseline that did not."""
    value = entry.speedup_over_conventional.median
    return number(value) if value else NOTHING


def speedup_range(entry: SchemeResult) -> str:
    """Smallest and largest speed-up over the seeds; 0 is a seed in which the scheme never got there."""
    speedup = entry.speedup_over_conventional
    return NOTHING if entry.seeds_reached == 0 else span(speedup.min, speedup.max)


def gain_factors(entry: SchemeResult) -> str:
    """Such as "5.40 × 7.76": what the solver brings times what the code brings."""
    gain = entry.gain
    return NOTHING if gain.solver is None or gain.code is None else f"{number(gain.solver)} × {number(gain.code)}"


def split_of_gain(entry: SchemeResult) -> str:
    """Such as " (12.0 by the solver, 10.0 by the code)", to follow a speed-up; nothing where it cannot be split."""
    gain = entry.gain
    if gain.solver is None or gain.code is None:
        return ""
    return f" ({number(gain.solver)} by the solver, {number(gain.code)} by the code)"


def number(value: float | None) -> str:
    """A measured value: three digits, more from 1000 on; None is "never"."""
    if value is None:
        return NEVER
    return count(round(value)) if value == 0 or abs(value) >= 99.95 else f"{value:#.3g}"


def count(value: float | None) -> str:
    """Epochs, and the ticks of an axis: no more digits than it has, grouped from 10 000 on; None is "never"."""
    if value is None:
        return NEVER
    return f"{value:,.0f}".replace(",", THIN) if abs(value) >= 10_000 else f"{value:.4g}"


def seconds(value: float | None) -> str:
    """A time in three digits, or that it was never reached."""
    return NEVER if value is None else f"{number(value)}{THIN}s"


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


def score(value: float, score_name: str) -> str:
    """Accuracy in per cent, R^2 as a number."""
    return f"{100 * value:.1f}{THIN}%" if score_name == "accuracy" else f"{value:.3f}"


def packing(chunked: bool) -> str:
    """How messages travel."""
    return "in chunks" if chunked else "in one lump"


def dataset_name(name: str) -> str:
    """As people write it; names that are not ours stay as they are."""
    return DATASET_NAMES.get(name, name)


def target_value(target: float, score_name: str) -> str:
    """A target without its unit: 95 % or 0.5."""
    return percent(target) if score_name == "accuracy" else f"{target:g}"


def target_text(target: float, score_name: str) -> str:
    """A target with what it is a target of."""
    return f"{percent(target)} accuracy" if score_name == "accuracy" else f"{score_name} = {target:g}"
