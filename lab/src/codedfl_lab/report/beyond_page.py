"""The report on what lies beyond the paper: both data sets, all schemes with all solvers, and large fleets.

In the order of a reader's questions: how fast, are the goals met, how do the curves look, what does each scheme take
under each convention, what about more devices and other secure aggregation, and how was this made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from codedfl.report.canvas import Pictures
from codedfl.report.text import count, number, seconds
from codedfl_lab.comparing.names import full_name, method_name, solver_name
from codedfl_lab.comparing.results import AtSize, Preparation, Racer, Results, SchemeResult, Timed
from codedfl_lab.report import page as web
from codedfl_lab.report.curves import curves_figure
from codedfl_lab.report.fastest import who_is_fastest
from codedfl_lab.report.html import scheme_table
from codedfl_lab.report.notes import notes_of
from codedfl_lab.report.rows import NOTHING, amount, dataset_name, kinds, packing, rows_at, span, target_text

GOALS = (
    "Times faster than conventional FL as in the paper, medians over seeds with their 95 % interval, sharing by mean"
    " times, in each column the fastest of a few variants. From the call: keys, pads and role sums were made before"
    " it; an upload and the epochs are left. From zero: everything is charged, from enrolment on. The last column is"
    " from the call, with products of role keys at the multiple that numpy takes for integers modulo 2^64. Beside each"
    " stands how many times faster it is than the strongest baseline, conventional FL on full batches with block"
    " Krylov, on the same features. A goal is met where the median reaches it; where the interval does not, the"
    " verdict says so."
)
PREPARED = (
    "Mean seconds of what role keys do before the first epoch, by class of devices; the upload's own journey comes"
    " besides. From the call all of it was done before; from zero it is charged, and the slowest are waited for."
)
COLUMN_WORDS = {"call": "from the call", "zero": "from zero", "ring": "ring's own work"}
FLOOR = "one-shot"


def beyond_page(results: Results, accuracy: Mapping[str, str], scaling: str | None) -> str:
    """The page. ``accuracy`` has the figure of each data set, ``scaling`` that of all sizes (None if there is none)."""
    judged = of_convention(results.schemes, kinds(results.schemes)[0][0], chunked=False)
    return web.page(
        results.title,
        beyond_headlines(results),
        (
            web.quick_note(results) if results.quick else "",
            _goals_section(results.goals) if results.goals else "",
            prepared_section(results.preparations) if results.preparations else "",
            *(_dataset_section(results, name, svg) for name, svg in accuracy.items()),
            "" if scaling is None else _scaling_section(results.scaling, scaling),
            web.section("Beside other secure aggregation", *_peer_tables(results.peers)) if results.peers else "",
            web.section("What it rests on", web.claims_table(results.claims)) if results.claims else "",
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


def beyond_headlines(results: Results) -> list[str]:
    """Who is fastest on each data set, the floor aside, by the first sharing convention, messages in one lump."""
    sharing, found = kinds(results.schemes)[0][0], []
    for name in dict.fromkeys(row.dataset for row in results.schemes):
        raced = of_convention(results.schemes, sharing, chunked=False, dataset=name)
        goal = target_text(raced[0].target_accuracy, results.score_name)
        found.append(who_is_fastest([one for one in raced if one.scheme != FLOOR], f"{goal} on {dataset_name(name)}"))
    return found


def _goals_section(goals: Sequence[Racer]) -> str:
    """A row per racer, and of every column its time, how much faster that is, and the verdict."""
    found: web.Matrix = {}
    for one in goals:
        fleet, scheme = racer_words(one)
        cells: dict[tuple[str, str], web.PageCell | str] = {}
        for at in one.columns:
            words = COLUMN_WORDS[at.column]
            cells[words, "time"] = seconds(at.time_s)
            cells[words, "times faster"] = _interval(at)
            cells[words, "than the strongest"] = NOTHING if at.over_strongest is None else number(at.over_strongest)
            if at.column != "ring":
                cells[words, "goal"] = NOTHING if at.goal is None else f"{at.goal:g}"
                cells[words, "verdict"] = web.GOAL_VERDICTS[at.verdict]
        found[fleet, web.PageCell(scheme, "prose")] = cells
    shown = web.matrix(("data set", "scheme"), found, text_columns=range(2), dense=True)
    return web.section("Goals", web.paragraph(GOALS), shown)


def racer_words(one: Racer) -> tuple[str, str]:
    """The data and the fleet; the scheme, with another variant from zero where that is faster there."""
    fleet = f"{dataset_name(one.dataset)}, {count(one.devices)} devices" + ", low frequencies" * (one.features != "rbf")
    labels = {at.column: at.label for at in one.columns}
    call, zero = labels.get("call", ""), labels.get("zero", "")
    name = ", ".join(filter(None, (call or method_name(one.scheme, "gd"), solver_name(one.solver))))
    apart = "" if call == zero else f" (from zero {zero.partition(', ')[2] or zero})"
    return fleet, name + apart


def _interval(at: Timed) -> str:
    interval = "" if at.low is None or at.low == at.high else f" ({span(at.low, at.high)})"
    return NOTHING if at.speedup is None else number(at.speedup) + interval


def prepared_section(found: Sequence[Preparation]) -> str:
    """A table per variant: a line per step, a column per class of devices."""
    tables = []
    for label, devices in dict.fromkeys((one.label, one.devices) for one in found):
        heads, lines = prepared_lines([one for one in found if (one.label, one.devices) == (label, devices)])
        tables.append(web.table(heads, [(line, "") for line in lines], f"{label}, {count(devices)} devices, seconds."))
    return web.section("What is prepared", web.paragraph(PREPARED), *tables)


def prepared_lines(found: Sequence[Preparation]) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of one variant."""
    classes = list(dict.fromkeys(one.device for one in found))
    at = {(one.step, one.device): number(one.seconds) for one in found}
    steps = dict.fromkeys(one.step for one in found)
    return ["step", *classes], [[step, *(at.get((step, kind), NOTHING) for kind in classes)] for step in steps]


