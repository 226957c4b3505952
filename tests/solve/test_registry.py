"""One factory: names, objects, steps, and what other packages add."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from small_ridge import LAMBDA, Ridge, run

from codedfl.additions import SOLVERS
from codedfl.errors import InvalidInput
from codedfl.registry import Registry
from codedfl.solve import registry
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import GradientDescent, Nesterov, StepSchedule
from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
from codedfl.solve.registry import SolverKind, SolverSettings, make_solver, register_solver, solver_kind, solver_kinds
from codedfl.solve.solver import GramSolver

NAMES = ["gd", "nesterov", "cg", "block-krylov", "closed-form"]


class HeavyBall(GradientDescent):
    """What another package might add: descent with a constant momentum."""

    def _move(self, model: np.ndarray) -> None:
        assert self.model is not None
        self._point = model + 0.5 * (model - self.model)
        self.model = model


def make_heavy_ball(at: SolverSettings) -> HeavyBall:
    return HeavyBall(at.epochs, at.regularisation, at.step)


HEAVY_BALL = SolverKind("heavy-ball", "heavy ball", make_heavy_ball, default_epochs=300, step_share=0.5)


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test adds is forgotten after it, and entry points are looked for again."""
    ours = registry.SOLVER_KINDS.known.values()
    monkeypatch.setattr(registry, "SOLVER_KINDS", Registry(SOLVERS, "solver", registry.check_kind, *ours))


def offer(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    found = [EntryPoint(name.replace("_", "-"), value, "codedfl.solvers") for name, value in entries.items()]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found if group == "codedfl.solvers" else [])


@pytest.mark.parametrize(
    ("name", "kind", "words", "epochs", "takes_step", "needs_gram"),
    [
        ("gd", GradientDescent, "gradient descent", 500, True, False),
        ("nesterov", Nesterov, "Nesterov's method", 500, True, False),
        ("cg", ConjugateGradient, "conjugate gradient", 50, False, False),
        ("block-krylov", BlockKrylov, "block Krylov", 50, False, False),
        ("closed-form", ClosedForm, "closed form", 1, False, True),
    ],
)
def test_what_is_known_of_each(name: str, kind: type, words: str, epochs: int, takes_step: bool, needs_gram: bool):
    known = solver_kind(name)
    assert (known.words, known.default_epochs, known.takes_step, known.needs_gram) == (
        words, epochs, takes_step, needs_gram,
    )  # fmt: skip
    solver: Any = make_solver(name, regularisation=0.25, gram=needs_gram)
    assert [type(solver)] == [kind]
    assert (solver.epochs, solver.regularisation) == (epochs, 0.25)
    assert isinstance(solver, GramSolver) == needs_gram


def test_the_names_in_order():
    assert list(solver_kinds()) == NAMES


def test_nesterov_takes_half_of_a_step_named_for_descent():
    for name, initial in (("paper", 12.0), ("literal", 6.0)):
        for solver, share in (("gd", 1.0), ("nesterov", 0.5)):
            made: Any = make_solver(solver, regularisation=0.0, step=name)
            assert made.step == StepSchedule(initial * share, 0.8, (200, 350))
    given = StepSchedule(0.3)
    given_one: Any = make_solver("nesterov", regularisation=0.0, step=given)
    derived: Any = make_solver("nesterov", regularisation=0.0)
    assert given_one.step == given and derived.step is None


@pytest.mark.parametrize("name", ["gd", "nesterov", "cg", "block-krylov"])
def test_epochs_and_tolerance_are_passed_on(name: str):
    made: Any = make_solver(name, regularisation=0.0, epochs=7, tolerance=0.125)
    assert (made.epochs, made.tolerance) == (7, 0.125)


def test_an_object_is_copied_so_that_it_serves_many_runs():
    mine = BlockKrylov(9, LAMBDA, memory=5)
    problem = Ridge()
    models = []
    for _ in range(2):
        made: Any = make_solver(mine, regularisation=123.0, epochs=1)
        assert (made.epochs, made.regularisation, made.memory) == (9, LAMBDA, 5)
        run(made, problem)
        models.append(made.model)
    assert np.array_equal(models[0], models[1])
    assert mine.model is None
    known = solver_kind(mine)
    assert (known.name, known.default_epochs, known.needs_gram) == ("BlockKrylov", 9, False)
    assert solver_kind(ClosedForm(1.0)).needs_gram


