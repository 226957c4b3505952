"""Attacks between runs that worked on 0.2 (A1, A4, A5, A10): each works on the old rule, kept here, and fails.

Attacks on lists, parameters and counts of questions (A2, A3, A7, A8) are in ``tests/liars``, those on histories of rows
(A1, A9) also in ``tests/attacks/test_between_studies.py``, those on disks (A6, A11, A13) in ``tests/engine``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from codedfl.contract.approval import Deciding, approve
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.merging import Merged
from codedfl.contract.policy import Policy
from codedfl.contract.roster import Roster
from codedfl.contract.snapshot import Snapshot, take_snapshot
from codedfl.contract.study import Study
from codedfl.crypto.sealed import Identity
from codedfl.data.columns import CategoryColumn, ClassTarget, NumberColumn, NumberTarget
from codedfl.data.tables import RawTable, as_raw_table
from codedfl.device.approved import ApprovedStudy
from codedfl.device.study_sums import StudySums
from codedfl.errors import CodedFLError, InvalidInput, MessageRefused
from codedfl.exact.scales import Bounds
from codedfl.run.sums_in_process import secure_sum_in_process
from codedfl.statistics.statistic import Ask, statistic_of
from codedfl_lab.primes.fixed_point import FixedPoint
from totals import census_of, total_of

ALLOWED = Policy(smallest_cell=1)
NAMES = [f"hospital-{i}" for i in range(6)]
IDENTITIES = {name: Identity(bytes([i + 1] * 32)) for i, name in enumerate(NAMES)}
ROSTER = Roster.draft({name: one.public for name, one in IDENTITIES.items()}, colluders=1)
COLUMNS = (
    NumberColumn("age", (0.0, 110.0), 1.0),
    NumberColumn("bmi", (10.0, 70.0), 0.1),
    NumberColumn("crp", (0.0, 300.0), 0.1),
)
DAYS = NumberTarget("days", (0.0, 60.0), 0.1)
STUDY = Study(
    *("stay", COLUMNS, DAYS, 5000, 1000, 3),
    held_out=0.0,
    roster=ROSTER.digest().hex(),
    server_key="ab" * 32,
)


def patients(seed: int, count: int = 60) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(20, 90, count).astype(float).tolist(),
        "bmi": rng.normal(26, 4, count).round(1).tolist(),
        "crp": rng.gamma(2, 20, count).round(1).tolist(),
        "days": rng.gamma(2, 4, count).round(1).tolist(),
    }


def table(rows: dict[str, list[float]]) -> RawTable:
    return as_raw_table(rows)


def approved(
    folder: Path, study: Study, tables: dict[str, RawTable], policy: Policy = ALLOWED
) -> dict[str, DeviceFolder]:
    folders = {}
    for name, one in tables.items():
        folders[name] = DeviceFolder(folder / name)
        key = IDENTITIES[name].public
        approve(study, ROSTER, name, key, one, folders[name], Deciding("Ada", "today", policy))
    return folders


def frozen(folders: dict[str, DeviceFolder], study: Study) -> list[Snapshot]:
    return [one.frozen(study.digest()) for one in folders.values()]


def the_difference(before: list[int], after: list[int], study: Study) -> dict[str, float]:
    """What the difference of two totals of X'X says if it is one row: its count and its values."""
    sums = np.array(after[:5]) - np.array(before[:5])  # of 1, age, bmi, crp, days: the first row of the triangle
    steps, zeros = (np.concatenate(one) for one in zip(study.units[:2], study.target_units[:2], strict=True))
    values = zeros + steps * sums[1:]
    return {"count": float(sums[0]), **dict(zip(("age", "bmi", "crp", "days"), values.round(6).tolist(), strict=True))}


# -- A1: an honest server repeats a study after one patient was added


NEW_PATIENT = {"age": 61.0, "bmi": 33.7, "crp": 118.5, "days": 12.5}


def test_a_repeated_study_shows_no_new_patient(tmp_path: Path):
    """A1. Hospital-2 adds a patient; whatever it reads from its table now, the run reads what was approved."""
    rows = {name: patients(i) for i, name in enumerate(NAMES)}
    folders = approved(tmp_path, STUDY, {name: table(one) for name, one in rows.items()})
    first = total_of(STUDY, Ask("gram"), frozen(folders, STUDY))
    rows["hospital-2"] = {name: [*rows["hospital-2"][name], value] for name, value in NEW_PATIENT.items()}
    again = total_of(STUDY, Ask("gram"), frozen(folders, STUDY))
    assert again == first
    with pytest.raises(InvalidInput, match="approved with other rows"):
        approved(tmp_path, STUDY, {"hospital-2": table(rows["hospital-2"])})
    edition = replace(STUDY, edition=2)
    with pytest.raises(InvalidInput, match=r"\b1\b"):
        approved(tmp_path, edition, {"hospital-2": table(rows["hospital-2"])})


