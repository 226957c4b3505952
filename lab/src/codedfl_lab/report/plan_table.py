"""A plan on one screen: the choice, its time, its cost, what leaks, and what else there was. Every plan as tables.

In the tables of every plan a row has two lines, as its heading has: the time and its spread, bytes up and down, work
and memory. That makes ten facts fit 80 characters.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from codedfl.report.text import number, score, terminal_table
from codedfl_lab.comparing.names import full_name, name_and_variant
from codedfl_lab.comparing.timed_scheme import TimedScheme
from codedfl_lab.planning.planner import Planning, epochs_words
from codedfl_lab.report.rows import NOTHING, amount, span, target_text

FURTHER = 4  # more variants of alpha and groups below the best of each scheme and solver
ABOUT = (
    "Simulated seconds; gradient descent unless a solver is named. Bytes, MACs and memory of a device for the whole"
    " training. Late: how many devices need not be waited for; fail: how many may fail for good, whichever ones."
    " Of Gram: how many directions of the total Gram matrix the server learns. Exposed: how many other devices'"
    " data the server learns alone, with one colluding device, and with two."
)
EXPOSED, NOISE = "exposed\nby 0/1/2", "with\nnoise"
_STACKS: list[tuple[str, ...]] = [
    *(("plan", "variant"), ("mean, s", "p5–p95"), ("bytes up", "and down"), ("MACs", "memory"), ("late", "fail")),
    *(("server sees", "of Gram"), (EXPOSED,)),
]
SEES = {
    "the total only": "total only",
    "the total Gram matrix": "total Gram",
    "each device's gradient": "each device",
    "each device's parity rows and gradient": "each device",
}


def choice_facts(planning: Planning, score_name: str) -> list[tuple[str, str]]:
    """The recommended plan, a line or two for each question that is asked of it."""
    best = planning.best
    facts = plan_facts(best, planning, score_name)
    noise = {"noise": f"with it the model scores {facts[NOISE]}"} if facts.get(NOISE, NOTHING) != NOTHING else {}
    return [
        ("choice", full_name(best)),
        (
            "time",
            f"{facts['mean, s']} s ({facts['p5–p95']}) to {target_text(planning.target, score_name)}:"
            f" {number(best.sharing_seconds)} s before training, then {epochs_words(best)} of"
            f" {number(best.epoch_seconds)} s; {number(planning.from_zero)} s from zero, with keys and pads",
        ),
        (
            "cost",
            f"each device sends {facts['bytes up']}, gets {facts['and down']}, multiplies {facts['MACs']} times and"
            f" needs {facts['memory']} of memory",
        ),
        (
            "leaks",
            f"the server sees {best.server_sees} and {facts['of Gram']} directions of X'X; alone it knows the data of"
            f" {best.exposed_to_server} devices, with one colluder of {best.exposed_by_one} others, with two of"
            f" {best.exposed_by_two}",
        ),
        ("fails", f"{best.stragglers} late devices are not waited for; any {best.failures_survived} may fail for good"),
        *noise.items(),
        *(("beside it" if place == 0 else "", said) for place, said in enumerate(planning.beside())),
    ]


def schemes_table(planning: Planning) -> Table:
    """The fastest plan of each scheme, one line each, also of those that a limit leaves out."""
    out = {id(made): why[0] for made, why in planning.left_out}
    fastest: dict[str, TimedScheme] = {}
    for made in planning.everything:
        fastest.setdefault(made.scheme, made)
    reasons = [f"{made.scheme} ({out[id(made)]})" for made in fastest.values() if id(made) in out]
    left_out = f" Left out by a limit: {', '.join(reasons)}." if reasons else ""
    table = terminal_table("", f"Exposed: to the server alone, with one colluder, with two.{left_out}")
    table.add_column("fastest of each scheme", overflow="fold")
    for head in ("s", "sends", "late", "fail", "exposed"):
        table.add_column(head, justify="left" if head == "exposed" else "right", no_wrap=True)
    for made in fastest.values():
        facts = plan_facts(made, planning, "")
        cells = (full_name(made), *(facts[head] for head in ("mean, s", "bytes up", "late", "fail", EXPOSED)))
        table.add_row(*map(Text, cells), style="bold" if made is planning.recommended else None)
    return table


def plan_table(planning: Planning, *, title: str = "", score_name: str = "accuracy", further: int = FURTHER) -> Table:
    """The best variant of each scheme and solver, fastest first; then the ``further`` next of all others.

    The plans are those that keep to the limits; none make an empty table, and ``left_out_table`` says why.
    """
    goal = f"time to {target_text(planning.target, score_name)}"
    table = terminal_table(
        f"{title}: {goal}" if title else goal.capitalize(),
        ABOUT + tie_words(planning),
    )
    stacks = [*_STACKS, (NOISE,)] if planning.noisy_scores else _STACKS
    for place, stack in enumerate(stacks):
        side: JustifyMethod = "left" if place in (0, 5) else "right"
        table.add_column("\n".join(stack), justify=side, no_wrap=place > 0, min_width=15 if place == 0 else None)
    leaders = fastest_of_each(planning.plans)
    others = [made for made in planning.plans if made not in leaders][:further]
    for made in (*leaders, *others):
        facts = plan_facts(made, planning, score_name)
        cells = (Text("\n".join(facts[head] for head in stack)) for stack in stacks)  # not markup
        table.add_row(
            *cells,
            style="bold" if made is planning.recommended else None,
            end_section=bool(others) and made is leaders[-1],
        )
    return table


def plan_facts(made: TimedScheme, planning: Planning, score_name: str) -> dict[str, str]:
    """What is said of a plan, by its heading; the score that noise leaves only where it was asked for."""
    name, variant = name_and_variant(made)
    noisy = planning.noisy_scores.get(made.scheme)
    return {
        "plan": name,
        "variant": variant,
        "mean, s": number(made.seconds_mean),
        "p5–p95": span(made.seconds_p5, made.seconds_p95),
        "epochs": str(made.epochs),
        "bytes up": amount(made.upload_bytes, "B"),
        "and down": amount(made.download_bytes, "B"),
        "MACs": amount(made.macs, ""),
        "memory": amount(made.memory_bytes, "B"),
        "late": str(made.stragglers),
        "fail": str(made.failures_survived),
        "server sees": SEES.get(made.server_sees, made.server_sees),
        "of Gram": f"{made.gram_directions} of {made.n_features}",
        EXPOSED: f"{made.exposed_to_server}/{made.exposed_by_one}/{made.exposed_by_two}",
        **({NOISE: NOTHING if noisy is None else score(noisy, score_name)} if planning.noisy_scores else {}),
    }


def tie_words(planning: Planning) -> str:
    """How the choice was made where more than one plan is as fast as the fastest; nothing where one is."""
    if len(planning.tied) < 2:
        return ""
    return (
        f" {len(planning.tied)} plans are as fast as the fastest private one, within the noise of the draws or 1 %: of"
        " these the one that exposes fewest devices is chosen."
    )


def left_out_table(planning: Planning) -> Table | None:
    """The fastest of each scheme and solver that a limit excludes, and solvers short of the target; None if none."""
    if not planning.left_out and not planning.unreached:
        return None
    table = terminal_table("Left out")
    table.add_column("plan", overflow="fold")
    table.add_column("mean, s", justify="right", no_wrap=True)
    table.add_column("variants", justify="right", no_wrap=True)
    table.add_column("why", overflow="fold")
    for cells in left_out_cells(planning):
        table.add_row(*map(Text, cells))
    return table


def left_out_cells(planning: Planning) -> list[tuple[str, str, str, str]]:
    """Name, mean seconds, number of variants and reason of what ``left_out_table`` shows."""
    reasons = {id(made): why for made, why in planning.left_out}
    plans = [made for made, _ in planning.left_out]
    found = []
    for made in fastest_of_each(plans):
        variants = sum((other.scheme, other.solver) == (made.scheme, made.solver) for other in plans)
        found.append((full_name(made), number(made.seconds_mean), str(variants), "; ".join(reasons[id(made)])))
    return [*found, *(("–", "never", "–", sentence) for sentence in planning.unreached)]


def fastest_of_each(plans: Iterable[TimedScheme]) -> list[TimedScheme]:
    """The first of each scheme and solver; plans come fastest first."""
    found: dict[tuple[str, str], TimedScheme] = {}
    for made in plans:
        found.setdefault((made.scheme, made.solver), made)
    return list(found.values())
