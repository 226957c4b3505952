"""results.json: what is written is read back, and a damaged file is refused in one line that says where."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from codedfl.errors import InvalidInput
from codedfl.study.results import (
    SCHEMA,
    Claim,
    Exposure,
    Gain,
    Goal,
    PaperValue,
    Results,
    ScalingRow,
    Sensitivity,
    read_results,
)
from made_up_results import entry, made_up_results

GOAL = Goal("s", "mnist", 0.95, True, "e", "coded-keys", "cg", "conventional", "gd", "authors", False, 100.0, 121.0)


def everything() -> Results:
    """Every kind of row, with every optional field filled somewhere."""
    coded = entry(0.95, 70.0, alpha=23, gain=Gain(5.0, 8.0), exposure=Exposure(0, 23, 25), gram_directions=100)
    collusion = replace(coded, scheme="role-keys", parameters={"z": 1})
    failed = entry(0.95, None, delta=0.1, reason="parity data are singular")
    return made_up_results(
        [entry(0.95, 8000.0), coded, collusion, failed],
        n_samples=60_000,
        paper=PaperValue(6.6, 23),
        shuffled=(coded,),
        sensitivity=(Sensitivity(0.0, (coded,)),),
        claims=(Claim("c", "mnist", None, None, "missing"), GOAL),
        scaling=(ScalingRow("mnist", 50, "coded-keys", "cg", "x", "multicast", True, 3.0, 2.0, True, {"alpha": 46}),),
        notes=("a note",),
        quick=True,
    )


def test_every_field_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(everything().json_bytes())
    assert read_results(path) == everything()


def test_parameters_stand_beside_the_other_fields_and_z_on_every_row() -> None:
    rows = everything().to_json()["schemes"]
    assert [(row.get("alpha"), row.get("delta"), row["z"]) for row in rows] == [
        (None, None, None),
        (23, None, None),
        (None, None, 1),
        (None, 0.1, None),
    ]
    assert [row.z for row in everything().schemes] == [None, None, 1, None]
    assert everything().to_json()["schema"] == SCHEMA


def damaged(change: Any) -> dict[str, Any]:
    value = json.loads(everything().json_bytes())
    change(value)
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda v: v.pop("schema"), "results must have schema 2, got None: run the command they name again"),
        (lambda v: v.pop("title"), "results.title must be given, got nothing"),
        (lambda v: v.update(draws="many"), "results.draws must be a whole number, got 'many'"),
        (lambda v: v.update(draws=True), "results.draws must be a whole number, got True"),
        (lambda v: v.update(seeds=3), "results.seeds must be a list, got 3"),
        (lambda v: v["schemes"][1].update(alpha="x"), "results.schemes[1].alpha must be a finite number, got 'x'"),
        (lambda v: v["schemes"][0].pop("solver"), "results.schemes[0].solver must be given, got nothing"),
        (
            lambda v: v["schemes"][0]["time_to_target_s"].update(p99=1.0),
            "results.schemes[0].time_to_target_s must hold median, mean, min, max, p5, p95 only, got 'p99'",
        ),
        (lambda v: v["versions"].update(python=3), "results.versions.python must be text, got 3"),
        (lambda v: v.update(paper=[6.6, 23]), "results.paper must be an object, got [6.6, 23]"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(change: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Results.from_json(damaged(change))
    assert str(caught.value) == message


@pytest.mark.parametrize(("content", "why"), [("[", "be JSON"), ("[]", "be an object")])
def test_what_is_no_results_file_is_refused(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=why):
        read_results(path)
    with pytest.raises(InvalidInput, match="the results file must exist"):
        read_results(tmp_path / "none.json")
