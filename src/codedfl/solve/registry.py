"""Solvers by name: what everybody has to know of each, said once, and the one way to make them.

Another package adds a solver by ``register_solver``, or by an entry point of the group ``codedfl.solvers`` that names a
``SolverKind``. Entry points are looked for when a name is asked for that is not known yet, or all names are.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from codedfl.additions import SOLVERS, additions, load_addition
from codedfl.errors import InvalidInput
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

_log = logging.getLogger(__name__)


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
    if kind.name in _kinds:
        raise InvalidInput(f"a solver's name must be new, got {kind.name!r}, which is registered")
    _kinds[kind.name] = kind


def solver_kinds() -> dict[str, SolverKind]:
    """All solvers by name, those of other packages included; one that cannot be loaded is logged and left out."""
    _load_entry_points()
    return dict(_kinds)


def solver_kind(solver: str | Solver) -> SolverKind:
    """What is known of a solver by its name; for an object, what can be seen of it."""
    if not isinstance(solver, str):
        name = type(solver).__name__
        epochs = getattr(solver, "epochs", 1)
        return SolverKind(name, name, lambda _: _fresh(solver), epochs, needs_gram=isinstance(solver, GramSolver))
    if solver not in _kinds:
        _load_entry_points()
    if solver in _broken:
        raise InvalidInput(_broken[solver])
    if solver not in _kinds:
        raise InvalidInput(f"solver must be one of {', '.join(_kinds)}, got {solver!r}")
    return _kinds[solver]


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
    return kind.make(SolverSettings(epochs, regularisation, _schedule(step, kind.step_share), tolerance))


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


def _load_entry_points() -> None:
    """Register what other packages offer, once per process. A broken one must not keep the others from working."""
    global _loaded
    if _loaded:
        return
    _loaded = True
    for name, entry in additions(SOLVERS).items():
        try:
            load_addition(entry, "solver", partial(_add, name))
        except InvalidInput as error:
            _broken[name] = str(error)
            _log.warning("%s", error)


def _add(name: str, kind: object) -> None:
    if not isinstance(kind, SolverKind) or kind.name != name:
        raise InvalidInput(f"it must be a SolverKind of that name, got {kind!r:.80}")
    register_solver(kind)


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
_kinds: dict[str, SolverKind] = {kind.name: kind for kind in _OURS}
_broken: dict[str, str] = {}  # by name, what to say of entry points that could not be loaded
_loaded = False
