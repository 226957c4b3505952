"""``codedfl study``, ``roster``, ``key`` and ``ledger``: from a sample to an approved study, as a hospital would."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command_runner import Run
from kit_files import enrol, kit_of

from codedfl.authoring.formula import formula_objection
from codedfl.contract.device_folder import DeviceFolder
from codedfl.contract.roster import load_roster
from codedfl.contract.toml_file import load_study
from codedfl.data.columns import NumberTarget
from codedfl.errors import InvalidInput

pytestmark = pytest.mark.hospitals


@pytest.fixture
def clinics(run: Run) -> Path:
    """Three tables of one kind, and a study drafted from one of them."""
    rng = np.random.default_rng(0)
    folder = Path("clinics")
    folder.mkdir()
    for i in range(3):
        lines = ["patient_id;age;sex;crp;days"]
        for row in range(60):
            age, sex, crp = rng.integers(20, 90), rng.choice(["f", "m"]), rng.exponential(10.0)
            days = 2 + age / 10 + 3 * (sex == "m") + crp / 5 + rng.normal()
            lines.append(f"{row + 100};{age};{sex};{'' if row % 8 == 0 else f'{crp:.2f}'};{days:.1f}")
        (folder / f"clinic-{i}.csv").write_text("\n".join(lines) + "\n")
    assert run("study", "new", folder / "clinic-0.csv", "--target", "days", "--participants", 3).exit_code == 0
    return folder


@pytest.fixture
def contract(run: Run, clinics: Path) -> Path:
    """The study with its roster and the server's key; it holds no rows out, which a device's random key would draw."""
    said = run("roster", "new", *enrol("clinic-0", "clinic-1", "clinic-2")).stdout
    digest = re.search('roster = "([0-9a-f]{64})"', said)[1]
    study = Path("study.toml")
    keys = f'roster = "{digest}"\nserver_key = "{"ab" * 32}"\n'
    text = study.read_text().replace("[protection]\n", f"[protection]\n{keys}")
    study.write_text(text.replace("held_out = 0.2", "held_out = 0.0"))
    return study


def approve(run: Run, table: object, *more: object) -> tuple[int, str, str]:
    given = ("--who", "Ada", "--state", "state", "--table", table, *more)
    result = run("site", "approve", kit_of("clinic-1"), *given)
    return result.exit_code, result.stdout, result.stderr


def test_a_study_is_approved_and_remembered(run: Run, contract: Path, clinics: Path):
    code, said, _ = approve(run, clinics / "clinic-1.csv")
    assert code == 0
    digest = load_study(contract).digest()
    for question in ("What leaves this machine?", "Who sees what?", "Whose rows are added to ours?"):
        assert question in said.splitlines()
    assert f"({digest.hex()[:16]}...) is approved by Ada since 20" in " ".join(said.split())
    assert " ".join(said.split()).endswith(" of them held out")
    assert len(DeviceFolder.of(Path("state"), "clinic-1").snapshot(digest)) == 52, "without the gaps of crp"
    again = approve(run, clinics / "clinic-1.csv")
    assert again[1].splitlines()[-1] == said.splitlines()[-1]
    ledger = run("site", "ledger", "clinic-1", "--state", "state", "--json", "-")
    (entry,) = json.loads(ledger.stdout)["approvals"]
    assert (entry["digest"], entry["who"], entry["rows"]) == (digest.hex(), "Ada", 52)
    assert entry["pod"] == ["clinic-0", "clinic-1", "clinic-2"]
    assert "No bound holds over the 1 approval(s) of the ledger" in ledger.stderr
    assert run("site", "withdraw", "00", "--name", "clinic-1", "--state", "state").exit_code == 2
    gone = run("site", "withdraw", digest.hex()[:8], "--name", "clinic-1", "--state", "state")
    assert gone.stdout == f"{load_study(contract).name}, version 1, is not approved any more; its rows are free\n"
    after = run("site", "ledger", "clinic-1", "--state", "state", "--json", "-")
    shown = json.loads(after.stdout)
    assert shown["approvals"] == [] and [one["digest"] for one in shown["withdrawn"]] == [digest.hex()]
    assert "withdrawn: " in after.stderr and "edition 1, approved by Ada" not in after.stdout
    nobody = run("site", "ledger", "clinic-2", "--state", "state")
    rule = "name must be of a device with approvals under state, got 'clinic-2': --state names the folder"
    assert (nobody.exit_code, nobody.stderr.strip()) == (2, f"error: {rule}")
    assert not Path("state/clinic-2/contract").exists(), "to look at a ledger makes none"


def test_one_patient_more_is_a_finding_that_somebody_accepts(run: Run, contract: Path, clinics: Path):
    table = clinics / "clinic-1.csv"
    approve(run, table)
    table.write_text(table.read_text() + "999;61;m;118.50;7.0\n")
    assert approve(run, table)[2] == (
        "error: this study was approved with other rows: what changed since then needs a new version of the study\n"
    )
    contract.write_text(contract.read_text().replace("edition = 1", "edition = 2"))
    code, said, refused = approve(run, table)
    assert code == 2 and refused.count("\n") == 1
    assert refused.startswith(
        "error: a finding must be accepted by who approves, got one that is not: 1 row(s) of this"
    )
    assert "version 1, by Ada on 20" in said
    dry = approve(run, table, "--dry-run")
    assert dry[0] == 0 and "somebody has to accept what was found (--accept rows='why')" in " ".join(dry[1].split())
    assert approve(run, table, "--accept", "rows=one has come, and knows it")[0] == 0
    ledger = run("site", "ledger", "clinic-1", "--state", "state", "--json", "ledger.json")
    assert "one has come, and knows it" in " ".join(ledger.stdout.split())


def test_what_an_approval_refuses(run: Run, contract: Path, clinics: Path):
    Path("policy.toml").write_text("allow-gram = false\n")
    assert approve(run, clinics / "clinic-1.csv", "--policy", "policy.toml")[2] == (
        "error: the server must not learn the whole total of X'X by this device's policy (allow-gram), got all of it\n"
    )
    run("roster", "renew", "roster.toml", *enrol("clinic-1", state="elsewhere"), "--out", "other.toml")
    with pytest.raises(InvalidInput, match=r"^the roster must be the one that the study names, "):
        kit_of("clinic-1", roster="other.toml")
    (clinics / "bad.csv").write_text("patient_id;age;sex;crp;days\n1;50;x;1;2\n")
    assert approve(run, clinics / "bad.csv")[2] == (
        "error: column 'sex' of bad.csv must hold its levels only, got 'x' (1 such rows): add the level, or say which"
        " one others count as\n"
    )


def test_a_dry_run_records_nothing(run: Run, contract: Path, clinics: Path):
    code, said, _ = approve(run, clinics / "clinic-1.csv", "--dry-run")
    assert (code, said.splitlines()[-1]) == (
        *(0, "nothing speaks against this study, and nothing was recorded: approve it without --dry-run"),
    )
    assert "What was found about few rows of this table?" in said
    assert run("site", "ledger", "clinic-1", "--state", "state", "--json", "ledger.json").exit_code == 0
    assert json.loads(Path("ledger.json").read_text())["approvals"] == []
    assert not list(Path("state").rglob("snapshots/*"))
    assert approve(run, clinics / "bad.csv", "--dry-run")[0] == 2


def test_a_draft_holds_no_value_of_the_sample(run: Run, clinics: Path):
    text = Path("study.toml").read_text()
    assert "missing = " in text and 'id = "patient_id"' in text
    assert "median" not in text and "missing values in" not in text
    study = load_study("study.toml")
    assert [one.step for one in study.columns if one.range] == [1.0, 0.01]
    assert isinstance(study.target, NumberTarget) and study.target.step == 0.1


def test_the_columns_of_a_draft_can_be_said(run: Run, clinics: Path):
    sample = clinics / "clinic-0.csv"
    run("study", "new", sample, "--target", "days", "--columns", "sex, age", "--out", "two.toml")
    assert [one.name for one in load_study(Path("two.toml")).columns] == ["sex", "age"]
    refused = run("study", "new", sample, "--target", "days", "--columns", "a", "--drop", "b", "--out", "no.toml")
    assert refused.stderr == "error: --drop must be left out with --columns, which says it all, got 'b'\n"
    unknown = run("study", "new", sample, "--target", "days", "--columns", "size", "--out", "no.toml")
    assert unknown.stderr.startswith("error: clinic-0.csv must have the column 'size', got ")


def test_a_table_is_checked_alone(run: Run, clinics: Path):
    good = run("study", "check", "study.toml", clinics / "clinic-0.csv")
    assert (good.exit_code, good.stdout.splitlines()[-1]) == (
        0,
        "clinic-0.csv: 52 rows without missing values (8 left out), can take part",
    )
    Path("one.csv").write_text("".join(Path("clinics/clinic-0.csv").read_text().splitlines(keepends=True)[:3:2]))
    assert run("study", "check", "study.toml", "one.csv").stdout.splitlines()[-1] == (
        "one.csv: 1 row, can take part among at least 9 owners (least_rows)"
    )
    text = Path("study.toml").read_text().replace("smallest_cell = 5", "smallest_cell = 5\nleast_rows = 301")
    Path("many.toml").write_text(text)
    assert run("study", "check", "many.toml", clinics / "clinic-0.csv").stdout.splitlines()[-1] == (
        "clinic-0.csv: 52 rows without missing values (8 left out), can take part among at least 7 owners (least_rows)"
    )
    (clinics / "bad.csv").write_text("patient_id;age;sex;crp;days\n1;50;x;1;2\n2;;f;1;2\n")
    bad = run("study", "check", "study.toml", clinics / "bad.csv", "--json", "-")
    assert bad.exit_code == 2
    (found,) = json.loads(bad.stdout)["tables"]
    assert [one["n_unknown"] for one in found["columns"]] == [0, 1, 0, 0]
    assert not found["usable"]
    assert bad.stderr.count("cannot be used: ") == 1, "the row with a gap is left out"


def test_copies_are_noticed_before_anything_runs(run: Run):
    """Weight in two units, and marks of missing that two columns have together; levels of one column are no copies."""
    lines = ["age,kg,lb,lab,lab2,ward,days"]
    for i in range(90):
        lab = "," if i % 9 == 0 else f"{i * 7 % 31},{i * i % 17}"
        lines.append(f"{20 + i % 60},{50 + i % 41},{(50 + i % 41) * 2},{lab},{'bc'[i % 2]},{i % 13}")
    Path("copies.csv").write_text("\n".join(lines) + "\n")
    assert run("study", "new", "copies.csv", "--target", "days").exit_code == 0
    text = Path("study.toml").read_text().replace('levels = ["b", "c"]', 'levels = ["a", "b", "c"]')
    for name in ("lab", "lab2"):
        text = text.replace(f'name = "{name}"\n', f'name = "{name}"\nmissing = 0.0\n')
    Path("study.toml").write_text(text)
    said = " ".join(run("study", "check", "study.toml", "copies.csv").stdout.split())
    assert "'kg' and 'lb' are the same but for their unit in all rows here" in said
    assert said.count("same but for their unit") == 2 and "'lab missing' and 'lab2 missing' are" in said


NO_ROWS = (
    "empty.csv must have between 1 and 10000 rows, got 0: a site without rows can take part as a helper (codedfl roster"
    " new --helper NAME)"
)


def test_a_folder_of_ugly_tables_is_looked_at_as_a_whole(run: Run, clinics: Path):
    header = "patient_id;age;sex;crp;days\n"
    (clinics / "empty.csv").write_text(header)
    rows = (f"{i};{30 + i};{'fm'[i % 2]};{'<5' if i == 3 else f'{i},13'};{i % 9}\n" for i in range(40))
    (clinics / "odd.csv").write_text(header + "".join(rows))
    (clinics / "torn.csv").write_text(header + "1;2\n")
    (clinics / "sheet.xlsx").write_bytes(b"PK")
    found = run("study", "check", "study.toml", clinics)
    assert found.exit_code == 2
    assert f"left out of {clinics}: sheet.xlsx (save sheets as CSV UTF-8)" in " ".join(found.stderr.split())
    assert [line for line in found.stderr.splitlines() if line.startswith("cannot")] == [
        f"cannot be used: {NO_ROWS}",
        "cannot be used: column 'crp' of odd.csv must hold numbers, got '<5' in row 4: write a number, or leave the"
        " cell empty, or list it in missing_codes",
        "cannot be used: line 2 of torn.csv must have 5 cells, got 2",
    ]
    assert found.stdout.splitlines()[-1] == "3 of 6 tables can take part, with 156 rows"
    text = Path("study.toml").read_text()
    codes = text.replace('name = "crp"\n', 'name = "crp"\nmissing_codes = ["<5", -9]\n')
    Path("codes.toml").write_text(codes.replace("held_out = 0.2", "held_out = 0.0"))
    assert run("study", "check", "codes.toml", clinics / "odd.csv").stdout.splitlines()[-1] == (
        "odd.csv: 39 rows without missing values (1 left out), can take part"
    )
    (clinics / "torn.csv").unlink()
    rehearsed = run("study", "rehearse", "codes.toml", "--tables", clinics)
    assert "note: without rows, so they only help: empty\n" in rehearsed.stderr
    assert "empty would refuse" not in rehearsed.stderr and "4 of 4 in 1 disclosure group" in rehearsed.stdout
    assert run("roster", "new", *enrol(*(path.stem for path in sorted(clinics.iterdir())))).exit_code == 0
    owners = run("study", "rehearse", "codes.toml", "--tables", clinics, "--roster", "roster.toml")
    assert f"empty would refuse: {NO_ROWS}\n" in owners.stderr
    drafted = run("study", "new", clinics, "--target", "days", "--out", "all.toml", "--drop", "age", "--drop", "sex")
    assert drafted.exit_code == 0
    assert [one.name for one in load_study("all.toml").columns] == ["crp"], "both are dropped"
    assert "# Noticed: 1 cell(s) of the sample are no numbers: study check names the first; see missing_codes.\n" in (
        Path("all.toml").read_text()
    )


def test_a_drafted_name_is_one_that_brokers_take(run: Run, tmp_path: Path):
    """One rule for draft, check, approve, join and serve; a column's own name may have spaces."""
    table = tmp_path / "a table.csv"
    table.write_text("age,length of stay\n" + "".join(f"{20 + row},{row % 7}\n" for row in range(60)))
    for command, name in (("describe", "length-of-stay-table-1"), ("new", "length-of-stay")):
        file = tmp_path / f"{command}.toml"
        assert run("study", command, table, "--target", "length of stay", "--out", file).exit_code == 0
        study = load_study(file)
        assert (study.name, study.target.name) == (name, "length of stay")
        spaced = file.read_text().replace(f'name = "{name}"', 'name = "length of stay"', 1)
        file.write_text(spaced)
        for refusing in (
            ("study", "check", file, table),
            ("study", "kit", file, "--requests", tmp_path, "--out", tmp_path / "kits"),
        ):
            assert "name of the study must be printable, without spaces" in run(*refusing).stderr


