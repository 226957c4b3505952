"""Plans as tables for the terminal: ranked, with their price and what leaks to whom; and what was left out, and why.

A row has two lines, as its heading has: the time and its spread, bytes up and down, work and memory. That makes ten
facts fit 80 characters.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from codedfl.report.text import number, score, terminal_table
from codedfl_lab.comparing.names import full_name
from codedfl_lab.comparing.timed_scheme import TimedScheme
from codedfl_lab.planning.planner import Planning
from codedfl_lab.report.rows import amount, span, target_text

FURTHER = 4  # more variants of alpha and groups below the best of each scheme and solver
SEES = {
    "the total only": "total only",
    "the total Gram matrix": "total Gram",
    "each device's gradient": "each device",
    "each device's parity rows and gradient": "each device",
}


def plan_table(planning: Planning, *, title: str = "", score_name: str = "accuracy", further: int = FURTHER) -> Table:
    """The best variant of each scheme and solver, fastest first; then the ``further`` next of all others.

    The plans are those that keep to the limits; none make an empty table, and ``left_out_table`` says why.
    """
    goal = f"time to {target_text(planning.target, score_name)}"
    table = terminal_table(
        f"{title}: {goal}" if title else goal.capitalize(),
        "Virtual seconds; gradient descent unless a solver is named. Bytes, MACs and memory of a device for the whole"
        " training. Late: how many devices need not be waited for; fail: whichever so many are gone for good, it goes"
        " on. Of Gram: how many directions of the total Gram matrix the server learns. Exposed: how many other devices'"
        f" data the server learns alone, with one colluding device, and with two.{tie_words(planning)}",
    )
    table.add_column("plan", min_width=15)
    for heading in ("mean, s\np5–p95", "bytes up\nand down", "MACs\nmemory", "late\nfail"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("server sees\nof Gram", no_wrap=True)
    table.add_column("exposed\nby 0/1/2", justify="right", no_wrap=True)
    if planning.noisy_scores:
        table.add_column("with\nnoise", justify="right", no_wrap=True)
    leaders = fastest_of_each(planning.plans)
    others = [made for made in planning.plans if made not in leaders][:further]
    for made in leaders:
        bold = "bold" if made is planning.recommended else None
        table.add_row(*_cells(made), *_noisy(planning, made, score_name), style=bold)
    if others:
        table.add_section()
    for made in others:
        table.add_row(*_cells(made), *_noisy(planning, made, score_name))
    return table


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


def _cells(made: TimedScheme) -> list[Text]:
    cells = (
        full_name(made, "\n"),
        f"{number(made.seconds_mean)}\n{span(made.seconds_p5, made.seconds_p95)}",
        f"{amount(made.upload_bytes, 'B')}\n{amount(made.download_bytes, 'B')}",
        f"{amount(made.macs, '')}\n{amount(made.memory_bytes, 'B')}",
        f"{made.stragglers}\n{made.failures_survived}",
        f"{SEES.get(made.server_sees, made.server_sees)}\n{made.gram_directions} of {made.n_features}",
        f"{made.exposed_to_server}/{made.exposed_by_one}/{made.exposed_by_two}",
    )
    return [Text(cell) for cell in cells]  # not markup


def _noisy(planning: Planning, made: TimedScheme, score_name: str) -> list[str]:
    """The score that noise leaves; no cell where none was asked for."""
    if not planning.noisy_scores:
        return []
    found = planning.noisy_scores.get(made.scheme)
    return ["–" if found is None else score(found, score_name)]
