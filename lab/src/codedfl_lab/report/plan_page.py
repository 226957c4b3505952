"""The page of a plan: what to take, what it costs a device, what leaks to whom, and what else there was."""

from __future__ import annotations

from collections.abc import Mapping

from codedfl.report.text import number, seconds
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.comparing.names import full_name
from codedfl_lab.planning.planner import Planning
from codedfl_lab.report.page import Card, Line, cards, definitions, figure, page, paragraph, section, table
from codedfl_lab.report.plan_table import ABOUT, left_out_cells, plan_facts, tie_words
from codedfl_lab.report.rows import amount, percent, span, target_text

_MOST_PLANS = 40


def plan_page(planning: Planning, svg: str, *, title: str, score_name: str, provenance: Mapping[str, str]) -> str:
    """The page, with the picture drawn into it. ``provenance`` says how it was made, the command first."""
    goal = target_text(planning.target, score_name)
    best = planning.best
    shown = planning.plans[:_MOST_PLANS]
    more = len(planning.plans) - len(shown)
    facts = [plan_facts(made, planning, score_name) for made in shown]
    rows: list[Line] = [
        (list(of.values()), "marked" if made is best else "") for made, of in zip(shown, facts, strict=True)
    ]
    heads = [head.replace("\n", " ") for head in facts[0]]
    plans = [table(heads, rows, ABOUT + tie_words(planning), text_columns=(0, 1))]
    if more > 0:
        plans.append(paragraph(f"{more} slower plans are in the JSON of codedfl plan --json.", "soft"))
    return page(
        f"{title}: how to reach {goal}",
        [planning.why()],
        (
            cards(_first_screen(planning)),
            section("Time against alpha", figure(svg, _caption(planning, goal))),
            section("Every plan", *plans),
            _left_out(planning),
            section("How this was made", definitions(provenance.items())),
        ),
    )


def _first_screen(planning: Planning) -> list[Card]:
    best = planning.best
    alone = f"the server alone exposes {_devices(best.exposed_to_server)}"
    found = [
        Card(
            f"Take {full_name(best)}",
            seconds(best.seconds_mean),
            (
                f"{seconds(best.sharing_seconds)} before training, then"
                f" {best.epochs} epoch{'s' * (best.epochs != 1)} of"
                f" {seconds(best.epoch_seconds)}; p5–p95 {span(best.seconds_p5, best.seconds_p95)}",
            ),
            winner=True,
        ),
        Card(
            "Who is exposed",
            f"{best.exposed_to_server} / {best.exposed_by_one} / {best.exposed_by_two}",
            (f"{alone}, with one colluding device {_devices(best.exposed_by_one)}, with two as shown.",),
        ),
        Card(
            "The server learns",
            percent(best.gram_directions / best.n_features),
            (f"{best.gram_directions} of {best.n_features} directions of the total X'X; it sees {best.server_sees}.",),
        ),
        Card(
            "Each device sends",
            amount(best.upload_bytes, "B"),
            (f"receives {amount(best.download_bytes, 'B')}, needs {amount(best.memory_bytes, 'B')} of memory",),
        ),
    ]
    for name, who in ((Conventional.name, "As usual"), (ConventionalFullBatch.name, "The fair rival")):
        rival = planning.rival(name)
        if rival is not None:
            ratio = f"{number(rival.seconds_mean / best.seconds_mean)} times as long; shows {rival.server_sees}"
            found.append(Card(f"{who}: {full_name(rival)}", seconds(rival.seconds_mean), (ratio,)))
    return found


def _caption(planning: Planning, goal: str) -> str:
    left_out = " Open points are left out by a limit." if planning.left_out else ""
    return f"Mean virtual time to {goal}, the winner ringed.{left_out}"


def _left_out(planning: Planning) -> str:
    if not planning.left_out and not planning.unreached:
        return ""
    rows: list[Line] = [([name, mean, why], "") for name, mean, _, why in left_out_cells(planning)]
    caption = "The fastest of each scheme and solver that a limit excludes, and solvers short of the target."
    return section("Left out, and why", table(("plan", "mean, s", "why"), rows, caption, text_columns=(0, 2)))


def _devices(count: int) -> str:
    return "nobody" if count == 0 else "1 device" if count == 1 else f"{count} devices"
