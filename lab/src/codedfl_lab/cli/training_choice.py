"""What ``codedfl lab train`` is asked to do: scheme, alpha, groups, solver and epochs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import click
import typer

from codedfl.cli.options import refuse_unread
from codedfl.cli.settings import in_settings
from codedfl.errors import InvalidInput
from codedfl.privacy.budget import DELTA, Budget
from codedfl.registry import named, with_parameters
from codedfl.solve.descent import STEPS
from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.registry import CLOSED_FORM, DEFAULT_SOLVER, SolverKind, make_solver, solver_kind
from codedfl.solve.solver import Solver
from codedfl_lab.cli.asked_scheme import asked_scheme
from codedfl_lab.schemes.descriptor import CodedScheme
from codedfl_lab.schemes.registry import coded_type
from codedfl_lab.schemes.role_keys import RoleKeyed, RoleKeys, RoleSums

in_training = partial(typer.Option, rich_help_panel="Training")


@dataclass(frozen=True)
class TrainingOptions:
    """How to train and how far."""

    scheme_name: Annotated[
        str | None,
        in_training(
            "--scheme",
            help="role-keys: colluders learn nothing; role-sums: the same in closed form; coded-padded: the paper's; "
            "coded-keys, one-shot: its keys instead of its data. role-sums and one-shot show the server the whole "
            "summed X'X.",
            show_default=f"{RoleKeys.name}; {RoleSums.name} with --epsilon",
        ),
    ] = None
    colluders: Annotated[
        int | None,
        in_training(
            min=0,
            metavar="Z",
            help="With role-keys: how many devices may collude with the server and learn the sum only.",
            show_default="1; 0 below four devices",
        ),
    ] = None
    blocks: Annotated[
        int | None,
        in_settings(min=1, metavar="K", help="With role-keys: holders keep a K-th of the rows each.", show_default="1"),
    ] = None
    reserve: Annotated[
        int | None,
        in_settings(min=0, metavar="N", help="With blocks: holders per role that keep all rows.", show_default="0"),
    ] = None
    narrow: Annotated[
        bool,
        in_settings(help="With role-keys: 32 bits per number, enough for a target with random features."),
    ] = False
    alpha: Annotated[
        int | None,
        in_training(
            help="In the coded schemes: devices that can answer for each other; an epoch ends with the first "
            "D - alpha + 1 answers. "
            "1 is uncoded, D is replication.",
            show_default="D - 2, at least 1",
        ),
    ] = None
    groups: Annotated[
        int | None,
        in_settings(min=1, help="Groups with a code each; alpha then counts within a group.", show_default="1"),
    ] = None
    solver_name: Annotated[
        str | None,
        in_training(
            "--solver",
            metavar="NAME",
            help="What the server does with exact gradients: block-krylov, cg (conjugate gradient), nesterov "
            "(Nesterov's method), gd (gradient descent, the paper's), or one that another package adds.",
            show_default=DEFAULT_SOLVER,
        ),
    ] = None
    step: Annotated[
        str | None,
        in_settings(
            click_type=click.Choice(list(STEPS)),
            help="Step of gd: 12, which fits the paper's figures, or 6, which its text states; nesterov takes half.",
            show_default="derived from the largest eigenvalue of X'X, in five epochs",
        ),
    ] = None
    epochs: Annotated[
        int | None,
        in_training(
            help="The largest number of epochs; block-krylov and cg end by themselves when they have converged.",
            show_default="50 for block-krylov and cg, 500 for the descents",
        ),
    ] = None
    target: Annotated[
        float | None,
        in_training("--reach", help="Stop when the test score (accuracy, or R^2) reaches it, such as 0.95."),
    ] = None
    spare: Annotated[
        int,
        in_settings(
            min=0,
            metavar="K",
            help="Answers to wait for beyond D - alpha + 1: one detects a wrong answer, 2t find t devices that lie.",
        ),
    ] = 0
    precision: Annotated[
        int | None,
        in_settings(
            metavar="BITS",
            help="Fraction bits of X'X e to ask for; more than two primes give take a third (9 bytes per number).",
            show_default="what two primes give",
        ),
    ] = None

    epsilon: Annotated[
        float | None,
        in_training(
            metavar="E",
            help="Hide single rows by noise: how much the run may tell about a row (differential privacy).",
            show_default="no noise",
        ),
    ] = None
    delta: Annotated[
        float | None,
        in_settings(
            metavar="D", help="With --epsilon: the probability with which that may fail.", show_default=f"{DELTA:g}"
        ),
    ] = None
    honest: Annotated[
        int | None,
        in_settings(
            metavar="N",
            help="With --epsilon: how many devices are assumed to add their noise; the others may leave theirs out.",
        ),
    ] = None
    clip_norm: Annotated[
        float | None,
        in_settings(
            metavar="C",
            help="With --epsilon: rows of features are shortened to this length.",
            show_default="sqrt(d/2) times the largest feature, 1 for random features",
        ),
    ] = None

    @property
    def scheme_type(self) -> type[CodedScheme]:
        """With noise the closed form, which can take it out of the spectrum: what it shows the server is hidden too."""
        return coded_type(named(self._scheme_text)[0])

    @property
    def _scheme_text(self) -> str:
        """A name, and parameters behind it."""
        return self.scheme_name or (RoleKeys if self.epsilon is None else RoleSums).name

    @property
    def solver(self) -> SolverKind:
        return solver_kind(CLOSED_FORM if self.scheme_type.reveals_gram else self.solver_name or DEFAULT_SOLVER)

    @property
    def budget(self) -> Budget | None:
        return Budget.asked(self.epsilon, self.delta, self.honest, self.clip_norm)

    def __post_init__(self) -> None:
        if self.scheme_type.reveals_gram:
            refuse_unread("--solver", self.solver_name, f"--scheme {self.scheme_type.name}, which needs none")
        if not self.solver.takes_step:
            refuse_unread("step", self.step, f"solver {self.solver.name}, which needs none")
        if self.target is not None and not self.target <= 1:
            raise InvalidInput(f"--reach must be at most 1, the best score there is, got {self.target}")

    @property
    def n_epochs(self) -> int:
        """--epochs, or enough for most."""
        return self.solver.default_epochs if self.epochs is None else self.epochs

    @property
    def step_name(self) -> str | None:
        """None for solvers that need none."""
        return self.step or "derived" if self.solver.takes_step else None

    def scheme_for(self, n_devices: int) -> CodedScheme:
        """The scheme, checked for ``n_devices``; what no option says is as the scheme has it."""
        usual = with_parameters(self.scheme_type.default_for(n_devices), named(self._scheme_text)[1])
        found = asked_scheme(usual, n_devices, self.colluders, self.alpha, self.groups)
        assert isinstance(found, CodedScheme)
        scheme = self._dealt(found).with_spare(self.spare)
        scheme.check(n_devices)
        return scheme

    def _dealt(self, scheme: CodedScheme) -> CodedScheme:
        """With blocks everybody holds keys: a dozen devices per role would be too few."""
        if isinstance(scheme, RoleKeyed):
            holders, blocks = (0 if self.blocks else scheme.holders), self.blocks or 1
            return replace(scheme, holders=holders, blocks=blocks, reserve=self.reserve or 0, narrow=self.narrow)
        asked = {"blocks": self.blocks, "reserve": self.reserve, "narrow": self.narrow or None}
        for option, value in asked.items():
            refuse_unread(option, value, f"scheme {scheme.name}, which has no roles")
        return scheme

    def make_solver(self, scheme: CodedScheme, regularisation: float, noise: NoiseLevel | None = None) -> Solver:
        return make_solver(
            self.solver.name,
            epochs=self.n_epochs,
            regularisation=regularisation,
            step=self.step,
            gram=scheme.reveals_gram,
            noise=noise,
        )
