"""The whole report as one page that needs nothing else: no script, no font, no request.

Tables are in the order of a reader's questions: is the paper's value met, how do the curves look, what does each
scheme take under each convention, which of the paper's sentences hold, how far do the answers depend on what
cryptography costs, and how was this made. Every piece of text that comes from outside is escaped here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from codedfl.report.figures import INK, PAPER
from codedfl.report.notes import notes_of
from codedfl.report.rows import (
    NEVER,
    NOTHING,
    Entry,
    by_time,
    entries_at,
    kinds,
    number,
    percent,
    rows_at,
    seconds,
    series_name,
    span,
    speedup_median,
    speedup_range,
    target_text,
    target_value,
    targets_of,
)

_Line = tuple[Sequence[str], str]  # a row's cells and its class

AS_THE_PAPER = ("authors", "paper")  # sharing convention and step
VERDICTS = {True: ("holds", "✓ holds"), False: ("fails", "✗ fails"), None: ("open", "– not judged")}

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5c6670; --line: #d9dee3; --tint: #f4f6f8;
  --good: #00704f; --bad: #b34700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #14181c; --soft: #9aa5b0; --line: #343c44;
  --tint: #1d2329; --good: #3fc99a; --bad: #ff9a57; } }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 0.6rem; }
.headline { font-size: 1.2rem; margin: 0.6rem 0 1.2rem; max-width: 50rem; }
.soft, caption, summary { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0.2rem 0 0.4rem; }
th, td { padding: 0.32rem 0.7rem 0.32rem 0; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
tbody th { font-weight: 400; white-space: nowrap; }
.text, th:first-child, td:first-child { text-align: left; }
td:last-child:not(.text) { white-space: nowrap; }
tr.marked > * { font-weight: 700; background: var(--tint); }
.holds { color: var(--good); font-weight: 600; white-space: nowrap; }
.fails { color: var(--bad); font-weight: 600; white-space: nowrap; }
.open { color: var(--soft); white-space: nowrap; }
figure { margin: 1.2rem 0; }
figure svg { width: 100%; height: auto; color: var(--ink); }
figcaption { color: var(--soft); font-size: 0.9rem; }
details { margin: 0.6rem 0; }
summary { cursor: pointer; }
dt { font-weight: 600; margin-top: 0.7rem; }
dd { margin: 0.1rem 0 0; }
code { font-size: 0.9em; overflow-wrap: anywhere; }
"""


def report_page(results: Mapping[str, Any], svg: str) -> str:
    """The page, with the figure drawn into it."""
    title = escape(str(results["title"]))
    sections = (
        f"<h1>{title}</h1>",
        f'<p class="headline">{escape(headline(results))}</p>',
        _paper_section(results),
        _figure_section(results, svg),
        _scheme_sections(results),
        _targets_section(results),
        _claims_section(results["claims"]),
        _shuffled_section(results),
        _sensitivity_section(results),
        _notes_section(results),
        _provenance_section(results),
    )
    body = "\n".join(section for section in sections if section)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def headline(results: Mapping[str, Any]) -> str:
    """One sentence: the paper's scheme against the paper's value, or who is fastest where there is none."""
    schemes, target = results["schemes"], float(results["headline_target"])
    goal = target_text(target, str(results["score_name"]))
    if results["paper"] is not None:
        entry = _paper_entry(entries_at(schemes, target, *AS_THE_PAPER), results["paper"])
        return _against_paper(entry, results["paper"], goal)
    best = min(entries_at(schemes, target, *kinds(schemes)[0]), key=by_time)
    median, faster = best["time_to_target_s"]["median"], best["speedup_over_conventional"]["median"]
    if median is None:
        return f"No scheme reaches {goal} in the median seed."
    baseline = best["scheme"] == "conventional"
    compared = f", {number(faster)} times faster than conventional FL" if faster and not baseline else ""
    return (
        f"First to reach {goal} is {series_name(best)}: after {seconds(median)} of virtual time{compared}"
        f" (median over {_seeds(best)})."
    )


def _against_paper(entry: Entry | None, paper: Mapping[str, Any], goal: str) -> str:
    speedup = None if entry is None else entry["speedup_over_conventional"]
    if entry is None or speedup is None or not speedup["median"]:
        return (
            f"Coded-padded with α = {paper['alpha']} has no speed-up at {goal} to set against the paper's"
            f" {paper['speedup']:g}: it or conventional FL does not get there."
        )
    return (
        f"Coded-padded with α = {paper['alpha']} reaches {goal} {number(speedup['median'])} times faster than"
        f" conventional FL (median over {_seeds(entry)}, {span(speedup['min'], speedup['max'])});"
        f" the paper reports {paper['speedup']:g}."
    )


