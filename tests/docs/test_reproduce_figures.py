"""The check that holds docs/reproduce.md against results.json finds a figure or a verdict that is not the run's."""

from __future__ import annotations

from typing import Any

import pytest
from experiments.reproduce_figures import CLAIMS, DATASETS, HEADLINES, SHARINGS, claim_lines, headline_lines, missing
from experiments.reproduce_figures import sentences as prose

STATEMENTS = [
    "coded-padded with α = 23 is about 6.6 times faster than conventional FL",
    "conventional FL is faster than coded-padded with any α at targets below 90\u202f%",
    "coded-padded with α = 23 is slightly slower than CodedFedL with δ = 0.8",
    "coded-padded with α = 6 is faster than conventional FL at no target",
]
EVIDENCE = "a in 1348\u202fs, b in 9034\u202fs: 6.70 (6.13 to 10.03) times faster, 1.02 of the paper's value"
SEVERAL = "; ".join(
    f"{target}\u202f%: a in {target}0\u202fs, b in 90\u202fs: 0.97 (0.92 to 1.04) times faster (tie)"
    for target in (84, 95)
)


def made_up() -> dict[str, Any]:
    claims = [
        {
            "statement": statement,
            "sharing": sharing,
            "charged": charged,
            "verdict": "fails" if (statement, sharing, charged) == (STATEMENTS[0], "multicast", True) else "holds",
            "evidence": SEVERAL if "α = 6 is" in statement else EVIDENCE,
        }
        for sharing in SHARINGS
        for charged in (False, True)
        for statement in STATEMENTS
    ]
    found = {}
    for name in DATASETS:
        about = {"label": HEADLINES[name][0], "chunked": False, "target_accuracy": 0.95}
        rows = [
            {
                **about,
                "sharing": sharing,
                "step": step,
                "speedup_over_conventional": {"median": 6.6, "low": 5, "high": 9},
            }
            for sharing in SHARINGS
            for step in ("paper", "literal")
        ]
        found[name] = {"claims": claims, "schemes": rows, "headline_target": 0.95}
    return found


def page(found: dict[str, Any]) -> str:
    return "\n".join([*headline_lines(found), *claim_lines(found), *prose(found)])


def test_a_page_made_of_the_run_holds_it():
    found = made_up()
    text = page(found)
    assert missing(found, text) == []
    assert missing(found, text.replace("in 1348", "in\n1348").replace("takes 950 s and", "takes 950 s\nand")) == []
    assert "| MNIST | authors | paper | 6.60 (5.00 to 9.00) | 1.00 (0.76 to 1.36) |" in text
    assert f"| {next(iter(CLAIMS))} | holds | holds, holds, fails | holds | holds, holds, fails |" in text
    assert "| alpha = 6 is the fastest at no target | – | – | – | – |" in text
    assert "MNIST has 6.70 (6.13 to 10.0; paper: 6.6)" in text and "is 0.97 (0.92 to 1.04) times faster at 84 %" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("6.60 (5.00", "6.61 (5.00"),
        ("holds, holds, fails", "holds"),
        ("6.13 to 10.0;", "6.13 to 10.1;"),
        ("950 s", "951 s"),
    ],
)
def test_a_figure_that_is_not_the_runs_is_found(old: str, new: str):
    found = made_up()
    lines = missing(found, page(found).replace(old, new, 1))
    assert len(lines) == 1 and old in lines[0]