def test_where_the_gram_matrix_is_shown_the_closed_form_stands_in():
    for solver in ("gd", "block-krylov", BlockKrylov(9)):
        made = make_solver(solver, regularisation=0.25, gram=True)
        assert type(made) is ClosedForm and made.regularisation == 0.25
    mine: Any = make_solver(ClosedForm(0.5, [1.0]), regularisation=0.25, gram=True)
    assert mine.regularisations == (1.0,)


def test_a_started_object_is_refused():
    used = GradientDescent(3, LAMBDA)
    run(used, Ridge())
    with pytest.raises(InvalidInput, match=r"^a solver must be given before it is started, got one that has a model: "):
        make_solver(used, regularisation=0.0)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("magic", {}, "solver must be one of gd, nesterov, cg, block-krylov, closed-form, got 'magic'"),
        ("cg", {"step": "paper"}, "step must be left out with solver cg, which needs none, got paper"),
        ("gd", {"step": "huge"}, "step must be one of paper, literal, got 'huge'"),
        ("gd", {"epochs": 0}, "epochs must be at least 1, got 0"),
        (
            "closed-form",
            {},
            "solver must do without X'X itself, which this scheme does not reveal, got closed-form",
        ),
    ],
)
def test_what_is_refused(name: str, options: dict[str, Any], message: str):
    with pytest.raises(InvalidInput) as caught:
        make_solver(name, regularisation=0.0, **options)
    assert str(caught.value) == message


# -- solvers of other packages


@pytest.mark.usefixtures("fresh_registry")
def test_a_registered_solver_is_made_by_its_name():
    register_solver(HEAVY_BALL)
    assert list(solver_kinds()) == [*NAMES, "heavy-ball"]
    told: Any = make_solver("heavy-ball", regularisation=0.0, step="paper")
    assert told.step.initial == 6.0
    problem = Ridge()
    solver = make_solver("heavy-ball", regularisation=LAMBDA)
    assert len(run(solver, problem)) == 299
    assert problem.error(solver.model) < 1e-9
    with pytest.raises(InvalidInput, match=r"^a solver's name must be new, got 'heavy-ball', which is registered$"):
        register_solver(replace(HEAVY_BALL, words="another"))


@pytest.mark.usefixtures("fresh_registry")
def test_an_entry_point_is_loaded_when_its_name_is_asked_for(monkeypatch: pytest.MonkeyPatch):
    offer(monkeypatch, heavy_ball="test_registry:HEAVY_BALL")
    make_solver("cg", regularisation=0.0)
    assert not registry.SOLVER_KINDS._looked, "a name that is known needs no look at other packages"
    assert type(make_solver("heavy-ball", regularisation=0.0)).__name__ == "HeavyBall"


@pytest.mark.usefixtures("fresh_registry")
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_package:KIND", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("test_registry:NAMES", f"InvalidInput: a solver must be a codedfl.SolverKind, got {NAMES!r}"),
    ],
)
def test_a_broken_plug_in_is_one_line(monkeypatch: pytest.MonkeyPatch, value: str, why: str):
    offer(monkeypatch, broken=value)
    expected = f"the solver broken ({value}) could not be loaded: {why}"
    assert list(solver_kinds()) == NAMES
    assert dict(registry.SOLVER_KINDS.broken) == {"broken": expected}
    with pytest.raises(InvalidInput) as caught:
        solver_kind("broken")
    assert str(caught.value) == expected


def test_solvers_need_numpy_only():
    listed = "import sys, codedfl.solve.registry as _; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    clean = "import sys, types; package = types.ModuleType('codedfl'); package.__path__ = sys.argv[1:]; "
    clean += "sys.modules['codedfl'] = package; "
    folder = registry.__file__.removesuffix("/solve/registry.py")
    output = subprocess.run(
        [sys.executable, "-c", clean + listed, folder], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "numpy" in output.split()
    assert not {"scipy", "sklearn", "numba", "matplotlib", "cryptography"} & set(output.split())
