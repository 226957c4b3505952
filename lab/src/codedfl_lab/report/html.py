"""The report on one figure of the paper, or on one comparison.

Tables are in the order of a reader's questions: is the paper's value met, how do the curves look, what does each
scheme take under each convention, which of the paper's sentences hold, how far do the answers depend on what
cryptography costs, and how was this made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from codedfl_lab.comparing import paper
from codedfl_lab.comparing.names import full_name
from codedfl_lab.comparing.results import Claim, PaperValue, Results, SchemeResult
from codedfl_lab.report import page as web
from codedfl_lab.report.fastest import leading_of, who_is_fastest
from codedfl_lab.report.notes import notes_of
from codedfl_lab.report.page import target_of
from codedfl_lab.report.rows import (
    NOTHING,
    Row,
    best_variants,
    by_time,
    entries_at,
    kinds,
    median_time,
    remarks,
    rows_at,
    speedup_interval,
    speedup_median,
    speedup_range,
    target_text,
    targets_of,
    times_faster,
)

MOST_CURVES = 8
IN_THE_FIGURE = ("conventional", "coded-padded", "coded-fedl", "drop-slowest")
VERDICT_RULE = (
    "Schemes are compared seed by seed and draw by draw, under one convention for all of them. A claim holds, or fails,"
    " where the whole 95 % interval of the ratio (bootstrap over seeds and draws) says so, and is a tie where the"
    " interval lies on both sides. With fewer than 3 seeds nothing is judged."
)
_FIRST_SCREEN = ("Ours", "The strongest baseline", "The paper's scheme", "Conventional FL")
AS_THE_PAPER = ("authors", paper.STEP)  # the authors' sharing formula, and the step that fits the figures


def report_page(results: Results, svg: str) -> str:
    """The page, with the figure drawn into it."""
    schemes, target = results.schemes, headline_target(results)
    judged = [one for kind in kinds(schemes) for one in entries_at(schemes, target, *kind)]
    goal = target_text(target, results.score_name)
    return web.page(
        results.title,
        [headline(results)],
        (
            web.quick_note(results) if results.quick else "",
            _leaders(results),
            "" if results.paper is None else _paper_section(results, results.paper),
            _figure(results, svg),
            _scheme_sections(results),
            _targets_section(results) if len(targets_of(results.schemes)) > 1 else "",
            _claims_section(results.claims) if results.claims else "",
            _shuffled_section(results) if results.shuffled else "",
            web.section("Notes", web.definitions(notes_of(results, judged, goal))),
            web.provenance(results),
        ),
    )


def _leaders(results: Results) -> str:
    """The first screen: how long, how much of it is solver and how much code, and who sees what."""
    leaders = leading_of(results)
    return web.cards(
        web.Card(
            f"{one.who}: {one.name}" if one.name else one.who,
            one.time,
            (one.from_zero, one.gain, f"{one.view[0].upper()}{one.view[1:]}."),
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
    raced = entries_at(schemes, target, *kinds(schemes)[0])
    return who_is_fastest(raced, f"{goal} on {results.dataset}", results.from_zero)


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
        f"Coded-padded with α = {value.alpha} reaches {goal} {times_faster(speedup.median)} than"
        f" conventional FL (median over {_seeds(entry)}, {_spread(entry)}); the paper reports {value.speedup:g}."
    )


def _spread(entry: SchemeResult) -> str:
    """The interval; the spread over so few seeds that there is none."""
    interval = speedup_interval(entry)
    return f"{speedup_range(entry)} over them" if interval == NOTHING else f"95 % interval {interval}"


def _paper_section(results: Results, value: PaperValue) -> str:
    """The paper's value, ours with its interval and the ratio of both, under every convention and step."""
    target = headline_target(results)
    rows: list[web.Line] = []
    for sharing, step in kinds(results.schemes):
        entry = _paper_entry(entries_at(results.schemes, target, sharing, step), value)
        if entry is not None:
            ours = entry.speedup_over_conventional.median
            cells = [sharing, step, f"{value.speedup:g}", speedup_median(entry), speedup_range(entry)]
            cells.append(speedup_interval(entry))
            cells.append(f"{ours / value.speedup:.2f}" if ours else NOTHING)
            cells.append(speedup_interval(entry, value.speedup))
            rows.append((cells, "marked" if (sharing, step) == AS_THE_PAPER else ""))
    heads = (
        *("sharing", "step", "paper", "ours, median", "spread over seeds", "95 % interval", "ours / paper"),
        "95 % interval",
    )
    caption = (
        f"Times faster than conventional FL, coded-padded with α = {value.alpha} at"
        f" {target_text(target, results.score_name)}, pads and sealing charged. Marked: the authors' sharing formula"
        " and the step that fits the figures; the interval is the bootstrap's, over seeds and draws."
    )
    return web.section("The paper's value and ours", web.table(heads, rows, caption, text_columns=(0, 1)))


def _figure(results: Results, svg: str) -> str:
    sharing, step = kinds(results.schemes)[0]
    in_all, drawn = len(entries_at(results.schemes, headline_target(results), sharing, step)), len(drawn_of(results))
    thinned = ""
    if drawn < in_all:
        which = "of each scheme and solver the fastest"
        if results.paper is not None:
            which = "those of the paper's figure, dropping, ours and the strongest baseline"
        thinned = f" {drawn} of {in_all} curves are drawn, {which}; all are in the table."
    caption = (
        f"Test {results.score_name} against training time, as in the paper's Figure 1. Lines are medians over"
        f" {len(results.seeds)} feature seed{'s' * (len(results.seeds) != 1)}, bands their whole spread;"
        f" sharing {sharing}, step {step}.{thinned}"
    )
    return web.figure(svg, caption)


