"""Pieces of a page that needs nothing else: no script, no font, no request.

Every piece of text that comes from outside is escaped here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from codedfl.report.canvas import INK, PAPER
from codedfl.report.rows import percent, seconds
from codedfl.study.results import Claim, Results

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --soft: #5c6670; --line: #d9dee3; --tint: #f4f6f8;
  --good: #00704f; --bad: #b34700; --shade: rgba(27, 31, 36, 0.28); }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #14181c; --soft: #9aa5b0; --line: #343c44;
  --tint: #1d2329; --good: #3fc99a; --bad: #ff9a57; --shade: rgba(230, 233, 236, 0.35); } }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 0.6rem; }
.headline { font-size: 1.2rem; margin: 0.6rem 0 1.2rem; max-width: 50rem; }
.soft, caption, summary { color: var(--soft); }
/* What is wider than the page scrolls by itself, and shows it: a shadow where there is more, a bar that stays. */
.scroll { overflow-x: auto; scrollbar-width: thin; scrollbar-color: var(--soft) transparent; background:
  linear-gradient(to right, var(--paper) 30%, transparent) left / 2.5rem 100%,
  linear-gradient(to left, var(--paper) 30%, transparent) right / 2.5rem 100%,
  linear-gradient(to right, var(--shade), transparent) left / 0.9rem 100%,
  linear-gradient(to left, var(--shade), transparent) right / 0.9rem 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
.scroll::-webkit-scrollbar { height: 8px; } .scroll::-webkit-scrollbar-thumb { background: var(--soft);
  border-radius: 4px; }
:focus-visible { outline: 3px solid #0072b2; outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: 0.2rem 0 0.4rem; }
th, td { padding: 0.32rem 0.7rem 0.32rem 0; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
thead th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
tbody th { font-weight: 400; white-space: nowrap; }
tbody th.prose { white-space: normal; min-width: 16rem; }
.text, th:first-child, td:first-child { text-align: left; }
thead .over { text-align: center; border-bottom: 1px solid var(--line); color: var(--soft); font-weight: 400; }
.begins { padding-left: 1rem; border-left: 1px solid var(--line); }
td:last-child:not(.text) { white-space: nowrap; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: 0.8rem; padding: 0;
  margin: 1rem 0; list-style: none; }
.cards li { background: var(--tint); border-radius: 8px; padding: 0.7rem 0.9rem; border: 1px solid transparent; }
.cards li.winner { border-color: var(--good); }
.cards b { display: block; font-size: 1.4rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.cards span { display: block; } .cards .more { color: var(--soft); font-size: 0.9rem; }
table.dense { font-size: 0.8rem; }
table.dense td { white-space: nowrap; }
tr.floor > * { font-style: italic; }
tr.marked > * { font-weight: 700; background: var(--tint); }
.holds { color: var(--good); font-weight: 600; white-space: nowrap; }
.fails { color: var(--bad); font-weight: 600; white-space: nowrap; }
p.fails { white-space: normal; }
.open { color: var(--soft); white-space: nowrap; }
figure { margin: 1.2rem 0; }
figure svg { width: 100%; min-width: 40rem; height: auto; color: var(--ink); }
@media (prefers-color-scheme: dark) { figure svg { filter: brightness(1.3); } }
figcaption { color: var(--soft); font-size: 0.9rem; }
details { margin: 0.6rem 0; }
summary { cursor: pointer; }
dt { font-weight: 600; margin-top: 0.7rem; }
dd { margin: 0.1rem 0 0; }
code { font-size: 0.9em; overflow-wrap: anywhere; }
@media (max-width: 640px) { body { padding: 1rem 0.9rem 3rem; }
  tbody th { white-space: normal; min-width: 7.5rem; max-width: 9.5rem; }
  th:first-child { position: sticky; left: 0; background: var(--paper); }
  tr.marked > th:first-child { background: var(--tint); } }
"""


@dataclass(frozen=True)
class Cell:
    """A piece of a row; ``kind`` is its class in the style sheet."""

    text: str
    kind: str = ""


Line = tuple[Sequence[str | Cell], str]  # a row's cells and its class

VERDICTS = {
    True: Cell("✓ holds", "text holds"),
    False: Cell("✗ fails", "text fails"),
    None: Cell("– not judged", "text open"),
}


def page(title: str, headlines: Iterable[str], sections: Iterable[str]) -> str:
    """The whole page; empty sections are left out."""
    leads = [f'<p class="headline">{escape(sentence)}</p>' for sentence in headlines]
    body = "\n".join([f"<h1>{escape(title)}</h1>", *leads, *(section for section in sections if section)])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def section(heading: str, *content: str) -> str:
    """A part of the page under a heading; the content is HTML already."""
    return f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(content) + "\n</section>"


def paragraph(text: str, kind: str = "") -> str:
    """Text, escaped; ``kind`` is its CSS class."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def details(summary: str, content: str, *, is_open: bool = False) -> str:
    """Content (HTML) that unfolds under a line of text."""
    return f"<details{' open' if is_open else ''}><summary>{escape(summary)}</summary>\n{content}\n</details>"


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of terms and what they are, escaped; what is said of one term stands together under it."""
    under: dict[str, list[str]] = {}
    for head, text in pairs:
        under.setdefault(head, []).append(text)
    items = [f"<dt>{escape(head)}</dt>" + "".join(f"<dd>{escape(one)}</dd>" for one in under[head]) for head in under]
    return f"<dl>{''.join(items)}</dl>"


