"""The page of a study's results: the answer, figures, tables, methods, and what was revealed, folded.

It is made of result.json and of figures that were drawn of it, and needs nothing else: its own style, pictures in it,
no script and no request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import NamedTuple

from codedfl.report.methods import answers, methods_text
from codedfl.report.result_parts import models_of
from codedfl.report.result_tables import all_tables, count_text
from codedfl.typing import Unchecked

_TOGETHER = re.compile(r"(?<=\d) (?=%)|(?<=\bp) (?=[=<&])|(?<=\bp =) (?=\d)")  # what no line may begin or end within
_DISCLOSURE = '<details id="disclosure"><summary>Disclosure: what was revealed to whom</summary>'
NO_FIGURES = "Figures need matplotlib: pip install 'codedfl[report]', then codedfl study report with this folder."


class Shown(NamedTuple):
    """A figure for the page: an ``svg`` element, and the name of its files."""

    name: str
    caption: str
    svg: str


@cache
def _template() -> Template:
    return Template(files("codedfl.report").joinpath("study_page.html").read_text(encoding="utf-8"))


def study_page(result: Unchecked, figures: Sequence[Shown] | None = None) -> str:
    """The page of what ``study_files.result_json`` made; None for figures is that nothing can draw them here."""
    said = f"study {result['digest']}, version {result['edition']}, codedfl {result['codedfl']}"
    parts = [
        _head(result),
        _section("Answer", _answer(result)),
        _section("Figures", _figures(figures)),
        _section("Tables", _tables(result)),
        _section("Methods", "".join(f"<p>{escape(one)}</p>" for one in methods_text(result).split("\n\n"))),
        _section("Rows and columns", _rows(result)),
        _disclosure(result),
        f"<footer>{escape(said)}</footer>",
    ]
    body = _TOGETHER.sub("\N{NO-BREAK SPACE}", "\n".join(filter(None, parts)))
    return _template().substitute(title=escape(result["study"]), body=body)


def _section(title: str, inner: str) -> str:
    name = title.lower().replace(" ", "-")
    return f'<section aria-labelledby="{name}"><h2 id="{name}">{title}</h2>\n{inner}\n</section>' if inner else ""


def _list(lines: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(one)}</li>' for one in lines)}</ul>" if lines else ""


def _head(result: Unchecked) -> str:
    owners = {name for who in result["owners"].values() for name in who}
    facts = [
        ("predicted", result["target"]),
        ("class modelled", result["class_modelled"]),
        ("rows", "hidden by noise" if result["rows"] is None else count_text(result["rows"])),
        ("sites", count_text(len(owners)) if owners else ""),
        ("without the rows of", ", ".join(result["without"])),
        ("formula", result["formula"]),
    ]
    shown = "".join(f"<div><dt>{escape(n)}</dt><dd>{escape(v)}</dd></div>" for n, v in facts if v)
    purpose = f'<p class="soft">{escape(result["purpose"])}</p>' if result["purpose"] else ""
    trial = '<p class="soft">A rehearsal on one machine, not a federation.</p>' if result["rehearsal"] else ""
    return f"<h1>{escape(result['study'])}</h1>{purpose}{trial}<dl>{shown}</dl>"


def _answer(result: Unchecked) -> str:
    parts = [_list([*answers(result), *_scores(result)])]
    parts += [f'<p class="caution">{escape(one)}</p>' for one in result["cautions"]]
    gone = (f"left out: {one['term']}, since {one['why']}" for one in result["terms_left_out"])
    parts += [f'<p class="caution">{escape(one)}</p>' for one in gone]
    return "".join(parts)


def _scores(result: Unchecked) -> list[str]:
    """Of the study's own model, and of others that have one."""
    found = []
    for name, model in ((one["name"], one) for one in models_of(result)):
        before, score = f"{name}: " if name else "", model.get("score")
        if score is None:
            if not name and result.get("regularisation") is not None and result["held_out"]:
                found.append(f"no score: {result['no_score']}")
            continue
        rows = f"on {count_text(score['rows'])} {'held-out rows' if score.get('held_out', True) else 'rows of the fit'}"
        if "r_squared" in score:
            found.append(f"{before}R² of the prediction {score['r_squared']:.3f} {rows}.")
            continue
        least = "at least " * bool(score["withheld"])
        area, hidden = "", "; its tables and curves are withheld for small cells" * bool(score["withheld"])
        if score.get("auc") is not None and score.get("auc_interval"):
            area = ", area under the ROC curve {:.3f} ({:.3f} to {:.3f})".format(score["auc"], *score["auc_interval"])
        if line := model.get("calibration_line"):
            area += f", calibration slope {line['slope']:.2f} (standard error {line['slope_error']:.2f})"
        found.append(f"{before}accuracy {least}{100 * score['accuracy']:.1f} %{area} {rows}{hidden}.")
    return found


def _figures(figures: Sequence[Shown] | None) -> str:
    if figures is None:
        return f'<p class="soft">{escape(NO_FIGURES)}</p>'
    return "".join(
        f'<figure><div class="scrolls" tabindex="0" role="region" aria-label="{escape(one.name)}; scrolls sideways">'
        f'<div role="img" aria-label="{escape(one.caption)}">{one.svg}</div></div>'
        f"<figcaption><b>Figure {place}.</b> {escape(one.caption)} {_links('figures', one.name, 'svg', 'pdf', 'png')}"
        "</figcaption></figure>"
        for place, one in enumerate(figures, start=1)
    )


def _tables(result: Unchecked) -> str:
    return "".join(
        f'<div class="table"><p class="name"><b>Table {place}.</b> {escape(one.title)}'
        f" {_links('tables', one.name, 'csv', 'html', 'tex')}</p>"
        f'<div class="scrolls" tabindex="0" role="region" aria-label="{escape(one.title)}; scrolls sideways">'
        f"{one.html(caption=False)}</div></div>"
        for place, one in enumerate(all_tables(result), start=1)
    )


def _links(folder: str, name: str, *kinds: str) -> str:
    """To the files beside the page."""
    links = " ".join(f'<a href="{folder}/{escape(name)}.{kind}">{kind.upper()}</a>' for kind in kinds)
    return f'<span class="files">{links}</span>'


def _rows(result: Unchecked) -> str:
    """Whose rows are in which sum, and levels that were merged."""
    said = {f"left out: {one['term']}, since {one['why']}" for one in result["terms_left_out"]}
    lines = [one for one in result["merged_words"] if one not in said]
    return _list([*lines, *_sums(result["owners"])])


def _sums(owners: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Whose rows are in which sums; those of the same sites together."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, who in owners.items():
        alike.setdefault(tuple(who), []).append(name)
    for who, names in alike.items():
        every = "every sum" if len(alike) == 1 else f"sum{'s' * (len(names) > 1)} {', '.join(names)}"
        yield f"in {every}: the rows of {len(who)} sites, {', '.join(who)}"


def _disclosure(result: Unchecked) -> str:
    scores = (one.get("score") or {} for one in models_of(result))
    withheld = dict.fromkeys(one["withheld"] for one in scores if one.get("withheld"))
    parts = [_DISCLOSURE, _list([*result["merged_words"], *withheld])]
    for question, said in result["revealed"].items():
        parts.append(f"<h3>{escape(question)}</h3>{_list(said)}")
    return "\n".join([*filter(None, parts), "</details>"])
