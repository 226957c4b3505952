"""The report: complete files, one page that needs nothing else, and no number that is not in the results."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from page_reader import Page
from rich.console import Console

from codedfl.errors import InvalidInput
from codedfl.report.canvas import Pictures
from codedfl.report.text import count, number
from codedfl_lab import datasets
from codedfl_lab.baselines.conventional import Conventional
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.comparing.comparison import Entry, Settings, compare
from codedfl_lab.comparing.results import (
    Claim,
    Gain,
    PaperValue,
    Results,
    SchemeResult,
    Times,
    TraceRow,
    Verdict,
)
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.problems.problem import make_problem
from codedfl_lab.report.figures import accuracy_figure, curves_of
from codedfl_lab.report.files import write_report
from codedfl_lab.report.html import headline, report_page
from codedfl_lab.report.rows import rows_at, span
from codedfl_lab.report.tables import comparison_table
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.coded_padded import CodedPadded
from made_up_results import entry, made_up_results, trace

FILES = ["results.json", "traces.csv", "accuracy.png", "accuracy.svg", "accuracy.pdf", "summary.csv", "report.html"]


def made_up() -> Results:
    kinds: list[dict[str, Any]] = [
        {"speedups": (1.0, 1.0, 1.0)},
        {"alpha": 23, "speedups": (6.31, 6.62, 6.93), "gain": Gain(2.0, 3.31)},
        {"dropped": 5, "final": 0.871},
    ]
    schemes = [
        entry(target, seconds, **which)
        for target, times in ((0.9, (684.0, 740.0, 1100.0)), (0.95, (8022.0, 1210.0, None)))
        for seconds, which in zip(times, kinds, strict=True)
    ]
    return made_up_results(schemes, paper=PaperValue(6.6, 23), traces=made_up_traces(schemes[:3]))


def made_up_traces(schemes: list[SchemeResult]) -> tuple[TraceRow, ...]:
    """Two seeds a scheme; the second stops one epoch earlier."""
    return tuple(
        trace(one, seed, epoch, float(epoch * 100 * (index + 1)), 0.96 - 0.3 / epoch - 0.01 * seed)
        for index, one in enumerate(schemes)
        for seed in (0, 1)
        for epoch in range(1, 30 - seed)
    )


def figure_of(results: Results) -> Pictures:
    assert results.headline_target is not None
    return accuracy_figure(results.title, results.schemes, results.traces, results.headline_target, results.score_name)


def page_of(results: Results) -> Page:
    return Page(report_page(results, figure_of(results).svg))


@pytest.fixture(scope="module")
def real() -> Results:
    """Small and real: digits with 100 features on the paper's fleet, no claims and nothing of the paper's to match."""
    data = datasets.load("digits")
    problems = [(seed, make_problem(data, n_devices=25, n_features=100, seed=seed)) for seed in (0, 1)]
    entries = [
        Entry(Conventional()),
        Entry(CodedPadded(23)),
        Entry(CodedKeys(25), "cg"),
        Entry(DropSlowest(5)),
        Entry(Conventional(), step="literal"),
        Entry(CodedPadded(23), step="literal"),
    ]
    settings = Settings(
        Conditions(Fleet.load("paper")), (0.8, 0.93), ("authors", "multicast"), draws=10, max_epochs=120
    )
    outcome = compare("digits", problems, entries, settings)
    return made_up_results(
        outcome.schemes,
        name="digits",
        title="digits on the paper's fleet",
        dataset="digits",
        seconds=outcome.seconds,
        traces=outcome.traces,
    )


def test_files_are_complete(real: Results, tmp_path: Path) -> None:
    paths = write_report(tmp_path / "new" / "digits", real)
    assert list(paths) == FILES
    assert sorted(path.name for path in (tmp_path / "new" / "digits").iterdir()) == sorted(FILES)
    assert json.loads(paths["results.json"].read_text()) == json.loads(real.json_bytes())
    with paths["traces.csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(real.traces)
    assert rows[0] == {key: str(value) for key, value in asdict(real.traces[0]).items()}
    assert paths["accuracy.png"].read_bytes().startswith(b"\x89PNG")
    Page(paths["report.html"].read_text())


def test_the_same_results_give_the_same_bytes(real: Results, tmp_path: Path) -> None:
    first, second = (write_report(tmp_path / name, real) for name in ("first", "second"))
    for name in FILES:
        assert first[name].read_bytes() == second[name].read_bytes(), name


def test_page_of_a_real_comparison(real: Results) -> None:
    page = page_of(real)
    for summary in (
        "sharing authors, step derived",
        "sharing authors, step literal",
        "sharing multicast, step derived",
        "sharing multicast, step literal",
    ):
        assert summary in page.texts
    assert "coded-keys, α = 25, CG" in page.texts
    assert "The paper's claims" not in page.texts
    assert "Shuffled data" not in page.texts


def test_page_asks_for_nothing_from_outside(real: Results) -> None:
    html = report_page(real, figure_of(real).svg)
    assert "://" not in html
    assert "@import" not in html
    assert not {"script", "link", "img", "iframe", "object"} & set(Page(html).tags)
    targets = [value for name, value in Page(html).attributes if name in {"href", "xlink:href", "src"}]
    assert all(value.startswith("#") for value in targets)
    assert all(value.startswith("#") for value in re.findall(r"url\(([^)]*)\)", html))


def test_everything_from_outside_is_escaped() -> None:
    evil = '<script>alert("x")</script>&'
    results = made_up()
    results = replace(
        results,
        title=evil,
        dataset=evil,
        command=evil,
        fleet=evil,
        schemes=tuple(replace(one, label=one.label + evil) for one in results.schemes),
        traces=tuple(replace(one, label=one.label + evil) for one in results.traces),
        notes=(evil,),
        versions={evil: evil},
        claims=(Claim(evil, evil, None, "holds", evil),),
    )
    page = page_of(results)
    assert "script" not in page.tags
    assert page.texts.count(evil) >= 7


def test_never_and_its_seeds_are_shown() -> None:
    page = page_of(made_up())
    assert "never (0 of 2 seeds)" in page.texts
    assert any("rows reach 95\u202f% accuracy in no seed (“never”)" in text for text in page.texts)
    assert "None" not in page.texts
    assert not {"nan", "inf"} & set(page.texts)


def test_the_papers_value_stands_beside_ours() -> None:
    results = made_up()
    assert headline(results) == (
        "Coded-padded with α = 23 reaches 95\u202f% accuracy 6.62 times faster than conventional FL"
        " (median over 2 seeds, 6.31–6.93 over them); the paper reports 6.6."
    )
    texts = page_of(results).texts
    start = texts.index("ours / paper")
    assert texts[start + 2 : start + 10] == ["authors", "paper", "6.6", "6.62", "6.31–6.93", "–", "1.00", "–"]


def test_headline_says_when_there_is_nothing_to_compare() -> None:
    results = made_up()
    results = replace(results, schemes=tuple(one for one in results.schemes if one.scheme != "coded-padded"))
    assert "no speed-up at 95\u202f% accuracy to set against the paper's 6.6" in headline(results)
    results = replace(results, paper=None)
    assert headline(results).startswith(
        "To 95\u202f% accuracy on mnist, conventional FL is fastest with 8022\u202fs; no scheme whose server"
    )
    results = replace(results, schemes=tuple(replace(one, time_to_target_s=Times()) for one in results.schemes))
    assert headline(results) == (
        "No scheme reaches 95\u202f% accuracy on mnist in half of the seeds: take a lower target or more epochs."
    )


def test_verdicts_and_shuffled_sections() -> None:
    results = made_up()
    results = replace(
        results,
        claims=tuple(Claim(f"claim {verdict}", "mnist", 0.95, verdict, "e") for verdict in get_args(Verdict)),
        shuffled=tuple(replace(one, dataset="mnist (shuffled)") for one in results.schemes),
    )
    texts = page_of(results).texts
    verdicts = ["✓ holds", "✗ fails", "= tie", "– not judged"]
    assert [text for text in texts if text in verdicts] == verdicts
    assert "Shuffled data" in texts


def test_a_quick_look_says_that_no_headline_can_be_reached() -> None:
    quick = "A quick look with 500 features on some of the rows: the paper's headline numbers cannot be reached"
    assert not any(text.startswith("A quick look") for text in page_of(made_up()).texts)
    assert any(text.startswith(quick) for text in page_of(replace(made_up(), quick=True, n_features=500)).texts)


def test_notes_and_provenance() -> None:
    text = " ".join(page_of(made_up()).texts)
    for words in (
        "γ = 1/(2σ²) = 0.02",
        "μ = 6",
        "μ = 12",
        "“authors”",
        "150\u202fs of it linear algebra",
        "codedfl 0.1.0",
    ):
        assert words in text
    digits = replace(made_up(), paper=None)
    assert "Kernel parameter" not in " ".join(page_of(digits).texts)


def test_results_that_are_not_json_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    results = made_up()
    results = replace(results, schemes=(replace(results.schemes[0], sharing_s=math.inf), *results.schemes[1:]))
    with pytest.raises(InvalidInput, match=r"^results must hold finite numbers and None only, got one that is not"):
        write_report(tmp_path / "out", results)
    assert not (tmp_path / "out").exists()


def test_bad_targets_and_traces_are_refused(tmp_path: Path) -> None:
    results = replace(made_up(), headline_target=0.93)
    with pytest.raises(
        InvalidInput, match=r"^headline_target must be a target of the results \(0.9, 0.95\), got 0.93$"
    ):
        write_report(tmp_path, results)
    with pytest.raises(InvalidInput, match=r"^traces must hold rows of 'mnist' with step paper, got none$"):
        figure_of(replace(made_up(), traces=()))
    with pytest.raises(InvalidInput, match=r"^results must hold at least one scheme, got none$"):
        figure_of(replace(made_up(), schemes=()))


def printed(schemes: Sequence[SchemeResult], width: int = 120) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(comparison_table(schemes, 0.95, title="MNIST"))
    return console.export_text()


def test_terminal_table_is_fastest_first_and_names_what_the_server_sees() -> None:
    text = printed(made_up().schemes)
    lines = [line for line in text.splitlines() if " device" in line or "total only" in line]
    assert [line.split("  ")[0] for line in lines] == ["coded-padded", "conventional FL", "dropping the slowest 5"]
    assert lines[0].split() == ["coded-padded", "10", "1210", "6.62", "0", "total", "only"]
    assert text.splitlines()[text.splitlines().index(lines[0]) + 1].split() == [
        *("α", "=", "23", "95.0", "%", "1210", "2.00", "×", "3.31", "2.00")
    ]
    assert "never" in lines[2] and "each device" in lines[2]


def test_terminal_table_fits_eighty_characters_without_breaking_a_word() -> None:
    """The longest names and numbers that there are; a caption may wrap between words."""
    rows = [
        entry(0.95, 18_722.0, scheme="conventional-full-batch", label="conventional FL, full batch", solver="nesterov"),
        entry(0.95, 18_900.0, alpha=23, parameters={"alpha": 23, "groups": 40}, solver="nesterov"),
        entry(0.95, 20_000.0, dropped=15, speedups=(0.1, 0.2, 0.3)),
        entry(0.95, None, delta=0.1, reason="the parity data are singular " * 5),
    ]
    long = [replace(one, time_to_target_s=replace(one.time_to_target_s, p95=21_001.0)) for one in rows[:3]]
    text = printed([replace(one, gain=Gain(123.0, 0.0948)) for one in long] + rows[3:], width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert {"Nesterov", "slowest", "singular", "device", "only"} <= set(text.split())
    assert "18\u202f722–21\u202f001" in text
    assert "CodedFedL (δ = 0.1) could not run: the parity data are singular" in " ".join(text.split())


def test_terminal_table_refuses_what_is_not_there() -> None:
    with pytest.raises(InvalidInput, match=r"^schemes must hold at least one entry, got none$"):
        comparison_table([], 0.95)
    with pytest.raises(
        InvalidInput, match=r"^schemes must hold target 0.95 with sharing multicast and step paper, got"
    ):
        comparison_table(made_up().schemes, 0.95, sharing="multicast")


def test_regression_scores_are_not_percentages() -> None:
    results = replace(made_up(), score_name="R^2", paper=None)
    assert headline(results).startswith("To R^2 = 0.95 on mnist, coded-padded (α = 23) is fastest")
    assert rows_at(results.schemes, 0.95, "authors", "paper", "R^2")[2].final == "0.871"
    page_of(results)


def test_dollar_signs_in_a_title_are_dollar_signs() -> None:
    figure_of(replace(made_up(), title="prices in $, $x_"))


def test_curves_hold_a_seed_that_has_stopped() -> None:
    """Seed 1 reaches the target and stops at epoch 2; epochs 3 and 4 of seeds 0 and 2 must not stand alone."""
    scores = {0: [0.1, 0.2, 0.3, 0.4], 1: [0.5, 0.9], 2: [0.2, 0.3, 0.4]}
    traces = [
        TraceRow("d", "L", "s", "gd", "paper", seed, epoch, 10.0 * epoch, score)
        for seed, of_seed in scores.items()
        for epoch, score in enumerate(of_seed, 1)
    ]
    (curve,) = curves_of(traces, "d", "paper")
    assert curve.seconds.tolist() == [10.0, 20.0, 30.0]  # half of the seeds have stopped at epoch 3
    np.testing.assert_allclose(curve.median, [0.2, 0.3, 0.4])
    np.testing.assert_allclose(curve.high, [0.5, 0.9, 0.9])
    assert curve.reaches(0.3) == 20.0
    assert curve.reaches(0.5) == math.inf


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "never"),
        (0.0, "0"),
        (6.4, "6.40"),
        (0.0948, "0.0948"),
        (99.96, "100"),
        (1209.6, "1210"),
        (18722.2, "18\u202f722"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def test_counts_and_ranges() -> None:
    assert [count(10.5), count(230.0), count(12000), count(None)] == ["10.5", "230", "12\u202f000", "never"]
    assert [span(1.0, 2.0), span(1.0, 1.0), span(None, 2.0), span(1.0, None)] == [
        "1.00–2.00",
        "1.00",
        "–",
        "1.00–never",
    ]
