"""``codedfl study rehearse``: from a folder of tables to a model, as a new user would."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_runner import Run

from codedfl.contract.device_folder import DeviceFolder


@pytest.fixture
def clinics(run: Run) -> Path:
    """Six tables of one kind, and a study drafted from one of them."""
    rng = np.random.default_rng(0)
    folder = Path("clinics")
    folder.mkdir()
    for i in range(6):
        lines = ["age;sex;crp;days"]
        for _ in range(60):
            age, sex, crp = rng.integers(20, 90), rng.choice(["f", "m"]), rng.exponential(10.0)
            days = 2 + age / 10 + 3 * (sex == "m") + crp / 5 + rng.normal()
            lines.append(f"{age};{sex};{'' if rng.random() < 0.1 else f'{crp:.2f}'};{days:.3f}")
        if i == 5:
            lines.append("50;f;9999;7")
        (folder / f"clinic-{i}.csv").write_text("\n".join(lines) + "\n")
    assert run("study", "new", folder / "clinic-0.csv", "--target", "days").exit_code == 0
    text = Path("study.toml").read_text()  # with marks of missing values, so that all rows are in
    Path("study.toml").write_text(text.replace('name = "crp"\n', 'name = "crp"\nmissing = 5.0\n'))
    return folder


def test_from_a_folder_of_tables_to_a_model(run: Run, clinics: Path):
    (clinics / "clinic-6.xlsx").touch()
    (clinics / ".hidden").touch()
    result = run("study", "rehearse", "study.toml", "--tables", clinics, "--json", "-")
    outcome = json.loads(result.stdout)
    assert outcome["devices"] == 6
    assert outcome["rows"] + outcome["score"]["rows"] == 361, "all rows of all devices"
    assert outcome["score_name"] == "R^2" and outcome["score"]["r_squared"] > 0.3
    assert "warning: clipped to the study's ranges: 1 of 'crp'\n" in result.stderr
    assert "note: no table files, so left out of clinics: clinic-6.xlsx (save sheets as CSV UTF-8)\n" in result.stderr
    said = run("study", "predict", outcome["model"], clinics / "clinic-3.csv")
    assert len(said.stdout.splitlines()) == 61
    scored = json.loads(run("study", "evaluate", outcome["model"], clinics / "clinic-3.csv", "--json", "-").stdout)
    assert scored["rows"] == 60 and scored["score"] > 0.3


def test_ledgers_without_a_roster_say_nothing_of_groups(run: Run, clinics: Path):
    with DeviceFolder.of(Path("states"), "clinic-0").ledger():
        pass
    result = run("study", "rehearse", "study.toml", "--tables", clinics, "--ledgers", "states", "--out", "out")
    assert "note: without --roster nothing is said of disclosure groups: their keys are made up" in " ".join(
        (result.stdout + result.stderr).split()
    )


def test_who_is_left_out_with_a_pod_is_named_and_not_counted(run: Run, clinics: Path):
    text = Path("study.toml").read_text().replace("least_participants = 5", "least_participants = 3")
    Path("study.toml").write_text(text.replace("regularisation = 1e-06", 'regularisation = "gcv"'))
    table = clinics / "clinic-1.csv"
    table.write_text(table.read_text().replace(";f;", ";x;"))
    result = run("study", "rehearse", "study.toml", "--tables", clinics, "--out", "out", "--json", "told.json")
    lines = [" ".join(line.split()) for line in (result.stdout + result.stderr).splitlines()]
    assert "left out with their disclosure group, because of clinic-1: clinic-0, clinic-2" in lines
    assert "devices 3 of 6 in 1 disclosure group, without clinic-0, clinic-1, clinic-2" in lines
    told, kept = (json.loads(Path(name).read_text()) for name in ("told.json", "out/result.json"))
    assert told["devices"] == 3 and told["regularisation"] == kept["regularisation"]
    assert f"regularisation {kept['regularisation']:.4g}, by generalised cross-validation" in lines


def test_coefficients_with_standard_errors_where_the_study_allows_them(run: Run, clinics: Path):
    text = Path("study.toml").read_text()
    text = text.replace("inference = false", "inference = true")
    Path("study.toml").write_text(text)
    stopped = json.loads(run("study", "rehearse", "study.toml", "--tables", clinics, "--json", "-").stdout)
    assert stopped["clipped"] == {"rows": 361, "values": {"crp": "<5"}}
    assert stopped["no_inference"].startswith("clipped values of 'crp' must be at most 0 of its rows (most_clipped), ")
    Path("study.toml").write_text(text.replace("most_clipped = 0.0", "most_clipped = 0.01"))
    result = run("study", "rehearse", "study.toml", "--tables", clinics, "--json", "-")
    assert "can hide that columns depend on each other: crp <5 of 361 rows" in " ".join(result.stderr.split())
    found = {one["name"]: one for one in json.loads(result.stdout)["inference"]["coefficients"]}
    assert list(found) == ["constant", "age", "sex = m", "crp", "crp missing"]
    assert found["sex = m"]["coefficient"] == pytest.approx(3.0, abs=4 * found["sex = m"]["standard_error"])
    assert found["age"]["p"] < 1e-6
    assert "std err" in result.stderr


def test_a_rehearsal_leaves_all_that_a_paper_needs_and_a_total_to_refit_from(run: Run, clinics: Path):
    text = Path("study.toml").read_text().replace("inference = false", "inference = true")
    Path("study.toml").write_text(text.replace("most_clipped = 0.0", "most_clipped = 0.1"))
    assert run("study", "rehearse", "study.toml", "--tables", clinics, "--out", "out").exit_code == 0
    names = ("result.json", "result.html", "summary.txt", "coefficients.csv", "covariance.csv", "total.json")
    assert all((Path("out") / name).is_file() for name in names)
    page = (Path("out") / "result.html").read_bytes()
    for path in clinics.iterdir():  # nobody is asked for anything
        path.unlink()
    (Path("out") / "result.html").unlink()
    again = json.loads(run("study", "report", "out", "--json", "-").stdout)
    assert Path(again["page"]).read_bytes() == page and len(again["figures"]) == 3 and len(again["tables"]) == 6
    (Path("out") / "old").mkdir()
    (Path("out") / "old" / "result.json").write_text('{"models": []}')
    rule = "FOLDER must hold the result.json that codedfl server run or study rehearse wrote, of this version, got "
    assert f"{rule}'out/old'" in run("study", "report", "out/old").stderr
    asked = ("--test", "crp", "--contrast", "sex = m - sex = f", "--vif", "--lasso", "--regularisation", "gcv")
    result = run("study", "refit", "study.toml", "out", *asked, "--json", "-")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["tests"][0]["names"] == ["crp", "crp missing"] and told["tests"][0]["p"] < 0.01
    of_men = next(one for one in told["inference"]["coefficients"] if one["name"] == "sex = m")
    assert told["contrasts"]["sex = m - sex = f"]["estimate"] == of_men["coefficient"]
    assert set(told["vif"]) == {"age", "sex = m", "crp", "crp missing"} and min(told["vif"].values()) >= 1
    assert len(told["lasso"]["weights"]) == 100 and told["lasso"]["criterion"] == "BIC", (
        "held-out rows have a score only"
    )
    assert max(map(len, result.stderr.splitlines())) <= 79
    assert f"regularisation {told['regularisation']:.4g}" in result.stderr.splitlines() and told["regularisation"] > 0
    for arguments, rule in (
        (("--regularisation", "-1"), "--regularisation must be gcv, or a number that is at least 0, got '-1'"),
        (("--regularisation", "abc"), "--regularisation must be gcv, or a number that is at least 0, got 'abc'"),
        (("--level", "95"), "--level must be above 0 and below 1, such as 0.95, got 95"),
        (("--l1-ratio", "0.5"), "--l1-ratio must come with --lasso, got 0.5 without"),
    ):
        wrong = run("study", "refit", "study.toml", "out", *arguments)
        assert (wrong.exit_code, wrong.stderr) == (2, f"error: {rule}\n")
    bad = run("study", "refit", "study.toml", "out", "--contrast", "age")
    assert bad.stderr.startswith("error: --contrast must be 'A - B' of two of age, constant, crp, ")
    nothing = run("study", "refit", "study.toml", "nowhere")
    assert nothing.stderr.startswith("error: FOLDER must hold what codedfl server run or study rehearse wrote, got ")


def test_a_column_that_is_the_same_everywhere_is_named(run: Run, clinics: Path):
    for path in clinics.iterdir():
        first, *rows = path.read_text().splitlines()
        path.write_text("\n".join((f"{first};ward", *(f"{row};7" for row in rows))) + "\n")
    run("study", "new", clinics / "clinic-0.csv", "--target", "days", "--out", "wards.toml")
    assert "# Noticed: the same number in all rows of the sample." in Path("wards.toml").read_text()
    result = run("study", "rehearse", "wards.toml", "--tables", clinics)
    assert result.exit_code == 2
    assert "error: column 'ward' must vary on at least 3 devices, got fewer" in result.stderr


def test_classes_are_shown_with_what_they_were_taken_for(run: Run, clinics: Path):
    for path in clinics.iterdir():
        path.write_text(path.read_text().replace(";m;", ";[m];"))
    run("study", "new", clinics / "clinic-0.csv", "--target", "sex", "--out", "classes.toml")
    few = run("study", "rehearse", "classes.toml", "--tables", clinics).stdout
    assert "confusion matrix, calibration and ROC curve are withheld" in few and "true class" not in few
    file, outcome = Path("classes.toml"), Path("outcome.json")
    file.write_text(file.read_text().replace("smallest_cell = 5", "smallest_cell = 1"))
    refused = run("study", "rehearse", "classes.toml", "--tables", clinics).stderr
    assert "smallest_cell must be at least 5 by this device's policy, got 1" in refused
    Path("policy.toml").write_text("smallest-cell = 1\n")
    shown = run(
        "study", "rehearse", "classes.toml", "--tables", clinics, "--policy", "policy.toml", "--json", outcome
    ).stdout
    told = json.loads(outcome.read_text())
    lines = [line.split() for line in shown.splitlines()]
    at = lines.index(["true", "class", "as", "[m]", "as", "f"])
    (of_m, of_f) = told["score"]["confusion"]
    assert lines[at + 1 : at + 3] == [["[m]", *of_m], ["f", *of_f]]
    at = lines.index(["score", "of", "f", "rows", "of", "them", "f"])
    bands = told["score"]["calibration"]
    assert [line[:4] for line in lines[at + 1 :][: len(bands)]] == [[*band.split(), rows] for band, rows, _ in bands]


def test_one_table_is_dealt_out(run: Run, clinics: Path):
    outcome = json.loads(
        run("study", "rehearse", "study.toml", "--tables", clinics / "clinic-1.csv", "--json", "-").stdout
    )
    assert outcome["devices"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("study", "rehearse", "study.toml"),
            "codedfl study rehearse must have --tables, got none, as in: codedfl study rehearse study.toml --tables"
            " folder",
        ),
        (
            ("study", "rehearse", "study.toml", "--tables", "clinics", "--devices", "9"),
            "--devices must be left out with a folder of tables, got 9",
        ),
        (
            ("study", "rehearse", "study.toml", "--tables", "clinics", "--epsilon", "1"),
            "no option --epsilon of codedfl study rehearse: --help lists them",
        ),
        (
            ("study", "rehearse", "study.toml", "--tables", "clinics", "--fleet", "none"),
            "fleet must be a readable TOML file or a shipped fleet (coming-and-going, congested, drifting,"
            " fast-processors, heavy-tailed, paper), got 'none'",
        ),
    ],
)
def test_what_is_refused(run: Run, clinics: Path, arguments: tuple[str, ...], message: str):
    result = run(*arguments)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


def test_noise_is_promised_and_no_score_is_made_up(run: Run):
    rows = [f"{(7 * i) % 20 / 20},{(3 * i) % 20 / 20},{(7 * i) % 20 / 20 - (3 * i) % 20 / 20}" for i in range(200)]
    Path("t.csv").write_text("\n".join(["a,b,y", *rows]) + "\n", encoding="utf-8")
    columns = "".join(f'[[column]]\nname = "{name}"\nkind = "number"\nrange = [0, 1]\nstep = 0.05\n' for name in "ab")
    protection = "[protection]\nleast_participants = 5\nmax_rows = 400\nmax_rows_per_device = 60\n"
    end = (
        '[target]\nname = "y"\nrange = [-1, 1]\nstep = 0.05\n[noise]\nepsilon = 8\nhonest = 4\n[result]\nheld_out = 0\n'
    )
    Path("study.toml").write_text(
        f'format = "codedfl-study-2"\nname = "s"\n{columns}{protection}{end}', encoding="utf-8"
    )
    result = run("study", "rehearse", "study.toml", "--tables", "t.csv", "--out", "here")
    assert result.exit_code == 0, result.stderr
    assert "none: the study holds no rows out" in result.stdout
    assert "Whether any one row was there or not" in result.stdout and "(epsilon = 8)" in result.stdout


def test_the_times_of_a_fleet_change_no_finding(run: Run, clinics: Path):
    alike, paper = (
        json.loads(run("study", "rehearse", "study.toml", "--tables", clinics, "--json", "-", *more).stdout)
        for more in ((), ("--fleet", "paper"))
    )
    assert alike.pop("virtual_seconds") != paper.pop("virtual_seconds")
    assert alike == paper


def test_fleets_are_the_lab_s(run: Run, clinics: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("codedfl.cli.study_rehearsal.additions", lambda _group: {})
    result = run("study", "rehearse", "study.toml", "--tables", clinics, "--fleet", "paper")
    message = "--fleet must be left out without codedfl-lab (pip install codedfl-lab), got 'paper'"
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