def test_from_a_description_to_a_study(run: Run, clinics: Path):
    said = run("study", "describe", clinics / "clinic-0.csv", "--target", "days", "--participants", 3)
    assert said.exit_code == 0 and "codedfl study new --from" in said.stdout
    shown = run("study", "show", "describe.toml").stdout
    assert "  - version 1; the result is a table that describes the columns, and no model\n" in shown
    assert "X'X" not in shown
    rehearsed = run("study", "rehearse", "describe.toml", "--tables", clinics, "--out", "first")
    assert rehearsed.exit_code == 0
    lines = rehearsed.stdout.splitlines()
    at = lines.index("model table 1")
    assert lines[at + 1] == "180 rows, 0 left out for missing values"
    assert lines[at + 2].split() == ["n", "missing", "mean", "sd", "25", "%", "50", "%", "75", "%"]
    assert max(map(len, lines[at:])) <= 79
    files = {path.name for path in Path("first").iterdir()}
    assert {"result.json", "table-1.csv", "result.html"} <= files and "model.safetensors" not in files
    drafted = run("study", "new", "--from", "first/result.json", "--out", "real.toml", "--drop", "sex")
    assert drafted.exit_code == 0
    study = load_study("real.toml")
    assert [one.range for one in study.columns] == [(0.0, 100.0), (0.0, 100.0)]
    assert study.complete_cases and study.id == "patient_id" and study.least_participants == 3
    text = Path("real.toml").read_text().replace("inference = false", "inference = true")
    Path("real.toml").write_text(text)
    done = run("study", "rehearse", "real.toml", "--tables", clinics)
    assert "std err" in done.stdout, done.stderr
    far = ("--formula", "days ~ bs(age, knots=[100, 110]) + C(sex)", "--out", "far.toml")
    assert run("study", "new", clinics, *far).stderr.startswith("error: a spline must reach at least 500 of its")
    formula = ("--formula", "days ~ bs(age, 4) + C(sex)", "--out", "curved.toml")
    assert run("study", "new", "--from", "first/result.json", *formula).exit_code == 0
    curved = load_study("curved.toml")
    far = ("--formula", "days ~ bs(age, 12)", "--out", "far.toml")
    assert (
        "in 95 % of all rows, got 0 of 'bs(age, 12)[" in run("study", "new", "--from", "first/result.json", *far).stderr
    )
    assert curved.target.name == "days" and len(curved.design_names) == 6 and not formula_objection(curved)
    for given, message in (
        (("--from", "real.toml"), "--from must be a result.json that codedfl wrote, got 'real.toml'"),
        ((), "either a TABLE or --from must be given, got neither"),
        ((clinics / "clinic-0.csv", "--from", "first/result.json"), "either a TABLE or --from must be given, got both"),
    ):
        assert run("study", "new", *given, "--out", "no.toml").stderr.startswith(f"error: {message}")


