"""Plans as tables: ranked, priced, with what leaks, and nothing left out silently."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.table import Table

from codedfl_lab.comparing.names import full_name
from codedfl_lab.comparing.timed_scheme import TimedScheme
from codedfl_lab.planning.planner import Limits, Planning
from codedfl_lab.report.plan_table import left_out_table, plan_table

CODED = TimedScheme(
    scheme="coded-keys",
    label="coded-keys, α = 25",
    solver="cg",
    epochs=11,
    seconds_mean=74.9,
    seconds_p5=64.1,
    seconds_p95=91.0,
    sharing_seconds=52.6,
    epoch_seconds=2.03,
    upload_bytes=13.4e6,
    download_bytes=1.32e6,
    macs=1.15e9,
    memory_bytes=44.1e6,
    stragglers=24,
    server_sees="the total only",
    gram_directions=110,
    n_features=2000,
    exposed_to_server=0,
    exposed_by_one=24,
    exposed_by_two=23,
    colluders=0,
    parameters={"alpha": 25},
)


def in_groups(groups: int) -> TimedScheme:
    return replace(CODED, label=f"coded-keys, α = 25, {groups} groups", parameters={"alpha": 25, "groups": groups})


def coded(alpha: int, seconds: float, **changes: Any) -> TimedScheme:
    times = {"seconds_mean": seconds, "seconds_p5": 0.9 * seconds, "seconds_p95": 1.2 * seconds}
    usual = {"parameters": {"alpha": alpha}, "exposed_by_one": alpha - 1, "stragglers": alpha - 1}
    usual["label"] = f"{changes.get('scheme', 'coded-keys')}, α = {alpha}"
    return replace(CODED, **{**usual, **times, **changes})


def conventional(solver: str, seconds: float) -> TimedScheme:
    scheme = "conventional" if solver == "gd" else "conventional-full-batch"
    label = "conventional FL" if solver == "gd" else "conventional FL, full batch"
    shown = {"label": label, "exposed_to_server": 25, "exposed_by_one": 24, "colluders": -1, "parameters": {}}
    return coded(1, seconds, scheme=scheme, solver=solver, server_sees="each device's gradient", **shown)


def planned(limits: Limits | None = None, groups: int = 1) -> Planning:
    """Two schemes, two solvers and one-shot at five alphas, and conventional FL; ranked as the planner does it."""
    tried = [conventional("gd", 8400.0), conventional("cg", 760.0)]
    for alpha in (1, 7, 13, 19, 25):
        for scheme, solver, seconds, directions in (
            ("coded-keys", "cg", 800.0, 110),
            ("coded-keys", "gd", 9000.0, 2000),
            ("coded-padded", "cg", 900.0, 110),
            ("one-shot", "closed-form", 160.0, 2000),
        ):
            which = {"scheme": scheme, "solver": solver, "gram_directions": directions}
            which["parameters"] = {"alpha": alpha, "groups": groups}
            tried.append(coded(alpha, seconds / alpha**0.5, **which))
    outcome = Planning(0.95)
    for plan in sorted(tried, key=lambda plan: plan.seconds_mean):
        why = (limits or Limits()).objections(plan)
        if why:
            outcome.left_out.append((plan, why))
        else:
            outcome.plans.append(plan)
    return outcome


def printed(table: Table, width: int = 80) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text().splitlines()


def names(lines: list[str]) -> list[str]:
    """Scheme and, from the line below it, parameters."""
    found = [(index, line.split("  ")[0]) for index, line in enumerate(lines)]
    return [f"{name} {lines[index + 1].split('  ')[0]}" for index, name in found if name in SCHEMES]


SCHEMES = {"coded-keys", "coded-padded", "one-shot", "conventional FL"}


def test_the_best_of_each_scheme_and_solver_comes_first_then_the_next() -> None:
    shown = names(printed(plan_table(planned(), further=3)))
    assert shown == [
        "coded-keys α = 25, CG",
        "coded-padded α = 25, CG",
        "conventional FL full batch, CG",
        "conventional FL ",
        "coded-keys α = 19, CG",
        "coded-padded α = 19, CG",
        "coded-keys α = 13, CG",
    ]


def test_a_row_says_what_a_plan_costs_and_what_leaks() -> None:
    planning = Planning(0.95, [CODED])
    lines = printed(plan_table(planning, title="mnist"))
    assert lines[0].startswith("mnist: time to 95\u202f% accuracy")
    first = next(index for index, line in enumerate(lines) if line.startswith("coded-keys"))
    above, below = lines[first].split(), lines[first + 1].split()
    assert above == ["coded-keys", "74.9", "13.4", "MB", "1.15", "G", "24", "total", "only", "0/24/23"]
    assert below == ["α", "=", "25,", "CG", "64.1–91.0", "1.32", "MB", "44.1", "MB", "0", "110", "of", "2000"]


def test_the_table_fits_eighty_characters_without_cutting_a_name() -> None:
    slow = replace(conventional("nesterov", 20_416.0), seconds_p5=20_142.0, seconds_p95=20_774.0)
    lines = printed(plan_table(Planning(0.95, [CODED, replace(in_groups(40), solver="nesterov"), slow])))
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(line[:16] for line in lines).split())
    assert "…" not in "".join(lines)
    assert "coded-keys α = 25, 40 groups, Nesterov" in text


def test_what_is_left_out_is_named_with_its_reasons() -> None:
    planning = planned(Limits(max_exposure=13))
    planning.unreached.append("exact with nesterov reached 0.9400 only")
    table = left_out_table(planning)
    assert table is not None
    lines = printed(table, width=120)
    by_name = {line.split("  ")[0]: line for line in lines}
    assert "exposure 24 > 13; the server learns the whole total Gram matrix" in by_name["one-shot, α = 25, closed form"]
    keys = by_name["coded-keys, α = 25, CG"].split()
    assert keys[keys.index("CG") + 1 : keys.index("CG") + 3] == ["160", "2"]  # seconds, variants: alpha 19 and 25
    assert "exact with nesterov reached 0.9400 only" in "\n".join(lines)


def test_nothing_left_out_makes_no_table() -> None:
    assert left_out_table(Planning(0.95, [CODED])) is None


def test_no_plan_makes_an_empty_table() -> None:
    assert plan_table(Planning(0.95)).row_count == 0


def test_names_of_plans() -> None:
    assert full_name(CODED) == "coded-keys, α = 25, CG"
    assert full_name(replace(in_groups(5), solver="gd")) == "coded-keys, α = 25, 5 groups"
    assert full_name(conventional("cg", 1.0)) == "conventional FL, full batch, CG"
