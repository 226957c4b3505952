"""A study rehearsed on tables of this machine: totals of plain integers, scikit-learn's scores, whoever straggles."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from approved_studies import NAMES, same_findings, studies, tables
from codedfl.authoring.from_sample import draft_of_table
from codedfl.authoring.ranges import drafted_grid
from codedfl.authoring.study_text import study_text
from codedfl.contract.study import Study
from codedfl.contract.toml_file import parse_study
from codedfl.data.tables import RawTable, as_raw_table, no_tables
from codedfl.device.study_sums import StudySums
from codedfl.errors import InvalidInput, NotEnoughDevices
from codedfl.run.rehearsal import Rehearsed, dealt_out, made_up_roster, read_folder, rehearse
from codedfl.statistics.statistic import Ask
from rehearsals import parts_of, rehearsed, snapshots_of
from totals import conducted
from wording import exactly


def diabetes() -> tuple[Study, RawTable]:
    data = load_diabetes(scaled=False)
    columns = {str(column): data.data[:, j] for j, column in enumerate(data.feature_names)}
    table = as_raw_table({**columns, "outcome": data.target}, "diabetes.csv")
    study = parse_study(study_text(draft_of_table(table, "outcome", "diabetes", task="regression")))
    return replace(study, max_rows=1024, max_rows_per_device=256, held_out=0.35), table


@pytest.mark.parametrize("kind", ["linear", "classes"])
def test_the_findings_are_those_of_plain_integers(kind: str):
    study = studies()[kind]
    done = rehearsed(study, tables())
    expected = conducted(study, list(snapshots_of(study, tables()).values()))
    # Theta has the digest of another study, that with the made-up roster, in its provenance alone.
    same_findings(done.findings, expected)
    assert done.seconds > 0 and done.epochs == len(study.statistics)


@pytest.mark.parametrize(("bits", "most_different"), [(32, 0.02), (48, 1e-4)])
def test_a_study_chooses_how_wide_its_numbers_are(bits: int, most_different: float):
    """32 bits, those of the headline's figures, too: coarser grids, and on them a model that is less exact."""
    wide, narrow = (replace(studies()["rbf"], number_bits=chosen) for chosen in (64, bits))
    sums = StudySums(narrow, made_up_roster(narrow, tables()))
    assert sums.layout(Ask("products").encode()).bits == bits
    expected, found = (rehearsed(study, tables()).findings for study in (wide, narrow))
    assert np.abs(expected.model.theta).max() > 0.1
    assert 0 < np.abs(found.model.theta - expected.model.theta).max() < most_different


def test_a_study_chooses_how_many_spare_replies_must_agree():
    """Each waits for one holder more of a role; the model is the same."""
    first, spare = (rehearsed(replace(studies()["rbf"], spare_replies=count), tables()) for count in (0, 1))
    same_findings(spare.findings, first.findings)
    assert spare.seconds > first.seconds


@pytest.mark.parametrize("kind", ["linear", "rbf", "noise"])
def test_who_straggles_changes_no_bit(kind: str):
    study = studies()[kind]
    first, other = rehearsed(study, tables()), rehearsed(study, tables(), seed=7)
    same_findings(other.findings, first.findings)
    assert other.seconds != first.seconds


def test_the_score_is_that_of_pooled_rows():
    study, table = diabetes()
    parts = parts_of(table, 5)
    found = rehearsed(study, parts).findings
    rows = snapshots_of(study, parts)
    held, rest = (
        [(parts[name].rows(np.flatnonzero(one.held_out == out))) for name, one in rows.items()] for out in (True, False)
    )
    X, y, X_test, y_test = (
        np.concatenate([one.columns[name] if name == "outcome" else matrix_of(one) for one in part])
        for part in (rest, held)
        for name in ("X", "outcome")
    )
    ridge = make_pipeline(StandardScaler(), Ridge(alpha=study.regularisation * len(y))).fit(X, y)
    assert found.score is not None
    assert found.score.rows == len(y_test)
    assert found.score.value == pytest.approx(ridge.score(X_test, y_test), abs=1e-3)


def matrix_of(table: RawTable) -> np.ndarray:
    return np.stack([values for name, values in table.columns.items() if name != "outcome"], axis=1)