@dataclass(frozen=True)
class Card:
    """A fact of the first screen: what it is of, the fact itself in large letters, and what belongs to it."""

    head: str
    fact: str
    more: Sequence[str] = ()
    winner: bool = False


def cards(facts: Iterable[Card]) -> str:
    """Side by side, or one below the other on a phone."""
    items = ""
    for card in facts:
        more = "".join(f'<span class="more">{escape(text)}</span>' for text in card.more if text)
        kind = ' class="winner"' if card.winner else ""
        items += f"<li{kind}><span>{escape(card.head)}</span><b>{escape(card.fact)}</b>{more}</li>"
    return f'<ul class="cards">{items}</ul>' if items else ""


def figure(svg: str, caption: str, name: str = "figure") -> str:
    """``name`` sets the figure apart from the others of the page."""
    drawing = f"{_scroll('the figure')}{inline_svg(svg, name)}</div>"
    return f"<figure>\n{drawing}\n<figcaption>{escape(caption)}</figcaption>\n</figure>"


def _scroll(what: str) -> str:
    """The beginning of a box that scrolls sideways, also by the keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(what)}; scrolls sideways">'


def inline_svg(svg: str, name: str) -> str:
    """The figure as part of a page: no prologue and no namespaces (HTML has them), the page's own colours.

    Identifiers get ``name`` in front: they must be unique in a page, and two figures may use the same ones.
    """
    drawing = svg[svg.index("<svg") :]
    drawing = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", drawing)
    drawing = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{name}-", drawing)
    return drawing.replace(INK, "currentColor").replace(PAPER, "none")


def table(
    heads: Sequence[str],
    rows: Iterable[Line],
    caption: str = "",
    *,
    text_columns: Collection[int] = (0,),
    over: Sequence[tuple[str, int]] = (),
    dense: bool = False,
) -> str:
    """A table of escaped cells; ``text_columns`` are set left, ``dense`` fits many columns of short cells.

    ``over`` is a line of headings above the heads, each with the number of columns it spans; a rule sets off each
    that is not empty.
    """
    sides = ["text" if index in text_columns else "" for index in range(len(heads))]
    above, column = "", 0
    for text, width in over:
        if text:
            sides[column] += " begins"
        above += f'<th scope="colgroup" colspan="{width}" class="{"over begins" if text else ""}">{escape(text)}</th>'
        column += width
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = f"<tr>{above}</tr>" if above else ""
    head += "<tr>" + "".join(_tag("th", Cell(text), side, "col") for side, text in zip(sides, heads, strict=True))
    body = ""
    for cells, kind in rows:
        found = [cell if isinstance(cell, Cell) else Cell(cell) for cell in cells]
        rest = "".join(_tag("td", cell, side) for side, cell in zip(sides[1:], found[1:], strict=True))
        body += f'<tr class="{kind}">{_tag("th", found[0], sides[0], "row")}{rest}</tr>\n'
    kind = ' class="dense"' if dense else ""
    content = f"{title}<thead>{head}</tr></thead>\n<tbody>\n{body}</tbody>"
    return f"{_scroll(caption or 'table')}<table{kind}>{content}</table></div>"


def _tag(name: str, cell: Cell, side: str, scope: str = "") -> str:
    kind = f"{side} {cell.kind}".strip()
    attributes = (f' scope="{scope}"' if scope else "") + (f' class="{kind}"' if kind else "")
    return f"<{name}{attributes}>{escape(cell.text)}</{name}>"


def claims_table(claims: Sequence[Claim]) -> str:
    """Each claim with its verdict and what it rests on."""
    rows: list[Line] = []
    for claim in claims:
        target = "all" if claim.target_accuracy is None else percent(claim.target_accuracy)
        statement = Cell(claim.statement, "prose")
        rows.append(([statement, claim.dataset, target, VERDICTS[claim.holds], claim.evidence], ""))
    return table(("claim", "data set", "target", "verdict", "evidence"), rows, text_columns=range(5))


def quick_note(results: Results) -> str:
    """What a quick look cannot show; nothing for a whole one."""
    if not results.quick:
        return ""
    return paragraph(
        f"A quick look with {results.n_features} features on some of the rows: the paper's headline numbers cannot be"
        " reached with these, and its claims are about the whole. Run the command without --quick for them.",
        "fails",
    )


def provenance(results: Results) -> str:
    """Data, fleet, seeds and versions behind the numbers."""
    took = results.seconds
    facts = {
        "data set": results.dataset,
        "fleet": f"{results.fleet}, {results.n_devices} devices",
        "feature seeds": ", ".join(map(str, results.seeds)),
        "latency draws": results.draws,
        "computed in": f"{seconds(took.total)}, {100 * took.share:.0f} % of it linear algebra",
        "versions": ", ".join(f"{name} {version}" for name, version in results.versions.items()),
    }
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(fact))}</dd>" for name, fact in facts.items())
    command = f"<dt>command</dt><dd><code>{escape(results.command)}</code></dd>"
    return section("How this was made", f"<dl>{command}{items}</dl>")
