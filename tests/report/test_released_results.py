"""What is released: nothing that was withheld can be computed from it, and every number has the digits it deserves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from codedfl.analyses.linear import LinearTotal
from codedfl.cli.app import app
from codedfl.contract.merging import merged_study
from codedfl.contract.toml_file import load_study
from codedfl.report.release import FewPairs, released

STUDY = """format = "codedfl-study-2"
name = "stay"

[[column]]
name = "sex"
kind = "category"
levels = ["f", "m"]

[[column]]
name = "ward"
kind = "category"
levels = ["surgery", "eye"]

[target]
name = "days"
range = [0, 60]
step = 1

[protection]
least_participants = 5
max_rows = 5000
max_rows_per_device = 1000

[training]
regularisation = 0.0

[result]
held_out = 0
inference = true
most_clipped = 0
"""


def tables(folder: Path, men_in_eye: int) -> Path:
    """Nine hospitals; in the eye ward there are this many men in all."""
    rng = np.random.default_rng(0)
    (folder / "tables").mkdir()
    for hospital in range(9):
        sex = np.where(np.arange(60) % 2 == 0, "f", "m")
        ward = np.where((sex == "f") & (np.arange(60) % 6 == 0), "eye", "surgery")
        if hospital < men_in_eye:
            ward[1] = "eye"
        days = rng.integers(1, 30, 60)
        lines = ["sex,ward,days", *(f"{a},{b},{c}" for a, b, c in zip(sex, ward, days, strict=True))]
        (folder / "tables" / f"hospital-{hospital}.csv").write_text("\n".join(lines) + "\n")
    (folder / "stay.toml").write_text(STUDY)
    return folder


def run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(params=[1, 40])
def folders(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, int]:
    men = min(9, request.param)
    made = tables(tmp_path, men)
    study = str(made / "stay.toml")
    run("study", "rehearse", study, "--tables", str(made / "tables"), "--out", str(made / "results"))
    run("study", "release", study, str(made / "results"), "--out", str(made / "out"), "--who", "Dr. Example")
    return made, men


def men_in_eye(result: Any) -> float:
    """S11: the covariance of the coefficients, by the residual variance, is the inverse of X'X."""
    found = result["inference"]
    fit = found["fit"]
    inverse = np.array(found["covariance"]) / fit["residual_deviation"] ** 2
    return float(np.linalg.inv(inverse)[1, 2])


def test_what_was_withheld_cannot_be_computed(folders: tuple[Path, int]):
    made, men = folders
    whole, out = (json.loads((made / name / "result.json").read_text()) for name in ("results", "out"))
    assert men_in_eye(whole) == pytest.approx(men, abs=1e-6), "the old rule: all digits are X'X"
    if men < 5:
        assert out["inference"]["covariance"] is None
        assert "meet in fewer than 5 people" in (made / "out" / "withheld.txt").read_text()
        # What is left are estimates and errors to two digits of the errors: every number of men from 0 to 4 fits them.
        errors = [row["standard_error"] for row in out["inference"]["coefficients"]]
        assert {len(f"{one:.6g}".replace(".", "").strip("0")) for one in errors} <= {1, 2}
        assert fits(made, out, range(5)) == set(range(5))
    else:
        assert out["inference"]["covariance"] is not None


def fits(made: Path, out: Any, tried: range) -> set[int]:
    """For how many men the errors that follow from the counts are those that were released, to their digits."""
    study = load_study(made / "stay.toml")
    total = json.loads((made / "results" / "total.json").read_text())
    gram = np.array(LinearTotal(merged_study(study, ()), [int(one) for one in total["parts"][0]["gram"]]).counts())
    deviation = out["inference"]["fit"]["residual_deviation"]
    found = set()
    for men in tried:
        changed = gram[:3, :3].astype(float)
        changed[1, 2] = changed[2, 1] = men
        errors = deviation * np.sqrt(np.diag(np.linalg.inv(changed)))
        said = [row["standard_error"] for row in out["inference"]["coefficients"]]
        if all(abs(one / other - 1) < 0.06 for one, other in zip(errors, said, strict=True)):
            found.add(men)
    return found


def test_a_server_s_folder_is_marked_and_the_release_is_recorded(folders: tuple[Path, int]):
    made, _ = folders
    assert "study release" in (made / "results" / "NOT-FOR-PUBLICATION.txt").read_text()
    released_files = {one.name for one in (made / "out").iterdir()}
    assert not released_files & {"total.json", "covariance.csv", "model.safetensors", "NOT-FOR-PUBLICATION.txt"}
    crate = json.loads((made / "out" / "ro-crate-metadata.json").read_text())["@graph"]
    (check,) = (one for one in crate if one["@id"] == "#disclosure-check")
    assert check["agent"] == {"@id": "#who"} and "no count of fewer than 5 people" in check["description"]


def test_rules_of_output_checkers():
    described = {"name": "income", "rows": 40, "mean": 100.0, "deviation": 600.0}
    models = [
        {"name": "t", "kind": "describe", "columns": [described, {"name": "age", "rows": 3, "mean": 60.0}]},
        {"name": "m", "kind": "linear", "inference": {"fit": {"freedom": 7}, "coefficients": []}},
        {"name": "c", "kind": "correlation", "correlations": [[1.0, 0.123456]]},
        {"name": "w", "kind": "logistic", "coefficients": [{"name": "ward = eye", "coefficient": 1.0}]},
    ]
    result = {"smallest_cell": 5, "models": models, "rows": 100}
    made, withheld = released(result, FewPairs(1, frozenset({"ward = eye"})))
    table, few, correlation, levels = made["models"]
    assert table["columns"][0]["mean"] is None and table["columns"][1]["rows"] == "few"
    assert [one["why_none"][:12] for one in (few, correlation, levels)] == [
        "7 degrees of",
        "1 pair(s) of",
        "its coeffici",
    ]
    assert len(withheld) == 5
    assert released(result, FewPairs(0))[0]["models"][2]["correlations"] == [[1.0, 0.123456]]
