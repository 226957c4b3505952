"""What ``codedfl train`` is asked to do: scheme, alpha, groups, solver and epochs, by options or by a plan file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codedfl.errors import InvalidInput
from codedfl.schemes import CodedKeys, CodedScheme, OneShot, coded_scheme
from codedfl.solve.registry import CLOSED_FORM, DEFAULT_SOLVER, SolverKind, solver_kind
from codedfl.study.plan_file import load_plan


def refuse_unread(
    features: str,
    n_features: int | None,
    gamma: float | None,
    partition: str | None,
    concentration: float | None,
    solver: SolverKind,
    step: str | None,
) -> None:
    """An option that would change nothing is a misunderstanding."""
    unread = [
        ("--n-features", n_features, features == "linear", "--features linear, which takes the columns"),
        ("--gamma", gamma, features == "linear", "--features linear, which has no kernel"),
        ("--concentration", concentration, partition != "dirichlet", "any partition but dirichlet"),
        ("--step", step, not solver.takes_step, f"solver {solver.name}, which needs none"),
    ]
    for option, value, is_unread, where in unread:
        if value is not None and is_unread:
            raise InvalidInput(f"{option} must be left out with {where}, got {value}")


@dataclass(frozen=True)
class Choice:
    """What the user asked for, by options or by a plan file; alpha None takes D - 2."""

    scheme: str
    alpha: int | None
    groups: int
    solver: SolverKind
    epochs: int | None
    spare: int

    def scheme_for(self, n_devices: int) -> CodedScheme:
        alpha = max(1, n_devices // self.groups - 2) if self.alpha is None else self.alpha
        return coded_scheme(self.scheme, alpha, self.groups, self.spare)


def choose(
    plan_file: Path | None,
    scheme: str | None,
    alpha: int | None,
    groups: int | None,
    solver: str | None,
    epochs: int | None,
    spare: int,
) -> Choice:
    if plan_file is not None:
        given = {"--scheme": scheme, "--alpha": alpha, "--groups": groups, "--solver": solver}
        for option, value in given.items():
            if value is not None:
                raise InvalidInput(f"{option} must be left out with --plan, which decides it, got {value}")
        planned, planned_solver, planned_epochs = load_plan(plan_file)
        return Choice(
            planned.name,
            int(planned.parameters.get("alpha", 1)),
            int(planned.parameters.get("groups", 1)),
            solver_kind(planned_solver),
            epochs or planned_epochs,
            spare,
        )
    if scheme == OneShot.name:
        if solver is not None:
            raise InvalidInput(
                f"--solver must be left out with --scheme {OneShot.name}, which needs none, got {solver}"
            )
        solver = CLOSED_FORM
    return Choice(scheme or CodedKeys.name, alpha, groups or 1, solver_kind(solver or DEFAULT_SOLVER), epochs, spare)