def drawn_of(results: Results) -> list[SchemeResult]:
    """The entries whose curves are in the figure: not more than can be distinguished.

    Of a reproduction the curves of the paper's figure, dropping, ours and its strongest baseline; of a comparison with
    many entries the fastest of each scheme and solver.
    """
    sharing, step = kinds(results.schemes)[0]
    entries = entries_at(results.schemes, headline_target(results), sharing, step)
    if results.paper is None:
        return entries if len(entries) <= MOST_CURVES else best_variants(entries)
    leaders = [one.entry for one in leading_of(results)]
    return [one for one in entries if (one.scheme in IN_THE_FIGURE and one.solver == "gd") or one in leaders]


def _scheme_sections(results: Results) -> str:
    """One table a convention and step; the first is open."""
    target = headline_target(results)
    tables = []
    for index, (sharing, step) in enumerate(kinds(results.schemes)):
        rows = rows_at(results.schemes, target, sharing, step, results.score_name)
        content = scheme_table(rows, results.score_name)
        tables.append(web.details(f"sharing {sharing}, step {step}", content, is_open=index == 0))
    return web.section(f"Every scheme at {target_text(target, results.score_name)}", *tables)


def scheme_table(found: Sequence[Row], score_name: str) -> str:
    """Rows of one target, convention and step; how much of the Gram matrix shows only where it was worked out."""
    heads = [
        "scheme", "epochs to target", "time to target, s", "p5–p95 over latencies", "times faster", "solver × code",
        "95 % interval", "sharing, s", "epoch, s", f"final {score_name}", "server sees",
    ]  # fmt: skip
    counted = any(row.entry.gram_directions is not None for row in found)
    rows: list[web.Line] = []
    for row in found:
        cells = [
            row.name, f"{row.epochs} ({row.seeds} seeds)" if row.seeds else row.epochs,
            row.time, row.time_range, row.speedup, row.gain.replace(" ", "\u00a0"),
            row.speedup_interval, row.sharing, row.epoch, row.final, row.server_sees,
        ]  # fmt: skip
        rows.append((cells + [row.directions] * counted, "marked" if row.fastest else ""))
    shown = web.table(heads + ["Gram directions"] * counted, rows, dense=counted)
    return shown + "".join(web.paragraph(text, "soft") for text in remarks(found))


def _targets_section(results: Results) -> str:
    """Who is ahead at which target: the winner changes (paper section V)."""
    schemes = results.schemes
    sharing, step = kinds(schemes)[0]
    found: web.Matrix = {}
    for target in targets_of(schemes):
        entries = entries_at(schemes, target, sharing, step)
        first = min(entries, key=by_time)
        for one in entries:
            text = median_time(one)
            mark = "▸ " * (one is first and one.time_to_target_s.median is not None)
            found.setdefault((full_name(one),), {})["", target_text(target, results.score_name)] = mark + text
    caption = f"Median time in seconds, ▸ the fastest; sharing {sharing}, step {step}."
    return web.section("Time to other targets", web.matrix(("scheme",), found, caption))


def _claims_section(claims: Sequence[Claim]) -> str:
    """A row a claim about times, a column a convention; claims about accuracy, which have none; then all evidence."""
    timed = [claim for claim in claims if claim.sharing is not None]
    rest = [claim for claim in claims if claim.sharing is None]
    by_claim: web.Matrix = {}
    by_column: dict[tuple[str, str], list[Claim]] = {}
    for claim in timed:
        column = f"pads and sealing {'charged' if claim.charged else 'free'}", claim.sharing or ""
        first = web.PageCell(claim.statement, "prose"), claim.dataset, target_of(claim)
        by_claim.setdefault(first, {})[column] = web.VERDICTS[claim.verdict]
        by_column.setdefault(column, []).append(claim)
    heads = ("claim", "data set", "target")
    table = web.matrix(heads, by_claim, text_columns=range(3 + len(by_column))) if by_claim else ""
    evidence = [
        web.details(f"evidence: sharing {sharing}, {charged}", web.claims_table(same))
        for (charged, sharing), same in by_column.items()
    ]
    about_accuracy = [web.claims_table(rest)] if rest else []
    return web.section("The paper's claims", web.paragraph(VERDICT_RULE), table, *evidence, *about_accuracy)


def _shuffled_section(results: Results) -> str:
    schemes = results.shuffled
    target = headline_target(results)
    sharing, step = kinds(schemes)[0]
    lead = (
        f"The same rows spread over the devices at random instead of sorted by label; sharing {sharing}, step {step}."
    )
    content = scheme_table(rows_at(schemes, target, sharing, step, results.score_name), results.score_name)
    return web.section("Shuffled data", web.paragraph(lead), content)


def _paper_entry(entries: Iterable[SchemeResult], value: PaperValue) -> SchemeResult | None:
    return next(
        (e for e in entries if e.scheme == "coded-padded" and e.solver == "gd" and e.alpha == value.alpha),
        None,
    )


def _seeds(entry: SchemeResult) -> str:
    return "1 seed" if entry.seeds == 1 else f"{entry.seeds} seeds"
