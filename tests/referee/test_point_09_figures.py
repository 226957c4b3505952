"""Point 9: no two curves of a figure look alike, on a screen or in print without colours; there is a PDF to print."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from codedfl.report.canvas import COLOURS, GREY, INK
from codedfl_lab.comparing.comparison import Entry
from codedfl_lab.comparing.results import PaperValue, Results, SchemeResult
from codedfl_lab.report.figures import accuracy_figure, looks_of
from codedfl_lab.report.html import drawn_of
from codedfl_lab.report.looks import Look
from codedfl_lab.report.rows import best_variants
from codedfl_lab.reproduce.beyond import beyond_entries
from codedfl_lab.reproduce.reproduce import paper_entries
from made_up_results import entry, made_up_results, trace

COLUMN_POINTS = 3.5 * 72


def row_of(one: Entry, seconds: float) -> SchemeResult:
    """As a run would have it."""
    made = entry(0.95, seconds, label=one.scheme.label, scheme=one.scheme.name, private=one.scheme.private)
    return replace(made, parameters=one.scheme.parameters, solver=one.solver_name, step=one.step)


def figure_1a() -> Results:
    rows = [row_of(one, 100.0 + index) for index, one in enumerate(paper_entries(25))]
    traces = tuple(
        trace(row, seed, epoch, 10.0 * epoch, 0.96 - 0.3 / epoch)
        for row in rows
        for seed in (0, 1)
        for epoch in range(1, 40)
    )
    return made_up_results(rows, paper=PaperValue(6.6, 23), traces=traces)


def beyond() -> list[SchemeResult]:
    return best_variants(row_of(one, 100.0) for one in beyond_entries(25))


@pytest.mark.parametrize("shown", [drawn_of(figure_1a()), beyond()], ids=["figure 1a", "beyond the paper"])
def test_no_two_curves_look_alike_with_colours_or_without(shown: list[SchemeResult]) -> None:
    looks: list[Look] = list(looks_of(shown).values())
    assert len(looks) == len(shown) >= 10
    assert len({(one.color, one.dashes) for one in looks}) == len(looks)
    assert len({(one.marker, one.dashes) for one in looks}) == len(looks)


def test_figure_1a_has_the_papers_curves_and_ours() -> None:
    names = {
        (one.scheme, one.alpha, one.parameters.get("delta")) for one in drawn_of(figure_1a()) if one.solver == "gd"
    }
    assert names >= {
        ("conventional", None, None),
        *(("coded-padded", alpha, None) for alpha in (6, 16, 23, 25)),
        *(("coded-fedl", None, delta) for delta in (0.1, 0.8)),
    }


def test_colours_are_safe_for_the_colour_blind() -> None:
    """Okabe and Ito's, ink and grey, and no others."""
    allowed = {"#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"}
    assert set(COLOURS) == allowed
    assert {one.color for one in looks_of(drawn_of(figure_1a())).values()} <= {*allowed, INK, GREY}


def test_there_is_a_pdf_at_the_width_of_a_papers_column() -> None:
    results = figure_1a()
    assert results.headline_target is not None
    pictures = [
        accuracy_figure("title", drawn_of(results), results.traces, results.headline_target, "accuracy")
        for _ in range(2)
    ]
    assert pictures[0].pdf is not None
    assert pictures[0].pdf == pictures[1].pdf, "the same bytes in every run"
    box = re.search(rb"/MediaBox \[ 0 0 ([\d.]+) ([\d.]+) \]", pictures[0].pdf)
    assert box is not None
    assert float(box[1]) == COLUMN_POINTS
    assert b"/Type3" not in pictures[0].pdf, "publishers refuse such letters"