def test_a_device_that_reads_its_table_anew_shows_the_new_patient(tmp_path: Path):
    """The old rule, as a mutant: rows are read when the run asks for them."""
    rows = {name: patients(i) for i, name in enumerate(NAMES)}
    first = total_of(
        STUDY, Ask("gram"), frozen(approved(tmp_path / "a", STUDY, {n: table(r) for n, r in rows.items()}), STUDY)
    )
    rows["hospital-2"] = {name: [*rows["hospital-2"][name], value] for name, value in NEW_PATIENT.items()}
    again = total_of(
        STUDY, Ask("gram"), frozen(approved(tmp_path / "b", STUDY, {n: table(r) for n, r in rows.items()}), STUDY)
    )
    assert the_difference(first, again, STUDY) == {"count": 1.0, **NEW_PATIENT}


# -- A4: a score at any theta, any number of times


SCORED = replace(STUDY, target=ClassTarget("ill", ("no", "yes")), held_out=0.5, smallest_cell=2)


def ill(seed: int) -> RawTable:
    rows = patients(seed)
    return as_raw_table({**rows, "ill": ["yes" if crp > 40 else "no" for crp in rows["crp"]]})


def asked_at(folder: DeviceFolder, study: Study, thresholds: list[float]) -> list[str]:
    """What a device says to a server that asks for the score of one made-up model after the other."""
    answers = []
    for threshold in thresholds:
        theta = np.zeros((4, 2))
        theta[0, 0], theta[1, 1] = threshold, 1.0  # the second class above a threshold of age
        with folder.ledger() as ledger:
            ask = Ask("score", (), theta.ravel())
            objection = ledger.may_contribute(study, ask)
            if not objection:
                ledger.contribute(study, ask, bytes(16), "today")
            answers.append(objection)
    return answers


def test_a_score_is_given_at_as_many_points_as_were_approved(tmp_path: Path):
    """A4. Bisecting a threshold needs many points; one is what this study allows, and the same one again is free."""
    folders = approved(tmp_path, SCORED, {"hospital-1": ill(1)})
    thresholds = np.linspace(-1, 1, 8).tolist()
    answers = asked_at(folders["hospital-1"], SCORED, [*thresholds, thresholds[0]])
    assert [bool(one) for one in answers] == [False, *[True] * 7, False]


def test_a_device_that_scores_any_number_of_models_tells_ages(tmp_path: Path):
    """The old rule, as a mutant: with enough points a server counts the held-out rows above every age."""
    study = replace(SCORED, points=1000)
    folders = approved(
        tmp_path, study, {name: ill(i) for i, name in enumerate(NAMES)}, replace(ALLOWED, on_points="allow")
    )
    snapshots = frozen(folders, study)
    limit = int(study.units.limit[0])
    counts = []
    for age in range(20, 91):
        theta = np.zeros((4, 2))
        # The score of "yes" less that of "no" is above zero where age - offset > age - offset - 1/2.
        theta[0, 0], theta[1, 1] = (age - 0.5 - study.columns[0].grid.offset) / limit, 1.0
        assert asked_at(folders["hospital-0"], study, [theta[0, 0]]) == [""]
        confusion = total_of(study, Ask("score", (), theta.ravel()), snapshots)[:4]
        counts.append(confusion[1] + confusion[3])
    ages = np.concatenate([one.part(held_out=True).codes[:, 0] for one in snapshots])
    assert counts == [int((ages >= age).sum()) for age in range(20, 91)]


# -- A5: sums that are exact to each device's own float


def test_the_digits_of_a_sum_of_floats_tell_of_a_small_hospital():
    """The old rule: sums of large hospitals are multiples of a coarse step, so finer digits are the small one's."""
    rng = np.random.default_rng(5)
    large = [float(np.float64(rng.normal(60, 10, 4000)).sum() * 2**20) for _ in range(5)]
    unit = 2.0 ** (np.frexp(min(large))[1] - 53)
    small = 58.14  # one patient
    total = secure_sum_in_process([np.array([value]) for value in (*large, small)])[0]
    assert float(np.remainder(total, unit)) == pytest.approx(np.remainder(small, unit), abs=1e-3)