def test_a_study_is_shown_before_anybody_has_rows(run: Run, contract: Path):
    shown = run("study", "show", "study.toml", "--roster", "roster.toml")
    assert shown.stdout.splitlines()[0] == "days", "its target, not whose table it was drafted from"
    assert "What is not protected?" in shown.stdout.splitlines()
    told = json.loads(run("study", "show", "study.toml", "--json", "-").stdout)
    assert told["digest"] == load_study(contract).digest().hex()


def test_rosters_grow_by_pods_and_show_their_digest(run: Run, contract: Path):
    newcomers = enrol("new-0", "new-1", "new-2")
    assert run("roster", "add", "roster.toml", *newcomers[:2]).stderr == (
        "error: owners must be at least colluders + 2 (3), got 2\n"
    )
    assert run("roster", "add", "roster.toml", *newcomers, "--out", "more.toml").exit_code == 0
    told = json.loads(run("roster", "show", "more.toml", "--json", "-").stdout)
    assert told["pods"] == [["clinic-0", "clinic-1", "clinic-2"], ["new-0", "new-1", "new-2"]]
    assert told["digest"] == load_roster("more.toml").digest().hex()
    shown = run("roster", "show", "more.toml").stdout.splitlines()
    assert shown[-1] == f'roster = "{told["digest"]}"' and len(shown) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("study", "new", "clinics/clinic-0.csv", "--target", "days"),
            "--out must be a new file, got 'study.toml', which exists",
        ),
        (("study", "show", "none.toml"), "the study file must exist, got 'none.toml'"),
        (("roster", "show", "none.toml"), "the roster must be a readable file, got 'none.toml'"),
        (("roster", "new", "clinic-1"), "the request must be a readable file, got 'clinic-1'"),
        (("roster", "renew", "roster.toml", "none"), "the request must be a readable file, got 'none'"),
        (
            ("site", "ledger", "a/b"),
            "the device's name must be printable, without spaces, / \\ + # and a dot in front, got 'a/b': write 'a-b'",
        ),
    ],
)
def test_what_is_refused(run: Run, clinics: Path, arguments: tuple[str, ...], message: str):
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
