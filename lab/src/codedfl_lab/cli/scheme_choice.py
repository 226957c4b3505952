"""Who takes part in ``codedfl lab compare``: the paper's schemes to scale, or those that are asked for, and baselines.

Conventional FL runs every solver that a coded scheme runs, on its stored Gram matrix: what a code gains is the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import click
import typer

from codedfl.cli.options import refuse_unread
from codedfl.cli.settings import in_settings
from codedfl.errors import InvalidInput
from codedfl.solve.descent import DERIVED, STEPS
from codedfl.solve.registry import DEFAULT_SOLVER
from codedfl_lab.baselines.coded_fedl import CodedFedL
from codedfl_lab.baselines.conventional import Conventional, ConventionalFullBatch
from codedfl_lab.baselines.drop_slowest import DropSlowest
from codedfl_lab.comparing import paper
from codedfl_lab.comparing.comparison import Entry
from codedfl_lab.schemes.coded_keys import CodedKeys
from codedfl_lab.schemes.coded_padded import CodedPadded
from codedfl_lab.schemes.descriptor import Scheme
from codedfl_lab.schemes.registry import make_scheme
from codedfl_lab.schemes.role_keys import MANY_DEVICES, RoleKeys

in_race = partial(typer.Option, rich_help_panel="Who takes part")
ALPHA, COLLUDERS, DEVICES, FEATURES = "alpha", "z", "D", "d"
USUAL = (CodedPadded.name, CodedKeys.name, RoleKeys.name)


@dataclass(frozen=True)
class Sweep:
    """One parameter over a few values: ``alpha`` or ``z`` of the schemes, ``D`` devices, or ``d`` features."""

    name: str
    values: tuple[int, ...]

    @property
    def of_schemes(self) -> bool:
        """Whether one comparison holds all values; otherwise each has its own data."""
        return self.name in (ALPHA, COLLUDERS)

    @classmethod
    def parse(cls, text: str) -> Sweep:
        """Such as "alpha=2,5,10"."""
        name, _, listed = text.partition("=")
        if name not in (ALPHA, COLLUDERS, DEVICES, FEATURES):
            raise InvalidInput(f"--sweep must be alpha=, z=, D= or d= with values behind it, got {text!r}")
        try:
            values = tuple(int(part) for part in listed.split(","))
        except ValueError:
            raise InvalidInput(f"--sweep must have whole numbers with commas between, got {text!r}") from None
        if list(values) != sorted(set(values)) or values[0] < (name != COLLUDERS):
            raise InvalidInput(f"--sweep must have values that ascend from 1 (z: from 0), got {text!r}")
        return cls(name, values)


@dataclass(frozen=True)
class RaceOptions:
    """Who takes part, and what is varied."""

    schemes: Annotated[
        list[str] | None,
        in_race(
            "--scheme",
            metavar="NAME",
            help="A scheme to set beside conventional FL, ours or one that another package adds; may be repeated.",
            show_default="the paper's, coded-keys and role-keys",
        ),
    ] = None
    alpha: Annotated[
        int | None,
        in_race(
            min=1,
            metavar="A",
            help="Devices that can answer for each other, in schemes with a code.",
            show_default="each one's own",
        ),
    ] = None
    solvers: Annotated[
        list[str] | None,
        in_race(
            "--solver",
            metavar="NAME",
            help="For the schemes with exact gradients, conventional FL on full batches included; may be repeated.",
            show_default=f"{DEFAULT_SOLVER}; gd too if no scheme is named",
        ),
    ] = None
    step: Annotated[
        str | None,
        in_settings(
            click_type=click.Choice(list(STEPS)),
            help="Step of every descent: 12, which fits the paper's figures, or 6, which its text states.",
            show_default="what follows from the data; 12 for mnist and fashion-mnist as the paper has them",
        ),
    ] = None
    sweep: Annotated[
        str | None,
        in_race(
            metavar="P=V,W,...",
            help="Repeat it over values of alpha, z (colluders), D (devices) or d (features), such as alpha=2,5,10;"
            " draws time against them.",
        ),
    ] = None

    @property
    def swept(self) -> Sweep | None:
        return None if self.sweep is None else Sweep.parse(self.sweep)

    def __post_init__(self) -> None:
        if self.swept is not None and self.swept.name == ALPHA:
            refuse_unread("--alpha", self.alpha, "--sweep alpha")

    def entries(self, n_devices: int, step: str = DERIVED) -> list[Entry]:
        """The curves for ``n_devices``; parameters that do not fit are refused."""
        varied: dict[str, tuple[int, ...]] = {} if self.alpha is None else {ALPHA: (self.alpha,)}
        if self.swept is not None and self.swept.of_schemes:
            varied[self.swept.name] = self.swept.values
        if self.schemes is None and self.solvers is None and not varied:
            return paper_entries(n_devices, step)
        schemes = [make_scheme(name, n_devices) for name in self.schemes or USUAL]
        for parameter, values in varied.items():
            if not any(parameter in scheme.parameters for scheme in schemes):
                names = ", ".join(scheme.name for scheme in schemes)
                raise InvalidInput(f"{parameter} must be a parameter of one of the schemes, got {names}")
            schemes = [_with(scheme, parameter, value, n_devices) for scheme in schemes for value in values]
        solvers = self.solvers or [DEFAULT_SOLVER]
        chosen = [Entry(scheme, solver, step) for scheme in schemes for solver in scheme.solvers(solvers)]
        for entry in chosen:
            entry.scheme.check(n_devices)
        rivals = [Entry(ConventionalFullBatch(), solver, step) for solver in solvers]
        return list(dict.fromkeys([Entry(Conventional(), step=step), *rivals, *chosen]))


def scaled_said(entries: Sequence[Entry], n_devices: int) -> list[str]:
    """A line where the number of devices chose other parameters than those at the paper's size."""
    if n_devices == paper.DEVICES:
        return []
    said, schemes = [], [one.scheme for one in entries]
    alphas = sorted({int(one.parameters["alpha"]) for one in schemes if "alpha" in one.parameters})
    if alphas and set(alphas) <= set(paper.alphas_for(n_devices)):
        usual = ", ".join(map(str, paper.ALPHAS))
        said.append(
            f"alpha is to scale: {', '.join(map(str, alphas))} of {n_devices} devices; {usual} of {paper.DEVICES}."
        )
    holders = sorted({int(one.parameters["holders"]) for one in schemes if one.parameters.get("holders")})
    if holders:
        said.append(
            f"Role keys are held by the {', '.join(map(str, holders))} fastest of {n_devices} devices; up to"
            f" {MANY_DEVICES} devices by all."
        )
    return said