def _dataset_section(results: Results, dataset: str, svg: str) -> str:
    """The figure, and a table per convention and way of sending; the first is open."""
    mine = [row for row in results.schemes if row.dataset == dataset]
    conventions = list(dict.fromkeys((row.chunked, row.sharing) for row in mine))
    target = mine[0].target_accuracy
    caption = (
        f"Test {results.score_name} against training time. For every scheme and solver the fastest variant; lines are"
        f" medians over {len(results.seeds)} feature seeds, bands their whole spread. Messages {packing(False)},"
        f" sharing {conventions[0][1]}. The colour is the scheme, the line style the solver."
    )
    tables: list[str] = []
    for chunked, sharing in conventions:
        same = of_convention(mine, sharing, chunked=chunked)
        shown = scheme_table(rows_at(same, target, sharing, same[0].step, results.score_name), results.score_name)
        tables.append(web.details(f"sharing {sharing}, messages {packing(chunked)}", shown, is_open=not tables))
    floor = web.paragraph(f"The floor, {FLOOR}, gives the server the whole total Gram matrix.", "soft")
    heading = f"{dataset_name(dataset)} at {target_text(target, results.score_name)}"
    return web.section(heading, web.figure(svg, caption, f"accuracy-{dataset}"), *tables, floor)


# -- other sizes of the fleet


def scaling_figure(scaling: Sequence[AtSize]) -> Pictures:
    """Times faster than conventional FL against the number of devices, a panel per data set."""
    panels: dict[str, dict[tuple[str, str], list[tuple[float, float]]]] = {}
    for row in sorted(scaling, key=lambda one: one.devices):
        panels.setdefault(dataset_name(row.dataset), {}).setdefault(row.method, []).append((row.devices, row.gain))
    return curves_figure(panels, "devices", "times faster than conventional FL")


def _scaling_section(scaling: Sequence[AtSize], svg: str) -> str:
    caption = (
        "Times faster than conventional FL at the same size, at the best of a few variants; sharing"
        f" {scaling[0].sharing}, messages {packing(scaling[0].chunked)}."
    )
    tables = []
    for dataset in dict.fromkeys(row.dataset for row in scaling):
        heads, lines = scaling_lines([row for row in scaling if row.dataset == dataset])
        about = f"{dataset_name(dataset)}: times faster; ◉ the fastest that shows no whole Gram matrix."
        tables.append(web.table(heads, [(line, "") for line in lines], about))
    return web.section("More devices", web.figure(svg, caption, "scaling"), *tables)


def scaling_lines(rows: Sequence[AtSize]) -> tuple[list[str], list[list[str]]]:
    """Heads and lines of one data set: a line per scheme and solver, a column per number of devices."""
    sizes = sorted({row.devices for row in rows})
    lines = []
    for method in dict.fromkeys(row.method for row in rows):
        at = {row.devices: "◉ " * row.chosen + number(row.gain) for row in rows if row.method == method}
        lines.append([method_name(*method), *(at.get(size, NOTHING) for size in sizes)])
    return ["scheme", *(f"D = {size}" for size in sizes)], lines


def _peer_tables(peers: Sequence[AtSize]) -> list[str]:
    """One convention for all, a table per data set."""
    found = []
    for dataset in dict.fromkeys(row.dataset for row in peers):
        lines = [(line, "") for line in peer_lines([row for row in peers if row.dataset == dataset])]
        found.append(
            web.table(PEER_HEADS, lines, f"{dataset_name(dataset)}, one convention for all.", text_columns=[1])
        )
    return found


PEER_HEADS = ("devices", "scheme", "epochs", "time", "of it sharing", "bytes per device", "may be late", "may collude")


def peer_lines(rows: Sequence[AtSize]) -> list[list[str]]:
    """Every secure scheme at three sizes, fastest first; the server sees each device where nobody may collude."""
    return [
        [
            *(str(row.devices), full_name(row.timed), str(row.timed.epochs)),
            *(seconds(row.timed.seconds_mean), seconds(row.timed.sharing_seconds)),
            amount(row.timed.upload_bytes + row.timed.download_bytes, "B"),
            *(str(row.timed.stragglers), NOTHING if row.timed.colluders < 0 else str(row.timed.colluders)),
        ]
        for row in sorted(rows, key=lambda one: (one.devices, one.timed.seconds_mean))
    ]
