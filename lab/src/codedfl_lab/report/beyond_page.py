"""The report on what lies beyond the paper: both data sets, all schemes with all solvers, and large fleets.

In the order of a reader's questions: how fast, are the goals met, how do the curves look, what does each scheme take
(messages in one lump and in chunks side by side, the one-shot floor among them), what about more devices and the
journal's claim, and how was this made.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from codedfl.report.text import number, seconds
from codedfl_lab.comparing.names import full_name, method_name
from codedfl_lab.comparing.results import AtSize, Goal, Results, SchemeResult, Sensitivity
from codedfl_lab.report import page as web
from codedfl_lab.report.journal import journal_discussion, peers_discussion
from codedfl_lab.report.notes import notes_of
from codedfl_lab.report.rows import (
    NOTHING,
    Row,
    amount,
    best_variants,
    by_time,
    dataset_name,
    kinds,
    packing,
    rows_at,
    speedup_interval,
    speedup_median,
    split_of_gain,
    target_text,
    times_faster,
)

PRICES = (
    "Times faster than conventional FL (95 % interval) where a pad number and sealing cost a multiple of the fleet"
    " file's MACs. Coded keys and role keys draw their own pads before the run; the last columns charge that too."
    " Public-key operations are charged nowhere."
)
FLOOR = "one-shot"
WITH = " with "


def beyond_page(results: Results, accuracy: Mapping[str, str], scaling: str | None) -> str:
    """The page. ``accuracy`` has the figure of each data set, ``scaling`` that of all sizes (None if there is none)."""
    target_of = {e.dataset: target_text(e.target_accuracy, results.score_name) for e in results.schemes}
    judged = of_convention(results.schemes, kinds(results.schemes)[0][0], chunked=False)
    return web.page(
        results.title,
        beyond_headlines(results),
        (
            web.quick_note(results),
            *(web.paragraph(_remarks(results, name), "soft") for name in _datasets(results)),
            _goals_section(_goals(results)),
            *(_dataset_section(results, name, target_of[name], svg) for name, svg in accuracy.items()),
            web.section("If cryptography cost more or less", _prices_table(results)) if results.sensitivity else "",
            "" if scaling is None else _scaling_section(results, scaling),
            _peers_section(results.peers) if results.peers else "",
            web.section("Notes", web.definitions(notes_of(results, judged, "the target"))),
            web.provenance(results),
        ),
    )


def of_convention(
    schemes: Sequence[SchemeResult], sharing: str, *, chunked: bool, dataset: str | None = None
) -> list[SchemeResult]:
    """The entries of one data set (None: of all) under one convention."""
    return [
        e for e in schemes if (e.sharing, e.chunked) == (sharing, chunked) and (dataset is None or e.dataset == dataset)
    ]


# -- headline and goals


def beyond_headlines(results: Results) -> list[str]:
    """A sentence for each data set, by the first sharing convention of the results, messages in one lump."""
    return [_headline(results, name) for name in _datasets(results)]


def _headline(results: Results, dataset: str) -> str:
    methods = _best_of_methods(results, dataset, chunked=False)
    best = _best_private(methods)
    start = f"{dataset_name(dataset)} to {target_text(best.target_accuracy, results.score_name)}:"
    if best.time_to_target_s.median is None:
        return f"{start} no scheme whose server sees only the total gets there in the median seed."
    name = method_name(best.scheme, best.solver, WITH)
    return f"{start} {name} {_takes(best)}{split_of_gain(best)}."


def _remarks(results: Results, dataset: str) -> str:
    """What the headline leaves out: its alpha, chunks, descent, and the floor."""
    methods, chunked = (_best_of_methods(results, dataset, chunked=packed) for packed in (False, True))
    best = _best_private(methods)
    method = best.scheme, best.solver
    name = method_name(*method, WITH)
    text = f"{dataset_name(dataset)}: {full_name(best)}, sharing {best.sharing}, messages {packing(False)}."
    if method in chunked:
        text += f" Sent {packing(True)} it {_takes(chunked[method])}."
    descent = methods.get((best.scheme, "gd"))
    if descent is not None and descent is not best:
        text += f" With gradient descent instead, {best.scheme} {_takes(descent)}."
    floor = next((e for (scheme, _), e in methods.items() if scheme == FLOOR), None)
    if floor is not None:
        text += f" The {FLOOR} floor {_takes(floor)}, and shows the server the whole total Gram matrix"
        directions = best.gram_directions
        if directions is not None and directions < results.n_features:
            text += f"; {name} shows {directions} of its {results.n_features} directions"
        text += "."
    return text


def _datasets(results: Results) -> list[str]:
    return list(dict.fromkeys(e.dataset for e in results.schemes))


def _best_of_methods(results: Results, dataset: str, *, chunked: bool) -> dict[tuple[str, str], SchemeResult]:
    """The fastest alpha of each scheme and solver, under the first sharing convention."""
    sharing, _ = kinds(results.schemes)[0]
    found = of_convention(results.schemes, sharing, chunked=chunked, dataset=dataset)
    return {(e.scheme, e.solver): e for e in best_variants(found)}


def _best_private(methods: Mapping[tuple[str, str], SchemeResult]) -> SchemeResult:
    """The fastest whose server sees only the total, the floor aside; any other where there is none."""
    private = [e for e in methods.values() if e.private and e.scheme != FLOOR]
    return min(private or methods.values(), key=by_time)


def _takes(entry: SchemeResult) -> str:
    median, faster = entry.time_to_target_s.median, entry.speedup_over_conventional.median
    if median is None:
        return "never gets there"
    return f"takes {seconds(median)}" + (f", {times_faster(faster)} than conventional FL" if faster else "")


def _goals(results: Results) -> list[Goal]:
    return [claim for claim in results.claims if isinstance(claim, Goal)]


def _goals_section(claims: Sequence[Goal]) -> str:
    """A row a goal, a column a convention; every verdict with its evidence below."""
    if not claims:
        return ""
    conventions = list(dict.fromkeys((claim.sharing, claim.chunked) for claim in claims))
    goals: dict[tuple[str, ...], dict[tuple[str | None, bool], Goal]] = {}
    for claim in claims:
        words = (
            dataset_name(claim.dataset),
            method_name(claim.scheme, claim.solver) + ("" if claim.z is None else f", z = {claim.z}"),
            method_name(claim.rival, claim.rival_solver),
            f"≥ {claim.goal:g}",
        )
        goals.setdefault(words, {})[claim.sharing, claim.chunked] = claim
    rows: list[web.Line] = [
        ([*words, *(_verdict(found.get(convention)) for convention in conventions)], "")
        for words, found in goals.items()
    ]
    over = [("", 4)]
    for sharing, same in itertools.groupby(sharing for sharing, _ in conventions):
        over.append((f"sharing {sharing}", len(list(same))))
    heads = ("data set", "scheme", "times faster than", "goal", *(packing(chunked) for _, chunked in conventions))
    caption = (
        "Times faster, median over seeds, at the best α. ✓ the whole interval reaches the goal, ✗ the whole interval"
        " falls short of it, = the interval has the goal in it."
    )
    holding = sum(claim.verdict == "holds" for claim in claims)
    every = web.details(f"{holding} of {len(claims)} hold: each with its evidence", web.claims_table(claims))
    return web.section("Goals", web.table(heads, rows, caption, text_columns=range(3), over=over, dense=True), every)


def _verdict(claim: Goal | None) -> str | web.Cell:
    if claim is None or claim.speedup is None:
        return NOTHING
    verdict = web.VERDICTS[claim.verdict]
    return web.Cell(f"{verdict.text[0]} {number(claim.speedup)}", verdict.kind.removeprefix("text "))


# -- one data set


def _dataset_section(results: Results, dataset: str, goal: str, svg: str) -> str:
    conventions = list(dict.fromkeys(sharing for sharing, _ in kinds(results.schemes)))
    caption = (
        f"Test {results.score_name} against training time. For every scheme and solver the fastest α; lines are"
        f" medians over {len(results.seeds)} feature seeds, bands their whole spread. Messages {packing(False)},"
        f" sharing {conventions[0]}. The colour is the scheme, the line style the solver."
    )
    tables = [
        web.details(f"sharing {sharing}", _scheme_table(results, dataset, sharing), is_open=index == 0)
        for index, sharing in enumerate(conventions)
    ]
    return web.section(f"{dataset_name(dataset)} at {goal}", web.figure(svg, caption, f"accuracy-{dataset}"), *tables)


def _scheme_table(results: Results, dataset: str, sharing: str) -> str:
    """Every variant, fastest first by messages in one lump; the fastest but the floor is marked."""
    lump, chunked = (
        of_convention(results.schemes, sharing, chunked=packing, dataset=dataset) for packing in (False, True)
    )
    other = {row.name: row for row in _rows(results, chunked)}
    rows: list[web.Line] = []
    marked = False
    for row in _rows(results, lump):
        entry = row.entry
        kind = "floor" if entry.scheme == FLOOR else ""
        if not marked and not kind and entry.seeds_reached:
            kind, marked = "marked", True
        epochs = f"{row.epochs} ({row.seeds} seeds)" if row.seeds else row.epochs
        learns = [row.server_sees, _directions(entry, results.n_features)]
        rows.append(([row.name, epochs, *_columns(row), *_columns(other.get(row.name)), *learns], kind))
    timing = ("time", "p5–p95", "times faster", "solver × code", "sharing", "one epoch")
    heads = ("scheme", "epochs", *timing, *timing, "sees", "Gram directions")
    over = (("", 2), (f"messages {packing(False)}", 6), (f"messages {packing(True)}", 6), ("what the server learns", 2))
    caption = (
        "Time to the target in virtual seconds; medians over seeds, percentiles over latencies. In italics the floor:"
        f" {FLOOR} sends everything once and gives the server the whole total Gram matrix, {results.n_features}"
        " directions."
    )
    return web.table(heads, rows, caption, text_columns=(0, 14), over=over, dense=True)


def _rows(results: Results, entries: Sequence[SchemeResult]) -> list[Row]:
    """Rows of entries that share their target, convention and step."""
    if not entries:
        return []
    first = entries[0]
    return rows_at(entries, first.target_accuracy, first.sharing, first.step, results.score_name)


def _columns(row: Row | None) -> list[str]:
    if row is None:
        return [NOTHING] * 6
    return [row.time, row.time_range, row.speedup, row.gain, row.sharing, row.epoch]


def _directions(entry: SchemeResult, n_features: int) -> str:
    """Conventional FL shows each device's gradient, so the total Gram matrix is not what is at stake."""
    directions = entry.gram_directions
    if not entry.private or directions is None:
        return NOTHING
    return "all" if directions >= n_features else str(directions)