@pytest.mark.parametrize("values", [[1, 2], [0, 1], [20, 93], [58.1, 61.2], [-3.25, 7], [1e6, 1e6 + 3], [0.001, 0.1]])
def test_a_drafted_grid_has_the_values_on_it(values: list[float]):
    """The ends of a range were rounded by its width alone: of a column of 1 and 2, neither was on the grid."""
    low, high, step = drafted_grid(np.array(values, dtype=float))
    steps = (np.array(values) - low) / step
    assert np.abs(steps - np.round(steps)).max() < 1e-6
    assert low <= min(values) < max(values) <= high


def test_the_intercept_is_not_penalised():
    study, table = diabetes()
    study = replace(study, regularisation=0.3, held_out=0.0)
    predicted = rehearsed(study, parts_of(table, 5)).findings.model.predict(table)
    X, y = matrix_of(table), table.columns["outcome"]
    assert predicted.mean() == pytest.approx(y.mean(), rel=1e-4)
    ridge = make_pipeline(StandardScaler(), Ridge(alpha=0.3 * len(y))).fit(X, y)
    np.testing.assert_allclose(predicted, ridge.predict(X), rtol=0, atol=1e-3 * y.std())


def test_a_model_goes_by_the_names_of_its_columns():
    study, table = diabetes()
    model = rehearsed(study, parts_of(table, 5)).findings.model
    shuffled = RawTable("other.csv", dict(reversed(table.columns.items())))
    assert np.array_equal(model.predict(shuffled), model.predict(table))
    with pytest.raises(InvalidInput, match=r"^other\.csv must have the column 'bmi', got "):
        model.predict(shuffled.without(["bmi"]))


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_devices_that_die_after_their_upload_change_nothing(kind: str):
    study = replace(studies()[kind], held_out=0.0)
    gone = ("clinic-0", "clinic-1", "clinic-3")  # two holders of each role are left, who certify the census
    all_there, few = rehearsed(study, tables()), rehearsed(study, tables(), gone=gone)
    same_findings(few.findings, all_there.findings)
    with pytest.raises(NotEnoughDevices, match=r"^a sum needs replies of 2 of the holders of role 0 .*, got 0$"):
        rehearsed(study, tables(), gone=NAMES)


def test_a_device_without_a_table_costs_its_pod():
    study, roster = studies()["linear"], made_up_roster(studies()["linear"], NAMES)
    rows = snapshots_of(study, tables())

    def found(names: tuple[str, ...]) -> Any:
        ready = Rehearsed(study, roster, {name: rows[name] for name in names})
        return rehearse(ready, np.random.default_rng(0)).findings

    same_findings(found(tuple(name for name in NAMES if name != "clinic-5")), found(NAMES[:4]))
    message = (
        "at least 3 owners in whole disclosure groups must take part (least_participants of the study file), got 0; not"
        " taking part: clinic-2, clinic-3, clinic-6"
    )
    with pytest.raises(NotEnoughDevices, match=exactly(message)):
        found(("clinic-0", "clinic-1", "clinic-4", "clinic-5"))


def test_a_rehearsal_leaves_a_journal(tmp_path: Path):
    rehearsed(studies()["rbf"], tables(), folder=tmp_path)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert events[0]["event"] == "journal" and events[1]["event"] == "run"
    assert sum(event["event"] == "epoch" for event in events) > 3


# -- tables


def test_a_folder_of_tables(tmp_path: Path):
    for name in ("b.csv", "a.CSV"):
        (tmp_path / name).write_text("x,y\n1,2\n")
    (tmp_path / "notes.md").write_text("no table")
    (tmp_path / ".hidden").write_text("nobody's")
    assert sorted(read_folder(tmp_path)) == ["a", "b"]
    assert no_tables(tmp_path) == ["notes.md"]
    (tmp_path / "b.tsv").write_text("x\ty\n1\t2\n")
    with pytest.raises(InvalidInput, match=r"^tables must have one file per device, got several of one name in "):
        read_folder(tmp_path)
    with pytest.raises(InvalidInput, match=r"^tables must be a folder of table files, one per device, got "):
        read_folder(tmp_path / "none")


def test_too_few_devices_or_too_many_rows():
    study, table = diabetes()
    with pytest.raises(InvalidInput, match=r"^owners must be at least colluders \+ 2 \(3\), got 1$"):
        made_up_roster(study, ["one"])
    with pytest.raises(InvalidInput, match=r"^diabetes\.csv must have between 1 and 100 rows, got 442$"):
        snapshots_of(replace(study, max_rows_per_device=100), {"one": table})
    with pytest.raises(InvalidInput, match=r"^diabetes\.csv must have a row for each of 500 devices, got 442$"):
        dealt_out(table, 500, np.random.default_rng(0))
