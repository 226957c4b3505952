"""Solvers by name: what everybody has to know of each, said once, and the one way to make them.

Another package adds a solver by ``register_solver``, or by an entry point of the group ``codedfl.solvers`` that names a
``SolverKind``. Entry points are looked for when a name is asked for that is not known yet, or all names are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from codedfl.additions import SOLVERS
from codedfl.errors import InvalidInput
from codedfl.registry import Parameters, Registry, named
from codedfl.solve import krylov
from codedfl.solve.closed_form import ClosedForm
from codedfl.solve.descent import STEPS, GradientDescent, Nesterov, StepSchedule
from codedfl.solve.krylov import BlockKrylov, ConjugateGradient
from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.shrunken import Shrunken
from codedfl.solve.solver import GramSolver, Solver

BLOCK_KRYLOV = "block-krylov"
CLOSED_FORM = "closed-form"
DEFAULT_SOLVER = BLOCK_KRYLOV  # for every scheme that gives exact products


@dataclass(frozen=True)
class SolverSettings:
    """What a solver is made of.

    Attributes
    ----------
    epochs : int
        The largest number of epochs.
    regularisation : float
        lambda; 0 is least squares.
    step : StepSchedule or None
        None lets the solver find its own; always None for a kind that takes none.
    tolerance : float or None
        When to stop, by the solver's own measure; None is its default.
    parameters : mapping
        The numbers of its kind's own, by name.

    Examples
    --------
    >>> from codedfl import SolverSettings
    >>> SolverSettings(epochs=50, regularisation=1e-4).tolerance_or(1e-6)  # none was asked for
    1e-06
    """

    epochs: int
    regularisation: float
    step: StepSchedule | None = None
    tolerance: float | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)

    def tolerance_or(self, default: float) -> float:
        return default if self.tolerance is None else self.tolerance


@dataclass(frozen=True)
class SolverKind:
    """What everybody has to know of a solver.

    Attributes
    ----------
    name : str
        Its name in options, plans and results.
    words : str
        Its name for people.
    make : callable
        Takes ``SolverSettings`` and returns a fresh solver.
    default_epochs : int
        The number of epochs where none is given; it should be enough for most problems.
    step_share : float or None
        The part it takes of a step named for gradient descent; None for a solver that takes no step.
    needs_gram : bool
        Whether it needs X'X itself, so that only a scheme that reveals it can serve it.
    parameters : mapping
        Numbers of its own and what they are by default; ``name:parameter=value`` names the solver with another value.

    Examples
    --------
    >>> from codedfl import BlockKrylov, SolverKind, SolverSettings
    >>> kind = SolverKind("short", "a few blocks", lambda at: BlockKrylov(min(at.epochs, 3)), default_epochs=3)
    >>> kind.make(SolverSettings(epochs=50, regularisation=0.0)).epochs
    3
    """

    name: str
    words: str
    make: Callable[[SolverSettings], Solver]
    default_epochs: int
    step_share: float | None = None
    needs_gram: bool = False
    parameters: Mapping[str, float] = field(default_factory=dict)

    def made(self, settings: SolverSettings) -> Solver:
        """A fresh solver."""
        return self.make(replace(settings, parameters=self.parameters))

    def with_parameters(self, text: str, given: Parameters) -> SolverKind:
        """The kind that ``text`` names, with these of its numbers in place of its own."""
        changed = dict(self.parameters)
        for key, value in given.items():
            if key not in self.parameters:
                takes = ", ".join(self.parameters) or "none"
                raise InvalidInput(f"parameter of {self.name} must be one of {takes}, got {key!r}")
            try:
                changed[key] = float(value)
            except ValueError:
                raise InvalidInput(f"{key} of {self.name} must be a number, got {value!r}") from None
        said = ", ".join(f"{key} = {value:g}" for key, value in changed.items() if key in given)
        return replace(self, name=text, words=f"{self.words}, {said}", parameters=changed)

    @property
    def takes_step(self) -> bool:
        return self.step_share is not None


def register_solver(kind: SolverKind) -> None:
    """Make a solver known by its name, for this process. A name is given once.

    Examples
    --------
    >>> from codedfl import BlockKrylov, SolverKind, register_solver
    >>> register_solver(SolverKind("cg", "another", lambda at: BlockKrylov(at.epochs), default_epochs=3))
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: a solver's name must be new, got 'cg', which is registered
    """
    SOLVER_KINDS.add(kind)


def solver_kinds() -> dict[str, SolverKind]:
    """All solvers by name, those of other packages included; one that cannot be loaded is left out."""
    return dict(SOLVER_KINDS)


def solver_kind(solver: str | Solver) -> SolverKind:
    """What is known of a solver by its name; for an object, what can be seen of it."""
    if not isinstance(solver, str):
        name = type(solver).__name__
        epochs = getattr(solver, "epochs", 1)
        return SolverKind(name, name, lambda _: _fresh(solver), epochs, needs_gram=isinstance(solver, GramSolver))
    name, parameters = named(solver)
    kind = SOLVER_KINDS.take(name)
    return kind.with_parameters(solver, parameters) if parameters else kind


def make_solver(
    solver: str | Solver,
    *,
    regularisation: float,
    epochs: int | None = None,
    step: str | StepSchedule | None = None,
    tolerance: float | None = None,
    gram: bool = False,
    noise: NoiseLevel | None = None,
) -> Solver:
    """A fresh solver.

    Parameters
    ----------
    solver : str or Solver
        A name; or an object that was never started, of which a copy is made: it has its own epochs, lambda and step.
    regularisation : float
        lambda; 0 is least squares.
    epochs : int or None
        The largest number of epochs; None takes the solver's default.
    step : str, StepSchedule or None
        The name of a step of gradient descent (``STEPS``), of which other solvers take their share; a schedule, which
        is taken as it is; None derives one from the largest eigenvalue, at the price of a few epochs.
    tolerance : float or None
        See ``SolverSettings``.
    gram : bool
        Whether the scheme shows the server X'X itself. The closed form then stands in for a solver that has no use for
        it; otherwise a solver that needs it is refused.
    noise : NoiseLevel or None
        What the devices add to X'X. The closed form then takes it out of the spectrum (``Shrunken``); a solver of
        products gets AdaSSP's ridge besides lambda. An object is taken as it is.

    Examples
    --------
    >>> from codedfl import make_solver
    >>> solver = make_solver("cg", regularisation=1e-4, epochs=20)
    >>> type(solver).__name__, solver.epochs
    ('ConjugateGradient', 20)
    >>> make_solver("closed-form", regularisation=1e-4)
    Traceback (most recent call last):
    ...
    codedfl.errors.InvalidInput: solver must do without X'X itself, which this scheme does not reveal, got closed-form
    """
    kind = solver_kind(solver)
    if noise is not None and gram and (isinstance(solver, str) or not kind.needs_gram):
        return Shrunken(noise, regularisation)
    if noise is not None:
        regularisation += noise.ridge
    if gram and not kind.needs_gram:
        return ClosedForm(regularisation)
    if kind.needs_gram and not gram:
        raise InvalidInput(f"solver must do without X'X itself, which this scheme does not reveal, got {kind.name}")
    if not isinstance(solver, str):
        return _fresh(solver)
    if step is not None and not kind.takes_step:
        raise InvalidInput(f"step must be left out with solver {kind.name}, which needs none, got {step}")
    epochs = kind.default_epochs if epochs is None else epochs
    return kind.made(SolverSettings(epochs, regularisation, _schedule(step, kind.step_share), tolerance))


def _schedule(step: str | StepSchedule | None, share: float | None) -> StepSchedule | None:
    if not isinstance(step, str):
        return step
    if step not in STEPS:
        raise InvalidInput(f"step must be one of {', '.join(STEPS)}, got {step!r}")
    return STEPS[step].times(share or 1.0)


def _fresh(solver: Solver) -> Solver:
    if solver.model is not None:
        raise InvalidInput(f"a solver must be given before it is started, got one that has a model: {solver!r}")
    return copy.deepcopy(solver)


_OURS = (
    SolverKind(
        "gd",
        "gradient descent",
        lambda at: GradientDescent(at.epochs, at.regularisation, at.step, at.tolerance_or(0.0)),
        default_epochs=500,
        step_share=1.0,
    ),
    SolverKind(
        "nesterov",
        "Nesterov's method",
        lambda at: Nesterov(at.epochs, at.regularisation, at.step, at.tolerance_or(0.0)),
        default_epochs=500,
        step_share=0.5,  # momentum halves the largest stable step
    ),
    SolverKind(
        "cg",
        "conjugate gradient",
        lambda at: ConjugateGradient(at.epochs, at.regularisation, at.tolerance_or(krylov.TOLERANCE)),
        default_epochs=50,
    ),
    SolverKind(
        BLOCK_KRYLOV,
        "block Krylov",
        lambda at: BlockKrylov(at.epochs, at.regularisation, at.tolerance_or(krylov.TOLERANCE)),
        default_epochs=50,
    ),
    SolverKind(CLOSED_FORM, "closed form", lambda at: ClosedForm(at.regularisation), default_epochs=1, needs_gram=True),
)


def check_kind(kind: Any) -> None:
    """Refuse what is no kind of solver."""
    if not isinstance(kind, SolverKind):
        raise InvalidInput(f"a solver must be a codedfl.SolverKind, got {kind!r:.80}")


SOLVER_KINDS: Registry[SolverKind] = Registry(SOLVERS, "solver", check_kind, *_OURS)