# -- prices


def price_words(case: Sensitivity) -> str:
    """Such as "2×, own pads too"."""
    return f"{case.factor:g}×" + (", own pads too" if case.own_pads else "")


def _prices_table(results: Results) -> str:
    """Times faster than conventional FL at each price of pads and sealing."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for case in results.sensitivity:
        for row in case.schemes:
            interval = speedup_interval(row)
            text = speedup_median(row) + (f" ({interval})" if interval != NOTHING else "")
            found.setdefault((dataset_name(row.dataset), full_name(row)), {})[price_words(case)] = text
    prices = [price_words(case) for case in results.sensitivity]
    rows: list[web.Line] = [([*words, *(of[price] for price in prices)], "") for words, of in found.items()]
    return web.table(("data set", "scheme", *prices), rows, PRICES, text_columns=range(2), dense=True)


# -- large fleets


def _scaling_section(results: Results, svg: str) -> str:
    scaling = results.scaling
    sharing, chunked = scaling[0].sharing, scaling[0].chunked
    caption = (
        "Times faster than conventional FL at the same size, at the best of a few α; sharing"
        f" {sharing}, messages {packing(chunked)}. Ringed: what the planner's rule picks, the fastest that does not"
        " give the server the whole total Gram matrix at once."
    )
    tables = []
    for dataset in dict.fromkeys(row.dataset for row in scaling):
        rows = [row for row in scaling if row.dataset == dataset]
        tables.append(_by_size(rows, _speedup, f"{dataset_name(dataset)}: times faster; ◉ the planner's choice."))
        tables.append(web.details("times and variants", _by_size(rows, _variant)))
    discussion = [web.paragraph(text) for text in journal_discussion(scaling, results.n_features)]
    return web.section("More devices", web.figure(svg, caption, "scaling"), *discussion, *tables)


def _peers_section(peers: Sequence[AtSize]) -> str:
    """Every secure scheme at three sizes, and what to make of the journal's own comparison."""
    heads = (
        *("devices", "scheme", "epochs", "time", "of it sharing", "bytes a device"),
        *("may be late", "may collude", "server sees"),
    )
    tables = []
    for dataset in dict.fromkeys(row.dataset for row in peers):
        lines: list[web.Line] = [
            (
                [
                    *(str(row.devices), full_name(row.timed), str(row.timed.epochs)),
                    *(seconds(row.timed.seconds_mean), seconds(row.timed.sharing_seconds)),
                    amount(row.timed.upload_bytes + row.timed.download_bytes, "B"),
                    *(str(row.timed.stragglers), NOTHING if row.timed.colluders < 0 else str(row.timed.colluders)),
                    row.timed.server_sees,
                ],
                "",
            )
            for row in sorted(peers, key=lambda one: (one.devices, one.timed.seconds_mean))
            if row.dataset == dataset
        ]
        tables.append(web.table(heads, lines, f"{dataset_name(dataset)}, one convention for all.", text_columns=(1, 8)))
    return web.section("Beside other secure aggregation", *map(web.paragraph, peers_discussion(peers)), *tables)


def _by_size(rows: Sequence[AtSize], text: Callable[[AtSize], str], caption: str = "") -> str:
    """One line per scheme, one column per number of devices."""
    sizes = sorted({row.devices for row in rows})
    lines: list[web.Line] = []
    for method in dict.fromkeys(row.method for row in rows):
        of_size = {row.devices: text(row) for row in rows if row.method == method}
        lines.append(([method_name(*method), *(of_size.get(size, NOTHING) for size in sizes)], ""))
    return web.table(("scheme", *(f"{size} devices" for size in sizes)), lines, caption)


def _speedup(row: AtSize) -> str:
    return f"{'◉ ' if row.chosen else ''}{number(row.gain)}"


def _variant(row: AtSize) -> str:
    """The time and the scheme's parameters; its name stands at the line's beginning."""
    variant = row.timed.label.partition(", ")[2]
    return ", ".join(filter(None, (seconds(row.timed.seconds_mean), variant)))
