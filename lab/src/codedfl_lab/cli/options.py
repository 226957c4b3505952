"""Options that several commands of the laboratory share, besides those of all commands: in groups, and one by one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import click
import typer

from codedfl.cli.options import Label, in_data, refuse_unread
from codedfl.cli.settings import in_settings
from codedfl.data.features import FEATURE_MAPS
from codedfl.errors import InvalidInput
from codedfl_lab.comparing import paper
from codedfl_lab.costs.times import Conditions
from codedfl_lab.fleet.fleet import Fleet
from codedfl_lab.fleet.latency import SharingConvention
from codedfl_lab.problems.partition import PARTITIONS

# An option under a heading of the help.
in_model = partial(typer.Option, rich_help_panel="Model")
in_fleet = partial(typer.Option, rich_help_panel="Fleet")

# -- one by one

FleetName = Annotated[
    str,
    in_fleet(
        "--fleet",
        metavar="FLEET",
        help="paper; heavy-tailed, congested, coming-and-going or drifting, which are the paper's devices with other"
        " stragglers; fast-processors; or a fleet file (TOML). Its mix is scaled to D devices. +pareto:shape=1.2 behind"
        " it puts a latency model on top: pareto, places, vanishing, drift, or one of another package.",
    ),
]


def usual_sharing(fleet: Fleet) -> SharingConvention:
    """For every command alike: mean times, as ``Conditions`` has it; where stragglers are modelled, drawn ones."""
    return "per-message" if fleet.latency_models else Conditions.sharing


def sharing_said(fleet: Fleet, asked: str | None) -> list[str]:
    """A line where the fleet chose another rule of sharing than the usual one."""
    usual = usual_sharing(fleet)
    if asked is not None or usual == Conditions.sharing:
        return []
    return [
        f"Sharing is timed by the rule {usual!r}, each message drawn, and not by the usual {Conditions.sharing!r}: the"
        f" fleet {fleet.name!r} has latency models, which mean times would hide."
    ]


_SHARING_SHOWN = "authors; per-message where the fleet has latency models, which means would hide"
_SHARING_HELP = (
    "How the sharing phase is timed: by the authors' formula, message by message, or with the bulk uploaded once and"
    " relayed."
)
Sharing = Annotated[
    str | None,
    in_settings(
        click_type=click.Choice(list(get_args(SharingConvention))), help=_SHARING_HELP, show_default=_SHARING_SHOWN
    ),
]
ALL_SHARING = "all"
SharingOrAll = Annotated[
    str | None,
    in_settings(
        click_type=click.Choice([*get_args(SharingConvention), ALL_SHARING]),
        help=f"{_SHARING_HELP} {ALL_SHARING.capitalize()} makes a table of each.",
        show_default=_SHARING_SHOWN,
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Draws the features, the partition and the latencies. The test rows of a file do not depend on it.",
    ),
]

# -- groups


@dataclass(frozen=True)
class DataOptions:
    """What to read, and who holds which rows."""

    label: Label = None
    device: Annotated[
        str | None,
        in_data(
            "--device-column", metavar="COLUMN", help="Column of a file that names the device each row belongs to."
        ),
    ] = None
    task: Annotated[
        str | None,
        in_data(
            click_type=click.Choice(["classification", "regression"]),
            help="What a file's labels are.",
            show_default="decided by the labels",
        ),
    ] = None
    test_fraction: Annotated[
        float | None, in_settings(help="Part of a file's rows to test on.", show_default="0.2")
    ] = None
    partition: Annotated[
        str | None,
        in_data(
            click_type=click.Choice(list(PARTITIONS)),
            help="Who holds which rows.",
            show_default="device if there is a device column, else sorted by label",
        ),
    ] = None
    concentration: Annotated[
        float | None,
        in_settings(
            help="With --partition dirichlet: a small number makes the devices differ more.", show_default="0.5"
        ),
    ] = None
    data_dir: Annotated[
        Path | None,
        in_settings(help="Where the files of mnist and fashion-mnist may be; CODEDFL_DATA does the same."),
    ] = None
    columns: Annotated[
        str | None, in_data(metavar="A,B", help="Columns of a file to learn from.", show_default="all")
    ] = None
    drop: Annotated[str | None, in_settings(metavar="A,B", help="Columns of a file to leave out.")] = None

    def __post_init__(self) -> None:
        if self.partition != "dirichlet":
            refuse_unread("concentration", self.concentration, "any partition but dirichlet")


@dataclass(frozen=True)
class ModelOptions:
    """From rows to features, and how far their weights are held back."""

    features: Annotated[
        str,
        in_model(
            metavar="NAME",
            help="rbf: random features of a Gaussian kernel; linear: the columns themselves; scattering: wavelet "
            "scattering of pictures; or a map that another package adds.",
        ),
    ] = "rbf"
    n_features: Annotated[
        int | None,
        in_model(
            metavar="d",
            min=1,
            help="Random features.",
            show_default=f"{paper.FEATURES}; 500 below 10 000 training rows; 800 for digits-shifted",
        ),
    ] = None
    gamma: Annotated[
        float | None,
        in_settings(
            help="In the kernel exp(-gamma |x - x'|^2): a large one tells nearby rows apart.",
            show_default="15.68 / (columns x width^2), the width being 1 for pixels and 8 for standardised columns",
        ),
    ] = None
    regularisation: Annotated[
        float | None,
        in_settings(
            metavar="LAMBDA",
            help="Ridge parameter.",
            show_default=f"{paper.REGULARISATION:g} (the paper's); 1e-3 for regression, whose targets are noisy",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.features not in FEATURE_MAPS or FEATURE_MAPS[self.features].required:
            known = [name for name, one in FEATURE_MAPS.items() if not one.required]
            raise InvalidInput(f"--features must be one of {', '.join(known)}, got {self.features!r}")
        if self.features == "linear":
            refuse_unread("--n-features", self.n_features, "--features linear, which takes the columns")
            refuse_unread("gamma", self.gamma, "--features linear, which has no kernel")
        elif self.features == "scattering":
            refuse_unread("--n-features", self.n_features, "--features scattering, whose number the picture says")
            refuse_unread("gamma", self.gamma, "--features scattering, which has no kernel")


@dataclass(frozen=True)
class FleetOptions:
    """Who the devices are."""

    devices: Annotated[
        int | None,
        in_fleet(
            metavar="D",
            help="Number of devices the rows are dealt out to.",
            show_default="as many as the fleet has, paper: 25; with a device column what it says",
        ),
    ] = None
    fleet_name: FleetName = paper.FLEET
