"""The report on one figure of the paper, or on one comparison.

Tables are in the order of a reader's questions: is the paper's value met, how do the curves look, what does each
scheme take under each convention, which of the paper's sentences hold, how far do the answers depend on what
cryptography costs, and how was this made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codedfl.report.leaders import leading_four
from codedfl.report.notes import notes_of
from codedfl.report.page import (
    Card,
    Line,
    cards,
    claims_table,
    definitions,
    details,
    figure,
    page,
    paragraph,
    provenance,
    quick_note,
    section,
    table,
)
from codedfl.report.rows import (
    NEVER,
    NOTHING,
    best_variants,
    by_time,
    entries_at,
    kinds,
    number,
    rows_at,
    seconds,
    series_name,
    span,
    speedup_median,
    speedup_range,
    split_of_gain,
    target_text,
    target_value,
    targets_of,
)
from codedfl.study import paper
from codedfl.study.results import PaperValue, Results, SchemeResult

MOST_CURVES = 8
_FIRST_SCREEN = ("Ours", "The fair rival", "The paper's scheme", "Conventional FL")
AS_THE_PAPER = ("authors", paper.STEP)  # sharing convention and step


def report_page(results: Results, svg: str) -> str:
    """The page, with the figure drawn into it."""
    return page(
        results.title,
        [headline(results)],
        (
            quick_note(results),
            _leaders(results),
            _paper_section(results),
            _figure(results, svg),
            _scheme_sections(results),
            _targets_section(results),
            section("The paper's claims", claims_table(results.claims)) if results.claims else "",
            _shuffled_section(results),
            _sensitivity_section(results),
            _notes_section(results),
            provenance(results),
        ),
    )


def _leaders(results: Results) -> str:
    """The first screen: how long, how much of it is solver and how much code, and who sees what."""
    leaders = leading_four(results.schemes, headline_target(results), *kinds(results.schemes)[0])
    return cards(
        Card(
            f"{one.who}: {one.name}" if one.name else one.who,
            one.time,
            (one.gain, f"{one.view[0].upper()}{one.view[1:]}."),
            winner=one.who == "Ours",
        )
        for one in sorted(leaders, key=lambda one: _FIRST_SCREEN.index(one.who))
    )


def headline(results: Results) -> str:
    """One sentence: the paper's scheme against the paper's value, or who is fastest where there is none."""
    schemes, target = results.schemes, headline_target(results)
    goal = target_text(target, results.score_name)
    if results.paper is not None:
        entry = _paper_entry(entries_at(schemes, target, *AS_THE_PAPER), results.paper)
        return _against_paper(entry, results.paper, goal)
    best = min(entries_at(schemes, target, *kinds(schemes)[0]), key=by_time)
    median, faster = best.time_to_target_s.median, best.speedup_over_conventional.median
    if median is None:
        return f"No scheme reaches {goal} in the median seed."
    baseline = best.scheme == "conventional"
    compared = f", {number(faster)} times faster than conventional FL" if faster and not baseline else ""
    compared += split_of_gain(best)
    return (
        f"First to reach {goal} is {series_name(best)}: after {seconds(median)} of virtual time{compared}"
        f" (median over {_seeds(best)})."
    )


def headline_target(results: Results) -> float:
    """A report on one data set has one."""
    assert results.headline_target is not None
    return results.headline_target


def _against_paper(entry: SchemeResult | None, value: PaperValue, goal: str) -> str:
    speedup = None if entry is None else entry.speedup_over_conventional
    if entry is None or speedup is None or not speedup.median:
        return (
            f"Coded-padded with α = {value.alpha} has no speed-up at {goal} to set against the paper's"
            f" {value.speedup:g}: it or conventional FL does not get there."
        )
    return (
        f"Coded-padded with α = {value.alpha} reaches {goal} {number(speedup.median)} times faster than"
        f" conventional FL (median over {_seeds(entry)}, {span(speedup.min, speedup.max)});"
        f" the paper reports {value.speedup:g}."
    )


def _paper_section(results: Results) -> str:
    """The paper's value, ours, the spread over seeds and the ratio, under every convention and step."""
    value, target = results.paper, headline_target(results)
    if value is None:
        return ""
    rows: list[Line] = []
    for sharing, step in kinds(results.schemes):
        entry = _paper_entry(entries_at(results.schemes, target, sharing, step), value)
        if entry is not None:
            ours = entry.speedup_over_conventional.median
            cells = [sharing, step, f"{value.speedup:g}", speedup_median(entry), speedup_range(entry)]
            cells.append(f"{ours / value.speedup:.2f}" if ours else NOTHING)
            rows.append((cells, "marked" if (sharing, step) == AS_THE_PAPER else ""))
    heads = ("sharing", "step", "paper", "ours, median", "spread over seeds", "ours / paper")
    caption = (
        f"Times faster than conventional FL, coded-padded with α = {value.alpha} at"
        f" {target_text(target, results.score_name)}. Marked: as the paper computes it."
    )
    return section("The paper's value and ours", table(heads, rows, caption, text_columns=(0, 1)))


