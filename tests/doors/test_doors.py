"""A scheme, a solver and a latency model from outside go wherever ours go; docs/extend.md shows the files.

So do a data set, and a study with a feature map, a kind of model, a statistic, an analysis and an engine, each one
file (``new``).
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import heavy_ball
import numpy as np
import pytest
import rings
from daily_rhythm import DailyRhythm
from heavy_ball import HeavyBall
from new_study import TRAINED
from pairs import Pairs
from rich.console import Console
from typer.testing import CliRunner

import codedfl
import codedfl_lab
from codedfl import CodedRidge
from codedfl.additions import SCHEMES as GROUP
from codedfl.cli.app import app
from codedfl.contract.toml_file import parse_study
from codedfl.data import features
from codedfl.data.features import FEATURE_MAPS, feature_map_from_dict
from codedfl.data.features.feature_map import PlainMap
from codedfl.errors import InvalidInput
from codedfl.registry import Registry
from codedfl.solve.descent import GradientDescent, StepSchedule
from codedfl.solve.registry import SOLVER_KINDS, solver_kind
from codedfl_lab import (
    CodedKeys,
    Conditions,
    Conventional,
    Entry,
    Fleet,
    FleetLatency,
    Limits,
    RoleKeys,
    Scheme,
    Search,
    Settings,
)
from codedfl_lab.comparing.simulator import simulate
from codedfl_lab.report.privacy_table import privacy_table
from codedfl_lab.schemes import registry
from codedfl_lab.schemes.registry import SCHEMES, check_scheme, make_scheme, scheme_type
from small_problems import digits, totals
from trainings import Small
from wording import exactly

FLEET = Fleet.load("paper").scaled_to(10)
HERE = Path(__file__).parent
OURS = Path(codedfl.__file__).parent
POWERS = HERE / "new" / "features" / "powers.py"
FILES = [*(HERE / name for name in ("pairs.py", "heavy_ball.py", "daily_rhythm.py", "rings.py")), POWERS]


@pytest.fixture
def pairs_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCHEMES, "_known", dict(SCHEMES))
    codedfl_lab.register_scheme(Pairs)


@pytest.fixture
def heavy_ball_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SOLVER_KINDS, "_known", dict(SOLVER_KINDS))
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


def plugged_in(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> Registry[type[Scheme]]:
    fresh: Registry[type[Scheme]] = Registry(GROUP, "scheme", check_scheme, *SCHEMES.values())
    monkeypatch.setattr(registry, "SCHEMES", fresh)
    monkeypatch.setattr("codedfl.registry.additions", lambda _group: {entry.name: entry for entry in entries})
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


# -- a feature map of another package


def offered(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """An entry point ``powers`` of feature maps, as if a package with it were installed."""
    entry = EntryPoint("powers", value, "codedfl.features")
    monkeypatch.setattr(FEATURE_MAPS, "known", dict(FEATURE_MAPS.known))
    monkeypatch.setattr("codedfl.on_demand.additions", lambda group: {"powers": entry} if group == entry.group else {})


@pytest.fixture
def powers_offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(POWERS.parent)
    offered(monkeypatch, "powers:Powers")
    yield
    sys.modules.pop("powers", None)


@pytest.mark.usefixtures("powers_offered")
def test_another_package_adds_a_feature_map_by_its_entry_point():
    assert "rbf" in FEATURE_MAPS and "powers" not in sys.modules, "looked for only when needed"
    X, _ = table()
    y = X[:, 0] ** 2 - X[:, 1]
    assert CodedRidge(features="powers", regularisation=1e-9).fit(X, y).score(X, y) > 0.999
    made = codedfl_lab.make_problem(rings.RINGS.load(None, None, False), n_devices=4, features="powers")
    assert made.feature_map == sys.modules["powers"].Powers(2, 2, 1.0)
    assert parse_study(TRAINED.format(5), "s").feature_count == 6


@pytest.mark.usefixtures("powers_offered")
def test_a_training_calls_it_by_its_name(tmp_path: Path):
    lines = ["a,b,y", *(f"{i % 7},{i % 5},{(i % 7) ** 2}" for i in range(60))]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n")
    command = ["lab", "train", str(tmp_path / "mine.csv"), "--label", "y", "--features", "powers", "--devices", "4"]
    said = CliRunner(env={"COLUMNS": "100"}).invoke(app, [*command, "--out", str(tmp_path)], catch_exceptions=False)
    assert "5 features: powers, lambda" in said.stdout


@pytest.mark.usefixtures("powers_offered")
def test_a_saved_one_is_made_again():
    saved = {"kind": "powers", "input_dim": 2, "degree": 3, "bound": 1.0}
    made = feature_map_from_dict(saved)
    assert made.n_features == 7 and made.to_dict() == saved
    with pytest.raises(InvalidInput, match=exactly("saved powers must be complete, got KeyError('degree')")):
        feature_map_from_dict({key: value for key, value in saved.items() if key != "degree"})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("nowhere:Powers", "ModuleNotFoundError: No module named 'nowhere'"),
        ("json:dumps", "InvalidInput: its module must make 'powers' known, got <function dumps"),
    ],
)
def test_a_broken_one_says_why_when_its_name_is_asked_for(monkeypatch: pytest.MonkeyPatch, value: str, why: str):
    offered(monkeypatch, value)
    assert "rbf" in list(FEATURE_MAPS) and "powers" not in list(FEATURE_MAPS)
    told = re.escape(f"the feature map powers ({value}) could not be loaded: {why}")
    with pytest.raises(InvalidInput, match=f"^s: {told}"):
        parse_study(TRAINED.format(3), "s")
    with pytest.raises(InvalidInput, match=f"^{told}"):
        codedfl_lab.make_problem(rings.RINGS.load(None, None, False), n_devices=4, features="powers")


def test_a_field_that_is_no_plain_number_is_refused():
    odd = dataclasses.make_dataclass("Odd", [("more", list)], bases=(PlainMap,), frozen=True)
    with pytest.raises(InvalidInput, match=r"^a field of a PlainMap must be int, float, bool or str, got more: "):
        odd._plain_fields()


# -- a solver's own parameters, and a scheme's


@pytest.mark.usefixtures("heavy_ball_known")
def test_parameters_stand_behind_a_name():
    assert solver_kind("heavy-ball:memory=0.5").make is heavy_ball.made
    made = codedfl.make_solver("heavy-ball:memory=0.5", regularisation=1e-4)
    assert (made.memory, made.step) == (0.5, 1.0)
    assert "heavy ball, memory = 0.5" in solver_kind("heavy-ball:memory=0.5").words
    for wrong, message in (
        ("heavy-ball:mass=1", "parameter of heavy-ball must be one of step, memory, got 'mass'"),
        ("heavy-ball:memory=x", "memory of heavy-ball must be a number, got 'x'"),
        ("cg:memory=1", "parameter of cg must be one of none, got 'memory'"),
    ):
        with pytest.raises(InvalidInput, match=f"^{message}$"):
            solver_kind(wrong)


@pytest.mark.usefixtures("pairs_known")
def test_a_scheme_takes_its_parameters_from_its_name():
    assert make_scheme("pairs:groups=3", 6) == Pairs(2, 3)
    assert make_scheme("role-keys:colluders=2,narrow=true", 10) == RoleKeys(2, narrow=True)
    with pytest.raises(InvalidInput, match=r"^narrow must be of type bool, got 'yes'$"):
        make_scheme("role-keys:narrow=yes", 10)


# -- a package with all of them


def installed(folder: Path) -> dict[str, str]:
    """An environment in which the page's package is installed: its modules and its entry points, without pip."""
    page = (HERE.parents[1] / "docs" / "extend.md").read_text(encoding="utf-8")
    project = tomllib.loads(re.search(r'```toml title="pyproject.toml"\n(.*?)```', page, re.DOTALL)[1])["project"]
    about = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups: list[str] = []
    for group, names in project["entry-points"].items():
        groups += [f"[{group}]", *(f"{name} = {value}" for name, value in names.items())]
    (about / "entry_points.txt").write_text("\n".join(groups) + "\n")
    for file in FILES:
        (folder / file.name).write_text(file.read_text(encoding="utf-8"))
    root = HERE.parents[1]
    paths = os.pathsep.join(map(str, (folder, root / "src", root / "lab" / "src")))
    return {**os.environ, "PYTHONPATH": paths, "COLUMNS": "100"}


