"""`codedfl lab reproduce arithmetic`: the paper's own system, end to end, and Propositions 1 to 3 one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from codedfl_lab.paper import PaperFixedPoint
from codedfl_lab.reproduce import arithmetic
from codedfl_lab.reproduce.arithmetic import ArithmeticResults, Size, reproduce_arithmetic, try_everything

Run = Callable[..., Result]
SMALL = Size("digits", 5, 3, 60, 12)


@pytest.fixture(scope="module")
def narrow() -> ArithmeticResults:
    """A range of +-512 instead of +-2^23, so that 60 x 60 Gram matrices wrap, beside one that nothing leaves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arithmetic, "DATATYPES", (PaperFixedPoint(26, 16), PaperFixedPoint(62, 16)))
        return reproduce_arithmetic(sizes=[SMALL], seed=1)


def verdicts(results: ArithmeticResults, where: str) -> dict[str, str]:
    return {claim.statement: claim.verdict for claim in results.claims if where in claim.dataset}


def test_the_propositions_are_tried_for_every_number_of_a_small_datatype() -> None:
    tiny = try_everything(PaperFixedPoint(6, 3))
    assert (tiny.secrets, tiny.uniform) == (64, 64), "Proposition 1 holds"
    fits = sum(-32 <= (c * x) >> 3 < 32 for c in range(-32, 32) for x in range(-32, 32))
    failed = sum(
        abs((((c * onto(x + r)) >> 3) - ((c * r) >> 3) - ((c * x) >> 3) + 32) % 64 - 32) > 1
        for c in range(-32, 32)
        for x in range(-32, 32)
        for r in range(-32, 32)
        if abs((c * x) >> 3) < 32
    )
    assert tiny.triples <= 64 * fits
    assert tiny.failed == failed > 0 and tiny.failed_without_wrap == 0


def onto(value: int) -> int:
    return (value + 32) % 64 - 32


def test_what_breaks_where_numbers_wrap(narrow: ArithmeticResults) -> None:
    row = narrow.rows[0]
    assert row.wrapped > 0 and abs(row.wrapped - row.expected) < 5 * (2 * row.expected) ** 0.5
    assert row.answers_spoilt and row.sets_spoilt and row.rows_spoilt and row.epochs_spoilt
    assert row.largest_error > 1000 * row.tolerance
    assert row.accuracy < row.exact_accuracy - 0.2 and row.distance > 1
    found = verdicts(narrow, "Q<26,16>")
    assert len(found) == 3 and set(found.values()) == {"fails"}


def test_what_holds_where_nothing_wraps(narrow: ArithmeticResults) -> None:
    """The tolerance is no excuse: the same data, code, keys and stragglers, in a range that nothing leaves."""
    row = narrow.rows[1]
    assert (row.wrapped, row.answers_spoilt, row.sets_spoilt, row.epochs_spoilt, row.first_spoilt) == (0, 0, 0, 0, None)
    assert 0 < row.distance < 0.01 and 0 < row.code_error < 0.01
    found = verdicts(narrow, "Q<62,16>")
    assert len(found) == 3 and set(found.values()) == {"holds"}


def test_ours_is_exact(narrow: ArithmeticResults) -> None:
    assert all(row.exact_wrong == 0 and row.machines_agree for row in narrow.rows)
    assert [claim.verdict for claim in narrow.claims if claim.statement.startswith("Ours")] == ["holds"]


def test_the_command_shows_and_writes_it(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codedfl_lab.cli.reproduce.SMALL", (SMALL,))
    said = run("lab", "reproduce", "arithmetic", "--quick", "--out", "made")
    assert said.exit_code == 0
    assert max(map(len, said.output.splitlines())) <= 80
    for number in (1, 2, 3):
        assert f"Proposition {number}:" in said.output
    written = json.loads((tmp_path / "made/arithmetic/results.json").read_text())
    assert [(row["k"], row["f"]) for row in written["rows"]] == [(48, 24), (62, 24)]
    assert set(written["scores"]["digits, D = 5, d = 60"]) == {"exact ring", "Q<48,24>", "Q<62,24>"}
    page = (tmp_path / "made/arithmetic/report.html").read_text()
    assert "Proposition by proposition" in page and "<svg" in page
    assert (tmp_path / "made/arithmetic/accuracy.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("name", "option"), [("arithmetic", "--seeds"), ("arithmetic", "--draws"), ("noise", "--draws")]
)
def test_options_that_a_study_does_not_read_are_refused(run: Run, name: str, option: str) -> None:
    said = run("lab", "reproduce", name, option, "3")
    assert said.exit_code != 0
    assert f"{option} must be left out with {name}, which does not read it, got 3" in " ".join(said.output.split())
