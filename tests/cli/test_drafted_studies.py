"""From an unprepared table to a model, without an edit: every kind is drafted, rehearsed, compared."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from command_runner import Run
from statsmodels.discrete.conditional_models import ConditionalLogit
from statsmodels.miscmodels.ordinal_model import OrderedModel

from codedfl.cli.exit_codes import NO_MODEL
from codedfl.contract.toml_file import load_study

SIZES = (30, 45, 60, 75, 90, 105, 120, 141, 201)
COLUMNS = ["age", "arm[T.high]", "arm[T.low]"]


def people() -> pd.DataFrame:
    """Three arms at nine sites, with an outcome of every kind, three rows of each person, and codes of gaps."""
    rng, n = np.random.default_rng(3), sum(SIZES)
    age, arm = rng.normal(62, 11, n).round().clip(24, 93), rng.choice(["control", "low", "high"], n)
    effect = 0.03 * (age - 62) + np.select([arm == "low", arm == "high"], [-0.3, -0.6], 0.0)
    time, end = rng.exponential(900 / np.exp(effect)), rng.uniform(100, 1500, n)
    alike = np.repeat(rng.gamma(4.0, 0.25, n // 3), 3)
    mean, score = np.exp(0.5 + effect), 1.5 * effect + rng.logistic(size=n)
    died = (time <= end).astype(int)
    return pd.DataFrame(
        {
            "site": np.repeat([f"clinic-{i}" for i in range(len(SIZES))], SIZES),
            "pid": np.arange(1001, 1001 + n),
            "person": np.arange(n) // 3,
            "age": age,
            "arm": arm,
            "days": np.ceil(np.minimum(time, end)),
            "died": died,
            "dead": np.where(died == 1, "yes", "no"),
            "ill": np.where(rng.random(n) < 1 / (1 + np.exp(0.5 - effect)), "yes", "no"),
            "visits": rng.poisson(mean * alike),
            "calls": rng.poisson(mean * rng.gamma(2.0, 0.5, n)),
            "cost": (9000 * mean * rng.gamma(3.0, 1 / 3, n)).round().clip(1),
            "pressure": (120 + 10 * effect + rng.normal(0, 15, n)).round(),
            "stage": np.select([score < -1, score < 0.5], ["I", "II"], "III"),
            "bmi": np.where(rng.random(n) < 0.03, 999, rng.normal(27, 4, n).round(1)),
            "smoker": rng.choice([0, 1, -9], n, p=[0.6, 0.35, 0.05]),
        }
    )


PEOPLE = people()


@pytest.fixture
def drafted(run: Run, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Draft from all rows together, rehearse at the sites, and give what the result says."""
    PEOPLE.drop(columns="site").to_csv("all.csv", index=False)
    (tmp_path / "sites").mkdir()
    for site, rows in PEOPLE.groupby("site"):
        rows.to_csv(tmp_path / "sites" / f"{site}.csv", index=False)

    def end_to_end(formula: str, *options: str) -> dict[str, Any]:
        assert run("study", "new", "all.csv", "--formula", formula, *options).exit_code == 0
        done = run("study", "rehearse", "study.toml", "--tables", "sites", "--out", "out")
        assert done.exit_code == 0, done.stdout + done.stderr
        found: dict[str, Any] = json.loads(Path("out/result.json").read_text())
        return found

    return end_to_end


def design(rows: pd.DataFrame = PEOPLE) -> pd.DataFrame:
    return pd.DataFrame({"age": rows["age"], "high": rows["arm"] == "high", "low": rows["arm"] == "low"}).astype(float)


def of_glm(formula: str, family: Any) -> tuple[Any, Any]:
    found = smf.glm(formula, PEOPLE, family=family).fit()
    return found.params[COLUMNS], found.bse[COLUMNS]


def of_logistic() -> tuple[Any, Any]:
    found = smf.logit("ill ~ age + arm", PEOPLE.assign(ill=PEOPLE["ill"] == "yes").astype({"ill": float})).fit(disp=0)
    return found.params[COLUMNS], found.bse[COLUMNS]


