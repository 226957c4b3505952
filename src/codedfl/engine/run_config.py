"""The configuration of a run on Flower: flat, kebab-case, the same for the server app and for the nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from codedfl.data.problem import PAPER_REGULARISATION
from codedfl.engine.conductor import Patience
from codedfl.engine.learning import Config, Learning, setting
from codedfl.engine.private_files import default_state_dir
from codedfl.errors import InvalidInput
from codedfl.exact.row_noise import RowNoise
from codedfl.privacy.budget import Budget
from codedfl.schemes import CodedScheme, RoleKeys, coded_scheme, coded_type
from codedfl.schemes.coded import usual_alpha
from codedfl.schemes.noise import noise_of_run
from codedfl.solve.descent import STEPS
from codedfl.solve.noise_level import NoiseLevel
from codedfl.solve.registry import DEFAULT_SOLVER, make_solver, solver_kind
from codedfl.solve.solver import Solver
from codedfl.study.plan_file import load_plan


@dataclass(frozen=True)
class RunConfig:
    """What the server app reads; the public part that devices share with it is ``learning``.

    Keys and defaults, besides those of ``Learning.from_config``: devices; min-devices (0: all of them); scheme
    ("role-keys"); colluders (-1: 1, or 0 below four devices), of role schemes only; alpha (0: devices a group less 2)
    and groups (1), of the coded schemes only; spare (0); solver ("block-krylov"); epochs; step ("": derived; of gd and
    nesterov only); regularisation (9e-6); plan ("": a plan file, which then decides scheme, its parameters, solver and
    epochs, and spare if it has any); precision (0: what two primes give); join-seconds (300), upload-seconds (3600),
    gone-seconds (300), farewell-seconds (60), call-seconds (600), message-seconds (3600); roster (""); target (0: train
    to the last epoch); epsilon (0: no noise), delta (0: 1e-5), honest (0) and clip-norm (0: by the features) as in
    ``Budget``; output-dir ("codedfl-run"), where checkpoint and model go; server-key-file ("": server.key in
    ``default_state_dir``), the same for all runs, so that nodes can pin it.
    """

    learning: Learning
    scheme: CodedScheme
    solver: str
    epochs: int
    step: str
    regularisation: float
    precision: int | None
    patience: Patience
    message_seconds: float
    roster: Path | None
    target: float
    output: Path
    server_key: Path
    budget: Budget | None = None

    @classmethod
    def from_config(cls, config: Config) -> RunConfig:
        learning, devices = Learning.from_config(config), setting(config, "devices", int)
        plan = setting(config, "plan", str, "")
        if plan:
            planned = load_plan(Path(plan))
            planned.check_fits_federation(
                devices, learning.recipe.feature_map.n_features, learning.recipe.labels.n_outputs
            )
            scheme = planned.coded_scheme(setting(config, "spare", int, 0))
            solver, epochs = planned.solver, planned.epochs
        else:
            scheme = _chosen_scheme(config, devices)
            solver, epochs = setting(config, "solver", str, DEFAULT_SOLVER), setting(config, "epochs", int)
        kind, step = solver_kind(solver), setting(config, "step", str, "")
        if step and step not in STEPS:
            raise InvalidInput(f"step must be empty (derived) or one of {', '.join(STEPS)}, got {step!r}")
        if step and not kind.takes_step:
            raise InvalidInput(f"step must be empty with solver {kind.name}, which needs none, got {step!r}")
        scheme.check(devices)
        return cls(
            learning=learning,
            scheme=scheme,
            solver=solver,
            epochs=epochs,
            step=step,
            regularisation=setting(config, "regularisation", float, PAPER_REGULARISATION),
            precision=setting(config, "precision", int, 0) or None,
            patience=patience_of(config),
            message_seconds=message_seconds_of(config),
            target=setting(config, "target", float, 0.0),
            **paths_of(config),
            budget=Budget.asked(
                setting(config, "epsilon", float, 0.0) or None,
                setting(config, "delta", float, 0.0) or None,
                setting(config, "honest", int, 0) or None,
                setting(config, "clip-norm", float, 0.0) or None,
            ),
        )

    @property
    def protection(self) -> str:
        """What is claimed about colluders; nothing where the server could have invented them."""
        if self.roster is None:
            return (
                "nothing is claimed about colluders, no roster is pinned: devices without one refuse to withstand any"
                " unless their operator sets allow-unpinned"
            )
        return self.scheme.exposure(self.patience.min_devices).words

    @cached_property
    def noise(self) -> tuple[RowNoise | None, NoiseLevel | None]:
        """What every device adds, and what the solver knows of it."""
        learning, devices = self.learning, self.patience.devices
        return noise_of_run(self.scheme, learning.recipe, learning.bounds, devices, self.budget, self.precision)

    def make_solver(self) -> Solver:
        return make_solver(
            self.solver,
            epochs=self.epochs,
            regularisation=self.regularisation,
            step=self.step or None,
            gram=self.scheme.reveals_gram,
            noise=self.noise[1],
        )


def patience_of(config: Config) -> Patience:
    """How many devices, and how long to wait for them."""
    devices = setting(config, "devices", int)
    return Patience(
        devices,
        setting(config, "min-devices", int, 0) or devices,
        setting(config, "join-seconds", float, 300.0),
        setting(config, "gone-seconds", float, 300.0),
        setting(config, "farewell-seconds", float, 60.0),
        setting(config, "call-seconds", float, 600.0),
        setting(config, "upload-seconds", float, 3600.0),
    )


def message_seconds_of(config: Config) -> float:
    """When Flower itself gives a call up."""
    return float(setting(config, "message-seconds", float, 3600.0))


class ServerPaths(TypedDict):
    """Where on the server's machine its things are."""

    roster: Path | None
    output: Path
    server_key: Path


def paths_of(config: Config) -> ServerPaths:
    """The roster if there is one, the output folder and the server's key file."""
    roster, key_file = setting(config, "roster", str, ""), setting(config, "server-key-file", str, "")
    return ServerPaths(
        roster=Path(roster) if roster else None,
        output=Path(setting(config, "output-dir", str, "codedfl-run")).absolute(),
        server_key=Path(key_file) if key_file else default_state_dir() / "server.key",
    )


def _chosen_scheme(config: Config, devices: int) -> CodedScheme:
    """By its name and what the configuration says of it; a key that the scheme does not read is refused."""
    kind, spare = coded_type(setting(config, "scheme", str, RoleKeys.name)), setting(config, "spare", int, 0)
    alpha, groups = setting(config, "alpha", int, 0), setting(config, "groups", int, 1)
    colluders = setting(config, "colluders", int, -1)
    if issubclass(kind, RoleKeys):
        for key, value, left_out in (("alpha", alpha, 0), ("groups", groups, 1)):
            if value != left_out:
                raise InvalidInput(
                    f"{key} must be {left_out} with scheme {kind.name}, which has roles instead of a code, got {value}"
                )
        usual = kind.default_for(devices)
        return replace(usual, colluders=usual.colluders if colluders < 0 else colluders, spare=spare)
    if colluders >= 0:
        raise InvalidInput(f"colluders must be -1 with scheme {kind.name}, which one colluder breaks, got {colluders}")
    return coded_scheme(kind.name, alpha or usual_alpha(devices, groups), groups, spare)
