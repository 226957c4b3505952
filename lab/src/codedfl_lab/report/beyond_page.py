"""The report on what lies beyond the paper: both data sets, all schemes with all solvers, and large fleets.

In the order of a reader's questions: how fast, are the goals met, how do the curves look, what does each scheme take
(messages in one lump and in chunks side by side, the one-shot floor among them), what about more devices and the
journal's claim, and how was this made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from codedfl.report.text import count, number, seconds
from codedfl_lab.comparing.names import full_name, method_name
from codedfl_lab.comparing.results import AtPrice, AtSize, Goal, Price, Results, SchemeResult
from codedfl_lab.report import page as web
from codedfl_lab.report.fastest import takes, who_is_fastest
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
    percent,
    rows_at,
    span,
    target_text,
    times_faster,
)

GOALS = (
    "Medians over seeds, sharing by mean times, the fastest of a few variants. In the headline a pad number and sealing"
    " one cost the fleet file's MACs, a device's own pads are drawn before the run, and public-key operations are free."
    " Other columns: own pads charged; signatures and envelopes charged; pads and sealing at other prices; sums and"
    " products of 32 bits charged as those of 48, which our own kernel takes as long for. A goal holds where the"
    " headline's median reaches it; a row without a goal is shown for comparison."
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
            _goals_section(results.goals),
            *(_dataset_section(results, name, target_of[name], svg) for name, svg in accuracy.items()),
            "" if scaling is None else _scaling_section(results, scaling),
            _peers_section(results.peers) if results.peers else "",
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


# -- headline and goals


def beyond_headlines(results: Results) -> list[str]:
    """Who is fastest on each data set, the floor aside, by the first sharing convention, messages in one lump."""
    sharing, found = kinds(results.schemes)[0][0], []
    for name in _datasets(results):
        raced = of_convention(results.schemes, sharing, chunked=False, dataset=name)
        goal = target_text(raced[0].target_accuracy, results.score_name)
        found.append(who_is_fastest([one for one in raced if one.scheme != FLOOR], f"{goal} on {dataset_name(name)}"))
    return found


def _remarks(results: Results, dataset: str) -> str:
    """What the headline leaves out: its alpha, chunks, descent, and the floor."""
    methods, chunked = (_best_of_methods(results, dataset, chunked=packed) for packed in (False, True))
    best = _best_private(methods)
    method = best.scheme, best.solver
    name = method_name(*method, WITH)
    text = f"{dataset_name(dataset)}: {full_name(best)}, sharing {best.sharing}, messages {packing(False)}."
    if method in chunked:
        text += f" Sent {packing(True)} it {takes(chunked[method])}."
    descent = methods.get((best.scheme, "gd"))
    if descent is not None and descent is not best:
        text += f" With gradient descent instead, {best.scheme} {takes(descent)}."
    floor = next((e for (scheme, _), e in methods.items() if scheme == FLOOR), None)
    if floor is not None:
        text += f" The {FLOOR} floor {takes(floor)}, and shows the server the whole total Gram matrix"
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


def _goals_section(goals: Sequence[Goal]) -> str:
    """A row per goal, a column per price."""
    if not goals:
        return ""
    found: web.Matrix = {}
    for one in goals:
        found[(*goal_words(one), NOTHING if one.goal is None else f"{one.goal:g}")] = {
            ("", "verdict"): NOTHING if one.goal is None else web.VERDICTS[one.verdict],
            ("", "time"): seconds(one.time_s),
            **{("times faster", price_words(at.price)): _priced(at) for at in one.prices},
        }
    heads = ("data set", "scheme", "against", "goal")
    return web.section("Goals", web.paragraph(GOALS), web.matrix(heads, found, text_columns=range(3), dense=True))


def goal_words(claim: Goal) -> tuple[str, str, str]:
    """The data and the fleet, the scheme, and whom it is compared with."""
    on, rivals = (f" on {one}" * (claim.features != "rbf") for one in (claim.features, claim.rival_features))
    scheme = full_name(claim) if claim.label else method_name(claim.scheme, claim.solver)
    fleet = f"{dataset_name(claim.dataset)}, {count(claim.devices)} devices"
    return fleet, scheme + on, method_name(claim.rival, claim.rival_solver) + rivals


def price_words(price: Price) -> str:
    """What sets a price apart from the headline's, such as "own pads", which it charges too."""
    extra = {"own pads": price.own_pads, "public keys": price.public_keys, "48-bit work": price.whole_work}
    words = [word for word, charged in extra.items() if charged]
    return ", ".join([f"pads × {price.factor:g}"] * (price.factor != 1) + words) or "headline"


def _priced(one: AtPrice) -> str:
    """The headline with its interval; results.json has that of every price."""
    interval = f" ({span(one.low, one.high)})" if one.price == Price() and one.low is not None else ""
    return NOTHING if one.speedup is None else number(one.speedup) + interval


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
    found: web.Matrix = {}
    marked: dict[web.First, str] = {}
    for row in _rows(results, lump):
        entry = row.entry
        first = row.name, f"{row.epochs} ({row.seeds} seeds)" if row.seeds else row.epochs
        if entry.scheme == FLOOR:
            marked[first] = "floor"
        elif entry.seeds_reached and "marked" not in marked.values():
            marked[first] = "marked"
        learns = {"sees": row.server_sees, "Gram directions": _directions(entry, results.n_features)}
        found[first] = {
            **_columns(row, f"messages {packing(False)}"),
            **_columns(other.get(row.name), f"messages {packing(True)}"),
            **{("what the server learns", head): text for head, text in learns.items()},
        }
    caption = (
        "Time to the target in virtual seconds; medians over seeds, percentiles over latencies. In italics the floor:"
        f" {FLOOR} sends everything once and gives the server the whole total Gram matrix, {results.n_features}"
        " directions."
    )
    return web.matrix(("scheme", "epochs"), found, caption, text_columns=(0, 14), dense=True, marked=marked)


