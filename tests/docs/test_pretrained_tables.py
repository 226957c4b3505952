"""The check that holds docs/pretrained.md against results.json finds a figure that is not the run's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from experiments.pretrained_tables import missing, pages_lines

from codedfl_lab.reproduce.frozen_results import AtEqual, FrozenResults, FrozenRow, KernelRow, Lead

AHEAD, BEHIND = Lead(20, 0.9, 0.0123, 0.001), Lead(45, 0.92, -0.0045, 0.001)


def row(split: str, devices: int, method: str, curve: tuple[float, ...] = ()) -> FrozenRow:
    equal = (AtEqual("ours", AHEAD, AHEAD, BEHIND),) if curve else ()
    return FrozenRow(
        *(split, devices, method, (0.905, 0.907), 45, 1e6, 1e6, 2.04e6, 12.3, 845.6, "the total, exact", "ridge"),
        *(equal, BEHIND if curve else None, 7 if curve else None, curve),
    )


@pytest.fixture(scope="module")
def made_up() -> dict[str, Any]:
    methods = {"ours": (), "AFL, in the clear": (), "FedAvg": (0.5,), "FedProx": (0.5,), "Scaffold": (0.5,)}
    rows = tuple(
        row(*place, 25, method, curve)
        for place in (("sorted",), ("Dirichlet 0.1",))
        for method, curve in methods.items()
    )
    kernels = (
        KernelRow("mnist", "low", 200, 0.94, (0.94, 0.942), 0.95, 9e4, 0.5, 20.0),
        KernelRow("mnist", "low", 300, 0.96, (0.955, 0.957), 0.95, 2e5, 1.25, 40.0),
    )
    results = FrozenResults(
        rows, (2, 2), (("lda", 0.03, 0.91, 0.9),), (), "cifar-10", ("a",), 8, 90, 10, 2, "", 1.0, {}, kernels
    )
    found: dict[str, Any] = json.loads(results.json_bytes())
    return found


def test_a_figure_that_is_not_the_runs_is_found(made_up: dict[str, Any]) -> None:
    lines = pages_lines(made_up, made_up)
    page = "\n".join(lines)
    assert "| ours | any | 90.60 ± 1.27 | 90.60 ± 1.27 |" in lines
    assert "| Scaffold, 45 rounds | 25 | 90.60 ± 1.27 | 90.60 ± 1.27 |" in lines
    assert "| ours | 25 | 45 | 1.0 | 2.0 | 12 | 846 | the total, exact |" in lines
    three = ["+1.23, +1.23, +1.23", "+1.23, +1.23, +1.23", "-0.45, -0.45, -0.45", "-0.45, -0.45, -0.45", "7, 7, 7"]
    assert f"| Dirichlet 0.1 | 25 | {' | '.join(three)} |" in lines
    assert "| mnist | low | 300 | 95.60 ± 1.27 | 0.20 | 95 %: 1.2 s, with X'X 40 s |" in lines
    assert "| FedProx | 2 ahead | 2 ahead | 2 behind | 2 behind |" in lines
    assert "| lda | 0.03 | 91.00 | 90.00 |" in lines
    assert missing(made_up, made_up, page) == []
    (wrong,) = missing(made_up, made_up, page.replace("| 45 | 1.0 | 2.0 | 12 | 846 | the total, exact |", "|", 1))
    assert wrong.startswith("| ours | 25 |")
    assert missing(made_up, made_up, page.replace("+1.23, +1.23, +1.23 | +1.23", "+1.24, +1.23, +1.23 | +1.23"))