def of_negative() -> tuple[Any, Any]:
    found = smf.negativebinomial("calls ~ age + arm", PEOPLE).fit(disp=0, maxiter=200)
    return found.params[COLUMNS], found.bse[COLUMNS]


def of_gee() -> tuple[Any, Any]:
    like = sm.cov_struct.Exchangeable()
    found = smf.gee("visits ~ age + arm", "person", PEOPLE, cov_struct=like, family=sm.families.Poisson())
    found = found.fit(ctol=1e-12, maxiter=200)
    return found.params[COLUMNS], found.bse[COLUMNS]


def of_sets() -> tuple[Any, Any]:
    found = ConditionalLogit((PEOPLE["ill"] == "yes") * 1.0, design(), groups=PEOPLE["person"]).fit(disp=0)
    return found.params, found.bse


def of_stages() -> tuple[Any, Any]:
    stages = pd.Series(pd.Categorical(PEOPLE["stage"], ordered=True))
    found = OrderedModel(stages, design(), distr="logit").fit(method="bfgs", disp=0, maxiter=500)
    return found.params[:3], found.bse[:3]


GLM = sm.families
KINDS: dict[str, tuple[str, tuple[str, ...], Callable[[], tuple[Any, Any]]]] = {
    "logistic": ("ill ~ age + arm", (), of_logistic),
    "poisson": ("visits ~ age + arm", ("--model", "poisson"), lambda: of_glm("visits ~ age + arm", GLM.Poisson())),
    "negative-binomial": ("calls ~ age + arm", ("--model", "negative-binomial"), of_negative),
    "gamma": (
        "cost ~ age + arm",
        ("--model", "gamma"),
        lambda: of_glm("cost ~ age + arm", GLM.Gamma(GLM.links.Log())),
    ),
    "gee": ("visits ~ age + arm + cluster(person)", ("--model", "gee"), of_gee),
    "conditional-logit": ("ill ~ age + arm + strata(person)", (), of_sets),
    "proportional-odds": ("stage ~ age + arm", ("--model", "proportional-odds"), of_stages),
}


def rows_of(model: dict[str, Any]) -> int:
    return int(model.get("rows") or model["inference"]["fit"]["rows"])