def inline_svg(svg: str) -> str:
    """The figure as part of a page: no prologue and no namespaces (HTML has them), the page's own colours."""
    drawing = svg[svg.index("<svg") :]
    drawing = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", drawing)
    return drawing.replace(INK, "currentColor").replace(PAPER, "none")


def _paper_section(results: Mapping[str, Any]) -> str:
    """The paper's value, ours, the spread over seeds and the ratio, under every convention and step."""
    paper = results["paper"]
    if paper is None:
        return ""
    target = float(results["headline_target"])
    rows: list[_Line] = []
    for sharing, step in kinds(results["schemes"]):
        entry = _paper_entry(entries_at(results["schemes"], target, sharing, step), paper)
        if entry is not None:
            ours = entry["speedup_over_conventional"]["median"]
            cells = [sharing, step, f"{paper['speedup']:g}", speedup_median(entry), speedup_range(entry)]
            cells.append(f"{ours / paper['speedup']:.2f}" if ours else NOTHING)
            rows.append((cells, "marked" if (sharing, step) == AS_THE_PAPER else ""))
    heads = ("sharing", "step", "paper", "ours, median", "spread over seeds", "ours / paper")
    caption = (
        f"Times faster than conventional FL, coded-padded with α = {paper['alpha']} at"
        f" {target_text(target, str(results['score_name']))}. Marked: as the paper computes it."
    )
    return _section("The paper's value and ours", _table(heads, rows, caption, text_columns=2))


def _figure_section(results: Mapping[str, Any], svg: str) -> str:
    sharing, step = kinds(results["schemes"])[0]
    caption = (
        f"Test {results['score_name']} against training time, as in the paper's Figure 1. Lines are medians over"
        f" {len(results['seeds'])} feature seeds, bands their whole spread; sharing {sharing}, step {step}."
    )
    return f"<figure>\n{inline_svg(svg)}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def _scheme_sections(results: Mapping[str, Any]) -> str:
    """One table a convention and step; the first is open."""
    target = float(results["headline_target"])
    tables = []
    for index, (sharing, step) in enumerate(kinds(results["schemes"])):
        table = _scheme_table(results["schemes"], target, sharing, step, str(results["score_name"]))
        summary = f"sharing {sharing}, step {step}"
        tables.append(
            f"<details{' open' if index == 0 else ''}><summary>{escape(summary)}</summary>\n{table}\n</details>"
        )
    heading = f"Every scheme at {target_text(target, str(results['score_name']))}"
    return _section(heading, "\n".join(tables))


def _scheme_table(schemes: Sequence[Entry], target: float, sharing: str, step: str, score_name: str) -> str:
    heads = (
        "scheme", "epochs to target", "time to target, s", "p5–p95 over latencies", "times faster", "spread over seeds",
        "sharing, s", "epoch, s", f"final {score_name}", "server sees",
    )  # fmt: skip
    rows = [
        (
            [
                row.name,
                f"{row.epochs} ({row.seeds} seeds)" if row.seeds else row.epochs,
                row.time, row.time_range, row.speedup, row.speedup_range, row.sharing, row.epoch, row.final,
                row.server_sees,
            ],
            "marked" if row.fastest else "",
        )
        for row in rows_at(schemes, target, sharing, step, score_name)
    ]  # fmt: skip
    return _table(heads, rows)


def _targets_section(results: Mapping[str, Any]) -> str:
    """Who is ahead at which target: the winner changes (paper section V)."""
    schemes = results["schemes"]
    sharing, step = kinds(schemes)[0]
    targets = targets_of(e for e in schemes if (e["sharing"], e["step"]) == (sharing, step))
    if len(targets) < 2:
        return ""
    columns = [{series_name(e): e for e in entries_at(schemes, target, sharing, step)} for target in targets]
    fastest = [series_name(min(column.values(), key=by_time)) for column in columns]
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        cells: list[str] = [name]
        for column, winner in zip(columns, fastest, strict=True):
            text = number(column[name]["time_to_target_s"]["median"]) if name in column else NOTHING
            cells.append(f"▸ {text}" if name == winner and text != NEVER else text)
        rows.append((cells, ""))
    heads = ("scheme", *(target_value(target, str(results["score_name"])) for target in targets))
    caption = f"Median time in seconds, ▸ the fastest; sharing {sharing}, step {step}."
    return _section("Time to other targets", _table(heads, rows, caption))


