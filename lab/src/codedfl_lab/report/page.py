"""Pieces of a page that needs nothing else: no script, no font, no request.

Every piece of text that comes from outside is escaped here.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from codedfl.files import write_bytes
from codedfl.report.canvas import inline_svg
from codedfl.report.text import seconds
from codedfl_lab.comparing.results import Claim, GoalVerdict, Results, Verdict
from codedfl_lab.report.rows import NOTHING, percent


@dataclass(frozen=True)
class PageCell:
    """A piece of a row; ``kind`` is its class in the style sheet."""

    text: str
    kind: str = ""


Line = tuple[Sequence[str | PageCell], str]  # a row's cells and its class

VERDICTS: dict[Verdict, PageCell] = {
    "holds": PageCell("✓ holds", "text holds"),
    "fails": PageCell("✗ fails", "text fails"),
    "tie": PageCell("= tie", "text open"),
    "not judged": PageCell("– not judged", "text open"),
}
GOAL_VERDICTS: dict[GoalVerdict, PageCell] = {
    "met": PageCell("✓ met", "text holds"),
    "met, interval reaches below": PageCell("✓ met, interval reaches below", "text holds prose"),
    "missed": PageCell("✗ missed", "text fails"),
    "no goal": PageCell(NOTHING, "text"),
}


def page(title: str, headlines: Iterable[str], sections: Iterable[str]) -> str:
    """The whole page; empty sections are left out."""
    leads = [f'<p class="headline">{escape(sentence)}</p>' for sentence in headlines]
    style = files("codedfl_lab.report").joinpath("page.css").read_text(encoding="utf-8")
    body = "\n".join([f"<h1>{escape(title)}</h1>", *leads, *(section for section in sections if section)])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def write_all(folder: Path, contents: Mapping[str, bytes]) -> dict[str, Path]:
    """Files of a report by their names, each whole or not at all; their paths."""
    for name, content in contents.items():
        write_bytes(folder / name, content)
    return {name: folder / name for name in contents}


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
    head += "<tr>" + "".join(_tag("th", PageCell(text), side, "col") for side, text in zip(sides, heads, strict=True))
    body = ""
    for cells, kind in rows:
        found = [cell if isinstance(cell, PageCell) else PageCell(cell) for cell in cells]
        rest = "".join(_tag("td", cell, side) for side, cell in zip(sides[1:], found[1:], strict=True))
        body += f'<tr class="{kind}">{_tag("th", found[0], sides[0], "row")}{rest}</tr>\n'
    kind = ' class="dense"' if dense else ""
    content = f"{title}<thead>{head}</tr></thead>\n<tbody>\n{body}</tbody>"
    return f"{_scroll(caption or 'table')}<table{kind}>{content}</table></div>"


First = tuple[str | PageCell, ...]
Matrix = dict[First, dict[tuple[str, str], str | PageCell]]
"""Rows by what their first cells say; in each, cells by a heading that spans columns ("" for none) and a head."""


def matrix(
    heads: Sequence[str],
    found: Matrix,
    caption: str = "",
    *,
    text_columns: Collection[int] = (0,),
    dense: bool = False,
) -> str:
    """A table with the columns that some row has; ``heads`` are of the first cells."""
    columns = list(dict.fromkeys(column for row in found.values() for column in row))
    rows: list[Line] = [
        ([*first, *(row.get(column, NOTHING) for column in columns)], "") for first, row in found.items()
    ]
    over = [("", len(heads))]
    over += [(text, len(list(same))) for text, same in itertools.groupby(text for text, _ in columns)]
    spans = over if any(text for text, _ in over) else ()
    names = (*heads, *(name for _, name in columns))
    return table(names, rows, caption, text_columns=text_columns, over=spans, dense=dense)


def _tag(name: str, cell: PageCell, side: str, scope: str = "") -> str:
    kind = f"{side} {cell.kind}".strip()
    attributes = (f' scope="{scope}"' if scope else "") + (f' class="{kind}"' if kind else "")
    return f"<{name}{attributes}>{escape(cell.text)}</{name}>"


def target_of(claim: Claim) -> str:
    """At which score it was judged."""
    return "all" if claim.target_accuracy is None else percent(claim.target_accuracy)


def claims_table(claims: Sequence[Claim]) -> str:
    """Each claim with its verdict and what it rests on."""
    rows: list[Line] = [
        ([PageCell(one.statement, "prose"), one.dataset, target_of(one), VERDICTS[one.verdict], one.evidence], "")
        for one in claims
    ]
    return table(("claim", "data set", "target", "verdict", "evidence"), rows, text_columns=range(5))


def quick_note(results: Results) -> str:
    """What a quick look cannot show."""
    return paragraph(
        f"A quick look with {results.n_features} features on some of the rows: the paper's headline numbers cannot be"
        " reached with these, and its claims are about the whole. Run the command without --quick for them.",
        "fails",
    )


def provenance(results: Results) -> str:
    """Data, fleet, seeds and versions behind the numbers."""
    took = results.seconds
    return how_made(
        command=results.command,
        data_set=results.dataset,
        fleet=f"{results.fleet}, {results.n_devices} devices",
        feature_seeds=", ".join(map(str, results.seeds)),
        latency_draws=str(results.draws),
        computed_in=f"{seconds(took.total)}, {seconds(took.linear_algebra)} of it linear algebra",
        versions=", ".join(f"{name} {version}" for name, version in results.versions.items()),
    )


def how_made(**facts: str) -> str:
    """The last section of every page."""
    return section("How this was made", definitions((name.replace("_", " "), fact) for name, fact in facts.items()))