def coefficients(inference: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    rows = {one["name"]: one for one in inference["coefficients"]}
    ours = [rows[name] for name in ("age", "arm = high", "arm = low")]
    return np.array([one["coefficient"] for one in ours]), np.array([one["standard_error"] for one in ours])


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_kind_is_drafted_into_a_model(kind: str, drafted: Callable[..., dict[str, Any]]):
    formula, options, oracle = KINDS[kind]
    (model,) = drafted(formula, *options)["models"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs, errors = oracle()
    ours, spread = coefficients(model["inference"])
    assert model["kind"] == kind and rows_of(model) == len(PEOPLE), "all rows, none held out"
    assert np.abs((ours - np.asarray(theirs)) / np.asarray(errors)).max() < 2e-3
    assert spread == pytest.approx(np.asarray(errors), rel=2e-2)


def test_a_linear_model_has_standard_errors_as_drafted(drafted: Callable[..., dict[str, Any]]):
    found = drafted("pressure ~ age + arm")
    oracle = smf.ols("pressure ~ age + arm", PEOPLE).fit()
    ours, spread = coefficients(found["inference"])
    assert ours == pytest.approx(oracle.params[COLUMNS].to_numpy(), rel=1e-6)
    assert spread == pytest.approx(oracle.bse[COLUMNS].to_numpy(), rel=1e-6) and found["models"] == []


@pytest.mark.parametrize("event", ["died", "dead == 'yes'", "died == 1"])
def test_times_to_an_event_end_in_hazard_ratios(event: str, drafted: Callable[..., dict[str, Any]]):
    """On the grid that is drafted, less what the census joins; held against exact times on the same intervals."""
    (model,) = drafted(f"Surv(days, {event}) ~ age + arm")["models"]
    grid = np.array(model["baseline"][0]["times"])
    place = np.searchsorted(grid, PEOPLE["days"])
    status = PEOPLE["died"] * (place < len(grid))
    oracle = sm.PHReg(np.append(grid, grid[-1] + 1)[place], design(), status=status, ties="efron").fit()
    ours, spread = coefficients(model["inference"])
    assert np.abs((ours - oracle.params) / oracle.bse).max() < 1e-4
    assert spread == pytest.approx(oracle.bse, rel=1e-4)
    exact = sm.PHReg(PEOPLE["days"], design(), status=PEOPLE["died"], ties="efron").fit()
    assert np.abs((ours - exact.params) / exact.bse).max() < 0.5, "by the coarse grid, half an error at most"


def test_a_number_beside_its_square_ends_in_a_model(drafted: Callable[..., dict[str, Any]]):
    """Each alone would reach beyond the bound of the linear predictor; together they do not."""
    (model,) = drafted("ill ~ age + I(age^2)")["models"]
    rows = PEOPLE.assign(ill=(PEOPLE["ill"] == "yes") * 1.0)
    oracle = smf.logit("ill ~ age + I(age**2)", rows).fit(disp=0)
    ours = {one["name"]: one["coefficient"] for one in model["inference"]["coefficients"]}
    found = np.array([ours["age"], ours["age^2"]])
    assert np.abs((found - oracle.params[1:]) / oracle.bse[1:]).max() < 2e-3


def test_a_square_ends_in_hazard_ratios_and_a_time_has_no_score(run: Run, drafted: Callable[..., dict[str, Any]]):
    drafted("Surv(days, died) ~ age + I(age^2)")
    Path("held.toml").write_text(Path("study.toml").read_text().replace("held_out = 0.0", "held_out = 0.2"))
    done = run("study", "rehearse", "held.toml", "--tables", "sites", "--out", "held")
    assert done.exit_code == 0 and "R^2" not in done.stdout
    found = json.loads(Path("held/result.json").read_text())
    why = "the target is a time, of which some are censored: a linear model of it tells nothing (held_out = 0)"
    assert (found["score"], found["no_score"]) == (None, why)
    assert [one["name"] for one in found["models"][0]["inference"]["coefficients"]] == ["age", "age^2"]
    assert "R\u00b2" not in Path("held/result.html").read_text()


def test_crude_estimates_stand_beside_adjusted_ones(drafted: Callable[..., dict[str, Any]]):
    found = drafted("ill ~ age + arm", "--crude")
    rows = PEOPLE.assign(ill=(PEOPLE["ill"] == "yes") * 1.0)
    assert found["crude"] == {"ill by formula": ["age alone", "arm alone"]}
    for formula, model in zip(("age + arm", "age", "arm"), found["models"], strict=True):
        oracle = smf.logit(f"ill ~ {formula}", rows).fit(disp=0)
        ours = np.array([one["coefficient"] for one in model["inference"]["coefficients"][1:]])
        theirs = oracle.params[1:].sort_index() if formula == "age + arm" else oracle.params[1:]
        assert np.abs(np.sort(ours) - np.sort(theirs)).max() < 2e-3 * oracle.bse.max()
    head, *lines = Path("out/tables/effects-ill-by-formula.csv").read_text().splitlines()
    ratio = "odds ratio (95 % interval)"
    assert head == f'"","Crude {ratio}","p","Adjusted {ratio}","p"'
    assert [line.split(",")[0] for line in lines] == ['"age', '"arm"', '"control"', '"high"', '"low"']
    assert not list(Path("out/tables").glob("*alone*")) and not list(Path("out/figures").glob("*alone*"))
    assert not list(Path("out/tables").glob("nested*"))


def test_crude_differences_of_a_linear_model_come_of_its_own_sum(drafted: Callable[..., dict[str, Any]]):
    found = drafted("pressure ~ age + arm", "--crude")
    assert found["crude"] == {"": ["age alone", "arm alone"]} and set(found["owners"]) == {"cells", "gram"}
    oracle = smf.ols("pressure ~ age", PEOPLE).fit()
    assert found["models"][0]["inference"]["coefficients"][1]["coefficient"] == pytest.approx(oracle.params["age"])
    assert Path("out/tables/effects.csv").read_text().startswith('"","Crude coefficient (95 % interval)","p","Adjusted')


def test_classes_in_the_order_of_the_alphabet_are_said_where_order_is_the_meaning(run: Run, tmp_path: Path):
    words = PEOPLE.assign(stage=PEOPLE["stage"].map({"I": "mild", "II": "severe", "III": "fatal"}))
    words.drop(columns="site").to_csv("all.csv", index=False)
    done = run("study", "new", "all.csv", "--formula", "stage ~ age + arm", "--model", "proportional-odds")
    line = (
        "classes are in the order of the alphabet, fatal < mild < severe, and proportional-odds has a meaning only in"
        " theirs: write them from the least to the most."
    )
    assert f"noticed: stage: {line}" in " ".join(done.stdout.split())
    assert f"# Noticed: {line}\n[target]\n" in Path("study.toml").read_text()


def test_codes_of_gaps_are_gaps_and_their_rows_are_left_out(run: Run, drafted: Callable[..., dict[str, Any]]):
    (model,) = drafted("ill ~ age + arm + bmi + smoker")["models"]
    whole = PEOPLE[(PEOPLE["bmi"] != 999) & (PEOPLE["smoker"] != -9)]
    assert model["rows"] == len(whole) < len(PEOPLE)
    oracle = smf.logit("ill ~ age + arm + bmi + smoker", whole.assign(ill=(whole["ill"] == "yes") * 1.0)).fit(disp=0)
    ours, _ = coefficients(model["inference"])
    assert np.abs((ours - oracle.params[COLUMNS]) / oracle.bse[COLUMNS]).max() < 2e-3
    said = " ".join(
        run("study", "new", "all.csv", "--formula", "ill ~ age + bmi + smoker", "--out", "b.toml").stdout.split()
    )
    assert "bmi: 999 far from all others, taken for codes of missing values" in said
    assert f"complete_cases leaves out {len(PEOPLE) - len(whole)} of {len(PEOPLE)} rows of the sample" in said
    text = Path("b.toml").read_text()
    assert str(len(PEOPLE) - len(whole)) not in text and "missing_codes = [999.0]" in text
    columns = {one.name: one for one in load_study(Path("b.toml")).columns}
    assert columns["bmi"].missing_codes == (999.0,) and columns["bmi"].range == (5.0, 100.0)


def test_a_study_whose_only_model_could_not_be_made_ends_with_its_own_code(
    run: Run, drafted: Callable[..., dict[str, Any]]
):
    drafted("ill ~ age + arm")
    text = Path("study.toml").read_text().replace("range = [0.0, 120.0]", "range = [0.0, 90000.0]")
    Path("wide.toml").write_text(text)
    done = run("study", "rehearse", "wide.toml", "--tables", "sites", "--out", "wide", "--json", "found.json")
    assert done.exit_code == NO_MODEL == 4
    assert done.stderr.splitlines()[-1] == "no model: ill by formula could not be made, for the reason above"
    assert json.loads(Path("found.json").read_text())["models"][0]["why_none"]
    assert Path("wide/result.html").exists(), "what else there is, is written"


def test_a_yes_or_no_that_table_1_had_as_a_column_ends_in_odds(run: Run, tmp_path: Path):
    """As a hospital's tables come: spellings, words among numbers, people with several rows, a description first."""
    rng = np.random.default_rng(0)
    messy = PEOPLE[["site", "person", "age", "arm", "days", "ill"]].assign(
        patient=[f"P{person}" for person in PEOPLE["person"]],
        age=[str(age) if rng.random() > 0.03 else "not done" for age in PEOPLE["age"]],
    )
    messy.loc[rng.choice(len(messy), 12, replace=False), "ill"] = ""
    (tmp_path / "sites").mkdir()

    def write(rows: pd.DataFrame) -> None:
        for site, mine in rows.drop(columns="person").groupby("site"):
            mine.drop(columns="site").to_csv(tmp_path / "sites" / f"{site}.csv", index=False)

    write(messy.assign(arm=np.where(messy["site"] == "clinic-8", messy["arm"].str.capitalize(), messy["arm"])))
    done = run("study", "describe", "sites", "--target", "days", "--participants", 3)
    said = " ".join(done.stdout.split())
    assert "arm: 'Control', 'High', 'Low', 'control', 'high', 'low' differ by case or spaces alone" in said
    assert 'if it tells people apart say id = "patient" in the study: rows of one are then one person' in said
    text = Path("describe.toml").read_text()
    assert "far wider than anybody's values" in text and "nobody's is beyond" not in text
    write(messy)  # the site has mended its spelling
    Path("describe.toml").write_text(text.replace('# id = "..."', 'id = "patient"'))
    assert run("study", "rehearse", "describe.toml", "--tables", "sites", "--out", "first").exit_code == 0
    methods = Path("first/methods.txt").read_text()
    assert "set to a value" not in methods and "unmarked" not in Path("first/summary.txt").read_text()

    formula = ("--formula", "ill ~ age + arm", "--out", "odds.toml")
    assert run("study", "new", "--from", "first/result.json", *formula).exit_code == 0
    study = load_study(Path("odds.toml"))
    assert [one.kind for one in study.models] == ["logistic"] and getattr(study.target, "classes", ()) == ("no", "yes")
    assert "Control" not in Path("odds.toml").read_text(), "nobody has this level any more"
    assert run("study", "rehearse", "odds.toml", "--tables", "sites", "--out", "out").exit_code == 0
    (model,) = json.loads(Path("out/result.json").read_text())["models"]
    whole = messy[(messy["age"] != "not done") & (messy["ill"] != "")].astype({"age": float})
    oracle = smf.logit("ill ~ age + arm", whole.assign(ill=(whole["ill"] == "yes") * 1.0)).fit(disp=0)
    assert model["rows"] == len(whole)
    ours, _ = coefficients(model["inference"])
    assert np.abs((ours - oracle.params[COLUMNS]) / oracle.bse[COLUMNS]).max() < 2e-3
    methods = Path("out/methods.txt").read_text()
    assert "ridge" not in methods, "what is reported is the logistic model's"
    shown = run("study", "show", "odds.toml").stdout
    assert "the result is a model, without a score" in shown


def test_a_check_says_from_where_to_where_numbers_among_words_go(run: Run, drafted: Callable[..., dict[str, Any]]):
    drafted("ill ~ age + arm")
    words = PEOPLE.head(60).astype({"age": object})
    words.loc[:5, "age"] = "not done"
    words.to_csv("words.csv", index=False)
    text = Path("study.toml").read_text()
    step = next(line for line in text.splitlines() if line.startswith("step"))
    Path("coded.toml").write_text(text.replace(step, f'{step}\nmissing_codes = ["not done"]', 1))
    ages = words["age"][6:].astype(float)
    (line,) = (one for one in run("study", "check", "coded.toml", "words.csv").stdout.splitlines() if "age " in one)
    assert line.split()[-3:] == [f"{ages.min():g}", "to", f"{ages.max():g}"]


@pytest.mark.parametrize(
    ("formula", "options", "line"),
    [
        (
            "Surv(days, dead) ~ age",
            (),
            "the event must be 0 or 1, got 'dead' with no, yes: write Surv(days, dead == 'yes')",
        ),
        (
            "pressure ~ age + cluster(person)",
            (),
            "linear must have no cluster, got 'person': leave cluster(x) out, or take another --model",
        ),
        (
            "ill ~ age",
            ("--model", "conditional-logit"),
            "conditional-logit must have its strata, got none: write strata(x) in the formula",
        ),
        ("days ~ age", ("--model", "cox"), "cox must have its event, got none: write Surv(time, event) in the formula"),
    ],
)
def test_what_a_kind_lacks_is_said_with_what_to_write(run: Run, formula: str, options: tuple[str, ...], line: str):
    PEOPLE.to_csv("all.csv", index=False)
    refused = run("study", "new", "all.csv", "--formula", formula, *options)
    assert (refused.exit_code, refused.stderr) == (2, f"error: {line}\n")