def _rows(results: Results, entries: Sequence[SchemeResult]) -> list[Row]:
    """Rows of entries that share their target, convention and step."""
    if not entries:
        return []
    first = entries[0]
    return rows_at(entries, first.target_accuracy, first.sharing, first.step, results.score_name)


def _columns(row: Row | None, over: str) -> dict[tuple[str, str], str | web.Cell]:
    heads = ("time", "p5–p95", "times faster", "solver × code", "sharing", "one epoch")
    texts = 6 * [NOTHING]
    if row is not None:
        texts = [row.time, row.time_range, row.speedup, row.gain, row.sharing, row.epoch]
    return {(over, head): text for head, text in zip(heads, texts, strict=True)}


def _directions(entry: SchemeResult, n_features: int) -> str:
    """Conventional FL shows each device's gradient, so the total Gram matrix is not what is at stake."""
    directions = entry.gram_directions
    if not entry.private or directions is None:
        return NOTHING
    return "all" if directions >= n_features else str(directions)


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
    found: web.Matrix = {}
    for row in sorted(rows, key=lambda one: one.devices):
        found.setdefault((method_name(*row.method),), {})["", f"{row.devices} devices"] = text(row)
    return web.matrix(("scheme",), found, caption)


def _speedup(row: AtSize) -> str:
    return f"{'◉ ' if row.chosen else ''}{number(row.gain)}"


def _variant(row: AtSize) -> str:
    """The time and the scheme's parameters; its name stands at the line's beginning."""
    variant = row.timed.label.partition(", ")[2]
    return ", ".join(filter(None, (seconds(row.timed.seconds_mean), variant)))


# -- what the journal version claims about large fleets (arXiv 2112.08909, abstract), on its own fleet, beside ours


@dataclass(frozen=True)
class JournalClaim:
    """What the journal's abstract says, and which of our rows is of its kind."""

    dataset: str
    target: float
    devices: int
    speedup: float
    scheme: str  # the scheme and solver of ours that are of its kind
    solver: str


JOURNAL = JournalClaim("mnist", 0.95, 120, 18.0, "coded-padded", "gd")


def journal_discussion(scaling: Sequence[AtSize], n_features: int) -> list[str]:
    """The journal's claim beside our numbers at its size; nothing if our results do not go there."""
    of_dataset = [row for row in scaling if row.dataset == JOURNAL.dataset]
    kind = JOURNAL.scheme, JOURNAL.solver
    here = {row.method: row for row in of_dataset if row.devices == JOURNAL.devices}
    ours = here.get(kind)
    if ours is None:
        return []
    paragraphs = [
        f"The journal version of the paper gives groups of devices a code each and reports a speed-up of"
        f" {JOURNAL.speedup:g} over conventional FL for {dataset_name(JOURNAL.dataset)} at {percent(JOURNAL.target)}"
        f" with {JOURNAL.devices} devices. The scheme of that kind here ({ours.timed.label}, gradient descent) is"
        f" {times_faster(ours.gain)} ({seconds(ours.timed.seconds_mean)}), {ours.gain / JOURNAL.speedup:.2f}"
        f" of the journal's value. The journal's exact setting is not reproduced here: our fleet repeats the mix of the"
        f" paper's devices, the groups are ours, and sharing is {ours.sharing}, {packing(ours.chunked)}. The two"
        " numbers are of one kind, not of one experiment."
    ]
    own = sorted((row.devices, row.gain) for row in of_dataset if row.method == kind)
    if own[-1][1] < own[0][1]:
        paragraphs.append(
            f"It falls from {number(own[0][1])} at {own[0][0]} devices to {number(own[-1][1])} at {own[-1][0]}: an"
            " epoch ends with the slowest group, and the more groups, the slower the slowest, while a coded device"
            f" multiplies a matrix of {n_features} × {n_features} whatever the size of the fleet."
        )
    others = [row for method, row in here.items() if method != kind and row.gain > ours.gain]
    if others:
        others.sort(key=lambda row: row.gain)
        faster = "; ".join(f"{method_name(*row.method)} {number(row.gain)}" for row in others)
        paragraphs.append(f"Ahead of it at {JOURNAL.devices} devices, in times faster than conventional FL: {faster}.")
    return paragraphs


def peers_discussion(peers: Sequence[AtSize]) -> list[str]:
    """What the journal says of CodedSecAgg and LightSecAgg, and what one convention for all makes of it."""
    paragraphs = [
        "The journal reports CodedSecAgg to be 6.6 to 18.7 times faster than LightSecAgg. Those numbers should not be"
        " compared with ours: in the program behind them one clock runs on over all six thresholds, so that LightSecAgg"
        " and conventional FL come out about six times too slow, setup takes 200 % of the computing time instead of"
        " 50 %, and the server is 33 000 times faster than in the program for the coded scheme; the times stored as"
        " CodedPaddedFL's are those of CodedSecAgg."
    ]
    found = {(row.dataset, row.devices, *row.method, row.timed.colluders): row.timed.seconds_mean for row in peers}
    for dataset, devices in dict.fromkeys((row.dataset, row.devices) for row in peers):
        light = found.get((dataset, devices, "light-secagg", "gd", 1))
        coded = found.get((dataset, devices, "coded-secagg", "gd", 1))
        if light and coded:
            paragraphs.append(
                f"{dataset_name(dataset)}, {devices} devices, one colluder, gradient descent, one convention for all:"
                f" CodedSecAgg takes {coded / light:.2f} times as long as LightSecAgg."
            )
    return paragraphs