def test_moving_rows_between_devices_changes_no_bit_of_a_total(tmp_path: Path):
    """A5. A total is of whole numbers of a public step, so it cannot tell who holds which row."""
    everything = table({name: [value for i in range(6) for value in patients(i)[name]] for name in patients(0)})
    totals = []
    for trial in range(4):
        rng = np.random.default_rng(trial)
        parts = np.array_split(rng.permutation(len(everything)), [40, 100, 160, 220, 280])
        tables = {name: everything.rows(np.sort(part)) for name, part in zip(NAMES, parts, strict=True)}
        totals.append(total_of(STUDY, Ask("gram"), frozen(approved(tmp_path / str(trial), STUDY, tables), STUDY)))
    assert all(one == totals[0] for one in totals)


# -- A10: announced moments that move the grid


def test_an_announced_mean_picks_out_one_patient():
    """The old rule: a mean of 2^26 leaves the grid steps of 128, whose edges the server moves by a year at a time."""
    ages = np.array([34.0, 61.0, 97.0, 45.0, 88.0])
    stays = np.array([3.0, 9.0, 17.3, 4.0, 8.0])
    bounds = Bounds(features=2.0**26, labels=60.0, samples=5000, samples_per_device=1000)
    format_ = FixedPoint.derive(bounds, n_features=1, n_devices=6)
    step = 2.0**-format_.feature_bits
    totals = []
    for edge in (96.5, 97.5):  # who lies between two edges falls to one side once, and to the other then
        announced = edge - step / 2 + 2.0**26 - step
        totals.append(float(format_.grid_features((ages - announced)[:, None])[:, 0] @ stays))
    assert step == 128 and totals[0] - totals[1] == pytest.approx(17.3)


def test_there_is_nothing_to_announce():
    """A10. Ranges and steps are the study's; an ask for X'X takes no numbers, and no other encoding either."""
    assert statistic_of(STUDY, Ask("gram")).point_length(STUDY) == 0
    with pytest.raises(MessageRefused, match="an ask must"):
        Ask.decode(Ask("gram", (), np.array([2.0**26])).encode(), STUDY)
    with pytest.raises(MessageRefused, match="an ask must be for"):
        Ask.decode(Ask("products", (), np.array([2.0**26])).encode(), STUDY)


# -- too few rows


def test_the_exact_total_of_one_row_is_the_row_and_is_refused():
    """Six hospitals of one row each: the census finds too few, whatever anybody approved."""
    tiny = [take_snapshot(STUDY, table({n: v[:1] for n, v in patients(i).items()}), bytes(16)) for i in range(6)]
    assert census_of(STUDY, tiny).objection() == (
        "training rows must be at least 8 in this study (least_rows), got fewer: ask more devices to join"
    )


# -- rare levels: a server that merges nothing, two studies that merge differently, editions that differ by one of them


WARD = CategoryColumn("ward", ("cardiology", "kawasaki", "surgery"))
WITH_CARDIOLOGY, WITH_SURGERY = ((), (0, 1), (), ()), ((), (1, 2), (), ())
ONE, SECOND = (replace(STUDY, name=name, columns=(COLUMNS[0], WARD)) for name in ("one", "second"))
# Of a triangle of 1, age, the levels beside the first, and days, row by row.
N_ROWS = 0


def wards(seed: int, rare: int = 1, count: int = 60) -> dict[str, list[Any]]:
    """Hospital 3 has a few patients of a rare level, the first ones of its table."""
    rows = patients(seed, count)
    names = ["cardiology" if i % 2 else "surgery" for i in range(count)]
    names[:rare] = ["kawasaki"] * rare if seed % 10 == 3 else names[:rare]
    return {"age": rows["age"], "ward": names, "days": rows["days"]}


def as_read(study: Study, tables: dict[str, RawTable]) -> list[Snapshot]:
    """The old rule, as a mutant: rows are frozen as they are, and only the server knows which levels are rare."""
    return [take_snapshot(study, one, bytes(16)) for one in tables.values()]


def ward_tables(rare: int = 1) -> dict[str, RawTable]:
    return {name: as_raw_table(wards(i, rare)) for i, name in enumerate(NAMES)}