def _figure(results: Results, svg: str) -> str:
    sharing, step = kinds(results.schemes)[0]
    in_all, drawn = len(entries_at(results.schemes, headline_target(results), sharing, step)), len(drawn_of(results))
    thinned = ""
    if drawn < in_all:
        thinned = f" {drawn} of {in_all} curves are drawn, of each scheme and solver the fastest; all are in the table."
    caption = (
        f"Test {results.score_name} against training time, as in the paper's Figure 1. Lines are medians over"
        f" {len(results.seeds)} feature seed{'s' * (len(results.seeds) != 1)}, bands their whole spread;"
        f" sharing {sharing}, step {step}.{thinned}"
    )
    return figure(svg, caption)


def drawn_of(results: Results) -> list[SchemeResult]:
    """The entries whose curves are in the figure: all of the paper's, else not more than can be told apart."""
    entries = entries_at(results.schemes, headline_target(results), *kinds(results.schemes)[0])
    return entries if results.paper is not None or len(entries) <= MOST_CURVES else best_variants(entries)


def _scheme_sections(results: Results) -> str:
    """One table a convention and step; the first is open."""
    target = headline_target(results)
    tables = []
    for index, (sharing, step) in enumerate(kinds(results.schemes)):
        content = _scheme_table(results.schemes, target, sharing, step, results.score_name)
        tables.append(details(f"sharing {sharing}, step {step}", content, is_open=index == 0))
    return section(f"Every scheme at {target_text(target, results.score_name)}", *tables)


def _scheme_table(schemes: Sequence[SchemeResult], target: float, sharing: str, step: str, score_name: str) -> str:
    heads = (
        "scheme", "epochs to target", "time to target, s", "p5–p95 over latencies", "times faster", "solver × code",
        "spread over seeds",        "sharing, s", "epoch, s", f"final {score_name}", "server sees",
    )  # fmt: skip
    found = rows_at(schemes, target, sharing, step, score_name)
    rows = [
        (
            [
                row.name,
                f"{row.epochs} ({row.seeds} seeds)" if row.seeds else row.epochs,
                row.time, row.time_range, row.speedup, row.gain.replace(" ", "\u00a0"),
                row.speedup_range, row.sharing, row.epoch, row.final,
                row.server_sees,
            ],
            "marked" if row.fastest else "",
        )
        for row in found
    ]  # fmt: skip
    return table(heads, rows) + "".join(
        paragraph(f"{row.name} could not run: {row.reason}.", "soft") for row in found if row.reason is not None
    )


def _targets_section(results: Results) -> str:
    """Who is ahead at which target: the winner changes (paper section V)."""
    schemes = results.schemes
    sharing, step = kinds(schemes)[0]
    targets = targets_of(e for e in schemes if (e.sharing, e.step) == (sharing, step))
    if len(targets) < 2:
        return ""
    columns = [{series_name(e): e for e in entries_at(schemes, target, sharing, step)} for target in targets]
    fastest = [series_name(min(column.values(), key=by_time)) for column in columns]
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        cells: list[str] = [name]
        for column, winner in zip(columns, fastest, strict=True):
            text = number(column[name].time_to_target_s.median) if name in column else NOTHING
            cells.append(f"▸ {text}" if name == winner and text != NEVER else text)
        rows.append((cells, ""))
    heads = ("scheme", *(target_value(target, results.score_name) for target in targets))
    caption = f"Median time in seconds, ▸ the fastest; sharing {sharing}, step {step}."
    return section("Time to other targets", table(heads, rows, caption))


def _shuffled_section(results: Results) -> str:
    schemes = results.shuffled
    if not schemes:
        return ""
    target = headline_target(results)
    sharing, step = kinds(schemes)[0]
    lead = (
        f"The same rows spread over the devices at random instead of sorted by label; sharing {sharing}, step {step}."
    )
    content = _scheme_table(schemes, target, sharing, step, results.score_name)
    return section("Shuffled data", paragraph(lead), content)


def _sensitivity_section(results: Results) -> str:
    """Time and speed-up of every scheme with pads and sealing at several prices."""
    cases = results.sensitivity
    if not cases:
        return ""
    target = headline_target(results)
    sharing, step = kinds(cases[0].schemes)[0]
    columns = [{series_name(e): e for e in entries_at(case.schemes, target, sharing, step)} for case in cases]
    factors = [f"{case.factor:g}×" for case in cases]
    heads = ("scheme", *(f"time at {f}, s" for f in factors), *(f"times faster at {f}" for f in factors))
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        entries = [column.get(name) for column in columns]
        times = [number(e.time_to_target_s.median) if e else NOTHING for e in entries]
        speedups = [speedup_median(e) if e else NOTHING for e in entries]
        rows.append(([name, *times, *speedups], ""))
    caption = (
        "What expanding a pad number and sealing a byte costs, as multiples of the fleet file's price; the paper counts"
        f" none (0×). Target {target_text(target, results.score_name)}, sharing {sharing}, step {step}."
    )
    return section("If cryptography cost more or less", table(heads, rows, caption))


def _notes_section(results: Results) -> str:
    target = headline_target(results)
    schemes = results.schemes
    judged = [e for kind in kinds(schemes) for e in entries_at(schemes, target, *kind)]
    return section("Notes", definitions(notes_of(results, judged, target_text(target, results.score_name))))


def _paper_entry(entries: Iterable[SchemeResult], value: PaperValue) -> SchemeResult | None:
    return next(
        (e for e in entries if e.scheme == "coded-padded" and e.solver == "gd" and e.alpha == value.alpha),
        None,
    )


def _seeds(entry: SchemeResult) -> str:
    return "1 seed" if entry.seeds == 1 else f"{entry.seeds} seeds"