def _with(scheme: Scheme, parameter: str, value: int, n_devices: int) -> Scheme:
    """The scheme with a parameter changed; as it is if it has none of that name."""
    if parameter not in scheme.parameters:
        return scheme
    if parameter == COLLUDERS:
        for suited in type(scheme).tolerating(value, n_devices):
            return suited
    itself: Any = scheme  # a dataclass, which the type of its base cannot say
    field = "colluders" if parameter == COLLUDERS and isinstance(scheme, RoleKeys) else parameter
    changed: Scheme = replace(itself, **{field: value})
    return changed


def paper_entries(n_devices: int, step: str = DERIVED) -> list[Entry]:
    """The curves of the paper's figures, dropping the slowest, coded keys at the best alpha, strongest baselines."""
    best = paper.to_scale(paper.BEST_ALPHA, n_devices)
    descending = [
        Conventional(),
        ConventionalFullBatch(),
        DropSlowest(paper.to_scale(paper.DROPPED, n_devices)),
        *(CodedPadded(alpha) for alpha in paper.alphas_for(n_devices)),
        CodedKeys(best),
        *(CodedFedL(delta) for delta in paper.DELTAS),
    ]
    solving = [ConventionalFullBatch(), CodedKeys(best), RoleKeys.default_for(n_devices)]
    return [
        *(Entry(scheme, step=step) for scheme in descending),
        *(Entry(scheme, DEFAULT_SOLVER, step) for scheme in solving),
    ]
