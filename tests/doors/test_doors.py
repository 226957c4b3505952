"""A scheme, a solver and a latency model from outside go wherever ours go; docs/extend.md shows the three files.

So does a study with a feature map, a kind of model, a statistic, an analysis and an engine, each one file (``new``).
"""

from __future__ import annotations

import dataclasses
import io
import json
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import heavy_ball
import numpy as np
import pytest
from daily_rhythm import DailyRhythm
from heavy_ball import HeavyBall
from new_study import TRAINED
from pairs import Pairs
from rich.console import Console
from typer.testing import CliRunner

import codedfl
import codedfl_lab
from codedfl import CodedRidge
from codedfl.cli.app import app
from codedfl.contract.toml_file import parse_study
from codedfl.data import features
from codedfl.data.features import FEATURE_MAPS
from codedfl.errors import InvalidInput
from codedfl.solve import registry as solvers
from codedfl.solve.descent import GradientDescent, StepSchedule
from codedfl_lab import CodedKeys, Conditions, Conventional, Entry, Fleet, FleetLatency, Limits, Search, Settings
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.report.privacy_table import privacy_table
from codedfl_lab.schemes import registry
from codedfl_lab.schemes.registry import SCHEMES, SchemeRegistry, scheme_type
from small_problems import digits, totals
from trainings import Small
from wording import exactly

FLEET = Fleet.load("paper").scaled_to(10)
HERE = Path(__file__).parent
OURS = Path(codedfl.__file__).parent


@pytest.fixture
def pairs_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCHEMES, "_known", dict(SCHEMES._known))
    codedfl_lab.register_scheme(Pairs)


@pytest.fixture
def heavy_ball_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "_kinds", dict(solvers._kinds))
    codedfl.register_solver(heavy_ball.KIND)


def compared(*entries: Entry, at: Conditions | None = None) -> str:
    chosen = Settings(at or Conditions(FLEET), (0.8,), draws=4, max_epochs=150, regularisation=1e-4)
    return repr(codedfl_lab.compare("digits", [(0, digits())], [Entry(Conventional()), *entries], chosen))


def planned(at: Conditions | None = None, limits: Limits | None = None, **options):
    search = Search(regularisation=1e-4, draws=4, **options)
    return codedfl_lab.plan(totals(), at or Conditions(FLEET), 0.8, limits, search)


# -- a scheme


def test_a_scheme_is_compared_and_its_model_is_ours():
    assert "pairs, α = 2, 5 groups" in compared(Entry(Pairs(2, 5), "cg"))
    at, rng = Conditions(FLEET), np.random.default_rng
    theirs = simulate(Pairs(2, 5), digits(), GradientDescent(4, 1e-4), at, rng(0))
    ours = simulate(CodedKeys(8), digits(), GradientDescent(4, 1e-4), at, rng(0))
    assert np.array_equal(theirs.model, ours.model)


@pytest.mark.usefixtures("pairs_known")
def test_a_registered_scheme_is_planned_and_judged():
    made = planned(solvers=["cg"], limits=Limits(max_exposure=1))
    (found,) = (plan for plan in made.plans if plan.scheme == "pairs")
    assert (found.exposed_to_server, found.exposed_by_one, found.stragglers) == (0, 1, 5)
    rows = scheme_type("pairs").default_for(10).privacy_rows(10)
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(privacy_table(rows, "pairs"))
    assert "server and one device" in console.export_text()


def table() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(60, 3))
    return X, X @ [1.0, -2.0, 0.5]


@pytest.mark.usefixtures("pairs_known")
def test_the_command_line_takes_the_variant_that_the_scheme_takes():
    said = CliRunner(env={"COLUMNS": "100"}).invoke(
        app, ["lab", "privacy", "pairs", "--devices", "10"], catch_exceptions=False
    )
    assert said.stdout.startswith("pairs, α = 2, 5 groups, 10 devices")


def test_it_trains_the_centralised_model():
    small, make = Small((3, 5, 2, 4)), lambda: GradientDescent(4, 1e-3, StepSchedule(0.5))
    assert np.array_equal(small.models(Pairs(2, 2), make())[-1], small.expected(Pairs(2, 2), make())[-1])


# -- entry points


def plugged_in(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> SchemeRegistry:
    fresh = SchemeRegistry(*SCHEMES.values())
    monkeypatch.setattr(registry, "SCHEMES", fresh)
    monkeypatch.setattr(registry, "additions", lambda _group: {entry.name: entry for entry in entries})
    return fresh


def test_another_package_adds_a_scheme_by_its_entry_point(monkeypatch: pytest.MonkeyPatch):
    found = plugged_in(monkeypatch, EntryPoint("pairs", "pairs:Pairs", "codedfl.schemes"))
    assert found["coded-keys"] is CodedKeys and not found._looked, "looked for only when needed"
    assert found["pairs"] is Pairs and list(found)[-1] == "pairs"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("nowhere:Pairs", "ModuleNotFoundError: No module named 'nowhere'"),
        (
            "pairs:Iterator",
            "InvalidInput: a scheme must be a subclass of codedfl_lab.Scheme, got <class 'collections.abc.Iterator'>",
        ),
        ("codedfl_lab:CodedKeys", ""),
    ],
)
def test_a_broken_one_is_a_line_and_the_others_work(monkeypatch: pytest.MonkeyPatch, value: str, why: str):
    found = plugged_in(monkeypatch, EntryPoint("odd", value, "codedfl.schemes"))
    assert "coded-keys" in list(found) and "odd" not in list(found)
    if why:
        with pytest.raises(InvalidInput, match=f"^{re.escape(f'the scheme odd ({value}) could not be loaded: {why}')}"):
            scheme_type("odd")