def test_the_commands_of_the_page_run_where_its_package_is_installed(tmp_path: Path):
    environment = installed(tmp_path)
    page = (HERE.parents[1] / "docs" / "extend.md").read_text(encoding="utf-8")
    lines = re.search(r'```sh title="installs a package"\npip install .\n(.*?)```', page, re.DOTALL)[1].splitlines()
    assert len(lines) == 4
    said = ""
    for line in lines:
        program = [sys.executable, "-m", "codedfl", *line.split()[1:]]
        done = subprocess.run(program, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        said += done.stdout
    said += (tmp_path / "comparison" / "results.json").read_text(encoding="utf-8")
    for wanted in ("pairs, α = 2, 5 groups", "heavy-ball:memory=0.9", "rings: 1600 rows", "5 features"):
        assert wanted in said


# -- the files that the page shows


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_files_are_short_and_shown_in_the_docs(file: Path):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 50
    assert text in (HERE.parents[1] / "docs" / "extend.md").read_text(encoding="utf-8")


def test_what_is_copied_from_the_page_passes_mypy(tmp_path: Path):
    """Every block of Python in a folder of its own, under --strict, as somebody has it who begins with these files."""
    page = (HERE.parents[1] / "docs" / "extend.md").read_text(encoding="utf-8")
    found = re.findall(r'```python(?: title="(.+?)")?\n(.*?)```', page, re.DOTALL)
    assert {title for title, _ in found} == {"", *(file.name for file in FILES)}
    for number, (title, text) in enumerate(found):
        (tmp_path / (title or f"block_{number}.py")).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *os.listdir(tmp_path)]
    root = HERE.parents[1]
    paths = os.pathsep.join(map(str, (root / "src", root / "lab" / "src")))
    ours = {**os.environ, "MYPYPATH": paths}
    done = subprocess.run(command, cwd=tmp_path, env=ours, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
