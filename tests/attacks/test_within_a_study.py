"""What one study could tell of few people: points that pick a patient, encoders, kernels, silent statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_between_studies import KEYS, NAMES, ROSTER, WARD, Device, number, rows, study

from codedfl.contract.cells import StudyCells
from codedfl.contract.models import StudyModel
from codedfl.contract.models.logistic import LogisticModel
from codedfl.contract.models.residuals import ResidualsModel
from codedfl.contract.models.robust import RobustModel
from codedfl.contract.snapshot import take_snapshot
from codedfl.contract.study import Study
from codedfl.data.columns import ClassTarget
from codedfl.data.tables import as_raw_table
from codedfl.errors import InvalidInput
from codedfl.statistics.contingency import Contingency
from codedfl.statistics.statistic import NOTHING, Ask, Statistic, statistic_of
from made_up_encoders import kept
from totals import census_of, total_of

ILL = ClassTarget("died", (0, 1))


def snapshots(one: Study, tables: list[dict[str, Any]]) -> list[Any]:
    return [take_snapshot(one, as_raw_table(table), bytes([i] * 32)) for i, table in enumerate(tables)]


# -- S6: a point that picks out one patient


def steep(slope: float, age: float = 97.0) -> np.ndarray:
    """Coefficients that predict the middle of the target at one age, and everything else far beyond its range."""
    return np.array([-slope * (age - 60.0) / 60.0, slope])


def test_a_steep_point_of_robust_errors_picks_out_a_patient():
    """S6, the old rule as a mutant: all residuals but one are cut off at one size; the rest is one patient."""
    one = study("s", number("age", 120.0), models=(RobustModel("m", ("age",), "HC0"),))
    table = rows(3)
    table["age"] = [97 if i == 11 else 30 + i % 40 for i in range(len(table["age"]))]
    (frozen,) = snapshots(one, [table])
    statistic: Any = statistic_of(one, Ask("robust", (), steep(1.0), "m"))
    statistic._beta = steep(1e6)
    weighted = np.array(statistic.vector(frozen)[1:], dtype=float) / 2.0**statistic.bits
    scaled = (np.array(table["age"]) - 60.0) / 60.0
    missing = 64.0 * np.array([len(scaled), scaled.sum()]) - weighted[:2]
    assert 60.0 + 60.0 * missing[1] / missing[0] == pytest.approx(97.0, abs=1e-6)
    with pytest.raises(InvalidInput, match=r"^the linear predictor of 'm' must lie within -64 and 64"):
        statistic_of(one, Ask("robust", (), steep(1e6), "m"))


@pytest.mark.parametrize(
    ("model", "point", "message"),
    [
        (ResidualsModel("m", ("age",)), np.append(steep(1e6), 1.0), "must lie within -64 and 64"),
        (RobustModel("m", ("age",), "HC3"), np.array([0, 0, 1.0, 5.0, 1.0]), "positive semi-definite"),
    ],
)
def test_points_are_bounded(model: StudyModel, point: np.ndarray, message: str):
    one = study("s", number("age", 120.0), models=(model,))
    with pytest.raises(InvalidInput, match=message):
        statistic_of(one, Ask(model.at_points[0], (), point, "m"))


def test_a_score_at_any_slope_is_refused():
    one = study("s", number("age", 120.0), target=ILL, held_out=0.2, features="rbf", n_features=9)
    with pytest.raises(InvalidInput, match=r"^a point of score must have a sum of sizes of at most"):
        statistic_of(one, Ask("score", (), np.full(18, 1e6)))


# -- S7: an encoder whose output is "age is 97"


def picks_out(folder: Path, age: float) -> str:
    """max(0, 1 - |110 x - age|), beside age itself."""

    def constant(name: str, values: Any) -> Any:
        return numpy_helper.from_array(np.asarray(values, np.float32), name)

    steps = [
        ("MatMul", ["x", "pick"], "age"),
        ("Sub", ["age", "at"], "d"),
        ("Abs", ["d"], "ad"),
        ("Mul", ["ad", "steep"], "s"),
        ("Sub", ["one", "s"], "t"),
        ("Relu", ["t"], "mark"),
        ("Concat", ["mark", "age"], "y"),
    ]
    nodes = [
        helper.make_node(kind, given, [to], axis=1) if kind == "Concat" else helper.make_node(kind, given, [to])
        for kind, given, to in steps
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "y")]
    constants = [
        constant("pick", [[1], [0]]),
        constant("at", [[age / 110]]),
        constant("steep", [[110.0]]),
        constant("one", [[1.0]]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:], constants), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    onnx.checker.check_model(model)
    return kept(folder, model.SerializeToString())


@pytest.mark.parametrize("age", [97.0, 50.0])
def test_an_encoder_that_picks_out_a_patient_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: float):
    monkeypatch.setenv("CODEDFL_ENCODERS", str(tmp_path))
    encoder = picks_out(tmp_path, age)
    one = study(
        "s", number("age", 110.0), number("crp"), features="onnx", n_features=2, encoder=encoder, encoder_bound=1.0
    )
    tables = [rows(seed) for seed in range(6)]
    for seed, table in enumerate(tables):
        table["age"] = [50 if i % 5 == 0 else 30 + (7 * i + seed) % 40 for i in range(len(table["age"]))]
    tables[3]["age"][11] = 97
    refused = census_of(one, snapshots(one, tables)).objection()
    assert ("pick out fewer: take another encoder" in refused) == (age == 97.0), refused


# -- S8, S12: findings about the study itself


def test_more_features_than_rows_are_a_finding(tmp_path: Path):
    """S8: 42 rows with 500 features of a narrow kernel have a direction each."""
    device = Device(tmp_path)
    table = rows(1, 42)
    device.approves(study("s", number("age"), number("crp"), features="rbf", n_features=500, gamma=1e4), table)
    assert device.kinds() == {"features"}
    device = Device(tmp_path / "another")
    device.approves(study("t", number("age"), number("crp"), features="rbf", n_features=20, least_rows=100), table)
    assert device.kinds() == set()
    device.approves(
        study("u", number("age"), number("crp"), features="rbf", n_features=20, least_rows=100, seed=7), table
    )
    assert device.kinds() == set(), "40 directions of 100 rows"
    device.approves(
        study("v", number("age"), number("crp"), features="rbf", n_features=20, least_rows=100, seed=8), table
    )
    assert device.kinds() == {"features"}, "directions are counted over rows, and not over studies"


def test_rare_combinations_of_a_model_are_on_record(tmp_path: Path):
    """S12: allowed by the default policy, said on the screen and kept in the ledger."""
    device = Device(tmp_path)
    table = {**rows(), "ward": ["eye" if i == 0 else "heart" for i in range(80)]}
    table["died"] = [i % 2 for i in range(80)]
    table["sex"] = [i % 4 // 2 for i in range(80)]
    one = study("s", WARD, number("sex", 1.0), target=ILL, models=(LogisticModel("m", ("ward", "sex")),))
    approved = device.approves(one, table)
    assert device.asked == [] and approved.accepted[0][0] == "combinations"
    assert approved.accepted[0][3] == "allowed by the policy"


# -- F2: a statistic that says nothing, and one that says less than it sums


@dataclass(frozen=True)
class Quiet(StudyModel):
    """A kind of model whose statistic is a table under another name."""

    kind: ClassVar[str] = "quiet"
    totals: ClassVar[tuple[str, ...]] = ("renamed",)


class Renamed(Contingency):
    name: ClassVar[str] = "renamed"


class Silent(Statistic):
    name: ClassVar[str] = "silent"


def test_a_renamed_table_is_refused_unless_its_combinations_are_counted():
    """F2: the old rule matched the literal name of the statistic."""
    one = study("s", WARD, target=ILL, models=(Quiet("m", ("ward",)),))
    with pytest.raises(InvalidInput, match=r"must have them counted \(counted\), got 'quiet', which does not$"):
        Renamed(one, NOTHING, one.models[0])
    counted = type("Counted", (Quiet,), {"counted": frozenset({"combinations"})})("m", ("ward",))
    two = replace(one, models=(counted,))
    assert Renamed(two, NOTHING, counted).length == 8
    assert "table" in {family.kind for family in StudyCells(two).families}


def test_a_statistic_that_declares_nothing_is_refused():
    class Said(Silent):
        tells: ClassVar[frozenset[str] | None] = frozenset({"whatever"})

        @classmethod
        def leaves(cls, study: Study) -> str:
            return ""

        @property
        def length(self) -> int:
            return 1

        def vector(self, rows: Any) -> Any:
            return np.zeros(1, dtype=np.int64)

    class Unsaid(Said):
        tells: ClassVar[frozenset[str] | None] = None

    for kind in (Said, Unsaid):
        with pytest.raises(InvalidInput, match=r"^the statistic silent must declare what its sums tell apart"):
            kind(study("s", WARD))


# -- S13: a roster with the author's own keys


def test_who_reads_the_roster_aloud_is_on_the_screen(tmp_path: Path):
    """S13 cannot be stopped by a machine alone: the screen says whom to telephone, and what to read."""
    from codedfl.contract.words import explain

    one = study("s", WARD)
    words = " ".join(answer for section in explain(one, ROSTER, NAMES[0]) for answer in section.answers)
    assert "telephone" in words and KEYS


def test_sums_of_a_merged_study_are_those_of_pooled_rows():
    """Nothing is recoded on a device: the sum is that of the pooled rows under the mergings that the census names."""
    one = study("s", WARD, number("age"))
    tables = [rows(seed) for seed in range(9)]
    tables[4]["ward"][7] = "eye"
    frozen = snapshots(one, tables)
    decision = census_of(one, frozen)
    together = take_snapshot(one, as_raw_table({k: [v for t in tables for v in t[k]] for k in tables[0]}), bytes(32))
    assert total_of(one, Ask("gram", decision.merged), frozen) == total_of(
        one, Ask("gram", decision.merged), [together]
    )


@pytest.mark.parametrize(("missing", "indicator", "told"), [(4, True, False), (4, False, False), (9, True, True)])
def test_how_many_values_are_missing_is_in_no_sum_unless_the_census_passes_them(
    missing: int, indicator: bool, told: bool
):
    """Without its mark a missing value is what fills it: all sums are those of the tables with the fill."""
    one = study("s", number("age"), number("crp", missing=7.0, indicator=indicator))
    gaps = [table | {"crp": [*table["age"]]} for table in map(rows, range(9))]
    for place in range(missing):
        gaps[place]["crp"][place] = None
    filled = [table | {"crp": [7.0 if value is None else value for value in table["crp"]]} for table in gaps]
    merged = census_of(one, snapshots(one, gaps)).merged
    sums = [
        [total_of(one, Ask(name, merged), snapshots(one, tables)) for name in ("cells", "gram")]
        for tables in (gaps, filled)
    ]
    assert (sums[0] != sums[1]) == told


def test_held_out_rows_are_counted_and_nothing_of_them():
    """No census counts the levels and classes of held-out rows where they have no products."""
    one = replace(study("s", WARD), target=ILL, held_out=0.5)
    assert not one.holds_out_gram
    (kept,) = snapshots(one, [{**rows(0), "died": [0, 1] * (len(rows(0)["ward"]) // 2)}])
    assert kept.held_out.any()
    codes, target = kept.codes.copy(), kept.target.copy()
    codes[kept.held_out], target[kept.held_out] = 0, 0
    changed = replace(kept, codes=codes, target=target)
    assert total_of(one, Ask("cells"), [kept]) == total_of(one, Ask("cells"), [changed])