def _claims_section(claims: Sequence[Mapping[str, Any]]) -> str:
    if not claims:
        return ""
    heads = "".join(
        f'<th scope="col" class="text">{head}</th>' for head in ("claim", "data set", "target", "verdict", "evidence")
    )
    body = []
    for claim in claims:
        kind, verdict = VERDICTS[claim["holds"]]
        target = "all" if claim["target_accuracy"] is None else percent(claim["target_accuracy"])
        texts = (claim["statement"], claim["dataset"], target)
        cells = "".join(f'<td class="text">{escape(str(text))}</td>' for text in texts)
        body.append(
            f'<tr>{cells}<td class="text {kind}">{verdict}</td><td class="text">{escape(claim["evidence"])}</td></tr>'
        )
    table = f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    return _section("The paper's claims", table)


def _shuffled_section(results: Mapping[str, Any]) -> str:
    schemes = results["shuffled"]
    if not schemes:
        return ""
    target = float(results["headline_target"])
    sharing, step = kinds(schemes)[0]
    table = _scheme_table(schemes, target, sharing, step, str(results["score_name"]))
    lead = (
        "<p>The same rows spread over the devices at random instead of sorted by label;"
        f" sharing {escape(sharing)}, step {escape(step)}.</p>"
    )
    return _section("Shuffled data", f"{lead}\n{table}")


def _sensitivity_section(results: Mapping[str, Any]) -> str:
    """Time and speed-up of every scheme with pads and sealing at several prices."""
    cases = results["sensitivity"]
    if not cases:
        return ""
    target = float(results["headline_target"])
    sharing, step = kinds(cases[0]["schemes"])[0]
    columns = [{series_name(e): e for e in entries_at(case["schemes"], target, sharing, step)} for case in cases]
    factors = [f"{case['factor']:g}×" for case in cases]
    heads = ("scheme", *(f"time at {f}, s" for f in factors), *(f"times faster at {f}" for f in factors))
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        entries = [column.get(name) for column in columns]
        times = [number(e["time_to_target_s"]["median"]) if e else NOTHING for e in entries]
        speedups = [speedup_median(e) if e else NOTHING for e in entries]
        rows.append(([name, *times, *speedups], ""))
    caption = (
        "What expanding a pad number and sealing a byte costs, as multiples of the fleet file's price; the paper counts"
        f" none (0×). Target {target_text(target, str(results['score_name']))}, sharing {sharing}, step {step}."
    )
    return _section("If cryptography cost more or less", _table(heads, rows, caption))


def _notes_section(results: Mapping[str, Any]) -> str:
    items = "".join(f"<dt>{escape(head)}</dt><dd>{escape(text)}</dd>" for head, text in notes_of(results))
    return _section("Notes", f"<dl>{items}</dl>")


def _provenance_section(results: Mapping[str, Any]) -> str:
    total, algebra = float(results["seconds"]["total"]), float(results["seconds"]["linear_algebra"])
    share = f", {100 * algebra / total:.0f} % of it linear algebra" if total > 0 else ""
    facts = {
        "data set": results["dataset"],
        "fleet": f"{results['fleet']}, {results['n_devices']} devices",
        "feature seeds": ", ".join(map(str, results["seeds"])),
        "latency draws": results["draws"],
        "computed in": f"{seconds(total)}{share}",
        "versions": ", ".join(f"{name} {version}" for name, version in results["versions"].items()),
    }
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(fact))}</dd>" for name, fact in facts.items())
    command = f"<dt>command</dt><dd><code>{escape(str(results['command']))}</code></dd>"
    return _section("How this was made", f"<dl>{command}{items}</dl>")


def _section(heading: str, content: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{content}\n</section>"


def _table(heads: Sequence[str], rows: Iterable[_Line], caption: str = "", text_columns: int = 1) -> str:
    """A table of escaped cells, the first ``text_columns`` of a row set left."""
    left = ['class="text"' if index < text_columns else "" for index in range(len(heads))]
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f'<th scope="col" {side}>{escape(text)}</th>' for side, text in zip(left, heads, strict=True))
    body = ""
    for cells, kind in rows:
        first = f'<th scope="row">{escape(cells[0])}</th>'
        rest = "".join(f"<td {side}>{escape(text)}</td>" for side, text in zip(left[1:], cells[1:], strict=True))
        body += f'<tr class="{kind}">{first}{rest}</tr>\n'
    return f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'


def _paper_entry(entries: Iterable[Entry], paper: Mapping[str, Any]) -> Entry | None:
    return next(
        (e for e in entries if e["scheme"] == "coded-padded" and e["solver"] == "gd" and e["alpha"] == paper["alpha"]),
        None,
    )


def _seeds(entry: Entry) -> str:
    return "1 seed" if entry["seeds"] == 1 else f"{entry['seeds']} seeds"