def test_a_name_is_given_once():
    with pytest.raises(InvalidInput, match=r"^a scheme's name must be new, got 'coded-keys', which is registered$"):
        codedfl_lab.register_scheme(dataclasses.make_dataclass("Mine", (), bases=(CodedKeys,), frozen=True))


# -- a solver


def test_a_solver_is_compared_and_planned_as_an_object():
    ball = HeavyBall(100, 1e-4)
    assert "HeavyBall" in compared(Entry(CodedKeys(8), ball))
    made = planned(solvers=[ball])
    assert {"HeavyBall"} == {plan.solver for plan in made.plans if plan.scheme == "coded-keys"}


@pytest.mark.usefixtures("heavy_ball_known")
def test_a_registered_solver_has_a_name_everywhere():
    assert "heavy-ball" in compared(Entry(CodedKeys(8), "heavy-ball"))
    made = planned(limits=Limits(allow_gram=True))
    assert {plan.scheme for plan in made.plans if plan.solver == "heavy-ball"} >= {"coded-keys", "coded-padded"}
    X, y = table()
    model = CodedRidge(solver="heavy-ball", epochs=100, regularisation=1e-3).fit(X, y)
    reference = CodedRidge(regularisation=1e-3).fit(X, y)
    np.testing.assert_allclose(model.predict(X), reference.predict(X), atol=1e-3)


# -- a latency model


@pytest.fixture(scope="module")
def evening() -> Conditions:
    return Conditions(FLEET, latency=DailyRhythm(FleetLatency(FLEET)))


def test_a_latency_model_times_the_simulation(evening: Conditions):
    """The crowd is at its worst when the run begins, and thins out."""
    runs = {
        name: simulate(CodedKeys(8), digits(), GradientDescent(4, 1e-4), at, np.random.default_rng(1))
        for name, at in (("usual", Conditions(FLEET)), ("evening", evening))
    }
    assert np.array_equal(runs["usual"].model, runs["evening"].model)
    assert (runs["evening"].seconds > 1.2 * runs["usual"].seconds).all()
    morning = dataclasses.replace(evening, latency=DailyRhythm(FleetLatency(FLEET), begins=8.0))
    early = simulate(CodedKeys(8), digits(), GradientDescent(4, 1e-4), morning, np.random.default_rng(1))
    np.testing.assert_allclose(early.seconds, runs["usual"].seconds, rtol=1e-3)


def test_it_knows_the_time_of_each_epoch():
    """Half a day of epochs later, the same transfer is as fast as ever."""
    model = DailyRhythm(FleetLatency(FLEET), crowd=4.0)
    at = np.array([[0.0] * 10, [43_200.0] * 10])
    slow, fast = model.transfer_times(1e6, "up", 2, np.random.default_rng(0), now=at) / FleetLatency(
        FLEET
    ).transfer_times(1e6, "up", 2, np.random.default_rng(0))
    np.testing.assert_allclose(slow, 4)
    np.testing.assert_allclose(fast, 1)


def test_comparisons_and_plans_use_it(evening: Conditions):
    usual, crowded = (seconds_in(compared(at=at)) for at in (Conditions(FLEET), evening))
    assert crowded > 1.2 * usual
    plain, slow = planned(solvers=["cg"]), planned(evening, solvers=["cg"])
    assert slow.best.seconds_mean > 1.2 * plain.best.seconds_mean


def seconds_in(comparison: str) -> float:
    return float(re.search(r"epoch_s_mean[^0-9]+([0-9.e-]+)", comparison).group(1))


# -- a feature map with a parameter, a kind of model, a statistic, an analysis and an engine


def test_each_of_a_study_is_one_new_file_that_is_found_by_being_there():
    """No file of ours names them; the engine loses, doubles and turns round what it carries."""
    program = [sys.executable, str(HERE / "new_study.py"), str(HERE / "new")]
    found = json.loads(subprocess.run(program, capture_output=True, text=True, check=True, timeout=120).stdout)
    assert found["off"] < 0.01, "the model is the cubic that least squares find"
    assert found["counts"] == found["parts"]
    assert found["median"] == {"name": "middle", "kind": "median", "part": int(found["middle"]) * 8 // 64}
    assert len(set(found["digests"])) == 2, "the map's own key is in what the parties agree to"
    assert not [one for one in OURS.rglob("*.py") if re.search("class Powers|MedianModel|Backwards", one.read_text())]


def test_the_keys_of_a_new_map_are_checked_like_ours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FEATURE_MAPS, "known", dict(FEATURE_MAPS.known))
    monkeypatch.setattr(features, "__path__", [*features.__path__, str(HERE / "new" / "features")])
    with pytest.raises(InvalidInput, match=exactly("s: features.degree must be a whole number, got 2.5")):
        parse_study(TRAINED.format(2.5), "s")
    known = "bound, components, count, degree, encoder, gamma, kind, seed"
    with pytest.raises(InvalidInput, match=exactly(f"s: [features] must hold only {known}, got 'degre'")):
        parse_study(TRAINED.replace("degree = {}", "degre = 3"), "s")


# -- the three files


@pytest.mark.parametrize("name", ["pairs.py", "heavy_ball.py", "daily_rhythm.py"])
def test_the_files_are_short_and_shown_in_the_docs(name: str):
    text = (HERE / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) < 40
    assert text in (HERE.parents[1] / "docs" / "extend.md").read_text(encoding="utf-8")
