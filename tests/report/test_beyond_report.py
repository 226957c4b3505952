"""The report beyond the paper: complete files, goals, the floor, large fleets and the journal's claim beside ours."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from page_reader import Page

from codedfl.errors import InvalidInput
from codedfl_lab.comparing.names import method_name
from codedfl_lab.comparing.results import (
    AtSize,
    Claim,
    Gain,
    GoalVerdict,
    Preparation,
    Racer,
    Results,
    SchemeResult,
    Speedups,
    Summary,
    Timed,
    Times,
    TraceRow,
)
from codedfl_lab.report.beyond_page import beyond_headlines, peer_lines, scaling_figure
from codedfl_lab.report.files import write_beyond_report
from codedfl_lab.report.rows import amount, best_variants
from made_up_results import entry, made_up_results, made_up_timed, same, trace

FILES = [
    *("results.json", "traces.csv"),
    *(f"accuracy-{name}.{kind}" for name in ("mnist", "fashion-mnist") for kind in ("png", "svg", "pdf")),
    *("scaling.png", "scaling.svg", "scaling.pdf", "report.html"),
]
TARGETS = {"mnist": 0.95, "fashion-mnist": 0.85}
# scheme, alpha, solver, seconds, epochs, directions of 2000
SCHEMES = (
    ("conventional", None, "gd", 8400.0, 250, None),
    ("conventional-full-batch", None, "cg", 700.0, 10, None),
    ("coded-padded", 23, "gd", 1250.0, 250, 2000),
    ("coded-keys", 23, "gd", 600.0, 250, 2000),
    ("coded-keys", 25, "gd", 560.0, 250, 2000),
    ("coded-keys", 25, "cg", 70.0, 10, 100),
    ("one-shot", 25, "gd", 50.0, 1, 2000),
)
BELOW: GoalVerdict = "met, interval reaches below"
GOALS = (
    Racer(
        *("mnist", "role-keys", "block-krylov", 1, 1000),
        columns=(
            Timed(
                "call", "role-keys, z = 1, K = 5", 20.0, 420.0, 390.0, 460.0, 19.0, 400.0, "met, interval reaches below"
            ),
            Timed("zero", "role-keys, z = 1, K = 2", 81.5, 103.0, 99.0, 110.0, 4.2, 200.0, "missed"),
            Timed("ring", "role-keys, z = 1, K = 5", 60.0, 140.0),
        ),
    ),
    Racer("mnist", "role-keys", "cg", features="dct-rbf", columns=(Timed("call"), Timed("zero"), Timed("ring"))),
)
STEPS = (
    Preparation("role-keys, z = 1, K = 5", 1000, "enrol", "fast", 0.123),
    Preparation("role-keys, z = 1, K = 5", 1000, "enrol", "slowest", 2.46),
    Preparation("role-keys, z = 1, K = 5", 1000, "draw a role's key", "fast", 0.456),
)
LABELS = {"conventional": "conventional FL", "conventional-full-batch": "conventional FL, full batch"}


def label_of(scheme: str, alpha: int | None) -> str:
    return LABELS.get(scheme, f"{scheme}, α = {alpha}")


def made_up_schemes() -> list[SchemeResult]:
    found = []
    for dataset, target in TARGETS.items():
        for chunked in (False, True):
            for sharing in ("authors", "multicast"):
                for scheme, alpha, solver, seconds, epochs, directions in SCHEMES:
                    time = seconds - chunked
                    faster = 8400.0 / time
                    found.append(
                        entry(
                            target,
                            time,
                            dataset=dataset,
                            speedups=(faster, faster, faster),
                            final=target + 0.01,
                            scheme=scheme,
                            label=label_of(scheme, alpha),
                            parameters={} if alpha is None else {"alpha": alpha},
                            solver=solver,
                            sharing=sharing,
                            private=not scheme.startswith("conventional"),
                            epochs_to_target=same(float(epochs)),
                            chunked=chunked,
                            gram_directions=directions,
                            gain=Gain(12.0, faster / 12.0) if solver == "cg" else Gain(),
                        )
                    )
    return found


def made_up(schemes: list[SchemeResult] | None = None) -> Results:
    rows = made_up_schemes() if schemes is None else schemes
    return made_up_results(
        rows,
        name="beyond",
        title="Beyond the paper",
        dataset="mnist, fashion-mnist",
        command="codedfl lab reproduce beyond",
        headline_target=None,
        goals=GOALS,
        preparations=STEPS,
        claims=(Claim("32 bits are enough", "mnist", 0.95, "holds", "epochs 6 and 6"),),
        scaling=made_up_scaling(),
        notes=("a note of the study",),
        traces=made_up_traces(rows),
    )


def made_up_scaling() -> tuple[AtSize, ...]:
    curves = {
        ("conventional", "gd"): (1.0, 1.0),
        ("coded-padded", "gd"): (11.0, 12.5),
        ("coded-keys", "cg"): (160.0, 38.0),
    }
    return tuple(
        AtSize(
            dataset=dataset,
            devices=devices,
            sharing="multicast",
            chunked=True,
            timed=made_up_timed(
                scheme=scheme, label=f"{scheme}, α = 24, 5 groups", solver=solver, seconds_mean=3000.0 / speedup
            ),
            speedup=speedup,
            chosen=scheme == "coded-keys",
        )
        for dataset in TARGETS
        for (scheme, solver), speedups in curves.items()
        for devices, speedup in zip((25, 120), speedups, strict=True)
    )


def made_up_traces(schemes: list[SchemeResult]) -> tuple[TraceRow, ...]:
    """Of the first convention, messages in one lump; one-shot has one epoch."""
    found = []
    for one in schemes:
        if one.sharing != "authors" or one.chunked:
            continue
        target, last = one.target_accuracy, one.time_to_target_s.median or 1000.0
        for seed in (0, 1):
            for epoch in [1] if one.scheme == "one-shot" else range(1, 12):
                score = target + 0.01 - 0.1 / epoch**2 + 0.002 * seed
                found.append(trace(one, seed, epoch, last * epoch / 11, score))
    return tuple(found)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_beyond_report(tmp_path_factory.mktemp("report") / "new" / "beyond", made_up())


@pytest.fixture(scope="module")
def page(written: dict[str, Path]) -> Page:
    return Page(written["report.html"].read_text())


def cells_after(page: Page, first: str, count: int, occurrence: int = 0) -> list[str]:
    start = [index for index, text in enumerate(page.texts) if text == first][occurrence]
    return page.texts[start + 1 : start + 1 + count]


def test_files_are_complete(written: dict[str, Path]) -> None:
    assert sorted(written) == sorted(FILES)
    folder = written["report.html"].parent
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert json.loads(written["results.json"].read_text()) == json.loads(made_up().json_bytes())
    assert all(written[name].read_bytes().startswith(b"\x89PNG") for name in FILES if name.endswith("png"))


def test_the_same_results_give_the_same_bytes(written: dict[str, Path], tmp_path: Path) -> None:
    again = write_beyond_report(tmp_path, made_up())
    for name in FILES:
        assert written[name].read_bytes() == again[name].read_bytes(), name


def test_page_needs_nothing_and_its_identifiers_are_unique(written: dict[str, Path], page: Page) -> None:
    html = written["report.html"].read_text()
    assert "://" not in html
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    names = [value for name, value in page.attributes if name == "id"]
    assert len(names) == len(set(names))
    asked = [value for name, value in page.attributes if name in {"href", "xlink:href"}]
    asked += re.findall(r"url\(([^)]*)\)", html)
    assert {value.removeprefix("#") for value in asked} <= set(names)


def test_headlines_compare_with_conventional_fl_and_with_its_fair_rival() -> None:
    first, second = beyond_headlines(made_up())
    assert first == (
        "To 95\u202f% accuracy on MNIST, coded-keys (α = 25, CG) is fastest with 70.0\u202fs, 120 times faster than"
        " conventional FL with its 8400\u202fs (12.0 by the solver, 10.0 by the code), and its server sees only the"
        " total."
    )
    assert second.startswith("To 85\u202f% accuracy on Fashion-MNIST, coded-keys (α = 25, CG) is fastest with")


def test_goals_have_a_figure_and_a_verdict_in_every_column(page: Page) -> None:
    row = cells_after(page, "role-keys, z = 1, K = 5, block Krylov (from zero z = 1, K = 2)", 12)
    row = [cell.replace("\u202f", " ") for cell in row]
    assert row[:5] == ["20.0 s", "420 (390–460)", "19.0", "400", "✓ met, interval reaches below"]
    assert row[5:10] == ["81.5 s", "103 (99.0–110)", "4.20", "200", "✗ missed"]
    assert row[10:] == ["60.0 s", "140"]
    assert "MNIST, 25 devices, low frequencies" in page.texts


def test_what_is_prepared_stands_by_class_of_devices(page: Page) -> None:
    assert cells_after(page, "enrol", 2) == ["0.123", "2.46"]
    assert cells_after(page, "draw a role's key", 2) == ["0.456", "–"]


def test_schemes_stand_fastest_first_under_every_convention(page: Page) -> None:
    labels = {f"{label_of(scheme, alpha)}{', CG' if solver == 'cg' else ''}" for scheme, alpha, solver, *_ in SCHEMES}
    table = page.texts[page.texts.index("one-shot, α = 25") :]  # above it, schemes are named without alpha
    rows = [text for text in table if text in labels]
    assert rows[:7] == [
        "one-shot, α = 25",
        "coded-keys, α = 25, CG",
        "coded-keys, α = 25",
        "coded-keys, α = 23",
        "conventional FL, full batch, CG",
        "coded-padded, α = 23",
        "conventional FL",
    ]
    lump, _, chunked, _ = (cells_after(page, "coded-keys, α = 25, CG", 11, place) for place in range(4))
    assert [cell.replace("\u00a0", " ") for cell in lump[:5]] == ["10", "70.0", "70.0", "120", "12.0 × 10.0"]
    assert chunked[:4] == ["10", "69.0", "69.0", "122"]
    assert lump[-2:] == ["total only", "100"]
    assert cells_after(page, "conventional FL, full batch, CG", 11)[-2:] == ["each device", "–"]
    assert "sharing multicast, messages in chunks" in page.texts


def test_large_fleets_have_a_table_with_the_choice_marked(page: Page) -> None:
    assert cells_after(page, "D = 120", 9) == [
        *("conventional FL", "1.00", "1.00", "coded-padded", "11.0", "12.5", "coded-keys, CG", "◉ 160", "◉ 38.0")
    ]


def test_other_secure_aggregation_stands_fastest_first() -> None:
    rows = [row for row in made_up_scaling() if row.dataset == "mnist" and row.devices == 120]
    first, *_, last = peer_lines(rows)
    assert first[:2] == ["120", "coded-keys, α = 24, 5 groups, CG"] and last[1].startswith("conventional")


def test_without_large_fleets_there_is_no_section(tmp_path: Path) -> None:
    paths = write_beyond_report(tmp_path, replace(made_up(), scaling=()))
    assert "scaling.png" not in paths
    assert "More devices" not in Page(paths["report.html"].read_text()).texts
    with pytest.raises(InvalidInput, match=r"^a figure must have at least one curve, got none$"):
        scaling_figure([])


def test_schemes_that_never_get_there(tmp_path: Path) -> None:
    schemes = made_up_schemes()
    for index, one in enumerate(schemes):
        if one.scheme.startswith("coded") and one.dataset == "mnist":
            schemes[index] = replace(
                one,
                seeds_reached=0,
                gram_directions=None,
                time_to_target_s=Times(),
                epochs_to_target=Summary(),
                speedup_over_conventional=Speedups(0.0),
            )
    page = Page(write_beyond_report(tmp_path, made_up(schemes))["report.html"].read_text())
    first = next(text for text in page.texts if text.startswith("To 95\u202f% accuracy on MNIST, "))
    assert "; no scheme whose server sees only the total gets there; " in first
    assert any("rows reach the target in no seed (“never”)" in text for text in page.texts)
    assert "None" not in page.texts


def test_everything_from_outside_is_escaped(tmp_path: Path) -> None:
    evil = '<script>alert("x")</script>&'
    results = made_up([replace(one, label=one.label + evil) for one in made_up_schemes()])
    results = replace(
        results,
        title=evil,
        command=evil,
        fleet=evil,
        notes=(evil,),
        claims=tuple(replace(claim, evidence=evil) for claim in results.claims),
        goals=tuple(
            replace(goal, columns=tuple(replace(one, label=evil) for one in goal.columns)) for goal in results.goals
        ),
        preparations=tuple(replace(one, label=evil, step=evil, device=evil) for one in results.preparations),
        scaling=tuple(replace(row, timed=replace(row.timed, label=evil)) for row in results.scaling),
    )
    page = Page(write_beyond_report(tmp_path, results)["report.html"].read_text())
    assert "script" not in page.tags


def test_results_without_schemes_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"^results must hold at least one scheme, got none$"):
        write_beyond_report(tmp_path / "out", replace(made_up(), schemes=()))
    assert not (tmp_path / "out").exists()


# -- names and amounts


def test_names_of_methods() -> None:
    assert method_name("conventional-full-batch", "gd") == "conventional FL, full batch"
    assert method_name("conventional-full-batch", "cg", " with ") == "conventional FL with CG"


def test_best_variants_are_the_fastest_of_each_method() -> None:
    assert [one.label for one in best_variants(made_up_schemes()[:7]) if one.scheme == "coded-keys"] == [
        "coded-keys, α = 25"
    ] * 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0\u202fB"),
        (880e3, "880\u202fkB"),
        (999.9e3, "1.00\u202fMB"),
        (13.4e6, "13.4\u202fMB"),
        (2e12, "2.00\u202fTB"),
    ],
)
def test_amounts(value: float, text: str) -> None:
    assert amount(value, "B") == text