def patients_of(total: list[int], place: int, ages: int) -> tuple[int, float]:
    """How many rows a level has, and the sum of their ages."""
    steps, zeros = ONE.units[:2]
    return total[place], zeros[0] * total[place] + steps[0] * total[ages]


def test_a_server_that_merges_nothing_reads_no_rare_level(tmp_path: Path):
    """Kawasaki is the third column of five: its count in the first row of the triangle, its ages in the second."""
    tables = ward_tables()
    (age,) = wards(3)["age"][:1]
    rows = as_read(ONE, tables)
    assert patients_of(total_of(ONE, Ask("gram"), rows), 2, 6) == (1, age)
    merged = census_of(ONE, rows).merged
    assert 1 in merged[1] and len(merged[1]) == 2, "with the rarest level beside it"
    total = total_of(ONE, Ask("gram", merged), rows)
    assert total[N_ROWS] == 360 and 5 <= total[2] <= 355
    folder = approved(tmp_path, ONE, tables)[NAMES[3]]
    device = ApprovedStudy(StudySums(ONE, ROSTER), lambda: folder.frozen(ONE.digest()))
    for ask in (Ask("gram", groups=(0, 1)), Ask("gram", merged, groups=(0, 1))):
        with pytest.raises(CodedFLError, match=r"^a request for gram must name a census, got none$"):
            device.words(ask.encode())


def test_mergings_with_different_others_show_no_rare_level():
    """Each group has 180 rows. As read, cardiology with the patient and surgery with the patient are one too many."""
    rows = as_read(ONE, ward_tables())

    def difference(first: Merged, second: Merged) -> int:
        one, other = (total_of(ONE, Ask("gram", merged), rows) for merged in (first, second))
        return one[2] + other[2] - one[N_ROWS]

    assert difference(WITH_CARDIOLOGY, WITH_SURGERY) == 1
    # Now a merging follows from a census of the same cells: it is one, whichever study asks.
    assert census_of(ONE, rows).merged == census_of(SECOND, as_read(SECOND, ward_tables())).merged


def test_an_edition_with_one_rare_patient_among_many_new_ones(tmp_path: Path):
    """Ten patients had the level, and eleven have it among thirty new rows: the totals differ by one of them."""
    before, later = {**ward_tables(10)}, replace(ONE, edition=2)
    new = wards(13, 1, 30)
    after = {**before, NAMES[3]: as_raw_table({key: [*values, *new[key]] for key, values in wards(3, 10).items()})}

    def difference(old: list[Snapshot], young: list[Snapshot]) -> tuple[int, float]:
        totals = [np.array(total_of(study, Ask("gram"), rows)) for study, rows in ((ONE, old), (later, young))]
        return patients_of((totals[1] - totals[0]).tolist(), 2, 6)

    assert difference(as_read(ONE, before), as_read(later, after)) == (1, new["age"][0])
    approved(tmp_path, ONE, before)
    finding = r"1 people of those that came since one have 'ward' alike"
    with pytest.raises(InvalidInput, match=f"^a finding must be accepted by who approves, .*: {finding}"):
        approved(tmp_path, later, after)


def test_a_rare_patient_who_leaves_with_many_others_is_a_finding(tmp_path: Path):
    """Five of ten may leave, two may not unless somebody answers for it."""
    rows = wards(3, 10)
    approved(tmp_path, ONE, {NAMES[3]: as_raw_table(rows)})

    def without(gone: range) -> RawTable:
        return as_raw_table(
            {key: [one for i, one in enumerate(values) if i not in gone] for key, values in rows.items()}
        )

    with pytest.raises(InvalidInput, match=r"2 people of those that left since one have 'ward' alike"):
        approved(tmp_path, replace(ONE, edition=2), {NAMES[3]: without(range(8, 34))})
    approved(tmp_path, replace(ONE, edition=2), {NAMES[3]: without(range(5, 35))})


def test_a_rare_class_of_the_target_is_refused():
    """A class is a column of the total as a level is, and cannot be counted as another."""
    study = replace(ONE, columns=COLUMNS[:1], target=ClassTarget("ward", ("cardiology", "kawasaki", "surgery")))
    assert (
        census_of(study, as_read(study, ward_tables()))
        .objection()
        .startswith("class 'kawasaki' must have at least 5 people, whatever 1 owners invent, got fewer")
    )
